# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Decides which runs of an OpenVINO session may be parallel, and when its inner session is replaced.

After a run failed inside the OpenVINO EP, the inner session returns wrong values, and fails right runs (built-in
1.24.1, plugin 1.8.1). A run in parallel to a failing run can also terminate the process. Therefore, a failed run makes
the next run replace the inner session, and a run is alone unless it cannot fail. In some models, only the shapes of the
inputs decide whether a run fails. A run of such a model cannot fail if a run with the same shapes has succeeded. If it
fails nevertheless, it runs again alone, as do all runs in parallel to it, and all later runs.

The number of parallel runs can be limited (:mod:`.parallel_models`). A run that would exceed it is alone.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from threading import get_ident

import numpy as np

from onnxruntime import RunOptions
from onnxruntime.backend.locks import SessionLock

# Errors that ORT and its Python API raise outside of the EP: before the first node runs
# (``InferenceSession::ValidateInputsOutputs``), or between two nodes (``ExecuteThePlan``).
_OUTSIDE_EP = (
    r"Required inputs \(|\[ONNXRuntimeError\] : (?:2 : INVALID_ARGUMENT : "
    r"(?:Got invalid dimensions for input|Invalid rank for input|Unexpected input data type|Invalid input name)"
    r"|1 : FAIL : Exiting due to terminate flag being set to true)"
)
_Feeds = dict[str, object]
_MUST_BE_ALONE = object()
_MOST_COMBINATIONS = 1024  # of input shapes. Each takes a hundred bytes for each input


class RunOrder:
    """The order of the runs of one OpenVINO session.

    Parallel runs only read the attributes of this object, except for a run that fails. A run that is alone changes
    them.
    """

    def __init__(
        self,
        session: Callable,
        renew: Callable,
        parallel_runs: Callable,
    ) -> None:
        """Initialize it with functions that return the session, replace its inner session, and check the model."""
        self._session = session
        self.renew = renew
        #: Returns how many runs of a session can be parallel, and why only one can be, otherwise ``""``.
        self.parallel_runs = parallel_runs
        self._lock = SessionLock(side_by_side=True)
        self._only: int | None = None  # the thread of all runs; 0 after the first run of another thread
        self._parallel: set[tuple] | None = None  # the combinations of shapes of runs that may be parallel
        self._most = 1  # runs that may be parallel, sys.maxsize if their number is not limited
        self._failed: dict[object, object] = {}  # for each failed run, the ``_providers`` of its inner session

    def run(
        self,
        waiting: RunOptions | None,
        compute: Callable,
        feeds: _Feeds,
        options: RunOptions,
    ) -> list:
        """Return the outputs of ``compute`` in an inner session without failed runs. ``waiting`` can end the wait."""
        outputs = _MUST_BE_ALONE
        if self._parallel or self._only == get_ident():
            outputs = self._lock.run_unnested(waiting, self._run_beside, compute, feeds, options)
        if outputs is _MUST_BE_ALONE:
            outputs = self._lock.run_alone(waiting, self._run_alone, compute, feeds, options)
        return outputs

    def _run_beside(
        self,
        compute: Callable,
        feeds: _Feeds,
        options: RunOptions,
    ) -> object:
        """Return the outputs of a parallel run, ``_MUST_BE_ALONE`` if it must run again alone."""
        inner = self._session()._providers
        if self._failed and self._has_failed(inner):
            return _MUST_BE_ALONE
        is_only = self._only == get_ident()
        if not is_only:
            parallel = self._parallel
            # No run with these shapes has succeeded, or a run that may be parallel has failed.
            if not parallel or _shapes(feeds) not in parallel:
                return _MUST_BE_ALONE
            is_limited = self._most != sys.maxsize
            if is_limited and self._lock.calls() > self._most:
                return _MUST_BE_ALONE

        try:
            outputs = self._compute(inner, compute, feeds, options)
        except Exception as error:
            if is_only or _is_outside_ep(error):
                raise
            self._parallel = None
            return _MUST_BE_ALONE
        if self._failed and self._has_failed(inner):
            return _MUST_BE_ALONE
        return outputs

    def _run_alone(
        self,
        compute: Callable,
        feeds: _Feeds,
        options: RunOptions,
    ) -> list:
        session = self._session()
        if self._only is None:
            self._only = get_ident()
        elif self._only not in (0, get_ident()):
            self._most, _ = self.parallel_runs(session)
            self._parallel = set() if self._most > 1 else None
            self._only = 0

        if self._has_failed(session._providers):
            self.renew(session)
            self._failed.clear()
        outputs = self._compute(session._providers, compute, feeds, options)

        shapes = _shapes(feeds)
        if self._parallel is not None and shapes is not None:
            if len(self._parallel) >= _MOST_COMBINATIONS:
                self._parallel.clear()
            self._parallel.add(shapes)
        return outputs

    def _compute(
        self,
        inner: object,
        compute: Callable,
        feeds: _Feeds,
        options: RunOptions,
    ) -> list:
        """Return the outputs. Record a failed run before any other step, which an interrupt could end."""
        run = object()
        try:
            return compute(feeds, options)
        except BaseException as error:
            self._failed[run] = inner
            if _is_outside_ep(error):
                del self._failed[run]
            raise

    def _has_failed(self, inner: object) -> bool:
        return any(failed is inner for failed in list(self._failed.values()))


def _shapes(feeds: _Feeds) -> tuple | None:
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
