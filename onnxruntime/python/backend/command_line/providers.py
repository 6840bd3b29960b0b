# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The EPs of this process: their short names and kinds, and the registration of plugin EPs."""

from __future__ import annotations

import contextlib
import io
import os

import onnxruntime
from onnxruntime.backend.allowlist.refusals.suggestions import provider_named
from onnxruntime.backend.command_line.output import MistakeError
from onnxruntime.backend.errors import warn
from onnxruntime.backend.provider_names import CUDA
from onnxruntime.backend.request import FROM_ENVIRONMENT, of_environment
from onnxruntime.backend.session import plugins
from onnxruntime.backend.session.presence import kinds


def full_name(text: str) -> str:
    """Return the EP with a short name such as ``cuda``; the text itself if there is none."""
    return provider_named(text, kinds()) or text


def preload() -> None:
    """Load the CUDA libraries of NVIDIA's packages, as ``onnxruntime.preload_dlls`` does, if the build has CUDA."""
    if CUDA in onnxruntime.get_available_providers():
        # If a library is missing, the EP's own error is more specific than the function's output.
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception):
            onnxruntime.preload_dlls()


def register(specified: list[str], use_environment: bool) -> list[str]:
    """Register the plugins of the command line and of the environment, and return those that are registered.

    A mistake in the environment is only a warning: ``prepare`` raises it, too.
    """
    parts = [plugin.partition("=") for plugin in specified]
    names = [f"{ep}={os.path.abspath(library)}" if library else ep for ep, _, library in parts]
    try:
        plugins.register(names)
    except RuntimeError as error:
        raise MistakeError(error) from None
    with contextlib.suppress(RuntimeError):
        for name in of_environment().get("plugins", []) if use_environment else ():
            try:
                plugins.register([name])
                names.append(name)
            except RuntimeError as error:
                warn(f"{error}{FROM_ENVIRONMENT}")
    return names
