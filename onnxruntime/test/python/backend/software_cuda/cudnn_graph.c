// Copyright (c) Microsoft Corporation. All rights reserved.
// Licensed under the MIT License.

// The graph interface of libcudnn: descriptors as bags of attributes, and plans that compute convolutions, additions
// and the like of floats.
//
// There is one engine, found by every heuristic, without knobs, notes or workspace. A plan is walked when it is
// executed, and what it computes is submitted as a list of operations on tensors, so that a captured graph needs no
// descriptor any more.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cudnn.h"

// cudnnBackendAttributeType_t
enum { TYPE_HANDLE, TYPE_DATA_TYPE, TYPE_BOOLEAN, TYPE_INT64, TYPE_FLOAT, TYPE_DOUBLE, TYPE_POINTER,
       TYPE_DESCRIPTOR = 15, TYPE_INT32 = 23, TYPE_CHAR = 24 };
// cudnnBackendDescriptorType_t
enum { ENGINE = 2, OPERATION_FORWARD = 10, OPERATION_BACKWARD_DATA = 12, OPERATION_POINTWISE = 13 };
// cudnnBackendAttributeName_t
enum {
  POINTWISE_MODE = 0,
  CONVOLUTION_DILATIONS = 102,
  CONVOLUTION_STRIDES = 103,
  CONVOLUTION_PADDING = 105,
  HEURISTIC_GRAPH = 201,
  HEURISTIC_RESULTS = 202,
  CONFIGURATION_ENGINE = 300,
  PLAN_CONFIGURATION = 401,
  FORWARD_ALPHA = 700, FORWARD_BETA, FORWARD_CONVOLUTION, FORWARD_W, FORWARD_X, FORWARD_Y,
  BACKWARD_ALPHA = 706, BACKWARD_BETA, BACKWARD_CONVOLUTION, BACKWARD_W, BACKWARD_X, BACKWARD_Y,
  POINTWISE = 750, POINTWISE_X, POINTWISE_B, POINTWISE_Y,
  GRAPH_OPERATIONS = 801,
  GRAPH_ENGINES = 802,
  TENSOR_DATA_TYPE = 901,
  TENSOR_SIZES = 902,
  TENSOR_STRIDES = 903,
  TENSOR_ID = 906,
  PACK_IDS = 1000,
  PACK_POINTERS = 1001,
  ENGINE_GRAPH = 1300,
};

// ---- descriptors ----
// A caller's descriptor refers to a bag, which others may refer to as well: it lives as long as they do.
typedef struct attribute {
  struct attribute *next;
  int name, type;
  int64_t count;
  char data[]; // bags for descriptors
} attribute;
typedef struct {
  int references, type;
  attribute *attributes;
} bag;
typedef struct {
  bag *bag;
} descriptor;

static bag *held(bag *b) {
  __atomic_add_fetch(&b->references, 1, __ATOMIC_ACQ_REL);
  return b;
}

static void let_go(bag *b) {
  if (__atomic_sub_fetch(&b->references, 1, __ATOMIC_ACQ_REL)) return;
  for (attribute *a = b->attributes, *next; a; a = next) {
    next = a->next;
    for (int64_t i = 0; a->type == TYPE_DESCRIPTOR && i < a->count; i++) let_go(((bag **)a->data)[i]);
    free(a);
  }
  free(b);
}

static bag *make(int type) {
  bag *b = calloc(1, sizeof *b);
  *b = (bag){1, type, NULL};
  return b;
}

static size_t width(int type) {
  switch (type) {
    case TYPE_BOOLEAN: case TYPE_CHAR: return 1;
    case TYPE_HANDLE: case TYPE_INT64: case TYPE_DOUBLE: case TYPE_POINTER: case TYPE_DESCRIPTOR: return 8;
    default: return 4;
  }
}

static attribute *get(const bag *b, int name) {
  for (attribute *a = b ? b->attributes : NULL; a; a = a->next)
    if (a->name == name) return a;
  return NULL;
}
static const void *value(const bag *b, int name) {
  attribute *a = get(b, name);
  if (!a) soft_die("a descriptor of cuDNN's type %d has no attribute %d", b ? b->type : -1, name);
  return a->data;
}
static bag *child(const bag *b, int name) {
  attribute *a = get(b, name);
  return a && a->count ? *(bag **)a->data : NULL;
}

static void set(bag *b, int name, int type, int64_t count, const void *data) {
  attribute *a = malloc(sizeof *a + width(type) * count);
  *a = (attribute){b->attributes, name, type, count};
  if (count) memcpy(a->data, data, width(type) * count);
  b->attributes = a; // found before an older one of the name
}

int cudnnBackendCreateDescriptor(int type, descriptor **made) {
  *made = malloc(sizeof **made);
  return (*made)->bag = make(type), STATUS_SUCCESS;
}
int cudnnBackendDestroyDescriptor(descriptor *d) {
  let_go(d->bag);
  return free(d), STATUS_SUCCESS;
}
int cudnnBackendFinalize(descriptor *d) {
  (void)d;
  return STATUS_SUCCESS;
}

int cudnnBackendSetAttribute(descriptor *d, int name, int type, int64_t count, const void *data) {
  if (type != TYPE_DESCRIPTOR) return set(d->bag, name, type, count, data), STATUS_SUCCESS;
  bag *bags[count + 1];
  for (int64_t i = 0; i < count; i++) bags[i] = held(((descriptor *const *)data)[i]->bag);
  return set(d->bag, name, type, count, bags), STATUS_SUCCESS;
}

// Where a descriptor is asked for, the caller gives one of his own to fill.
int cudnnBackendGetAttribute(descriptor *d, int name, int type, int64_t room, int64_t *count, void *data) {
  attribute *a = get(d->bag, name);
  int64_t found = a ? a->count : type == TYPE_INT64 || type == TYPE_INT32;
  if (name == HEURISTIC_RESULTS) {
    found = 1;
    if (room > 0 && data) {
      bag *engine = make(ENGINE), *graph = held(child(d->bag, HEURISTIC_GRAPH));
      set(engine, ENGINE_GRAPH, TYPE_DESCRIPTOR, 1, &graph);
      set((*(descriptor **)data)->bag, CONFIGURATION_ENGINE, TYPE_DESCRIPTOR, 1, &engine);
    }
  } else if (a && type == TYPE_DESCRIPTOR) {
    for (int64_t i = 0; data && i < room && i < a->count; i++) {
      descriptor *to = ((descriptor **)data)[i];
      let_go(to->bag);
      to->bag = held(((bag **)a->data)[i]);
    }
  } else if (a) {
    if (data) memcpy(data, a->data, width(type) * (room < a->count ? room : a->count));
  } else if (found && data && room > 0) {
    memset(data, 0, width(type));
    if (name == GRAPH_ENGINES) *(char *)data = 1; // their number
  }
  if (count) *count = found;
  return STATUS_SUCCESS;
}

// ---- plans ----
enum { CONVOLVE, CONVOLVE_BACK, POINT };
typedef struct {
  int kind, mode;
  tensor x, b, y; // b: the filter, or the second input
  int scratch[3]; // which temporary a tensor without data lies in, else -1
  convolution convolution;
} operation;

typedef struct {
  int count, temporaries;
  operation operations[];
} program;

enum { MOST_TEMPORARIES = 32 };
typedef struct {
  const attribute *ids, *pointers;
  int64_t temporary[MOST_TEMPORARIES];
  int temporaries;
} places;

// A tensor as an operation sees it: the caller's memory, or a temporary between two operations.
static tensor view(places *p, const bag *d, int *scratch) {
  tensor t = {0};
  *scratch = -1;
  if (!d) return t;
  int64_t id = *(const int64_t *)value(d, TENSOR_ID);
  if (*(const int *)value(d, TENSOR_DATA_TYPE) != 0) soft_die("cuDNN's graphs are implemented for floats only");
  t.rank = get(d, TENSOR_SIZES)->count;
  if (t.rank > MOST_DIMENSIONS) soft_die("a tensor of cuDNN with %d dimensions", t.rank);
  memcpy(t.size, value(d, TENSOR_SIZES), t.rank * 8);
  memcpy(t.stride, value(d, TENSOR_STRIDES), t.rank * 8);
  for (int64_t i = 0; i < p->ids->count; i++)
    if (((int64_t *)p->ids->data)[i] == id) return t.data = ((float **)p->pointers->data)[i], t;
  int i = 0;
  while (i < p->temporaries && p->temporary[i] != id) i++;
  if (i == MOST_TEMPORARIES) soft_die("a graph of cuDNN with more than %d operations", i);
  if (i == p->temporaries) p->temporary[p->temporaries++] = id;
  return *scratch = i, t;
}

// cudnnPointwiseMode_t
enum { POINT_ADD = 0, POINT_MUL = 1, POINT_IDENTITY = 21, POINT_RELU = 100, POINT_TANH = 101, POINT_SIGMOID = 102 };

static float point(int mode, float a, float b) {
  switch (mode) {
    case POINT_ADD: return a + b;
    case POINT_MUL: return a * b;
    case POINT_IDENTITY: return a;
    case POINT_RELU: return a > 0 ? a : 0;
    case POINT_TANH: return tanhf(a);
    case POINT_SIGMOID: return 1 / (1 + expf(-a));
    default: soft_die("cuDNN's pointwise mode %d is not implemented", mode);
  }
}

static void run_program(void *data) {
  program *p = data;
  float *temporary[MOST_TEMPORARIES] = {0};
  for (int i = 0; i < p->count; i++) {
    operation o = p->operations[i]; // a copy: a graph is replayed
    tensor *tensors[] = {&o.x, &o.b, &o.y};
    for (int j = 0; j < 3; j++)
      if (o.scratch[j] >= 0) {
        float **memory = &temporary[o.scratch[j]];
        if (!*memory) *memory = malloc(soft_extent(tensors[j]) * sizeof **memory);
        tensors[j]->data = *memory;
      }
    int64_t at[MOST_DIMENSIONS] = {0};
    if (o.kind == CONVOLVE) soft_convolve(&o.convolution, o.x, o.b, o.y);
    if (o.kind == CONVOLVE_BACK) soft_convolve_back(&o.convolution, o.x, o.b, o.y);
    if (o.kind == POINT)
      do *soft_element(&o.y, at) = point(o.mode, *soft_element(&o.x, at), o.b.rank ? *soft_element(&o.b, at) : 0);
      while (soft_step(&o.y, at));
  }
  for (int i = 0; i < p->temporaries; i++) free(temporary[i]);
}

static convolution convolution_of(const bag *d) {
  convolution c = {0};
  size_t size = get(d, CONVOLUTION_STRIDES)->count * 8;
  memcpy(c.dilation, value(d, CONVOLUTION_DILATIONS), size);
  memcpy(c.stride, value(d, CONVOLUTION_STRIDES), size);
  memcpy(c.padding, value(d, CONVOLUTION_PADDING), size);
  return c;
}

static operation read_operation(const bag *d, places *p) {
  operation o = {0};
  if (d->type == OPERATION_FORWARD) {
    o.kind = CONVOLVE;
    o.x = view(p, child(d, FORWARD_X), &o.scratch[0]);
    o.b = view(p, child(d, FORWARD_W), &o.scratch[1]);
    o.y = view(p, child(d, FORWARD_Y), &o.scratch[2]);
    o.convolution = convolution_of(child(d, FORWARD_CONVOLUTION));
  } else if (d->type == OPERATION_BACKWARD_DATA) {
    o.kind = CONVOLVE_BACK;
    o.x = view(p, child(d, BACKWARD_X), &o.scratch[0]);
    o.b = view(p, child(d, BACKWARD_W), &o.scratch[1]);
    o.y = view(p, child(d, BACKWARD_Y), &o.scratch[2]);
    o.convolution = convolution_of(child(d, BACKWARD_CONVOLUTION));
  } else if (d->type == OPERATION_POINTWISE) {
    o.kind = POINT;
    o.mode = *(const int *)value(child(d, POINTWISE), POINTWISE_MODE);
    o.x = view(p, child(d, POINTWISE_X), &o.scratch[0]);
    o.b = view(p, child(d, POINTWISE_B), &o.scratch[1]);
    o.y = view(p, child(d, POINTWISE_Y), &o.scratch[2]);
    point(o.mode, 0, 0); // ends the process where it is not implemented
  } else {
    soft_die("cuDNN's operation %d is not implemented", d->type);
  }
  return o;
}

int cudnnBackendExecute(handle *h, descriptor *plan, descriptor *pack) {
  const bag *graph = child(child(child(plan->bag, PLAN_CONFIGURATION), CONFIGURATION_ENGINE), ENGINE_GRAPH);
  const attribute *operations = get(graph, GRAPH_OPERATIONS);
  places p = {.ids = get(pack->bag, PACK_IDS), .pointers = get(pack->bag, PACK_POINTERS)};
  if (!operations || !p.ids || !p.pointers) soft_die("a plan of cuDNN without a graph or without tensors");
  size_t size = sizeof(program) + operations->count * sizeof(operation);
  program *made = calloc(1, size);
  made->count = operations->count;
  for (int i = 0; i < made->count; i++) made->operations[i] = read_operation(((bag **)operations->data)[i], &p);
  made->temporaries = p.temporaries;
  int status = soft_cudnn_submit(h, "cuDNN's graph", run_program, made, size);
  free(made);
  return status;
}
