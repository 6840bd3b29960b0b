# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Selects the parts of a session by its execution providers (EPs), and imports their modules."""

from collections.abc import Iterable

from onnxruntime import InferenceSession
from onnxruntime.backend.allowlist import conditions
from onnxruntime.backend.allowlist.permit import Permit
from onnxruntime.backend.allowlist.value_kinds import is_on
from onnxruntime.backend.provider_names import CAPTURE_SWITCHES, OF_OPENVINO, ON_ANY_DEVICE, THROUGH_CUDA, WEBGPU
from onnxruntime.backend.session.creation import SessionPart
from onnxruntime.backend.session.state import state_of


def for_permit(permit: Permit) -> list[SessionPart]:
    """Return the parts of a session that is to be created."""
    if ON_ANY_DEVICE.issuperset(permit.providers):
        return []
    return _parts(permit.providers, _capturing_in_permit(permit))


def for_session(session: InferenceSession) -> list[SessionPart]:
    """Return the parts of a session, which keeps no object of other parts. Raise an error if this Python cannot run it.

    ``InferenceSession.set_providers`` can have changed the EPs.
    """
    parts: list[SessionPart] = []
    providers = session.get_providers()
    if not ON_ANY_DEVICE.issuperset(providers):
        parts = _parts(providers, _capturing_in_session(session))
    state_of(session).keep_only([part.name for part in parts])
    return parts


def _parts(providers: Iterable[str], eps_that_capture: list[str]) -> list[SessionPart]:
    """Return the parts from the innermost to the outermost, in which order they create and guard a session."""
    eps = set(providers)
    of_openvino = not OF_OPENVINO.isdisjoint(eps)
    if not conditions.has_global_lock():  # then nothing captures, and runs on CUDA need no lock
        if eps_that_capture or of_openvino or WEBGPU in eps:
            listed = ", ".join(providers)
            problem = f"A session with {listed} cannot run: its locks need Python's global interpreter lock"
            raise RuntimeError(f"{problem}. Use a Python that is not free-threaded, or another EP")
        return []
    parts: list[SessionPart] = []
    if eps_that_capture:
        from onnxruntime.backend.capture.sessions import CapturePart  # for few sessions  # noqa: PLC0415

        parts.append(CapturePart(eps_that_capture))
    if of_openvino:
        from onnxruntime.backend.openvino.sessions import OpenVINOPart  # for few sessions  # noqa: PLC0415

        parts.append(OpenVINOPart())
    if WEBGPU in eps or not eps.isdisjoint(THROUGH_CUDA):
        from onnxruntime.backend.locks import LockPart  # for few sessions  # noqa: PLC0415

        parts.append(LockPart())
    return parts


def _capturing_in_permit(permit: Permit) -> list[str]:
    """Return the EPs that capture graphs in a session with a permit."""
    eps = []
    for ep, settings in permit.providers.items():
        switch = settings.get(CAPTURE_SWITCHES.get(ep, ""))
        if switch is not None and switch.value:
            eps.append(ep)
    return eps


def _capturing_in_session(session: InferenceSession) -> list[str]:
    """Return the EPs of a session that capture graphs."""
    eps = []
    for ep, texts in session.get_provider_options().items():
        if is_on(texts.get(CAPTURE_SWITCHES.get(ep, ""), "")):
            eps.append(ep)
    return eps
