// Copyright (c) Microsoft Corporation. All rights reserved.
// Licensed under the MIT License.

// Numbers of half precision (IEEE 754 binary16), rounded to the nearest even.
#include <math.h>

#include "software_cuda.h"

float soft_half_to_float(uint16_t half) {
  int exponent = half >> 10 & 31, fraction = half & 1023;
  float size = exponent == 31 ? (fraction ? NAN : INFINITY)
               : exponent     ? ldexpf(1024 + fraction, exponent - 25)
                              : ldexpf(fraction, -24);
  return half & 0x8000 ? -size : size;
}

uint16_t soft_float_to_half(float number) {
  uint16_t sign = signbit(number) ? 0x8000 : 0;
  number = fabsf(number);
  if (number != number) return sign | 0x7e00;
  if (number >= 65520) return sign | 0x7c00;
  int exponent;
  frexpf(number, &exponent); // number = 0.5 to 1, times 2 ** exponent
  if (exponent < -13 || number == 0) return sign | (uint16_t)nearbyintf(ldexpf(number, 24));
  // A fraction that rounds up to 2048 carries into the exponent, as it must.
  return sign | (((exponent + 13) << 10) + (uint16_t)nearbyintf(ldexpf(number, 11 - exponent)));
}
