# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Options that several execution providers (EPs) have."""

from __future__ import annotations

from functools import partial

from onnx.defs import get_all_schemas

from onnxruntime.backend.allowlist import cuda
from onnxruntime.backend.allowlist.rules import Rule
from onnxruntime.backend.allowlist.special_kinds import Names
from onnxruntime.backend.allowlist.value_kinds import Integer

DEVICE = cuda.OPTIONS["device_id"]

# An operator type that does not exist excludes nothing, and ORT does not report this.
OPERATORS = Names(lambda: {schema.name for schema in get_all_schemas()}, "ONNX operator types, joined by ','", ",")
PLUGIN_DEVICE = DEVICE._replace(
    effect="Index among the plugin's devices in get_ep_devices(). The backend uses the device with this index."
)
byte_count = partial(Rule, Integer(0, 2**40), "0")
SENT_OFF = "1 (the backend always sends 0)"
