# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Finds the sessions whose runs may be parallel: the EP has the whole graph, and all shapes in it are fixed.

Then, each run gives OpenVINO new memory for all inputs and outputs (``BasicBackend::Infer``), and a failed run
leaves nothing behind. The runs of other sessions have an order (:mod:`.run_order`).
"""

from __future__ import annotations

import re

from onnx import ModelProto, NodeProto

import onnxruntime
from onnxruntime import InferenceSession
from onnxruntime.backend.provider_names import OF_OPENVINO, OPENVINO
from onnxruntime.backend.session import presence, reports
from onnxruntime.backend.session.construction import config_entry

# The examined release of ORT with a built-in EP, and of the plugin EP. Both on the CPU only.
_BUILT_IN = "1.24.1"
_PLUGIN = "1.8.1"
_ONNX = ("", "ai.onnx")  # the names of its domain
# Operators of which the values of all inputs, or of the inputs after the first, decide the shapes of the outputs.
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


def why_serial(model: ModelProto, session: InferenceSession) -> str:
    """Return why the runs of a session have an order, ``""`` if they may be parallel.

    :param model: the model without its weights, an empty one if it cannot be read.
    """
    if not _is_examined(session):
        return "the release or the device of the EP is not examined"
    assigned = session.get_provider_graph_assignment_info()
    if OF_OPENVINO.isdisjoint(part.ep_name for part in assigned):
        return ""
    advice = reports.advice_on_shapes(session)
    if advice:
        return f"with free dimensions, a run uses memory of earlier runs. {advice}"
    if not is_whole(session):
        return "the EP does not have the whole graph"
    if not model.graph.node:
        return "the model is not in ONNX's format, or its files have changed"
    if not are_fixed(model):
        return "in this model, not only the shapes of the inputs decide the shapes of other values"
    return ""


def is_whole(session: InferenceSession) -> bool:
    """Return whether the EP has the whole graph, according to ORT's record."""
    assigned = session.get_provider_graph_assignment_info()
    return len(assigned) == 1 and assigned[0].ep_name in OF_OPENVINO


def are_fixed(model: ModelProto) -> bool:
    """Return whether the shapes of the inputs decide those of all other values in a model. ``False`` if unknown."""
    if model.functions:
        return False
    graph = model.graph
    same = {tensor.name for tensor in graph.initializer}  # values that are the same in each run
    for value in graph.input:
        has_rank = value.type.tensor_type.HasField("shape")
        if not has_rank and value.name not in same:
            return False
    return all(_is_fixed(node, same) for node in graph.node)


def _is_fixed(node: NodeProto, same: set[str]) -> bool:
    """Return whether the shapes of the outputs of a node are fixed. Add its outputs that are the same in each run."""
    if node.domain not in _ONNX:
        return False
    for attribute in node.attribute:
        if attribute.HasField("g"):
            return False
    varying = set(node.input) - same - {""}
    is_same = not varying and node.op_type not in _RANDOM
    if is_same or node.op_type in ("Shape", "Size"):
        same.update(node.output)
    first = _FIRST_DECIDING.get(node.op_type, len(node.input))
    return varying.isdisjoint(node.input[first:])


def _is_examined(session: InferenceSession) -> bool:
    is_plugin = False
    for device in presence.plugin_devices():  # any of them can be the one of the session
        if device.ep_name in OF_OPENVINO:
            is_plugin = True
            version, _, _ = device.ep_metadata.get("version", "").partition("+")
            if version != _PLUGIN or device.device.type.name != "CPU":
                return False
    if is_plugin:
        return True
    options = session.get_session_options()
    device_type = config_entry(options, f"ep.{OPENVINO.lower()}.device_type") or "CPU"
    is_cpu = re.fullmatch("((AUTO|HETERO|MULTI):)?CPU(,CPU)*", device_type)
    return onnxruntime.__version__ == _BUILT_IN and bool(is_cpu)
