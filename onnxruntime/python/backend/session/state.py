# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Everything that the backend keeps for one session."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from onnxruntime import InferenceSession

# The attribute of a session that leads to its state. A global table would keep a session that refers to itself.
ATTRIBUTE = "_state_of_backend"


class SessionState:
    """The state of one session, which all prepared models on the session share.

    Nothing but the session may refer to this object, because it can refer to the session.
    """

    def __init__(self) -> None:
        #: What ORT applied (``Applied``), from the creation of the session in ``prepare`` until ``prepare`` returns.
        self.applied: Any = None
        #: What the lock of a device (``locks.py``) releases after the session, if any.
        self.owned: Any = None
        #: The settings of the operator, by keyword.
        self.trusted: Mapping = {}
        self._of_parts: dict[str, Any] = {}

    def keep(self, part: str, make: Callable[[], Any]) -> Any:
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


def is_of_ort(session: object) -> bool:
    """Return whether a session is ORT's, and not a mock or another object with ``get_inputs`` and ``run``."""
    return issubclass(type(session), InferenceSession)


def generation_of(session: object) -> object:
    """Return an object that ORT replaces together with a session's inner session, and that does not keep it alive."""
    return getattr(session, "_providers", None)


def state_of(session: Any) -> SessionState:
    attributes = vars(session)
    return attributes.get(ATTRIBUTE) or attributes.setdefault(ATTRIBUTE, SessionState())


def applied_in_prepare(session: object) -> Any:
    """Return what ORT applied if ``prepare`` has just created a session, ``None`` for other sessions."""
    return state_of(session).applied if is_of_ort(session) else None
