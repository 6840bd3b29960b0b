// Copyright (c) Microsoft Corporation. All rights reserved.
// Licensed under the MIT License.

// What the parts of libcudart share.
#ifndef SOFTWARE_CUDA_RUNTIME_H
#define SOFTWARE_CUDA_RUNTIME_H

#include <pthread.h>

#include "software_cuda.h"

// Remembers an error as the thread's last one, and returns it: how every function of the runtime ends.
int soft_returned(int error, const char *function);
#define RETURN(error) return soft_returned(error, __func__)

const char *cudaGetErrorName(int error);
int cudaGetDevice(int *device);

// ---- work (streams.c) ----
typedef struct work {
  struct work *next;
  const char *what;
  soft_work run;
  size_t size;
  char data[];
} work;

typedef struct {
  work *first, **end;
  int length;
} work_list;

void soft_append(work_list *list, const char *what, soft_work run, const void *data, size_t size);
void soft_drop(work_list *list);

typedef struct capture capture;

typedef struct stream {
  struct stream *next;
  int device, alive;
  int blocking;           // waits for the device's legacy stream, and that for it
  uint64_t given, done;   // pieces of work
  work_list pending;      // with SOFTCUDA_LAZY: what nothing has waited for
  capture *capture;       // while the stream captures
} stream;

// The stream of a handle: the current device's legacy stream for 0, 1 and 2. NULL where it was destroyed.
stream *soft_stream(void *handle);
// Does all work that a stream, or every stream, was given.
void soft_finish(stream *s);
void soft_finish_all(void);

// ---- capture (capture.c) ----
// Records work on a stream that captures.
int soft_record(stream *s, const char *what, soft_work run, const void *data, size_t size);
// Makes the capture of a stream fail.
void soft_break(capture *c);
// What a call returns that no thread may make while a stream captures in CUDA's global mode, and no thread whose own
// stream captures in its thread-local mode. The captures that it meets are invalid from then on.
int soft_forbidden(const char *function);
#define FORBIDDEN_WHILE_CAPTURING                     \
  do {                                                \
    int forbidden_ = soft_forbidden(__func__);        \
    if (forbidden_) RETURN(forbidden_);               \
  } while (0)

#endif
