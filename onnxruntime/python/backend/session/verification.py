# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Compares a session with its permit: the values that ORT reports, and the settings that have no effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from onnxruntime import InferenceSession, get_device
from onnxruntime.backend.allowlist.ort_options import SESSION_CONFIG
from onnxruntime.backend.allowlist.providers import option_texts
from onnxruntime.backend.allowlist.rules import NOTHING, Need, Permit, Setting
from onnxruntime.backend.errors import name_of, warn
from onnxruntime.backend.provider_names import CPU, ON_ANY_DEVICE, QNN
from onnxruntime.backend.session import failures, presence


class Applied(NamedTuple):
    """The specified settings. The properties of a prepared model return copies of them."""

    configuration: Mapping[str, Mapping] = NOTHING  # as specified, by keyword argument
    provider_options: Mapping[str, Mapping[str, str]] = NOTHING  # as ORT reports them
    session_options: Mapping[str, object] = NOTHING  # as ORT reports them
    unconfirmed: Mapping[str, Mapping[str, object]] = NOTHING
    warnings: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()

    def with_run_config(self, entries: Mapping[str, str], without_effect: Mapping[str, str]) -> Applied:
        """Replace the run config entries."""
        applied = self._replace(configuration={**self.configuration, "run_config": entries})
        return applied.and_without_effect("run_config", without_effect)

    def and_without_effect(self, keyword: str, sentences: Mapping[str, str]) -> Applied:
        """Add settings without effect, each with the sentence that was warned with."""
        if not sentences:
            return self
        settings = {name: self.configuration[keyword][name] for name in sentences}
        unconfirmed = {**self.unconfirmed, keyword: {**self.unconfirmed.get(keyword, NOTHING), **settings}}
        return self._replace(unconfirmed=unconfirmed, warnings=(*self.warnings, *sentences.values()))


NOTHING_APPLIED = Applied()


def read_back(session: InferenceSession, permit: Permit, extensions: tuple[str, ...] = ()) -> Applied:
    """Compare the values that ORT reports with the permitted values, and warn about settings without effect."""
    warnings = (*permit.warnings, *_fallback(session, permit), *_without_nodes(session, permit))
    applied = Applied(warnings=warnings, extensions=extensions)
    if permit.explicit or permit.session_config or permit.run_config or permit.attributes or permit.sizes:
        applied = _with_settings(applied, session, permit)
    for text in applied.warnings[len(permit.warnings) :]:
        warn(text)
    return applied


def _with_settings(applied: Applied, session: InferenceSession, permit: Permit) -> Applied:
    """Add the specified settings, after a comparison with the values that ORT reports."""
    options = session.get_session_options()
    for key, text in permit.session_config.items():
        if (held := options.get_session_config_entry(key)) != text:
            raise RuntimeError(f"session_config[{key!r}] was sent as {text!r}, but ORT holds {held!r}")
    reported, unconfirmed = {}, {}
    for name in permit.providers if permit.explicit else ():
        reported[name], silent = _reported(name, permit, session.get_provider_options().get(name, NOTHING))
        if silent:
            unconfirmed[name] = silent
    attributes = {name: getattr(options, name) for name in permit.attributes}
    applied = applied._replace(
        configuration=permit.configuration(),
        provider_options=reported,
        session_options=attributes,
        unconfirmed=unconfirmed,
    )
    changed = {  # by ORT, for an EP that does not support the value
        name: f"{name} was set to {value}, and the session has {attributes[name]}"
        for name, value in permit.attributes.items()
        if attributes[name] != value and name not in permit.without_effect.get("session_options", NOTHING)
    }
    applied = applied.and_without_effect("session_options", changed)
    applied = applied.and_without_effect("session_config", _without_operators(session, permit))
    for keyword, sentences in permit.without_effect.items():
        applied = applied.and_without_effect(keyword, sentences)
    return applied


def needs_of_operators(permit: Permit) -> dict[str, Need]:
    """Return, by session config key, the need of an operator. A key that has no effect anyway has no such need."""
    without_effect, needs = permit.without_effect.get("session_config", NOTHING), {}
    for key, text in permit.session_config.items():
        rule = SESSION_CONFIG.get(key)  # None for a member of a family
        if rule is not None and key not in without_effect and text not in rule.already_so:
            needs.update((key, need) for need in rule.needs if need.operators)
    return needs


def _without_operators(session: InferenceSession, permit: Permit) -> dict[str, str]:
    """Return a sentence about each key that no operator of the model reads, if ORT has a record of the operators."""
    needs = needs_of_operators(permit)
    recorded = recorded_nodes(session) if needs else {}
    have = {node.op_type for nodes in recorded.values() for node in nodes}
    return {
        key: f"{name_of('session_config', '', key)} has no effect in this session: it requires {need.what}"
        for key, need in needs.items()
        if have and have.isdisjoint(need.operators)
    }


def _reported(name: str, permit: Permit, texts: Mapping[str, str]) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the specified options of an EP as ORT reports them, and the sent options that ORT does not report."""
    settings = permit.providers[name]
    for option, text in option_texts(name, permit.kinds.get(name, ""), settings).items():
        if option in texts and not _same(texts[option], text, settings.get(option)):
            raise RuntimeError(
                f"provider_options['{name}']['{option}'] was sent as {text!r}, but ORT reports {texts[option]!r}"
            )
    # ORT repeats the text of a carrying option only, not the options inside it.
    shown = {option: texts[option] for option, setting in settings.items() if setting.rule.reported and option in texts}
    silent = {option: setting.text for option, setting in settings.items() if option not in shown}
    if "device_id" in texts:
        shown.setdefault("device_id", texts["device_id"])
    return shown, silent


def _same(reported: str, text: str, setting: Setting | None) -> bool:
    """Return whether ORT reports the text that was sent, or another spelling of a setting's value."""
    if reported != text and setting is not None and setting.rule.reported:
        with suppress(ValueError):
            return setting.rule.kind.read(reported) == setting.value
    return reported == text


class NodeAssignment(dict[str, int]):
    """The number of nodes of each EP, in the order of the session. Its text is a sentence."""

    def __repr__(self) -> str:
        (first, taken), *others = self.items()
        parts = [f"{taken} of {sum(self.values())} nodes on {first}", *(f"{count} on {name}" for name, count in others)]
        return ", ".join(parts)


def node_assignment(session: InferenceSession) -> NodeAssignment | None:
    """Return the number of nodes that each EP of a session took, or ``None`` if ORT has no record.

    ORT records nothing for a model in ORT format, for example.
    """
    counts = {name: len(nodes) for name, nodes in recorded_nodes(session).items()}
    return NodeAssignment(counts) if any(counts.values()) else None


def recorded_nodes(session: InferenceSession) -> dict[str, list]:
    """Return the nodes of each EP, empty without a record. This takes time that grows with the model."""
    try:
        subgraphs = session.get_provider_graph_assignment_info()
    except Exception:  # ORT raises its own Fail if the record is off
        return {}
    nodes: dict[str, list] = {name: [] for name in session.get_providers()}
    for subgraph in subgraphs:
        nodes.setdefault(subgraph.ep_name, []).extend(subgraph.get_nodes())
    return nodes


def _fallback(session: InferenceSession, permit: Permit) -> Iterator[str]:
    """Return a warning, or raise an error if a device was specified, if ORT silently chose the CPU EP only."""
    got = session.get_providers()
    if not ON_ANY_DEVICE.issuperset(got):
        return
    missing = [name for name in permit.providers if name not in got]
    cause = "provider_options specifies no EP of this device" if permit.explicit else presence.EXCLUDED
    plugins = [] if permit.explicit else presence.unspecified_plugins()
    if missing:
        cause = f"ORT could not use {', '.join(missing)}. {failures.missing(missing)}"
    elif plugins:
        cause = (
            "it uses a plugin EP only if provider_options specifies the EP. "
            f"Use provider_options={{{plugins[0]!r}: {{}}}}, or provider_options={{}} for the CPU EP"
        )
    if permit.device not in ("", "CPU") and presence.supports_device(permit.device, get_device()):
        raise RuntimeError(f"device {permit.device!r}: the session runs on the CPU, because {cause}")
    if missing or plugins:
        yield f"The session runs on the CPU, because {cause}"


def _without_nodes(session: InferenceSession, permit: Permit) -> Iterator[str]:
    """Return a warning for each specified EP without a node, which ORT permits silently."""
    others = [name for name in permit.providers if permit.explicit and name != CPU]
    nodes = recorded_nodes(session) if others else {}
    if not nodes:
        return
    # ORT's record is partial for WebGPU in NHWC layout; an input or output in the EP's own memory is proof too.
    infos = (*session.get_input_memory_infos(), *session.get_output_memory_infos())
    memories = " ".join(info.name for info in infos).lower()
    for name in others:
        if nodes.get(name) or name.removesuffix("ExecutionProvider").lower() in memories:
            continue
        advice = failures.advice_on_shapes(session) if name == QNN else ""
        advice = advice or "Check that it supports the model's operators and types"
        if nodes.get(CPU) and CPU not in permit.providers:
            advice += ", or set session_config={'session.disable_cpu_ep_fallback': '1'} to make this an error"
        yield (
            f"No node of this model is assigned to {name}, which provider_options specifies. "
            f"The model runs on {', '.join(ep for ep, taken in nodes.items() if taken) or 'no EP'}. {advice}"
        )
