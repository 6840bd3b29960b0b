# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The shape of an allowlist entry: what a rule can say. The tables are written in these words."""

# A NamedTuple takes 20 times as long to define as a plain class, at every import: only what needs one is one. And as
# text, as "from __future__ import annotations" has it, each of its annotations would be compiled.
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from onnxruntime.backend.value_kinds import Kind

# Hazards: why an option or key is refused, in a few words.
RAW_POINTER = "raw pointer"
LOADS_LIBRARY = "loads a library"
WRITES_FILES = "writes files"
READS_FILES = "reads files"
UNSAFE_MEMORY = "memory that may be gone or is not the caller's"
NEEDS_REFUSED = "needs another refused option"
OUTSIDE_SESSION = "acts outside the caller's session"
UNBOUNDED = "unbounded use of resources"
WRONG_RESULTS = "wrong results"
MODEL_TRUST = "widens what a model may do"
DISCLOSES = "discloses data"
NO_EFFECT = "no effect"
OTHER_DOOR = "another keyword is the way in"
NOT_VERIFIED = "not verified"


class Circumstances(NamedTuple):
    """What is known about the session that a configuration is meant for.

    :param release: ORT's release as (major, minor).
    :param machine: the CPU family as :func:`platform.machine` names it.
    :param providers: names of the EPs that the session will have, in order.
    :param parallel: whether the session runs with ``execution_mode=ORT_PARALLEL``.
    :param cpu_arena: whether the session has the CPU memory arena.
    :param beside: the options that the caller named for the same EP, with the text of each.
    """

    release: tuple[int, int]
    machine: str
    providers: tuple[str, ...]
    parallel: bool = False
    cpu_arena: bool = True
    beside: Mapping[str, str] = MappingProxyType({})


class Need:
    """A condition without which ORT stores an entry and ignores it (or fails later and less clearly)."""

    __slots__ = ("met", "what")

    def __init__(self, what: str, met: Callable[[Circumstances, str], bool]) -> None:
        self.what = what
        self.met = met


class Permitted(NamedTuple):
    """A permitted option or key.

    :param kind: what a caller may write, and the spelling that is sent.
    :param default: the value ORT uses when the option is not given.
    :param effect: one line.
    :param since: the first ORT release known to understand it, as (major, minor).
    :param needs: conditions beside the release; each is given the circumstances and the rendered value.
    :param within: for an option that an EP takes only inside another option of JSON text: that option's name, then
        the path of JSON names.
    :param hardware: for an option that only one kind of a plugin's devices reads: that kind, as ORT names it.
    :param reported: whether ORT reports the value in use, so that the echo can be trusted (EP options only).
    :param evidence: how it is known.
    """

    kind: Kind
    default: str
    effect: str
    since: tuple[int, int] = (1, 24)
    needs: tuple[Need, ...] = ()
    within: tuple[str, ...] = ()
    hardware: str = ""
    reported: bool = True
    evidence: str = ""


class Refused(NamedTuple):
    """A refused option or key: its hazard in a few words, and the reason.

    :param hazard: one of this module's constants.
    :param reason: what happens when ORT is given it.
    :param evidence: how it is known.
    """

    hazard: str
    reason: str
    evidence: str = ""


Rule = Permitted | Refused


class Family:
    """Keys permitted by their beginning. An exact rule, refusals included, always wins over a family.

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
