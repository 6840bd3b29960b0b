// Copyright (c) Microsoft Corporation. All rights reserved.
// Licensed under the MIT License.

// Kernels that draw random numbers: RandomNormal, RandomUniform and their Like forms, Dropout. Of float. The numbers are
// not those of a GPU. As on a GPU, they follow from two integers that ORT passes at the launch: a replay repeats them.
#include <math.h>
#include <string.h>

#include "kernels.h"

// std::pair<unsigned long, unsigned long>: the seed, and how many numbers were drawn before.
typedef struct {
  uint64_t seed, offset;
} seeds;

// A number above 0 and up to 1, the same for the same seeds, element and draw.
static double uniform(seeds s, uint64_t element, uint64_t draw) {
  uint64_t x = s.seed + 0x9e3779b97f4a7c15 * (1 + s.offset + (element << 20) + (draw << 60));
  for (int round = 0; round < 3; round++) {
    x ^= x >> 31;
    x *= 0xd6e8feb86659fd93;
  }
  return ((x >> 11) + 1) * 0x1p-53;
}

// RandomKernel<T, distribution, transformation>(count, seeds, distribution, transformation, factor, summand, y)
static void random_numbers(const soft_call *call) {
  int normal = strstr(call->kernel->types[1], "Normal") != NULL;
  seeds s = PARAMETER(call, seeds, 1);
  for (int64_t i = 0; i < soft_integer(call, 0); i++) {
    double u = uniform(s, i, 0);
    double number = normal ? sqrt(-2 * log(u)) * cos(6.283185307179586 * uniform(s, i, 1)) : u;
    PARAMETER(call, float *, 6)[i] = number * PARAMETER(call, float, 4) + PARAMETER(call, float, 5);
  }
}

// DropoutKernel<T, bits>(count, words of the mask, step, steps of a thread, bits of a word, ratio, seeds, x, y, mask)
static void dropout(const soft_call *call) {
  float ratio = PARAMETER(call, float, 5);
  for (int i = 0; i < PARAMETER(call, int, 0); i++) {
    char kept = uniform(PARAMETER(call, seeds, 6), i, 0) > ratio;
    PARAMETER(call, float *, 8)[i] = kept ? PARAMETER(call, float *, 7)[i] / (1 - ratio) : 0;
    POINTER(call, 9)[i] = kept;
  }
}

static const void *only_float(const soft_kernel *k) { return strcmp(k->types[0], "float") == 0 ? k : NULL; }
static const void *only_bytes(const soft_kernel *k) { return strcmp(k->types[1], "false") == 0 ? only_float(k) : NULL; }

const soft_entry soft_random[] = {
    {"cuda::RandomKernel", random_numbers, only_float},
    {"cuda::RandomVectorizedKernel", random_numbers, only_float},
    {"cuda::DropoutKernel", dropout, only_bytes},
    {"cuda::DropoutVectorizedKernel", dropout, only_bytes},
    {0}};
