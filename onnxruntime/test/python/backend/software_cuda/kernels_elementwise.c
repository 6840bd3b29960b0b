// Copyright (c) Microsoft Corporation. All rights reserved.
// Licensed under the MIT License.

// Kernels that do the same to every element: of one input, of two or more with broadcasting, casts, fills.
#include <math.h>
#include <string.h>

#include "kernels.h"

// ---- operations ----
// y = f(x), or y = f(a, b), for one element of one type; f holds the numbers of the operator's attributes.
typedef void (*unary)(const void *x, void *y, const void *f);
typedef void (*binary)(const void *a, const void *b, void *y);

#define UNARY(name, type, result, expression)                                     \
  static void name##_##type(const void *x_, void *y_, const void *f_) {           \
    const type x = *(const type *)x_, *f = f_;                                    \
    (void)f;                                                                      \
    *(result *)y_ = expression;                                                   \
  }
#define BINARY(name, type, result, expression)                                    \
  static void name##_##type(const void *a_, const void *b_, void *y_) {           \
    const type a = *(const type *)a_, b = *(const type *)b_;                      \
    *(result *)y_ = expression;                                                   \
  }

typedef int8_t i8;
typedef int32_t i32;
typedef int64_t i64;
typedef uint8_t u8;

// Of float only.
#define FLOAT_OPERATIONS(DO)                                                      \
  DO(Relu, x > 0 || x != x ? x : 0)                                               \
  DO(Sigmoid, 1 / (1 + expf(-x)))                                                 \
  DO(Tanh, tanhf(x))                                                              \
  DO(Sqrt, sqrtf(x))                                                              \
  DO(Exp, expf(x))                                                                \
  DO(Log, logf(x))                                                                \
  DO(Erf, erff(x))                                                                \
  DO(Sin, sinf(x))                                                                \
  DO(Cos, cosf(x))                                                                \
  DO(Floor, floorf(x))                                                            \
  DO(Ceil, ceilf(x))                                                              \
  DO(Round, nearbyintf(x))                                                        \
  DO(Reciprocal, 1 / x)                                                           \
  DO(Softplus, x > 0 ? x + log1pf(expf(-x)) : log1pf(expf(x)))                    \
  DO(Softsign, x / (1 + fabsf(x)))                                                \
  DO(Gelu, x * 0.5f * (1 + erff(x * 0.70710678f)))                                \
  DO(QuickGelu, x / (1 + expf(-f[0] * x)))                                        \
  DO(Elu, x >= 0 ? x : f[0] * expm1f(x))                                          \
  DO(LeakyRelu, x >= 0 ? x : f[0] * x)                                            \
  DO(Selu, f[1] * (x > 0 ? x : f[0] * expm1f(x)))                                 \
  DO(HardSigmoid, fmaxf(0, fminf(1, f[0] * x + f[1])))                            \
  DO(HardSwish, x * fmaxf(0, fminf(1, x / 6 + 0.5f)))                             \
  DO(ThresholdedRelu, x > f[0] ? x : 0)                                           \
  DO(Div, x / f[0])
#define FLOAT_FUNCTION(name, expression) UNARY(Unary##name, float, float, expression)
FLOAT_OPERATIONS(FLOAT_FUNCTION)

#define SIGNED_TYPES(DO) DO(float) DO(double) DO(i32) DO(i64)
#define SIGNED_FUNCTIONS(type)                                                    \
  UNARY(Neg, type, type, -x)                                                      \
  UNARY(Abs, type, type, x < 0 ? -x : x)                                          \
  UNARY(SaturatingAbs, type, type, x < 0 ? -x : x)                                \
  UNARY(Sign, type, type, (x > 0) - (x < 0))
SIGNED_TYPES(SIGNED_FUNCTIONS)
UNARY(Not, u8, u8, !x)
UNARY(IsNan, float, u8, x != x)

#define NUMBER_FUNCTIONS(type)                                                    \
  BINARY(Add, type, type, a + b)                                                  \
  BINARY(Sub, type, type, a - b)                                                  \
  BINARY(Mul, type, type, a *b)                                                   \
  BINARY(Div, type, type, a / b)                                                  \
  BINARY(Equal, type, u8, a == b)                                                 \
  BINARY(Less, type, u8, a < b)                                                   \
  BINARY(Greater, type, u8, a > b)                                                \
  BINARY(LessOrEqual, type, u8, a <= b)                                           \
  BINARY(GreaterOrEqual, type, u8, a >= b)                                        \
  BINARY(Max, type, type, a != a || a > b ? a : b)                                \
  BINARY(Min, type, type, a != a || a < b ? a : b)                                \
  BINARY(Pow, type, type, (type)pow(a, b))
SIGNED_TYPES(NUMBER_FUNCTIONS)
#define INTEGER_FUNCTIONS(type)                                                   \
  BINARY(Mod, type, type, a % b + ((a % b != 0 && (a % b < 0) != (b < 0)) ? b : 0)) \
  BINARY(Fmod, type, type, a % b)
INTEGER_FUNCTIONS(i32)
INTEGER_FUNCTIONS(i64)
BINARY(Fmod, float, float, fmodf(a, b))
BINARY(Fmod, double, double, fmod(a, b))
BINARY(PRelu, float, float, a > 0 ? a : a * b)
BINARY(And, u8, u8, a && b)
BINARY(Or, u8, u8, a || b)
BINARY(Xor, u8, u8, !a != !b)
BINARY(Equal, u8, u8, a == b)

typedef struct {
  const char *operation, *type; // as in the name of ORT's class, and of its first number
  void *function;
} operation;

#define ROW(name, type, written) {#name, written, name##_##type},
#define FLOAT_ROW(name, expression) {#name, "float", Unary##name##_float},
#define SIGNED_ROWS(type, written)                                                \
  ROW(Neg, type, written) ROW(Abs, type, written) ROW(SaturatingAbs, type, written) ROW(Sign, type, written)
static const operation unary_operations[] = {
    FLOAT_OPERATIONS(FLOAT_ROW)
    SIGNED_ROWS(float, "float") SIGNED_ROWS(double, "double") SIGNED_ROWS(i32, "int") SIGNED_ROWS(i64, "long")
    ROW(Not, u8, "bool") ROW(IsNan, float, "float")
    {0}};

#define NUMBER_ROWS(type, written)                                                \
  ROW(Add, type, written) ROW(Sub, type, written) ROW(Mul, type, written) ROW(Div, type, written)         \
  ROW(Equal, type, written) ROW(Less, type, written) ROW(Greater, type, written)                          \
  ROW(LessOrEqual, type, written) ROW(GreaterOrEqual, type, written)                                      \
  ROW(Max, type, written) ROW(Min, type, written) ROW(Pow, type, written) ROW(Fmod, type, written)
static const operation binary_operations[] = {
    NUMBER_ROWS(float, "float") NUMBER_ROWS(double, "double") NUMBER_ROWS(i32, "int") NUMBER_ROWS(i64, "long")
    ROW(Mod, i32, "int") ROW(Mod, i64, "long") ROW(PRelu, float, "float")
    ROW(And, u8, "bool") ROW(Or, u8, "bool") ROW(Xor, u8, "bool") ROW(Equal, u8, "bool")
    {0}};

// The function for a class such as onnxruntime::cuda::OP_Relu<float>, if its types are of one kind.
static const void *find(const operation *table, const char *class, const char *type) {
  const char *start = strstr(class, "OP_");
  start = start ? start + 3 : strstr(class, "::_Is") ? strstr(class, "::_Is") + 3 : "";
  size_t length = strcspn(start, "<");
  for (; table->operation; table++)
    if (strlen(table->operation) == length && strncmp(table->operation, start, length) == 0 &&
        strcmp(table->type, type) == 0)
      return table->function;
  return NULL;
}

// ---- casts ----
static int is_float(const char *type) {
  return strcmp(type, "float") == 0 || strcmp(type, "double") == 0 || strcmp(type, "__half") == 0;
}
// A whole number for the types that hold them, so that none of 64 bits is rounded.
static double load_real(const char *type, const void *from) {
  if (strcmp(type, "float") == 0) return *(const float *)from;
  if (strcmp(type, "double") == 0) return *(const double *)from;
  return soft_half_to_float(*(const uint16_t *)from);
}
static int64_t load_integer(const char *type, const void *from) {
  switch (type[0] == 'u' ? -(int)soft_size_of(type) : (int)soft_size_of(type)) {
    case 1: return strcmp(type, "bool") == 0 ? *(const u8 *)from != 0 : *(const i8 *)from;
    case -1: return *(const u8 *)from;
    case 2: return *(const int16_t *)from;
    case -2: return *(const uint16_t *)from;
    case 4: return *(const int32_t *)from;
    case -4: return *(const uint32_t *)from;
    default: return *(const int64_t *)from;
  }
}
static void store(const char *type, void *to, int real, double r, int64_t i) {
  if (strcmp(type, "float") == 0) *(float *)to = real ? (float)r : (float)i;
  else if (strcmp(type, "double") == 0) *(double *)to = real ? r : (double)i;
  else if (strcmp(type, "__half") == 0) *(uint16_t *)to = soft_float_to_half(real ? (float)r : (float)i);
  else if (strcmp(type, "bool") == 0) *(u8 *)to = real ? r != 0 : i != 0;
  else {
    if (real) i = r != r ? 0 : r >= 0x1p63 ? INT64_MAX : r < -0x1p63 ? INT64_MIN : (i64)r;
    memcpy(to, &i, soft_size_of(type)); // the lower bytes
  }
}
// Stands for the operations that the table has no rows for.
static const char cast;

static const void *unary_of(const soft_kernel *k) {
  if (strstr(k->types[2], "::OP_Cast<"))
    return soft_size_of(k->types[0]) && soft_size_of(k->types[1]) ? &cast : NULL;
  return find(unary_operations, k->types[2], k->types[0]);
}
static const void *binary_of(const soft_kernel *k) {
  for (int i = 0; k->types[i]; i++)
    if (strstr(k->types[i], "::OP_")) {
      const char *a = k->types[i - 2], *b = k->types[i - 1];
      return strcmp(a, b) == 0 ? find(binary_operations, k->types[i], b) : NULL;
    }
  return NULL;
}

// _UnaryElementWise<X, Y, operation, ...>(x, y, operation, count)
static void run_unary(const soft_call *call) {
  const char *from = call->kernel->types[0], *to = call->kernel->types[1];
  size_t width = soft_width(call, 0), result = soft_width(call, 1);
  const char *x = POINTER(call, 0);
  char *y = POINTER(call, 1);
  int64_t count = soft_integer(call, 3);
  if (call->kernel->operation == &cast) {
    int real = is_float(from);
    for (int64_t i = 0; i < count; i++, x += width, y += result)
      store(to, y, real, real ? load_real(from, x) : 0, real ? 0 : load_integer(from, x));
    return;
  }
  unary f = (unary)call->kernel->operation;
  for (int64_t i = 0; i < count; i++) f(x + i * width, y + i * result, &PARAMETER(call, char, 2));
}

// ---- two inputs ----
// Where the types of y, a and b start in the template's arguments.
static void widths(const soft_call *call, int first, size_t *y, size_t *a, size_t *b) {
  *y = soft_width(call, first);
  *a = soft_width(call, first + 1);
  *b = soft_width(call, first + 2);
}
static int is_true(const char *type) { return strcmp(type, "true") == 0; }

// _BinaryElementWiseSimple<a steps, b steps, Y, A, B, operation, ...>(a, b, y, operation, count)
static void run_simple(const soft_call *call) {
  binary f = (binary)call->kernel->operation;
  size_t y, a, b;
  widths(call, 2, &y, &a, &b);
  if (!is_true(call->kernel->types[0])) a = 0;
  if (!is_true(call->kernel->types[1])) b = 0;
  int64_t count = soft_integer(call, 4);
  for (int64_t i = 0; i < count; i++) f(POINTER(call, 0) + i * a, POINTER(call, 1) + i * b, POINTER(call, 2) + i * y);
}

// _BinaryElementWiseRhsPerChannelBatch1<Y, A, B, operation, ...>(a, b, elements of a channel, y, operation, count), and
// ...BatchN with the number of channels before y
static void run_per_channel(const soft_call *call) {
  binary f = (binary)call->kernel->operation;
  size_t y, a, b;
  widths(call, 0, &y, &a, &b);
  int batches = call->kernel->parameters == 7;
  char *out = POINTER(call, 3 + batches);
  int64_t count = soft_integer(call, 5 + batches);
  for (int64_t i = 0; i < count; i++) {
    int64_t channel = i / PARAMETER(call, divmod, 2).divisor;
    if (batches) channel %= PARAMETER(call, divmod, 3).divisor;
    f(POINTER(call, 0) + i * a, POINTER(call, 1) + channel * b, out + i * y);
  }
}

// Where a position of the output lies in an input, by the strides of both.
static int64_t place(int64_t position, int rank, const divmod_array *output, const long_array *input) {
  int64_t at = 0;
  for (int d = 0; d < rank; d++) {
    at += position / output->data[d].divisor * input->data[d];
    position %= output->data[d].divisor;
  }
  return at;
}

// _BinaryElementWise<Y, A, B, operation, a is broadcast, b is broadcast, ...>
//   (rank, strides of a, a, strides of b, b, strides of y, y, operation, count)
static void run_broadcast(const soft_call *call) {
  binary f = (binary)call->kernel->operation;
  size_t y, a, b;
  widths(call, 0, &y, &a, &b);
  int rank = soft_integer(call, 0), of_a = is_true(call->kernel->types[4]), of_b = is_true(call->kernel->types[5]);
  const divmod_array *strides = &PARAMETER(call, divmod_array, 5);
  int64_t count = soft_integer(call, 8);
  for (int64_t i = 0; i < count; i++) {
    int64_t at_a = of_a ? place(i, rank, strides, &PARAMETER(call, long_array, 1)) : i;
    int64_t at_b = of_b ? place(i, rank, strides, &PARAMETER(call, long_array, 3)) : i;
    f(POINTER(call, 2) + at_a * a, POINTER(call, 4) + at_b * b, POINTER(call, 6) + i * y);
  }
}

// VariadicElementWiseNoBroadcastInputBatchKernel<T, operation, ...>(operation, count, inputs, y)
static const void *variadic_of(const soft_kernel *k) { return find(binary_operations, k->types[1], k->types[0]); }
static void run_variadic(const soft_call *call) {
  binary f = (binary)call->kernel->operation;
  size_t width = soft_width(call, 0);
  const pointer_array *inputs = &PARAMETER(call, pointer_array, 2);
  for (int64_t i = 0; i < soft_integer(call, 1); i++) {
    char value[8], *y = POINTER(call, 3) + i * width;
    memcpy(value, inputs->data[0] + i * width, width);
    for (int j = 1; j < inputs->size; j++) f(value, inputs->data[j] + i * width, value);
    memcpy(y, value, width);
  }
}

// ---- Where ----
// How an input is broadcast: onnxruntime::cuda::BroadcastIndexType.
enum { ALL, ONE, BROADCAST };
static int broadcast_kind(const char *type) { return type[strlen(type) - 1] - '0'; }

// _TenaryElementWiseSimple<T, kinds of the condition, x and y, ...>(condition, x, y, result, count)
static void run_where_simple(const soft_call *call) {
  size_t width = soft_width(call, 0);
  int64_t step[3];
  for (int j = 0; j < 3; j++) step[j] = broadcast_kind(call->kernel->types[1 + j]) != ONE;
  for (int64_t i = 0; i < soft_integer(call, 4); i++) {
    int j = POINTER(call, 0)[i * step[0]] ? 1 : 2;
    memcpy(POINTER(call, 3) + i * width, POINTER(call, j) + i * step[j] * width, width);
  }
}

// _TenaryElementWise<the same>(rank, strides of the condition, condition, of x, x, of y, y, of the result, result,
// count)
static void run_where(const soft_call *call) {
  size_t width = soft_width(call, 0);
  for (int64_t i = 0; i < soft_integer(call, 9); i++) {
    int64_t at[3];
    for (int j = 0; j < 3; j++) {
      int kind = broadcast_kind(call->kernel->types[1 + j]);
      at[j] = kind == ALL ? i : kind == ONE ? 0 : place(i, soft_integer(call, 0), &PARAMETER(call, divmod_array, 7),
                                                        &PARAMETER(call, long_array, 1 + 2 * j));
    }
    int j = POINTER(call, 2)[at[0]] ? 1 : 2;
    memcpy(POINTER(call, 8) + i * width, POINTER(call, 2 + 2 * j) + at[j] * width, width);
  }
}

// ---- Clip and fills ----
// _Clip<T>(x, y, pointer to the least or NULL, to the most or NULL, least, most, count)
#define CLIP(type)                                                                \
  static void clip_##type(const soft_call *call) {                                \
    const type *x = (type *)POINTER(call, 0);                                     \
    type *y = (type *)POINTER(call, 1);                                           \
    type least = POINTER(call, 2) ? *(type *)POINTER(call, 2) : PARAMETER(call, type, 4); \
    type most = POINTER(call, 3) ? *(type *)POINTER(call, 3) : PARAMETER(call, type, 5);  \
    for (int64_t i = 0; i < soft_integer(call, 6); i++) y[i] = x[i] < least ? least : x[i] > most ? most : x[i]; \
  }
CLIP(float)
CLIP(i64)
static const void *clip_of(const soft_kernel *k) {
  if (strcmp(k->types[0], "float") == 0) return clip_float;
  return strcmp(k->types[0], "long") == 0 ? clip_i64 : NULL;
}
static void run_clip(const soft_call *call) { ((void (*)(const soft_call *))call->kernel->operation)(call); }

static void fill(char *to, const void *value, size_t width, int64_t count) {
  for (int64_t i = 0; i < count; i++) memcpy(to + i * width, value, width);
}
// _Fill<T, ...>(y, value, count)
static void run_fill(const soft_call *call) {
  fill(POINTER(call, 0), &PARAMETER(call, char, 1), call->kernel->size[1], soft_integer(call, 2));
}
// _FillFromDataPtrKernel<T, ...>(y, pointer to the value, count)
static void run_fill_from(const soft_call *call) {
  fill(POINTER(call, 0), POINTER(call, 1), soft_width(call, 0), soft_integer(call, 2));
}

const soft_entry soft_elementwise[] = {
    {"cuda::_UnaryElementWise", run_unary, unary_of},
    {"cuda::_BinaryElementWiseSimple", run_simple, binary_of},
    {"cuda::_BinaryElementWiseRhsPerChannelBatch1", run_per_channel, binary_of},
    {"cuda::_BinaryElementWiseRhsPerChannelBatchN", run_per_channel, binary_of},
    {"cuda::_BinaryElementWise", run_broadcast, binary_of},
    {"cuda::VariadicElementWiseNoBroadcastInputBatchKernel", run_variadic, variadic_of},
    {"cuda::_TenaryElementWiseSimple", run_where_simple, NULL},
    {"cuda::_TenaryElementWise", run_where, NULL},
    {"cuda::_Clip", run_clip, clip_of},
    {"cuda::_Fill", run_fill, NULL},
    {"cuda::FillInt32Kernel", run_fill, NULL},
    {"cuda::_FillFromDataPtrKernel", run_fill_from, NULL},
    {0}};
