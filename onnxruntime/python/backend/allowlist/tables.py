# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The keyword arguments with their tables, except for the options of EPs, and the names of a configuration."""

from onnxruntime.backend.allowlist.attributes import SESSION_ATTRIBUTES
from onnxruntime.backend.allowlist.rules import Rule, Table
from onnxruntime.backend.allowlist.run_config import RUN_CONFIG
from onnxruntime.backend.allowlist.session_config import MOST_FOLDED, SESSION_CONFIG
from onnxruntime.backend.allowlist.value_kinds import Integer

# The keyword arguments that contain settings. JSON text can contain these, LIBRARIES, PERMIT, and TRUSTED.
KEYWORDS = ("provider_options", "session_config", "run_config", "session_options", "free_dimension_overrides")
MOST_ENTRIES = 256  # of a mapping, and of a call. ORT has fewer keys
# The keyword arguments that limit a run.
LIMITS = ("timeout", "cancellation")
# The sizes of one named dimension. free_dimensions.py bounds their product for each input.
FREE_DIMENSION = Rule(Integer(1, MOST_FOLDED), "open", "The size of a named dimension.")
# Keyword argument to the settings that it contains by name.
BY_KEYWORD = {
    "session_config": SESSION_CONFIG,
    "run_config": RUN_CONFIG,
    "session_options": SESSION_ATTRIBUTES,
    "free_dimension_overrides": Table({}, others=lambda _: FREE_DIMENSION),
}
# The lists of libraries, which are code: only the environment may contain them, each with the form of its entries.
LIBRARIES = {"extensions": "absolute paths", "plugins": "EP=LIBRARY texts"}
# The settings that callers may set, by keyword: True for each permitted value, or a list of values.
PERMIT = "permit"
# The settings of the operator, by keyword, which ORT receives without a look-up.
TRUSTED = "trusted"
