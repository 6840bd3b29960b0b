# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Converts the settings that a caller requests into a permit.

ORT receives a setting of ``provider_options``, ``session_config`` or ``run_config`` only if a function of this module
returned it. These functions return only names of the tables, with text rendered from a parsed value.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from onnxruntime.backend.allowlist_tables import CPU, PROVIDERS, REASONS, RUN_CONFIG, SESSION_CONFIG, Table
from onnxruntime.backend.errors import Place, refuse, reject, show, type_name

Texts = dict[str, str]  # the text that ORT receives for each setting, by name


@dataclass(frozen=True)
class Permit:
    """The permitted settings of one session. Only :func:`permit_of` creates one."""

    providers: dict[str, Texts] | None  # the options of each specified EP, in order. None: no EP is specified
    session_config: Texts
    run_config: Texts


def permit_of(
    available: Collection[str],
    provider_options: object = None,
    session_config: object = None,
    run_config: object = None,
) -> Permit:
    """Look up all settings of a call, and raise an error for the first one that is not permitted.

    :param available: the EPs that the call can specify, besides the CPU EP.
    """
    providers = None
    if provider_options is not None:
        providers = {}
        for ep, options in _read(provider_options, Place("provider_options")).items():
            place = Place("provider_options", ep)
            if ep not in PROVIDERS:
                refuse(place, _permitted(PROVIDERS))
            providers[ep] = _texts(PROVIDERS[ep], options, place)
            if ep != CPU and ep not in available:
                others = [name for name in PROVIDERS if name == CPU or name in available]
                reject(place, f"the execution provider is not available. Available: {', '.join(others)}")
    entries = _entries(SESSION_CONFIG, session_config, "session_config")
    return Permit(providers, entries, run_entries(run_config))


def run_entries(run_config: object) -> Texts:
    """Look up run config entries."""
    return _entries(RUN_CONFIG, run_config, "run_config")


def _entries(table: Table, requested: object, keyword: str) -> Texts:
    """Look up the entries of a keyword argument, which can be ``None``."""
    return {} if requested is None else _texts(table, requested, Place(keyword))


def _texts(table: Table, requested: object, container: Place) -> Texts:
    texts = {}
    for name, value in _read(requested, container).items():
        place = container._replace(key=name)
        if name not in table:
            refuse(place, REASONS.get(name) or _permitted(table))
        try:
            texts[name] = table[name].text(value)
        except ValueError:
            reject(place, f"invalid value {show(value)}. Expected {table[name].accepts}")
    return texts


def _permitted(names: Collection[str]) -> str:
    return f"permitted are {', '.join(names) or 'none'}"


def _read(mapping: object, place: Place) -> dict[str, object]:
    """Return a copy of a caller's mapping. Reject a value that is not a mapping with exact ``str`` as keys."""
    if not issubclass(type(mapping), Mapping):
        reject(place, f"must be a mapping such as a dict, not {type_name(mapping)}")
    try:
        copied = dict(mapping.items())
    except Exception:
        reject(place, "must be a mapping that can be read")
    for name in copied:
        if type(name) is not str:  # a subclass could be found as one name and set another
            reject(place, f"a key must be a str, not {type_name(name)}")
    return copied
