# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Reports the settings of a session as ORT has applied them, and warns about settings without effect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from onnxruntime import InferenceSession
from onnxruntime.backend.allowlist.permit import Permit, plain_copy
from onnxruntime.backend.allowlist.rules import NOTHING, Settings, Texts
from onnxruntime.backend.errors import warn
from onnxruntime.backend.provider_names import CPU, QNN
from onnxruntime.backend.runs import tensors
from onnxruntime.backend.session import missing_providers
from onnxruntime.backend.session.nodes import recorded_nodes


class Applied(NamedTuple):
    """The specified settings. The properties of a prepared model return copies of them."""

    configuration: Mapping[str, Mapping] = NOTHING  # as specified, by keyword argument
    provider_options: Mapping[str, Texts] = NOTHING  # as ORT reports them
    session_options: Mapping = NOTHING  # as ORT reports them
    unconfirmed: Mapping[str, Mapping] = NOTHING
    warnings: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()

    def with_run_config(self, entries: Texts, without_effect: Texts) -> Applied:
        """Replace the run config entries, of which some have no effect: each with the warning about it."""
        configuration = {**self.configuration, "run_config": entries}
        unconfirmed = plain_copy(self.unconfirmed)
        for key in without_effect:
            unconfirmed.setdefault("run_config", {})[key] = entries[key]
        warnings = self.warnings + tuple(without_effect.values())
        return self._replace(configuration=configuration, unconfirmed=unconfirmed, warnings=warnings)


NOTHING_APPLIED = Applied()


def of(session: InferenceSession, permit: Permit, extensions: tuple[str, ...] = ()) -> Applied:
    """Return the settings of a session that agrees with its permit. Warn about the settings without effect."""
    warnings = list(permit.stops_spinning.values())
    cause = missing_providers.why_on_cpu(session, permit)
    if cause:
        warnings.append(f"The session runs on the CPU, because {cause}")
    warnings.extend(_without_nodes(session, permit))
    configuration = permit.configuration()
    reported, attributes = {}, {}
    unconfirmed: dict[str, dict] = {}
    if permit.explicit:
        options_by_ep = session.get_provider_options()
        for name, settings in permit.providers.items():
            reported[name], silent = _reported(settings, options_by_ep.get(name, NOTHING))
            if silent:
                unconfirmed[name] = silent
    if permit.attributes:
        options = session.get_session_options()
        attributes = {name: getattr(options, name) for name in permit.attributes}
    for keyword, sentences in (("session_options", _changed(attributes, permit)), *permit.without_effect.items()):
        for name, sentence in sentences.items():
            unconfirmed.setdefault(keyword, {})[name] = configuration[keyword][name]
            warnings.append(sentence)
    for text in warnings:
        warn(text)
    return Applied(
        configuration,
        reported,
        attributes,
        unconfirmed,
        warnings=permit.warnings + tuple(warnings),  # the former are given already
        extensions=extensions,
    )


def _reported(settings: Settings, texts: Texts) -> tuple[Texts, dict[str, str]]:
    """Return the specified options of an EP as ORT reports them, and the sent options that ORT does not report."""
    reported, silent = {}, {}
    for option, setting in settings.items():
        # ORT repeats the text of a carrying option only, not the options inside it.
        if setting.rule.reported and option in texts:
            reported[option] = texts[option]
        else:
            silent[option] = setting.text
    if "device_id" in texts:
        reported.setdefault("device_id", texts["device_id"])
    return reported, silent


def _changed(attributes: Mapping, permit: Permit) -> Texts:
    """Return a sentence about each attribute that ORT changed, for an EP that does not support the value."""
    sentences = {}
    for name, setting in permit.attributes.items():
        if attributes[name] != setting.value and name not in permit.without_effect["session_options"]:
            sentences[name] = f"{name} was set to {setting.value}, and the session has {attributes[name]}"
    return sentences


def _without_nodes(session: InferenceSession, permit: Permit) -> list[str]:
    """Return a warning for each specified EP without a node, which ORT permits silently."""
    others = [name for name in permit.providers if name != CPU]
    if not permit.explicit or not others:
        return []
    nodes = recorded_nodes(session)
    if not nodes:
        return []
    # ORT's record is partial for WebGPU in NHWC layout. An input or output in the EP's memory is proof, too.
    infos = session.get_input_memory_infos() + session.get_output_memory_infos()
    memories = " ".join(info.name for info in infos).lower()
    with_nodes = ", ".join(name for name, taken in nodes.items() if taken)
    warnings = []
    for name in others:
        device = name.removesuffix("ExecutionProvider").lower()
        if nodes.get(name) or device in memories:
            continue
        advice = "Check that it supports the model's operators and types"
        on_shapes = name == QNN and advice_on_shapes(session)
        if on_shapes:
            advice = f"It requires fixed shapes. {on_shapes}"
        if nodes.get(CPU) and CPU not in permit.providers:
            advice += ", or set session_config={'session.disable_cpu_ep_fallback': '1'} to make this an error"
        warnings.append(
            f"No node of this model is assigned to {name}, which provider_options specifies. "
            f"The model runs on {with_nodes or 'no EP'}. {advice}"
        )
    return warnings


def advice_on_shapes(session: InferenceSession) -> str:
    """Return how to fix the free dimensions of the inputs, ``""`` if there are none."""
    names = free_dimensions(session)
    if "" in names:
        return "Give the model fixed shapes. Some of its free dimensions have no name"
    if names:
        listed = ", ".join(f"{name!a}: ..." for name in names)
        return f"Set free_dimension_overrides={{{listed}}}"
    return ""


def free_dimensions(session: InferenceSession) -> list[str]:
    """Return the names of the free dimensions of the inputs, among them ``""`` if some have no name."""
    names = {}
    for node in session.get_inputs():
        for dimension in node.shape:
            if type(dimension) is not int:
                names[tensors.dimension_name(dimension)] = True
    return list(names)
