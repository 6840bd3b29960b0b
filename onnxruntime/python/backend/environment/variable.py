# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Reads the environment variable ``ORT_ONNX_BACKEND_CONFIG``: settings, and the settings that callers may set."""

from __future__ import annotations

from onnxruntime.backend.environment import (
    configuration,
    narrowing,  # noqa: F401 - request.py uses it, and no run imports a module
)
from onnxruntime.backend.errors import ENVIRONMENT


def read(text: str) -> dict[str, dict]:
    """Read the value of the variable: JSON text, or ``@`` and the path of a JSON file."""
    try:
        json_text = text
        if text.startswith("@"):
            json_text = configuration.text_of(text[1:])
        return configuration.parse(json_text)
    except (OSError, ValueError) as error:
        problem = f"the environment variable {ENVIRONMENT} cannot be used: {error}"
        if not text.lstrip().startswith(("{", "[", "@")):
            problem += ". To specify a file, write @ and its path"
        raise RuntimeError(problem) from None
