# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The permitted settings of one session."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from onnxruntime.backend.allowlist import conditions, threads, unknown_arguments
from onnxruntime.backend.allowlist.attributes import SESSION_ATTRIBUTES
from onnxruntime.backend.allowlist.facts import Process, SessionFacts
from onnxruntime.backend.allowlist.look_up import Allowlist, refuse_while_model_configures
from onnxruntime.backend.allowlist.rules import NOTHING, Settings, Texts, Values, texts_of, values_of
from onnxruntime.backend.errors import Place, reject, show, warn
from onnxruntime.backend.provider_names import CUDA_DEVICE, ON_CUDA_DEVICE

if TYPE_CHECKING:
    from onnxruntime.backend.request import Request


class Permit(NamedTuple):
    """The permitted settings of one session, by name. Only :func:`permit_of` creates one."""

    device: str  # ONNX's name of the requested device, or ""
    explicit: bool  # whether the EPs were specified. Otherwise, they are all available EPs, and ORT may fall back
    providers: Mapping[str, Settings]  # the options of each EP, in order
    kinds: Texts = NOTHING  # of the EPs of the process
    attributes: Settings = NOTHING
    session_config: Settings = NOTHING
    run_config: Settings = NOTHING
    sizes: Mapping[str, int] = NOTHING
    # The keys of the session config entries that the backend adds with the text 0, each with a sentence about it.
    stops_spinning: Texts = NOTHING
    # By keyword argument, each key that has no effect in this session, with a sentence about it.
    without_effect: Mapping[str, Texts] = NOTHING
    warnings: tuple[str, ...] = ()  # those given while the settings were looked up

    def configuration(self) -> dict[str, dict]:
        """Return the settings as plain data, with which ``prepare`` creates the same permit."""
        configuration: dict[str, dict] = {}
        if self.session_config:
            configuration["session_config"] = texts_of(self.session_config)
        if self.run_config:
            configuration["run_config"] = texts_of(self.run_config)
        if self.attributes:
            configuration["session_options"] = plain_copy(values_of(self.attributes))
        if self.sizes:
            configuration["free_dimension_overrides"] = dict(self.sizes)
        if self.explicit:
            options = {ep: values_of(settings) for ep, settings in self.providers.items()}
            configuration["provider_options"] = options
        return configuration


def permit_of(request: Request, allowlist: Allowlist) -> Permit:
    """Look up all settings of a request: first all names and values, then all conditions.

    If a call has several problems, the order of these steps decides which error it raises.
    """
    process = allowlist.process
    settings = request.settings
    if not settings and not request.attributes:  # as in most calls
        return Permit(request.device, explicit=False, providers=_available_providers(process), kinds=process.kinds)
    attributes = {
        **allowlist.settings("session_options", settings),
        **allowlist.attributes(SESSION_ATTRIBUTES, request.attributes),
    }
    sizes = values_of(allowlist.settings("free_dimension_overrides", settings))
    explicit = "provider_options" in settings
    if explicit:
        providers = allowlist.providers(settings["provider_options"])
        _check_device(request, providers)
    else:
        providers = _available_providers(process)
    entries = allowlist.settings("session_config", settings)
    run_entries = allowlist.settings("run_config", settings)
    refuse_while_model_configures(chain(settings, attributes))

    values = values_of(attributes)
    stops_spinning = _entries_that_stop_spinning(values, entries)
    facts = SessionFacts(
        process,
        providers=tuple(providers),
        options={ep: texts_of(options) for ep, options in providers.items()},
        attributes=values,
        session_config={**dict.fromkeys(stops_spinning, "0"), **texts_of(entries)},
        sizes=sizes,
    )
    tables = {**providers, "session_options": attributes, "session_config": entries, "run_config": run_entries}
    without_effect = conditions.check(tables, facts, request.from_environment)
    warnings = unknown_arguments.warn_or_reject(request.attributes, SESSION_ATTRIBUTES)
    return Permit(
        device=request.device,
        explicit=explicit,
        providers=providers,
        kinds=process.kinds,
        attributes=attributes,
        session_config=entries,
        run_config=run_entries,
        sizes=sizes,
        stops_spinning=stops_spinning,
        without_effect=without_effect,
        warnings=warnings,
    )


def _entries_that_stop_spinning(attributes: Values, entries: Settings) -> dict[str, str]:
    """Return the keys that keep idle threads of large pools from slowing down other sessions, each with a sentence."""
    sentences = {}
    for pool in conditions.pools_above_cpus(attributes):
        key = f"session.{pool}.allow_spinning"
        if key in entries:
            continue
        number = attributes[f"{pool}_num_threads"]
        sentences[key] = (
            f"The backend sends {key}=0, because idle threads slow down other sessions: {pool}_num_threads={number} "
            f"exceeds the {len(threads.CPUS)} CPUs that this process can use"
        )
    return sentences


def _available_providers(process: Process) -> dict[str, Settings]:
    """Return the EPs for a caller who specifies none, without options. Warn about an EP whose condition is not met."""
    providers = {}
    facts = SessionFacts(process, process.providers)
    for ep in process.providers:
        reason = conditions.why_not(ep, facts)
        if reason:
            warn(f"{ep} is left out, because {reason}")
        else:
            providers[ep] = NOTHING
    return providers


def _check_device(request: Request, providers: Mapping[str, Settings]) -> None:
    """Check that the requested device and the specified EPs do not contradict each other."""
    if request.device not in CUDA_DEVICE:
        return
    place = Place("device")
    index = request.device_index
    device = show(request.device if index is None else f"{request.device}:{index}")
    on_device = [ep for ep in providers if ep in ON_CUDA_DEVICE]
    if not on_device:
        reject(place, f"{device} contradicts provider_options, which contains no EP for this device")
    if index is None:
        return
    for ep in on_device:
        device_id = providers[ep]["device_id"]
        if device_id.value != index:
            reject(place, f"{device} contradicts {device_id.place}, which is {device_id.value}")


def plain_copy(values: Mapping) -> dict:
    """Return a copy that JSON can represent: a member of an enum becomes its name."""
    copied = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            copied[name] = plain_copy(value)
        else:
            copied[name] = getattr(value, "name", value)
    return copied
