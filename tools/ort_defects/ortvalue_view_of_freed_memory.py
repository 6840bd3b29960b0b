# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""`OrtValue.numpy()` returns a view that does not keep its memory alive.

onnxruntime 1.31.1 and 1.32.0. An `OrtValue` made from an array uses the memory of the array. `numpy()` returns a view
that keeps the `OrtValue` alive, but not the array.

In this backend: one function copies values out of an `OrtValue`, and no other code calls `numpy()`.
"""

import numpy as np

import onnxruntime

view = onnxruntime.OrtValue.ortvalue_from_numpy(np.full(4, 7, np.float32)).numpy()
others = [np.zeros(4, np.float32) for _ in range(100)]
print(view)  # expected: [7, 7, 7, 7]
raise SystemExit(bool((view != 7).any()))
