# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Determines which execution providers (EPs) capture graphs: before a session exists from its permit, then from it."""

from __future__ import annotations

from onnxruntime import InferenceSession
from onnxruntime.backend.allowlist.permit import Permit
from onnxruntime.backend.allowlist.value_kinds import is_on
from onnxruntime.backend.provider_names import CAPTURE_SWITCHES


def of_permit(permit: Permit) -> list[str]:
    """Return the EPs that capture graphs in a session with a permit."""
    eps = []
    for ep, settings in permit.providers.items():
        switch = settings.get(CAPTURE_SWITCHES.get(ep, ""))
        if switch is not None and switch.value:
            eps.append(ep)
    return eps


def of_session(session: InferenceSession) -> list[str]:
    """Return the EPs of a session that capture graphs."""
    eps = []
    for ep, texts in session.get_provider_options().items():
        if is_on(texts.get(CAPTURE_SWITCHES.get(ep, ""), "")):
            eps.append(ep)
    return eps
