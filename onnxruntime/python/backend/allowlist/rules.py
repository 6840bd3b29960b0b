# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Classes for writing the tables of the allowlist."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from onnxruntime.backend.allowlist.circumstances import Circumstances
from onnxruntime.backend.allowlist.value_kinds import Kind


# Neither frozen nor with __eq__, which nothing needs: each takes a millisecond of every import.
@dataclass(eq=False)
class Need:
    """A precondition of an entry. If it does not hold, ORT stores the entry and ignores it, or fails later."""

    what: str
    """The condition, as the end of "it requires ..."."""
    met: Callable[[Circumstances, str], bool]
    """Returns whether the condition holds, from the circumstances and the rendered value."""
    idle: bool = False
    """Whether the entry is accepted with a warning if the condition does not hold, because it then has no effect."""
    shared: bool = False
    """Whether something outside the session decides if the condition does not hold. Each value then has a warning."""
    without: str = "ORT ignores or rejects it"
    """The consequence if the condition does not hold, as the end of "Otherwise, ..."."""


@dataclass(eq=False)
class Rule:
    """A permitted option, key or attribute."""

    kind: Kind
    """The values that are accepted, and the text that is sent."""
    default: str
    """The value that ORT uses if the option is not set. If this is not an accepted value, the text has a comma."""
    effect: str
    """The effect, in one line."""
    since: tuple[int, int] = (1, 24)
    """The first ORT release known to understand it, as (major, minor)."""
    until: tuple[int, int] | None = None
    """The first ORT release known to ignore it."""
    needs: tuple[Need, ...] = ()
    """Conditions in addition to the release."""
    anyway: tuple[str, ...] = ()
    """The texts that describe a session without the option. They cause no warning if the option has no effect."""
    within: tuple[str, ...] = ()
    """For an option that an EP reads only inside another option of JSON text: that option, then the JSON names."""
    hardware: str = ""
    """For an option that only one kind of a plugin EP's devices reads: that kind, as ORT names it."""
    reported: bool = True
    """Whether ORT reports the value in use (EP options only)."""
    evidence: str = ""
    """The evidence of the entry, if it differs from that of its table."""


@dataclass(eq=False)
class Family(Rule):
    """Keys permitted by their prefix. An exact entry always wins over a family."""

    prefix: str = ""
    rest: str = ""
    """The rest of the key, as a pattern of ASCII characters."""
    most: int = 0
    """The number of keys of the family that one call may specify."""


class Table(dict):
    """Names and their rules, written ``Table(...) | {name: Rule(...)}``.

    :param evidence: the evidence of all entries that do not specify their own.
    :param needs: conditions of every entry, in addition to its own.
    :param reported: whether ORT reports the values in use. For a plugin EP, ORT repeats every name and value that it
        was given, even those that the EP does not know.
    """

    def __init__(self, evidence: str = "", *, needs: tuple[Need, ...] = (), reported: bool = True) -> None:
        self.evidence, self.needs, self.reported = evidence, needs, reported

    def __or__(self, entries: Mapping) -> Table:
        """Return the same table with more entries. A value that is not a :class:`Rule` is kept unchanged."""
        table = Table(self.evidence, needs=self.needs, reported=self.reported)
        table.update({**self, **entries})
        for name, rule in entries.items():
            if isinstance(rule, Rule):  # which can be in several tables
                reported = rule.reported and self.reported
                table[name] = replace(rule, needs=rule.needs + self.needs, reported=reported)
        return table

    def how_known(self, name: str) -> str:
        """Return the evidence of the entry of this name."""
        return self[name].evidence or self.evidence
