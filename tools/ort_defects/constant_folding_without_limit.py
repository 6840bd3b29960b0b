# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Constant folding has no memory limit.

onnxruntime 1.24 to 1.26. A free dimension override makes ONNX Runtime fold a model of about 100 bytes into gigabytes.
From 1.27, one node folds at most 1 GiB, but a model can have any number of nodes.

In this backend: sizes, elements of an input, and the square of one dimension are limited.
"""

import resource

import onnx.parser

import onnxruntime

text = """<ir_version: 10, opset_import: ["": 21]> g (float[N] x) => (float[N] y) {
    s = Shape(x)  z = ConstantOfShape(s)  y = Add(x, z) }"""
model = onnx.parser.parse_model(text).SerializeToString()
options = onnxruntime.SessionOptions()
options.add_free_dimension_override_by_name("N", 2**28)
onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
print(used, "MiB for a model of", len(model), "bytes")
raise SystemExit(used > 1500)
