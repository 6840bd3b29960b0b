# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Permitted options of the WebGPU EPs. All other options are refused."""

from __future__ import annotations

from onnxruntime.backend.allowlist.common_options import PLUGIN_DEVICE
from onnxruntime.backend.allowlist.rules import Need, Rule, switch
from onnxruntime.backend.allowlist.special_kinds import Fixed
from onnxruntime.backend.allowlist.value_kinds import Choice
from onnxruntime.backend.provider_names import WEBGPU

_INT64 = Need(
    "a value other than 0 if the session captures graphs",
    lambda facts, text: text == "1" or facts.option(WEBGPU, "enableGraphCapture") != "1",
)
_BOTH = {
    "preferredLayout": Rule(Choice("NHWC", "NCHW"), "NHWC", "Layout of operators that support both layouts."),
    "enableInt64": switch("Keeps int64 operators on the GPU.", since=(1, 25)),
}
_CAPTURE = "Captures the GPU commands of a run and replays them in later runs."
_NO_CAPTURE = Fixed(
    False,
    "the backend cannot allocate fixed device buffers with the built-in WebGPU EP. Without these buffers, a replay "
    "reads freed memory and returns zeros",
)
BUILT_IN = _BOTH | {"enableGraphCapture": Rule(_NO_CAPTURE, "0", _CAPTURE)}
PLUGIN = {
    "device_id": PLUGIN_DEVICE,
    **_BOTH,
    "enableInt64": switch(
        "Keeps int64 operators on the GPU. Always on if the session captures graphs.", since=(1, 25), needs=(_INT64,)
    ),
    "enableGraphCapture": switch(_CAPTURE),
}
