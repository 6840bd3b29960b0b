# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Reads the environment variable ``ORT_ONNX_BACKEND_CONFIG``: settings, and the settings that callers may set."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from onnxruntime.backend.allowlist.facts import Process
from onnxruntime.backend.allowlist.look_up import Allowlist
from onnxruntime.backend.allowlist.tables import ENVIRONMENT, PERMIT
from onnxruntime.backend.environment import configuration
from onnxruntime.backend.environment.narrowing import NarrowedAllowlist


def read(text: str) -> tuple[dict[str, dict], Callable[[Process], Allowlist]]:
    """Read the value of the variable: JSON text, or ``@`` and the path of a JSON file."""
    try:
        json_text = text
        if text.startswith("@"):
            json_text = configuration.text_of(text[1:])
        specified = configuration.parse(json_text)
    except (OSError, ValueError) as error:
        problem = f"the environment variable {ENVIRONMENT} cannot be used: {error}"
        if not text.lstrip().startswith(("{", "[", "@")):
            problem += ". To specify a file, write @ and its path"
        raise RuntimeError(problem) from None
    if PERMIT in specified:
        return specified, partial(NarrowedAllowlist, specified)
    return specified, Allowlist
