# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The refused run config keys."""

from __future__ import annotations

from onnxruntime.backend.refusals.verdicts import NOT_VERIFIED, READS_FILES, WRONG_RESULTS, Refused

_QNN_UNRUN = "acts on a Qualcomm HTP device only, where it was not run"

RUN_CONFIG: dict[str, Refused] = {
    "disable_synchronize_execution_providers": Refused(
        WRONG_RESULTS, "outputs of a GPU may be read before they are complete. Any text except '0' turns it on"
    ),
    "qnn.htp_perf_mode": Refused(NOT_VERIFIED, _QNN_UNRUN),
    "qnn.htp_perf_mode_post_run": Refused(NOT_VERIFIED, _QNN_UNRUN),
    "qnn.lora_config": Refused(READS_FILES, "specifies a file of weights"),
    "qnn.rpc_control_latency": Refused(NOT_VERIFIED, _QNN_UNRUN),
}
