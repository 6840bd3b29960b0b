# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Decides which models an OpenVINO session may run in parallel: only shapes decide whether a run of them fails.

In the models that this module permits, all runs with the same input shapes succeed, or all fail. So one run with these
shapes shows whether the others succeed. The exception is a Gather that ORT gives to the CPU EP, which checks indices.
Its failure damages no session, but ends parallel runs, as each failure of known shapes does.

A value *follows from shapes* if it is computed from constants and from the shapes of other values only. A node computes
if all of its inputs follow from shapes, because it then computes the same each time. It also computes if its operator
is in the lists below. Next to the tests, ``backend_parallel_operators.py`` runs each operator with hostile values.

Each run uses an *infer request* of OpenVINO. If all of them are in use, the EP creates one (``InferRequestPool`` in
``basic_backend.h``). OpenVINO then reads descriptions of outputs (``SyncInferRequest::init_tensor``), while a parallel
run with other shapes replaces them, and the process can terminate. So if shapes can differ, the number of parallel runs
is limited to the infer requests that the EP has created with the session.
"""

from __future__ import annotations

import re
import sys

from onnx import NodeProto

import onnxruntime
from onnxruntime import InferenceSession
from onnxruntime.backend.openvino.model_graph import ONNX, UNKNOWN, Graph, subgraphs, types_named
from onnxruntime.backend.provider_names import OF_OPENVINO, OPENVINO
from onnxruntime.backend.session import parts

# The releases of ORT with a built-in EP, and of the plugin EP, for which the lists are valid. Both on the CPU only.
BUILT_IN, PLUGIN = frozenset({"1.24.1"}), frozenset({"1.8.1"})

# Operators that compute any values.
_ANY = """
    Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BatchNormalization Cast CastLike Ceil Celu
    Clip Concat Conv ConvTranspose Cos Cosh DepthToSpace DequantizeLinear Div Elu Equal Erf Exp Flatten Floor Gather
    Gelu Gemm GlobalAveragePool GlobalMaxPool Greater GreaterOrEqual GroupNormalization HardSigmoid HardSwish
    Identity InstanceNormalization LRN LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax
    LpNormalization MatMul Max MaxPool Mean MeanVarianceNormalization Min Mish Mod Mul Neg Not Or PRelu Pow
    QuantizeLinear Reciprocal Relu Round Selu Shape Shrink Sigmoid Sign Sin Sinh Softmax Softplus Softsign
    SpaceToDepth Sqrt Sub Sum Tan Tanh ThresholdedRelu Transpose Where Xor
"""
# Operators that compute any values of their first input. The other inputs must follow from shapes.
_FIRST = """
    CumSum Dropout Expand Pad ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd
    ReduceSum ReduceSumSquare Reshape Resize Slice Split Squeeze Tile TopK Trilu Unsqueeze
"""
# Whether the inputs after the first may vary.
OPERATORS = dict.fromkeys(_ANY.split(), True) | dict.fromkeys(_FIRST.split(), False)
# Operators that draw random numbers, whatever their inputs are.
_RANDOM = "RandomNormal RandomNormalLike RandomUniform RandomUniformLike Bernoulli Multinomial"
RANDOM = frozenset(_RANDOM.split())
TYPES = types_named("FLOAT FLOAT16 DOUBLE BOOL INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64")


def only_shapes_decide(graph: Graph) -> bool:
    """Return whether the shapes of the inputs alone decide whether a run of a model fails."""
    if graph.has_functions:
        return False
    if not TYPES.issuperset(graph.types[name] for name in graph.inputs):
        return False

    for node in graph.nodes:
        if node.domain not in ONNX or node.op_type in RANDOM or subgraphs(node):
            return False
        varying = [bool(name) and name not in graph.from_shapes for name in node.input]
        if True not in varying:
            continue
        if not _is_permitted(node, varying) or not TYPES.issuperset(_types(node, graph)):
            return False
    return True


def _is_permitted(node: NodeProto, varying: list[bool]) -> bool:
    """Return whether the lists permit a node some of whose inputs vary."""
    all_may_vary = OPERATORS.get(node.op_type)
    if all_may_vary is None:
        return False
    return all_may_vary or True not in varying[1:]


def _types(node: NodeProto, graph: Graph) -> list[int]:
    """Return the types of a node's constant inputs, and those in its attributes."""
    types = [graph.types[name] for name in node.input if name in graph.constants]
    for attribute in node.attribute:
        if attribute.name in ("to", "output_dtype") and attribute.i:
            types.append(attribute.i)
    return types


def is_known(session: InferenceSession) -> bool:
    """Return whether the lists are valid for the EP of a session: for its release, and for its device."""
    # Any device of a plugin EP can be the one of the session.
    plugins = [device for device in onnxruntime.get_ep_devices() if device.ep_name in OF_OPENVINO]
    for device in plugins:
        version = device.ep_metadata.get("version", "")
        if version.partition("+")[0] not in PLUGIN or device.device.type.name != "CPU":
            return False
    if plugins:
        return True
    if onnxruntime.__version__ not in BUILT_IN:
        return False
    device_type = _option_of(session, "device_type", "CPU")
    return re.fullmatch("((AUTO|HETERO|MULTI):)?CPU(,CPU)*", device_type) is not None


def most_parallel(session: InferenceSession, graph: Graph) -> int:
    """Return how many runs can be parallel without a new infer request, ``sys.maxsize`` if their shapes are equal."""
    for name in graph.inputs:
        if 0 in graph.shapes.get(name, UNKNOWN):
            # The built-in EP creates this number (``BasicBackend`` in ``basic_backend.cc``), and the plugin EP one.
            created = _option_of(session, "num_of_threads", "1")
            return int(created)
    return sys.maxsize


def _option_of(session: InferenceSession, option: str, default: str) -> str:
    """Return the text of an option of the built-in EP of a session that the backend created."""
    options = session.get_session_options()
    key = f"ep.{OPENVINO.lower()}.{option}"
    return parts.config_entry(options, key) or default
