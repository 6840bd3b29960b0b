# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Generate docs/configuration.schema.json, a JSON Schema for configurations, from the tables of the allowlist.

It accepts the configurations that ``check``, ``--config``, and ``ORT_ONNX_BACKEND_CONFIG`` accept on some machine,
without the conditions on release, machine, and other settings. ``python backend_configuration_schema.py [FOLDER]``
writes the file into docs/, or into the folder.
"""

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onnxruntime.backend import __version__
from onnxruntime.backend.allowlist.attributes import SESSION_ATTRIBUTES
from onnxruntime.backend.allowlist.rules import Rule
from onnxruntime.backend.allowlist.run_config import RUN_CONFIG
from onnxruntime.backend.allowlist.session_config import OF_PREFIX, PREFIXES, REST, SESSION_CONFIG
from onnxruntime.backend.allowlist.tables import (
    FREE_DIMENSION,
    KEYWORDS,
    LIBRARIES,
    MOST_ENTRIES,
    PERMIT,
    PROVIDERS,
    TRUSTED,
)
from onnxruntime.backend.allowlist.threads import Threads
from onnxruntime.backend.allowlist.value_kinds import Choice, Fixed, Flag, Integer, Kind, Member, Text
from onnxruntime.backend.command_line.options import conditions

FILE = Path(__file__).resolve().parents[2] / "docs" / "configuration.schema.json"


def schema() -> dict:
    """Return a JSON Schema, draft 2020-12, of all configurations that are permitted on some machine."""
    session_config = _table("Session config entries.", SESSION_CONFIG)
    session_config["patternProperties"] = {}
    for prefix in PREFIXES:
        session_config["patternProperties"][_pattern(prefix)] = schema_of(OF_PREFIX.kind)
    names = {"type": "array", "items": {"type": "string", "minLength": 1}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Configurations of onnxruntime.backend {__version__}",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "$schema": {"description": "The path or URL of this schema, for editors.", "type": "string"},
            "session_options": _table("Attributes of SessionOptions.", SESSION_ATTRIBUTES),
            "free_dimension_overrides": {
                "description": "Sizes of named free dimensions of the model's inputs.",
                "type": "object",
                "maxProperties": MOST_ENTRIES,
                "propertyNames": {"minLength": 1},
                "additionalProperties": schema_of(FREE_DIMENSION.kind),
            },
            "provider_options": {
                "description": "Execution providers in order, each with its options.",
                "type": "object",
                "properties": _providers(),
                # The application can register a plugin EP under any other name.
                "additionalProperties": {"type": "object"},
            },
            "session_config": session_config,
            "run_config": _table("Run config entries, passed to every run.", RUN_CONFIG),
            **dict.fromkeys(LIBRARIES, names),
            TRUSTED: {
                "description": "The settings of the operator, which ORT receives without a check of the allowlist.",
                "type": "object",
                "properties": {keyword: {"type": "object"} for keyword in KEYWORDS[:-1]},
                "additionalProperties": False,
            },
            PERMIT: {
                "description": "The settings that callers may set, each with true or a list of values.",
                "type": "object",
                "properties": {keyword: {"type": "object"} for keyword in KEYWORDS},
                "additionalProperties": False,
            },
        },
    }


def _pattern(prefix: str) -> str:
    """Return a pattern of the keys with a prefix that do not have their own entry."""
    known = []
    for key in sorted(SESSION_CONFIG):
        if key.startswith(prefix):
            known.append(re.escape(key))
    return f"^(?!(?:{'|'.join(known)})$){re.escape(prefix)}{REST}$"


def _providers() -> dict:
    """Return a schema for each EP: the options of one of its kinds."""
    schemas = {}
    for name, kinds in PROVIDERS.items():
        tables = []
        for kind, rules in kinds.items():
            tables.append(_table(f"{kind} EP", rules))
        schemas[name] = {"anyOf": tables}
    return schemas


def _table(description: str, rules: Mapping[str, Rule]) -> dict:
    return {
        "description": description,
        "type": "object",
        "additionalProperties": False,
        "properties": {name: _rule(rule) for name, rule in sorted(rules.items())},
    }


def _rule(rule: Rule) -> dict:
    requires = conditions(rule)
    effect = rule.effect
    if requires:
        effect += f" Requires {'; and '.join(requires)}."
    description = f"{effect} Default: {rule.default or 'empty'}."
    return {"description": description} | schema_of(rule.kind)


def schema_of(kind: Kind) -> dict[str, object]:
    """Return a schema of the JSON values that a kind accepts. It accepts strings of digits out of range, too."""
    if isinstance(kind, Fixed):
        return {"enum": [kind.value, int(kind.value), f"{kind.value:d}"]}
    if isinstance(kind, Flag):
        return {"enum": [True, False, 1, 0, "1", "0"]}
    if isinstance(kind, Integer):
        schema = _digits(minimum=kind.values[0], maximum=kind.values[-1])
        if kind.or_flag:
            schema["anyOf"].append({"enum": [True, False]})
        return schema
    if isinstance(kind, Threads):
        return _digits(minimum=kind.low)  # the maximum depends on the machine
    if isinstance(kind, Choice):
        return {"enum": list(dict.fromkeys([*kind.values, *map(str, kind.values)]))}
    if isinstance(kind, Member):
        return {"enum": list(kind.by_name)}
    if isinstance(kind, Text):
        return {"type": "string", "maxLength": kind.max_bytes, "pattern": f"^(?:{kind.pattern})$"}
    return {"type": "string", "$comment": kind.accepts}


def _digits(**bounds: int) -> dict[str, Any]:
    """Return the schema of an integer within bounds, or of its digits."""
    number: dict[str, object] = {"type": "integer"}
    number.update(bounds)
    digits = {"type": "string", "pattern": "^-?[0-9]{1,20}$"}
    return {"anyOf": [number, digits]}


def text() -> str:
    """Return the content of the file."""
    return json.dumps(schema(), indent=1) + "\n"


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE.parent
    (folder / FILE.name).write_text(text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
