# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Reads configurations in JSON: from ``ORT_ONNX_BACKEND_CONFIG``, from files, and from the command line."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

from onnxruntime.backend.errors import name_of, nearest, show
from onnxruntime.backend.keywords import KEYWORDS, LIBRARIES, PERMIT

# The path or URL of a JSON Schema, which editors read.
_SCHEMA = "$schema"
# The longest file: more than a hundred times the length of all permitted keys with their longest values.
MOST_CHARACTERS = 1 << 24


def parse(text: str) -> dict[str, dict]:
    """Read a configuration from JSON text, or raise ``ValueError``."""
    config = load(text)
    for _, _, problem in faults(config):
        raise ValueError(problem)
    return config


def load(text: str) -> dict[str, object]:
    """Read a JSON object whose keys are unique and whose numbers are finite, or raise ``ValueError``."""
    try:
        config = json.loads(text, object_pairs_hook=_unique, parse_float=_finite, parse_constant=_finite)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if type(config) is not dict:
        raise ValueError(f"the configuration {_not_an_object(config)}")
    if type(config.get(_SCHEMA)) is str:
        config.pop(_SCHEMA)
    return config


def faults(config: dict[str, object]) -> Iterator[tuple[str, str, str]]:
    """Return the keyword, the EP (or ``""``) and the problem of each part that a configuration cannot have."""
    for keyword, value in config.items():
        if keyword in LIBRARIES:
            if type(value) is not list or not all(type(name) is str and name for name in value):
                expected = f"a list of package names and {LIBRARIES[keyword]}"
                yield keyword, "", f"{keyword} must be {expected}, not {show(value)}"
        elif keyword == PERMIT:
            if problem := _fault_of_permit(value):
                yield keyword, "", f"{PERMIT}: {problem}"
        elif keyword not in KEYWORDS:
            parts = (*KEYWORDS, *LIBRARIES, PERMIT)
            expected = f"Expected one of {', '.join(parts)}. Attributes such as logid belong in session_options"
            advice = f"Did you mean {near}?" if (near := nearest(keyword, parts)) else expected
            yield keyword, "", f"{show(keyword)} is not a part of a configuration. {advice}"
        elif type(value) is not dict:
            yield keyword, "", f"{keyword} {_not_an_object(value)}"
        elif keyword == "provider_options":
            for name, options in value.items():
                if type(options) is not dict:
                    yield keyword, name, f"{name_of(keyword, name)} {_not_an_object(options)}"


def _fault_of_permit(part: object) -> str:
    """Return the first problem with the form of a part PERMIT, or ``""``."""
    if type(part) is not dict:
        return _not_an_object(part)
    for keyword in part.keys() - {*KEYWORDS}:
        return f"{show(keyword)} is not one of {', '.join(KEYWORDS)}"
    for *_, problem in faults(part):
        return problem
    for keyword, ep, names in tables(part):
        for name, values in names.items():
            if values is not True and (type(values) is not list or not values):
                return f"{name_of(keyword, ep, name)} must be true or a list of values, not {show(values)}"
    return ""


def tables(part: dict[str, dict]) -> Iterator[tuple[str, str, dict]]:
    """Return the keyword, the EP (or ``""``) and the names of each table in a part PERMIT."""
    for keyword, names in part.items():
        yield from ((keyword, *each) for each in (names.items() if keyword == "provider_options" else [("", names)]))


def _not_an_object(value: object) -> str:
    return f"must be an object, as in {{...}}, not {show(value)}"


def text_of(path: str) -> str:
    """Return the text of a JSON file, or raise ``OSError``, or ``ValueError`` if the file is too long."""
    with Path(path).open(encoding="utf-8-sig") as file:
        text = file.read(MOST_CHARACTERS + 1)
    if len(text) > MOST_CHARACTERS:
        raise ValueError("the file is too long for a configuration")
    return text


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"duplicate key {show(name)} in one object")
        found[name] = value
    return found


def _finite(number: str) -> float:
    if not math.isfinite(float(number)):
        raise ValueError(f"{show(number)} is not a finite number")
    return float(number)
