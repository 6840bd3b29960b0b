# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The three configurations as a whole: which keywords they are, and what the look-ups must know of their session."""

from __future__ import annotations

import difflib
import os
import platform
import warnings
from collections.abc import Iterable, Mapping

import onnxruntime
from onnxruntime import ExecutionMode, RunOptions, SessionOptions
from onnxruntime.backend import allowlist
from onnxruntime.backend.allowlist_rules import Circumstances

KEYWORDS = ("provider_options", "session_config", "run_config")


def warn_misspelt(given: Mapping[str, object]) -> None:
    """Warn of a keyword that is nearly one of ours: unknown keywords are ignored, so the typing error would be too."""
    for name in given:
        near = difflib.get_close_matches(name[:100], KEYWORDS, 1, 0.85)
        if near:
            warnings.warn(
                f"keyword argument {allowlist.show(name)} is ignored; did you mean {near[0]}?",
                RuntimeWarning,
                stacklevel=4,
            )


def refuse_while_model_configures(**configurations: object) -> None:
    """Refuse every configuration while ORT would replace session options by what the model's metadata says."""
    if os.environ.get("ORT_LOAD_CONFIG_FROM_MODEL") == "1":
        for keyword, given in configurations.items():
            if given is not None:
                raise RuntimeError(
                    f"{keyword} {allowlist.NOT_PERMITTED} while the environment variable "
                    "ORT_LOAD_CONFIG_FROM_MODEL is 1: ORT would replace the session's options by the model's metadata"
                )


def circumstances(options: SessionOptions, providers: Iterable[str]) -> Circumstances:
    """Describe a session for the rules that depend on it.

    :param options: its session options.
    :param providers: the names of its EPs.
    """
    major, minor = onnxruntime.__version__.split(".")[:2]
    return Circumstances(
        release=(int(major), int(minor)),
        machine=platform.machine(),
        providers=tuple(providers),
        parallel=options.execution_mode == ExecutionMode.ORT_PARALLEL,
        cpu_arena=options.enable_cpu_mem_arena,
    )


def run_options(attributes: Mapping[str, object], entries: Mapping[str, str]) -> RunOptions:
    """Fresh run options with these attributes and run config entries."""
    options = RunOptions()
    for name, value in attributes.items():
        setattr(options, name, value)
    for key, text in entries.items():
        options.add_run_config_entry(key, text)
    return options
