# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Options of Qualcomm's EPs. Those of the plugin EP were run with onnxruntime-qnn 2.7.0 on its simulator of the HTP."""

from onnxruntime.backend.allowlist.common_options import PLUGIN_DEVICE
from onnxruntime.backend.allowlist.rules import Rule, Table, switch_on
from onnxruntime.backend.allowlist.value_kinds import Choice, Integer, Kind


def _htp(kind: Kind, default: str, effect: str) -> Rule:
    return Rule(kind, default, f"{effect} No effect on the simulator.")


_HTP_MODES = (
    "default burst sustained_high_performance high_performance balanced low_balanced high_power_saver power_saver "
    "low_power_saver extreme_power_saver"
)
# The refused options of the built-in EP and of the plugin EP.
_REFUSED = {
    "not verified": {
        "htp_arch": (
            "describes the device to the compiler, as soc_model does. With the plugin EP, no effect was observed"
        ),
        "enable_htp_spill_fill_buffer": (
            "any value except 1 silently means off. With the plugin EP, no effect was observed"
        ),
        "extended_udma": "for newer devices. The simulator of the plugin EP fails with it",
        "disable_file_mapped_weights": "it acts on Windows on Arm only",
    },
    "loads a library": {
        "backend_path qnn_saver_path qnn_ir_backend_path op_packages": (
            "loads the specified library. If QNN cannot use the library, the session silently uses the CPU"
        ),
        "enable_htp_shared_memory_allocator": "loads libcdsprpc from the search path",
    },
    "requires another refused option": {
        "skip_qnn_version_check": "it applies only to libraries that backend_path specifies",
        "enable_htp_fp16_precision htp_bf16_enable": "the EP accepts it only together with soc_model",
    },
    "writes files": {
        "profiling_level profiling_file_path": "writes a profile to a file",
        "dump_json_qnn_graph json_qnn_graph_dir dump_qnn_ir_dlc dump_qnn_ir_dlc_dir": (
            "writes the model to the current folder, or to a specified folder"
        ),
    },
    "acts outside the caller's session": {
        "soc_model": (
            "with the plugin EP, if a session has this option, runs of earlier QNN sessions of the process fail. "
            "Later sessions compute in float16"
        ),
        "enable_vtcm_backup_buffer_sharing": "all QNN sessions of the process share one backend",
    },
}
BUILT_IN = Table(
    {},
    {
        "not verified": {
            "backend_type device_id htp_graph_finalization_optimization_mode htp_performance_mode "
            "offload_graph_io_quantization qnn_context_priority rpc_control_latency vtcm_mb": (
                "the built-in EP of ORT for Windows was not run. The plugin EP accepts the option"
            )
        }
    },
    _REFUSED,
)
PLUGIN = Table(
    {
        "device_id": PLUGIN_DEVICE,
        # Not gpu and cpu: the session takes no node and only logs the reason, and the package lacks the cpu library.
        # Not saver, ir and genie: saver and ir write files, and return wrong outputs or none.
        "backend_type": Rule(
            Choice("htp"),
            "chosen by the EP, except on a CPU",
            "Qualcomm's QNN backend that runs the model. On x86, htp is a simulator.",
        ),
        "htp_graph_finalization_optimization_mode": _htp(Integer(0, 3), "0", "Effort of the HTP compiler."),
        "htp_performance_mode": _htp(Choice(*_HTP_MODES.split()), "default", "Clock and power of the HTP."),
        "offload_graph_io_quantization": switch_on("Lets another EP quantize the inputs and dequantize the outputs."),
        # Not the higher priorities of the EP: they would give a caller priority over all other callers.
        "qnn_context_priority": _htp(Choice("low", "normal"), "normal", "Priority of the session on the HTP."),
        "rpc_control_latency": _htp(Integer(0, 1000), "0", "Requested latency of the device in microseconds."),
        "vtcm_mb": _htp(Integer(1, 16), "the device's own", "Mebibytes of on-chip memory for a graph."),
    },
    _REFUSED,
    {
        "reads files": {"op_affinity": "reads the specified file, and an error quotes its first byte"},
        "writes files": {
            "enable_framework_op_trace framework_op_trace_dir dump_qnn_ep_input_graph dump_qnn_ep_input_graph_dir": (
                "writes the model or a trace to the current folder, or to a specified folder"
            )
        },
        "requires another refused option": {
            "enable_htp_prepare_only": "it acts only when the compiled model is written to a file"
        },
        "acts outside the caller's session": {
            "htp_share_resource_optimization": "sessions of the process share resources on the HTP"
        },
        "unsafe memory access": {"skip_backend_op_validation": "QNN would run operators that it did not validate"},
        "not verified": {
            "enable_dx12_shared_memory_allocator num_graph_prepare_threads": "it acts on Windows only",
            "enable_htp_graph_splitting htp_graph_splitting_num_prepare_threads": (
                "every run failed with it on the simulator"
            ),
            "htp_reused_io_limit_mb enable_htp_monolithic_lstm enable_htp_fp16_clamp_overflow "
            "enable_block_quant_weight_optimization enable_htp_prepare_and_load genie_log_level": (
                "not documented, and no effect was observed"
            ),
        },
    },
    reported=False,
)
