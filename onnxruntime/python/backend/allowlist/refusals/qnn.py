# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The refused options of the QNN EP."""

from __future__ import annotations

from onnxruntime.backend.allowlist.refusals.verdicts import (
    LOADS_LIBRARY,
    NEEDS_REFUSED,
    NO_EFFECT,
    NOT_VERIFIED,
    OUTSIDE_SESSION,
    READS_FILES,
    UNSAFE_MEMORY,
    WRITES_FILES,
    Refused,
    refused,
)

_RUN_PLUGIN = "run: onnxruntime-qnn 2.7.0 on its HTP simulator"
_STRINGS = "strings: onnxruntime-qnn 1.24.4 for Windows"


def _of_both(evidence: str) -> dict[str, Refused]:
    """Return the verdicts on the options that the built-in EP and the plugin EP share."""
    return {
        **refused(
            LOADS_LIBRARY,
            "the library it names is loaded, and the session comes up on the CPU as if nothing had happened",
            "backend_path",
            "qnn_saver_path",
            "qnn_ir_backend_path",
            "op_packages",
            evidence=evidence,
        ),
        "enable_htp_shared_memory_allocator": Refused(
            LOADS_LIBRARY, "libcdsprpc is loaded from the search path", evidence
        ),
        "skip_qnn_version_check": Refused(
            NEEDS_REFUSED, "it only matters for libraries that backend_path names", evidence
        ),
        **refused(
            WRITES_FILES, "a profile is written to a file", "profiling_level", "profiling_file_path", evidence=evidence
        ),
        **refused(
            WRITES_FILES,
            "the model is written to the current folder, or to one that is named",
            "dump_json_qnn_graph",
            "json_qnn_graph_dir",
            "dump_qnn_ir_dlc",
            "dump_qnn_ir_dlc_dir",
            evidence=evidence,
        ),
        "soc_model": Refused(
            OUTSIDE_SESSION,
            "a session with it makes runs of earlier QNN sessions of the process fail and later ones compute in "
            "float16",
            evidence,
        ),
        **refused(
            NEEDS_REFUSED,
            "the EP accepts it only beside soc_model",
            "enable_htp_fp16_precision",
            "htp_bf16_enable",
            evidence=evidence,
        ),
        "htp_arch": Refused(
            NOT_VERIFIED, "describes the device to the compiler as soc_model does; no effect was seen", evidence
        ),
        "enable_htp_spill_fill_buffer": Refused(
            NOT_VERIFIED, "anything but 1 is off without a word, and no effect was seen", evidence
        ),
        "enable_vtcm_backup_buffer_sharing": Refused(
            OUTSIDE_SESSION, "all QNN sessions of the process share one backend", evidence
        ),
        "extended_udma": Refused(NOT_VERIFIED, "for newer devices; the simulator fails with it", evidence),
        "disable_file_mapped_weights": Refused(NO_EFFECT, "for Windows on Arm only", evidence),
    }


BUILT_IN: dict[str, Refused] = {
    **refused(
        NOT_VERIFIED,
        "the EP inside ORT for Windows could not be run; the plugin EP takes it",
        "backend_type",
        "device_id",
        "htp_graph_finalization_optimization_mode",
        "htp_performance_mode",
        "offload_graph_io_quantization",
        "qnn_context_priority",
        "rpc_control_latency",
        "vtcm_mb",
        evidence=_STRINGS,
    ),
    **_of_both(_STRINGS),
}

PLUGIN: dict[str, Refused] = {
    **_of_both(_RUN_PLUGIN),
    "op_affinity": Refused(READS_FILES, "the file it names is read, and an error quotes its first byte", _RUN_PLUGIN),
    **refused(
        WRITES_FILES,
        "the model or a trace is written to the current folder, or to one that is named",
        "enable_framework_op_trace",
        "framework_op_trace_dir",
        "dump_qnn_ep_input_graph",
        "dump_qnn_ep_input_graph_dir",
        evidence=_RUN_PLUGIN,
    ),
    "enable_htp_prepare_only": Refused(
        NEEDS_REFUSED, "it acts only when the compiled model is written to a file", _RUN_PLUGIN
    ),
    "htp_share_resource_optimization": Refused(
        OUTSIDE_SESSION, "sessions of the process share what is on the HTP", _RUN_PLUGIN
    ),
    "skip_backend_op_validation": Refused(
        UNSAFE_MEMORY, "the backend would run operators that it was not asked about", _RUN_PLUGIN
    ),
    **refused(
        NO_EFFECT,
        "for Windows only",
        "enable_dx12_shared_memory_allocator",
        "num_graph_prepare_threads",
        evidence=_RUN_PLUGIN,
    ),
    **refused(
        NOT_VERIFIED,
        "every run failed with it on the simulator",
        "enable_htp_graph_splitting",
        "htp_graph_splitting_num_prepare_threads",
        evidence=_RUN_PLUGIN,
    ),
    **refused(
        NOT_VERIFIED,
        "documented nowhere, and no effect was seen",
        "htp_reused_io_limit_mb",
        "enable_htp_monolithic_lstm",
        "enable_htp_fp16_clamp_overflow",
        "enable_block_quant_weight_optimization",
        "enable_htp_prepare_and_load",
        "genie_log_level",
        evidence=_RUN_PLUGIN,
    ),
}
