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

import os
import re
from collections.abc import Callable
from functools import partial
from threading import RLock
from types import ModuleType
from weakref import ref

from onnxruntime import InferenceSession, IOBinding, RunOptions
from onnxruntime.backend.provider_names import OF_OPENVINO, OPENVINO

# The attribute of a session that contains its Replacement.
_KEPT = "_replacement_of_backend"
# The attribute of a session that is its ``_providers`` if the backend created the inner session. ORT replaces
# ``_providers`` together with the inner session. Unlike ``_sess``, it does not keep the inner session alive.
_CREATED = "_created_by_backend"
# Errors that ORT and its Python API raise outside of the EP: before the first node runs
# (``InferenceSession::ValidateInputsOutputs``), or between two nodes (``ExecuteThePlan``).
_OUTSIDE_EP = (
    r"Required inputs \(|\[ONNXRuntimeError\] : (?:2 : INVALID_ARGUMENT : "
    r"(?:Got invalid dimensions for input|Invalid rank for input|Unexpected input data type|Invalid input name)"
    r"|1 : FAIL : Exiting due to terminate flag being set to true)"
)


def watch(session: InferenceSession, model: str | bytes, create: Callable[[], InferenceSession]) -> None:
    """Let ``create`` replace a session after a failed run, if the session has an EP of OpenVINO."""
    if not OF_OPENVINO.isdisjoint(session.get_providers()):
        vars(session)[_KEPT] = Replacement(partial(_renew, model=model, stamp=_stamp(model), create=create))
        vars(session)[_CREATED] = session._providers
        session.io_binding = partial(_io_binding, ref(session))


def of(session: InferenceSession) -> Replacement | None:
    """Return the replacement of a session, ``None`` if the session has no EP of OpenVINO."""
    if not OF_OPENVINO.isdisjoint(session.get_providers()):
        vars(session).setdefault(_KEPT, Replacement(_renew))
    return vars(session).get(_KEPT)


class Replacement:
    """Runs one session, one run after another, and replaces its inner session after a failed run."""

    def __init__(self, renew: Callable[[InferenceSession], None]) -> None:
        """Initialize it with a function that replaces the inner session, or raises an error."""
        self.renew, self.lock = renew, RLock()
        self.failed: object = None  # the ``_providers`` of the session when a run failed

    def run(
        self, session: InferenceSession, options: RunOptions | None, compute: Callable, *arguments: object
    ) -> object:
        """Return the outputs of ``compute`` in an inner session without failed runs. The limits of ``options`` hold."""
        with self.lock if options is None else _locks().holding_all([self.lock], options):
            if self.failed is session._providers:
                self.renew(session)
            try:
                outputs = compute(*arguments)
            except BaseException as error:
                # A line without a call, which Ctrl-C cannot interrupt.
                earlier, self.failed = self.failed, session._providers
                if earlier is not self.failed:
                    if _outside_ep(error):
                        self.failed = earlier
                    raise
                if not isinstance(error, Exception):
                    raise
            else:
                if self.failed is not session._providers:
                    return outputs
        # A signal handler in this thread used the session, too, and its run failed.
        return self.run(session, options, compute, *arguments)


def _outside_ep(error: BaseException) -> bool:
    if isinstance(error, Exception):
        return bool(re.match(_OUTSIDE_EP, str(error)))
    # Ctrl-C before or after the run. Python calls no signal handler between an error and its ``except`` clause, so that
    # Ctrl-C after a failed run has the error of the run as its context.
    return error.__context__ is None


def _locks() -> ModuleType:
    from onnxruntime.backend.capture import locks  # only for EPs on a device  # noqa: PLC0415

    return locks


def _renew(
    session: InferenceSession,
    model: str | bytes = b"",
    stamp: tuple = (),
    create: Callable[[], InferenceSession] | None = None,
) -> None:
    """Replace the inner session, if it is the one that the backend created, by a new one from the same model."""
    if vars(session).get(_CREATED) is not session._providers:
        raise RuntimeError(
            f"A run failed inside {OPENVINO}, and the session may return values of earlier runs. The backend "
            "cannot replace a session that the caller created or changed. Create a new session and prepare it"
        )
    try:
        if _stamp(model) != stamp:
            raise RuntimeError("the model's file has changed")
        with _locks().while_opening(session.get_providers()):
            fresh = create()
            if fresh.get_providers() != session.get_providers():
                raise RuntimeError(f"ORT created it with {', '.join(fresh.get_providers())} only")
            vars(fresh)[_CREATED] = fresh._providers
            vars(session).update(vars(fresh))
    except Exception as error:
        raise RuntimeError(
            f"A run failed inside {OPENVINO}, and the session could not be replaced: {error}. Prepare the model again"
        ) from error


def _stamp(model: str | bytes) -> tuple:
    """Return values that change when the model's file is replaced or written."""
    if isinstance(model, bytes):
        return ()
    status = os.stat(model)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _io_binding(session: ref[InferenceSession]) -> IOBinding:
    """Return an IO binding that keeps its inner session, as ORT's own bindings do from 1.31 on."""
    binding = IOBinding(session())
    binding._session = session()._sess
    return binding
