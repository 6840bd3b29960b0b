# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The tables of the allowlist by keyword argument, except for the options of EPs."""

from __future__ import annotations

from onnxruntime.backend.allowlist.attributes import SESSION_ATTRIBUTES
from onnxruntime.backend.allowlist.rules import Rule
from onnxruntime.backend.allowlist.run_config import RUN_CONFIG
from onnxruntime.backend.allowlist.session_config import MOST_FOLDED, SESSION_CONFIG
from onnxruntime.backend.allowlist.value_kinds import Integer

# Keyword argument to the settings that it contains by name.
BY_KEYWORD = {"session_config": SESSION_CONFIG, "run_config": RUN_CONFIG, "session_options": SESSION_ATTRIBUTES}

# The sizes of one named dimension. free_dimensions.py bounds their product for each input.
FREE_DIMENSION = Rule(Integer(1, MOST_FOLDED), "open", "The size of a named dimension.")
