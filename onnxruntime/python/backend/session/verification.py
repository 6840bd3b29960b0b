# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Compares a session with its permit: the EPs, and the values that ORT reports."""

from __future__ import annotations

from onnxruntime import InferenceSession, get_device
from onnxruntime.backend.allowlist.permit import Permit
from onnxruntime.backend.allowlist.rules import NOTHING, Setting
from onnxruntime.backend.errors import Place
from onnxruntime.backend.provider_names import ON_ANY_DEVICE
from onnxruntime.backend.session import missing_providers, presence
from onnxruntime.backend.session.attaching import option_texts


def check(session: InferenceSession, permit: Permit) -> None:
    """Raise an error if a session does not use the requested device, or ORT reports another value than the sent one."""
    _check_device(session, permit)
    if permit.session_config:
        options = session.get_session_options()
        for key, setting in permit.session_config.items():
            entry = options.get_session_config_entry(key)
            if entry != setting.text:
                raise RuntimeError(f"{setting.place} was sent as {setting.text!r}, but ORT holds {entry!r}")
    if permit.explicit:
        options_by_ep = session.get_provider_options()
        for name, settings in permit.providers.items():
            texts = options_by_ep.get(name, NOTHING)
            for option, text in option_texts(name, permit.kinds[name], settings).items():
                reported = texts.get(option, text)
                if not _same(reported, text, settings.get(option)):
                    place = Place("provider_options", name, option)
                    raise RuntimeError(f"{place} was sent as {text!r}, but ORT reports {reported!r}")


def _check_device(session: InferenceSession, permit: Permit) -> None:
    device = permit.device
    if device in ("", "CPU") or not presence.supports_device(device, get_device()):
        return
    if ON_ANY_DEVICE.issuperset(session.get_providers()):
        cause = missing_providers.why_on_cpu(session, permit)
        if not cause and permit.explicit:
            cause = "provider_options specifies no EP of this device"
        raise RuntimeError(f"device {device!r}: the session runs on the CPU, because {cause or presence.EXCLUDED}")


def _same(reported: str, text: str, setting: Setting | None) -> bool:
    """Return whether ORT reports the text that was sent, or another spelling of a setting's value."""
    if reported == text:
        return True
    if setting is None or not setting.rule.reported:
        return False
    try:
        return setting.rule.kind.read(reported) == setting.value
    except ValueError:
        return False
