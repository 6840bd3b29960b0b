// Copyright (c) Microsoft Corporation. All rights reserved.
// Licensed under the MIT License.

// Settings from the environment, the log, and the end of the process.
#include "software_cuda.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

soft_settings soft;

static int setting(const char *name, int otherwise) {
  const char *text = getenv(name);
  return text && *text ? atoi(text) : otherwise;
}

// Before the constructors of libraries that use this one, which register kernels.
__attribute__((constructor(101))) static void read_settings(void) {
  soft.devices = setting("SOFTCUDA_DEVICES", 2);
  soft.memory = (size_t)setting("SOFTCUDA_MEMORY_MIB", 4096) << 20;
  soft.log = setting("SOFTCUDA_LOG", 0);
  soft.lazy = setting("SOFTCUDA_LAZY", 0);
  soft.capture_us = setting("SOFTCUDA_CAPTURE_US", 0);
  soft.replay_us = setting("SOFTCUDA_REPLAY_US", 0);
  soft.copies_in_capture = setting("SOFTCUDA_COPY_IN_CAPTURE", 0);
}

static void say(const char *format, va_list arguments) {
  char text[4096];
  vsnprintf(text, sizeof text, format, arguments);
  fprintf(stderr, "software CUDA: %s\n", text);
}

void soft_log(const char *format, ...) {
  if (!soft.log) return;
  va_list arguments;
  va_start(arguments, format);
  say(format, arguments);
  va_end(arguments);
}

void soft_die(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  say(format, arguments);
  va_end(arguments);
  abort();
}

void soft_nothing(const char *name, int *called) {
  if (!__atomic_exchange_n(called, 1, __ATOMIC_RELAXED)) soft_log("%s does nothing here", name);
}
