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
import time
from collections.abc import Callable
from threading import RLock, get_ident
from weakref import ref

import numpy as np

from onnxruntime import InferenceSession, RunOptions
from onnxruntime.backend.runs.locks import call_holding, check_terminated

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

    As long as one thread uses the session, its runs need no lock. From the first run of another thread on, a run is
    alone, unless only the shapes of the inputs decide whether a run fails, and a run with the same shapes has
    succeeded. If such a run fails nevertheless, it runs again alone, as do all runs beside it, and all later runs.

    A thread enters itself in ``_running`` and reads ``_alone`` afterwards. A thread that must be alone sets ``_alone``
    and waits afterwards until no thread is in ``_running``. Python calls no signal handler between the assignment of
    an entry and the ``try`` block that removes it.

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
        self._turn = RLock()
        self._alone = 0  # the thread that is alone, or waits until it is
        self._only: int | None = None  # the thread of all runs; 0 after the first run of another thread
        self._running: dict[int, bool] = {}  # by thread
        self._parallel: set[tuple] = set()  # the combinations of shapes of runs that may be parallel
        # The inner session of each failed run. A run adds it by an assignment, which Ctrl-C cannot interrupt.
        self._failed: dict[object, object] = {}

    def run(self, waiting: RunOptions | None, compute: Callable, feeds: dict[str, object], options: RunOptions) -> list:
        """Return the outputs of ``compute`` in an inner session without failed runs. ``waiting`` can end the wait."""
        thread, running = get_ident(), self._running
        while True:
            in_a_run = thread in running  # this is code in the middle of a run, such as a signal handler
            running[thread] = True
            try:
                alone = 0 if in_a_run else self._alone
                if not alone:
                    is_only = self._only == thread
                    if is_only or (self._parallel and _shapes(feeds) in self._parallel):
                        outputs = self._compute(compute, feeds, options, is_only)
                        if outputs is not _AGAIN and thread in running:
                            return outputs
            finally:
                if not in_a_run:
                    running.pop(thread, None)
            if alone in (0, thread) or _shapes(feeds) not in self._parallel:
                break
            call_holding(self._turn, waiting, bool)
        running.pop(thread, None)  # a run that this code interrupts is not waited for, and runs again
        return call_holding(self._turn, waiting, self._run_alone, waiting, compute, feeds, options)

    def _run_alone(self, waiting: RunOptions | None, compute: Callable, feeds: dict, options: RunOptions) -> list:
        outer, self._alone = self._alone, get_ident()
        try:
            while self._running:
                check_terminated(waiting)
                time.sleep(1e-4)
            self._only = self._alone if self._only in (None, self._alone) else 0
            outputs = self._compute(compute, feeds, options, True)
            if not self._only and not outer:  # otherwise, the run that this code interrupts has not ended
                self._permit(_shapes(feeds))
        finally:
            self._alone = outer
        return outputs

    def _permit(self, shapes: tuple | None) -> None:
        """Let the next runs with these shapes be parallel, if only shapes decide whether a run fails."""
        if shapes is not None and self._only_shapes_decide is not None:
            if not self._parallel and not self._only_shapes_decide(self._session()):
                self._only_shapes_decide = None
                return
            if len(self._parallel) >= _MOST_COMBINATIONS:
                self._parallel = set()
            self._parallel.add(shapes)

    def _compute(self, compute: Callable, feeds: dict, options: RunOptions, alone: bool) -> object:
        """Return the outputs. Return ``_AGAIN`` if this run is not alone, and a run failed in the same inner session.

        A signal handler or a finalizer in this thread can use the session, too.
        """
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
                    self._failed.pop(run, None)  # code in the middle of this run may have replaced the inner session
                    raise
                if not isinstance(error, Exception) or (alone and self._failures_in(inner) == 1):
                    raise
                if not alone:
                    self._parallel, self._only_shapes_decide = set(), None
            else:
                # Another thread or code in the middle of this run may have replaced the inner session after a failure.
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
