# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Finds the sessions whose runs may be parallel: the EP has the whole graph, and all shapes in it are fixed.

Then, each run gives OpenVINO new memory for all inputs and outputs (``BasicBackend::Infer``), and a failed run
leaves nothing behind. The runs of other sessions have an order (:mod:`.run_order`).
"""

import re

from onnx import ModelProto, NodeProto

from onnxruntime import InferenceSession
from onnxruntime.backend.provider_names import OF_OPENVINO
from onnxruntime.backend.session import free_dimensions, presence

_ON_CPU = "((AUTO|HETERO|MULTI):)?CPU(,CPU)*"
_ONNX = ("", "ai.onnx")  # the names of its domain
# Operators whose output shapes depend on the values of all inputs, or of the inputs after the first.
_ALL = """
    BlackmanWindow Compress ConstantOfShape HammingWindow HannWindow ImageDecoder MelWeightMatrix NonMaxSuppression
    NonZero Range SplitToSequence StringNormalizer StringSplit Unique
"""
_LATER = """
    AffineGrid CenterCropPad Col2Im DFT Expand MaxUnpool OneHot Pad ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp
    ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Reshape Resize STFT Slice Split Squeeze Tile
    TopK Unsqueeze Upsample
"""
_FIRST_DECIDING = dict.fromkeys(_ALL.split(), 0) | dict.fromkeys(_LATER.split(), 1)  # the first such input
# Operators that can draw random numbers, whatever their inputs are.
_RANDOM_NAMES = "Bernoulli Dropout Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike"
_RANDOM = frozenset(_RANDOM_NAMES.split())
# Operators whose runs fail for some values of their inputs, such as indices that are out of range.
_CHECKING_NAMES = """
    GatherElements GatherND NegativeLogLikelihoodLoss ReverseSequence RoiAlign Scatter ScatterElements ScatterND
    SoftmaxCrossEntropyLoss Trilu
"""
CHECKING = frozenset(_CHECKING_NAMES.split())


def why_serial(model: ModelProto, session: InferenceSession, is_whole: bool, device: str) -> str:
    """Return why the runs of a session with nodes on OpenVINO have an order, ``""`` if they may be parallel.

    :param model: the model without its weights, an empty one if it cannot be read.
    :param is_whole: whether the EP has all nodes.
    :param device: the option ``device_type`` of the built-in EP.
    """
    advice = free_dimensions.advice(session)
    if advice:
        return f"with free dimensions, a run uses memory of earlier runs. {advice}"
    of_plugin = {found.device.type.name for found in presence.plugin_devices() if found.ep_name in OF_OPENVINO}
    if of_plugin - {"CPU"} or not re.fullmatch(_ON_CPU, device):
        return "parallel runs are known to be right on the device CPU only"
    if not model.graph.node:
        return "the model is not in ONNX's format, or its file has changed"
    if not is_whole:
        return "the EP does not have the whole graph"
    if not are_fixed(model, session):
        return "in this model, not only the shapes of the inputs decide the shapes of other values"
    return ""


def are_fixed(model: ModelProto, session: InferenceSession) -> bool:
    """Return whether the shapes of the inputs decide those of all other values in a model. ``False`` if unknown."""
    varying = {node.name for node in session.get_inputs()}  # values that can differ between runs of the same shapes
    for value in model.graph.input:
        if value.name in varying and not value.type.tensor_type.HasField("shape"):
            return False
    is_known = len(model.graph.node) > 0 and not model.functions
    return is_known and all(_is_fixed(node, varying) for node in model.graph.node)


def _is_fixed(node: NodeProto, varying: set[str]) -> bool:
    """Return whether the shapes of the outputs of a node are fixed. Add its outputs to the varying values if so."""
    if node.domain not in _ONNX or any(attribute.HasField("g") for attribute in node.attribute):
        return False
    first = _FIRST_DECIDING.get(node.op_type, len(node.input))
    is_fixed = varying.isdisjoint(node.input[first:])
    depends = node.op_type in _RANDOM or not varying.isdisjoint(node.input)
    if depends and node.op_type not in ("Shape", "Size"):
        varying.update(filter(None, node.output))
    return is_fixed
