# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Assigns a caller's values to the inputs of the model, and words the errors about values that do not match.

The module ``values.py`` converts each value.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from numpy import ndarray

from onnxruntime import InferenceSession, OrtValue
from onnxruntime.backend.errors import FailedInputError, InputError, InvalidInputError, nearest, show, warn
from onnxruntime.backend.provider_names import OF_OPENVINO
from onnxruntime.backend.runs import tensors, values
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument

_MOST_LISTED = 16  # inputs in one message
# The classes of an error that is also ORT's, because the stock backend raises ORT's.
_ERROR_CLASSES = {InvalidArgument: InvalidInputError, Fail: FailedInputError}
_LIST_AS_INPUT = "To pass a list as the only input, put it in a list: [value]"


class Input(NamedTuple):
    """The declaration of an input, or of an initializer. It keeps no session, unlike ORT's object."""

    name: str
    type: str
    shape: Sequence  # a free dimension has a name or None

    def __str__(self) -> str:
        """The type and the shape, with the names of free dimensions."""
        text = _printable(tensors.readable(self.type))
        sizes = ["?" if size is None else _printable(size) for size in self.shape]
        if sizes:
            text += f"[{', '.join(sizes)}]"
        return text

    def has_shape(self, shape: tuple) -> bool:
        """Return whether a value of this shape fits."""
        # ORT reports an empty shape for a scalar and for any rank, and accepts any shape for both.
        if not self.shape:
            return True
        if len(shape) != len(self.shape):
            return False
        pairs = zip(shape, self.shape, strict=True)
        return all(size == declared for size, declared in pairs if isinstance(declared, int))

    def misfit(self, value: object) -> str:
        """Describe a converted value that does not have the type or the shape, ``""`` for any other value."""
        value_type = values.required(self.type)
        if isinstance(value, OrtValue):
            has_type = value.data_type() == value_type
        elif isinstance(value, ndarray) and value_type.startswith("tensor("):
            has_type = True
        else:
            return ""
        if has_type and self.has_shape(tensors.shape(value)):
            return ""
        # A converted array of objects contains text.
        return tensors.describe(value).replace("object[", "string[")


class ModelInputs:
    """The inputs of a session's model, and the initializers that a run can override."""

    def __init__(self, session: InferenceSession) -> None:
        self._inputs = _declared(session.get_inputs())
        self._only_input = None
        if len(self._inputs) == 1:
            (self._only_input,) = self._inputs.values()

        self._initializers = _declared(getattr(session, "get_overridable_initializers", list)())
        if self._initializers and not OF_OPENVINO.isdisjoint(session.get_providers()):
            self._initializers = {}  # OpenVINO ignores feeds for initializers

        #: The index and name of each input, and the dtype of arrays that ORT accepts without conversion, if any.
        self.slots: list[tuple] = []
        for index, (name, declared) in enumerate(self._inputs.items()):
            dtype = tensors.number_dtype(values.required(declared.type))
            self.slots.append((index, name, dtype))

    def find(self, name: Any) -> Input | None:
        """Return the input or the initializer of this name."""
        return self._inputs.get(name) or self._initializers.get(name)

    def feeds(self, inputs: object) -> dict:
        """Convert the inputs of a run, or raise an ``InputError`` for an unknown name or a value of another type.

        Missing inputs and wrong shapes are left to ORT and :meth:`explain`: a successful run does not check them.
        """
        feeds = {}
        for name, value in self._by_name(inputs):
            feeds[name] = self._convert(name, value)
        return feeds

    def _by_name(self, inputs: object) -> Iterable[tuple]:
        """Return the name and the value of each input."""
        if not isinstance(inputs, (list, tuple)):
            if isinstance(inputs, Mapping) and not self._is_one_map(inputs):
                return inputs.items()
            inputs = (inputs,)
        count = len(inputs)
        if count > len(self.slots):
            warn(self._surplus(count))
        return zip(self._inputs, inputs, strict=False)

    def _is_one_map(self, inputs: Mapping) -> bool:
        """Return whether a mapping is itself the value of the only input, and does not contain that value by name."""
        only = self._only_input
        return only is not None and only.type.startswith("map(") and not isinstance(inputs.get(only.name), Mapping)

    def _convert(self, name: object, value: object) -> object:
        declared = self.find(name)
        if declared is None:
            raise self._unknown(name, value)
        try:
            return values.convert(declared.type, value)
        except ValueError as reason:
            got = str(reason)
        error_class = Fail if value is None else InvalidArgument
        dtype = tensors.number_dtype(values.required(declared.type))
        advice = ""
        if isinstance(value, ndarray) and dtype is not None:
            advice = f"Convert the array: value.astype('{dtype}')"
        raise self._mismatch([(declared, got)], error_class, advice)

    def explain(self, error: Exception, feeds: Mapping) -> None:
        """Raise an ``InputError`` if the feeds of a run, in which ORT raised this error, do not match the model.

        No name of a frame refers to the ``InputError``: such a cycle would keep the session.
        """
        wrong = []
        for name, declared in self._inputs.items():
            if name not in feeds and not declared.type.startswith("optional("):
                wrong.append((declared, "nothing"))
        if isinstance(error, UnicodeEncodeError):
            raise InputError(f"An input contains text that UTF-8 cannot represent: {error}") from error
        advice = ""
        for name, value in feeds.items():
            fed = self.find(name)
            got = fed.misfit(value) if fed else ""
            if fed and got:
                wrong.append((fed, got))
                if isinstance(value, ndarray) and value.ndim == len(fed.shape) - 1:
                    advice = "The value lacks one dimension, such as the batch"
                    if self._only_input:
                        advice += f". {_LIST_AS_INPUT}"
        if wrong:
            raise self._mismatch(wrong, type(error), advice) from error

    def _surplus(self, count: int) -> str:
        """Return the warning for a list that is longer than the list of inputs."""
        message = f"Got {count} inputs. {self._inventory()}. The surplus inputs are ignored"
        if self._only_input:
            message += f". {_LIST_AS_INPUT}"
        return message

    def _unknown(self, name: object, value: object) -> Exception:
        """Return the error for a value with a name that no input has."""
        message = f"Unknown input {show(name)}."
        known = name if type(name) is str else None
        near = known and nearest(known, self._inputs)
        if near:
            message += f" Did you mean {near!a}?"

        # With one input, the stock backend passes the mapping to ORT, which reads a mapping of numbers as a map.
        error_class = Fail
        if self._only_input and isinstance(value, (int, float)):
            error_class = InvalidArgument
        return _ERROR_CLASSES.get(error_class, InputError)(
            f"{message} {self._inventory()}", input=known, expected=self._signature(), got=show(name)
        )

    def _mismatch(self, wrong: list[tuple[Input, str]], error_class: type, advice: str = "") -> Exception:
        """Return the error for values that do not fit: for each, its input and a description of the value."""
        listed = wrong[:_MOST_LISTED]
        sentences = [f"Input {_printable(declared.name)!r} expects {declared}, got {got}" for declared, got in listed]
        if len(self._inputs) + len(self._initializers) > 1:
            sentences.append(self._inventory())
        if advice:
            sentences.append(advice)
        name = None
        expected = _listed([declared for declared, _ in wrong])
        if len(wrong) == 1:
            name = wrong[0][0].name
            expected = str(wrong[0][0])
        return _ERROR_CLASSES.get(error_class, InputError)(
            ". ".join(sentences), input=name, expected=expected, got=", ".join(got for _, got in listed)
        )

    def _inventory(self) -> str:
        return f"Model inputs: {self._signature() or 'none'}"

    def _signature(self) -> str:
        signature = _listed(self._inputs.values())
        if self._initializers:
            signature += f". Overridable: {_listed(self._initializers.values())}"
        return signature


def _declared(nodes: Iterable[Any]) -> dict[str, Input]:
    """Return declarations by name. A mock can lack a type: its input accepts any value."""
    declared = {}
    for node in nodes:
        value_type, shape = getattr(node, "type", None), getattr(node, "shape", None)
        if not isinstance(value_type, str) or shape is None:
            value_type, shape = "optional()", ()
        declared[node.name] = Input(node.name, value_type, shape)
    return declared


def _listed(declarations: Collection[Input]) -> str:
    listed = [f"{_printable(declared.name)}: {declared}" for declared in declarations]
    surplus = len(listed) - _MOST_LISTED
    if surplus > 0:
        listed[_MOST_LISTED:] = [f"and {surplus} more"]
    return ", ".join(listed)


def _printable(name: object) -> str:
    """Return a name without control characters, which act on a terminal."""
    return ascii(str(name))[1:-1]
