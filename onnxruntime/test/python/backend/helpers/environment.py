# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The environment variable with the backend's configuration, for a block of a test."""

import json
import os
from unittest import mock

VARIABLE = "ORT_ONNX_BACKEND_CONFIG"


def environment(value: object) -> mock.patch.dict:
    """Return a context with the variable set: to text as it is, to anything else as JSON."""
    return mock.patch.dict(os.environ, {VARIABLE: value if isinstance(value, str) else json.dumps(value)})
