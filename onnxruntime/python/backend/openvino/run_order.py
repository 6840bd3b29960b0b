# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Runs an OpenVINO session in an inner session without failed runs: one run after another, on memory of the session.

**Memory.** If a shape is free, OpenVINO reads an input from the memory of the caller (``SyncInferRequest`` in
``infer_request.cpp``). If an output is equal to the input, OpenVINO may not copy it. Then one of the two buffers of the
output is the memory of the input, and later runs write into it. So each run gets copies of its inputs, at addresses
that belong to the inner session (:mod:`.input_memory`). If the graph has several parts, the buffers can also be memory
of ORT's arena, with which outputs share it: they are copied, too. The first run of an inner session is computed twice,
so that both buffers have memory. Otherwise, a smaller second run returns memory that was not written.

If a part returns its input, OpenVINO keeps the address of the input, and writes into it in the next run. Without memory
patterns, ORT gives each value of a run the same address as in the run before, unless a shape changed. So a run of
several parts is computed twice if a shape may have changed: the second time, OpenVINO writes into the same values.

**Failures.** After a run failed inside the EP, the inner session returns wrong values, and fails right runs. So the
next run replaces it. A run in parallel to a failing run can terminate the process. So no runs are parallel.
"""

import re
import sys
from collections.abc import Callable
from contextlib import suppress
from threading import RLock

from onnxruntime import InferenceSession, RunOptions
from onnxruntime.backend.allowlist.run_config import SHRINKAGE
from onnxruntime.backend.errors import ORT_ERRORS, Place, reject, reworded
from onnxruntime.backend.openvino.replacement import InnerSession, Origin
from onnxruntime.backend.provider_names import OPENVINO
from onnxruntime.backend.runs import tensors
from onnxruntime.backend.session.state import generation_of
from onnxruntime.backend.waiting import call_holding

# Errors that ORT raises outside of the EP: before the first node runs (``InferenceSession::ValidateInputsOutputs``), or
# between two nodes (``ExecuteThePlan``).
_OUTSIDE_EP = (
    r"\[ONNXRuntimeError\] : (?:2 : INVALID_ARGUMENT : "
    r"(?:Got invalid dimensions for input|Invalid rank for input|Unexpected input data type|Invalid input name)"
    r"|1 : FAIL : Exiting due to terminate flag being set to true)"
)
RELEASES_MEMORY = (
    "ORT gives OpenVINO several parts of this graph, which write into memory of earlier runs. It must not be released. "
    "Leave the setting out, or specify CPUExecutionProvider"
)
_NOT_OURS = (
    f"A run failed inside {OPENVINO}, and the session may return values of earlier runs. The backend cannot replace a "
    "session that the caller created or changed. Create a new session and prepare it"
)
_FAILED = (
    "OpenVINO cannot run this model with these inputs. If they are right, use "
    "provider_options={{'CPUExecutionProvider': {{}}}} for this model. OpenVINO's error: {}"
)
_Feeds = dict[str, object]


class RunOrder:
    """The runs of one OpenVINO session."""

    def __init__(
        self,
        session: Callable[[], InferenceSession],
        origin: Origin | None,
        why: str,
        copies: bool = True,
        always_twice: bool = False,
    ) -> None:
        """Initialize it with the origin of the inner session, and the reason why the runs have an order, if they do.

        :param copies: whether outputs are copied, because the inner session can have their memory.
        :param always_twice: whether each run is computed twice, because data can change shapes.
        """
        self.why = why
        self.session = session
        self._origin = origin
        self.copies = copies
        self._always_twice = always_twice
        self._lock = RLock()
        self._inner = InnerSession(generation_of(session()))
        # The application can replace the inner session by one with other EPs, whose runs have an order.
        self._parallel_generation = None if why else self._inner.generation

    def is_needed(self) -> bool:
        """Return whether the runs have an order."""
        return self._parallel_generation is not generation_of(self.session())

    def run(self, waiting: RunOptions | None, compute: Callable, feeds: _Feeds, options: RunOptions) -> list:
        """Return the outputs of ``compute``. ``waiting`` can end the wait for other runs."""
        return call_holding(self._lock, waiting, self._run, compute, feeds, options)

    def _run(self, compute: Callable, feeds: _Feeds, options: RunOptions) -> list:
        if self.copies and _shrinks(options):
            reject(Place("run_config", key=SHRINKAGE), RELEASES_MEMORY)
        inner = self._inner_session()
        own = {name: inner.inputs.copy(name, value) for name, value in feeds.items()}
        shapes = {name: tensors.shape(value) for name, value in own.items()} if self.copies else {}
        is_like_last = inner.shapes == shapes
        inner.shapes = None

        before = sys.exception()  # the caller can handle an error of another run
        try:
            if self._always_twice or not is_like_last:
                compute(own, options)
            outputs = compute(own, options)
        except BaseException as error:
            inner.has_failed = True  # first: an interrupt can end the next step
            inner.has_failed = _is_of_ep(error, before)
            if isinstance(error, ORT_ERRORS) and "[OpenVINO-EP]" in str(error):
                raise reworded(type(error), _FAILED.format(str(error).strip().rsplit("\n", 1)[-1])) from None
            raise
        inner.shapes = shapes
        return list(map(tensors.owned, outputs)) if self.copies else outputs

    def _inner_session(self) -> InnerSession:
        """Return the state of the current inner session, which is a new one after a failed run."""
        session = self.session()
        is_current = self._inner.generation is generation_of(session)
        if is_current and self._inner.has_failed:
            if self._origin is None or self._origin.created is not self._inner.generation:
                raise RuntimeError(_NOT_OURS)
            self._origin.renew(session)
            is_current = False
        if not is_current:
            self._inner = InnerSession(generation_of(session))
        return self._inner


def _shrinks(options: RunOptions) -> str:
    with suppress(RuntimeError):  # no such entry
        return options.get_run_config_entry(SHRINKAGE)
    return ""


def _is_of_ep(error: BaseException | None, before: BaseException | None) -> bool:
    """Return whether an error is one of the EP, or was raised while Python handled one, as by a signal handler."""
    while error is not None and error is not before:
        if isinstance(error, ORT_ERRORS):
            return re.match(_OUTSIDE_EP, str(error)) is None
        error = error.__context__
    return False
