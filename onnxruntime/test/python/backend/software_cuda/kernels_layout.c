// Copyright (c) Microsoft Corporation. All rights reserved.
// Licensed under the MIT License.

// Kernels that move elements to other places: Transpose, Concat, Split, Slice, Pad, Expand, Tile, Trilu.
#include <string.h>

#include "kernels.h"

// ---- Transpose ----

// TransposeKernel<T>(rank, strides of x by the axes of y, x, strides of y, y, count)
static void transpose(const soft_call *call) {
  size_t width = soft_width(call, 0);
  const long_array *from = &PARAMETER(call, long_array, 1);
  const divmod_array *to = &PARAMETER(call, divmod_array, 3);
  for (int64_t i = 0; i < soft_integer(call, 5); i++) {
    int64_t at = 0, left = i;
    for (int d = 0; d < soft_integer(call, 0); d++) {
      at += left / to->data[d].divisor * from->data[d];
      left %= to->data[d].divisor;
    }
    memcpy(POINTER(call, 4) + i * width, POINTER(call, 2) + at * width, width);
  }
}

// Transpose3DKernel<T, ...>(rows of x, columns, elements of a batch, x, y): each batch is a matrix.
static void transpose_batches(const soft_call *call) {
  size_t width = soft_width(call, 0);
  int64_t rows = soft_integer(call, 0), columns = soft_integer(call, 1), size = soft_integer(call, 2);
  for (int64_t i = 0; i < call->grid.z * size; i++) {
    int64_t at = i / size * size + i % size % rows * columns + i % size / rows;
    memcpy(POINTER(call, 4) + i * width, POINTER(call, 3) + at * width, width);
  }
}

// The number that a template's argument is.
static int parsed(const char *number) {
  int value = 0;
  for (; *number >= '0' && *number <= '9'; number++) value = 10 * value + *number - '0';
  return value;
}
// Transpose4DKernelParallelizeMultipleElementsPerThreadInInnermostDim<bytes of an element>(strides of x, x, strides
// of y by the axes of x, y, a size, count of 16 bytes): where the last axis stays
static void transpose_rows(const soft_call *call) {
  int64_t width = parsed(call->kernel->types[0]), count = soft_integer(call, 5) * 16 / width;
  const long_array *from = &PARAMETER(call, long_array, 0), *to = &PARAMETER(call, long_array, 2);
  for (int64_t i = 0; i < count; i++) {
    int64_t at = 0, left = i;
    for (int d = 0; d < to->size; d++) {
      at += left / from->data[d] * to->data[d];
      left %= from->data[d];
    }
    memcpy(POINTER(call, 3) + at * width, POINTER(call, 1) + i * width, width);
  }
}

// ---- Concat and Split ----

// Where an element of the joined tensor lies: in which piece, and where in that.
typedef struct {
  int piece;
  int64_t at;
} place;

static place by_size(int64_t i, int64_t along, int64_t inside, int64_t size) {
  int64_t axis = i % along / inside;
  return (place){axis / size, (i / along * size + axis % size) * inside + i % inside};
}
// By the sizes of the pieces, and the first position on the axis that is behind each.
static place by_ends(int64_t i, int64_t along, int64_t inside, const int64_t *ends) {
  int64_t axis = i % along / inside;
  int piece = 0;
  while (axis >= ends[piece]) piece++;
  int64_t start = piece ? ends[piece - 1] : 0;
  return (place){piece, (i / along * (ends[piece] - start) + axis - start) * inside + i % inside};
}
// Joins (to a piece from the whole) or splits.
static void move(char *whole, char *const *pieces, place p, int64_t i, size_t width, int join) {
  char *piece = pieces[p.piece] + p.at * width;
  memcpy(join ? whole + i * width : piece, join ? piece : whole + i * width, width);
}
// The pointers to the pieces: a parameter, or in the device's memory.
static char *const *pieces_of(const soft_call *call, int i) {
  return call->kernel->size[i] == 8 ? PARAMETER(call, char **, i) : PARAMETER(call, pointer_array, i).data;
}
static int64_t divisor(const soft_call *call, int i) { return PARAMETER(call, divmod, i).divisor; }

// _ConcatKernelSameConcatDim<T, ...>(elements along the axis, inside it, size of each piece, y, pieces, count)
static void concat_same(const soft_call *call) {
  size_t width = soft_width(call, 0);
  for (int64_t i = 0; i < soft_integer(call, 5); i++)
    move(POINTER(call, 3), pieces_of(call, 4), by_size(i, divisor(call, 0), divisor(call, 1), divisor(call, 2)), i,
         width, 1);
}
// _ConcatKernel<T>(along, inside, sizes, their running sums, piece of each place of the axis, y, pieces, count)
static void concat(const soft_call *call) {
  size_t width = soft_width(call, 0);
  for (int64_t i = 0; i < soft_integer(call, 7); i++)
    move(POINTER(call, 5), pieces_of(call, 6),
         by_ends(i, divisor(call, 0), divisor(call, 1), PARAMETER(call, int64_t *, 3)), i, width, 1);
}
// _ConcatKernelOutputMajor<T>(along, inside, running sums of the sizes, y, pieces, count)
static void concat_few(const soft_call *call) {
  size_t width = soft_width(call, 0);
  for (int64_t i = 0; i < soft_integer(call, 5); i++)
    move(POINTER(call, 3), pieces_of(call, 4),
         by_ends(i, divisor(call, 0), divisor(call, 1), PARAMETER(call, long_array, 2).data), i, width, 1);
}
// _SplitKernelSameSplitDim<T, ...>(along, inside, size of each piece, number of pieces, x, pieces, count)
static void split_same(const soft_call *call) {
  size_t width = soft_width(call, 0);
  for (int64_t i = 0; i < soft_integer(call, 6); i++)
    move(POINTER(call, 4), pieces_of(call, 5), by_size(i, divisor(call, 0), divisor(call, 1), divisor(call, 2)), i,
         width, 0);
}
// _SplitKernel<T>(along, inside, sizes, their running sums, piece of each place of the axis, number of pieces, x,
// pieces, count)
static void split(const soft_call *call) {
  size_t width = soft_width(call, 0);
  for (int64_t i = 0; i < soft_integer(call, 8); i++)
    move(POINTER(call, 6), pieces_of(call, 7),
         by_ends(i, divisor(call, 0), divisor(call, 1), PARAMETER(call, int64_t *, 3)), i, width, 0);
}

// _SplitSmallInnerKernel<T>(bytes of each piece in a row, x, pieces, bytes of a row, count of T)
static void split_rows(const soft_call *call) {
  const long_array *sizes = &PARAMETER(call, long_array, 0);
  int64_t row = soft_integer(call, 3), rows = soft_integer(call, 4) * soft_width(call, 0) / row;
  const char *x = POINTER(call, 1);
  for (int64_t i = 0; i < rows; i++)
    for (int j = 0; j < sizes->size; j++) {
      memcpy(PARAMETER(call, pointer_array, 2).data[j] + i * sizes->data[j], x, sizes->data[j]);
      x += sizes->data[j];
    }
}

// ---- Slice, Pad ----

// _SliceKernel<false, rank, T>(starts, steps, strides of x, strides of y, x, y, count)
static void slice(const soft_call *call) {
  if (strcmp(call->kernel->types[0], "false") != 0) soft_die("the gradient of Slice is not implemented");
  size_t width = soft_width(call, 2);
  int rank = parsed(call->kernel->types[1]);
  const long_array *starts = &PARAMETER(call, long_array, 0), *steps = &PARAMETER(call, long_array, 1);
  const long_array *from = &PARAMETER(call, long_array, 2);
  for (int64_t i = 0; i < soft_integer(call, 6); i++) {
    int64_t at = 0, left = i;
    for (int d = 0; d < rank; d++) {
      int64_t size = d < rank - 1 ? PARAMETER(call, divmod_array, 3).data[d].divisor : 1;
      at += (starts->data[d] + left / size * steps->data[d]) * from->data[d];
      left %= size;
    }
    memcpy(POINTER(call, 5) + i * width, POINTER(call, 4) + at * width, width);
  }
}

// _PadNCHWInputWithPaddingAlongHAndWKernel<T, mode>(batch, channels, rows of x, rows of y, columns of x, columns of y,
// rows before x, columns before x, value, x, y, count)
enum { CONSTANT, REFLECT, EDGE };
static int64_t padded(int64_t at, int64_t size, int mode) {
  if (at >= 0 && at < size) return at;
  if (mode == EDGE) return at < 0 ? 0 : size - 1;
  return mode == REFLECT ? at < 0 ? -at : 2 * (size - 1) - at : -1;
}
static void pad_images(const soft_call *call) {
  size_t width = soft_width(call, 0);
  int mode = parsed(call->kernel->types[1]);
  if (mode > EDGE) soft_die("no such kernel: %s", call->kernel->text);
  int64_t x_rows = soft_integer(call, 2), y_rows = soft_integer(call, 3);
  int64_t x_columns = soft_integer(call, 4), y_columns = soft_integer(call, 5);
  for (int64_t i = 0; i < soft_integer(call, 11); i++) {
    int64_t row = padded(i / y_columns % y_rows - soft_integer(call, 6), x_rows, mode);
    int64_t column = padded(i % y_columns - soft_integer(call, 7), x_columns, mode);
    int64_t at = (i / (y_rows * y_columns) * x_rows + row) * x_columns + column;
    const char *from = row < 0 || column < 0 ? &PARAMETER(call, char, 8) : POINTER(call, 9) + at * width;
    memcpy(POINTER(call, 10) + i * width, from, width);
  }
}

// ---- Expand, Tile ----

// ExpandKernel2D<T>(count, x, y, length of y's rows, step between x's rows, step within a row)
static void expand_rows(const soft_call *call) {
  size_t width = soft_width(call, 0);
  for (int64_t i = 0; i < soft_integer(call, 0); i++) {
    int64_t at = i / divisor(call, 3) * PARAMETER(call, int, 4) + i % divisor(call, 3) * PARAMETER(call, int, 5);
    memcpy(POINTER(call, 2) + i * width, POINTER(call, 1) + at * width, width);
  }
}
// ExpandKernel<T, ...>(rank, count, x, y, strides of y, strides of x)
static void expand(const soft_call *call) {
  size_t width = soft_width(call, 0);
  for (int64_t i = 0; i < soft_integer(call, 1); i++) {
    int64_t at = 0, left = i;
    for (int d = 0; d < soft_integer(call, 0); d++) {
      at += left / PARAMETER(call, divmod_array, 4).data[d].divisor * PARAMETER(call, long_array, 5).data[d];
      left %= PARAMETER(call, divmod_array, 4).data[d].divisor;
    }
    memcpy(POINTER(call, 3) + i * width, POINTER(call, 2) + at * width, width);
  }
}
// _TileMemcpyKernelFromOutput<T>(x, y, elements of x, count)
static void tile_all(const soft_call *call) {
  size_t width = soft_width(call, 0);
  for (int64_t i = 0; i < soft_integer(call, 3); i++)
    memcpy(POINTER(call, 1) + i * width, POINTER(call, 0) + i % divisor(call, 2) * width, width);
}
// _TileBatchedMemcpyKernelFromOutput<T>(x, y, elements of a batch of y, of a batch of x, batches of x, elements of a
// batch of x, count)
static void tile_batches(const soft_call *call) {
  size_t width = soft_width(call, 0);
  for (int64_t i = 0; i < soft_integer(call, 6); i++) {
    int64_t batch = i / divisor(call, 2) % divisor(call, 4);
    int64_t at = batch * soft_integer(call, 3) + i % divisor(call, 2) % divisor(call, 5);
    memcpy(POINTER(call, 1) + i * width, POINTER(call, 0) + at * width, width);
  }
}
// _UnRolledTileKernel<T>(rank, sizes of x, strides of x, x, strides of y, y, count)
static void tile(const soft_call *call) {
  size_t width = soft_width(call, 0);
  for (int64_t i = 0; i < soft_integer(call, 6); i++) {
    int64_t at = 0, left = i;
    for (int d = 0; d < soft_integer(call, 0); d++) {
      int64_t stride = PARAMETER(call, divmod_array, 4).data[d].divisor;
      at += left / stride % PARAMETER(call, divmod_array, 1).data[d].divisor * PARAMETER(call, long_array, 2).data[d];
      left %= stride;
    }
    memcpy(POINTER(call, 5) + i * width, POINTER(call, 3) + at * width, width);
  }
}

// ---- Trilu ----

// TriluKernel<T, upper>(k, x, y, count, elements of a matrix, length of a row)
static void trilu(const soft_call *call) {
  size_t width = soft_width(call, 0);
  int upper = strcmp(call->kernel->types[1], "true") == 0;
  for (int64_t i = 0; i < soft_integer(call, 3); i++) {
    int64_t inside = i % divisor(call, 4), above = inside % divisor(call, 5) - inside / divisor(call, 5);
    int kept = upper ? above >= soft_integer(call, 0) : above <= soft_integer(call, 0);
    char *y = POINTER(call, 2) + i * width;
    if (kept) memcpy(y, POINTER(call, 1) + i * width, width);
    else memset(y, 0, width);
  }
}

const soft_entry soft_layout[] = {
    {"cuda::TransposeKernel", transpose, NULL},
    {"cuda::Transpose3DKernel", transpose_batches, NULL},
    {"cuda::Transpose4DKernelParallelizeMultipleElementsPerThreadInInnermostDim", transpose_rows, NULL},
    {"cuda::_ConcatKernelSameConcatDim", concat_same, NULL},
    {"cuda::_ConcatKernelOutputMajor", concat_few, NULL},
    {"cuda::_ConcatKernel", concat, NULL},
    {"cuda::_SplitKernelSameSplitDim", split_same, NULL},
    {"cuda::_SplitKernel", split, NULL},
    {"cuda::_SplitSmallInnerKernel", split_rows, NULL},
    {"cuda::_PadNCHWInputWithPaddingAlongHAndWKernel", pad_images, NULL},
    {"cuda::_SliceKernel", slice, NULL},
    {"cuda::ExpandKernel2D", expand_rows, NULL},
    {"cuda::ExpandKernel", expand, NULL},
    {"cuda::_TileMemcpyKernelFromOutput", tile_all, NULL},
    {"cuda::_TileBatchedMemcpyKernelFromOutput", tile_batches, NULL},
    {"cuda::_UnRolledTileKernel", tile, NULL},
    {"cuda::TriluKernel", trilu, NULL},
    {0}};
