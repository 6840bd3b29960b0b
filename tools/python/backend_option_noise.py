# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Texts in ORT's native libraries that look like options or keys to the drift check, with the reason why they are not.

The check would miss an option of the same name. Keep the list short.
"""


def _because(reason: str, *texts: str) -> dict[str, str]:
    return dict.fromkeys(texts, reason)


NOISE: dict[str, str] = {
    **_because("a value of flags", "false", "true"),
    **_because("the name of the log", "onnxruntime"),
    **_because("the C++ library's own name for its error messages", "stoi", "stoll", "stoull"),
    **_because("a character class of the C++ library's regular expressions", "punct", "space", "upper", "xdigit"),
    **_because("the end of a source file's name or of a type's, read from adjacent constants",
               "er_bridge_ort.cc", "ptionsV2"),
    **_because("parts of two keys that the code joins", "session.enable_pnode_mem",
               "session.enable_pnode_memory_station", "session.optimizenode_memory_stats_to_file"),
    **_because("a field of OrtArenaCfg", "initial_chunk_size_bytes", "initial_growth_chunk_size_bytes",
               "max_dead_bytes_per_chunk", "max_mem", "max_power_of_two_extend_bytes"),
    **_because("an optimizer of other EPs than the CPU EP, or one that was not seen to act", "LabelEncoderFusion",
               "MatMulNBitsMlpFusion", "MatMulNBitsQLoRAFusion", "MatMulNBitsQkvFusion", "UnsqueezeElimination"),
    **_because("an operator, or another name in the code that creates optimizers", "GenerateRuleBasedGraphTransformer",
               "MatMulNBitsMlp", "MatMulNBitsQLoRA", "MatMulNBitsQkv", "TransposeOptimizer_"),
    **_because("a value of arena_extend_strategy", "kNextPowerOfTwo", "kSameAsRequested"),
    **_because("TensorRT: a function of a library that decrypts engines", "decrypt", "encrypt"),
    **_because("OpenVINO: a key of a device's own description", "ov_device", "ov_meta_device"),
    **_because("OpenVINO: part of the names of a language model's inputs and outputs", "past_key_values", "present"),
    **_because("OpenVINO: an attribute of a node in OpenVINO's own graph", "ov_node_type"),
    **_because("OpenVINO: a field of a trace event", "parent_ort_event_name"),
    **_because("QNN: a value of backend_type", "cpu", "genie", "gpu", "htp", "saver"),
    **_because("QNN: a value of profiling_level", "basic", "detailed", "off", "optrace"),
    **_because("QNN: a value of genie_log_level", "info", "verbose", "warn"),
    **_because("QNN: a value of qnn_context_priority",
               "critical", "critical_plus", "high", "high_plus", "low", "normal", "normal_high", "normal_low"),
    **_because("QNN: a field of the JSON that describes a graph or a trace",
               "compilation_target", "graph_name", "model_name", "op_mappings", "schema_version", "soc_traces",
               "subgraph_traces", "tensor_mappings"),
}  # fmt: skip
