# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Decides which sessions may capture: by the EPs, and by the inputs, outputs and operators of the model.

ORT itself captures no model with control flow, and none in which a node between two nodes of the EP is on the CPU. ORT
does not see an input in CPU memory, which a replay does not read again, an operator whose kernel takes a random seed on
the host, and an output that is a constant, which ORT copies while it captures. CUDA does not permit this copy.

On WebGPU, each operator must be in the table of :mod:`.operators`. ORT's record contains the nodes before the last
fusions, and the model contains their inputs and attributes.
"""

from collections.abc import Container, Iterable

from onnx import GraphProto, ModelProto, NodeProto, TensorProto

import onnxruntime
from onnxruntime import InferenceSession, NodeArg
from onnxruntime.backend.applied import nodes
from onnxruntime.backend.capture import operators
from onnxruntime.backend.capture.operators import Condition
from onnxruntime.backend.errors import show
from onnxruntime.backend.provider_names import CPU, THROUGH_CUDA, WEBGPU
from onnxruntime.backend.runs import tensors

_DEVICES = (frozenset({CPU, WEBGPU}), frozenset({CPU, *THROUGH_CUDA}))


def problem(session: InferenceSession, eps: list[str], model: ModelProto) -> str:
    """Return why a session of ``prepare`` cannot capture on these EPs, or ``""``.

    :param model: the model without its weights, an empty one if it cannot be read.
    """
    if len(eps) > 1:
        return f"{' and '.join(eps)} both capture, and ORT replays the graph of one: leave it to one of them"
    providers = session.get_providers()
    if not any(device.issuperset(providers) for device in _DEVICES):
        return f"graph capture needs a session on one device, not on {', '.join(providers)}"
    record = nodes.recorded_nodes(session).get(eps[0], [])
    return (
        _unsuitable_value(session.get_inputs() + session.get_outputs())
        or _random(record, model)
        or (eps == [WEBGPU] and (unknown_release() or unknown(record, model)))
        or _read_on_cpu(session, model.graph)
        or _constant_output(session, model.graph)
    )


def on_cpu(values: Iterable[NodeArg], memories: Iterable) -> set[str]:
    """Return the names of the inputs or outputs that are on the CPU."""
    return {value.name for value, memory in zip(values, memories, strict=True) if memory.name == "Cpu"}


def _unsuitable_value(values: list[NodeArg]) -> str:
    """Return which input or output of a session cannot be in a fixed buffer of a graph, or ``""``."""
    names = [value.name for value in values]
    for value in values:
        if names.count(value.name) > 1:
            return f"graph capture needs outputs that a node computes. {value.name!a} is an input, or is listed twice"
        if tensors.number_dtype(value.type) is None:
            return f"graph capture needs tensors of numbers that numpy has. {value.name!a} is {value.type}"
    return ""


def _nodes(model: ModelProto) -> list[NodeProto]:
    """Return the nodes of a model and of its functions. ORT does not capture the operators that have subgraphs."""
    return [node for graph in (model.graph, *model.functions) for node in graph.node]


def _random(record: list, model: ModelProto) -> str:
    """Return the operator that draws random numbers, or ``""``. ORT has removed each Dropout that does nothing."""
    recorded = {node.op_type for node in record}
    in_model = {node.op_type for node in _nodes(model) if node.op_type != "Dropout" or any(node.input[2:])}
    found = operators.RANDOM & (in_model | recorded) or {"Dropout"} & in_model & recorded
    return f"{min(found)} draws random numbers, which a replay repeats" if found else ""


def _read(graph: GraphProto) -> set[str]:
    return {name for node in graph.node for name in node.input}


def _read_on_cpu(session: InferenceSession, graph: GraphProto) -> str:
    """Return which input on the CPU a node reads, or ``""``."""
    names = on_cpu(session.get_inputs(), session.get_input_memory_infos())
    if graph.node:
        names &= _read(graph)
    if not names:
        return ""
    where = "is read on the CPU (as a shape or a slice is), which a replay does not repeat"
    return f"input {show(min(names))} {where}. Make it a constant of the model"


def _constant_output(session: InferenceSession, graph: GraphProto) -> str:
    """Return which output is a constant that nodes read, or ``""``: an initializer, or what ORT computes from some."""
    varying = {value.name for value in session.get_inputs()}
    for node in graph.node:
        if node.op_type not in ("Shape", "Size") and not varying.isdisjoint(node.input):
            varying.update(node.output)
    constant = _read(graph) - varying
    for value in session.get_outputs():
        if value.name in constant:
            return f"output {show(value.name)} is a constant that nodes read, which ORT copies while it captures"
    return ""


def unknown(record: list, model: ModelProto) -> str:
    """Return the first part of a model that the WebGPU EP is not known to replay, or ``""``."""
    if not record or not model.graph.node:
        return "graph capture on WebGPU needs a model in ONNX's format, and ORT's record of its nodes"
    recorded = {(node.domain, node.op_type): node for node in record}
    for operator, node in recorded.items():
        if operator not in operators.OPERATORS:
            return f"node {show(node.name)} ({show(node.op_type)[1:-1]}) is not known to be replayed"
    return _unknown_type(model.graph) or _unmet_condition(recorded, model)


def unknown_release() -> str:
    """Return which release of the WebGPU EP the table does not describe, or ``""``."""
    devices = onnxruntime.get_ep_devices()
    # Of a plugin EP, every registered library counts. A built-in EP has ORT's version.
    versions = [device.ep_metadata.get("version") for device in devices if device.ep_name == WEBGPU]
    for version in versions or [onnxruntime.__version__]:
        if (onnxruntime.__version__, version) not in operators.RELEASES:
            return f"the replay of version {version} of the EP on ORT {onnxruntime.__version__} was never checked"
    return ""


def _unknown_type(graph: GraphProto) -> str:
    kinds = [value.type.tensor_type.elem_type for value in graph.input]
    kinds += [tensor.data_type for tensor in graph.initializer]
    kinds += [attribute.i for node in graph.node for attribute in node.attribute if attribute.name == "to"]
    for kind in kinds:
        if kind not in operators.TYPES:
            return f"the replay of tensors of type {TensorProto.DataType.Name(kind)} was never checked"
    return ""


def _unmet_condition(recorded: Container[tuple[str, str]], model: ModelProto) -> str:
    outputs = {value.name for value in model.graph.output}
    for node in _nodes(model):
        operator = (node.domain.removeprefix("ai.onnx"), node.op_type)
        if operator in recorded:
            condition = operators.OPERATORS[operator]
            if not _meets(condition, node, outputs):
                return f"node {show(node.name)} ({node.op_type}) {condition.value}"
    return ""


def _meets(condition: Condition, node: NodeProto, outputs: set[str]) -> bool:
    match condition:
        case Condition.TWO_INPUTS:
            return len(list(filter(None, node.input))) > 1
        case Condition.THREE_OUTPUTS:
            return not any(node.output[3:])
        case Condition.AXES:
            return _length(node, "axes") > 0 or any(node.input[1:])
        case Condition.TWO_DIMENSIONS:
            return _length(node, "perm") > 1
        case Condition.INSIDE:
            return outputs.isdisjoint(node.output)
        case _:
            return True


def _length(node: NodeProto, name: str) -> int:
    return sum(len(attribute.ints) for attribute in node.attribute if attribute.name == name)
