# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Reads configurations in JSON: from ``ORT_ONNX_BACKEND_CONFIG``, from files, and from the command line."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from onnxruntime.backend.allowlist.tables import KEYWORDS, LIBRARIES, PERMIT, TRUSTED
from onnxruntime.backend.errors import Place, show, type_name

# The path or URL of a JSON Schema, which editors read.
_SCHEMA = "$schema"
# The longest file: more than a hundred times the length of all permitted keys with their longest values.
_MOST_CHARACTERS = 1 << 24


def parse(text: str) -> dict[str, Any]:
    """Read a configuration from JSON text, or raise ``ValueError``."""
    config = load(text)
    for _, _, problem in faults(config):
        raise ValueError(problem)
    return config


def load(text: str) -> dict[str, Any]:
    """Read a JSON object whose keys are unique and whose numbers are finite, or raise ``ValueError``."""
    if not text.strip():  # a deployment whose variable lost its value would run without its part PERMIT
        raise ValueError("it is empty. An empty configuration is {}")
    try:
        config = json.loads(text, object_pairs_hook=_unique, parse_float=_finite, parse_constant=_finite)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    problem = _fault_of_object("the configuration", config)
    if problem:
        raise ValueError(problem)
    if type(config.get(_SCHEMA)) is str:
        config.pop(_SCHEMA)
    return config


def faults(config: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Return the keyword, the EP (or ``""``) and the problem of each part that a configuration cannot have."""
    for keyword, value in config.items():
        problem = _fault_of_part(keyword, value)
        if problem:
            yield keyword, "", problem
        elif keyword == "provider_options":
            for ep, options in value.items():
                problem = _fault_of_object(str(Place(keyword, ep)), options)
                if problem:
                    yield keyword, ep, problem


def _fault_of_part(keyword: str, value: object) -> str:
    if keyword in LIBRARIES:
        return _fault_of_libraries(keyword, value)
    if keyword in (PERMIT, TRUSTED):
        return _fault_of_names(keyword, value)
    if keyword in KEYWORDS:
        return _fault_of_object(keyword, value)
    return _unknown_part(keyword)


def _fault_of_object(place: str, value: object) -> str:
    if type(value) is dict:
        return ""
    return f"{place} must be an object, as in {{...}}, not {type_name(value)}"


def _fault_of_libraries(keyword: str, value: object) -> str:
    if type(value) is list and all(type(name) is str and name for name in value):
        return ""
    expected = f"a list of package names and {LIBRARIES[keyword]}"
    return f"{keyword} must be {expected}, not {show(value)}"


def _unknown_part(keyword: str) -> str:
    parts = (*KEYWORDS, *LIBRARIES, PERMIT, TRUSTED)
    advice = f"Expected one of {', '.join(parts)}. Attributes such as logid belong in session_options"
    return f"{show(keyword)} is not a part of a configuration. {advice}"


def _fault_of_names(part: str, names: Any) -> str:
    """Return the first problem with the form of a part PERMIT or TRUSTED, or ``""``."""
    problem = _fault_of_object(f"{part}:", names)
    if problem:
        return problem
    for keyword in names:
        if keyword not in KEYWORDS:
            return f"{part}: {show(keyword)} is not one of {', '.join(KEYWORDS)}"
    for *_, problem in faults(names):
        return f"{part}: {problem}"
    for place, value in places(names):
        if part == PERMIT and value is not True and (type(value) is not list or not value):
            return f"{part}: {place} must be true or a list of values, not {show(value)}"
    return ""


def shown(text: str) -> str:
    """Return the text of a configuration up to the values of its part TRUSTED, which no report contains."""
    # JSON can escape a letter of the name.
    return re.split(rf'(?<="{TRUSTED}")|(?=\\u00)', text, maxsplit=1)[0]


def places(part: Mapping[str, Mapping]) -> Iterator[tuple[Place, Any]]:
    """Return the place and the value of each name in a part PERMIT or TRUSTED."""
    for container, names in tables(part):
        for name, value in names.items():
            yield container._replace(key=name), value


def tables(part: Mapping[str, Mapping]) -> Iterator[tuple[Place, Mapping]]:
    """Return the place and the names of each table in settings by keyword, such as a part PERMIT or TRUSTED."""
    for keyword, names in part.items():
        if keyword == "provider_options":
            for ep, options in names.items():
                yield Place(keyword, ep), options
        else:
            yield Place(keyword), names


def text_of(path: str) -> str:
    """Return the text of a JSON file, or raise ``OSError``, or ``ValueError`` if it is not UTF-8 or too long."""
    if not path:
        raise ValueError("no path of a file follows @")
    try:
        with Path(path).open(encoding="utf-8-sig") as file:
            text = file.read(_MOST_CHARACTERS + 1)
    except UnicodeDecodeError:
        raise ValueError("the file is not UTF-8. Save it as UTF-8") from None
    if len(text) > _MOST_CHARACTERS:
        raise ValueError("the file is too long for a configuration")
    return text


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    unique: dict[str, object] = {}
    for name, value in pairs:
        if name in unique:
            raise ValueError(f"duplicate key {show(name)} in one object")
        unique[name] = value
    return unique


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{show(number)} is not a finite number")
    return value
