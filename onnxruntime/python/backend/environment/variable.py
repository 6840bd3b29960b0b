# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Reads the environment variable ``ORT_ONNX_BACKEND_CONFIG``: settings, and the settings that callers may set."""

import os

from onnxruntime.backend.allowlist.facts import Process
from onnxruntime.backend.allowlist.look_up import Allowlist
from onnxruntime.backend.allowlist.rules import NOTHING, Values
from onnxruntime.backend.allowlist.tables import PERMIT
from onnxruntime.backend.environment import configuration
from onnxruntime.backend.environment.narrowing import NarrowedAllowlist
from onnxruntime.backend.errors import ENVIRONMENT


def read() -> Values:
    """Return the configuration in the variable: settings by keyword, LIBRARIES, PERMIT, and TRUSTED.

    The variable contains JSON text, or ``@`` and the path of a JSON file.
    """
    text = os.environ.get(ENVIRONMENT)
    if text is None:
        return NOTHING
    try:
        if text.startswith("@"):
            return configuration.parse(configuration.text_of(text[1:]))
        return configuration.parse(text)
    except (OSError, ValueError) as error:
        problem = f"the environment variable {ENVIRONMENT} cannot be used: {error}"
        raise RuntimeError(f"{problem}. Expected JSON text, or @ and the path of a JSON file") from None


def allowlist(environment: Values, process: Process) -> Allowlist:
    """Return the settings that callers may set in an environment with this configuration."""
    if PERMIT in environment:
        return NarrowedAllowlist(environment, process)
    return Allowlist(process)
