// Copyright (c) Microsoft Corporation. All rights reserved.
// Licensed under the MIT License.

// Kernels as they are registered when a library is loaded, and their launch.
#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "runtime.h"

typedef struct registered {
  struct registered *next;
  const void *host;             // the function that stands for the kernel on the host
  const char *mangled;
  const soft_kernel *kernel;    // found at its first launch
} registered;

enum { SLOTS = 1 << 16 };
static registered *table[SLOTS];

static registered **slot(const void *host) { return &table[(uintptr_t)host >> 4 & (SLOTS - 1)]; }

static registered *find(const void *host) {
  registered *r = *slot(host);
  while (r && r->host != host) r = r->next;
  if (!r) soft_die("a kernel that nobody registered: %p", host);
  return r;
}

void **__cudaRegisterFatBinary(void *binary) {
  (void)binary;
  static void *handle;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }
void __cudaUnregisterFatBinary(void **handle) { (void)handle; }
void __cudaRegisterVar(void **handle) { (void)handle; }

void __cudaRegisterFunction(void **handle, const void *host, char *device_function, const char *mangled) {
  (void)handle, (void)device_function;
  registered *r = malloc(sizeof *r);
  *r = (registered){*slot(host), host, mangled, NULL};
  *slot(host) = r;
}

// Between <<<...>>> and the call of the host's function.
static __thread struct {
  dim3 grid, block;
  size_t shared;
  void *stream;
} configuration;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *s) {
  configuration.grid = grid;
  configuration.block = block;
  configuration.shared = shared;
  configuration.stream = s;
  return 0;
}

int __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void **s) {
  *grid = configuration.grid;
  *block = configuration.block;
  *shared = configuration.shared;
  *s = configuration.stream;
  return SUCCESS;
}

static void run_call(void *data) {
  const soft_call *call = data;
  call->kernel->run(call);
}

static int launch(const void *host, dim3 grid, void **parameters, void *handle) {
  registered *r = find(host);
  const soft_kernel *k = __atomic_load_n(&r->kernel, __ATOMIC_ACQUIRE);
  if (!k) __atomic_store_n(&r->kernel, k = soft_kernel_named(r->mangled), __ATOMIC_RELEASE);
  int device;
  cudaGetDevice(&device);
  stream *s = soft_stream(handle);
  if (!s || s->device != device) return INVALID_HANDLE;
  char bytes[sizeof(soft_call) + k->total] __attribute__((aligned(8)));
  soft_call *call = (soft_call *)bytes;
  *call = (soft_call){k, grid};
  for (int i = 0; i < k->parameters; i++) memcpy(call->bytes + k->offset[i], parameters[i], k->size[i]);
  return soft_submit(handle, k->text, run_call, call, sizeof bytes);
}

int cudaLaunchKernel(const void *host, dim3 grid, dim3 block, void **parameters, size_t shared, void *s) {
  (void)block, (void)shared;
  RETURN(launch(host, grid, parameters, s));
}

int cudaLaunchCooperativeKernel(const void *host, dim3 grid, dim3 block, void **parameters, size_t shared, void *s) {
  (void)block, (void)shared;
  RETURN(launch(host, grid, parameters, s));
}

int cudaLaunchKernelExC(const void *configured, const void *host, void **parameters) {
  const struct {
    dim3 grid, block;
    size_t shared;
    void *stream;
  } *c = configured;
  RETURN(launch(host, c->grid, parameters, c->stream));
}

int __cudaGetKernel(const void **kernel, const void *host) { return *kernel = host, SUCCESS; }

int __cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **parameters, size_t shared, void *s) {
  return cudaLaunchKernel(kernel, grid, block, parameters, shared, s);
}

int cudaFuncGetAttributes(void *attributes, const void *host) {
  (void)host;
  struct {
    size_t shared, constant, local;
    int threads, registers, ptx, binary, unused[26];
  } answer = {.threads = 1024, .registers = 32, .ptx = 90, .binary = 90};
  memcpy(attributes, &answer, sizeof answer);
  return SUCCESS;
}

int cudaFuncSetAttribute(const void *host, int attribute, int value) {
  (void)host, (void)attribute, (void)value;
  return SUCCESS;
}

int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *host, int block, size_t shared,
                                                           unsigned flags) {
  (void)host, (void)block, (void)shared, (void)flags;
  return *blocks = 1, SUCCESS;
}
