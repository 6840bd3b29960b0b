# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Finds two structures of a model with which the built-in OpenVINO EP hands over memory of another array or run.

The EP is wrong with each variant of them that was tried. A structure with which it computes wrong values, or terminates
the process when it compiles a model, is not refused: tools/ort_defects/README.md lists them.
"""

from collections.abc import Container, Iterable, Mapping
from contextlib import suppress

from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto
from onnx.inliner import inline_local_functions
from onnx.shape_inference import infer_shapes

from onnxruntime import InferenceSession
from onnxruntime.backend.errors import show
from onnxruntime.backend.provider_names import CPU, OPENVINO


def that_leaks(
    model: ModelProto, session: InferenceSession, operators: Container[str], is_whole: bool, sizes: Mapping[str, int]
) -> str:
    """Return a sentence about a structure of a model that leaks memory, ``""`` if it has none.

    :param operators: the operators whose nodes are all on the EP.
    :param is_whole: whether the EP has the whole graph.
    :param sizes: the sizes of free dimensions that are set, by name.
    """
    with suppress(Exception):  # such as a function that is not valid, which ORT reports
        model = inline_local_functions(model)
        for value in model.graph.input:
            for size in value.type.tensor_type.shape.dim:
                if size.dim_param in sizes:
                    size.dim_value = sizes[size.dim_param]
        model = infer_shapes(model)
    inputs = [node.name for node in session.get_inputs()]
    read = _read_by(model.graph.node) | {node.name for node in session.get_outputs()}
    is_read = [name in read for name in inputs]
    if is_whole and model.graph.node and is_read != sorted(is_read, reverse=True):
        unread = show(inputs[is_read.index(False)])
        effect = f"{OPENVINO} reads later inputs from the wrong arrays"
        return f"no node reads the input {unread}. {effect}. Make it the last input, or use {CPU}"
    output = _output_of_if(model.graph, set(inputs)) if "If" in operators else ""
    if output:
        effect = f"is of free size. {OPENVINO} returns values of earlier runs"
        step = f"Set the sizes of all free dimensions with free_dimension_overrides, or use {CPU}"
        return f"the output {show(output)} of an If {effect}. {step}"
    return ""


def _output_of_if(graph: GraphProto, varying: set[str]) -> str:
    """Return an output of free size of an If whose condition is one of the values that can vary, or ``""``."""
    for node in graph.node:
        bodies = _bodies(node)
        if node.op_type == "If" and node.input[0] in varying:
            shapes = (map(_sizes, body.output) for body in bodies)
            for output, one, other in zip(node.output, *shapes, strict=False):
                # The EP is right if fixed sizes differ.
                differ = any(a and b and a != b for a, b in zip(one, other, strict=False))
                if 0 in one and 0 in other and not differ:
                    return output
        if node.op_type not in ("Shape", "Size") and not varying.isdisjoint(_read_by([node])):
            varying.update(node.output)
        for body in bodies:
            output = _output_of_if(body, varying | {value.name for value in body.input})
            if output:
                return output
    return ""


def _sizes(value: ValueInfoProto) -> list[int]:
    """Return the sizes of an output of a branch. A size is 0 if it is free or unknown."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return [0]
    return [size.dim_value for size in tensor.shape.dim]


def _read_by(nodes: Iterable[NodeProto]) -> set[str]:
    """Return the names of the values that nodes read, also in their subgraphs."""
    found: set[str] = set()
    for node in nodes:
        found.update(node.input)
        for body in _bodies(node):
            found |= _read_by(body.node) | {value.name for value in body.output}
    return found


def _bodies(node: NodeProto) -> list[GraphProto]:
    return [attribute.g for attribute in node.attribute if attribute.HasField("g")]
