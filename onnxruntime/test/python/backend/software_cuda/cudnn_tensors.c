// Copyright (c) Microsoft Corporation. All rights reserved.
// Licensed under the MIT License.

// Tensors of libcudnn, and what is computed of them in both of its interfaces; handles.
#include "cudnn.h"

#include <stdlib.h>
#include <string.h>

int cudnnCreate(handle **made) { return *made = calloc(1, sizeof **made), STATUS_SUCCESS; }
int cudnnDestroy(handle *h) { return free(h), STATUS_SUCCESS; }
int cudnnSetStream(handle *h, void *stream) { return h->stream = stream, STATUS_SUCCESS; }
int cudnnGetStream(handle *h, void **stream) { return *stream = h->stream, STATUS_SUCCESS; }
size_t cudnnGetVersion(void) { return 91400; }
size_t cudnnGetCudartVersion(void) { return 13000; }
const char *cudnnGetErrorString(int status) {
  return status ? "CUDNN_STATUS_EXECUTION_FAILED" : "CUDNN_STATUS_SUCCESS";
}
void cudnnGetLastErrorString(char *text, size_t size) {
  if (size) *text = 0;
}

int soft_cudnn_submit(handle *h, const char *what, soft_work run, const void *data, size_t size) {
  return soft_submit(h->stream, what, run, data, size) ? STATUS_EXECUTION_FAILED : STATUS_SUCCESS;
}

int soft_step(const tensor *t, int64_t *at) {
  for (int i = t->rank - 1; i >= 0; at[i--] = 0)
    if (++at[i] < t->size[i]) return 1;
  return 0;
}

float *soft_element(const tensor *t, const int64_t *at) {
  float *to = t->data;
  for (int i = 0; i < t->rank; i++) to += (t->size[i] == 1 ? 0 : at[i]) * t->stride[i];
  return to;
}

int64_t soft_extent(const tensor *t) {
  int64_t extent = 1;
  for (int i = 0; i < t->rank; i++) extent += (t->size[i] - 1) * t->stride[i];
  return extent;
}

// Visits, for each element of y and of its filter, the element of x below; back: adds to x what y and w give it.
static void visit(const convolution *c, tensor x, tensor w, tensor y, int back) {
  int64_t at[MOST_DIMENSIONS] = {0}, per_group = y.size[1] / (x.size[1] / w.size[1]);
  do {
    int64_t in[MOST_DIMENSIONS] = {at[0]}, k[MOST_DIMENSIONS] = {0};
    double sum = 0;
    tensor filter = w;
    filter.size[0] = 1;
    filter.data += at[1] * w.stride[0];
    do {
      int inside = 1;
      in[1] = at[1] / per_group * w.size[1] + k[1];
      for (int i = 2; i < x.rank; i++) {
        in[i] = at[i] * c->stride[i - 2] - c->padding[i - 2] + k[i] * c->dilation[i - 2];
        inside &= in[i] >= 0 && in[i] < x.size[i];
      }
      if (!inside) continue;
      if (back) *soft_element(&x, in) += *soft_element(&y, at) * *soft_element(&filter, k);
      else sum += (double)*soft_element(&x, in) * *soft_element(&filter, k);
    } while (soft_step(&filter, k));
    if (!back) *soft_element(&y, at) = sum;
  } while (soft_step(&y, at));
}

void soft_convolve(const convolution *c, tensor x, tensor w, tensor y) { visit(c, x, w, y, 0); }

void soft_convolve_back(const convolution *c, tensor x, tensor w, tensor y) {
  int64_t at[MOST_DIMENSIONS] = {0};
  do *soft_element(&x, at) = 0;
  while (soft_step(&x, at));
  visit(c, x, w, y, 1);
}
