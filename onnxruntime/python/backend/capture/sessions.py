# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Creates the sessions that capture graphs, and keeps the captured graphs of each."""

from __future__ import annotations

from onnxruntime import InferenceSession
from onnxruntime.backend import locks
from onnxruntime.backend.allowlist.permit import Permit
from onnxruntime.backend.capture import advice, eligibility
from onnxruntime.backend.capture.graphs import Capture
from onnxruntime.backend.runs.direct_route import inner_of
from onnxruntime.backend.session import capturing, state
from onnxruntime.backend.session.construction import Construction, SessionPart


class CapturePart(SessionPart):
    """Creates a session only if ORT can replay its graph right, and runs it with :class:`.graphs.Capture`."""

    name = "capture"

    def create(self, construction: Construction) -> InferenceSession:
        def open_again(permit: Permit) -> InferenceSession:
            return _create(construction.again(permit))

        try:
            return _create(construction)
        except Exception as error:
            advice.explain(error, construction.permit, open_again)
            raise

    def route(self, session: InferenceSession) -> Capture | None:
        return capture_of(session)


def _create(construction: Construction) -> InferenceSession:
    session, checked = eligibility.open_session(construction)
    capture = capture_of(session, checked)
    if capture is not None and capture.problem:
        raise RuntimeError(f"{capture.problem}. {advice.WITHOUT}")
    return session


def capture_of(session: InferenceSession, checked: bool = False) -> Capture | None:
    """Return the captured graphs of a session, which all its runs share, ``None`` if it does not capture.

    :param checked: whether ``prepare`` has just created the session and checked its final graph.
    """
    captures: dict[int, Capture] = state.of(session).keep(CapturePart.name, dict)
    inner = inner_of(session)
    for stale in captures.keys() - {id(inner)}:  # of inner sessions that set_providers has replaced
        captures.pop(stale, None)
    switched_on = capturing.of_session(session)
    if not switched_on:
        return None
    capture = captures.get(id(inner))
    if capture is None:
        locks.lock_of(session)  # it owns the session
        capture = Capture(session, switched_on, checked)
        # Several threads may make one for the first run. One operation of the dict chooses the one for all.
        capture = captures.setdefault(id(inner), capture)
    return capture
