# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The refused options of the WebGPU EP."""

from __future__ import annotations

from onnxruntime.backend.allowlist.refusals.verdicts import (
    NEEDS_REFUSED,
    NO_EFFECT,
    NOT_VERIFIED,
    OUTSIDE_SESSION,
    RAW_POINTER,
    Refused,
    refused,
)

_RUN_BUILT_IN = "run: onnxruntime-webgpu 1.27.0 on a software GPU"
_RUN_PLUGIN = "run: onnxruntime-ep-webgpu 0.4.0 on a software GPU"
_ONE_CONTEXT = (
    "it belongs to the GPU context, of which a process has one: the first live session decides for all, and values of "
    "later sessions are ignored"
)


def _of_both(evidence: str) -> dict[str, Refused]:
    """Return the verdicts on the options that the built-in EP and the plugin EP share."""
    return {
        "forceCpuNodeNames": Refused(
            NO_EFFECT,
            "a name that no node has, or no longer has after ORT's rewriting, is skipped without a word",
            evidence,
        ),
        "multiRotaryCacheConcatOffset": Refused(
            NOT_VERIFIED,
            "says where in a model's table of rotary embeddings another one begins: a wrong number gives wrong results",
            evidence,
        ),
        "enablePIXCapture": Refused(NO_EFFECT, "a debugger's marks, which no released build has", evidence),
        "deviceId": Refused(NEEDS_REFUSED, "any context but 0 is made of webgpuInstance and webgpuDevice", evidence),
        **refused(
            RAW_POINTER,
            "ORT uses the number as an address and crashes, or calls what lies there",
            "webgpuInstance",
            "webgpuDevice",
            "dawnProcTable",
            evidence=evidence,
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
            evidence=evidence,
        ),
    }


BUILT_IN: dict[str, Refused] = _of_both(_RUN_BUILT_IN)

PLUGIN: dict[str, Refused] = {
    **_of_both(_RUN_PLUGIN),
    **refused(OUTSIDE_SESSION, _ONE_CONTEXT, "enableRobustness", "maxNumPendingDispatches", evidence=_RUN_PLUGIN),
    "kvCacheQuantizationBits": Refused(
        NOT_VERIFIED, "rounds the memory of one attention operator to 4 or 8 bits", _RUN_PLUGIN
    ),
    "sessionBufferPoolGenerations": Refused(
        NOT_VERIFIED, "says how long buffers of captured graphs are kept", _RUN_PLUGIN
    ),
}
