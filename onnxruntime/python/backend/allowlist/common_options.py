# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Options that several execution providers (EPs) have."""

from __future__ import annotations

from functools import partial

from onnx.defs import get_all_schemas

from onnxruntime.backend.allowlist.rules import Rule
from onnxruntime.backend.allowlist.special_kinds import Names
from onnxruntime.backend.allowlist.value_kinds import Choice, Flag, Integer

switch = partial(Rule, Flag(), "0")
switch_on = partial(Rule, Flag(), "1")
DEVICE = Rule(Integer(0, 63), "0", "Index of the device. If the device does not exist, prepare raises an error.")
ARENA_LIMIT = Rule(
    # A lower limit stops each model, and a higher limit has no effect on any device.
    Integer(2**20, 2**48),
    "18446744073709551615",
    "Maximum size of the EP's memory arena in bytes. A run that needs more fails.",
)
ARENA_GROWTH = Rule(Choice("kNextPowerOfTwo", "kSameAsRequested"), "kNextPowerOfTwo", "How the memory arena grows.")

# An operator type that does not exist excludes nothing, and ORT does not report this.
OPERATORS = Names(lambda: {schema.name for schema in get_all_schemas()}, "ONNX operator types, joined by ','", ",")
PLUGIN_DEVICE = DEVICE._replace(
    effect="Index among the plugin's devices in get_ep_devices(). The backend uses the device with this index."
)
byte_count = partial(Rule, Integer(0, 2**40), "0")
SENT_OFF = "1 (the backend always sends 0)"
