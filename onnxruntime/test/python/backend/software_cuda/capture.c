// Copyright (c) Microsoft Corporation. All rights reserved.
// Licensed under the MIT License.

// Capture of streams, and graphs: work recorded with the addresses it was given, and done again with the same ones.
#include <stdlib.h>
#include <time.h>

#include "runtime.h"

// cudaStreamCaptureMode; the third, relaxed, forbids nothing.
enum { GLOBAL, THREAD_LOCAL, RELAXED };

struct capture {
  capture *next;
  int mode, broken;
  pthread_t owner;
  work_list recorded;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static capture *captures; // those that go on, in any thread
static int going_on;      // how many; read without the lock

static void wait_us(int us) {
  if (us) nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000L}, NULL);
}

int soft_forbidden(const char *function) {
  int met = 0;
  if (!__atomic_load_n(&going_on, __ATOMIC_ACQUIRE)) return SUCCESS;
  pthread_mutex_lock(&lock);
  for (capture *c = captures; c; c = c->next)
    if (c->mode == GLOBAL || (c->mode == THREAD_LOCAL && pthread_equal(c->owner, pthread_self())))
      c->broken = met = 1;
  pthread_mutex_unlock(&lock);
  if (met) soft_log("%s while a stream captures: that capture is invalid now", function);
  return met ? CAPTURE_UNSUPPORTED : SUCCESS;
}

void soft_break(capture *c) { c->broken = 1; }

int soft_record(stream *s, const char *what, soft_work run, const void *data, size_t size) {
  if (s->capture->broken) return CAPTURE_INVALIDATED;
  soft_append(&s->capture->recorded, what, run, data, size);
  return SUCCESS;
}

int cudaStreamBeginCapture(void *handle, int mode) {
  if ((uintptr_t)handle <= 2) RETURN(CAPTURE_UNSUPPORTED); // a legacy stream
  stream *s = soft_stream(handle);
  if (!s) RETURN(INVALID_HANDLE);
  if (s->capture) RETURN(ILLEGAL_STATE);
  capture *c = calloc(1, sizeof *c);
  *c = (capture){.mode = mode, .owner = pthread_self(), .recorded = {.end = &c->recorded.first}};
  pthread_mutex_lock(&lock);
  c->next = captures;
  captures = c;
  going_on++;
  pthread_mutex_unlock(&lock);
  s->capture = c;
  soft_log("capture begins on %p, mode %d", handle, mode);
  wait_us(soft.capture_us);
  return SUCCESS;
}

int cudaStreamIsCapturing(void *handle, int *status) {
  stream *s = soft_stream(handle);
  if (!s) RETURN(INVALID_HANDLE);
  return *status = !s->capture ? 0 : s->capture->broken ? 2 : 1, SUCCESS;
}

int cudaStreamEndCapture(void *handle, work_list **graph) {
  *graph = NULL;
  stream *s = soft_stream(handle);
  if (!s) RETURN(INVALID_HANDLE);
  capture *c = s->capture;
  if (!c) RETURN(ILLEGAL_STATE);
  if (c->mode != RELAXED && !pthread_equal(c->owner, pthread_self())) RETURN(CAPTURE_WRONG_THREAD);
  pthread_mutex_lock(&lock);
  capture **link = &captures;
  while (*link != c) link = &(*link)->next;
  *link = c->next;
  going_on--;
  pthread_mutex_unlock(&lock);
  s->capture = NULL;
  soft_log("capture ends on %p: %d pieces of work%s", handle, c->recorded.length, c->broken ? ", invalid" : "");
  int broken = c->broken;
  if (broken) {
    soft_drop(&c->recorded);
  } else {
    *graph = malloc(sizeof **graph);
    **graph = c->recorded;
  }
  free(c);
  RETURN(broken ? CAPTURE_INVALIDATED : SUCCESS);
}

int cudaGraphInstantiate(work_list **executable, const work_list *graph, unsigned long long flags) {
  (void)flags;
  work_list *copy = calloc(1, sizeof *copy);
  copy->end = &copy->first;
  for (work *w = graph->first; w; w = w->next) soft_append(copy, w->what, w->run, w->data, w->size);
  return *executable = copy, SUCCESS;
}

int cudaGraphDestroy(work_list *graph) {
  soft_drop(graph);
  free(graph);
  return SUCCESS;
}

int cudaGraphExecDestroy(work_list *executable) { return cudaGraphDestroy(executable); }

unsigned long soft_launched_graphs; // for tests, which look it up by its name

int cudaGraphLaunch(const work_list *executable, void *handle) {
  stream *s = soft_stream(handle);
  if (!s) RETURN(INVALID_HANDLE);
  __atomic_add_fetch(&soft_launched_graphs, 1, __ATOMIC_RELAXED);
  if (s->capture) soft_die("a graph within a graph is not implemented");
  for (work *w = executable->first; w; w = w->next) {
    if (soft.log > 1) soft_log("replay %s", w->what);
    soft_submit(handle, w->what, w->run, w->data, w->size);
  }
  wait_us(soft.replay_us);
  return SUCCESS;
}
