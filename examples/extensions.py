# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Run a model with an operator of onnxruntime-extensions. The environment specifies the library.

``ORT_ONNX_BACKEND_CONFIG='{"extensions": ["onnxruntime_extensions"]}' python examples/extensions.py``
"""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
from onnx import TensorProto, helper

import onnxruntime.backend


def upper() -> bytes:
    """Return a model that converts text to upper case."""
    node = helper.make_node("StringUpper", ["text"], ["upper"], domain="ai.onnx.contrib")
    values = [helper.make_tensor_value_info(name, TensorProto.STRING, [None]) for name in ("text", "upper")]
    graph = helper.make_graph([node], "upper", values[:1], values[1:])
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.contrib", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString()


if __name__ == "__main__":
    if importlib.util.find_spec("onnxruntime_extensions") is None:
        sys.exit("No module named 'onnxruntime_extensions': pip install onnxruntime-extensions")
    rep = onnxruntime.backend.prepare(upper(), provider_options={"CPUExecutionProvider": {}})
    (output,) = rep.run([np.array(["hello", "world"], object)])
    print(output.tolist(), rep.extensions)
