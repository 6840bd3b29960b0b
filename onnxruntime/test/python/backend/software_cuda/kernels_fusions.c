// Copyright (c) Microsoft Corporation. All rights reserved.
// Licensed under the MIT License.

// Kernels of what ORT's optimizers make of several nodes, and of Gemm's bias. Of float.
#include <math.h>
#include <string.h>

#include "kernels.h"

static const void *only_float(const soft_kernel *k) { return strcmp(k->types[0], "float") == 0 ? k : NULL; }

// SkipLayerNormKernelSmall<T, ..., simplified>(y, sum or NULL, x, skip, bias or NULL, scale, shift or NULL, epsilon,
// size of a row, size of the skip): a block of the grid for a row
static void skip_layer_norm(const soft_call *call) {
  const char *const *types = call->kernel->types;
  int last = 0;
  while (types[last + 1]) last++;
  int simplified = strcmp(types[last], "true") == 0;
  const float *bias = PARAMETER(call, float *, 4);
  const float *scale = PARAMETER(call, float *, 5), *shift = PARAMETER(call, float *, 6);
  int size = PARAMETER(call, int, 8), skip_size = PARAMETER(call, int, 9);
  for (int64_t row = 0; row < call->grid.x; row++) {
    float *y = PARAMETER(call, float *, 0) + row * size, *sum = PARAMETER(call, float *, 1);
    double mean = 0, square = 0;
    for (int i = 0; i < size; i++) {
      int64_t at = row * size + i;
      y[i] = PARAMETER(call, float *, 2)[at] + PARAMETER(call, float *, 3)[at % skip_size] + (bias ? bias[i] : 0);
      if (sum) sum[at] = y[i];
      mean += simplified ? 0 : y[i];
    }
    mean /= size;
    for (int i = 0; i < size; i++) square += (y[i] - mean) * (y[i] - mean);
    double inverse = 1 / sqrt(square / size + PARAMETER(call, float, 7));
    for (int i = 0; i < size; i++) y[i] = (y[i] - mean) * inverse * scale[i] + (shift ? shift[i] : 0);
  }
}

static float gelu(float x) { return x * 0.5f * (1 + erff(x * 0.70710678f)); }

// BiasGeluKernel<T>(size of the bias, x, bias, y): a block of the grid for a row
static void bias_gelu(const soft_call *call) {
  int64_t size = soft_integer(call, 0);
  for (int64_t i = 0; i < call->grid.x * size; i++)
    PARAMETER(call, float *, 3)[i] = gelu(PARAMETER(call, float *, 1)[i] + PARAMETER(call, float *, 2)[i % size]);
}

// FastGeluKernel<T, ...>(a, b, c, count, size of the bias, x, bias or NULL, y): x / 2 * (1 + tanh(x * (c * x * x + b)))
static void fast_gelu(const soft_call *call) {
  float a = PARAMETER(call, float, 0), b = PARAMETER(call, float, 1), c = PARAMETER(call, float, 2);
  const float *bias = PARAMETER(call, float *, 6);
  for (int i = 0; i < PARAMETER(call, int, 3); i++) {
    float x = PARAMETER(call, float *, 5)[i] + (bias ? bias[i % PARAMETER(call, int, 4)] : 0);
    PARAMETER(call, float *, 7)[i] = x * (a + a * tanhf(x * (c * x * x + b)));
  }
}

// BroadcastBiasKernel<T, ...>(bias, y, count, length of a row, step between the bias's rows, step within a row, factor)
static void gemm_bias(const soft_call *call) {
  int64_t row = PARAMETER(call, divmod, 3).divisor;
  for (int64_t i = 0; i < soft_integer(call, 2); i++) {
    int64_t at = i / row * PARAMETER(call, int, 4) + i % row * PARAMETER(call, int, 5);
    PARAMETER(call, float *, 1)[i] = PARAMETER(call, float, 6) * PARAMETER(call, float *, 0)[at];
  }
}

const soft_entry soft_fusions[] = {
    {"contrib::cuda::SkipLayerNormKernelSmall", skip_layer_norm, only_float},
    {"contrib::cuda::BiasGeluKernel", bias_gelu, only_float},
    {"contrib::cuda::VectorizedBiasGeluKernel", bias_gelu, only_float},
    {"cuda::BroadcastBiasKernel", gemm_bias, only_float},
    {"cuda::FastGeluKernel", fast_gelu, only_float},
    {0}};
