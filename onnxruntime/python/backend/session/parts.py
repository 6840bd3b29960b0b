# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Finds the optional parts that a session uses: before it exists from its permit, afterwards from the session."""

from __future__ import annotations

from onnxruntime import InferenceSession, SessionOptions
from onnxruntime.backend import optional_parts
from onnxruntime.backend.allowlist.permit import Permit
from onnxruntime.backend.allowlist.value_kinds import is_on
from onnxruntime.backend.optional_parts import Part
from onnxruntime.backend.provider_names import CAPTURE_SWITCHES, ON_ANY_DEVICE, WEBGPU


def of_permit(permit: Permit) -> list[Part]:
    """Return the parts that a session with a permit uses."""
    switched_on = []
    for ep, settings in permit.providers.items():
        switch = settings.get(CAPTURE_SWITCHES.get(ep, ""))
        if switch is not None and switch.value:
            switched_on.append(ep)
    return optional_parts.of_session(permit.providers, switched_on)


def of_session(session: InferenceSession) -> list[Part]:
    """Return the parts that a session uses. Raise an error if this build does not contain one that it needs."""
    providers = session.get_providers()
    if ON_ANY_DEVICE.issuperset(providers):
        return []
    return optional_parts.of_session(providers, capturing(session))


def capturing(session: InferenceSession) -> list[str]:
    """Return the EPs of a session that capture graphs."""
    options = session.get_provider_options()
    eps = []
    for ep, option in CAPTURE_SWITCHES.items():
        if ep == WEBGPU:
            captures = WEBGPU in options and _webgpu_captures(session, option)
        else:
            texts = options.get(ep, {})
            captures = is_on(texts.get(option, ""))
        if captures:
            eps.append(ep)
    return eps


def _webgpu_captures(session: InferenceSession, option: str) -> bool:
    # As ORT's own Python layer does: a provider option does not show whether it took effect.
    is_enabled = getattr(session._sess, "is_webgpu_graph_capture_enabled", None)
    if is_enabled is not None:
        return is_enabled()
    return is_on(config_entry(session.get_session_options(), f"ep.{WEBGPU.lower()}.{option}"))


def config_entry(options: SessionOptions, key: str) -> str:
    """Return a session config entry, ``""`` if the options do not have it."""
    try:
        return options.get_session_config_entry(key)
    except RuntimeError:  # no such entry
        return ""
