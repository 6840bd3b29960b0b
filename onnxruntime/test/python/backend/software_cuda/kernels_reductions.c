// Copyright (c) Microsoft Corporation. All rights reserved.
// Licensed under the MIT License.

// Kernels that make few numbers of many: Softmax, normalizations, sums, the greatest, running sums. Of float.
#include <math.h>
#include <string.h>

#include "kernels.h"

// For entries of kernels that are here for float only.
static const void *only_float(const soft_kernel *k) {
  for (int i = 0; k->types[i]; i++)
    if (strcmp(k->types[i], "double") == 0 || strstr(k->types[i], "half") || strstr(k->types[i], "loat16")) return NULL;
  return k;
}
static int is_true(const char *type) { return strcmp(type, "true") == 0; }

// ---- Softmax ----

static void softmax_row(float *y, const float *x, int64_t count, int logarithm) {
  double sum = 0;
  float most = -INFINITY;
  for (int64_t i = 0; i < count; i++) most = fmaxf(most, x[i]);
  for (int64_t i = 0; i < count; i++) sum += exp(x[i] - most);
  for (int64_t i = 0; i < count; i++) y[i] = logarithm ? x[i] - most - log(sum) : exp(x[i] - most) / sum;
}
// softmax_warp_forward<X, Y, sum, log2 of the size, logarithm>(y, x, rows, step of a row, size)
static void softmax_small(const soft_call *call) {
  int logarithm = is_true(call->kernel->types[4]);
  int64_t step = soft_integer(call, 3);
  for (int64_t i = 0; i < soft_integer(call, 2); i++)
    softmax_row(PARAMETER(call, float *, 0) + i * step, PARAMETER(call, float *, 1) + i * step, soft_integer(call, 4),
                logarithm);
}
// softmax_block_forward<..., epilogue>(y, x, size, step of x's rows, step of y's rows): a block of the grid for a row
static void softmax_large(const soft_call *call) {
  int logarithm = strstr(call->kernel->types[4], "LogSoftMax") != NULL;
  for (int64_t i = 0; i < call->grid.x; i++)
    softmax_row(PARAMETER(call, float *, 0) + i * soft_integer(call, 4),
                PARAMETER(call, float *, 1) + i * soft_integer(call, 3), soft_integer(call, 2), logarithm);
}
// BiasSoftmaxWarpForward<X, Y, sum, log2 of the size, whether following rows share a bias>(y, x, bias, size, rows,
// rows that share one, or rows of the bias)
static void bias_softmax(const soft_call *call) {
  int size = PARAMETER(call, int, 3), divisor = PARAMETER(call, divmod, 5).divisor;
  int inside = is_true(call->kernel->types[4]);
  float sum[1024];  // the largest size of the kernel
  for (int64_t i = 0; i < PARAMETER(call, int, 4); i++) {
    const float *x = PARAMETER(call, float *, 1) + i * size;
    const float *bias = PARAMETER(call, float *, 2) + (inside ? i / divisor : i % divisor) * size;
    for (int j = 0; j < size; j++) sum[j] = x[j] + bias[j];
    softmax_row(PARAMETER(call, float *, 0) + i * size, sum, size, 0);
  }
}

// ---- normalizations ----

// y = (x - mean) / deviation * scale + bias, without mean and bias where it is simplified.
static void normalize(float *y, const float *x, int64_t size, float epsilon, int simplified, const float *scale,
                      const float *bias, float *mean_of, float *inverse_of) {
  double mean = 0, square = 0;
  for (int64_t i = 0; i < size; i++) mean += simplified ? 0 : x[i];
  mean /= size;
  for (int64_t i = 0; i < size; i++) square += (x[i] - mean) * (x[i] - mean);
  double inverse = 1 / sqrt(square / size + epsilon);
  for (int64_t i = 0; i < size; i++)
    y[i] = (x[i] - mean) * inverse * (scale ? scale[i] : 1) + (bias && !simplified ? bias[i] : 0);
  if (mean_of) *mean_of = mean;
  if (inverse_of) *inverse_of = inverse;
}

// cuApplyLayerNorm<X, U, Y, simplified>(y, means, inverse deviations, x, rows, size, epsilon, scale, bias, how scale
// and bias are broadcast, skip, bias of the skip, sum of x and skip)
static void layer_norm(const soft_call *call) {
  int64_t size = soft_integer(call, 5);
  if (soft_integer(call, 9) || POINTER(call, 10) || POINTER(call, 12))
    soft_die("LayerNormalization with broadcasting or a skip is not implemented: %s", call->kernel->text);
  for (int64_t i = 0; i < soft_integer(call, 4); i++) {
    float *means = PARAMETER(call, float *, 1), *inverses = PARAMETER(call, float *, 2);
    normalize(PARAMETER(call, float *, 0) + i * size, PARAMETER(call, float *, 3) + i * size, size,
              PARAMETER(call, float, 6), is_true(call->kernel->types[3]), PARAMETER(call, float *, 7),
              PARAMETER(call, float *, 8), means ? means + i : NULL, inverses ? inverses + i : NULL);
  }
}

// LpNormKernel<X, sum, p>(x, y, size of the axis, number of norms, step on the axis)
static void lp_norm(const soft_call *call) {
  const float *x = PARAMETER(call, float *, 0);
  float *y = PARAMETER(call, float *, 1);
  int64_t size = soft_integer(call, 2), count = soft_integer(call, 3), step = soft_integer(call, 4);
  int p = call->kernel->types[2][0] - '0';
  for (int64_t i = 0; i < count; i++) {
    int64_t start = i / step * step * size + i % step;
    double norm = 0;
    for (int64_t j = 0; j < size; j++) norm += p == 1 ? fabs(x[start + j * step]) : pow(x[start + j * step], 2);
    if (p == 2) norm = sqrt(norm);
    for (int64_t j = 0; j < size; j++) y[start + j * step] = norm ? x[start + j * step] / norm : 0;
  }
}

// ---- reductions of matrices ----

// reduce_matrix_rows_kernel<X, Y, sum>(x, y, rows, columns): sums of the columns, added to y, which was zero
static void sum_of_rows(const soft_call *call) {
  int rows = soft_integer(call, 2), columns = soft_integer(call, 3);
  for (int j = 0; j < columns; j++) {
    double sum = 0;
    for (int i = 0; i < rows; i++) sum += PARAMETER(call, float *, 0)[(int64_t)i * columns + j];
    PARAMETER(call, float *, 1)[j] += sum;
  }
}
// reduce_matrix_columns_kernel<X, Y, sum, of each, of the sum, mean>(rows, columns, x, y, ...)
static void sum_of_columns(const soft_call *call) {
  int rows = soft_integer(call, 0), columns = soft_integer(call, 1);
  const char *each = call->kernel->types[3], *all = call->kernel->types[4];
  int square = strstr(each, "::Square") != NULL, absolute = strstr(each, "::Abs") != NULL;
  int root = strstr(all, "::Sqrt") != NULL, mean = is_true(call->kernel->types[5]);
  for (int i = 0; i < rows; i++) {
    double sum = 0;
    for (int j = 0; j < columns; j++) {
      double x = PARAMETER(call, float *, 2)[(int64_t)i * columns + j];
      sum += square ? x * x : absolute ? fabs(x) : x;
    }
    if (mean) sum /= columns;
    PARAMETER(call, float *, 3)[i] = root ? sqrt(sum) : sum;
  }
}
static const void *columns_of(const soft_kernel *k) {
  int known = strstr(k->types[3], "::Identity") || strstr(k->types[3], "::Square") || strstr(k->types[3], "::Abs");
  known = known && (strstr(k->types[4], "::Identity") || strstr(k->types[4], "::Sqrt"));
  return known ? only_float(k) : NULL;
}

// reduce_sum_nd_kernel<T, ...>(x, y, sizes and strides of the axes that are kept and of those that are not)
typedef struct {
  int kept, summed;
  int64_t kept_sizes[16], kept_strides[16], summed_sizes[16], summed_strides[16], kept_count, summed_count;
} axes;
static int64_t place(int64_t i, int rank, const int64_t *sizes, const int64_t *strides) {
  int64_t at = 0;
  for (int d = rank - 1; d >= 0; i /= sizes[d--]) at += i % sizes[d] * strides[d];
  return at;
}
static void sum_of_integers(const soft_call *call) {
  const axes *a = &PARAMETER(call, axes, 2);
  int wide = soft_width(call, 0) == 8;
  for (int64_t i = 0; i < a->kept_count; i++) {
    int64_t sum = 0, start = place(i, a->kept, a->kept_sizes, a->kept_strides);
    for (int64_t j = 0; j < a->summed_count; j++) {
      int64_t at = start + place(j, a->summed, a->summed_sizes, a->summed_strides);
      sum += wide ? PARAMETER(call, int64_t *, 0)[at] : PARAMETER(call, int *, 0)[at];
    }
    if (wide) PARAMETER(call, int64_t *, 1)[i] = sum;
    else PARAMETER(call, int *, 1)[i] = sum;
  }
}
static const void *integers(const soft_kernel *k) {
  return strcmp(k->types[0], "long") == 0 || strcmp(k->types[0], "int") == 0 ? k : NULL;
}

// arg_min_max_last_axis_kernel<X, greatest>(x, y, rows, columns): the first of equals
static void arg_most(const soft_call *call) {
  int64_t rows = soft_integer(call, 2), columns = soft_integer(call, 3);
  int greatest = is_true(call->kernel->types[1]);
  for (int64_t i = 0; i < rows; i++) {
    const float *x = PARAMETER(call, float *, 0) + i * columns;
    int64_t at = 0;
    for (int64_t j = 1; j < columns; j++)
      if (greatest ? x[j] > x[at] : x[j] < x[at]) at = j;
    PARAMETER(call, int64_t *, 1)[i] = at;
  }
}

// _CumSumKernel<T>(x, size of the axis, elements inside it, y, count, exclusive, reverse)
static void running_sum(const soft_call *call) {
  const float *x = PARAMETER(call, float *, 0);
  float *y = PARAMETER(call, float *, 3);
  int64_t size = PARAMETER(call, divmod, 1).divisor, inside = PARAMETER(call, divmod, 2).divisor;
  int exclusive = PARAMETER(call, char, 5), reverse = PARAMETER(call, char, 6);
  for (int64_t i = 0; i < soft_integer(call, 4); i++) {
    int64_t at = i / inside % size, start = i - at * inside;
    int64_t first = reverse ? at + exclusive : 0, last = reverse ? size - 1 : at - exclusive;
    double sum = 0;
    for (int64_t j = first; j <= last; j++) sum += x[start + j * inside];
    y[i] = sum;
  }
}

const soft_entry soft_reductions[] = {
    {"cuda::softmax_warp_forward", softmax_small, only_float},
    {"cuda::softmax_block_forward", softmax_large, only_float},
    {"contrib::cuda::BiasSoftmaxWarpForward", bias_softmax, only_float},
    {"cuda::cuApplyLayerNorm", layer_norm, only_float},
    {"cuda::LpNormKernel", lp_norm, only_float},
    {"cuda::detail::reduce_matrix_rows_kernel", sum_of_rows, only_float},
    {"cuda::detail::reduce_matrix_columns_kernel", sum_of_columns, columns_of},
    {"cuda::detail::reduce_sum_nd_kernel", sum_of_integers, integers},
    {"cuda::detail::arg_min_max_last_axis_kernel", arg_most, only_float},
    {"cuda::_CumSumKernel", running_sum, only_float},
    {0}};
