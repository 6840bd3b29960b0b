# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The facts about a session on which conditions of entries depend, and the check of these conditions."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import onnxruntime
from onnxruntime import GraphOptimizationLevel
from onnxruntime.backend.allowlist.rules import ANYTHING, NOTHING, Narrowing, Need, Settings, Texts, Values
from onnxruntime.backend.errors import show

_NUMBERS = onnxruntime.__version__.split(".")
_RELEASE = (int(_NUMBERS[0]), int(_NUMBERS[1]))
_MACHINE = platform.machine()
_SYSTEM = platform.system()


class Circumstances(NamedTuple):
    """The facts about a session and its machine that a rule may depend on."""

    release: tuple[int, int]  # of ORT, as (major, minor)
    machine: str  # the CPU family as platform.machine() reports it
    system: str = ""  # the operating system as platform.system() reports it
    providers: tuple[str, ...] = ()  # the EPs of the session, in order
    attributes: Values = NOTHING  # of SessionOptions. A missing one has ORT's default
    options: Mapping[str, Texts] = NOTHING  # EP to the texts of its specified options
    sizes: Mapping[str, int] = NOTHING  # of the free dimension overrides
    beside: Texts = NOTHING  # the texts of the entries specified together with this one
    kinds: Texts = NOTHING  # the EPs of the process, each with "built-in" or "plugin"
    narrowing: Narrowing = ANYTHING  # the settings that callers may set

    def has(self, *eps: str) -> bool:
        """Return whether the session has one of these EPs."""
        return not {*eps}.isdisjoint(self.providers)

    @classmethod
    def expected(
        cls,
        providers: Iterable[str],
        **known: Any,
    ) -> Circumstances:
        """Describe a session with these EPs on this machine that has not been created yet, and other known facts."""
        return cls(_RELEASE, _MACHINE, _SYSTEM, tuple(providers), **known)

    @classmethod
    def of_session(
        cls,
        session: onnxruntime.InferenceSession,
        attributes: Iterable[str],
    ) -> Circumstances:
        """Describe an existing session by its EPs, their options and these ``SessionOptions`` attributes."""
        options = session.get_session_options()
        values = {name: getattr(options, name) for name in attributes}
        return cls.expected(
            session.get_providers(),
            attributes=values,
            options=session.get_provider_options(),
        )


def check_conditions(settings: Settings, facts: Circumstances) -> dict[str, str]:
    """Check the conditions of settings, and return a sentence about each setting that has no effect."""
    sentences = {}
    for key, setting in settings.items():
        for need in setting.rule.needs:
            if need.met(facts, setting.text):
                continue
            if not need.only_warns:
                setting.place.refuse(need.problem, show(setting.plain))
            if need.shared or setting.text not in setting.rule.already_so:
                sentences[key] = f"{setting.place.name} has no effect in this session: it requires {need.what}"
    return sentences


# A condition without which a setting has no effect.
only_warns = partial(Need, only_warns=True)


def has(*eps: str) -> Need:
    """Return the need of one of these EPs in the session."""
    what = f"one of the EPs {', '.join(ep.replace('ExecutionProvider', '') for ep in eps)} in the session"
    return Need(what, lambda facts, _: facts.has(*eps))


def beside(
    key: str,
    *refused: str | None,
    what: str,
) -> Need:
    """Return the need that another entry does not have one of these values. Otherwise, the entry has no effect."""
    return only_warns(what, lambda facts, _: facts.beside.get(key) not in refused)


def read_by(*operators: str) -> Need:
    """Return the need of one of the operators that read a key, or that ORT rewrites into such operators.

    ORT records the operators after ORT_ENABLE_BASIC. Its passes can remove operators whose keys they have read.
    """
    return only_warns(f"a model with {' or '.join(operators)}", lambda *_: True, operators=operators)


def optimizes(level: GraphOptimizationLevel) -> Need:
    """Return the need of a graph optimization level at which the pass that reads a key runs."""
    least, what = int(level), f"graph_optimization_level={level.name} or more"
    return only_warns(what, lambda facts, _: int(facts.attributes.get("graph_optimization_level", least)) >= least)
