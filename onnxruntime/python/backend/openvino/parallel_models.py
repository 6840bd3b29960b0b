# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Decides which models an OpenVINO session may run in parallel: only shapes decide whether a run of them fails.

In the models that this module permits, all runs with the same input shapes succeed, or all fail. So one run with these
shapes shows whether the others succeed. The exception is a Gather that ORT gives to the CPU EP, which checks indices.
Its failure damages no session, but ends parallel runs, as each failure of known shapes does.

A value *follows from shapes* if it is a constant, or is computed from constants and from the shapes of other values. A
node computes if all of its inputs follow from shapes (then it computes the same each time), or if its operator is in
the lists below. ``backend_parallel_operators.py``, next to the tests, runs each operator with hostile values.
"""

from __future__ import annotations

import re

from onnx import ModelProto, TensorProto

import onnxruntime
from onnxruntime import InferenceSession
from onnxruntime.backend.provider_names import OF_OPENVINO, OPENVINO

MOST_BYTES = 2**28  # of a model that onnx parses once more for the check, without its external data
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
_NUMBERS = ("value_int", "value_ints", "value_float", "value_floats")  # of a Constant node
_TYPES = "FLOAT FLOAT16 DOUBLE BOOL INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64"
TYPES = frozenset(map(TensorProto.DataType.Value, _TYPES.split()))


def why_unknown(session: InferenceSession) -> str:
    """Return why the lists are not valid for the EP of a session, ``""`` if they are."""
    if is_known(session):
        return ""
    return "the operators are not examined for this release or device of the EP"


def why_serial(model: ModelProto) -> str:
    """Return why no runs of a model are parallel, ``""`` if runs may be."""
    if only_shapes_decide(model):
        return ""
    return "in this model, not only the shapes of the inputs decide whether a run fails"


def only_shapes_decide(model: ModelProto) -> bool:
    """Return whether the shapes of the inputs alone decide whether a run of a model fails."""
    graph = model.graph
    constants = {tensor.name: tensor.data_type for tensor in graph.initializer}
    # The EP ignores feeds for initializers, and the backend refuses them.
    inputs = {value.name: value.type.tensor_type.elem_type for value in graph.input if value.name not in constants}
    if model.functions or not TYPES.issuperset(inputs.values()):
        return False
    varying = set(inputs)
    for node in graph.node:  # in topological order, or ORT rejects the model
        if node.op_type == "Constant":
            for value in node.attribute:
                constants[node.output[0]] = TensorProto.INT64 if value.name in _NUMBERS else value.t.data_type
        subgraphs = [each for each in node.attribute if each.HasField("g") or each.graphs]  # they use any values
        if subgraphs or node.domain not in ("", "ai.onnx") or node.op_type in RANDOM:
            return False
        if varying.isdisjoint(node.input) and node.op_type != "Dropout":  # random in training mode
            continue
        all_may_vary = OPERATORS.get(node.op_type)
        if all_may_vary is None or not (all_may_vary or varying.isdisjoint(node.input[1:])):
            return False
        types = [constants[name] for name in node.input if name in constants]
        types += [each.i for each in node.attribute if each.name in ("to", "output_dtype") and each.i]
        if not TYPES.issuperset(types):
            return False
        if node.op_type != "Shape":  # its output follows from shapes
            varying.update(filter(None, node.output))
    return True


def is_known(session: InferenceSession) -> bool:
    """Return whether the lists are valid for the EP of a session: for its release, and for its device."""
    # Any device of a plugin EP can be the one of the session.
    plugins = [device for device in onnxruntime.get_ep_devices() if device.ep_name in OF_OPENVINO]
    if plugins:
        versions = {device.ep_metadata.get("version", "").partition("+")[0] for device in plugins}
        return PLUGIN.issuperset(versions) and {device.device.type.name for device in plugins} == {"CPU"}
    try:
        device = session.get_session_options().get_session_config_entry(f"ep.{OPENVINO.lower()}.device_type")
    except RuntimeError:  # no such entry
        device = "CPU"
    return onnxruntime.__version__ in BUILT_IN and re.fullmatch("((AUTO|HETERO|MULTI):)?CPU(,CPU)*", device) is not None
