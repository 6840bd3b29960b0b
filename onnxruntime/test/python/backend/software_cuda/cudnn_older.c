// Copyright (c) Microsoft Corporation. All rights reserved.
// Licensed under the MIT License.

// The older interface of libcudnn, with a descriptor for each kind of thing: convolution, addition, activation,
// pooling, batch normalization, reductions. Of floats.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cudnn.h"

// Makes and destroys descriptors of a type.
#define DESCRIPTOR(name, type)                                                                  \
  int cudnnCreate##name##Descriptor(type **made) {                                             \
    return *made = calloc(1, sizeof **made), STATUS_SUCCESS;                                   \
  }                                                                                            \
  int cudnnDestroy##name##Descriptor(type *d) { return free(d), STATUS_SUCCESS; }

// ---- tensors and filters ----
DESCRIPTOR(Tensor, tensor)
DESCRIPTOR(Filter, tensor)

static void only_floats(int type) {
  if (type) soft_die("a tensor of cuDNN's type %d is not implemented", type);
}

int cudnnSetTensorNdDescriptor(tensor *t, int type, int rank, const int *size, const int *stride) {
  only_floats(type);
  t->rank = rank;
  for (int i = 0; i < rank; i++) t->size[i] = size[i], t->stride[i] = stride[i];
  return STATUS_SUCCESS;
}

// The sizes come as n, c, h, w in either order of the memory.
int cudnnSetFilterNdDescriptor(tensor *t, int type, int channels_last, int rank, const int *size) {
  only_floats(type);
  int64_t stride = channels_last ? size[1] : 1;
  t->rank = rank;
  for (int i = rank - 1; i >= 0; i--) {
    t->size[i] = size[i];
    t->stride[i] = channels_last && i == 1 ? 1 : stride;
    if (!channels_last || i != 1) stride *= size[i];
  }
  return STATUS_SUCCESS;
}

static tensor at_memory(const tensor *t, const void *data) {
  tensor copy = *t;
  copy.data = (float *)data;
  return copy;
}

// ---- activation, addition ----
// cudnnActivationMode_t
enum { SIGMOID, RELU, TANH, IDENTITY = 5 };
typedef struct {
  int mode;
} activation;
DESCRIPTOR(Activation, activation)

int cudnnSetActivationDescriptor(activation *a, int mode, int nan, double coefficient) {
  (void)nan, (void)coefficient;
  int known = mode == SIGMOID || mode == RELU || mode == TANH || mode == IDENTITY;
  if (!known) soft_die("cuDNN's activation %d is not implemented", mode);
  return a->mode = mode, STATUS_SUCCESS;
}

static float activate(int mode, float x) {
  return mode == RELU ? (x > 0 ? x : 0) : mode == TANH ? tanhf(x) : mode == SIGMOID ? 1 / (1 + expf(-x)) : x;
}

// y = activation(alpha * x + beta * y)
typedef struct {
  tensor x, y;
  float alpha, beta;
  int activation;
} addition;

static void run_addition(void *data) {
  const addition *a = data;
  int64_t at[MOST_DIMENSIONS] = {0};
  do {
    float *y = soft_element(&a->y, at);
    *y = activate(a->activation, a->alpha * *soft_element(&a->x, at) + (a->beta ? a->beta * *y : 0));
  } while (soft_step(&a->y, at));
}

int cudnnAddTensor(handle *h, const float *alpha, const tensor *x, const void *x_data, const float *beta,
                   const tensor *y, void *y_data) {
  addition a = {at_memory(x, x_data), at_memory(y, y_data), *alpha, *beta, IDENTITY};
  return soft_cudnn_submit(h, "addition", run_addition, &a, sizeof a);
}

int cudnnActivationForward(handle *h, const activation *how, const float *alpha, const tensor *x, const void *x_data,
                           const float *beta, const tensor *y, void *y_data) {
  if (*beta) soft_die("cudnnActivationForward with a beta of %g is not implemented", *beta);
  addition a = {at_memory(x, x_data), at_memory(y, y_data), *alpha, *beta, how->mode};
  return soft_cudnn_submit(h, "activation", run_addition, &a, sizeof a);
}

// ---- convolution ----
DESCRIPTOR(Convolution, convolution)

int cudnnSetConvolutionNdDescriptor(convolution *c, int rank, const int *padding, const int *stride,
                                    const int *dilation, int mode, int type) {
  (void)mode, (void)type;
  for (int i = 0; i < rank; i++)
    c->padding[i] = padding[i], c->stride[i] = stride[i], c->dilation[i] = dilation[i];
  return STATUS_SUCCESS;
}

// cudnnConvolutionFwdAlgoPerf_t and that of the gradient
typedef struct {
  int algorithm, status;
  float time;
  size_t memory;
  int determinism, math, reserved[3];
} performance;

static int one_algorithm(int room, int *count, performance *found) {
  memset(found, 0, sizeof *found);
  return *count = room > 0, STATUS_SUCCESS;
}
int cudnnFindConvolutionForwardAlgorithmEx(handle *h, tensor *x, const void *x_data, tensor *w, const void *w_data,
                                           convolution *c, tensor *y, void *y_data, int room, int *count,
                                           performance *found, void *workspace, size_t size) {
  (void)h, (void)x, (void)x_data, (void)w, (void)w_data, (void)c, (void)y, (void)y_data, (void)workspace, (void)size;
  return one_algorithm(room, count, found);
}
int cudnnGetConvolutionForwardAlgorithm_v7(handle *h, tensor *x, tensor *w, convolution *c, tensor *y, int room,
                                           int *count, performance *found) {
  (void)h, (void)x, (void)w, (void)c, (void)y;
  return one_algorithm(room, count, found);
}
int cudnnGetConvolutionForwardWorkspaceSize(handle *h, tensor *x, tensor *w, convolution *c, tensor *y, int algorithm,
                                            size_t *size) {
  (void)h, (void)x, (void)w, (void)c, (void)y, (void)algorithm;
  return *size = 0, STATUS_SUCCESS;
}

// y = activation(alpha * convolution(x, w) + beta * z + bias)
typedef struct {
  tensor x, w, y, z, bias;
  convolution convolution;
  float alpha, beta;
  int activation;
} convolution_call;

static void run_convolution(void *data) {
  const convolution_call *c = data;
  tensor sum = c->y;
  int64_t at[MOST_DIMENSIONS] = {0};
  sum.data = malloc(soft_extent(&sum) * sizeof *sum.data);
  soft_convolve(&c->convolution, c->x, c->w, sum);
  do {
    float value = c->alpha * *soft_element(&sum, at);
    if (c->beta) value += c->beta * *soft_element(&c->z, at);
    if (c->bias.data) value += *soft_element(&c->bias, at);
    *soft_element(&c->y, at) = activate(c->activation, value);
  } while (soft_step(&c->y, at));
  free(sum.data);
}

int cudnnConvolutionForward(handle *h, const float *alpha, const tensor *x, const void *x_data, const tensor *w,
                            const void *w_data, const convolution *how, int algorithm, void *workspace, size_t size,
                            const float *beta, const tensor *y, void *y_data) {
  (void)algorithm, (void)workspace, (void)size;
  tensor out = at_memory(y, y_data);
  convolution_call c = {at_memory(x, x_data), at_memory(w, w_data), out, out, {0}, *how, *alpha, *beta, IDENTITY};
  return soft_cudnn_submit(h, "convolution", run_convolution, &c, sizeof c);
}

int cudnnConvolutionBiasActivationForward(handle *h, const float *alpha, const tensor *x, const void *x_data,
                                          const tensor *w, const void *w_data, const convolution *how, int algorithm,
                                          void *workspace, size_t size, const float *beta, const tensor *z,
                                          const void *z_data, const tensor *bias, const void *bias_data,
                                          const activation *activated, const tensor *y, void *y_data) {
  (void)algorithm, (void)workspace, (void)size;
  convolution_call c = {at_memory(x, x_data), at_memory(w, w_data),       at_memory(y, y_data), at_memory(z, z_data),
                        at_memory(bias, bias_data), *how, *alpha, *beta, activated->mode};
  return soft_cudnn_submit(h, "convolution", run_convolution, &c, sizeof c);
}

// ---- pooling ----
// cudnnPoolingMode_t; the fourth is the first with the same result every time
enum { POOL_MOST, POOL_MEAN_OF_ALL, POOL_MEAN_OF_INSIDE };
typedef struct {
  int mode, rank, window[MOST_DIMENSIONS], padding[MOST_DIMENSIONS], stride[MOST_DIMENSIONS];
} pooling;
DESCRIPTOR(Pooling, pooling)

int cudnnSetPoolingNdDescriptor(pooling *p, int mode, int nan, int rank, const int *window, const int *padding,
                                const int *stride) {
  (void)nan;
  p->mode = mode;
  p->rank = rank;
  for (int i = 0; i < rank; i++) p->window[i] = window[i], p->padding[i] = padding[i], p->stride[i] = stride[i];
  return STATUS_SUCCESS;
}

typedef struct {
  pooling pooling;
  tensor x, y;
  float alpha, beta;
} pooling_call;

static void run_pooling(void *data) {
  const pooling_call *c = data;
  const pooling *p = &c->pooling;
  tensor window = {.rank = p->rank};
  for (int i = 0; i < window.rank; i++) window.size[i] = p->window[i];
  int64_t at[MOST_DIMENSIONS] = {0};
  do {
    int64_t k[MOST_DIMENSIONS] = {0}, in[MOST_DIMENSIONS] = {at[0], at[1]};
    double sum = 0, most = -INFINITY;
    int inside_count = 0, count = 0;
    do {
      int inside = 1;
      for (int i = 0; i < window.rank; i++) {
        in[i + 2] = at[i + 2] * p->stride[i] - p->padding[i] + k[i];
        inside &= in[i + 2] >= 0 && in[i + 2] < c->x.size[i + 2];
      }
      count++;
      if (!inside) continue;
      double x = *soft_element(&c->x, in);
      inside_count++;
      sum += x;
      most = fmax(most, x);
    } while (soft_step(&window, k));
    float *y = soft_element(&c->y, at);
    float value = p->mode == POOL_MEAN_OF_ALL      ? sum / count
                  : p->mode == POOL_MEAN_OF_INSIDE ? sum / inside_count
                                                   : most;
    *y = c->alpha * value + (c->beta ? c->beta * *y : 0);
  } while (soft_step(&c->y, at));
}

int cudnnPoolingForward(handle *h, const pooling *p, const float *alpha, const tensor *x, const void *x_data,
                        const float *beta, const tensor *y, void *y_data) {
  pooling_call c = {*p, at_memory(x, x_data), at_memory(y, y_data), *alpha, *beta};
  return soft_cudnn_submit(h, "pooling", run_pooling, &c, sizeof c);
}

// ---- batch normalization ----
// Of channels: cudnnBatchNormMode_t's spatial modes.
enum { PER_ACTIVATION };
typedef struct {
  tensor x, y, parameters; // the parameters' sizes, for the four below
  const float *scale, *bias, *mean, *variance;
  double epsilon;
} normalization;

int cudnnDeriveBNTensorDescriptor(tensor *derived, const tensor *x, int mode) {
  *derived = (tensor){.rank = x->rank};
  for (int i = 0; i < x->rank; i++) {
    derived->size[i] = i == 1 || (mode == PER_ACTIVATION && i > 0) ? x->size[i] : 1;
    derived->stride[i] = 1;
  }
  for (int i = x->rank - 2; i >= 0; i--) derived->stride[i] = derived->stride[i + 1] * derived->size[i + 1];
  return STATUS_SUCCESS;
}

static void run_normalization(void *data) {
  const normalization *n = data;
  int64_t at[MOST_DIMENSIONS] = {0};
  do {
    int64_t i = soft_element(&n->parameters, at) - n->parameters.data;
    *soft_element(&n->y, at) =
        (*soft_element(&n->x, at) - n->mean[i]) / sqrt(n->variance[i] + n->epsilon) * n->scale[i] + n->bias[i];
  } while (soft_step(&n->y, at));
}

int cudnnBatchNormalizationForwardInference(handle *h, int mode, const float *alpha, const float *beta, const tensor *x,
                                            const void *x_data, const tensor *y, void *y_data, const tensor *parameters,
                                            const void *scale, const void *bias, const void *mean,
                                            const void *variance, double epsilon) {
  (void)mode;
  if (*alpha != 1 || *beta) soft_die("a batch normalization that adds to its output is not implemented");
  normalization n = {at_memory(x, x_data), at_memory(y, y_data), at_memory(parameters, scale), scale, bias, mean,
                     variance, epsilon};
  return soft_cudnn_submit(h, "batch normalization", run_normalization, &n, sizeof n);
}

// ---- reductions ----
// cudnnReduceTensorOp_t
enum { REDUCE_ADD, REDUCE_MUL, REDUCE_MIN, REDUCE_MAX, REDUCE_ABS_MAX, REDUCE_MEAN, REDUCE_NORM1, REDUCE_NORM2 };
typedef struct {
  int operation, indices;
} reduction;
DESCRIPTOR(ReduceTensor, reduction)

int cudnnSetReduceTensorDescriptor(reduction *r, int operation, int type, int nan, int indices, int index_type) {
  (void)nan, (void)index_type;
  only_floats(type);
  if (operation > REDUCE_NORM2) soft_die("cuDNN's reduction %d is not implemented", operation);
  r->operation = operation;
  r->indices = indices;
  return STATUS_SUCCESS;
}
int cudnnGetReductionIndicesSize(handle *h, const reduction *r, const tensor *x, const tensor *y, size_t *size) {
  (void)h, (void)x;
  size_t count = 1;
  for (int i = 0; i < y->rank; i++) count *= y->size[i];
  return *size = r->indices ? count * sizeof(uint32_t) : 0, STATUS_SUCCESS;
}
int cudnnGetReductionWorkspaceSize(handle *h, const reduction *r, const tensor *x, const tensor *y, size_t *size) {
  (void)h, (void)r, (void)x, (void)y;
  return *size = 0, STATUS_SUCCESS;
}

typedef struct {
  reduction reduction;
  tensor x, y;
  float alpha, beta;
  uint32_t *indices; // where the least or greatest was found, among the reduced elements of each result
} reduction_call;

static void run_reduction(void *data) {
  const reduction_call *c = data;
  int64_t at[MOST_DIMENSIONS] = {0}, result = 0;
  tensor rest = c->x; // what is reduced for one element of y
  for (int i = 0; i < rest.rank; i++)
    if (c->y.size[i] != 1) rest.size[i] = 1;
  do {
    int64_t in[MOST_DIMENSIONS] = {0}, count = 0;
    double value = c->reduction.operation == REDUCE_MUL ? 1 : 0;
    uint32_t index = 0;
    do {
      int64_t from[MOST_DIMENSIONS];
      for (int i = 0; i < rest.rank; i++) from[i] = at[i] + in[i];
      double x = *soft_element(&c->x, from);
      switch (c->reduction.operation) {
        case REDUCE_ADD: case REDUCE_MEAN: value += x; break;
        case REDUCE_MUL: value *= x; break;
        case REDUCE_NORM1: value += fabs(x); break;
        case REDUCE_NORM2: value += x * x; break;
        default:
          if (c->reduction.operation == REDUCE_ABS_MAX) x = fabs(x);
          if (!count || (c->reduction.operation == REDUCE_MIN ? x < value : x > value)) value = x, index = count;
      }
      count++;
    } while (soft_step(&rest, in));
    if (c->reduction.operation == REDUCE_MEAN) value /= count;
    if (c->reduction.operation == REDUCE_NORM2) value = sqrt(value);
    float *y = soft_element(&c->y, at);
    *y = c->alpha * value + (c->beta ? c->beta * *y : 0);
    if (c->reduction.indices && c->indices) c->indices[result] = index;
    result++;
  } while (soft_step(&c->y, at));
}

int cudnnReduceTensor(handle *h, const reduction *r, void *indices, size_t indices_size, void *workspace, size_t size,
                      const float *alpha, const tensor *x, const void *x_data, const float *beta, const tensor *y,
                      void *y_data) {
  (void)indices_size, (void)workspace, (void)size;
  reduction_call c = {*r, at_memory(x, x_data), at_memory(y, y_data), *alpha, *beta, indices};
  return soft_cudnn_submit(h, "reduction", run_reduction, &c, sizeof c);
}
