// Copyright (c) Microsoft Corporation. All rights reserved.
// Licensed under the MIT License.

// libcuda: what a program asks the driver before it uses the runtime.
#include "software_cuda.h"

int cuInit(unsigned flags) {
  (void)flags;
  return SUCCESS;
}
int cuDriverGetVersion(int *version) { return *version = 13000, SUCCESS; }
int cuDeviceGetCount(int *count) { return *count = soft.devices, SUCCESS; }
