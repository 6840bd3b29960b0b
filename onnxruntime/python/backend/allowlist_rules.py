# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The words of the allowlist: what a rule can say, in which the tables are written, and what a look-up grants.

Apart from the look-ups, because a session of which nothing was asked needs no table.
"""

# Plain classes: a NamedTuple takes 20 times as long to define, at every import.
from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a session of which nothing was asked reads no value
    from onnxruntime.backend.value_kinds import Kind

NOTHING: Mapping = MappingProxyType({})
_IGNORED = "ORT ignores or rejects it"


class Circumstances:
    """What is known about the session that a configuration is meant for.

    :param release: ORT's release as (major, minor).
    :param machine: the CPU family as :func:`platform.machine` names it.
    :param known: any of the attributes below.
    """

    #: The operating system as :func:`platform.system` names it.
    system: str = ""
    #: Names of the EPs that the session will have, in order.
    providers: tuple[str, ...] = ()
    #: The session's ``SessionOptions`` attributes; one that is not here has ORT's default.
    attributes: Mapping[str, object] = NOTHING
    #: The options that were named for each EP, with the text of each.
    options: Mapping[str, Mapping[str, str]] = NOTHING
    #: Those of the EP whose option is looked up.
    beside: Mapping[str, str] = NOTHING

    def __init__(self, release: tuple[int, int], machine: str, **known: object) -> None:
        vars(self).update(known, release=release, machine=machine)

    def replace(self, **changes: object) -> Circumstances:
        """The same circumstances but for these."""
        changed = object.__new__(Circumstances)
        vars(changed).update(vars(self), **changes)
        return changed


class Need:
    """A condition without which ORT stores an entry and ignores it (or fails later and less clearly).

    :param what: the condition, as the end of "it needs ...".
    :param met: tells from the circumstances and the rendered value whether it holds.
    :param idle: whether the entry is accepted all the same where it does not hold: people set it by habit, and it only
        has nothing to act on in this session. It is warned of and counts as unconfirmed.
    :param without: what happens where it does not hold, as the end of "without which ...".
    """

    __slots__ = ("idle", "met", "what", "without")

    def __init__(
        self, what: str, met: Callable[[Circumstances, str], bool], *, idle: bool = False, without: str = _IGNORED
    ) -> None:
        self.what, self.met, self.idle, self.without = what, met, idle, without


class Permitted:
    """A permitted option, key or attribute.

    :param kind: what a caller may write, and the spelling that is sent.
    :param default: the value ORT uses when the option is not given.
    :param effect: one line.
    :param more: any of the attributes below.
    """

    #: The first ORT release known to understand it, as (major, minor).
    since: tuple[int, int] = (1, 24)
    #: The first ORT release known to ignore it.
    until: tuple[int, int] | None = None
    #: Conditions beside the release.
    needs: tuple[Need, ...] = ()
    #: For an option that an EP takes only inside another option of JSON text: that option, then the path of JSON names.
    within: tuple[str, ...] = ()
    #: For an option that only one kind of a plugin's devices reads: that kind, as ORT names it.
    hardware: str = ""
    #: Whether ORT reports the value in use, so that the echo can be trusted (EP options only).
    reported: bool = True
    #: How it is known, where its table does not say it for all its entries.
    evidence: str = ""

    def __init__(self, kind: Kind, default: str, effect: str, **more: object) -> None:
        for name in more:
            if not hasattr(self, name):
                raise TypeError(f"{name} is no attribute of a rule")
        vars(self).update(more, kind=kind, default=default, effect=effect)


class Family(Permitted):
    """Keys permitted by their beginning. An exact entry always wins over a family."""

    #: How the key begins.
    prefix: str = ""
    #: What may follow, as a pattern of ASCII characters.
    rest: str = ""
    #: How many keys of the family one call may name.
    most: int = 0


class Table(dict):
    """Names and what is permitted of each, written ``Table(...) | {name: Permitted(...)}``.

    :param evidence: how the entries are known that do not say it themselves.
    :param needs: conditions of every entry, beside its own.
    :param reported: whether ORT reports the values in use. Of a plugin EP it repeats whatever it was given, names and
        values that the EP does not know included.
    """

    def __init__(self, evidence: str = "", *, needs: tuple[Need, ...] = (), reported: bool = True) -> None:
        self.evidence, self.needs, self.reported = evidence, needs, reported

    def __or__(self, entries: Mapping) -> Table:
        """The same table with more entries; those that are no :class:`Permitted` stay as they are."""
        table = Table(self.evidence, needs=self.needs, reported=self.reported)
        table.update(self)
        table.update(entries)
        if self.needs or not self.reported:
            for rule in entries.values():
                if isinstance(rule, Permitted):  # one written for this table: a copy of each costs an import more
                    rule.needs += self.needs
                    rule.reported = rule.reported and self.reported
        return table

    def how_known(self, name: str) -> str:
        """How the entry of this name is known."""
        return self[name].evidence or self.evidence


class Grant:
    """A permitted option with its value: as parsed, and as the text that is sent.

    :param place: what names it: the keyword argument, the EP and the option, ``""`` for none.
    """

    __slots__ = ("place", "rule", "text", "value")

    def __init__(self, rule: Permitted, value: object, text: str, place: tuple[str, str, str]) -> None:
        self.rule, self.value, self.text, self.place = rule, value, text, place


class Permit:
    """What ORT may be given for one session.

    ``providers``: the EPs in their order, each with its options. ``device``: ONNX's name of the one that was asked for,
    ``""`` for none.
    """

    #: SessionOptions attribute to its value.
    attributes: Mapping[str, object] = NOTHING
    #: Whether somebody named the EPs. Where not, they are all that are available, and ORT may fall back.
    named = False
    #: How this process has each of those that were named, as :func:`execution_providers.flavour` tells.
    flavours: Mapping[str, str] = NOTHING
    #: Key to text.
    session_config: Mapping[str, str] = NOTHING
    run_config: Mapping[str, str] = NOTHING
    #: Dimension name to size.
    sizes: Mapping[str, int] = NOTHING
    #: By keyword argument, each key that has nothing to act on, with a sentence about it.
    idle: Mapping[str, Mapping[str, str]] = NOTHING

    def __init__(self, providers: Iterable[str], device: str) -> None:
        """
        :param providers: the EPs that are available.
        """
        self.providers: Mapping[str, Mapping[str, Grant]] = dict.fromkeys(providers, NOTHING)
        self.device = device


def sent(grants: Mapping[str, Grant]) -> dict[str, str]:
    """The option texts that ORT is given for one EP, with the options that travel inside another one folded into it."""
    texts: dict[str, str] = {}
    folded: dict[str, dict] = {}
    for option, grant in grants.items():
        if not grant.rule.within:
            texts[option] = grant.text
            continue
        carrier, *path, last = grant.rule.within
        place = folded.setdefault(carrier, {})
        for step in path:
            place = place.setdefault(step, {})
        place[last] = grant.text
    return texts | {carrier: json.dumps(tree) for carrier, tree in folded.items()}
