// Copyright (c) Microsoft Corporation. All rights reserved.
// Licensed under the MIT License.

// Errors of the runtime: the last one of each thread, names and texts.
#include "runtime.h"

static __thread int last_error;

int soft_returned(int error, const char *function) {
  if (error) {
    soft_log("%s: error %d, %s", function, error, cudaGetErrorName(error));
    last_error = error;
  }
  return error;
}

int cudaGetLastError(void) {
  int error = last_error;
  last_error = SUCCESS;
  return error;
}

int cudaPeekAtLastError(void) { return last_error; }

static const struct {
  int error;
  const char *name, *text;
} names[] = {
    {SUCCESS, "cudaSuccess", "no error"},
    {INVALID_VALUE, "cudaErrorInvalidValue", "invalid argument"},
    {OUT_OF_MEMORY, "cudaErrorMemoryAllocation", "out of memory"},
    {INVALID_DEVICE_FUNCTION, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {NO_DEVICE, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {INVALID_DEVICE, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {INVALID_HANDLE, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {ILLEGAL_STATE, "cudaErrorIllegalState", "the operation cannot be performed in the present state"},
    {CAPTURE_UNSUPPORTED, "cudaErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"},
    {CAPTURE_INVALIDATED, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {CAPTURE_ISOLATION, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {CAPTURE_WRONG_THREAD, "cudaErrorStreamCaptureWrongThread",
     "attempt to terminate a thread-local capture sequence from another thread"},
};

const char *cudaGetErrorName(int error) {
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].error == error) return names[i].name;
  return "unrecognized error code";
}

const char *cudaGetErrorString(int error) {
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].error == error) return names[i].text;
  return "unrecognized error code";
}
