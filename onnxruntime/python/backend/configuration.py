# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Configurations as JSON: of ``ORT_ONNX_BACKEND_CONFIG``, of files and of the command line."""

from __future__ import annotations

import json
import math
from pathlib import Path

from onnxruntime.backend.errors import nearest, show

# The keyword arguments that hold settings. JSON text can contain these and "extensions".
KEYWORDS = ("provider_options", "session_config", "run_config", "session_options", "free_dimension_overrides")
# Of a file: more than a hundred times what every permitted key with its longest value takes.
MOST_CHARACTERS = 1 << 24


def of_environment(text: str) -> dict[str, dict]:
    """Read what the environment variable holds: JSON text, or ``@`` and the path of a file of it.

    :raises OSError: when the file cannot be read.
    :raises ValueError: when it is no configuration.
    """
    return parse_file(text[1:]) if text.startswith("@") else parse(text)


def parse(text: str) -> dict[str, dict]:
    """Read configurations from JSON text: an object with any of ``KEYWORDS``, and ``"extensions"``.

    :raises ValueError: for anything else, a key that stands twice and numbers that are not finite.
    """
    try:
        config = json.loads(text, object_pairs_hook=_unique, parse_float=_finite, parse_constant=_finite)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    objects = {"the whole": config}
    if type(config) is dict:
        for name in config:
            if name not in KEYWORDS and name != "extensions":
                near = nearest(name, KEYWORDS, 0.6)
                raise ValueError(
                    f"{show(name)} is not a configuration"
                    + (f"; did you mean {near}?" if near else f": those are {', '.join(KEYWORDS)}")
                )
        objects |= {name: value for name, value in config.items() if name != "extensions"}
        if "extensions" in config:
            _check_extensions(config["extensions"])
        providers = config.get("provider_options")
        if type(providers) is dict:
            objects |= {f"provider_options[{show(name)}]": options for name, options in providers.items()}
    for name, value in objects.items():
        if type(value) is not dict:
            raise ValueError(f"{name} must be an object, as in {{...}}, not {show(value)}")
    return config


def parse_file(path: str) -> dict[str, dict]:
    """Read configurations from a JSON file, as :func:`parse` does from text.

    :raises OSError: when it cannot be read.
    """
    with Path(path).open(encoding="utf-8-sig") as file:
        text = file.read(MOST_CHARACTERS + 1)
    if len(text) > MOST_CHARACTERS:
        raise ValueError("the file is too long for a configuration")
    return parse(text)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the key {show(name)} stands twice in one object")
        found[name] = value
    return found


def _finite(number: str) -> float:
    if not math.isfinite(float(number)):
        raise ValueError(f"{show(number)} is not a finite number")
    return float(number)


def _check_extensions(given: object) -> None:
    if type(given) is not list or not all(type(name) is str and name for name in given):
        raise ValueError(f"extensions must be a list of package names and absolute paths, not {show(given)}")
