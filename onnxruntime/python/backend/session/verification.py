# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Compares a session with its permit: the values that ORT reports, and the settings that have no effect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from onnxruntime import InferenceSession, get_device
from onnxruntime.backend.allowlist.conditions import Need
from onnxruntime.backend.allowlist.permit import Permit
from onnxruntime.backend.allowlist.rules import NOTHING, Setting, Settings, Texts
from onnxruntime.backend.errors import Place, warn
from onnxruntime.backend.provider_names import CPU, ON_ANY_DEVICE, QNN
from onnxruntime.backend.session import failures, presence
from onnxruntime.backend.session.attaching import option_texts

_MOST_OPERATORS = 5


class Applied(NamedTuple):
    """The specified settings. The properties of a prepared model return copies of them."""

    configuration: Mapping[str, Mapping] = NOTHING  # as specified, by keyword argument
    provider_options: Mapping[str, Texts] = NOTHING  # as ORT reports them
    session_options: Mapping = NOTHING  # as ORT reports them
    unconfirmed: Mapping[str, Mapping] = NOTHING
    warnings: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()

    def with_run_config(self, entries: Texts, without_effect: Texts) -> Applied:
        """Replace the run config entries."""
        configuration = dict(self.configuration)
        configuration["run_config"] = entries
        applied = self._replace(configuration=configuration)
        return applied.and_without_effect("run_config", without_effect)

    def and_without_effect(self, keyword: str, sentences: Texts) -> Applied:
        """Add settings without effect, each with the warning about it."""
        if not sentences:
            return self
        settings = dict(self.unconfirmed.get(keyword, NOTHING))
        for name in sentences:
            settings[name] = self.configuration[keyword][name]
        unconfirmed = dict(self.unconfirmed)
        unconfirmed[keyword] = settings
        warnings = self.warnings + tuple(sentences.values())
        return self._replace(unconfirmed=unconfirmed, warnings=warnings)


NOTHING_APPLIED = Applied()


def read_back(
    session: InferenceSession,
    permit: Permit,
    extensions: tuple[str, ...] = (),
) -> Applied:
    """Compare the values that ORT reports with the permitted values, and warn about settings without effect."""
    warnings = (*permit.stops_spinning.values(), *_fallback(session, permit), *_without_nodes(session, permit))
    configuration = permit.configuration()
    if configuration:
        applied = _with_settings(configuration, session, permit, warnings, extensions)
    else:
        applied = Applied(warnings=warnings, extensions=extensions)
    for text in applied.warnings:
        warn(text)
    if permit.warnings:  # which are given already
        applied = applied._replace(warnings=permit.warnings + applied.warnings)
    return applied


def _with_settings(
    configuration: Mapping[str, Mapping],
    session: InferenceSession,
    permit: Permit,
    *others: tuple[str, ...],
) -> Applied:
    """Return the values that ORT reports about the specified settings, after a comparison with the sent values."""
    options = session.get_session_options()
    for key, setting in permit.session_config.items():
        entry = options.get_session_config_entry(key)
        if entry != setting.text:
            raise RuntimeError(f"{setting.place} was sent as {setting.text!r}, but ORT holds {entry!r}")
    reported, unconfirmed = {}, {}
    if permit.explicit:
        of_session = session.get_provider_options()
        for name, settings in permit.providers.items():
            texts = of_session.get(name, NOTHING)
            _check_options(name, permit, texts)
            reported[name], silent = _reported(settings, texts)
            if silent:
                unconfirmed[name] = silent
    attributes = {name: getattr(options, name) for name in permit.attributes}
    applied = Applied(configuration, reported, attributes, unconfirmed, *others)
    for keyword, sentences in (
        ("session_options", _changed(attributes, permit)),
        ("session_config", _without_operators(session, permit)),
        *permit.without_effect.items(),
    ):
        applied = applied.and_without_effect(keyword, sentences)
    return applied


def _changed(attributes: Mapping, permit: Permit) -> Texts:
    """Return a sentence about each attribute that ORT changed, for an EP that does not support the value."""
    sentences = {}
    for name, setting in permit.attributes.items():
        if attributes[name] != setting.value and name not in permit.without_effect["session_options"]:
            sentences[name] = f"{name} was set to {setting.value}, and the session has {attributes[name]}"
    return sentences


def needs_of_operators(permit: Permit) -> dict[str, Need]:
    """Return, by session config key, the need of an operator. A key that has no effect anyway has no such need."""
    without_effect = permit.without_effect.get("session_config", NOTHING)
    needs = {}
    for key, setting in permit.session_config.items():
        if key in without_effect:
            continue
        for need in setting.rule.needs:
            if need.operators and setting.text not in setting.rule.already_so:
                needs[key] = need
    return needs


def _without_operators(session: InferenceSession, permit: Permit) -> Texts:
    """If ORT has a record of the operators, return a sentence about each key that no operator reads."""
    needs = needs_of_operators(permit)
    if not needs:
        return {}
    operators: set[str] = set()
    for nodes in recorded_nodes(session).values():
        operators.update(node.op_type for node in nodes)
    sentences = {}
    for key, need in needs.items():
        if operators and operators.isdisjoint(need.operators):
            sentences[key] = need.warning(Place("session_config", key=key))
    return sentences


def _check_options(
    name: str,
    permit: Permit,
    texts: Texts,
) -> None:
    """Raise an error if ORT reports another value of an EP's option than the sent one."""
    settings = permit.providers[name]
    for option, text in option_texts(name, permit.kinds[name], settings).items():
        reported = texts.get(option, text)
        if not _same(reported, text, settings.get(option)):
            place = Place("provider_options", name, option)
            raise RuntimeError(f"{place} was sent as {text!r}, but ORT reports {reported!r}")


def _reported(settings: Settings, texts: Texts) -> tuple[Texts, Texts]:
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


def _same(
    reported: str,
    text: str,
    setting: Setting | None,
) -> bool:
    """Return whether ORT reports the text that was sent, or another spelling of a setting's value."""
    if reported == text:
        return True
    if setting is None or not setting.rule.reported:
        return False
    try:
        return setting.rule.kind.read(reported) == setting.value
    except ValueError:
        return False


class NodeAssignment(dict[str, int]):
    """The number of nodes of each EP, in the order of the session. Its text is a sentence."""

    def __repr__(self) -> str:
        text = ", ".join(f"{count} on {name}" for name, count in self.items())
        return text.replace(" on ", f" of {sum(self.values())} nodes on ", 1)


def node_assignment(session: InferenceSession) -> NodeAssignment | None:
    """Return the number of nodes that each EP of a session took, or ``None`` if ORT has no record.

    ORT records nothing for a model in ORT format, for example.
    """
    nodes = recorded_nodes(session)
    if any(nodes.values()):
        return NodeAssignment((name, len(of_ep)) for name, of_ep in nodes.items())
    return None


def recorded_nodes(session: InferenceSession) -> dict[str, list]:
    """Return the nodes of each EP, empty without a record. This takes time that grows with the model."""
    try:
        subgraphs = session.get_provider_graph_assignment_info()
    except Exception:  # ORT raises its own Fail if the record is off
        return {}
    nodes: dict[str, list] = {}
    for name in session.get_providers():
        nodes[name] = []
    for subgraph in subgraphs:
        of_ep = nodes.setdefault(subgraph.ep_name, [])
        of_ep.extend(subgraph.get_nodes())
    return nodes


def count_operators(nodes: Iterable) -> dict[str, int]:
    """Return the number of nodes of each operator, most frequent first."""
    operators: Counter[str] = Counter()
    for node in nodes:
        name = f"{node.domain}:{node.op_type}".removeprefix("ai.onnx:")
        operators[name.removeprefix(":")] += 1
    return dict(operators.most_common())


def most_frequent(operators: Mapping[str, int]) -> str:
    """Return the most frequent operators, which come first, with their numbers of nodes."""
    texts = []
    for name, count in operators.items():
        texts.append(f"{name[:60]} {count}")
    others = len(texts) - _MOST_OPERATORS
    if others > 0:
        plural = "s" if others > 1 else ""
        texts[_MOST_OPERATORS:] = [f"and {others} other operator{plural}"]
    return ", ".join(texts)


def _fallback(session: InferenceSession, permit: Permit) -> Iterator[str]:
    """Return a warning, or raise an error if a device was specified, if ORT silently chose the CPU EP only."""
    providers = session.get_providers()
    if not ON_ANY_DEVICE.issuperset(providers):
        return
    missing = [name for name in permit.providers if name not in providers]
    plugins = []
    if not permit.explicit:
        plugins = presence.unspecified_plugins()
    if missing:
        cause = f"ORT could not use {', '.join(missing)}. {failures.missing(missing)}"
    elif plugins:
        cause = (
            "it uses a plugin EP only if provider_options specifies the EP. "
            f"Use provider_options={{{plugins[0]!r}: {{}}}}, or provider_options={{}} for the CPU EP"
        )
    elif permit.explicit:
        cause = "provider_options specifies no EP of this device"
    else:
        cause = presence.EXCLUDED
    device = permit.device
    if device not in ("", "CPU") and presence.supports_device(device, get_device()):
        raise RuntimeError(f"device {device!r}: the session runs on the CPU, because {cause}")
    if missing or plugins:
        yield f"The session runs on the CPU, because {cause}"


def _without_nodes(session: InferenceSession, permit: Permit) -> Iterator[str]:
    """Return a warning for each specified EP without a node, which ORT permits silently."""
    others = [name for name in permit.providers if name != CPU]
    if not permit.explicit or not others:
        return
    nodes = recorded_nodes(session)
    if not nodes:
        return
    # ORT's record is partial for WebGPU in NHWC layout; an input or output in the EP's own memory is proof too.
    infos = session.get_input_memory_infos() + session.get_output_memory_infos()
    memories = " ".join(info.name for info in infos).lower()
    with_nodes = ", ".join(name for name, taken in nodes.items() if taken)
    for name in others:
        device = name.removesuffix("ExecutionProvider").lower()
        if nodes.get(name) or device in memories:
            continue
        advice = "Check that it supports the model's operators and types"
        if name == QNN and (how := failures.advice_on_shapes(session)):
            advice = f"It requires fixed shapes. {how}"
        if nodes.get(CPU) and CPU not in permit.providers:
            advice += ", or set session_config={'session.disable_cpu_ep_fallback': '1'} to make this an error"
        yield (
            f"No node of this model is assigned to {name}, which provider_options specifies. "
            f"The model runs on {with_nodes or 'no EP'}. {advice}"
        )
