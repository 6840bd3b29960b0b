# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""A model's inputs: what a caller passes becomes what a session is fed, or an error that names what the model takes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, lru_cache

import numpy as np

from onnxruntime import InferenceSession, NodeArg, OrtValue
from onnxruntime.backend.errors import nearest, reworded, show, warn
from onnxruntime.backend.provider_names import OPENVINO
from onnxruntime.backend.runs import tensors
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument


class ModelInputs:
    """The inputs of a session's model, worked out once.

    :param session: the open session.
    """

    def __init__(self, session: InferenceSession) -> None:
        self._session = session
        self._declared = session.get_inputs()
        #: Each input's place and name, and the dtype of the arrays that ORT takes for it as they are, if there is one.
        self.slots = [(index, node.name, _fed_as_is(node.type)) for index, node in enumerate(self._declared)]

    @cached_property
    def _nodes(self) -> dict[str, NodeArg]:
        return {node.name: node for node in self._declared}

    @cached_property
    def _overridable(self) -> dict[str, NodeArg]:
        nodes = getattr(self._session, "get_overridable_initializers", list)()
        if nodes and OPENVINO in self._session.get_providers():
            return {}  # OpenVINO computes with the model's own values, whatever is fed
        return {node.name: node for node in nodes}

    def feeds(self, inputs: object) -> dict[str, object]:
        """Name every value and make it what ORT can take.

        :param inputs: list or tuple in the order of the model's inputs, mapping by name, or the only input's value.
            Values that the list has beyond those are left out with a ``RuntimeWarning``.
        :raises RuntimeError: for what cannot be a value of the model's inputs; it is ORT's ``InvalidArgument`` or
            ``Fail`` as well. Whether one is missing or has the wrong shape is left to ORT, to cost nothing when all is
            well: see :meth:`problem`.
        """
        if not isinstance(inputs, (list, tuple)):
            if isinstance(inputs, Mapping) and not self._is_one_map(inputs):
                return {name: self._convert(name, value) for name, value in inputs.items()}
            inputs = (inputs,)
        if len(inputs) > len(self.slots):
            self._warn_of_surplus(len(inputs))
        return {name: self._convert(name, value) for name, value in zip(self._nodes, inputs, strict=False)}

    def _warn_of_surplus(self, count: int) -> None:
        # Old models list initializers among the graph's inputs. ORT does not tell where they stood, so that a value
        # for one cannot be found by its place.
        hint = "; to override an initializer, pass a mapping by name" if self._overridable else ""
        warn(f"got {count} inputs, of which the first {len(self.slots)} are used{hint}; {self._signature()}")

    def _is_one_map(self, inputs: Mapping) -> bool:
        """Tell whether this mapping is itself the value of the only input."""
        return len(self._nodes) == 1 and next(iter(self._nodes.values())).type.startswith("map(")

    def _convert(self, name: object, value: object) -> object:
        node = self._nodes.get(name) or self._overridable.get(name)
        if node is None:
            near = nearest(name, self._nodes, 0.6) if type(name) is str else ""
            hint = f" (did you mean {near!a}?)" if near else ""
            raise _error(Fail, f"got an input named {show(name)}{hint}; {self._signature()}")
        try:
            return _value(node.type, value)
        except ValueError as reason:
            kind = Fail if value is None else InvalidArgument
            raise _error(kind, f"input {name!a} got {reason}; {self._signature()}") from None

    def problem(self, feeds: Mapping[str, object]) -> str | None:
        """Find out, once ORT has raised an error, whether that was about the feeds.

        :param feeds: what :meth:`feeds` returned.
        :return: what is wrong with them and what the model takes; ``None`` when nothing is.
        """
        found = [
            f"input {name!a} is missing"
            for name, node in self._nodes.items()
            if name not in feeds and not node.type.startswith("optional(")
        ]
        for name, value in feeds.items():
            node = self._nodes.get(name) or self._overridable[name]
            if not _fits(node, value):
                found.append(f"input {name!a} got {tensors.describe(value)}")
        return f"{', '.join(found)}; {self._signature()}" if found else None

    def _signature(self) -> str:
        takes = "; ".join(map(_declaration, self._nodes.values()))
        overrides = "; ".join(map(_declaration, self._overridable.values()))
        count = f"{len(self._nodes)} input{'' if len(self._nodes) == 1 else 's'}"
        optional = f", and lets be overridden ({overrides})" if overrides else ""
        return f"the model takes {count}{f' ({takes})' if takes else ''}{optional}"


def _error(kind: type[Exception], message: str) -> RuntimeError:
    return reworded(kind, message)


@lru_cache
def _fed_as_is(value_type: str) -> np.dtype | None:
    """The dtype of arrays that ORT takes without any preparation, if there is one."""
    element = tensors.element_type(_required(value_type))
    dtype = None if element is None else tensors.dtype_of(element)
    # Text is looked through first: ORT would take the Python spelling of bytes.
    return dtype if dtype is not None and dtype.kind in "biuf" and tensors.numpy_has(dtype) else None


def _required(value_type: str) -> str:
    """The type itself of a type that may be optional."""
    return value_type[len("optional(") : -1] if value_type.startswith("optional(") else value_type


def _value(value_type: str, value: object) -> object:
    """Make a value what ORT's Python API takes for a type.

    :raises ValueError: with a description of a value that is of another type.
    """
    if isinstance(value, OrtValue):
        return value
    if value is None:
        if _required(value_type) == value_type:
            raise ValueError("None")
        return None
    value_type = _required(value_type)
    if value_type.startswith("seq(") and isinstance(value, (list, tuple)):
        return [_value(value_type[len("seq(") : -1], item) for item in value]
    element = tensors.element_type(value_type)
    if element is None:
        return value  # a map or a sparse tensor, which ORT reads by itself
    array = tensors.as_array(value, tensors.dtype_of(element))
    return array if tensors.numpy_has(array.dtype) else tensors.to_ort_value(array, element)


def _fits(node: object, value: object) -> bool:
    """Tell whether a converted value has the type and shape that the model declares, as far as ORT lets us know."""
    value_type = _required(node.type)
    if isinstance(value, OrtValue):
        if value.data_type() != value_type:
            return False
        shape = value.shape() if value.is_tensor() else []
    elif isinstance(value, np.ndarray) and value_type.startswith("tensor("):
        shape = value.shape
    elif value_type.startswith(("seq(", "map(")):
        return isinstance(value, list if value_type.startswith("seq(") else Mapping)
    else:
        return True
    # An empty shape stands for a scalar and for any rank; ORT takes any for either.
    return not node.shape or (
        len(shape) == len(node.shape)
        and all(not isinstance(fixed, int) or fixed == got for fixed, got in zip(node.shape, shape, strict=True))
    )


def _declaration(node: object) -> str:
    shape = f"[{', '.join('?' if dimension is None else _printable(dimension) for dimension in node.shape)}]"
    return f"{_printable(node.name)}: {node.type}{shape if node.shape else ''}"


def _printable(name: object) -> str:
    """A model's name without what could act on a terminal."""
    return ascii(str(name))[1:-1]
