# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Replaces the inner session of the OpenVINO EP after a run that failed.

After a run failed inside the OpenVINO EP, built-in (1.24.1) or plugin (1.8.1), the inner session returns values of
earlier runs, fails runs whose inputs are right, and returns outputs for inputs that do not match. A run that is
parallel to a failing run uses the same damaged state: it can return wrong values, or terminate the process. Therefore,
the runs of such a session follow one another.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Callable
from contextlib import suppress
from threading import RLock

from onnxruntime import InferenceSession, RunOptions
from onnxruntime.backend.provider_names import OPENVINO
from onnxruntime.backend.runs.locks import call_holding, while_opening

# Errors that ORT and its Python API raise outside of the EP: before the first node runs
# (``InferenceSession::ValidateInputsOutputs``), or between two nodes (``ExecuteThePlan``).
_OUTSIDE_EP = (
    r"Required inputs \(|\[ONNXRuntimeError\] : (?:2 : INVALID_ARGUMENT : "
    r"(?:Got invalid dimensions for input|Invalid rank for input|Unexpected input data type|Invalid input name)"
    r"|1 : FAIL : Exiting due to terminate flag being set to true)"
)


_AGAIN = object()


def _cannot_renew(_: InferenceSession) -> None:
    raise RuntimeError(
        f"A run failed inside {OPENVINO}, and the session may return values of earlier runs. The backend "
        "cannot replace a session that the caller created or changed. Create a new session and prepare it"
    )


class Replacement:
    """Runs one session, one run after another, and replaces its inner session after a failed run.

    An inner session is identified by the ``_providers`` of the session: ORT replaces both together, and ``_providers``
    does not keep the inner session alive.
    """

    def __init__(self, renew: Callable[[InferenceSession], None] = _cannot_renew) -> None:
        """Initialize it with a function that replaces the inner session, or raises an error."""
        self.renew, self.lock = renew, RLock()
        self.failed: object = None  # the inner session in which a run failed

    def run(
        self, session: InferenceSession, options: RunOptions | None, compute: Callable, *arguments: object
    ) -> object:
        """Return the outputs of ``compute`` in an inner session without failed runs. The limits of ``options`` hold."""
        outputs = _AGAIN
        while outputs is _AGAIN:
            outputs = call_holding(self.lock, options, self._run_once, session, compute, arguments)
        return outputs

    def _run_once(self, session: InferenceSession, compute: Callable, arguments: tuple) -> object:
        """Run under the lock. Return ``_AGAIN`` if another run failed in the middle of this one.

        A signal handler or a finalizer in this thread can use the session, too.
        """
        if self.failed is session._providers:
            self.renew(session)
        try:
            outputs = compute(*arguments)
        except BaseException as error:
            # A line without a call, which Ctrl-C cannot interrupt.
            earlier, self.failed = self.failed, session._providers
            if earlier is self.failed and isinstance(error, Exception):
                return _AGAIN
            if earlier is not self.failed and _outside_ep(error):
                self.failed = earlier
            raise
        return _AGAIN if self.failed is session._providers else outputs


def _outside_ep(error: BaseException) -> bool:
    if isinstance(error, Exception):
        return bool(re.match(_OUTSIDE_EP, str(error)))
    # Ctrl-C before or after the run. Python calls no signal handler between an error and its ``except`` clause, so that
    # Ctrl-C after a failed run has the error of the run as its context.
    return error.__context__ is None


class Origin:
    """The model from which ``prepare`` created an inner session, and from which a new one can be created."""

    def __init__(self, model: str | bytes, create: Callable[[], tuple[InferenceSession, object]]) -> None:
        self._model, self._create, self._files = model, create, _files_of(model)
        self.created: object = None  # the inner session that the backend created last

    def renew(self, session: InferenceSession) -> None:
        """Replace the inner session, if it is the one that the backend created, by a new one from the same files."""
        if self.created is not session._providers:
            _cannot_renew(session)
        try:
            self._check_files()
            fresh, _ = while_opening(session.get_providers(), self._create)
            self._check_files()  # ORT may have read a file that was replaced meanwhile
            if fresh.get_providers() != session.get_providers():
                raise RuntimeError(f"ORT created it with {', '.join(fresh.get_providers())} only")
            self.created = fresh._providers
            vars(session).update(vars(fresh))  # one operation of the dict: other threads read the session
        except Exception as error:
            raise RuntimeError(
                f"A run failed inside {OPENVINO}, and the session could not be replaced: {error}. "
                "Prepare the model again"
            ) from error

    def _check_files(self) -> None:
        if _files_of(self._model) != self._files:
            raise RuntimeError("the model's file or its external data has changed")


# The entry of a tensor with external data that contains the file, serialized: key, then value with one or two bytes of
# length. A file without such a tensor costs a search, and no parser takes memory for the model a second time.
_LOCATION = rb"\n\x08location\x12(?:([\x00-\x7f])|([\x80-\xff])([\x00-\x7f]))"


def _files_of(model: str | bytes) -> dict[str, tuple | None]:
    """Return values for each file of a model that change when the file is replaced or written."""
    if isinstance(model, bytes):
        return {name: _stamp(name) for name in _locations(model)}  # ORT finds them in the current folder
    with open(model, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        names = [os.path.join(os.path.dirname(model), name) for name in _locations(content)]
    return {name: _stamp(name) for name in (model, *names)}


def _locations(content: bytes | mmap.mmap) -> set[str]:
    names = set()
    for found in re.finditer(_LOCATION, content, re.DOTALL):
        short, low, high = found.groups()
        length = short[0] if short else low[0] - 128 + 128 * high[0]
        names.add(os.fsdecode(content[found.end() : found.end() + length]))
    return names


def _stamp(path: str) -> tuple | None:
    with suppress(OSError, ValueError):  # a weight can contain these bytes by chance
        status = os.stat(path)
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
    return None
