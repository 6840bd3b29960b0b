# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Everything that the backend keeps for one session, as long as the session exists."""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Callable, Container
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from onnxruntime import InferenceSession

if TYPE_CHECKING:
    from onnxruntime.backend.session.reports import Applied

# The attribute of a session that leads to its state. A global table would keep a session that refers to itself.
ATTRIBUTE = "_state_of_backend"
_Kept = TypeVar("_Kept")


class Lock(Protocol):
    """The lock of a device, which releases the sessions on it."""

    ended: deque[Owned]

    def release_ended(self) -> None:
        """Release the sessions that have ended."""

    def alone(self) -> AbstractContextManager[None]:
        """Return a context in which no other thread uses the device."""


class Owned(weakref.ref):
    """A weak reference to a session, with the objects that its lock releases after the session has ended.

    The lock keeps it. So none of these objects may refer to the session, which would never end.
    """

    __slots__ = ("graphs", "inner", "lock")
    graphs: list
    inner: list
    lock: Lock

    def __new__(cls, session: InferenceSession, lock: Lock) -> Self:
        # The callback is a C function: no interrupt can prevent it, or is lost in it.
        owned = super().__new__(cls, session, lock.ended.append)
        owned.lock = lock
        owned.inner = [session._sess]
        owned.graphs = []
        return owned

    def __init__(self, session: InferenceSession, lock: Lock) -> None:
        """Initialize it with a session that has just been created, or that a caller prepares."""

    def release(self) -> bool:
        """Release the objects under the lock. Return ``False`` if something else still refers to one of them.

        That can be an error that the program keeps, or a list of ORT's such as that of the inputs.
        """
        for objects in (self.graphs, self.inner):
            while objects:
                if sys.getrefcount(objects[-1]) > _ONLY:
                    return False
                objects.pop()
        return True


_ONE = [object()]
_ONLY = sys.getrefcount(_ONE[0])  # of the item of a list that nothing else refers to


class SessionState:
    """The state of one session, which all prepared models on the session share.

    Nothing but the session may refer to this object, because it can refer to the session.
    """

    def __init__(self) -> None:
        #: The settings of ``prepare``, until its prepared model takes them.
        self.applied: Applied | None = None
        #: What the lock of the device releases after the session has ended (``locks.py``).
        self.owned: Owned | None = None
        self._of_parts: dict[str, Any] = {}

    def take_applied(self) -> Applied | None:
        """Return :attr:`applied` once."""
        applied = self.applied
        self.applied = None
        return applied

    def keep(self, part: str, make: Callable[[], _Kept]) -> _Kept:
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

    def let_go(self, inner: object) -> None:
        """Let the lock release what it owns, unless that is this inner session, which ``set_providers`` can replace."""
        owned = self.owned
        if owned is not None and owned.inner[0] is not inner:
            self.owned = None
            owned.lock.ended.append(owned)


def of(session: InferenceSession) -> SessionState:
    """Return the state of a session."""
    attributes = vars(session)
    return attributes.get(ATTRIBUTE) or attributes.setdefault(ATTRIBUTE, SessionState())
