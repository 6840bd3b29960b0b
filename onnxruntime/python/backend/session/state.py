# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Everything that the backend keeps for one session, as long as the session exists."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from onnxruntime import InferenceSession, IOBinding
from onnxruntime.backend import locks
from onnxruntime.backend.openvino.replacement import Origin, cannot_renew
from onnxruntime.backend.openvino.run_order import RunOrder
from onnxruntime.backend.provider_names import OF_OPENVINO, ON_ANY_DEVICE
from onnxruntime.backend.runs import fast_path

if TYPE_CHECKING:
    from onnxruntime.backend.capture.graphs import Capture
    from onnxruntime.backend.session.verification import Applied

# The attribute of a session that leads to its state. A global table would keep a session that refers to itself.
_ATTRIBUTE = "_state_of_backend"


class SessionState:
    """The state of one session, which all prepared models on the session share.

    Nothing but the session may refer to this object, because it refers to the attributes of the session.

    A session on a device with a :class:`SessionLock` is released under this lock. When the session ends, this object
    puts all attributes of the session aside. The thread that is alone, now or next, releases them, then those of each
    captured graph, which puts its own attributes aside. A graph refers to the inner session, which therefore ends after
    the buffers of all graphs.

    Methods of the session are replaced in two cases. On OpenVINO, it is ``io_binding``, because a binding before ORT
    1.31 does not keep the inner session, which a replacement releases. If a session captures CUDA graphs, these are the
    methods that run the session: see ``capture/own_runs.py``.
    """

    def __init__(self) -> None:
        #: The settings of ``prepare``, until its prepared model takes them.
        self.applied: Applied | None = None
        self._orders: dict[None, RunOrder] = {}
        self._captures: dict[int, Capture] = {}
        self._lock: locks.SessionLock | None = None
        self._own: dict | None = None

    def take_applied(self) -> Applied | None:
        """Return :attr:`applied` once."""
        applied, self.applied = self.applied, None
        return applied

    def lock_of(self, session: InferenceSession) -> locks.SessionLock | None:
        """Return the lock that the runs of a session need, under which the session is released; ``None`` if none."""
        lock = locks.of(session.get_providers())
        if lock is not None:
            options = session.get_provider_options().values()
            if any(texts.get("device_id", "0") != "0" for texts in options):
                lock.other_devices = True
            if self._own is None:
                self._lock, self._own = lock, vars(session)
                # Called when the last reference ends. The garbage collector, which ends cycles, calls __del__ instead.
                # weakref.finalize would keep the attributes, and with them a session that refers to itself.
                self._ended = weakref.ref(session, self._end)
        return lock

    def _end(self, _: object = None, is_finalizing: Callable = sys.is_finalizing) -> None:
        if self._own is not None and not is_finalizing():
            self._lock.put_aside(self._own)  # first: after an interrupt, the garbage collector calls this again
        self._own = self._ended = None

    __del__ = _end

    def capture_of(self, session: InferenceSession, checked: bool = False) -> Capture | None:
        """Return the captured graphs of a session, which all its runs share; ``None`` if it does not capture.

        :param checked: whether ``prepare`` has just created the session and checked its final graph.
        """
        if not self._captures and ON_ANY_DEVICE.issuperset(session.get_providers()):
            return None
        from onnxruntime.backend.capture import eligibility, graphs  # only for EPs on a device  # noqa: PLC0415

        inner = fast_path.inner_of(session)
        for stale in self._captures.keys() - {id(inner)}:  # of inner sessions that set_providers has replaced
            self._captures.pop(stale, None)
        switched_on = eligibility.switched_on(session)
        if not switched_on:
            return None
        lock = self.lock_of(session)
        # Several threads may create an object for the first run. One operation of the dict chooses the one for all.
        return self._captures.get(id(inner)) or self._captures.setdefault(
            id(inner), graphs.Capture(session, switched_on, lock, checked)
        )

    def order_of(self, session: InferenceSession) -> RunOrder | None:
        """Return the order of the runs of a session, ``None`` if the session has no EP of OpenVINO."""
        if OF_OPENVINO.isdisjoint(session.get_providers()):
            return None
        # Several threads may create one for the first run. One operation of the dict chooses the one for all.
        return self._orders.get(None) or self._orders.setdefault(
            None, RunOrder(weakref.ref(session), cannot_renew, lambda session: False)
        )

    def replace_from(self, origin: Origin, session: InferenceSession) -> None:
        """Let a new inner session from ``origin`` replace the one that the backend has just created."""
        origin.created = session._providers
        self._orders[None] = RunOrder(weakref.ref(session), origin.renew, origin.only_shapes_decide)
        session.io_binding = partial(_io_binding, weakref.ref(session))


def _io_binding(session: weakref.ref[InferenceSession]) -> IOBinding:
    """Return an IO binding that keeps its inner session, as ORT's own bindings do from 1.31 on."""
    binding = IOBinding(session())
    binding._session = session()._sess
    return binding


def of(session: InferenceSession) -> SessionState:
    """Return the state of a session."""
    own = vars(session)
    return own.get(_ATTRIBUTE) or own.setdefault(_ATTRIBUTE, SessionState())
