# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The words of an allowlist entry: what a rule can say. The tables are written in these words."""

# Plain classes: a NamedTuple takes 20 times as long to define, at every import.
from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from onnxruntime.backend.value_kinds import Kind

_NOTHING: Mapping = MappingProxyType({})


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
    attributes: Mapping[str, object] = _NOTHING
    #: The options that were named for each EP, with the text of each.
    options: Mapping[str, Mapping[str, str]] = _NOTHING
    #: Those of the EP whose option is looked up.
    beside: Mapping[str, str] = _NOTHING

    def __init__(self, release: tuple[int, int], machine: str, **known: object) -> None:
        vars(self).update(known, release=release, machine=machine)

    def replace(self, **changes: object) -> Circumstances:
        """The same circumstances but for these."""
        return Circumstances(**vars(self) | changes)


class Need:
    """A condition without which ORT stores an entry and ignores it (or fails later and less clearly).

    :param what: the condition, as the end of "it needs ...".
    :param met: tells from the circumstances and the rendered value whether it holds.
    :param idle: whether the entry is accepted all the same where it does not hold: people set it by habit, and it only
        has nothing to act on in this session. It is warned of and counts as unconfirmed.
    """

    __slots__ = ("idle", "met", "what")

    def __init__(self, what: str, met: Callable[[Circumstances, str], bool], *, idle: bool = False) -> None:
        self.what = what
        self.met = met
        self.idle = idle


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
        if not all(hasattr(Permitted, name) for name in more):
            raise TypeError(f"not all of these are attributes of a rule: {', '.join(more)}")
        vars(self).update(more, kind=kind, default=default, effect=effect)


class Table(dict):
    """Names and what is permitted of each.

    :param evidence: how the entries are known that do not say it themselves.
    :param entries: name to :class:`Permitted`.
    """

    __slots__ = ("evidence",)

    def __init__(self, evidence: str, entries: Mapping[str, Permitted]) -> None:
        super().__init__(entries)
        self.evidence = evidence

    def __or__(self, others: Mapping) -> Table:
        """The same table with more entries, each of which says itself how it is known."""
        return Table(self.evidence, {**self, **others})

    def how_known(self, name: str) -> str:
        """How the entry of this name is known."""
        return self[name].evidence or self.evidence


class Family:
    """Keys permitted by their beginning. An exact entry always wins over a family.

    :param prefix: how the key begins.
    :param rest: what may follow, as a pattern of ASCII characters.
    :param kind: what every member of the family accepts.
    :param most: how many keys of the family one call may name.
    :param needs: conditions as for :class:`Permitted`.
    """

    __slots__ = ("kind", "most", "needs", "prefix", "rest")

    def __init__(self, prefix: str, rest: str, kind: Kind, most: int, needs: tuple[Need, ...] = ()) -> None:
        self.prefix = prefix
        self.rest = rest
        self.kind = kind
        self.most = most
        self.needs = needs
