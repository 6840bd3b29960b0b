# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Applies free dimension overrides, and verifies the input shapes of the session afterwards.

ORT ignores unknown dimension names and cuts names at a NUL character. This module checks the names against the model
before ORT receives them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from itertools import chain

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper
from onnx.inliner import inline_local_functions
from onnx.reference import ReferenceEvaluator
from onnx.shape_inference import infer_node_outputs

from onnxruntime import InferenceSession, SessionOptions
from onnxruntime.backend.allowlist.facts import RELEASE
from onnxruntime.backend.allowlist.permit import Permit
from onnxruntime.backend.allowlist.session_config import FOLDING_CAP, MOST_FOLDED, SESSION_CONFIG
from onnxruntime.backend.errors import Place, reject, show
from onnxruntime.backend.provider_names import COMPILING
from onnxruntime.backend.session import model_file

_KEYWORD = "free_dimension_overrides"
# The operators whose outputs depend on the shape of an input only.
_OF_SHAPES = ("EyeLike", "RandomNormalLike", "RandomUniformLike", "Shape", "Size")
_MOST_COMPUTED = 2**10  # elements of a value, such as a shape


def apply(options: SessionOptions, permit: Permit, source: str | bytes) -> dict[str, list]:
    """Set the overrides of a permit, and return the shapes of the model's inputs for :func:`verify`."""
    sizes = permit.sizes
    model = _read(source)
    shapes = _input_shapes(model)
    _check_names(sizes, shapes)
    for name, size in sizes.items():
        options.add_free_dimension_override_by_name(name, size)

    if _cap_folding(options, permit):
        _check_inputs(sizes, shapes, 2 * MOST_FOLDED)  # only the input itself has this size: 128 MiB of float32
        return shapes
    _check_inputs(sizes, shapes, MOST_FOLDED)
    if _folded(model, sizes) > MOST_FOLDED:
        problem = f"ORT or an EP can compute more than {MOST_FOLDED} elements from the sizes alone"
        reject(Place(_KEYWORD), f"{problem} when it loads the model. Use smaller sizes")
    return shapes


def _read(source: str | bytes) -> ModelProto:
    try:
        return model_file.read(source)
    except Exception as error:
        problem = model_file.problem(source, unreadable=True) or f"{_KEYWORD} requires a model that onnx can read"
        raise RuntimeError(f"{problem}. onnx error: {error}") from None


def _input_shapes(model: ModelProto) -> dict[str, list]:
    """Return the name or size of each dimension of each input. A dimension without both has the size 0."""
    shapes = {}
    for node in model.graph.input:
        dimensions = node.type.tensor_type.shape.dim
        shapes[node.name] = [dimension.dim_param or dimension.dim_value for dimension in dimensions]
    return shapes


def _check_names(sizes: Mapping, shapes: Mapping) -> None:
    dimensions = chain(*shapes.values())
    # ORT cuts a name at a NUL.
    names = {name for name in dimensions if type(name) is str and "\0" not in name}
    for name in sizes:
        if name not in names:
            has = ", ".join(sorted(map(ascii, names))) or "none"
            place = Place(_KEYWORD, key=name)
            reject(place, f"the model's inputs have no dimension of this name. Named dimensions: {has}")


def _check_inputs(sizes: Mapping, shapes: Mapping, most: int) -> None:
    """Reject sizes that give an input more elements than this maximum."""
    for node, shape in shapes.items():
        if sizes.keys().isdisjoint(shape):
            continue
        count = 1
        for name in shape:
            size = sizes.get(name, name)
            if type(size) is int and size > 0:  # a free dimension, or one without elements, counts as one
                count *= size
        if count > most:
            problem = f"input {show(node)} would have {count} elements. The maximum is {most}"
            reject(Place(_KEYWORD), f"{problem}, because ORT computes size-dependent values when it loads the model")


def _folded(model: ModelProto, sizes: Mapping) -> int:
    """Return the number of elements that a model computes from sizes alone, or an estimate if that is unknown."""
    if model.functions:
        model = inline_local_functions(model)
    if not _reads_shapes(model.graph):
        return 0
    values = _Values(model, sizes)
    elements = sum(map(values.add, model.graph.node))
    if values.are_known:
        return elements
    # A mask: the elements of a batch, times the square of the largest size.
    estimate = math.prod(sizes.values()) * max(sizes.values())
    return max(elements, estimate)


def _reads_shapes(graph: GraphProto) -> bool:
    return any(node.op_type in _OF_SHAPES or _inner_reads_shapes(node) for node in graph.node)


def _inner_reads_shapes(node: NodeProto) -> bool:
    return any(_reads_shapes(attribute.g) for attribute in node.attribute)


class _Values:
    """The shapes of a model's values, and the small values that do not depend on data, one node after another.

    If ``onnx.shape_inference.infer_shapes`` propagates values, it takes 85 bytes and more for each element of each
    vector, and keeps the global interpreter lock.
    """

    def __init__(self, model: ModelProto, sizes: Mapping) -> None:
        #: Whether the shape of each value that depends on sizes alone is known.
        self.are_known = True
        self._imports = model.opset_import
        self._opsets = {}
        for opset in model.opset_import:
            self._opsets[opset.domain] = opset.version
        self._types = {}
        self._small: dict[str, TensorProto] = {}
        self._constant = {""}  # the values that do not depend on data
        self._sized: set[str] = set()  # those of them that depend on sizes
        for value in chain(model.graph.input, model.graph.value_info):
            for dimension in value.type.tensor_type.shape.dim:
                if dimension.dim_param in sizes:
                    dimension.dim_value = sizes[dimension.dim_param]
            self._types[value.name] = value.type
        for weight in model.graph.initializer:
            self._constant.add(weight.name)
            self._add_tensor(weight)
        for weight in model.graph.sparse_initializer:
            self._constant.add(weight.values.name)

    def add(self, node: NodeProto) -> int:
        """Add the outputs of a node, and return the number of their elements if they depend on sizes alone."""
        if node.op_type != "Constant":
            with suppress(Exception):  # onnx does not know each operator
                self._infer(node)
        if _inner_reads_shapes(node):
            self.are_known = False
        of_shape = node.op_type in _OF_SHAPES
        if not of_shape and not self._constant.issuperset(node.input):
            return 0

        self._constant.update(node.output)
        if node.op_type == "Constant" and node.attribute[0].HasField("t"):  # most nodes of some models
            node.attribute[0].t.name = node.output[0]
            self._add_tensor(node.attribute[0].t)
            return 0
        elements = self._elements(node)
        if elements is None or elements <= _MOST_COMPUTED:
            with suppress(Exception):
                self._compute(node)
            elements = self._elements(node)
        if not of_shape and self._sized.isdisjoint(node.input):
            return 0
        self._sized.update(filter(None, node.output))
        if elements is None:
            self.are_known = False
            return 0
        return elements

    def _add_tensor(self, tensor: TensorProto) -> None:
        self._types[tensor.name] = onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
        if math.prod(tensor.dims) <= _MOST_COMPUTED:
            self._small[tensor.name] = tensor

    def _infer(self, node: NodeProto) -> None:
        version = self._opsets[node.domain]
        schema = onnx.defs.get_schema(node.op_type, version, node.domain)
        types = {}
        for name in filter(None, node.input):
            types[name] = self._types[name]
        inferred = infer_node_outputs(schema, node, types, self._small, opset_imports=self._imports)
        self._types.update(inferred)

    def _elements(self, node: NodeProto) -> int | None:
        """Return the number of elements of a node's outputs, or ``None`` if a dimension is unknown."""
        elements = 0
        with suppress(LookupError):
            for name in filter(None, node.output):
                elements += math.prod(self._dimensions(name))
            return elements
        return None

    def _dimensions(self, name: str) -> list[int]:
        """Return the shape of a value, or raise a ``LookupError`` if a dimension is unknown."""
        tensor = self._types[name].tensor_type
        sizes = []
        for dimension in tensor.shape.dim:
            if not dimension.HasField("dim_value"):
                raise LookupError(name)
            sizes.append(dimension.dim_value)
        if not tensor.HasField("shape"):
            raise LookupError(name)
        return sizes

    def _compute(self, node: NodeProto) -> None:
        """Compute the outputs of a node if its inputs are small, or if it reads their shapes only."""
        graph = GraphProto(node=[node])
        for name in node.output:
            graph.output.add(name=name)
        feeds = {}
        for name in filter(None, node.input):
            if node.op_type in _OF_SHAPES:
                dimensions = self._dimensions(name)
                zero = np.int8(0)
                feeds[name] = np.broadcast_to(zero, dimensions)  # without memory of this size
            else:
                graph.initializer.append(self._small[name])
        evaluator = ReferenceEvaluator(graph, self._opsets)
        arrays = evaluator.run(None, feeds)
        for name, array in zip(node.output, arrays, strict=True):
            tensor = numpy_helper.from_array(array, name)
            self._add_tensor(tensor)


def _cap_folding(options: SessionOptions, permit: Permit) -> bool:
    """Limit the bytes of a folded value, and return whether this limits all folding in the session."""
    if SESSION_CONFIG[FOLDING_CAP].since > RELEASE:
        return False
    if FOLDING_CAP not in permit.session_config:
        options.add_session_config_entry(FOLDING_CAP, str(MOST_FOLDED))
    return set(COMPILING).isdisjoint(permit.providers)


def verify(session: InferenceSession, shapes: Mapping, sizes: Mapping) -> None:
    """Compare the inputs of a session with their shapes in the model and the overrides."""
    for node in session.get_inputs():
        shape = shapes.get(node.name, ())
        for name, size in zip(shape, node.shape, strict=False):
            if sizes.get(name, size) != size:
                problem = f"{_KEYWORD} sets {name!a} of input {node.name!a} to {sizes[name]}"
                raise RuntimeError(f"{problem}, but the session has {size!a}")
