# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Reads the environment variable ``ORT_ONNX_BACKEND_CONFIG``: settings, and the settings that callers may set."""

from __future__ import annotations

from onnxruntime.backend.allowlist.rules import Narrowing
from onnxruntime.backend.environment import configuration
from onnxruntime.backend.environment.narrowing import NarrowedToPermit
from onnxruntime.backend.keywords import ENVIRONMENT, PERMIT


def read(text: str) -> tuple[dict[str, object], Narrowing]:
    """Read the value of the variable: JSON text, or ``@`` and the path of a JSON file."""
    try:
        if text.startswith("@"):
            specified = configuration.parse(configuration.text_of(text[1:]))
        else:
            specified = configuration.parse(text)
    except (OSError, ValueError) as error:
        looks_right = text.lstrip().startswith(("{", "[", "@"))
        advice = "" if looks_right else ". To specify a file, write @ and its path"
        raise RuntimeError(f"the environment variable {ENVIRONMENT} cannot be used: {error}{advice}") from None
    if PERMIT in specified:
        return specified, NarrowedToPermit(specified)
    return specified, Narrowing()
