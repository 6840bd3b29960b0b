// Copyright (c) Microsoft Corporation. All rights reserved.
// Licensed under the MIT License.

// What the parts of libcudnn share.
#ifndef SOFTWARE_CUDA_CUDNN_H
#define SOFTWARE_CUDA_CUDNN_H

#include "software_cuda.h"

enum { STATUS_SUCCESS = 0, STATUS_NOT_SUPPORTED = 3000, STATUS_EXECUTION_FAILED = 5000 };

typedef struct {
  void *stream;
} handle;

// Gives the handle's stream work; returns a cudnnStatus_t.
int soft_cudnn_submit(handle *h, const char *what, soft_work run, const void *data, size_t size);

// A tensor of floats, in elements.
enum { MOST_DIMENSIONS = 8 };
typedef struct {
  int rank;
  int64_t size[MOST_DIMENSIONS], stride[MOST_DIMENSIONS];
  float *data;
} tensor;

// Steps a position through a tensor's sizes; 0 at the end.
int soft_step(const tensor *t, int64_t *at);
// The element at a position, where a size of 1 stands for every place.
float *soft_element(const tensor *t, const int64_t *at);
// How many elements lie between the first and the last.
int64_t soft_extent(const tensor *t);

// What a convolution does besides its tensors, for each spatial dimension.
typedef struct {
  int64_t padding[MOST_DIMENSIONS], stride[MOST_DIMENSIONS], dilation[MOST_DIMENSIONS];
} convolution;

// y = convolution of x with w; or the gradient of it: x from y and w, which is a transposed convolution.
void soft_convolve(const convolution *c, tensor x, tensor w, tensor y);
void soft_convolve_back(const convolution *c, tensor x, tensor w, tensor y);

#endif
