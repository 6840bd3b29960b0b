# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Options of EPs with few options.

The parsers of onnxruntime-migraphx 1.27.1 and onnxruntime-cann 1.24.4 read theirs, on stubs of the libraries. The other
EPs were not run: their options are those of ORT's source code.
"""

from onnxruntime.backend.allowlist import cuda
from onnxruntime.backend.allowlist.common_options import DEVICE, SENT_OFF
from onnxruntime.backend.allowlist.rules import Need, Rule, Table, switch, switch_on
from onnxruntime.backend.allowlist.value_kinds import Fixed
from onnxruntime.backend.provider_names import MIGRAPHX as MIGRAPHX_EP


def _not_beside(other: str) -> tuple[Need, ...]:
    # Together, they disable each other without an error.
    return (Need(f"{other}=0", lambda facts, text: text == "0" or facts.option(MIGRAPHX_EP, other) != "1"),)


MIGRAPHX = Table(
    {
        "device_id": DEVICE,
        "migraphx_fp16_enable": switch("Computes in float16.", needs=_not_beside("migraphx_bf16_enable")),
        "migraphx_bf16_enable": switch("Computes in bfloat16.", needs=_not_beside("migraphx_fp16_enable")),
        "migraphx_fp8_enable": switch("Computes in float8.", needs=_not_beside("migraphx_int8_enable")),
        "migraphx_int8_enable": switch("Computes in int8.", needs=_not_beside("migraphx_fp8_enable")),
        "migraphx_exhaustive_tune": switch("Tries all kernels when it compiles the model, which is slow."),
    },
    {
        "no effect": {"migraphx_mem_limit migraphx_arena_extend_strategy": "the EP reads it, but keeps the default"},
        "reads files": {
            "migraphx_int8_calibration_table_name migraphx_int8_use_native_calibration_table": (
                "reads a calibration table from a file. A file of another kind crashes the process"
            )
        },
        "writes files": {
            "migraphx_model_cache_dir migraphx_save_compiled_model migraphx_save_model_path "
            "migraphx_load_compiled_model migraphx_load_model_path": (
                "writes compiled models to files, and loads the files that exist"
            )
        },
        "raw pointer": {
            "migraphx_external_alloc migraphx_external_free migraphx_external_empty_cache": (
                "ORT calls the number as a function"
            )
        },
        "not verified": {
            "migraphx_max_dynamic_batch migraphx_max_compiled_models": (
                "onnxruntime-migraphx 1.27.1 does not have this option. Only the source code of ORT contains it"
            )
        },
    },
)

_NO_FILE = Fixed(False, "CANN would write the compiled model to the current folder")
CANN = Table(
    {
        "device_id": DEVICE,
        "npu_mem_limit": cuda.BUILT_IN["gpu_mem_limit"],
        "arena_extend_strategy": cuda.BUILT_IN["arena_extend_strategy"],
        "enable_cann_graph": switch_on("Compiles each subgraph as a unit."),
        "enable_cann_subgraph": switch("Lets CANN partition the model."),
        "dump_om_model": Rule(_NO_FILE, SENT_OFF, "Writes compiled models to the current folder.", always_off=True),
    },
    {
        "writes files": {"dump_graphs": "writes parts of the model to the current folder"},
        "not verified": {
            "precision_mode op_select_impl_mode optypelist_for_implmode": (
                "any text is accepted when the session is created, and its effect was not verified on an NPU"
            ),
            "precision_mode_v2 input_format dynamic_batch_size dynamic_image_size dynamic_dims": (
                "onnxruntime-cann 1.24.4 does not have this option. Only the source code of ORT contains it"
            ),
        },
    },
)
DML = Table(
    {},
    {
        "not verified": {
            "device_id performance_preference device_filter disable_metacommands": (
                "neither the EP nor its parser was run"
            )
        },
        "no effect": {
            "ep.dml.disable_graph_fusion ep.dml.enable_graph_serialization ep.dml.enable_graph_capture "
            "ep.dml.enable_cpu_sync_spinning ep.dml.disable_memory_arena": (
                "the EP reads it from the session config only, where keys that begin with ep. are refused"
            )
        },
    },
)
COREML = Table(
    {},
    {
        "not verified": {
            "MLComputeUnits ModelFormat RequireStaticInputShapes EnableOnSubgraphs SpecializationStrategy "
            "AllowLowPrecisionAccumulationOnGPU": "neither the EP nor its parser was run"
        },
        "discloses data": {"ProfileComputePlan": "logs how each operator runs"},
        "writes files": {"ModelCacheDirectory": "writes models to that folder, and loads the models in it"},
        "set by another argument": {
            "flags": "an old form of the other options. If flags is set, the EP ignores the other options"
        },
    },
)
VITISAI = Table(
    {},
    {
        "loads a library": {"external_ep_library": "loads the specified library"},
        "raw pointer": {"session_options": "the number is used as the address of the session's options"},
        "not verified": {
            "config_file cache_dir cache_key cacheDir cacheKey xclbin target enable_cache_file_io_in_mem "
            "log_level encryptionKey ai_analyzer_visualization ai_analyzer_profiling opt_level "
            "ep_context_enable ep_context_embed_mode ep_context_file_path ort_session_config.*": (
                "the EP passes every option unchecked to a closed library, which reads and writes files for some of "
                "them"
            )
        },
    },
)
FEW_OPTIONS = {
    "Xnnpack": Table({}, {"not verified": {"intra_op_num_threads": "neither the EP nor its parser was run"}}),
    "ACL": Table({}, {"not verified": {"enable_fast_math": "neither the EP nor its parser was run"}}),
    "Dnnl": Table({}, {"not verified": {"num_of_threads": "neither the EP nor its parser was run"}}),
    "Js": Table({}, {"no effect": {"preferredLayout": "Python cannot attach the EP"}}),
    "WebNN": Table({}, {"no effect": {"deviceType": "Python cannot attach the EP"}}),
}
