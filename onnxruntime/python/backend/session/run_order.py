# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Decides which runs of an OpenVINO session may be parallel, and when its inner session is replaced.

After a run failed inside the OpenVINO EP, built-in (1.24.1) or plugin (1.8.1), the inner session returns values of
earlier runs, fails runs whose inputs are right, and returns outputs for inputs that do not match. A run that is
parallel to a failing run uses the same damaged state: it can return wrong values, or terminate the process. Therefore,
a run is alone unless it cannot fail, and a failed run makes the next run replace the inner session.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import nullcontext
from threading import RLock
from weakref import ref

import numpy as np

from onnxruntime import InferenceSession, RunOptions
from onnxruntime.backend.runs.locks import SessionLock, call_holding

# Errors that ORT and its Python API raise outside of the EP: before the first node runs
# (``InferenceSession::ValidateInputsOutputs``), or between two nodes (``ExecuteThePlan``).
_OUTSIDE_EP = (
    r"Required inputs \(|\[ONNXRuntimeError\] : (?:2 : INVALID_ARGUMENT : "
    r"(?:Got invalid dimensions for input|Invalid rank for input|Unexpected input data type|Invalid input name)"
    r"|1 : FAIL : Exiting due to terminate flag being set to true)"
)
_AGAIN = object()
_MOST_COMBINATIONS = 1024  # of input shapes. Each takes a hundred bytes for each input


class RunOrder:
    """The order of the runs of one OpenVINO session.

    A run is alone, unless only the shapes of the inputs decide whether a run fails, and a run with the same shapes has
    succeeded. If such a run fails nevertheless, it runs again alone, as do all runs beside it, and all later runs.

    An inner session is identified by the ``_providers`` of the session: ORT replaces both together, and ``_providers``
    does not keep the inner session alive.
    """

    def __init__(
        self,
        session: ref[InferenceSession],
        renew: Callable[[InferenceSession], None],
        only_shapes_decide: Callable[[InferenceSession], bool],
    ) -> None:
        """Initialize it with functions that replace the inner session (or raise an error), and that check the model."""
        self._session, self._renew, self._only_shapes_decide = session, renew, only_shapes_decide
        self._turn = RLock()  # of the runs that follow one another, before runs may be parallel
        self._lock: SessionLock | None = None  # from then on
        self._begun = self._is_alone = False
        self._parallel: set[tuple] = set()  # the combinations of shapes of runs that may be parallel
        # The inner session of each failed run. A run adds it by an assignment, which Ctrl-C cannot interrupt.
        self._failed: dict[object, object] = {}

    def run(self, waiting: RunOptions | None, compute: Callable, feeds: dict[str, object], options: RunOptions) -> list:
        """Return the outputs of ``compute`` in an inner session without failed runs. ``waiting`` can end the wait."""
        shapes = _shapes(feeds)
        if shapes in self._parallel:
            outputs = self._lock.run(waiting, self._run_once, compute, feeds, options, False)
            if outputs is not _AGAIN:
                return outputs
        arguments = waiting, shapes, compute, feeds, options
        # Code in the middle of a parallel run must not wait for the turn: the lock would count the run as running.
        return (
            self._run_alone(*arguments)
            if self._lock
            else call_holding(self._turn, waiting, self._run_alone, *arguments)
        )

    def _run_alone(
        self, waiting: RunOptions | None, shapes: tuple | None, compute: Callable, feeds: dict, options: RunOptions
    ) -> list:
        with self._lock.alone(waiting) if self._lock else nullcontext():
            outer, self._is_alone = self._is_alone, True  # by this thread
            try:
                outputs = _AGAIN
                while outputs is _AGAIN:
                    outputs = self._run_once(compute, feeds, options, True)
            finally:
                self._is_alone = outer
            if not outer:  # otherwise, this run is in the middle of another one, which has not ended
                self._permit(shapes)
        return outputs

    def _permit(self, shapes: tuple | None) -> None:
        """Let the next runs with these shapes be parallel, if only shapes decide whether a run fails."""
        if not self._begun:  # many sessions run once
            self._begun = True
        elif shapes is not None and self._only_shapes_decide is not None:
            if self._lock is None and not self._only_shapes_decide(self._session()):
                self._only_shapes_decide = None
                return
            self._lock = self._lock or SessionLock(side_by_side=True)
            if len(self._parallel) >= _MOST_COMBINATIONS:
                self._parallel = set()
            self._parallel.add(shapes)

    def _run_once(self, compute: Callable, feeds: dict, options: RunOptions, alone: bool) -> object:
        """Run once. Return ``_AGAIN`` if a run failed in the same inner session, or if a parallel run fails.

        A signal handler or a finalizer in this thread can use the session, too.
        """
        session, run = self._session(), object()
        inner = session._providers
        if self._failed and self._failures_in(inner):
            if not alone:
                return _AGAIN
            self._renew(session)
            self._failed.clear()
            inner = session._providers
        try:
            outputs = compute(feeds, options)
        except BaseException as error:
            self._failed[run] = inner
            if _is_outside_ep(error):
                self._failed.pop(run, None)  # code in the middle of this run may have replaced the inner session
            elif isinstance(error, Exception):
                if not alone:
                    self._parallel, self._only_shapes_decide = set(), None
                if not alone or self._failures_in(inner) > 1:
                    return _AGAIN
            raise
        # Another thread or code in the middle of this run may have replaced the inner session after a failure.
        replaced = session._providers is not inner
        return _AGAIN if replaced or (self._failed and self._failures_in(inner)) else outputs

    def _failures_in(self, inner: object) -> int:
        return sum(failed is inner for failed in list(self._failed.values()))


def _shapes(feeds: dict[str, object]) -> tuple | None:
    """Return the names and shapes of the inputs, ``None`` if a value is not an array."""
    shapes: list[object] = [*feeds]
    for value in feeds.values():
        if type(value) is not np.ndarray:
            return None
        shapes.append(value.shape)
    return tuple(shapes)


def _is_outside_ep(error: BaseException) -> bool:
    if isinstance(error, Exception):
        return bool(re.match(_OUTSIDE_EP, str(error)))
    # Ctrl-C before or after the run. Python calls no signal handler between an error and its ``except`` clause, so that
    # Ctrl-C after a failed run has the error of the run as its context.
    return error.__context__ is None
