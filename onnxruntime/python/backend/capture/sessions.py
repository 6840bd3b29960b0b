# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Creates the sessions that capture graphs, and keeps the captured graphs of each."""

from __future__ import annotations

from collections.abc import Callable

from onnxruntime import InferenceSession, SessionOptions
from onnxruntime.backend import locks
from onnxruntime.backend.allowlist.permit import Permit
from onnxruntime.backend.capture import advice, eligibility
from onnxruntime.backend.capture.graphs import Capture
from onnxruntime.backend.runs import fast_path
from onnxruntime.backend.session import parts, state


def create(
    create_session: Callable[..., InferenceSession],
    model: object,
    options: SessionOptions,
    permit: Permit,
) -> InferenceSession:
    """Create a session, or raise an error if ORT cannot replay its graph right."""
    session, checked = eligibility.open_session(create_session, options, permit.providers)
    capture = capture_of(session, checked)
    if capture is not None and capture.problem:
        raise RuntimeError(f"{capture.problem}. {advice.WITHOUT}")
    return session


def capture_of(session: InferenceSession, checked: bool = False) -> Capture | None:
    """Return the captured graphs of a session, which all its runs share; ``None`` if it does not capture.

    :param checked: whether ``prepare`` has just created the session and checked its final graph.
    """
    captures: dict[int, Capture] = state.of(session).keep("capture", dict)
    inner = fast_path.inner_of(session)
    for stale in captures.keys() - {id(inner)}:  # of inner sessions that set_providers has replaced
        captures.pop(stale, None)
    switched_on = parts.capturing(session)
    if not switched_on:
        return None
    capture = captures.get(id(inner))
    if capture is None:
        lock = locks.lock_of(session)
        assert lock is not None  # of each EP that captures
        capture = Capture(session, switched_on, lock, checked)
        # Several threads may make one for the first run. One operation of the dict chooses the one for all.
        capture = captures.setdefault(id(inner), capture)
    return capture
