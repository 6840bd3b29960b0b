# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The refused options of the WebGPU EP."""

from __future__ import annotations

from onnxruntime.backend.refusals.verdicts import (
    NEEDS_REFUSED,
    NO_EFFECT,
    NOT_VERIFIED,
    OUTSIDE_SESSION,
    RAW_POINTER,
    Refused,
    refused,
)

_ONE_CONTEXT = (
    "it configures the GPU context, which all sessions of a process share: the first session sets the "
    "value, and values of later sessions are ignored"
)


# The options that the built-in EP and the plugin EP share.
_OF_BOTH: dict[str, Refused] = {
    "forceCpuNodeNames": Refused(NO_EFFECT, "ORT silently skips a name if the final graph has no node of this name"),
    "multiRotaryCacheConcatOffset": Refused(
        NOT_VERIFIED,
        "a tensor of the model can contain two tables of rotary embeddings. "
        "The option specifies where the second table begins. A wrong number gives wrong results",
    ),
    "enablePIXCapture": Refused(NO_EFFECT, "adds marks for the debugger PIX, which no released build supports"),
    "deviceId": Refused(
        NEEDS_REFUSED,
        "selects a WebGPU context. Each context except 0 must be created from webgpuInstance and webgpuDevice",
    ),
    **refused(
        RAW_POINTER,
        "ORT uses the number as an address, and crashes or calls the code at that address",
        "webgpuInstance",
        "webgpuDevice",
        "dawnProcTable",
    ),
    **refused(
        OUTSIDE_SESSION,
        _ONE_CONTEXT,
        "storageBufferCacheMode",
        "uniformBufferCacheMode",
        "queryResolveBufferCacheMode",
        "defaultBufferCacheMode",
        "validationMode",
        "preserveDevice",
        "maxStorageBufferBindingSize",
        "powerPreference",
        "dawnBackendType",
    ),
}


BUILT_IN: dict[str, Refused] = _OF_BOTH

PLUGIN: dict[str, Refused] = {
    **_OF_BOTH,
    **refused(OUTSIDE_SESSION, _ONE_CONTEXT, "enableRobustness", "maxNumPendingDispatches"),
    "kvCacheQuantizationBits": Refused(
        NOT_VERIFIED, "stores each value in the KV cache of one attention operator with 4 or 8 bits"
    ),
    "sessionBufferPoolGenerations": Refused(NOT_VERIFIED, "specifies how long buffers of captured graphs are kept"),
}
