// Copyright (c) Microsoft Corporation. All rights reserved.
// Licensed under the MIT License.

// libcublas: handles, and products and sums of matrices. All matrices are column-major.
#include <stdlib.h>

#include "software_cuda.h"

enum { STATUS_SUCCESS = 0, STATUS_EXECUTION_FAILED = 13 };
static int status(int error) { return error ? STATUS_EXECUTION_FAILED : STATUS_SUCCESS; }

typedef struct {
  void *stream;
  int mode;
} handle;

int cublasCreate_v2(handle **made) { return *made = calloc(1, sizeof **made), STATUS_SUCCESS; }
int cublasDestroy_v2(handle *h) { return free(h), STATUS_SUCCESS; }
int cublasSetStream_v2(handle *h, void *stream) { return h->stream = stream, STATUS_SUCCESS; }
int cublasSetMathMode(handle *h, int mode) { return h->mode = mode, STATUS_SUCCESS; }
int cublasGetMathMode(handle *h, int *mode) { return *mode = h->mode, STATUS_SUCCESS; }
const char *cublasGetStatusName(int error) {
  return error ? "CUBLAS_STATUS_EXECUTION_FAILED" : "CUBLAS_STATUS_SUCCESS";
}
const char *cublasGetStatusString(int error) { return cublasGetStatusName(error); }

// ---- numbers of a cudaDataType ----
enum { FLOAT = 0, DOUBLE = 1, HALF = 2 };

static double load(int type, const void *from, int64_t i) {
  return type == FLOAT ? ((const float *)from)[i]
         : type == DOUBLE ? ((const double *)from)[i]
                          : soft_half_to_float(((const uint16_t *)from)[i]);
}
static void store(int type, void *to, int64_t i, double value) {
  if (type == FLOAT) ((float *)to)[i] = value;
  else if (type == DOUBLE) ((double *)to)[i] = value;
  else ((uint16_t *)to)[i] = soft_float_to_half(value);
}
static int64_t width(int type) { return type == FLOAT ? 4 : type == DOUBLE ? 8 : 2; }

// ---- C = alpha op(A) op(B) + beta C ----
typedef struct {
  int transposed_a, transposed_b, m, n, k, lda, ldb, ldc, batches, type;
  double alpha, beta;
  const char *a, *b;
  char *c;
  int64_t stride_a, stride_b, stride_c;
  int lists; // a, b and c are lists of pointers to the matrices of each batch
} product;

static void multiply(const product *p, const void *a, const void *b, void *c) {
  for (int j = 0; j < p->n; j++)
    for (int i = 0; i < p->m; i++) {
      double sum = 0;
      for (int l = 0; l < p->k; l++)
        sum += load(p->type, a, p->transposed_a ? (int64_t)i * p->lda + l : (int64_t)l * p->lda + i) *
               load(p->type, b, p->transposed_b ? (int64_t)l * p->ldb + j : (int64_t)j * p->ldb + l);
      int64_t at = (int64_t)j * p->ldc + i;
      store(p->type, c, at, p->alpha * sum + (p->beta ? p->beta * load(p->type, c, at) : 0));
    }
}
static void run_product(void *data) {
  const product *p = data;
  for (int t = 0; t < p->batches; t++) {
    int64_t size = width(p->type);
    if (p->lists) multiply(p, ((void **)p->a)[t], ((void **)p->b)[t], ((void **)p->c)[t]);
    else multiply(p, p->a + t * p->stride_a * size, p->b + t * p->stride_b * size, p->c + t * p->stride_c * size);
  }
}
static int submit(handle *h, product p) {
  return status(soft_submit(h->stream, "matrix product", run_product, &p, sizeof p));
}

#define GEMM(letter, number, kind)                                                                              \
  int cublas##letter##gemm_v2(handle *h, int ta, int tb, int m, int n, int k, const number *alpha, const number *a, \
                              int lda, const number *b, int ldb, const number *beta, number *c, int ldc) {      \
    return submit(h, (product){ta, tb, m, n, k, lda, ldb, ldc, 1, kind, *alpha, *beta, (void *)a, (void *)b,     \
                               (void *)c, 0, 0, 0, 0});                                                         \
  }                                                                                                             \
  int cublas##letter##gemmStridedBatched(handle *h, int ta, int tb, int m, int n, int k, const number *alpha,   \
                                         const number *a, int lda, long long sa, const number *b, int ldb,      \
                                         long long sb, const number *beta, number *c, int ldc, long long sc,    \
                                         int batches) {                                                         \
    return submit(h, (product){ta, tb, m, n, k, lda, ldb, ldc, batches, kind, *alpha, *beta, (void *)a, (void *)b, \
                               (void *)c, sa, sb, sc, 0});                                                      \
  }                                                                                                             \
  int cublas##letter##gemmBatched(handle *h, int ta, int tb, int m, int n, int k, const number *alpha,          \
                                  const number *const *a, int lda, const number *const *b, int ldb,             \
                                  const number *beta, number *const *c, int ldc, int batches) {                 \
    return submit(h, (product){ta, tb, m, n, k, lda, ldb, ldc, batches, kind, *alpha, *beta, (void *)a, (void *)b, \
                               (void *)c, 0, 0, 0, 1});                                                         \
  }
GEMM(S, float, FLOAT)
GEMM(D, double, DOUBLE)

// cublasComputeType_t: alpha and beta are halves where it computes with them.
static double scalar(const void *from, int compute) {
  enum { COMPUTE_16F = 64, COMPUTE_16F_PEDANTIC = 65, COMPUTE_64F = 70, COMPUTE_64F_PEDANTIC = 71 };
  int half = compute == COMPUTE_16F || compute == COMPUTE_16F_PEDANTIC;
  int wide = compute == COMPUTE_64F || compute == COMPUTE_64F_PEDANTIC;
  return load(half ? HALF : wide ? DOUBLE : FLOAT, from, 0);
}
static int one_type(const char *function, int a, int b, int c) {
  if (a != b || b != c || a > HALF) soft_die("%s of the types %d, %d and %d is not implemented", function, a, b, c);
  return a;
}

int cublasGemmEx(handle *h, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int type_a, int lda,
                 const void *b, int type_b, int ldb, const void *beta, void *c, int type_c, int ldc, int compute,
                 int algorithm) {
  (void)algorithm;
  return submit(h, (product){ta, tb, m, n, k, lda, ldb, ldc, 1, one_type(__func__, type_a, type_b, type_c),
                             scalar(alpha, compute), scalar(beta, compute), a, b, c, 0, 0, 0, 0});
}
int cublasGemmStridedBatchedEx(handle *h, int ta, int tb, int m, int n, int k, const void *alpha, const void *a,
                               int type_a, int lda, long long sa, const void *b, int type_b, int ldb, long long sb,
                               const void *beta, void *c, int type_c, int ldc, long long sc, int batches, int compute,
                               int algorithm) {
  (void)algorithm;
  return submit(h, (product){ta, tb, m, n, k, lda, ldb, ldc, batches, one_type(__func__, type_a, type_b, type_c),
                             scalar(alpha, compute), scalar(beta, compute), a, b, c, sa, sb, sc, 0});
}
int cublasGemmBatchedEx(handle *h, int ta, int tb, int m, int n, int k, const void *alpha, const void *const *a,
                        int type_a, int lda, const void *const *b, int type_b, int ldb, const void *beta,
                        void *const *c, int type_c, int ldc, int batches, int compute, int algorithm) {
  (void)algorithm;
  return submit(h, (product){ta, tb, m, n, k, lda, ldb, ldc, batches, one_type(__func__, type_a, type_b, type_c),
                             scalar(alpha, compute), scalar(beta, compute), (void *)a, (void *)b, (void *)c, 0, 0, 0,
                             1});
}

// ---- C = alpha op(A) + beta op(B) ----
typedef struct {
  int transposed_a, transposed_b, m, n, lda, ldb, ldc, type;
  double alpha, beta;
  const void *a, *b;
  void *c;
} sum;

static void run_sum(void *data) {
  const sum *s = data;
  for (int j = 0; j < s->n; j++)
    for (int i = 0; i < s->m; i++) {
      double value = 0;
      int64_t at_a = s->transposed_a ? (int64_t)i * s->lda + j : (int64_t)j * s->lda + i;
      int64_t at_b = s->transposed_b ? (int64_t)i * s->ldb + j : (int64_t)j * s->ldb + i;
      if (s->alpha) value += s->alpha * load(s->type, s->a, at_a);
      if (s->beta) value += s->beta * load(s->type, s->b, at_b);
      store(s->type, s->c, (int64_t)j * s->ldc + i, value);
    }
}
#define GEAM(letter, number, kind)                                                                              \
  int cublas##letter##geam(handle *h, int ta, int tb, int m, int n, const number *alpha, const number *a, int lda, \
                           const number *beta, const number *b, int ldb, number *c, int ldc) {                  \
    sum s = {ta, tb, m, n, lda, ldb, ldc, kind, *alpha, *beta, a, b, c};                                         \
    return status(soft_submit(h->stream, "matrix sum", run_sum, &s, sizeof s));                                 \
  }
GEAM(S, float, FLOAT)
GEAM(D, double, DOUBLE)

// ---- y = x, with steps ----
typedef struct {
  int count, step_x, step_y;
  const float *x;
  float *y;
} vector_copy;

static void run_vector_copy(void *data) {
  const vector_copy *v = data;
  for (int64_t i = 0; i < v->count; i++) v->y[i * v->step_y] = v->x[i * v->step_x];
}
int cublasScopy_v2(handle *h, int count, const float *x, int step_x, float *y, int step_y) {
  vector_copy v = {count, step_x, step_y, x, y};
  return status(soft_submit(h->stream, "vector copy", run_vector_copy, &v, sizeof v));
}
