# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The class of the parts of a session, which its execution providers (EPs) need in addition to ORT."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from onnxruntime import InferenceSession, RunOptions
from onnxruntime.backend.runs.direct_route import Guard
from onnxruntime.backend.session.construction import Construction, Created


def nested(outer: Guard | None, inner: Guard | None) -> Guard | None:
    """Return a guard of a session inside another one."""
    if outer is None or inner is None:
        return outer or inner
    return partial(_run_nested, outer, inner)


def _run_nested(
    outer: Guard,
    inner: Guard,
    waiting: RunOptions | None,
    compute: Callable,
    feeds: dict,
    options: RunOptions,
) -> list:
    return outer(waiting, partial(inner, waiting, compute), feeds, options)


CreateSession = Callable[[Construction], Created]


class SessionPart:
    """A part of some sessions. A subclass overrides the methods that its sessions need."""

    #: The name under which the state of a session keeps the object of this part.
    name: ClassVar[str]

    def create(self, create_session: CreateSession, construction: Construction) -> Created:
        """Create a session with ``create_session``, the creation by the other parts and ORT."""
        return create_session(construction)

    def guard(self, session: InferenceSession) -> Guard | None:
        """Return a function that decides when a run of a session may begin, ``None`` if it may at any time."""

    def route(self, session: InferenceSession) -> Any | None:
        """Return an object with the methods of ``DirectRoute`` that runs a session, ``None`` if that class does."""

    def why_serial(self, session: InferenceSession) -> str:
        """Return why no runs of a session are parallel, ``""`` if runs can be."""
        return ""
