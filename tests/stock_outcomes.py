# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Prints the outcomes of all patterns of ``stock_patterns.py`` and of random sequences of calls, as JSON.

The argument is the number of sequences. The module ``test_stock_comparison.py`` runs this program with this backend and
with the stock backend. The outcome of a pattern or a call is its result, or the classes of the error that it raises. A
sequence depends on its number only, so both backends get the same calls.
"""

from __future__ import annotations

import contextlib
import copy
import enum
import io
import json
import random
import sys
import warnings
from collections.abc import Callable, Iterable

import numpy as np
from stock_patterns import PATTERNS, RUN, SESSION, Proxy, session
from stock_values import VALUES, three_inputs, two_nodes

import onnxruntime
import onnxruntime.backend


def _plain(value: object) -> object:
    """Return a value that can be compared as JSON, so that NaN equals NaN."""
    if isinstance(value, np.ndarray):
        return [str(value.dtype), list(value.shape), _plain(value.tolist())]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else type(value).__name__


def outcome(function: Callable[[], object]) -> dict[str, object]:
    """Return the outcome of a pattern: the value ``returned``, or the names of the classes ``raised`` and the message;
    and the texts of its ``warnings``."""
    with warnings.catch_warnings(record=True) as given, contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("always")
        try:
            found = {"returned": _plain(function())}
        except Exception as error:
            classes: Iterable[type] = type(error).__mro__
            found = {
                "raised": list(dict.fromkeys(kind.__name__ for kind in classes if kind not in (object, BaseException))),
                "message": " ".join(str(error).split())[:300],
            }
    return {**found, "warnings": [f"{warning.category.__name__}: {warning.message}"[:200] for warning in given]}


# --- random sequences of calls ---

STEPS = 10


class Device(str, enum.Enum):  # noqa: UP042
    """A device as many programs define it."""

    CPU = "CPU"


SESSION_KEYWORDS, RUN_KEYWORDS = ({name: values[0] for name, values in table.items()} for table in (SESSION, RUN))
# The values of the patterns, for any model. The stock backend reads a foreign byte order as the native one, and rejects
# Python numbers before a session of the caller can raise an error of its own.
_ABSENT = ("an iterator", "foreign byte order", "a Python float", "a Python int")
INPUTS = {name: given for name, (_, given) in VALUES.items() if name not in _ABSENT}
SOME_DEVICES = (None, None, "CPU", "CUDA", "GPU", "TPU", "", Device.CPU, np.str_("CPU"))


class Sequence:
    """A sequence of calls whose later calls use the results of earlier ones."""

    def __init__(self, number: int) -> None:
        self.choose = random.Random(number)
        self.reps: list = []

    def keywords(self, table: dict[str, object]) -> dict[str, object]:
        return {name: table[name] for name in self.choose.sample(sorted(table), self.choose.choice((0, 0, 1, 1, 2)))}

    def model(self) -> tuple[str, Callable[[], object]]:
        forms = {
            "a ModelProto": two_nodes,
            "three inputs": three_inputs,
            "bytes": lambda: two_nodes().SerializeToString(),
            "a session": session,
            "no model": lambda: b"no model",
            "no file": lambda: "no-such-file.onnx",
        }
        name = self.choose.choice(sorted(forms))
        if self.reps and self.choose.random() < 0.3:
            rep = self.choose.choice(self.reps)
            return "a rep", lambda: rep
        return name, forms[name]

    def step(self) -> tuple[str, Callable[[], object]]:
        kind = self.choose.choice(("prepare", "prepare", "run", "run", "run", "backend.run", "ask", "copy", "swap"))
        device = self.choose.choice(SOME_DEVICES)
        if kind == "ask":
            return (f"supports_device({device!r})", lambda: onnxruntime.backend.supports_device(device))
        if kind == "prepare":
            (form, made), keywords = self.model(), self.keywords(SESSION_KEYWORDS)
            return f"prepare({form}, {device!r}, {keywords})", lambda: self.prepare(made, device, keywords)
        name = self.choose.choice([*sorted(INPUTS), *["an array", "three in a list"] * 10])
        if kind == "backend.run":
            (form, made), keywords = (self.model(), self.keywords(SESSION_KEYWORDS | RUN_KEYWORDS))
            call = f"run({form}, {name}, {device!r}, {keywords})"
            return call, lambda: onnxruntime.backend.run(made(), INPUTS[name], device, **keywords)
        keywords = self.keywords(RUN_KEYWORDS)
        if not self.reps:
            self.reps.append(onnxruntime.backend.prepare(two_nodes()))
        rep = self.choose.choice(self.reps)
        if kind == "copy":
            return "copy.copy(rep)", lambda: self.keep(copy.copy(rep))
        if kind == "swap":
            return "rep._session = a proxy", lambda: setattr(rep, "_session", Proxy())
        return f"rep.run({name}, {keywords})", lambda: rep.run(INPUTS[name], **keywords)

    def prepare(self, made: Callable[[], object], device: object, keywords: dict[str, object]) -> str:
        return self.keep(onnxruntime.backend.prepare(made(), device, **keywords))

    def keep(self, rep: object) -> str:
        self.reps.append(rep)
        return type(rep).__name__


def outcomes(number: int) -> dict[str, dict]:
    """Return the outcome of each call of a sequence."""
    sequence, found = Sequence(number), {}
    for index in range(STEPS):
        name, call = sequence.step()
        found[f"{number}.{index} {name}"] = outcome(call)
    return found


if __name__ == "__main__":
    onnxruntime.set_default_logger_severity(4)
    patterns, sequences = ({name: outcome(function) for name, function in PATTERNS.items()}, {})
    for number in range(int(sys.argv[1])):
        sequences |= outcomes(number)
    json.dump([patterns, sequences], sys.stdout)
