# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""One lock for everything that WebGPU sessions do in this process.

Two WebGPU sessions used from two threads fail or crash the process, and so does opening one while another runs: with
the plugin EP of ORT 1.31.1 and with the EP inside 1.27. Opening, running and releasing all go through :data:`WEBGPU`.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Container
from contextlib import AbstractContextManager, nullcontext

from onnxruntime import InferenceSession

EP = "WebGpuExecutionProvider"


class _ReleasingLock:
    """A re-entrant lock that also releases sessions.

    A session dies wherever its last reference goes, in the garbage collector too, where waiting for a lock can hang. So
    what it held is put aside, and dropped by whoever has the lock then or takes it next.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self._dead: list[dict] = []

    def __enter__(self) -> None:
        self._lock.acquire()
        self._depth += 1

    def __exit__(self, *_) -> None:
        self._depth -= 1
        self._lock.release()
        self._bury()

    def _bury(self) -> None:
        # Whoever fails to take the lock here leaves the rest to its holder, who comes by after letting go.
        while self._dead and self._lock.acquire(blocking=False):
            try:
                # The collector runs in the middle of things: this thread may be in a run, and comes by after it too.
                if self._depth:
                    return
                self._dead.clear()
            finally:
                self._lock.release()

    def _put_aside(self, held: dict) -> None:
        self._dead.append(held)
        self._bury()

    def release_of(self, session: InferenceSession) -> None:
        """Have the inner session, and all else that a session object holds, dropped under the lock."""
        # vars(session) outlives the object because the finalizer holds it. It holds no reference back.
        weakref.finalize(session, self._put_aside, vars(session)).atexit = False


WEBGPU = _ReleasingLock()
_NO_LOCK = nullcontext()


def while_opening(providers: Container[str]) -> AbstractContextManager:
    """What to hold while a session with these EPs is opened."""
    return WEBGPU if EP in providers else _NO_LOCK


def of(session: InferenceSession) -> _ReleasingLock | None:
    """The lock to hold while a session runs; ``None`` for a session without the WebGPU EP."""
    if EP not in session.get_providers():
        return None
    with WEBGPU:
        if not getattr(session, "_released_under_lock", False):
            session._released_under_lock = True
            WEBGPU.release_of(session)
    return WEBGPU
