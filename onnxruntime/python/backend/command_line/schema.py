# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Print a JSON Schema for configurations, as check, --config and ORT_ONNX_BACKEND_CONFIG accept them.

The schema is generated from the allowlist, without conditions on release, machine and other settings.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping

import onnxruntime
from onnxruntime.backend import __version__
from onnxruntime.backend.allowlist.attributes import SESSION_ATTRIBUTES
from onnxruntime.backend.allowlist.providers import PROVIDERS
from onnxruntime.backend.allowlist.rules import Rule
from onnxruntime.backend.allowlist.run_config import RUN_CONFIG
from onnxruntime.backend.allowlist.session_config import OF_PREFIX, PREFIXES, REST, SESSION_CONFIG
from onnxruntime.backend.allowlist.tables import FREE_DIMENSION, KEYWORDS, LIBRARIES, MOST_ENTRIES, PERMIT
from onnxruntime.backend.command_line.options import conditions
from onnxruntime.backend.command_line.value_schemas import schema_of


def execute(chosen: argparse.Namespace) -> tuple[dict, int]:
    chosen.json = True
    return schema(), 0


def schema() -> dict:
    """Return a JSON Schema, draft 2020-12, of all configurations that are permitted on some machine."""
    session_config = _table("Session config entries.", SESSION_CONFIG)
    session_config["patternProperties"] = {}
    for prefix in PREFIXES:
        session_config["patternProperties"][_pattern(prefix)] = schema_of(OF_PREFIX.kind)
    names = {"type": "array", "items": {"type": "string", "minLength": 1}}
    release = f"onnxruntime.backend {__version__} for ONNX Runtime {onnxruntime.__version__}"
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Configurations of {release}",
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
