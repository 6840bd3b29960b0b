// Copyright (c) Microsoft Corporation. All rights reserved.
// Licensed under the MIT License.

// A kernel, read from its name, and how those on the CPU see a launch of it.
#ifndef SOFTWARE_CUDA_KERNELS_H
#define SOFTWARE_CUDA_KERNELS_H

#include "software_cuda.h"

typedef struct {
  unsigned x, y, z;
} dim3;

typedef struct soft_call soft_call;

// What a mangled name tells: void NAME<TYPES>(PARAMETERS).
enum { MOST_TYPES = 16, MOST_PARAMETERS = 32 };
typedef struct {
  char *text;                    // all of it, demangled
  const char *name;              // with its namespaces
  const char *types[MOST_TYPES + 1]; // the template's arguments
  unsigned short width[MOST_TYPES + 1]; // their bytes, 0 where they are no types or unknown
  int parameters;
  const char *parameter[MOST_PARAMETERS];
  unsigned short size[MOST_PARAMETERS], offset[MOST_PARAMETERS], total;
  void (*run)(const soft_call *);
  const void *operation;         // of an elementwise kernel
} soft_kernel;

struct soft_call {
  const soft_kernel *kernel;
  dim3 grid;
  char bytes[]; // the parameters, each at its offset
};

// A parameter of a call, by its number.
#define PARAMETER(call, type, i) (*(type *)((call)->bytes + (call)->kernel->offset[i]))
#define POINTER(call, i) PARAMETER(call, char *, i)
// One that is of 4 or 8 bytes, depending on the kernel's types.
int64_t soft_integer(const soft_call *call, int i);

// onnxruntime::cuda::DivMod<int>, which divides by multiplying, and TArray<T, capacity>.
typedef struct {
  int divisor;
  unsigned multiplier;
  int shift;
} divmod;
typedef struct {
  int size;
  int64_t data[32];
} long_array;
typedef struct {
  int size;
  divmod data[32];
} divmod_array;
typedef struct {
  int size;
  char *data[32];
} pointer_array;

// The kernel that a mangled name stands for. Ends the process where there is none on the CPU, or where the size of a
// parameter is not known.
const soft_kernel *soft_kernel_named(const char *mangled);

// Bytes of the type that is a template's argument of a kernel. Ends the process where it is not known.
size_t soft_width(const soft_call *call, int i);

// Bytes of a type of C++, of a pointer, or of one of the structures above; 0 where it is not known.
size_t soft_size_of(const char *type);

// ---- tables of kernels, each ended by an entry without a name ----
typedef struct {
  const char *name; // below onnxruntime::
  void (*run)(const soft_call *);
  // Finds the operation of an elementwise kernel, NULL where there is none. May be NULL.
  const void *(*operation)(const soft_kernel *);
} soft_entry;
extern const soft_entry soft_elementwise[], soft_layout[], soft_indexing[], soft_reductions[], soft_fusions[];

#endif
