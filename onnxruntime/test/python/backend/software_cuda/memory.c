// Copyright (c) Microsoft Corporation. All rights reserved.
// Licensed under the MIT License.

// Memory of the devices, pinned memory of the host, copies and fills.
//
// Each allocation is mapped for itself, and once freed its addresses stay unreadable and are never given out again: a
// replay into freed memory is a segmentation fault and not somebody else's data.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime.h"

enum { PAGE = 4096, DEVICES = 64 };
enum { UNREGISTERED, HOST, DEVICE }; // cudaMemoryType

typedef struct {
  char *start;
  size_t size, mapped;
  int type, device;
} block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static block *blocks; // in the order of their addresses
static size_t count, room;
static size_t used[DEVICES];

// How many blocks start at or below an address. Under the lock.
static size_t rank(const void *address) {
  size_t low = 0, high = count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (blocks[middle].start <= (const char *)address) low = middle + 1;
    else high = middle;
  }
  return low;
}

// The block that an address lies in; of type UNREGISTERED where it is not ours.
static block find(const void *address) {
  block found = {.type = UNREGISTERED, .device = -2};
  pthread_mutex_lock(&lock);
  size_t below = rank(address);
  if (below && (const char *)address < blocks[below - 1].start + blocks[below - 1].size) found = blocks[below - 1];
  pthread_mutex_unlock(&lock);
  return found;
}

static int allocate(void **pointer, size_t size, int type) {
  *pointer = NULL;
  if (!size) return SUCCESS;
  block b = {.size = size, .mapped = (size + PAGE - 1) & ~(size_t)(PAGE - 1), .type = type};
  cudaGetDevice(&b.device);
  pthread_mutex_lock(&lock);
  int full = type == DEVICE && used[b.device] + b.mapped > soft.memory;
  if (!full) {
    b.start = mmap(NULL, b.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    full = b.start == MAP_FAILED;
  }
  if (!full) {
    if (type == DEVICE) used[b.device] += b.mapped;
    if (count == room) blocks = realloc(blocks, (room = 2 * room + 64) * sizeof *blocks);
    size_t at = rank(b.start);
    memmove(blocks + at + 1, blocks + at, (count++ - at) * sizeof *blocks);
    blocks[at] = b;
  }
  pthread_mutex_unlock(&lock);
  if (full) return OUT_OF_MEMORY;
  soft_log("%s of %zu bytes: %p", type == DEVICE ? "device memory" : "pinned memory", size, (void *)b.start);
  return *pointer = b.start, SUCCESS;
}

static int release(void *pointer) {
  if (!pointer) return SUCCESS;
  soft_finish_all();
  pthread_mutex_lock(&lock);
  size_t at = rank(pointer);
  int known = at && blocks[at - 1].start == pointer;
  if (known) {
    block b = blocks[at - 1];
    memmove(blocks + at - 1, blocks + at, (count-- - at) * sizeof *blocks);
    if (b.type == DEVICE) used[b.device] -= b.mapped;
    mmap(b.start, b.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  }
  pthread_mutex_unlock(&lock);
  if (known) soft_log("freed %p", pointer);
  return known ? SUCCESS : INVALID_VALUE;
}

int cudaMalloc(void **pointer, size_t size) {
  FORBIDDEN_WHILE_CAPTURING;
  RETURN(allocate(pointer, size, DEVICE));
}

int cudaFree(void *pointer) {
  FORBIDDEN_WHILE_CAPTURING;
  RETURN(release(pointer));
}

int cudaHostAlloc(void **pointer, size_t size, unsigned flags) {
  (void)flags;
  FORBIDDEN_WHILE_CAPTURING;
  RETURN(allocate(pointer, size, HOST));
}

int cudaMallocHost(void **pointer, size_t size) { return cudaHostAlloc(pointer, size, 0); }

int cudaFreeHost(void *pointer) {
  FORBIDDEN_WHILE_CAPTURING;
  RETURN(release(pointer));
}

int cudaMemGetInfo(size_t *left, size_t *total) {
  int device;
  cudaGetDevice(&device);
  pthread_mutex_lock(&lock);
  *total = soft.memory;
  *left = soft.memory - used[device];
  pthread_mutex_unlock(&lock);
  return SUCCESS;
}

int cudaPointerGetAttributes(void *attributes, void *pointer) {
  struct {
    int type, device;
    void *on_device, *on_host;
    long reserved[8];
  } answer = {.on_host = pointer};
  block b = find(pointer);
  answer.type = b.type;
  answer.device = b.device;
  if (b.type != UNREGISTERED) answer.on_device = pointer;
  if (b.type == DEVICE) answer.on_host = NULL;
  memcpy(attributes, &answer, sizeof answer);
  return SUCCESS;
}

// ---- copies ----

typedef struct {
  void *to;
  const void *from;
  size_t to_pitch, from_pitch, width, height;
} copy;

static void do_copy(void *data) {
  const copy *c = data;
  for (size_t i = 0; i < c->height; i++)
    memmove((char *)c->to + i * c->to_pitch, (const char *)c->from + i * c->from_pitch, c->width);
}

// A copy whose source was read when it was submitted.
typedef struct {
  void *to;
  size_t size;
  char bytes[];
} staged_copy;

static void do_staged_copy(void *data) {
  const staged_copy *c = data;
  memcpy(c->to, c->bytes, c->size);
}

static int submit_staged_copy(void *to_stream, const copy *c) {
  staged_copy *staged = malloc(sizeof *staged + c->width);
  staged->to = c->to;
  staged->size = c->width;
  memcpy(staged->bytes, c->from, c->width);
  int error = soft_submit(to_stream, "copy", do_staged_copy, staged, sizeof *staged + c->width);
  free(staged);
  return error;
}

static void log_copy(const copy *c, int waits) {
  static const char *const places[] = {"pageable", "pinned", "device"};
  if (soft.log > 1)
    soft_log("copy from %s to %s memory, %zu bytes%s", places[find(c->from).type], places[find(c->to).type],
             c->width * c->height, waits ? ", waiting" : "");
}

// With SOFTCUDA_LAZY, the two cases in which CUDA does not wait with the host's part of an asynchronous copy: the
// source is pageable, or the destination is.
static int submit_copy(void *to_stream, copy c) {
  if (!c.width || !c.height) return SUCCESS;
  log_copy(&c, 0);
  stream *s = soft_stream(to_stream);
  if (!s) return INVALID_HANDLE;
  if (soft.lazy && !s->capture) {
    int from = find(c.from).type, to = find(c.to).type;
    if (from == UNREGISTERED && to == DEVICE && c.height == 1) return submit_staged_copy(to_stream, &c);
    if (from == UNREGISTERED || to == UNREGISTERED) {
      int error = soft_submit(to_stream, "copy", do_copy, &c, sizeof c);
      soft_finish(s);
      return error;
    }
  }
  return soft_submit(to_stream, "copy", do_copy, &c, sizeof c);
}

int cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, void *s) {
  (void)kind; // follows from the addresses
  RETURN(submit_copy(s, (copy){to, from, 0, 0, size, 1}));
}

int cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                      int kind, void *s) {
  (void)kind;
  RETURN(submit_copy(s, (copy){to, from, to_pitch, from_pitch, width, height}));
}

int cudaMemcpy(void *to, const void *from, size_t size, int kind) {
  (void)kind;
  if (!soft.copies_in_capture) FORBIDDEN_WHILE_CAPTURING;
  if (!size) return SUCCESS;
  copy c = {to, from, 0, 0, size, 1};
  log_copy(&c, 1);
  int error = soft_submit(NULL, "copy", do_copy, &c, sizeof c);
  int on_device = find(from).type == DEVICE && find(to).type == DEVICE; // where the host does not wait
  if (!error && !on_device) soft_finish(soft_stream(NULL));
  RETURN(error);
}

// ---- fills ----

typedef struct {
  void *to;
  int value;
  size_t size;
} fill;

static void do_fill(void *data) {
  const fill *f = data;
  memset(f->to, f->value, f->size);
}

int cudaMemsetAsync(void *to, int value, size_t size, void *s) {
  RETURN(soft_submit(s, "fill", do_fill, &(fill){to, value, size}, sizeof(fill)));
}

int cudaMemset(void *to, int value, size_t size) {
  FORBIDDEN_WHILE_CAPTURING;
  return cudaMemsetAsync(to, value, size, NULL);
}
