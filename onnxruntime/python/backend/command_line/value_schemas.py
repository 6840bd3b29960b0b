# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""JSON Schemas of the values that the kinds of values accept."""

from __future__ import annotations

from typing import Any

from onnxruntime.backend.allowlist.threads import Threads
from onnxruntime.backend.allowlist.value_kinds import Choice, Fixed, Flag, Integer, Kind, Member, Text


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
