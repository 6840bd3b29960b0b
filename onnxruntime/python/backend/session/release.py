# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Releases the sessions of a device after they have ended, under the lock of the device.

The last reference to a session can end in the garbage collector, where waiting for a lock can hang, or with an error
that a program drops at any time. Therefore, the lock owns the inner session and the captured graphs of each session.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from contextlib import AbstractContextManager

from onnxruntime import InferenceSession
from onnxruntime.backend.session import state

_ONE = [object()]
_ONLY = sys.getrefcount(_ONE[0])  # of the item of a list that nothing else refers to


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
        kept = state.of(session)
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
