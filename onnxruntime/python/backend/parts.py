# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Selects the parts of a session by its execution providers (EPs), and imports their modules."""

from collections.abc import Mapping

from onnxruntime import InferenceSession
from onnxruntime.backend.allowlist import conditions
from onnxruntime.backend.allowlist.permit import Permit
from onnxruntime.backend.allowlist.rules import Texts
from onnxruntime.backend.provider_names import OF_OPENVINO, ON_ANY_DEVICE, THROUGH_CUDA, WEBGPU
from onnxruntime.backend.session.creation import SessionPart
from onnxruntime.backend.session.state import state_of


def for_permit(permit: Permit) -> list[SessionPart]:
    """Return the parts of a session that is to be created."""
    if ON_ANY_DEVICE.issuperset(permit.providers):
        return []
    return _parts({ep: settings.texts for ep, settings in permit.providers.items()})


def for_session(session: InferenceSession) -> list[SessionPart]:
    """Return the parts of a session, which keeps no object of other parts. Raise an error if this Python cannot run it.

    ``InferenceSession.set_providers`` can have changed the EPs.
    """
    parts: list[SessionPart] = []
    if not ON_ANY_DEVICE.issuperset(session.get_providers()):
        parts = _parts(session.get_provider_options())
    state_of(session).keep_only([part.name for part in parts])
    return parts


def _parts(options: Mapping[str, Texts]) -> list[SessionPart]:
    """Return the parts from the innermost to the outermost, in which order they create and guard a session.

    :param options: the texts of the options of each EP.
    """
    eps = options.keys()
    eps_that_capture = conditions.capturing(options)
    of_openvino = not OF_OPENVINO.isdisjoint(eps)
    if not conditions.has_global_lock():  # then nothing captures, and runs on CUDA need no lock
        if eps_that_capture or of_openvino or WEBGPU in eps:
            listed = ", ".join(eps)
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
