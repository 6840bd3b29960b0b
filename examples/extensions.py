# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Run a model with an operator of onnxruntime-extensions. The environment specifies the library.

``ORT_ONNX_BACKEND_CONFIG='{"extensions": ["onnxruntime_extensions"]}' python examples/extensions.py``
"""

import importlib.util
import sys

import numpy as np
from onnx import parser

import onnxruntime.backend


def upper() -> bytes:
    """Return a model that converts text to upper case."""
    model = parser.parse_model("""
        <ir_version: 10, opset_import: ["": 21, "ai.onnx.contrib": 1]>
        upper (string[n] text) => (string[n] upper) { upper = ai.onnx.contrib.StringUpper(text) }
    """)
    return model.SerializeToString()


if __name__ == "__main__":
    if importlib.util.find_spec("onnxruntime_extensions") is None:
        sys.exit("No module named 'onnxruntime_extensions': pip install onnxruntime-extensions")
    rep = onnxruntime.backend.prepare(upper(), provider_options={"CPUExecutionProvider": {}})
    (output,) = rep.run([np.array(["hello", "world"], object)])
    print(output.tolist(), rep.extensions)
