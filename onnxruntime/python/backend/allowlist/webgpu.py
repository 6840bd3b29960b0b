# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Options of the WebGPU EPs.

They were run with onnxruntime-webgpu 1.27.0 and onnxruntime-ep-webgpu 0.4.0 on a software GPU.
"""

from onnxruntime.backend.allowlist.common_options import PLUGIN_DEVICE
from onnxruntime.backend.allowlist.rules import Need, Rule, Table, switch
from onnxruntime.backend.allowlist.value_kinds import Choice, Fixed
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
_ONE_CONTEXT = (
    "it configures the GPU context, which all sessions of a process share: the first session sets the value, and "
    "values of later sessions are ignored"
)
# The refused options of both.
_REFUSED = {
    "no effect": {
        "forceCpuNodeNames": "ORT silently skips a name if the final graph has no node of this name",
        "enablePIXCapture": "adds marks for the debugger PIX, which no released build supports",
    },
    "not verified": {
        "multiRotaryCacheConcatOffset": (
            "a tensor of the model can contain two tables of rotary embeddings. The option specifies where the "
            "second table begins. A wrong number gives wrong results"
        )
    },
    "requires another refused option": {
        "deviceId": (
            "selects a WebGPU context. Each context except 0 must be created from webgpuInstance and webgpuDevice"
        )
    },
    "raw pointer": {
        "webgpuInstance webgpuDevice dawnProcTable": (
            "ORT uses the number as an address, and crashes or calls the code at that address"
        )
    },
    "acts outside the caller's session": {
        "storageBufferCacheMode uniformBufferCacheMode queryResolveBufferCacheMode defaultBufferCacheMode "
        "validationMode preserveDevice maxStorageBufferBindingSize powerPreference dawnBackendType": _ONE_CONTEXT
    },
}
BUILT_IN = Table({**_BOTH, "enableGraphCapture": Rule(_NO_CAPTURE, "0", _CAPTURE)}, _REFUSED, reported=False)
PLUGIN = Table(
    {
        "device_id": PLUGIN_DEVICE,
        **_BOTH,
        "enableInt64": switch(
            "Keeps int64 operators on the GPU. Always on if the session captures graphs.",
            since=(1, 25),
            needs=(_INT64,),
        ),
        "enableGraphCapture": switch(_CAPTURE),
    },
    _REFUSED,
    {
        "acts outside the caller's session": {"enableRobustness maxNumPendingDispatches": _ONE_CONTEXT},
        "not verified": {
            "kvCacheQuantizationBits": "stores each value in the KV cache of one attention operator with 4 or 8 bits",
            "sessionBufferPoolGenerations": "specifies how long buffers of captured graphs are kept",
        },
    },
    reported=False,
)
