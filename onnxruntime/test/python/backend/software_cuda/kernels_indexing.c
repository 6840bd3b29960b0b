// Copyright (c) Microsoft Corporation. All rights reserved.
// Licensed under the MIT License.

// Kernels whose places are computed from indices: Gather, GatherND, ScatterND, OneHot, Range.
#include <stdlib.h>
#include <string.h>

#include "kernels.h"

// The i-th of indices of so many bytes.
static int64_t index_at(const void *indices, int64_t i, size_t bytes) {
  return bytes == 8 ? ((const int64_t *)indices)[i] : ((const int *)indices)[i];
}

// A negative index counts from the end.
static int64_t wrapped(int64_t index, int64_t size) { return index < 0 ? index + size : index; }

// _GatherKernel<T>(elements of x along the axis, size of the axis, elements of y along it, elements inside it, indices,
// bytes of an index, x, y, count). Zero where an index is outside.
static void gather(const soft_call *call) {
  size_t width = soft_width(call, 0);
  int64_t along = soft_integer(call, 0), size = soft_integer(call, 1);
  int64_t block = PARAMETER(call, divmod, 2).divisor, inside = PARAMETER(call, divmod, 3).divisor;
  for (int64_t i = 0; i < soft_integer(call, 8); i++) {
    int64_t which = i % block / inside;
    int64_t index = wrapped(index_at(POINTER(call, 4), which, soft_integer(call, 5)), size);
    char *y = POINTER(call, 7) + i * width;
    if (index < 0 || index >= size) memset(y, 0, width);
    else memcpy(y, POINTER(call, 6) + (i / block * along + index * inside + i % inside) * width, width);
  }
}

// _ComputeSliceOffsetsKernel<I>(batch dimensions, sizes of x, number of slices, slices of a batch, elements of a batch,
// numbers of an index, elements of a slice for each, indices, offsets of the slices)
static void slice_offsets(const soft_call *call) {
  int64_t batch_dimensions = soft_integer(call, 0), length = soft_integer(call, 5);
  for (int64_t i = 0; i < soft_integer(call, 2); i++) {
    int64_t offset = i / soft_integer(call, 3) * soft_integer(call, 4);
    for (int64_t d = 0; d < length; d++) {
      int64_t index = index_at(POINTER(call, 7), i * length + d, soft_width(call, 0));
      offset += wrapped(index, PARAMETER(call, long_array, 1).data[batch_dimensions + d]) *
                PARAMETER(call, long_array, 6).data[d];
    }
    PARAMETER(call, int64_t *, 8)[i] = offset;
  }
}

// _GatherNDKernel<T>(slices, x, y, elements of a slice, offsets of the slices)
static void gather_slices(const soft_call *call) {
  size_t width = soft_width(call, 0), size = soft_integer(call, 3);
  for (size_t i = 0; i < soft_integer(call, 0) * size; i++)
    memcpy(POINTER(call, 2) + i * width,
           POINTER(call, 1) + (PARAMETER(call, int64_t *, 4)[i / size] + i % size) * width, width);
}

// What an update does to an element; of floats. Without one, the element is replaced.
typedef void (*reduction)(char *to, const char *update);
#define REDUCTION(name, expression)                                               \
  static void name(char *to, const char *update) {                                \
    float a = *(float *)to, b = *(const float *)update;                           \
    *(float *)to = expression;                                                    \
  }
REDUCTION(add, a + b)
REDUCTION(mul, a *b)
REDUCTION(max, a > b ? a : b)
REDUCTION(min, a < b ? a : b)
static void replace(char *to, const char *update) {
  (void)to, (void)update;
}
static const void *reduction_of(const soft_kernel *k) {
  static const struct {
    const char *name;
    reduction function;
  } functions[] = {{"::FuncAdd<", add}, {"::FuncMul<", mul}, {"::FuncMax<", max}, {"::FuncMin<", min}};
  for (int i = 0; k->types[i]; i++) {
    if (strstr(k->types[i], "::FuncAssignment<")) return replace;
    for (size_t j = 0; j < sizeof functions / sizeof *functions; j++)
      if (strstr(k->types[i], functions[j].name) && strcmp(k->types[0], "float") == 0) return functions[j].function;
  }
  return NULL;
}
static void update(const soft_call *call, char *to, const char *from, size_t width) {
  reduction reduce = (reduction)call->kernel->operation;
  if (reduce && reduce != replace) reduce(to, from);
  else memcpy(to, from, width);
}

// _GatherScatterElementsKernel<T, I, gather, places, function>(x or updates, indices, y, size of the axis, elements
// inside it, places, function, count); y is a copy of the data already where it is scattered to
static void elements(const soft_call *call) {
  size_t width = soft_width(call, 0);
  int gathers = strcmp(call->kernel->types[2], "true") == 0;
  // How the place of an index tells the element's place, but for the axis.
  const struct {
    divmod row; // of the indices
    int step;   // from row to row
  } *flat = (void *)&PARAMETER(call, char, 5);
  const struct {
    int rank, size;
    divmod indices[8];
    int rank_of_data, data[8];
  } *general = (void *)&PARAMETER(call, char, 5);
  const char *places = strstr(call->kernel->types[3], "::OffsetCalculator");
  int is_flat = places && strstr(places, "For2D<") != NULL, first_axis = places && strstr(places, "For2D<true") != NULL;
  if (!places || (is_flat ? strstr(places, ", true>") : strstr(places, "<true>")))
    soft_die("no such kernel: %s", call->kernel->text);
  for (int64_t i = 0; i < soft_integer(call, 7); i++) {
    int64_t at = 0, left = i;
    if (is_flat) at = first_axis ? i % flat->row.divisor : i / flat->row.divisor * flat->step;
    for (int d = 0; !is_flat && d < general->rank; d++) {
      at += left / general->indices[d].divisor * (int64_t)general->data[d];
      left %= general->indices[d].divisor;
    }
    int64_t index = index_at(POINTER(call, 1), i, soft_width(call, 1));
    at += wrapped(index, soft_integer(call, 3)) * soft_integer(call, 4);
    if (gathers) memcpy(POINTER(call, 2) + i * width, POINTER(call, 0) + at * width, width);
    else update(call, POINTER(call, 2) + at * width, POINTER(call, 0) + i * width, width);
  }
}

// _ScatterNDKernel<T>(y, number of indices, indices, numbers of an index, elements of a slice for each and then sizes
// of x, updates, elements of an update); ...Reduction has a function of T at the end. y is a copy of the data already.
static void scatter_nd(const soft_call *call) {
  enum { IN_PLACE = 12 };
  size_t width = soft_width(call, 0), slice = soft_integer(call, 6);
  int64_t length = soft_integer(call, 3);
  const int64_t *elements = &PARAMETER(call, int64_t, 4);
  if (2 * length > IN_PLACE) elements = *(int64_t *const *)(elements + IN_PLACE);
  for (int64_t i = 0; i < soft_integer(call, 1); i++) {
    int64_t offset = 0;
    for (int64_t d = 0; d < length; d++)
      offset += wrapped(PARAMETER(call, int64_t *, 2)[i * length + d], elements[length + d]) * elements[d];
    for (size_t j = 0; j < slice; j++)
      update(call, POINTER(call, 0) + (offset + j) * width, POINTER(call, 5) + (i * slice + j) * width, width);
  }
}

// _OneHotWithZeroOffValueImpl<I, T>(indices, elements inside the axis, size of the axis, value, y, count of indices):
// y is zero already
static void one_hot(const soft_call *call) {
  size_t width = soft_width(call, 1);
  int64_t inside = PARAMETER(call, divmod, 1).divisor, size = soft_integer(call, 2);
  for (int64_t i = 0; i < soft_integer(call, 5); i++) {
    int64_t index = wrapped(index_at(POINTER(call, 0), i, soft_width(call, 0)), size);
    if (index >= 0 && index < size)
      memcpy(POINTER(call, 4) + ((i / inside * size + index) * inside + i % inside) * width, &PARAMETER(call, char, 3),
             width);
  }
}

// RangeKernel<T>(start, step, count, y)
static void range(const soft_call *call) {
  for (int64_t i = 0; i < soft_integer(call, 2); i++)
    switch (call->kernel->types[0][0]) {
      case 'f': PARAMETER(call, float *, 3)[i] = PARAMETER(call, float, 0) + i * PARAMETER(call, float, 1); break;
      case 'i': PARAMETER(call, int *, 3)[i] = PARAMETER(call, int, 0) + i * PARAMETER(call, int, 1); break;
      case 'l': PARAMETER(call, int64_t *, 3)[i] = PARAMETER(call, int64_t, 0) + i * PARAMETER(call, int64_t, 1); break;
      default: soft_die("no such kernel: %s", call->kernel->text);
    }
}

const soft_entry soft_indexing[] = {
    {"cuda::_GatherKernel", gather, NULL},
    {"cuda::_ComputeSliceOffsetsKernel", slice_offsets, NULL},
    {"cuda::_GatherNDKernel", gather_slices, NULL},
    {"cuda::_GatherScatterElementsKernel", elements, reduction_of},
    {"cuda::_ScatterNDKernel", scatter_nd, NULL},
    {"cuda::_ScatterNDKernelReduction", scatter_nd, reduction_of},
    {"cuda::_OneHotWithZeroOffValueImpl", one_hot, NULL},
    {"cuda::RangeKernel", range, NULL},
    {0}};
