# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Refuses models whose outputs contain memory of earlier runs, because the CPU EP of an old ORT does not write them.

Before ORT 1.28, ReverseSequence does not write sequences of length 0. The program campaigns/unwritten_outputs.py
searches all operators of a release.
"""

from __future__ import annotations

import mmap
from contextlib import suppress

from onnx import GraphProto, ModelProto, TensorProto, load, load_from_string, numpy_helper
from onnx.inliner import inline_local_functions

from onnxruntime import InferenceSession
from onnxruntime.backend.allowlist.facts import Process
from onnxruntime.backend.errors import show
from onnxruntime.backend.provider_names import CPU, OPENVINO
from onnxruntime.backend.session.nodes import recorded_nodes

_OPERATOR = "ReverseSequence"
_MENDED = (1, 28)
_OF_SHAPES = ("Shape", "Size")


def check(model: str | bytes, session: InferenceSession) -> None:
    """Raise an error if the CPU EP of a session runs ReverseSequence with lengths that can be 0."""
    release = Process.here().release
    if release >= _MENDED or not _contains(model, _OPERATOR.encode()):
        return
    nodes = recorded_nodes(session)
    if any(nodes.values()):
        on_cpu = {node.op_type for node in nodes.get(CPU, ())}
        if _OPERATOR not in on_cpu:
            return
    elif OPENVINO in session.get_providers():  # it runs the operator itself
        return
    name = _first(_read(model))
    if name:
        raise RuntimeError(
            f"The lengths of the {_OPERATOR} {show(name)} can be 0. Before ORT 1.28, the CPU EP does not write such a "
            "sequence, and a run returns memory of earlier runs. Install ORT 1.28 or newer, or make the lengths "
            "constants above 0"
        )


def _contains(model: str | bytes, name: bytes) -> bool:
    if isinstance(model, bytes):
        return name in model
    with open(model, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(name) >= 0


def _read(model: str | bytes) -> ModelProto:
    if isinstance(model, bytes):
        return load_from_string(model)
    return load(model, load_external_data=False)


def _first(model: ModelProto) -> str:
    """Return the name of the first node whose lengths depend on data, or contain 0."""
    with suppress(Exception):  # such as a model in ORT format, which ORT itself reads
        if model.functions:
            model = inline_local_functions(model)
        inputs_win = model.ir_version >= 4
        return _first_of(model.graph, set(), inputs_win)
    return ""


def _first_of(
    graph: GraphProto,
    data: set[str],
    inputs_win: bool,
) -> str:
    """Return the name of the first such node of a graph.

    :param data: the values outside of the graph that depend on data.
    :param inputs_win: whether a run can replace an initializer.
    """
    constants = {weight.name: weight for weight in graph.initializer}
    for value in graph.input:
        if inputs_win or value.name not in constants:
            data.add(value.name)
    for node in graph.node:
        if node.op_type == _OPERATOR:
            lengths = node.input[1]
            if lengths in data or _has_zero(constants.get(lengths)):
                return node.name or node.output[0]
        reads_data = not data.isdisjoint(node.input)
        for attribute in node.attribute:
            if node.op_type == "Constant":
                constants[node.output[0]] = attribute.t
            for body in (attribute.g, *attribute.graphs):
                reads_data |= len(body.node) > 0
                name = _first_of(body, set(data), inputs_win)
                if name:
                    return name
        if reads_data and node.op_type not in _OF_SHAPES:
            data.update(node.output)
    return ""


def _has_zero(lengths: TensorProto | None) -> bool:
    return lengths is not None and not numpy_helper.to_array(lengths).all()
