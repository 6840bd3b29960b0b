// Copyright (c) Microsoft Corporation. All rights reserved.
// Licensed under the MIT License.

// What the libraries of the software CUDA share. Written from the documented interface of CUDA 13.
#ifndef SOFTWARE_CUDA_H
#define SOFTWARE_CUDA_H

#include <stddef.h>
#include <stdint.h>

// Those of cudaError_t that are returned here.
enum {
  SUCCESS = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  INVALID_DEVICE_FUNCTION = 98,
  NO_DEVICE = 100,
  INVALID_DEVICE = 101,
  INVALID_HANDLE = 400,
  ILLEGAL_STATE = 401,
  CAPTURE_UNSUPPORTED = 900,
  CAPTURE_INVALIDATED = 901,
  CAPTURE_ISOLATION = 905,
  CAPTURE_WRONG_THREAD = 908
};

// The environment as it was when the library was loaded. README.md says what each means.
typedef struct {
  int devices;              // SOFTCUDA_DEVICES
  size_t memory;            // SOFTCUDA_MEMORY_MIB, in bytes
  int log;                  // SOFTCUDA_LOG
  int lazy;                 // SOFTCUDA_LAZY
  int capture_us;           // SOFTCUDA_CAPTURE_US
  int replay_us;            // SOFTCUDA_REPLAY_US
  int copies_in_capture;    // SOFTCUDA_COPY_IN_CAPTURE
} soft_settings;
extern soft_settings soft;

// printf to stderr with SOFTCUDA_LOG, and to stderr before the process is aborted.
void soft_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
void soft_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
// Says once that a function was called which does nothing here.
void soft_nothing(const char *name, int *called);

// A piece of work: run(data), where data is a copy of what was submitted.
typedef void (*soft_work)(void *data);
// Gives a stream work. It is done now, or when something waits for it, or recorded where the stream captures.
// Returns a cudaError_t.
int soft_submit(void *stream, const char *what, soft_work run, const void *data, size_t size);

// Numbers of half precision.
float soft_half_to_float(uint16_t half);
uint16_t soft_float_to_half(float number);

#endif
