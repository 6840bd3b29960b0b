# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The inputs that a model declares, and the wording of warnings and errors about them."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from onnxruntime import InferenceSession, NodeArg
from onnxruntime.backend.errors import InputError, nearest, reworded, show
from onnxruntime.backend.provider_names import OF_OPENVINO
from onnxruntime.backend.runs import tensors
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument

_MOST_LISTED = 16  # inputs in one message
_LIST_AS_INPUT = "To pass a list as the only input, put it in a list: [value]"


class Declarations:
    """The inputs of a session's model, and the initializers that a run can override."""

    def __init__(self, session: InferenceSession) -> None:
        self.inputs: dict[str, NodeArg] = {node.name: _with_type(node) for node in session.get_inputs()}
        self.only_input = None
        if len(self.inputs) == 1:
            (self.only_input,) = self.inputs.values()

        initializers: list[NodeArg] = getattr(session, "get_overridable_initializers", list)()
        if initializers and not OF_OPENVINO.isdisjoint(session.get_providers()):
            initializers = []  # OpenVINO ignores feeds for initializers
        self._initializers = {node.name: _with_type(node) for node in initializers}

    def find(self, name: Any) -> NodeArg | None:
        """Return the input or the initializer of this name."""
        return self.inputs.get(name) or self._initializers.get(name)

    def surplus(self, count: int) -> str:
        """Return the warning for a list that is longer than the list of inputs."""
        message = f"Got {count} inputs. {self._inventory()}. The surplus inputs are ignored"
        if self._initializers:
            # Old models list initializers among the inputs of the graph. ORT does not report their positions, so a
            # position in the caller's list does not identify an initializer.
            message += ". To override an initializer, pass a mapping by name"
        if self.only_input:
            message += f". {_LIST_AS_INPUT}"
        return message

    def unknown(self, name: object, value: object) -> Exception:
        """Return the error for a value with a name that no input has."""
        message = f"Unknown input {show(name)}."
        known = name if type(name) is str else None
        near = known and nearest(known, self.inputs)
        if near:
            message += f" Did you mean {near!a}?"

        # With one input, the stock backend passes the mapping to ORT, which reads a mapping of numbers as a map.
        kind = Fail
        if self.only_input and isinstance(value, (int, float)):
            kind = InvalidArgument
        return reworded(
            kind,
            f"{message} {self._inventory()}",
            InputError,
            input=known,
            expected=self._signature(),
            got=show(name),
        )

    def mismatch(
        self,
        wrong: list[tuple[NodeArg, str]],
        kind: type,
        lacks_dimension: bool = False,
    ) -> Exception:
        """Return the error for values that do not fit: for each, its input and a description of the value."""
        listed = wrong[:_MOST_LISTED]
        sentences = [f"Input {_printable(node.name)!r} expects {_type(node)}, got {got}" for node, got in listed]
        if len(self.inputs) + len(self._initializers) > 1:
            sentences.append(self._inventory())
        if lacks_dimension and self.only_input:
            sentences.append(f"The value lacks one dimension, such as the batch. {_LIST_AS_INPUT}")

        name = None
        expected = _listed(node for node, _ in wrong)
        if len(wrong) == 1:
            node, _ = wrong[0]
            name = node.name
            expected = _type(node)
        return reworded(
            kind,
            ". ".join(sentences),
            InputError,
            input=name,
            expected=expected,
            got=", ".join(got for _, got in listed),
        )

    def _inventory(self) -> str:
        return f"Model inputs: {self._signature() or 'none'}"

    def _signature(self) -> str:
        signature = _listed(self.inputs.values())
        if self._initializers:
            signature += f". Overridable: {_listed(self._initializers.values())}"
        return signature


def _with_type(node: NodeArg) -> SimpleNamespace:
    """Return the declaration of an input, which keeps no session, unlike ORT's object.

    A mock can lack a type: its input accepts any value.
    """
    value_type = getattr(node, "type", None)
    shape = getattr(node, "shape", None)
    if not isinstance(value_type, str) or shape is None:
        value_type, shape = "optional()", ()
    return SimpleNamespace(name=node.name, type=value_type, shape=shape)


def _listed(nodes: Iterable[NodeArg]) -> str:
    listed = [f"{_printable(node.name)}: {_type(node)}" for node in nodes]
    surplus = len(listed) - _MOST_LISTED
    if surplus > 0:
        listed[_MOST_LISTED:] = [f"and {surplus} more"]
    return ", ".join(listed)


def _type(node: NodeArg) -> str:
    """Return the declared type and shape of an input, with the names of its free dimensions."""
    text = _printable(tensors.readable(node.type))
    sizes = []
    for dimension in node.shape:
        sizes.append("?" if dimension is None else _printable(dimension))
    if sizes:
        text += f"[{', '.join(sizes)}]"
    return text


def _printable(name: object) -> str:
    """Return a name without control characters, which act on a terminal."""
    return ascii(str(name))[1:-1]
