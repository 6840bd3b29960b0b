# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Options that several execution providers (EPs) have."""

from functools import partial

from onnx.defs import get_all_schemas

from onnxruntime.backend.allowlist.rules import Rule
from onnxruntime.backend.allowlist.value_kinds import Integer, Names

DEVICE = Rule(Integer(0, 63), "0", "Index of the device. If the device does not exist, prepare raises an error.")

# An operator type that does not exist excludes nothing, and ORT does not report this.
OPERATORS = Names(lambda: {schema.name for schema in get_all_schemas()}, "ONNX operator types, joined by ','", ",")
PLUGIN_DEVICE = DEVICE._replace(
    effect="Index among the plugin's devices in get_ep_devices(). The backend uses the device with this index."
)
byte_count = partial(Rule, Integer(0, 2**40), "0")
SENT_OFF = "1 (the backend always sends 0)"
# The refused options of the memory arena that ORT gives to a plugin EP, and the reason.
ARENA_OPTIONS = (
    "arena.extend_strategy arena.initial_chunk_size_bytes arena.initial_growth_chunk_size_bytes "
    "arena.max_dead_bytes_per_chunk arena.max_mem arena.max_power_of_two_extend_bytes"
)
ARENA = (
    "not documented. The memory arena that it configures makes the session or its runs fail, or takes unlimited memory"
)
