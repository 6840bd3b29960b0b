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
    :param system: the operating system as :func:`platform.system` names it.
    :param providers: names of the EPs that the session will have, in order.
    :param attributes: the session's ``SessionOptions`` attributes; one that is not here has ORT's default.
    :param options: the options that were named for each EP, with the text of each.
    :param beside: those of the EP whose option is looked up.
    """

    __slots__ = ("attributes", "beside", "machine", "options", "providers", "release", "system")

    def __init__(
        self,
        release: tuple[int, int],
        machine: str,
        system: str = "",
        providers: tuple[str, ...] = (),
        attributes: Mapping[str, object] = _NOTHING,
        options: Mapping[str, Mapping[str, str]] = _NOTHING,
        beside: Mapping[str, str] = _NOTHING,
    ) -> None:
        self.release = release
        self.machine = machine
        self.system = system
        self.providers = providers
        self.attributes = attributes
        self.options = options
        self.beside = beside

    def replace(self, **changes: object) -> Circumstances:
        """The same circumstances but for these."""
        return Circumstances(**{name: getattr(self, name) for name in self.__slots__} | changes)


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
    :param since: the first ORT release known to understand it, as (major, minor).
    :param until: the first ORT release known to ignore it, as (major, minor); ``None`` while none is.
    :param needs: conditions beside the release; each is given the circumstances and the rendered value.
    :param within: for an option that an EP takes only inside another option of JSON text: that option's name, then
        the path of JSON names.
    :param hardware: for an option that only one kind of a plugin's devices reads: that kind, as ORT names it.
    :param reported: whether ORT reports the value in use, so that the echo can be trusted (EP options only).
    :param evidence: how it is known, where its table does not say it for all its entries.
    """

    __slots__ = (
        "default",
        "effect",
        "evidence",
        "hardware",
        "kind",
        "needs",
        "reported",
        "since",
        "until",
        "within",
    )

    def __init__(
        self,
        kind: Kind,
        default: str,
        effect: str,
        since: tuple[int, int] = (1, 24),
        until: tuple[int, int] | None = None,
        needs: tuple[Need, ...] = (),
        within: tuple[str, ...] = (),
        hardware: str = "",
        reported: bool = True,
        evidence: str = "",
    ) -> None:
        self.kind = kind
        self.default = default
        self.effect = effect
        self.since = since
        self.until = until
        self.needs = needs
        self.within = within
        self.hardware = hardware
        self.reported = reported
        self.evidence = evidence


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
