# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Everything that the backend keeps for one session, as long as the session exists."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Container
from typing import TYPE_CHECKING

from onnxruntime import InferenceSession

if TYPE_CHECKING:
    from onnxruntime.backend.session.verification import Applied

# The attribute of a session that leads to its state. A global table would keep a session that refers to itself.
ATTRIBUTE = "_state_of_backend"


class SessionState:
    """The state of one session, which all prepared models on the session share.

    Nothing but the session may refer to this object, because it refers to the attributes of the session.

    If the session shares a device with others, a lock releases it (:meth:`release_under`). When the session ends, this
    object passes all attributes of the session to the lock. The thread that is alone, now or next, releases them.
    """

    def __init__(self) -> None:
        #: The settings of ``prepare``, until its prepared model takes them.
        self.applied: Applied | None = None
        self._of_parts: dict[str, object] = {}
        self._lock: object = None
        self._session_attributes: dict | None = None

    def take_applied(self) -> Applied | None:
        """Return :attr:`applied` once."""
        applied = self.applied
        self.applied = None
        return applied

    def keep(self, part: str, make: Callable) -> object:
        """Return the object that an optional part keeps for the session. The first call makes it."""
        kept = self._of_parts.get(part)
        if kept is None:
            # Several threads may make one for the first run. One operation of the dict chooses the one for all.
            kept = self._of_parts.setdefault(part, make())
        return kept

    def keep_only(self, parts: Container[str]) -> None:
        """Remove what other parts keep."""
        for part in [*self._of_parts]:
            if part not in parts:
                self._of_parts.pop(part, None)

    def release_under(self, lock: object, session: InferenceSession) -> None:
        """Let a lock release the session: its method ``put_aside`` gets all attributes of the session at its end."""
        if self._session_attributes is None:
            self._lock = lock
            self._session_attributes = vars(session)
            # Called when the last reference ends. The garbage collector, which ends cycles, calls __del__ instead.
            # weakref.finalize would keep the attributes, and with them a session that refers to itself.
            self._ended = weakref.ref(session, self._end)

    def _end(self, _: object = None, is_finalizing: Callable = sys.is_finalizing) -> None:
        if self._session_attributes is not None and not is_finalizing():
            if self._of_parts:  # they end under the lock, too, and not with this object
                self._session_attributes[ATTRIBUTE], self._of_parts = self._of_parts, {}
            # First: after an interrupt, the garbage collector calls this method again.
            self._lock.put_aside(self._session_attributes)
        self._session_attributes = None

    __del__ = _end


def of(session: InferenceSession) -> SessionState:
    """Return the state of a session."""
    attributes = vars(session)
    return attributes.get(ATTRIBUTE) or attributes.setdefault(ATTRIBUTE, SessionState())
