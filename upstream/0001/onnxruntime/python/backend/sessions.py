# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Creates a session from a permit, and compares it with the permit: the EPs, and the values that ORT reports."""

from __future__ import annotations

from onnxruntime import InferenceSession, SessionOptions
from onnxruntime.backend.allowlist import Permit
from onnxruntime.backend.allowlist_tables import CPU, RECORD_ASSIGNMENT
from onnxruntime.backend.errors import Place, warn


def create(
    session_class: type[InferenceSession],
    model: str | bytes,
    permit: Permit,
    options: SessionOptions,
    available: list[str],
) -> InferenceSession:
    """Create a session from a permit, and compare it with the permit.

    If EPs are specified, the session gets exactly these EPs in their order, then the CPU EP, without any fallback.
    Otherwise, it gets all available EPs.
    """
    entries = dict(permit.session_config)
    if any(ep != CPU for ep in permit.providers or ()):
        entries.setdefault(RECORD_ASSIGNMENT, "1")
    for key, text in entries.items():
        options.add_session_config_entry(key, text)
    session = _open(session_class, model, permit, options, available)
    _check_entries(session, permit)
    if permit.providers is not None:
        _check_providers(session, permit)
        if entries.get(RECORD_ASSIGNMENT) == "1":
            _warn_about_idle(session, permit)
    return session


def _open(
    session_class: type[InferenceSession],
    model: str | bytes,
    permit: Permit,
    options: SessionOptions,
    available: list[str],
) -> InferenceSession:
    if permit.providers is None:
        return session_class(model, sess_options=options, providers=available)
    providers = list(permit.providers.items())
    return session_class(model, sess_options=options, providers=providers, enable_fallback=0)


def _check_entries(session: InferenceSession, permit: Permit) -> None:
    """Raise an error if a session does not have the session config entries of its permit."""
    if not permit.session_config:
        return
    options = session.get_session_options()
    for key, text in permit.session_config.items():
        # This raises a RuntimeError if the session does not have the key.
        entry = options.get_session_config_entry(key)
        if entry != text:
            place = Place("session_config", key=key)
            raise RuntimeError(f"{place} was sent as {text!r}, but the session has {entry!r}")


def _check_providers(session: InferenceSession, permit: Permit) -> None:
    """Raise an error if a session does not have the EPs of its permit in their order, or an option of an EP."""
    specified = [*permit.providers]
    if CPU not in specified:
        specified.append(CPU)
    providers = session.get_providers()
    if providers != specified:
        # ORT only logs why it leaves out an EP.
        raise RuntimeError(f"ORT created the session with {', '.join(providers)} instead of {', '.join(specified)}")
    reported = session.get_provider_options()
    for ep, options in permit.providers.items():
        for option, text in options.items():
            value = reported[ep].get(option)
            if value != text:
                place = Place("provider_options", ep, option)
                raise RuntimeError(f"{place} was sent as {text!r}, but ORT reports {value!r}")


def _warn_about_idle(session: InferenceSession, permit: Permit) -> None:
    """Warn about each specified EP without nodes."""
    used = {part.ep_name for part in session.get_provider_graph_assignment_info()}
    for ep in permit.providers:
        if ep != CPU and used and ep not in used:
            problem = f"No node of this model is assigned to {ep}, which provider_options specifies"
            warn(f"{problem}. The model runs on {', '.join(sorted(used))}")
