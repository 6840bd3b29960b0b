# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The allowlist of provider options: for every execution provider (EP) the options that may be named, with the values
that each takes. What is not here is refused.

ORT repeats the options that a plugin EP was given, unknown ones too, so that its report proves nothing: the tables of
plugins are not ``reported``. The effects named here were seen for real wherever the evidence says "run".
"""

from __future__ import annotations

from functools import partial

from onnx.defs import get_all_schemas

from onnxruntime.backend import provider_names as eps
from onnxruntime.backend.allowlist.circumstances import Circumstances
from onnxruntime.backend.allowlist.rules import Need, Rule, Table
from onnxruntime.backend.allowlist.value_kinds import Choice, Flag, Integer, Kind, Names, Text, Threads, usable_cores

# What is off by default, and what is on.
_switch = partial(Rule, Flag(), "0")
_switch_on = partial(Rule, Flag(), "1")
_DEVICE_INDEX = Integer(0, 63)
_ARENA_LIMIT = Rule(
    # A limit below this stops every model; one above it is no limit on any device there is.
    Integer(2**20, 2**48),
    "18446744073709551615",
    "Most bytes that the EP's memory arena may hold; a run beyond it fails.",
)
_ARENA_GROWTH = Rule(
    Choice("kNextPowerOfTwo", "kSameAsRequested"), "kNextPowerOfTwo", "How much the memory arena grows at a time."
)
# An operator type that does not exist excludes nothing, and ORT would not say so.
_OPERATORS = Names(
    lambda: {schema.name for schema in get_all_schemas()}, ",", accepts="operator types of ONNX, such as 'Conv',"
)
_PLUGIN_DEVICE = Rule(
    _DEVICE_INDEX,
    "0",
    "Which of the plugin's devices, counted as get_ep_devices() lists them. The backend picks it; the EP is not told.",
    reported=False,
    evidence="run",
)

# --- CUDA -------------------------------------------------------------------------------------------------------------


def _tuning_bounded(at: Circumstances, text: str) -> bool:
    bounded = at.beside.get("tunable_op_enable") == "1" and "tunable_op_max_tuning_duration_ms" in at.beside
    return text == "0" or bounded


_CUDA = Table("parser run: onnxruntime-gpu 1.31.1 on stub CUDA libraries") | {
    "device_id": Rule(_DEVICE_INDEX, "0", "Which CUDA device; ORT checks it against the device count."),
    "gpu_mem_limit": _ARENA_LIMIT,
    "arena_extend_strategy": _ARENA_GROWTH,
    "cudnn_conv_algo_search": Rule(
        Choice("EXHAUSTIVE", "HEURISTIC", "DEFAULT"),
        "EXHAUSTIVE",
        "How cuDNN picks convolution algorithms; another algorithm may change the last bits.",
    ),
    "cudnn_conv_use_max_workspace": _switch_on("Lets cuDNN search with the largest workspace."),
    "cudnn_conv1d_pad_to_nc1d": _switch("Pads a 1-D convolution to [N, C, 1, D], not [N, C, D, 1]."),
    "do_copy_in_default_stream": Rule(
        Flag(only_on="copies on a stream of their own race with the kernels that use the data, as ORT documents"),
        "1",
        "Copies between host and device on the stream that computes.",
    ),
    "enable_cuda_graph": _switch("Captures a run into a CUDA graph and replays it on later runs."),
    "enable_cudnn": _switch_on(
        "Off: cuDNN is neither loaded nor used, and operators that need it fail when run.", since=(1, 31)
    ),
    "enable_skip_layer_norm_strict_mode": _switch(
        "Uses a slower, more exact SkipLayerNormalization kernel.",
        until=(1, 28),  # ORT pull request 29388
        reported=False,
    ),
    "external_data_loader_reading_threads": Rule(
        Integer(0, 16),
        "4",
        "Threads that read external weights into pinned memory; 0 switches that off. ORT itself takes up to 64.",
        since=(1, 31),
    ),
    "fuse_conv_bias": _switch("Fuses convolution and bias through cuDNN's graph interface."),
    "prefer_nhwc": _switch("Prefers kernels in NHWC layout."),
    "sdpa_kernel": Rule(
        Integer(0, 1023), "0", "Bit mask of the attention kernels that may be used; 0 leaves the choice to ORT."
    ),
    "tunable_op_enable": _switch("Uses TunableOp kernels."),
    "tunable_op_tuning_enable": _switch(
        "Measures TunableOp kernels inside runs, keeps the fastest: timing and last bits depend on earlier runs.",
        needs=(Need("tunable_op_enable=1 and tunable_op_max_tuning_duration_ms, which bounds it", _tuning_bounded),),
    ),
    "tunable_op_max_tuning_duration_ms": Rule(
        Integer(1, 1000),
        "0",
        "Most milliseconds spent on tuning one operator; ORT's own default is no bound.",
        needs=(Need("tunable_op_tuning_enable=1", lambda at, _: at.beside.get("tunable_op_tuning_enable") == "1"),),
    ),
    "use_ep_level_unified_stream": _switch("All runs of the session share one CUDA stream."),
    "use_tf32": _switch_on("Lets float matmul and convolution use TF32."),
}

# --- TensorRT ---------------------------------------------------------------------------------------------------------

# TensorRT's parser, unlike that of CUDA, takes neither 1 nor 0.
_trt_switch = partial(Rule, Flag("False", "True"), "0")
_DLA = Need("trt_dla_enable", lambda at, _: at.beside.get("trt_dla_enable") == "True")
_TACTIC_SOURCES = ("CUBLAS", "CUBLAS_LT", "CUDNN", "EDGE_MASK_CONVOLUTIONS")

_TENSORRT = Table("parser run: onnxruntime-gpu 1.31.1 on stub CUDA and TensorRT libraries") | {
    "device_id": Rule(_DEVICE_INDEX, "0", "Which CUDA device; an absent one is an error of CUDA."),
    "trt_max_partition_iterations": Rule(Integer(1, 10000), "1000", "Most rounds of dividing the model."),
    "trt_min_subgraph_size": Rule(Integer(1, 1000000), "1", "Fewest nodes for which TensorRT takes a subgraph."),
    "trt_max_workspace_size": Rule(
        Integer(0, 2**40), "0", "Bytes of workspace while an engine is built; 0 leaves it to TensorRT."
    ),
    "trt_fp16_enable": _trt_switch("Lets TensorRT compute in float16."),
    "trt_bf16_enable": _trt_switch("Lets TensorRT compute in bfloat16."),
    "trt_int8_enable": _trt_switch("Lets TensorRT compute in int8, for models that carry scales."),
    "trt_dla_enable": _trt_switch("Computes on a DLA core, where the device has one."),
    "trt_dla_core": Rule(Integer(0, 7), "0", "Which DLA core.", needs=(_DLA,)),
    "trt_force_sequential_engine_build": _trt_switch("Builds engines one after the other."),
    "trt_context_memory_sharing_enable": _trt_switch("Subgraphs share their working memory."),
    "trt_layer_norm_fp32_fallback": _trt_switch("Computes layer normalization in float32."),
    "trt_sparsity_enable": _trt_switch("Lets TensorRT use kernels for sparse weights."),
    "trt_builder_optimization_level": Rule(Integer(0, 5), "3", "How hard TensorRT looks for fast kernels."),
    "trt_auxiliary_streams": Rule(
        Integer(-1, 8), "-1", "Most extra CUDA streams per inference stream; -1 leaves it to TensorRT, 0 saves memory."
    ),
    "trt_tactic_sources": Rule(
        Names({sign + name for sign in "+-" for name in _TACTIC_SOURCES}, ","),
        "none",
        "Kernel libraries that TensorRT may (+) or may not (-) use.",
    ),
    "trt_engine_hw_compatible": _trt_switch("Builds engines for every GPU from Ampere on."),
    "trt_op_types_to_exclude": Rule(_OPERATORS, "none", "Operator types that TensorRT leaves to other EPs."),
    "trt_cuda_graph_enable": _trt_switch("Captures TensorRT's work into one CUDA graph and replays it on later runs."),
}

# The plugin for RTX devices. The options at the end are those of the EP that older ORT had inside.
_TENSORRT_RTX = Table("parser run: onnxruntime-ep-nv-tensorrt-rtx-cu13 0.5.0 on stub libraries", reported=False) | {
    "device_id": _PLUGIN_DEVICE,
    "enable_cuda_graph": Rule(
        Flag(
            only_off="TensorRT-RTX captures and replays inside itself, where neither the buffers of its graphs nor "
            "an ordinary run to compare them with can be had"
        ),
        "1",
        "Lets TensorRT-RTX capture CUDA graphs inside itself. Off is always sent.",
    ),
    "nv_max_workspace_size": Rule(Integer(0, 2**40), "0", "Bytes of workspace while an engine is built."),
    "nv_max_shared_mem_size": Rule(Integer(0, 2**20), "0", "Bytes of shared memory that a kernel may use."),
    "nv_weight_streaming_budget": Rule(
        Text(r"-1|[0-9]{1,15}[BKMG]?|(?:100|[0-9]{1,2})%", "-1, bytes, a number with B, K, M or G, or 0% to 100%"),
        "0",
        "How much of the weights stays on the GPU.",
    ),
    "nv_op_types_to_exclude": Rule(_OPERATORS, "none", "Operator types that the EP leaves to others."),
    "nv_use_sync_gpu_allocator": _switch("Allocates with cudaMalloc, which rules out CUDA graphs."),
    "nv_persistent_context_memory": _switch("Keeps working memory from run to run."),
}

# --- AMD --------------------------------------------------------------------------------------------------------------


def _not_beside(other: str) -> tuple[Need, ...]:
    # Together they switch each other off, without an error.
    return (Need(f"{other} off", lambda at, text: text == "0" or at.beside.get(other) != "1"),)


_MIGRAPHX = Table("parser run: onnxruntime-migraphx 1.27.1 on stub HIP and MIGraphX libraries") | {
    "device_id": Rule(_DEVICE_INDEX, "0", "Which GPU; ORT checks it against the device count."),
    "migraphx_fp16_enable": _switch("Computes in float16.", needs=_not_beside("migraphx_bf16_enable")),
    "migraphx_bf16_enable": _switch("Computes in bfloat16.", needs=_not_beside("migraphx_fp16_enable")),
    "migraphx_fp8_enable": _switch("Computes in float8.", needs=_not_beside("migraphx_int8_enable")),
    "migraphx_int8_enable": _switch("Computes in int8.", needs=_not_beside("migraphx_fp8_enable")),
    "migraphx_exhaustive_tune": _switch("Tries every kernel when the model is compiled: slow."),
}

# --- CANN -------------------------------------------------------------------------------------------------------------

_CANN = Table("parser run: onnxruntime-cann 1.24.4 on stub ACL libraries") | {
    "device_id": Rule(_DEVICE_INDEX, "0", "Which NPU; ORT checks it against the device count."),
    "npu_mem_limit": _ARENA_LIMIT,
    "arena_extend_strategy": _ARENA_GROWTH,
    "enable_cann_graph": _switch_on("Compiles subgraphs as a whole; see dump_om_model."),
    "enable_cann_subgraph": _switch("Lets CANN divide the model."),
    "dump_om_model": Rule(
        Flag(only_off="the compiled model is written to the current folder"),
        "1",
        "Writes compiled models to the current folder. Sent as off where the caller does not say it.",
    ),
}

# --- OpenVINO ---------------------------------------------------------------------------------------------------------


def _device(at: Circumstances) -> str:
    return at.beside.get("device_type", "CPU")


_FP16_ON_GPU = Need("device_type='GPU' for FP16", lambda at, text: text != "FP16" or _device(at) == "GPU")
_WITH_CPU = Need("a device_type that names the CPU", lambda at, _: "CPU" in _device(at))
_WITHOUT_CPU = Need("a device_type without the CPU, to which it is not sent", lambda at, _: "CPU" not in _device(at))
_CPU_OR_GPU = Need("device_type CPU or GPU", lambda at, _: _device(at).startswith(("CPU", "GPU")))
_STREAMS = "Parallel streams: the CPU threads are divided among them, and each run uses one."
_OPENVINO_DEVICE = r"(?:CPU|GPU(?:\.[0-9])?|NPU)"

_OPENVINO_BUNDLED = Table("run: onnxruntime-openvino 1.24.1 on a CPU", reported=False) | {
    "device_type": Rule(
        Text(
            rf"{_OPENVINO_DEVICE}|(?:AUTO|HETERO|MULTI):{_OPENVINO_DEVICE}(?:,{_OPENVINO_DEVICE})*",
            "CPU, GPU, GPU.0 to GPU.9, NPU, or AUTO:, HETERO: or MULTI: before a list of different devices",
            max_bytes=64,
            # With AUTO:CPU,CPU, a run that must fail never ends. GPU and GPU.0 are the same device.
            once=r"(?<=[:,])(?:CPU|GPU(?:\.[1-9])?|NPU)",
        ),
        "CPU",
        "Which OpenVINO device computes; an absent one is an error. With AUTO:, HETERO: and MULTI: a CPU that has "
        "bfloat16 computes in it unless precision says FP32 or ACCURACY.",
    ),
    "precision": Rule(
        Choice("FP32", "FP16", "ACCURACY"),
        "FP32 on CPU, FP16 on GPU and NPU",
        "In which precision the device computes; ACCURACY keeps the model's.",
        needs=(_FP16_ON_GPU,),
    ),
    "num_of_threads": Rule(
        Threads(2),
        "0, OpenVINO decides",
        "CPU threads that compute, and how many runs may be under way at once.",
        needs=(_WITH_CPU,),
    ),
    "num_streams": Rule(Threads(1), "1", _STREAMS, needs=(_CPU_OR_GPU,)),
    "model_priority": Rule(
        Choice("LOW", "MEDIUM", "HIGH", "DEFAULT"),
        "DEFAULT",
        "Which sessions a busy GPU or NPU serves first.",
        needs=(_WITHOUT_CPU,),
        evidence="source: sent to OpenVINO only where device_type has no CPU; run: no effect on CPU",
    ),
}


def _openvino_plugin(section: str) -> Table:
    """The options of the OpenVINO plugin: it takes everything inside ``load_config``, by device.

    :param section: the part of ``load_config`` that the plugin's device reads; it ignores the others unchecked.
    """

    def inside(kind: Kind, default: str, effect: str, name: str) -> Rule:
        hardware = "CPU" if section == "CPU" else ""
        return Rule(kind, default, effect, within=("load_config", section, name), hardware=hardware)

    return Table("run: onnxruntime-ep-openvino 1.8.1 on a CPU", reported=False) | {
        "device_id": _PLUGIN_DEVICE,
        "num_of_threads": inside(Threads(2), "OpenVINO decides", "CPU threads that compute.", "INFERENCE_NUM_THREADS"),
        "num_streams": inside(Threads(1), "OpenVINO decides", _STREAMS, "NUM_STREAMS"),
        "precision": inside(
            # Not FP16: on a CPU without it OpenVINO computes in bfloat16 or float32 and does not say so.
            Choice(spelled={"FP32": "f32", "ACCURACY": "dynamic"}),
            "bfloat16 on a CPU that has it, else FP32",
            "In which precision a CPU computes; ACCURACY keeps the model's.",
            "INFERENCE_PRECISION_HINT",
        ),
    }


# --- QNN --------------------------------------------------------------------------------------------------------------

_QNN_PLUGIN = Table("run: onnxruntime-qnn 2.7.0 on its HTP simulator", reported=False) | {
    "device_id": _PLUGIN_DEVICE,
    "backend_type": Rule(
        # Not gpu and cpu: their session takes no node and only logs why, and the package lacks the library of cpu.
        # Not saver, ir and genie: the first two write files and compute wrong numbers or nothing.
        Choice("htp"),
        "by device; none on a CPU, where it must be named",
        "Which of Qualcomm's backends computes. On x86 htp is a simulator.",
    ),
    "htp_graph_finalization_optimization_mode": Rule(
        Integer(0, 3), "0", "How hard the HTP compiler works. The simulator shows no difference."
    ),
    "htp_performance_mode": Rule(
        Choice(
            *("default", "burst", "sustained_high_performance", "high_performance", "balanced", "low_balanced"),
            *("high_power_saver", "power_saver", "low_power_saver", "extreme_power_saver"),
        ),
        "default",
        "Clock and power of the HTP. The simulator takes it and has no clock to change.",
    ),
    "offload_graph_io_quantization": _switch_on(
        "Leaves quantizing the inputs and dequantizing the outputs to another EP."
    ),
    "qnn_context_priority": Rule(
        # The EP knows higher ones too: they would put a caller before all others.
        Choice("low", "normal"),
        "normal",
        "Priority of the session's work on the HTP. The simulator takes it without effect.",
    ),
    "rpc_control_latency": Rule(
        Integer(0, 1000), "0", "Microseconds of latency asked of the device. The simulator takes it without effect."
    ),
    "vtcm_mb": Rule(
        Integer(1, 16),
        "the device's own",
        "Mebibytes of on-chip memory for a graph. The simulator takes it without effect.",
    ),
}

# --- WebGPU -----------------------------------------------------------------------------------------------------------

_INT64 = Need(
    "enableGraphCapture off to be off", lambda at, text: text == "1" or at.beside.get("enableGraphCapture") != "1"
)


def _webgpu(no_capture: str = "") -> dict[str, Rule]:
    """The options that both WebGPU EPs know.

    :param no_capture: why graphs cannot be captured.
    """
    return {
        "preferredLayout": Rule(Choice("NHWC", "NCHW"), "NHWC", "Layout that operators with one are rewritten to."),
        "enableInt64": _switch("Keeps int64 operators on the GPU.", since=(1, 25), needs=(_INT64,)),
        "enableGraphCapture": Rule(
            Flag(only_off=no_capture), "0", "Captures the GPU commands of a run and replays them on later runs."
        ),
    }


# It reports no option.
_WEBGPU_BUNDLED = Table("run: onnxruntime-webgpu 1.27.0 on a software GPU", reported=False) | _webgpu(
    "ORT would replay the captured graph on memory that an ordinary run has freed, and return zeros; its "
    "bundled WebGPU EP, up to 1.29, has no way to allocate the device memory that captured runs need"
)
_WEBGPU_PLUGIN = Table("run: onnxruntime-ep-webgpu 0.4.0 on a software GPU", reported=False) | {
    "device_id": _PLUGIN_DEVICE,
    **_webgpu(),
}

# --- All of them ------------------------------------------------------------------------------------------------------

# What the EP is told where the caller does not say it, because its own default does what the allowlist refuses.
ALWAYS: dict[tuple[str, str], dict[str, object]] = {
    (eps.CANN, "built-in"): {"dump_om_model": False},
    (eps.NV_TENSORRT_RTX, "plugin"): {"enable_cuda_graph": False},
}

# Conditions on naming an EP at all.
_TWO_CORES = Need(
    # On one core OpenVINO computes with one thread, whatever num_of_threads says. Seen with onnxruntime-openvino 1.24.1
    # and onnxruntime-ep-openvino 1.8.1, on one CPU and on two of one core, with every device_type but these.
    "two CPU cores that this process may use, or device_type 'AUTO:CPU'",
    lambda at, _: at.beside.get("device_type", "").startswith(("AUTO:", "MULTI:", "GPU", "NPU")) or usable_cores() > 1,
    without="a run that must fail returns what the run before it returned, and sessions crash the process",
)
_TWO_CORES_OR_AUTO = Need(
    "two CPU cores that this process may use; OpenVINOExecutionProvider.AUTO does not",
    lambda _, __: usable_cores() > 1,
    without=_TWO_CORES.without,
)
PROVIDER_NEEDS: dict[tuple[str, str], tuple[Need, ...]] = {
    (eps.OPENVINO, "built-in"): (_TWO_CORES,),
    (eps.OPENVINO, "plugin"): (_TWO_CORES_OR_AUTO,),
}

NO_OPTION = Table("no option is permitted")
# A plugin that is in no table, which the application trusted enough to register.
ANY_PLUGIN = Table("run") | {"device_id": _PLUGIN_DEVICE}
# EPs of which every option is refused, or that have none; all are inside ORT.
_WITHOUT_OPTION = "Dml CoreML VitisAI Xnnpack ACL Dnnl Js WebNN ArmNN Azure Nnapi Rknpu VSINPU"
# EP name to the options of the EP inside ORT ("built-in") and of a plugin, where there is such an EP and it was judged.
PROVIDERS: dict[str, dict[str, Table]] = {
    eps.CPU: {"built-in": NO_OPTION},
    eps.CUDA: {"built-in": _CUDA, "plugin": NO_OPTION},
    eps.TENSORRT: {"built-in": _TENSORRT},
    eps.NV_TENSORRT_RTX: {"plugin": _TENSORRT_RTX},
    eps.MIGRAPHX: {"built-in": _MIGRAPHX},
    eps.CANN: {"built-in": _CANN},
    eps.OPENVINO: {"built-in": _OPENVINO_BUNDLED, "plugin": _openvino_plugin("CPU")},
    f"{eps.OPENVINO}.AUTO": {"plugin": _openvino_plugin("AUTO")},
    eps.QNN: {"built-in": NO_OPTION, "plugin": _QNN_PLUGIN},
    eps.WEBGPU: {"built-in": _WEBGPU_BUNDLED, "plugin": _WEBGPU_PLUGIN},
    **{f"{name}ExecutionProvider": {"built-in": NO_OPTION} for name in _WITHOUT_OPTION.split()},
    "MLXExecutionProvider": {"plugin": ANY_PLUGIN},  # strings: onnxruntime-ep-mlx 0.31.0 reads no options
}
