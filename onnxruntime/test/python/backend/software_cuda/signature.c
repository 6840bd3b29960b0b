// Copyright (c) Microsoft Corporation. All rights reserved.
// Licensed under the MIT License.

// Kernels by their names: a mangled name tells the types that a kernel was made for and the size of each parameter.
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"

static char *demangle(const char *mangled) {
  // From the library that the execution provider itself needs.
  void *library = dlopen("libstdc++.so.6", RTLD_LAZY);
  char *(*convert)(const char *, char *, size_t *, int *) = library ? dlsym(library, "__cxa_demangle") : NULL;
  char *text = convert ? convert(mangled, NULL, NULL, NULL) : NULL;
  return text ? text : strdup(mangled);
}

size_t soft_size_of(const char *type) {
  static const struct {
    const char *name;
    size_t size;
  } types[] = {
      {"bool", 1}, {"signed char", 1}, {"unsigned char", 1}, {"short", 2}, {"unsigned short", 2}, {"__half", 2},
      {"int", 4}, {"unsigned int", 4}, {"float", 4}, {"long", 8}, {"unsigned long", 8}, {"double", 8},
      {"int2", 8}, {"int4", 16}, {"std::pair<unsigned long, unsigned long>", 16},
      {"onnxruntime::cuda::DivMod<int>", sizeof(divmod)},
      // 12 numbers in place, and a pointer to more of them
      {"onnxruntime::cuda::ElementCountsAndInputDimsSpanOrGpu", 104},
      {"onnxruntime::cuda::detail::ReduceSumNdMetadata", 536},
  };
  size_t length = strlen(type);
  if (length && (type[length - 1] == '*' || type[length - 1] == '&')) return 8;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (strcmp(type, types[i].name) == 0) return types[i].size;
  static const char array[] = "onnxruntime::cuda::TArray<";
  const char *comma = strrchr(type, ',');
  if (strncmp(type, array, sizeof array - 1) == 0 && comma) {
    char *element = strndup(type + sizeof array - 1, comma - type - (sizeof array - 1));
    size_t size = soft_size_of(element), count = atoi(comma + 1);
    free(element);
    return size ? (size == 8 ? 8 : 4) + count * size : 0;
  }
  // What an elementwise kernel does, as an object with up to two numbers.
  if (strstr(type, "::OffsetCalculatorFor2D<")) return 16;
  if (strstr(type, "::OffsetCalculator<")) return 140;
  if (strstr(type, "::OP_") || strstr(type, "::Func") || strstr(type, "::_Is")) return 16;
  return 0;
}

size_t soft_width(const soft_call *call, int i) {
  size_t size = call->kernel->width[i];
  if (!size) soft_die("no such kernel: %s, as the size of its type %d is not known", call->kernel->text, i);
  return size;
}

int64_t soft_integer(const soft_call *call, int i) {
  return call->kernel->size[i] == 4 ? PARAMETER(call, int, i) : PARAMETER(call, int64_t, i);
}

// Cuts a list at its commas, up to the bracket that ends it. Returns what comes behind that.
static char *cut(char *list, const char **parts, int most, int *count) {
  int depth = 0;
  *count = 0;
  for (char *start = list, *at = list;; at++) {
    if (!*at) return at;
    if (*at == '<' || *at == '(') depth++;
    if ((*at == '>' || *at == ')') && depth-- == 0) {
      *at = 0;
      if (at > start && *count < most) parts[(*count)++] = start;
      return at + 1;
    }
    if (*at == ',' && depth == 0) {
      *at = 0;
      if (*count < most) parts[(*count)++] = start;
      start = at + 2;
    }
  }
}

static void read_signature(soft_kernel *k) {
  char *text = strdup(k->text);
  int depth = 0, count;
  char *at = text;
  k->name = text;
  for (; *at && !(depth == 0 && (*at == '<' || *at == '(') && strncmp(at, "(anonymous", 10) != 0); at++) {
    depth += (*at == '(') - (*at == ')');
    if (*at == ' ' && depth == 0) k->name = at + 1; // behind the type of what it returns
  }
  if (*at == '<') {
    *at = 0;
    at = cut(at + 1, k->types, MOST_TYPES, &count);
    for (int i = 0; i < count; i++) { // "> >" ends two lists
      size_t length = strlen(k->types[i]);
      if (length && k->types[i][length - 1] == ' ') ((char *)k->types[i])[length - 1] = 0;
    }
  }
  if (*at != '(') return;
  *at = 0;
  cut(at + 1, k->parameter, MOST_PARAMETERS, &k->parameters);
}

static const soft_entry *find(const char *name) {
  static const soft_entry *const tables[] = {soft_elementwise, soft_layout, soft_indexing, soft_reductions,
                                             soft_fusions};
  static const char space[] = "onnxruntime::";
  if (strncmp(name, space, sizeof space - 1) != 0) return NULL;
  for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
    for (const soft_entry *e = tables[t]; e->name; e++)
      if (strcmp(e->name, name + sizeof space - 1) == 0) return e;
  return NULL;
}

const soft_kernel *soft_kernel_named(const char *mangled) {
  soft_kernel *k = calloc(1, sizeof *k);
  k->text = demangle(mangled);
  read_signature(k);
  const soft_entry *entry = find(k->name);
  if (!entry) soft_die("no such kernel: %s", k->text);
  k->run = entry->run;
  if (entry->operation && !(k->operation = entry->operation(k))) soft_die("no such kernel: %s", k->text);
  for (int i = 0; k->types[i]; i++) k->width[i] = soft_size_of(k->types[i]);
  for (int i = 0; i < k->parameters; i++) {
    size_t size = soft_size_of(k->parameter[i]);
    if (!size) soft_die("no such kernel: %s, as the size of %s is not known", k->text, k->parameter[i]);
    k->offset[i] = k->total;
    k->size[i] = size;
    k->total += (size + 7) & ~7;
  }
  return k;
}
