# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The refused options of the QNN EP."""

from __future__ import annotations

from onnxruntime.backend.refusals.verdicts import (
    LOADS_LIBRARY,
    NEEDS_REFUSED,
    NOT_VERIFIED,
    OUTSIDE_SESSION,
    READS_FILES,
    UNSAFE_MEMORY,
    WRITES_FILES,
    Refused,
    refused,
)

# The options that the built-in EP and the plugin EP share.
_OF_BOTH: dict[str, Refused] = {
    **refused(
        LOADS_LIBRARY,
        "loads the specified library. If QNN cannot use the library, the session silently uses the CPU",
        "backend_path",
        "qnn_saver_path",
        "qnn_ir_backend_path",
        "op_packages",
    ),
    "enable_htp_shared_memory_allocator": Refused(LOADS_LIBRARY, "loads libcdsprpc from the search path"),
    "skip_qnn_version_check": Refused(NEEDS_REFUSED, "it applies only to libraries that backend_path specifies"),
    **refused(WRITES_FILES, "writes a profile to a file", "profiling_level", "profiling_file_path"),
    **refused(
        WRITES_FILES,
        "writes the model to the current folder, or to a specified folder",
        "dump_json_qnn_graph",
        "json_qnn_graph_dir",
        "dump_qnn_ir_dlc",
        "dump_qnn_ir_dlc_dir",
    ),
    "soc_model": Refused(
        OUTSIDE_SESSION,
        "with the plugin EP, if a session has this option, runs of earlier QNN sessions of the process fail. Later "
        "sessions compute in float16",
    ),
    **refused(
        NEEDS_REFUSED, "the EP accepts it only together with soc_model", "enable_htp_fp16_precision", "htp_bf16_enable"
    ),
    "htp_arch": Refused(
        NOT_VERIFIED,
        "describes the device to the compiler, as soc_model does. With the plugin EP, no effect was observed",
    ),
    "enable_htp_spill_fill_buffer": Refused(
        NOT_VERIFIED, "any value except 1 silently means off. With the plugin EP, no effect was observed"
    ),
    "enable_vtcm_backup_buffer_sharing": Refused(OUTSIDE_SESSION, "all QNN sessions of the process share one backend"),
    "extended_udma": Refused(NOT_VERIFIED, "for newer devices. The simulator of the plugin EP fails with it"),
    "disable_file_mapped_weights": Refused(NOT_VERIFIED, "it acts on Windows on Arm only"),
}


BUILT_IN: dict[str, Refused] = {
    **refused(
        NOT_VERIFIED,
        "the built-in EP of ORT for Windows was not run. The plugin EP accepts the option",
        "backend_type",
        "device_id",
        "htp_graph_finalization_optimization_mode",
        "htp_performance_mode",
        "offload_graph_io_quantization",
        "qnn_context_priority",
        "rpc_control_latency",
        "vtcm_mb",
    ),
    **_OF_BOTH,
}

PLUGIN: dict[str, Refused] = {
    **_OF_BOTH,
    "op_affinity": Refused(READS_FILES, "reads the specified file, and an error quotes its first byte"),
    **refused(
        WRITES_FILES,
        "writes the model or a trace to the current folder, or to a specified folder",
        "enable_framework_op_trace",
        "framework_op_trace_dir",
        "dump_qnn_ep_input_graph",
        "dump_qnn_ep_input_graph_dir",
    ),
    "enable_htp_prepare_only": Refused(NEEDS_REFUSED, "it acts only when the compiled model is written to a file"),
    "htp_share_resource_optimization": Refused(OUTSIDE_SESSION, "sessions of the process share resources on the HTP"),
    "skip_backend_op_validation": Refused(UNSAFE_MEMORY, "QNN would run operators that it did not validate"),
    **refused(
        NOT_VERIFIED, "it acts on Windows only", "enable_dx12_shared_memory_allocator", "num_graph_prepare_threads"
    ),
    **refused(
        NOT_VERIFIED,
        "every run failed with it on the simulator",
        "enable_htp_graph_splitting",
        "htp_graph_splitting_num_prepare_threads",
    ),
    **refused(
        NOT_VERIFIED,
        "not documented, and no effect was observed",
        "htp_reused_io_limit_mb",
        "enable_htp_monolithic_lstm",
        "enable_htp_fp16_clamp_overflow",
        "enable_block_quant_weight_optimization",
        "enable_htp_prepare_and_load",
        "genie_log_level",
    ),
}
