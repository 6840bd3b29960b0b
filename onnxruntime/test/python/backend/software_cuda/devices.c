// Copyright (c) Microsoft Corporation. All rights reserved.
// Licensed under the MIT License.

// Devices: how many there are, which one a thread uses, and what they say of themselves.
#include <stdio.h>
#include <string.h>

#include "runtime.h"

static __thread int current;

int cudaGetDeviceCount(int *count) {
  *count = soft.devices;
  RETURN(soft.devices ? SUCCESS : NO_DEVICE);
}

int cudaGetDevice(int *device) { return *device = current, SUCCESS; }

int cudaSetDevice(int device) {
  if (device < 0 || device >= soft.devices) RETURN(INVALID_DEVICE);
  return current = device, SUCCESS;
}

int cudaDriverGetVersion(int *version) { return *version = 13000, SUCCESS; }
int cudaRuntimeGetVersion(int *version) { return *version = 13000, SUCCESS; }

// The numbers of an H100, rounded: compute capability 9.0, 132 multiprocessors of 2048 threads.
enum {
  MAJOR = 9,
  MULTIPROCESSORS = 132,
  BLOCK_THREADS = 1024,
  MULTIPROCESSOR_THREADS = 2048,
  REGISTERS = 65536,
  WARP = 32,
  L2_BYTES = 50 << 20,
  BLOCK_SHARED = 49152,
  BLOCK_SHARED_OPTIN = 232448,
  MULTIPROCESSOR_SHARED = 233472,
};

// cudaDeviceProp of CUDA 13, by the offsets of its members.
enum { PROPERTIES_SIZE = 1008 };
static const struct {
  short offset;
  int value;
} int_properties[] = {
    {304, REGISTERS},              // regsPerBlock
    {308, WARP},                   // warpSize
    {320, BLOCK_THREADS},          // maxThreadsPerBlock
    {324, BLOCK_THREADS},          // maxThreadsDim
    {328, BLOCK_THREADS},
    {332, 64},
    {336, 2147483647},             // maxGridSize
    {340, 65535},
    {344, 65535},
    {360, MAJOR},                  // major, then minor
    {384, MULTIPROCESSORS},        // multiProcessorCount
    {596, L2_BYTES},               // l2CacheSize
    {604, MULTIPROCESSOR_THREADS}, // maxThreadsPerMultiProcessor
    {632, REGISTERS},              // regsPerMultiprocessor
    {688, 32},                     // maxBlocksPerMultiProcessor
};
static const struct {
  short offset;
  size_t value;
} size_properties[] = {
    {296, BLOCK_SHARED},           // sharedMemPerBlock
    {352, 65536},                  // totalConstMem
    {624, MULTIPROCESSOR_SHARED},  // sharedMemPerMultiprocessor
    {672, BLOCK_SHARED_OPTIN},     // sharedMemPerBlockOptin
    {696, 1024},                   // reservedSharedMemPerBlock
};

int cudaGetDeviceProperties(char *properties, int device) {
  if (device < 0 || device >= soft.devices) RETURN(INVALID_DEVICE);
  memset(properties, 0, PROPERTIES_SIZE);
  snprintf(properties, 256, "Software CUDA %d", device);
  memset(properties + 256, device + 1, 16);                       // uuid
  memcpy(properties + 288, &soft.memory, sizeof soft.memory);     // totalGlobalMem
  for (size_t i = 0; i < sizeof int_properties / sizeof *int_properties; i++)
    memcpy(properties + int_properties[i].offset, &int_properties[i].value, sizeof(int));
  for (size_t i = 0; i < sizeof size_properties / sizeof *size_properties; i++)
    memcpy(properties + size_properties[i].offset, &size_properties[i].value, sizeof(size_t));
  int bus = device + 1;
  memcpy(properties + 568, &bus, sizeof bus);                     // pciBusID
  return SUCCESS;
}

int cudaDeviceGetAttribute(int *value, int attribute, int device) {
  if (device < 0 || device >= soft.devices) RETURN(INVALID_DEVICE);
  switch (attribute) {
    case 1: *value = BLOCK_THREADS; break;
    case 8: *value = BLOCK_SHARED; break;
    case 10: *value = WARP; break;
    case 12: *value = REGISTERS; break;
    case 16: *value = MULTIPROCESSORS; break;
    case 38: *value = L2_BYTES; break;
    case 39: *value = MULTIPROCESSOR_THREADS; break;
    case 75: *value = MAJOR; break;
    case 76: *value = 0; break; // the minor part of the compute capability
    case 81: *value = MULTIPROCESSOR_SHARED; break;
    case 97: *value = BLOCK_SHARED_OPTIN; break;
    default:
      soft_log("device attribute %d is 0 here", attribute);
      *value = 0;
  }
  return SUCCESS;
}
