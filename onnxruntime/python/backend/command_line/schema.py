# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""``python -m onnxruntime.backend schema``: a JSON Schema of configurations, generated from the allowlist.

It is for editors, and for services that check before ORT is there. It says which names there are and which values each
takes; what depends on a release, a machine or the other entries is for ``check`` to say.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping

import onnxruntime
from onnxruntime.backend.allowlist.attributes import SESSION_ATTRIBUTES
from onnxruntime.backend.allowlist.config_keys import FREE_DIMENSION, RUN_CONFIG, SESSION_CONFIG, SESSION_FAMILIES
from onnxruntime.backend.allowlist.providers import PROVIDERS
from onnxruntime.backend.allowlist.rules import Family, Rule
from onnxruntime.backend.allowlist.value_kinds import Choice, Flag, Integer, Kind, Member, Names, Text, Threads
from onnxruntime.backend.command_line.shared import Page
from onnxruntime.backend.request import MOST_ENTRIES

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def add_to(commands: argparse._SubParsersAction, shared: argparse.ArgumentParser) -> None:
    """Add the command to a parser.

    :param commands: the parser's commands.
    :param shared: a parser of the options that all commands have.
    """
    parser = commands.add_parser(
        "schema", parents=[shared], help="a JSON Schema of configurations, for editors and services",
        description="""Print a JSON Schema of the configurations that check, --config and ORT_ONNX_BACKEND_CONFIG
        take, generated from the allowlist.""",
        usage="%(prog)s ...",
    )  # fmt: skip
    parser.set_defaults(command=command, tell=tell, parser=parser)


def command(_: argparse.Namespace) -> tuple[dict[str, object], int]:
    """Run the command.

    :return: the schema and the exit status.
    """
    return schema(), 0


def tell(result: dict, page: Page) -> None:
    """Write the schema, which is for programs and for people."""
    for line in json.dumps(result, indent=2).splitlines():
        page.line(line)


def schema() -> dict[str, object]:
    """A JSON Schema, draft 2020-12, of all configurations that can be permitted on some machine."""
    return {
        "$schema": _DIALECT,
        "title": f"Configurations of onnxruntime.backend, as of ONNX Runtime {onnxruntime.__version__}",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "session_options": _table("Attributes of onnxruntime.SessionOptions.", SESSION_ATTRIBUTES),
            "free_dimension_overrides": {
                "description": "Sizes for named dimensions that the model's inputs leave open.",
                "type": "object",
                "maxProperties": MOST_ENTRIES,
                "propertyNames": {"minLength": 1},
                "additionalProperties": _value(FREE_DIMENSION.kind),
            },
            "provider_options": {
                "description": "Execution providers in the order in which they are asked, each with its options.",
                "type": "object",
                "properties": {name: _provider(tables) for name, tables in PROVIDERS.items()},
                # A plugin that the application registered under any other name takes a device_id at most.
                "additionalProperties": {"type": "object"},
            },
            "session_config": _table("Session config entries.", SESSION_CONFIG)
            | {"patternProperties": {_others(family): _value(family.kind) for family in SESSION_FAMILIES}},
            "run_config": _table("Run config entries, which every run carries.", RUN_CONFIG),
            "extensions": {
                "description": "Libraries of custom operators: packages and absolute paths. Not from a caller.",
                "type": "array",
                "items": {"type": "string", "minLength": 1},
            },
        },
    }


def _others(family: Family) -> str:
    """A pattern for the keys of a family that have no entry of their own, whose values that entry judges."""
    known = "|".join(re.escape(key) for key in sorted(SESSION_CONFIG) if key.startswith(family.prefix))
    return f"^(?!(?:{known})$){re.escape(family.prefix)}{family.rest}$"


def _table(description: str, rules: Mapping[str, Rule]) -> dict[str, object]:
    return {
        "description": description,
        "type": "object",
        "maxProperties": MOST_ENTRIES,
        "additionalProperties": False,
        "properties": {name: _rule(rule) for name, rule in sorted(rules.items())},
    }


def _provider(tables: Mapping[str, Mapping[str, Rule]]) -> dict[str, object]:
    """An EP's options; of one that comes bundled and as a plugin, those of either."""
    found = [_table(kind, rules) for kind, rules in tables.items()]
    return {"anyOf": found} if len(found) > 1 else found[0]


def _rule(rule: Rule) -> dict[str, object]:
    needs = [need.what for need in rule.needs]
    if rule.since > (1, 24):
        needs.insert(0, "ORT {}.{}".format(*rule.since))
    if rule.until:
        needs.append("ORT before {}.{}".format(*rule.until))
    effect = rule.effect + (f" Needs {'; and '.join(needs)}." if needs else "")
    return {"description": f"{effect} Default: {rule.default or 'empty'}."} | _value(rule.kind)


def _value(kind: Kind) -> dict[str, object]:
    """What JSON may hold for a kind of value."""
    for of, write in _WRITERS:
        if isinstance(kind, of):
            return write(kind)
    return {"$comment": kind.accepts, "type": ["string", "number", "boolean"]}


def _flag(kind: Flag) -> dict[str, object]:
    return {"enum": [value for value in (True, False, 1, 0, "1", "0") if _takes(kind, value)]}


def _integer(kind: Integer) -> dict[str, object]:
    flags = [value for value in (True, False) if _takes(kind, value)]
    if kind._among:
        return {"enum": [*kind._among, *map(str, kind._among), *flags]}
    return _number({"minimum": kind._low, "maximum": kind._high}, flags)


def _number(bounds: dict[str, int], flags: list[bool]) -> dict[str, object]:
    """A whole number, which may be its digits: how large those are no pattern can say."""
    digits = {"type": "string", "pattern": "^-?[0-9]{1,20}$"}
    return {"anyOf": [{"type": "integer", **bounds}, digits, *([{"enum": flags}] if flags else [])]}


def _text(kind: Text) -> dict[str, object]:
    return {"type": "string", "maxLength": kind._max_bytes, "pattern": f"^(?:{kind._pattern})$"}


def _takes(kind: Kind, value: object) -> bool:
    try:
        kind.parse(value)
    except ValueError:
        return False
    return True


_WRITERS = (
    (Flag, _flag),
    (Integer, _integer),
    # How many it may be depends on the CPUs that a process may use.
    (Threads, lambda kind: _number({"minimum": kind._low}, [])),
    (Choice, lambda kind: {"enum": list(kind._spelling)}),
    (Member, lambda kind: {"enum": list(kind._by_name)}),
    (Names, lambda kind: {"type": "string", "$comment": kind.accepts}),
    (Text, _text),
)
