# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Lookups in the allowlist without a session, and the process that they describe.

The release is pinned nowhere: it is the newest one that an entry of the tables requires.
"""

from collections.abc import Iterable
from unittest import mock

from onnxruntime.backend import request
from onnxruntime.backend.allowlist import conditions, look_up
from onnxruntime.backend.allowlist.attributes import RUN_ATTRIBUTES, SESSION_ATTRIBUTES
from onnxruntime.backend.allowlist.facts import Process
from onnxruntime.backend.allowlist.look_up import permit_of
from onnxruntime.backend.allowlist.permit import Permit
from onnxruntime.backend.allowlist.run_config import RUN_CONFIG
from onnxruntime.backend.allowlist.session_config import SESSION_CONFIG
from onnxruntime.backend.allowlist.tables import PROVIDERS
from onnxruntime.backend.allowlist.threads import Threads
from onnxruntime.backend.allowlist.value_kinds import Choice, Fixed, Flag, Integer, Kind, Member
from onnxruntime.backend.environment import variable

# The tables by their place.
TABLES = {
    "session attributes": SESSION_ATTRIBUTES,
    "run attributes": RUN_ATTRIBUTES,
    "session_config": SESSION_CONFIG,
    "run_config": RUN_CONFIG,
    **{f"{ep}, {kind}": table for ep, kinds in PROVIDERS.items() for kind, table in kinds.items()},
}
NEWEST = Process(
    max(rule.since for table in TABLES.values() for rule in table.values()),
    "x86_64",
    providers=("CPUExecutionProvider",),
)


def having(eps: Iterable[str], kind: str, at: Process = NEWEST) -> Process:
    """Return a process that has these EPs, all of a kind; none of them if the kind is ``""``."""
    return at._replace(kinds=dict.fromkeys(eps, kind) if kind else {})


def permit(at: Process = NEWEST, kind: str = "built-in", attributes: dict | None = None, **requested: object) -> Permit:
    """Look up settings in the tables, in a Python with a global interpreter lock."""
    process = having(requested.get("provider_options", ()), kind, at)
    with mock.patch.object(conditions, "has_global_lock", return_value=True):
        asked = request.read_call(requested, attributes or {})
        return permit_of(asked, variable.allowlist(asked.environment, process))


def parses(kind: Kind, value: object) -> bool:
    """Return whether a kind of values accepts a value."""
    try:
        kind.parse(value)
    except ValueError:
        return False
    return True


def session_attributes(given: dict) -> dict:
    return permit(attributes=given).attributes.parsed


def session_config(given: object, at: Process = NEWEST) -> dict:
    return permit(at, session_config=given).session_config.texts


def run_config(given: object, at: Process = NEWEST, **attributes: object) -> dict:
    return permit(at, attributes=attributes, run_config=given).run_config.texts


def run_attributes(given: dict) -> dict:
    settings = look_up.Allowlist(NEWEST).attributes(RUN_ATTRIBUTES, given)
    return settings.parsed


def listed_values(kind: Kind) -> list[object]:
    """Return the JSON values that a kind accepts, if these are few."""
    if isinstance(kind, Fixed):
        return [kind.value, int(kind.value), str(int(kind.value))]
    if isinstance(kind, Flag):
        return [True, False, 1, 0, "1", "0"]
    if isinstance(kind, Choice):
        return list(dict.fromkeys([*kind.values, *map(str, kind.values)]))
    if isinstance(kind, Member):
        return [*kind.by_name]
    return []


def bounds(kind: Kind, highest: int) -> tuple[int, int] | None:
    """Return the least and the greatest integer that a kind accepts; ``highest`` if that depends on the machine."""
    if isinstance(kind, Threads):
        return kind.low, highest
    if isinstance(kind, Integer):
        return kind.values[0], kind.values[-1]
    return None
