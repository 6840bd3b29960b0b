# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The class of the parts of a session: what its execution providers (EPs) need in addition to ORT."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from onnxruntime import InferenceSession
from onnxruntime.backend.runs.direct_route import Guard
from onnxruntime.backend.session.construction import Construction, Created

CreateSession = Callable[[Construction], Created]


class SessionPart:
    """A part of some sessions. A subclass overrides the methods that its sessions need."""

    #: The name under which the state of a session keeps the object of this part.
    name: ClassVar[str]

    def create(self, create_session: CreateSession, construction: Construction) -> Created:
        """Create a session with ``create_session``, the creation by the other parts and ORT."""
        return create_session(construction)

    def guard(self, session: InferenceSession) -> Guard | None:
        """Return an object that decides when a run of a session may begin, ``None`` if it may at any time."""

    def route(self, session: InferenceSession) -> Any | None:
        """Return an object with the methods of ``DirectRoute`` that runs a session, ``None`` if that class does."""

    def why_serial(self, session: InferenceSession) -> str:
        """Return why no runs of a session are parallel, ``""`` if runs can be."""
        return ""
