# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The names of the keyword arguments, and of the other parts of a configuration in the environment."""

# The keyword arguments that contain settings. JSON text can contain these, LIBRARIES, and PERMIT.
KEYWORDS = ("provider_options", "session_config", "run_config", "session_options", "free_dimension_overrides")
# The lists of libraries, which are code: only the environment may contain them, each with the form of its entries.
LIBRARIES = {"extensions": "absolute paths", "plugins": "EP=LIBRARY texts"}
PERMIT = "permit"  # the settings that callers may set, by keyword: True for each permitted value, or a list of values
LIMITS = frozenset({"timeout", "cancellation"})  # the keyword arguments that limit a run

ENVIRONMENT = "ORT_ONNX_BACKEND_CONFIG"  # the environment variable with a configuration
FROM_ENVIRONMENT = f" (from the environment variable {ENVIRONMENT})"  # ends an error about its settings
