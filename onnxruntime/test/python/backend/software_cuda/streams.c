// Copyright (c) Microsoft Corporation. All rights reserved.
// Licensed under the MIT License.

// Streams, events and the work they are given.
//
// Work is done at once in the thread that submits it. With SOFTCUDA_LAZY it is done when something waits for it, which
// is as late as a GPU may be, so that a missing wait shows.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime.h"

enum { DEVICES = 64 };

// Guards every queue, and is held while pending work runs. Recursive: work may be a wait for other work.
static pthread_mutex_t queues = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
// A destroyed stream is kept for the next one: events and waits may still refer to it.
static stream *streams;
static stream legacy_streams[DEVICES];

__attribute__((constructor)) static void make_legacy_streams(void) {
  for (int i = 0; i < DEVICES; i++)
    legacy_streams[i] = (stream){.device = i, .alive = 1, .pending = {.end = &legacy_streams[i].pending.first}};
}

stream *soft_stream(void *handle) {
  if ((uintptr_t)handle > 2) return ((stream *)handle)->alive ? handle : NULL;
  int device;
  cudaGetDevice(&device);
  return &legacy_streams[device];
}

static int is_legacy(const stream *s) { return s >= legacy_streams && s < legacy_streams + DEVICES; }

// ---- queues ----

void soft_append(work_list *list, const char *what, soft_work run, const void *data, size_t size) {
  work *w = malloc(sizeof *w + size);
  *w = (work){NULL, what, run, size};
  if (size) memcpy(w->data, data, size);
  *list->end = w;
  list->end = &w->next;
  list->length++;
}

void soft_drop(work_list *list) {
  for (work *w = list->first, *next; w; w = next) {
    next = w->next;
    free(w);
  }
  *list = (work_list){NULL, &list->first, 0};
}

// Does a stream's work up to the given piece.
static void finish_until(stream *s, uint64_t position) {
  pthread_mutex_lock(&queues);
  while (s->done < position) {
    work *w = s->pending.first;
    if (!(s->pending.first = w->next)) s->pending.end = &s->pending.first;
    s->pending.length--;
    s->done++;
    w->run(w->data);
    free(w);
  }
  pthread_mutex_unlock(&queues);
}

void soft_finish(stream *s) {
  if (!soft.lazy) return;
  pthread_mutex_lock(&queues);
  for (stream *other = streams; is_legacy(s) && other; other = other->next)
    if (other->blocking && other->device == s->device) finish_until(other, other->given);
  finish_until(s, s->given);
  pthread_mutex_unlock(&queues);
}

void soft_finish_all(void) {
  if (!soft.lazy) return;
  pthread_mutex_lock(&queues);
  for (int i = 0; i < DEVICES; i++) finish_until(&legacy_streams[i], legacy_streams[i].given);
  for (stream *s = streams; s; s = s->next) finish_until(s, s->given);
  pthread_mutex_unlock(&queues);
}

typedef struct {
  stream *on;
  uint64_t position;
} moment;

static void wait_for(void *data) {
  moment *m = data;
  finish_until(m->on, m->position);
}

static void give(stream *s, const char *what, soft_work run, const void *data, size_t size) {
  soft_append(&s->pending, what, run, data, size);
  s->given++;
}

static void give_wait(stream *s, stream *on, uint64_t position) {
  if (on->done < position) give(s, "wait", wait_for, &(moment){on, position}, sizeof(moment));
}

int soft_submit(void *handle, const char *what, soft_work run, const void *data, size_t size) {
  stream *s = soft_stream(handle);
  if (!s) return INVALID_HANDLE;
  if (s->capture) return soft_record(s, what, run, data, size);
  if (!soft.lazy) {
    run((void *)data);
    return SUCCESS;
  }
  pthread_mutex_lock(&queues);
  stream *legacy = &legacy_streams[s->device];
  if (s->blocking) give_wait(s, legacy, legacy->given);
  for (stream *other = streams; s == legacy && other; other = other->next)
    if (other->blocking && other->device == s->device) give_wait(s, other, other->given);
  give(s, what, run, data, size);
  pthread_mutex_unlock(&queues);
  return SUCCESS;
}

// ---- streams ----

int cudaStreamCreateWithFlags(stream **made, unsigned flags) {
  enum { NON_BLOCKING = 1 };
  pthread_mutex_lock(&queues);
  stream *s = streams;
  while (s && s->alive) s = s->next;
  if (!s) {
    s = calloc(1, sizeof *s);
    s->pending.end = &s->pending.first;
    s->next = streams;
    streams = s;
  }
  cudaGetDevice(&s->device);
  s->blocking = !(flags & NON_BLOCKING);
  s->alive = 1;
  pthread_mutex_unlock(&queues);
  return *made = s, SUCCESS;
}

int cudaStreamCreate(stream **made) { return cudaStreamCreateWithFlags(made, 0); }

int cudaStreamDestroy(stream *s) {
  if ((uintptr_t)s <= 2 || !s->alive) RETURN(INVALID_HANDLE);
  if (s->capture) soft_break(s->capture);
  pthread_mutex_lock(&queues);
  finish_until(s, s->given);
  s->alive = 0;
  pthread_mutex_unlock(&queues);
  return SUCCESS;
}

int cudaStreamSynchronize(void *handle) {
  stream *s = soft_stream(handle);
  if (!s) RETURN(INVALID_HANDLE);
  if (s->capture) {
    soft_break(s->capture);
    RETURN(CAPTURE_UNSUPPORTED);
  }
  soft_finish(s);
  return SUCCESS;
}

int cudaDeviceSynchronize(void) {
  FORBIDDEN_WHILE_CAPTURING;
  soft_finish_all();
  return SUCCESS;
}

typedef struct {
  void (*call)(void *);
  void *argument;
} host_function;

static void call_host_function(void *data) {
  host_function *f = data;
  f->call(f->argument);
}

int cudaLaunchHostFunc(void *s, void (*call)(void *), void *argument) {
  RETURN(soft_submit(s, "host function", call_host_function, &(host_function){call, argument}, sizeof(host_function)));
}

// ---- events ----

typedef struct {
  moment recorded;
  const capture *within; // the capture that it was recorded in; compared, never followed
  struct timespec when;
} event;

int cudaEventCreateWithFlags(event **made, unsigned flags) {
  (void)flags;
  return *made = calloc(1, sizeof **made), SUCCESS;
}

int cudaEventCreate(event **made) { return cudaEventCreateWithFlags(made, 0); }
int cudaEventDestroy(event *e) { return free(e), SUCCESS; }

static void nothing(void *data) { (void)data; }

int cudaEventRecordWithFlags(event *e, void *handle, unsigned flags) {
  (void)flags;
  stream *s = soft_stream(handle);
  if (!s) RETURN(INVALID_HANDLE);
  clock_gettime(CLOCK_MONOTONIC, &e->when);
  e->within = s->capture;
  pthread_mutex_lock(&queues);
  int error = s->capture ? SUCCESS : soft_submit(handle, "event", nothing, NULL, 0);
  e->recorded = (moment){s, s->given};
  pthread_mutex_unlock(&queues);
  RETURN(error);
}

int cudaEventRecord(event *e, void *s) { return cudaEventRecordWithFlags(e, s, 0); }

int cudaStreamWaitEvent(void *handle, event *e, unsigned flags) {
  (void)flags;
  stream *s = soft_stream(handle);
  if (!s) RETURN(INVALID_HANDLE);
  if (!e->recorded.on || e->recorded.on == s) return SUCCESS; // streams are in order
  if (s->capture) { // whose streams are one
    soft_break(s->capture);
    RETURN(CAPTURE_ISOLATION);
  }
  if (e->within && e->within == e->recorded.on->capture) soft_die("a second stream in a capture is not implemented");
  pthread_mutex_lock(&queues);
  give_wait(s, e->recorded.on, e->recorded.position);
  pthread_mutex_unlock(&queues);
  return SUCCESS;
}

int cudaEventSynchronize(event *e) {
  FORBIDDEN_WHILE_CAPTURING;
  if (e->recorded.on && !e->within) finish_until(e->recorded.on, e->recorded.position);
  return SUCCESS;
}

int cudaEventElapsedTime(float *milliseconds, const event *from, const event *to) {
  *milliseconds = (to->when.tv_sec - from->when.tv_sec) * 1e3f + (to->when.tv_nsec - from->when.tv_nsec) * 1e-6f;
  return SUCCESS;
}
