# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The properties of OpenVINO's own API, and the options of earlier releases of its EP: what replaces each name."""

from __future__ import annotations

from collections.abc import Container, Mapping

from onnxruntime.backend.refusals.verdicts import Refused

# The option that replaces a name in lower case. An option of the same name, such as CACHE_DIR, is not listed.
_OPTIONS = {
    "blob_dump_path": "cache_dir",
    "cpu_threads_num": "num_of_threads",
    "cpu_throughput_streams": "num_streams",
    "device": "device_type",
    "device_name": "device_type",
    "enable_dynamic_shapes": "disable_dynamic_shapes",
    "export_ep_ctx_blob": "cache_dir",
    "inference_num_threads": "num_of_threads",
    "inference_precision": "precision",
    "inference_precision_hint": "precision",
    "num_threads": "num_of_threads",
    "streams": "num_streams",
    "threads": "num_of_threads",
    "use_compiled_network": "cache_dir",
}
# The hints that decide the number of streams.
_HINTS = frozenset({"num_requests", "performance_hint", "performance_hint_num_requests", "performance_mode"})
_PROPERTIES = _HINTS | {
    "activations_scale_factor",
    "affinity",
    "allow_auto_batching",
    "auto_batch_timeout",
    "cache_encryption_callbacks",
    "cache_mode",
    "compilation_num_threads",
    "config_file",
    "cpu_bind_thread",
    "cpu_denormals_optimization",
    "cpu_sparse_weights_decompression_rate",
    "denormals_optimization",
    "device_priorities",
    "dynamic_quantization_group_size",
    "enable_cpu_pinning",
    "enable_cpu_reservation",
    "enable_hyper_threading",
    "enable_mmap",
    "enable_profiling",
    "execution_mode",
    "execution_mode_hint",
    "force_tbb_terminate",
    "gpu_enable_loop_unrolling",
    "key_cache_precision",
    "kv_cache_precision",
    "log_level",
    "model_distribution_policy",
    "npu_compilation_mode_params",
    "npu_turbo",
    "perf_count",
    "scheduling_core_type",
    "sparse_weights_decompression_rate",
    "value_cache_precision",
    "weights_path",
    "workload_type",
}
_REMOVED = frozenset({"enable_vpu_fast_compile"})


def instead(name: str, permitted: Container[str], refused: Mapping[str, Refused]) -> str:
    """Return the sentences about a name that the EP does not have, or ``""``.

    :param permitted: the permitted options of the EP.
    :param refused: the refused options of the EP.
    """
    folded = name.strip().lower()
    option = _OPTIONS.get(folded, folded)
    if option in permitted:
        return f". The EP has the option '{option}' instead"
    if option in refused:
        return f". The EP has the option '{option}' instead, which is refused: {refused[option].text()}"
    if folded in _REMOVED:
        return ". Earlier releases of the EP had this option, and no option replaces it"
    if folded not in _PROPERTIES:
        return ""
    advice = ". Only the option load_config sets this property of OpenVINO"
    if "load_config" in refused:
        advice += f", and it is refused: {refused['load_config'].text()}"
    if folded in _HINTS:
        advice += ". The hint decides the number of streams. To set this number, use 'num_streams'"
    return advice
