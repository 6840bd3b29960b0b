# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Decides which runs of an OpenVINO session may be parallel, and when its inner session is replaced.

After a run failed inside the OpenVINO EP, built-in (1.24.1) or plugin (1.8.1), the inner session returns wrong values,
and fails right runs. A run beside a failing run can also terminate the process. Therefore, a failed run makes the next
run replace the inner session, and a run is alone unless it cannot fail. A run cannot fail if a run with the same shapes
has succeeded, and only the shapes of the inputs decide whether a run of the model fails. If such a run fails
nevertheless, it runs again alone, as do all runs beside it, and all later runs.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from threading import RLock, get_ident

import numpy as np

from onnxruntime import RunOptions
from onnxruntime.backend.locks import call_holding, check_terminated

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
    """The order of the runs of one OpenVINO session. As long as only one thread runs it, the runs take no lock.

    A thread enters itself in ``_running``, then reads ``_alone``. A thread that must be alone sets ``_alone``, then
    waits until ``_running`` is empty. Python calls no signal handler between such an assignment and the ``try`` block.
    """

    def __init__(self, session: Callable, renew: Callable, only_shapes_decide: Callable) -> None:
        """Initialize it with functions that return the session, replace its inner session, and check the model."""
        self._session, self._renew, self._only_shapes_decide = session, renew, only_shapes_decide
        self._turn = RLock()
        self._alone = 0  # the thread that is alone, or waits until it is
        self._only: int | None = None  # the thread of all runs; 0 after the first run of another thread
        self._running: dict[int, bool] = {}  # by thread
        self._parallel: set[tuple] | None = None  # the combinations of shapes of runs that may be parallel
        self._failed: dict[object, object] = {}  # for each failed run, the ``_providers`` of its inner session

    def run(self, waiting: RunOptions | None, compute: Callable, feeds: dict[str, object], options: RunOptions) -> list:
        """Return the outputs of ``compute`` in an inner session without failed runs. ``waiting`` can end the wait."""
        thread, running = get_ident(), self._running
        while True:
            in_a_run = thread in running  # this is code in the middle of a run, such as a signal handler
            running[thread] = True
            try:
                alone = 0 if in_a_run else self._alone
                if not alone:
                    is_only, parallel = self._only == thread, self._parallel
                    if is_only or (parallel and _shapes(feeds) in parallel):
                        outputs = self._compute(compute, feeds, options, is_only)
                        if outputs is not _AGAIN and thread in running:
                            return outputs
            finally:
                if not in_a_run:
                    running.pop(thread, None)
            if alone in (0, thread) or _shapes(feeds) not in (self._parallel or ()):
                break
            call_holding(self._turn, waiting, bool)
        running.pop(thread, None)  # a run that this code interrupts is not waited for; it runs again if this raises
        return call_holding(self._turn, waiting, self._run_alone, waiting, in_a_run, compute, feeds, options)

    def _run_alone(
        self, waiting: RunOptions | None, in_a_run: bool, compute: Callable, feeds: dict, options: RunOptions
    ) -> list:
        outer, self._alone = self._alone, get_ident()
        try:
            while self._running:
                check_terminated(waiting)
                time.sleep(1e-4)
            if in_a_run:  # the interrupted run goes on and ends before another thread is alone
                self._running[self._alone] = True
            if self._only is None:
                self._only = self._alone
            elif self._only not in (0, self._alone):
                self._parallel = set() if self._only_shapes_decide(self._session()) else None
                self._only = 0
            outputs = self._compute(compute, feeds, options, True)
            parallel = None if outer else self._parallel  # the run that this code interrupts has not ended
            if parallel is not None and (shapes := _shapes(feeds)) is not None:
                if len(parallel) >= _MOST_COMBINATIONS:
                    parallel.clear()
                parallel.add(shapes)
        finally:
            self._alone = outer
        return outputs

    def _compute(self, compute: Callable, feeds: dict, options: RunOptions, alone: bool) -> object:
        """Return the outputs, ``_AGAIN`` if this run is not alone and a run failed in the same inner session."""
        session, run = self._session(), object()
        while True:
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
                    self._failed.pop(run, None)
                    raise
                if not isinstance(error, Exception) or (alone and self._failures_in(inner) == 1):
                    raise
                if not alone:
                    self._parallel = None
            else:
                if session._providers is inner and not (self._failed and self._failures_in(inner)):
                    return outputs
            if not alone:
                return _AGAIN

    def _failures_in(self, inner: object) -> int:
        return sum(failed is inner for failed in list(self._failed.values()))


def _shapes(feeds: dict[str, object]) -> tuple | None:
    """Return the names and shapes of the inputs, ``None`` if a value is not an array."""
    shapes: list[object] = []
    for name, value in feeds.items():
        if type(value) is not np.ndarray:
            return None
        shapes += name, value.shape
    return tuple(shapes)


def _is_outside_ep(error: BaseException) -> bool:
    if isinstance(error, Exception):
        return bool(re.match(_OUTSIDE_EP, str(error)))
    # Ctrl-C before or after the run. Python calls no signal handler between an error and its ``except`` clause, so that
    # Ctrl-C after a failed run has the error of the run as its context.
    return error.__context__ is None
