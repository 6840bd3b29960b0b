# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The names of the keyword arguments, and of the other parts of a configuration in the environment."""

# The keyword arguments that contain settings. JSON text can contain these, LIBRARIES, and PERMIT.
KEYWORDS = (
    "provider_options",
    "session_config",
    "run_config",
    "session_options",
    "free_dimension_overrides",
)
MOST_ENTRIES = 256  # of a mapping, and of a call. ORT has fewer keys
# The lists of libraries, which are code: only the environment may contain them, each with the form of its entries.
LIBRARIES = {"extensions": "absolute paths", "plugins": "EP=LIBRARY texts"}
# The settings that callers may set, by keyword: True for each permitted value, or a list of values.
PERMIT = "permit"
# The keyword arguments that limit a run.
LIMITS = ("timeout", "cancellation")
# Other names that a caller can take for a limit, in lower case. A limit is never ignored.
LIKE_A_LIMIT = "[a-z_]*(time_?out|deadline|time_?(limit|budget)|max_?(run_?)?(time|duration|seconds))[a-z_]*"

# The environment variable with a configuration, and the end of an error about its settings.
ENVIRONMENT = "ORT_ONNX_BACKEND_CONFIG"
FROM_ENVIRONMENT = f" (from the environment variable {ENVIRONMENT})"
