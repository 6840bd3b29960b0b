# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Compares a session with its permit, and reports the settings as ORT has applied them, and those without effect."""

from collections.abc import Mapping
from typing import NamedTuple, Self

from onnxruntime import InferenceSession, get_device
from onnxruntime.backend.allowlist.permit import Permit
from onnxruntime.backend.allowlist.rules import NOTHING, Setting, Texts
from onnxruntime.backend.applied import nodes
from onnxruntime.backend.environment.configuration import places
from onnxruntime.backend.errors import Place, warn_each
from onnxruntime.backend.explanations import missing_providers
from onnxruntime.backend.provider_names import ON_ANY_DEVICE
from onnxruntime.backend.session import presence
from onnxruntime.backend.session.creation import Construction


class Applied(NamedTuple):
    """The specified settings. The properties of a prepared model return copies of them."""

    configuration: Mapping[str, Mapping] = NOTHING  # as specified, by keyword argument
    provider_options: Mapping[str, Texts] = NOTHING  # as ORT reports them
    session_options: Mapping = NOTHING  # as ORT reports them
    unconfirmed: Mapping[str, Mapping] = NOTHING
    warnings: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()

    def with_run_config(self, entries: Texts, without_effect: Texts) -> Self:
        """Replace the run config entries. ``without_effect`` contains a warning about each entry without effect."""
        unconfirmed = plain_copy(self.unconfirmed)
        for key in without_effect:
            unconfirmed.setdefault("run_config", {})[key] = entries[key]
        return self._replace(
            configuration={**self.configuration, "run_config": entries},
            unconfirmed=unconfirmed,
            warnings=(*self.warnings, *without_effect.values()),
        )


NOTHING_APPLIED = Applied()


def confirm(session: InferenceSession, construction: Construction) -> Applied:
    """Return the applied settings of a session, and warn about those without effect.

    Raise an error if the session does not use the requested device, or ORT reports another value than the sent one.
    """
    permit = construction.permit
    warnings = list(permit.stops_spinning.values())
    cause = _why_on_cpu(session, permit)
    _check_device(session, permit, cause)
    _check_entries(session, permit)
    if cause:
        warnings.append(f"The session runs on the CPU, because {cause}")
    warnings.extend(nodes.about_idle_providers(session, permit))
    reported, unconfirmed = _provider_options(session, construction)
    attributes = {}
    if permit.attributes:
        options = session.get_session_options()
        attributes = {name: getattr(options, name) for name in permit.attributes}
    configuration = configuration_of(permit)
    changed = _changed(attributes, permit)
    for keyword, sentences in (("session_options", changed), *permit.without_effect.items()):
        for name, sentence in sentences.items():
            unconfirmed.setdefault(keyword, {})[name] = configuration[keyword][name]
            warnings.append(sentence)
    if permit.trusted:
        for place, _ in places(permit.trusted):
            unconfirmed.setdefault(place.provider or place.keyword, {})[place.key] = "trusted"  # not the value
    given = permit.warnings  # already
    if warnings:
        given += warn_each(warnings)
    return Applied(configuration, reported, attributes, unconfirmed, warnings=given, extensions=construction.registered)


def _why_on_cpu(session: InferenceSession, permit: Permit) -> str:
    """Return why a session has only EPs that need no device, ``""`` if no other EP was requested."""
    providers = session.get_providers()
    if not ON_ANY_DEVICE.issuperset(providers):
        return ""
    missing = [name for name in permit.providers if name not in providers]
    if missing:
        return f"ORT could not use {', '.join(missing)}. {missing_providers.advice(missing)}"
    if permit.explicit:
        return ""
    for name, kind in permit.kinds.items():
        if kind == "plugin" and name not in presence.excluded():
            return (
                "it uses a plugin EP only if provider_options specifies the EP. "
                f"Use provider_options={{{name!r}: {{}}}}, or provider_options={{}} for the CPU EP"
            )
    return ""


def _check_device(session: InferenceSession, permit: Permit, cause: str) -> None:
    """Raise an error if a device is requested, and the session runs on the CPU, for this cause if it is known."""
    device = permit.device
    if device in ("", "CPU") or not ON_ANY_DEVICE.issuperset(session.get_providers()):
        return
    if presence.supports_device(device, get_device()):
        if not cause and permit.explicit:
            cause = "provider_options specifies no EP of this device"
        raise RuntimeError(f"device {device!r}: the session runs on the CPU, because {cause or presence.EXCLUDED}")


def _check_entries(session: InferenceSession, permit: Permit) -> None:
    if permit.session_config:
        options = session.get_session_options()
        for key, setting in permit.session_config.items():
            entry = options.get_session_config_entry(key)
            if entry != setting.text:
                raise RuntimeError(f"{setting.place} was sent as {setting.text!r}, but ORT reports {entry!r}")


def _provider_options(
    session: InferenceSession, construction: Construction
) -> tuple[dict[str, Texts], dict[str, dict]]:
    """Return the specified options of each EP as ORT reports them, and the sent options that ORT does not report."""
    reported: dict[str, Texts] = {}
    silent: dict[str, dict] = {}
    if not construction.permit.explicit:
        return reported, silent
    options_by_ep = session.get_provider_options()
    for name, settings in construction.permit.providers.items():
        texts = options_by_ep.get(name, NOTHING)
        for option, text in construction.texts.get(name, NOTHING).items():
            if not _same(texts.get(option, text), text, settings.get(option)):
                place = Place("provider_options", name, option)
                raise RuntimeError(f"{place} was sent as {text!r}, but ORT reports {texts[option]!r}")
        of_ep = reported[name] = {}
        for option, setting in settings.items():
            # ORT repeats the text of a carrying option only, not the options inside it.
            if setting.rule.reported and option in texts:
                of_ep[option] = texts[option]
            else:
                silent.setdefault(name, {})[option] = setting.text
        if "device_id" in texts:
            of_ep.setdefault("device_id", texts["device_id"])
    return reported, silent


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


def _changed(attributes: Mapping, permit: Permit) -> Texts:
    """Return a sentence about each attribute that ORT changed, for an EP that does not support the value."""
    sentences = {}
    for name, setting in permit.attributes.items():
        if attributes[name] != setting.value and name not in permit.without_effect["session_options"]:
            sentences[name] = f"{name} was set to {setting.value}, and the session has {attributes[name]}"
    return sentences


def configuration_of(permit: Permit) -> dict[str, dict]:
    """Return the settings of a permit as plain data, with which ``prepare`` creates the same permit."""
    specified: dict[str, Mapping] = {
        "session_config": permit.session_config.texts,
        "run_config": permit.run_config.texts,
        "session_options": permit.attributes.parsed,
        "free_dimension_overrides": permit.sizes,
    }
    configuration = {keyword: values for keyword, values in specified.items() if values}
    if permit.explicit:
        configuration["provider_options"] = {ep: options.parsed for ep, options in permit.providers.items()}
    return plain_copy(configuration)


def plain_copy(values: Mapping) -> dict:
    """Return a copy that JSON can represent: a member of an enum becomes its name."""
    copied = {}
    for name, value in values.items():
        if isinstance(value, dict):
            copied[name] = plain_copy(value)
        else:
            copied[name] = getattr(value, "name", value)
    return copied
