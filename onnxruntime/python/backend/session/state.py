# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Everything that the backend keeps for one session, as long as the session exists, and its release afterwards.

The last reference to a session can end in the garbage collector, where waiting for a lock can hang, or with an error
that a program drops at any time. Therefore, if sessions share a device, the lock of the device owns the inner session
and the captured graphs of each. It releases them after the session has ended.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from onnxruntime import InferenceSession

# The attribute of a session that leads to its state. A global table would keep a session that refers to itself.
ATTRIBUTE = "_state_of_backend"
_Kept = TypeVar("_Kept")
_ONE = [object()]
_ONLY = sys.getrefcount(_ONE[0])  # of the item of a list that nothing else refers to


class SessionState:
    """The state of one session, which all prepared models on the session share.

    Nothing but the session may refer to this object, because it can refer to the session.
    """

    def __init__(self) -> None:
        #: Why each input of a run needs elements (``unwritten.py``), or ``""``.
        self.needs_elements = ""
        #: Whether the model can have a Concat, as a model that the application loaded can.
        self.has_concat = True
        #: The objects that the lock of the device releases after the session has ended (``locks.py``).
        self.owned: Owned | None = None
        self._of_parts: dict[str, Any] = {}

    def keep(self, part: str, make: Callable[[], _Kept]) -> _Kept:
        """Return the object that a part keeps for the session. The first call makes it."""
        kept = self._of_parts.get(part)
        if kept is None:
            # Several threads may make one for the first run. One operation of the dict chooses the one for all.
            kept = self._of_parts.setdefault(part, make())
        return kept

    def keep_only(self, parts: Iterable[str]) -> None:
        """Remove what other parts keep."""
        for part in self._of_parts.keys() - parts:
            self._of_parts.pop(part, None)

    def let_go(self, inner: object) -> None:
        """Let the owner release an inner session that is not this one, because ``set_providers`` has replaced it."""
        owned = self.owned
        if owned is not None and owned.inner[0] is not inner:
            self.owned = None
            owned.owner.ended.append(owned)


def of(session: InferenceSession) -> SessionState:
    attributes = vars(session)
    return attributes.get(ATTRIBUTE) or attributes.setdefault(ATTRIBUTE, SessionState())


class Owned(weakref.ref):
    """A weak reference to a session, with the objects that its owner releases after the session has ended.

    None of these objects may refer to the session, which would never end.
    """

    __slots__ = ("graphs", "inner", "owner")
    graphs: list
    inner: list
    owner: Owner

    def release(self) -> bool:
        """Release the objects. Return ``False`` if something else still refers to one of them.

        That can be an error that the program keeps, or a list of ORT's such as that of the inputs.
        """
        for objects in (self.graphs, self.inner):
            while objects:
                if sys.getrefcount(objects[-1]) > _ONLY:
                    return False
                objects.pop()
        return True


class Owner:
    """Owns inner sessions and graphs. The class of the locks derives from it."""

    def __init__(self) -> None:
        self._owned: dict[int, Owned] = {}
        #: The sessions that have ended and are not released yet.
        self.ended: deque[Owned] = deque()

    def own(self, session: InferenceSession) -> Owned:
        """Own a session that has just been created, or that a caller prepares."""
        kept = of(session)
        kept.let_go(session._sess)
        if kept.owned is None:
            # The callback is a C function: no interrupt can prevent it, or is lost in it.
            owned = Owned(session, self.ended.append)
            owned.owner = self
            owned.inner = [session._sess]
            owned.graphs = []
            self._owned[id(owned)] = owned
            kept.owned = owned
        return kept.owned

    def alone(self) -> AbstractContextManager[None]:
        """Return a context in which no other thread uses the device."""
        raise NotImplementedError

    def release_ended(self) -> None:
        """Release the sessions that have ended. A lock calls :meth:`release_each` while no other thread can."""
        raise NotImplementedError

    def release_each(self) -> None:
        """Release each session that has ended, unless something else still refers to it."""
        for _ in range(len(self.ended)):
            # It stays first until it is released: after an interrupt, the next call continues.
            owned = self.ended[0]
            if owned.release():
                self._owned.pop(id(owned), None)
                self.ended.popleft()
            else:
                self.ended.rotate(-1)
