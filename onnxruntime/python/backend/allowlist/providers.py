# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Permitted options of each execution provider (EP), with the values that each accepts. All other options are refused.

ORT repeats all options of a plugin EP, even unknown ones. Its report proves nothing, so the tables of plugin EPs are
``_unreported``. docs/options-evidence.md lists how the effect of each option is known.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial

from onnx.defs import get_all_schemas

from onnxruntime.backend import provider_names as eps
from onnxruntime.backend.allowlist import value_kinds
from onnxruntime.backend.allowlist.rules import Circumstances, Need, Rule, Setting, texts_of
from onnxruntime.backend.allowlist.value_kinds import Choice, Fixed, Flag, Integer, Kind, Names, Text, Threads

_switch = partial(Rule, Flag(), "0")
_switch_on = partial(Rule, Flag(), "1")
_DEVICE = Rule(Integer(0, 63), "0", "Index of the device. If the device does not exist, prepare raises an error.")
_ARENA_LIMIT = Rule(
    # A lower limit stops each model, and a higher limit has no effect on any device.
    Integer(2**20, 2**48),
    "18446744073709551615",
    "Maximum size of the EP's memory arena in bytes. A run that needs more fails.",
)
_ARENA_GROWTH = Rule(Choice("kNextPowerOfTwo", "kSameAsRequested"), "kNextPowerOfTwo", "How the memory arena grows.")
# An operator type that does not exist excludes nothing, and ORT does not report this.
_OPERATORS = Names(lambda: {schema.name for schema in get_all_schemas()}, "ONNX operator types, joined by ','", ",")
_PLUGIN_DEVICE = _DEVICE._replace(
    effect="Index among the plugin's devices in get_ep_devices(). The backend uses the device with this index."
)
_bytes = partial(Rule, Integer(0, 2**40), "0")
_SENT_OFF = "1 (the backend always sends 0)"

_ONE_STREAM = Fixed(True, "copies on another stream race with the kernels that use the data, as ORT documents")
_TUNING, _TUNING_LIMIT = "tunable_op_tuning_enable", "tunable_op_max_tuning_duration_ms"
_BOUNDED = Need(
    f"tunable_op_enable=1, and {_TUNING_LIMIT} as its limit",
    lambda facts, text: text == "0" or (facts.beside.get("tunable_op_enable") == "1" and _TUNING_LIMIT in facts.beside),
)
_TUNED = Need(f"{_TUNING}=1", lambda facts, _: facts.beside.get(_TUNING) == "1")
_CUDA = {
    "device_id": _DEVICE,
    "gpu_mem_limit": _ARENA_LIMIT,
    "arena_extend_strategy": _ARENA_GROWTH,
    "cudnn_conv_algo_search": Rule(
        Choice("EXHAUSTIVE", "HEURISTIC", "DEFAULT"),
        "EXHAUSTIVE",
        "How cuDNN selects convolution algorithms. Another algorithm can change the last bits of outputs.",
    ),
    "cudnn_conv_use_max_workspace": _switch_on("Lets cuDNN search with the largest workspace."),
    "cudnn_conv1d_pad_to_nc1d": _switch("Pads a 1-D convolution to [N, C, 1, D] instead of [N, C, D, 1]."),
    "do_copy_in_default_stream": Rule(_ONE_STREAM, "1", "Copies between host and device on the compute stream."),
    "enable_cuda_graph": _switch("Captures a run as a CUDA graph and replays it in later runs."),
    "enable_cudnn": _switch_on("Off: ORT does not load cuDNN. Operators that need it fail in a run.", since=(1, 31)),
    # Ignored since ORT pull request 29388.
    "enable_skip_layer_norm_strict_mode": _switch("Uses a slower, more exact kernel.", until=(1, 28), reported=False),
    "external_data_loader_reading_threads": Rule(
        Integer(0, 16), "4", "Threads that read external weights into pinned memory. 0: off.", since=(1, 31)
    ),
    "fuse_conv_bias": _switch("Fuses convolution and bias with cuDNN's graph API."),
    "prefer_nhwc": _switch("Prefers kernels in NHWC layout."),
    "sdpa_kernel": Rule(Integer(0, 1023), "0", "Bit mask of the permitted attention kernels. 0: ORT chooses."),
    "tunable_op_enable": _switch("Uses TunableOp kernels."),
    _TUNING: _switch(
        "Measures TunableOp kernels in runs and keeps the fastest. The duration of a run and the last bits of its "
        "outputs depend on earlier runs.",
        needs=(_BOUNDED,),
    ),
    _TUNING_LIMIT: Rule(Integer(1, 1000), "0", "Maximum milliseconds per operator. 0: no limit.", needs=(_TUNED,)),
    "use_ep_level_unified_stream": _switch("Lets all runs of the session share one CUDA stream."),
    "use_tf32": _switch_on("Lets float matmul and convolution use TF32."),
}

# Unlike CUDA's parser, TensorRT's parser accepts neither 1 nor 0.
_trt_switch = partial(Rule, Flag("False", "True"), "0")
_DLA = Need("trt_dla_enable=1", lambda facts, _: facts.beside.get("trt_dla_enable") == "True")
_TACTICS = [sign + name for sign in "+-" for name in ("CUBLAS", "CUBLAS_LT", "CUDNN", "EDGE_MASK_CONVOLUTIONS")]

_TENSORRT = {
    "device_id": _DEVICE,
    "trt_max_partition_iterations": Rule(Integer(1, 10000), "1000", "Maximum number of partitioning iterations."),
    "trt_min_subgraph_size": Rule(Integer(1, 1000000), "1", "Minimum number of nodes of a subgraph for TensorRT."),
    "trt_max_workspace_size": _bytes("Bytes of workspace for building an engine. 0: TensorRT chooses."),
    "trt_fp16_enable": _trt_switch("Lets TensorRT compute in float16."),
    "trt_bf16_enable": _trt_switch("Lets TensorRT compute in bfloat16."),
    "trt_int8_enable": _trt_switch("Lets TensorRT compute in int8, for models that contain scales."),
    "trt_dla_enable": _trt_switch("Computes on a DLA core if the device has one."),
    "trt_dla_core": Rule(Integer(0, 7), "0", "Index of the DLA core.", needs=(_DLA,)),
    "trt_force_sequential_engine_build": _trt_switch("Builds engines one at a time."),
    "trt_context_memory_sharing_enable": _trt_switch("Lets subgraphs share their working memory."),
    "trt_layer_norm_fp32_fallback": _trt_switch("Computes layer normalization in float32."),
    "trt_sparsity_enable": _trt_switch("Lets TensorRT use kernels for sparse weights."),
    "trt_builder_optimization_level": Rule(Integer(0, 5), "3", "Effort of TensorRT's search for fast kernels."),
    "trt_auxiliary_streams": Rule(
        Integer(-1, 8), "-1", "Maximum auxiliary streams of each CUDA stream. -1: TensorRT chooses."
    ),
    "trt_tactic_sources": Rule(
        Names(lambda: _TACTICS, f"names from this list, joined by ',': {', '.join(_TACTICS)}", ","),
        "none",
        "Kernel libraries that TensorRT uses (+) or does not use (-).",
    ),
    "trt_engine_hw_compatible": _trt_switch("Builds engines for all GPUs from Ampere on."),
    "trt_op_types_to_exclude": Rule(_OPERATORS, "none", "Operator types that TensorRT does not run."),
    "trt_cuda_graph_enable": _trt_switch("Captures TensorRT's work as one CUDA graph and replays it in later runs."),
}

_INTERNAL_GRAPHS = Fixed(
    False,
    "TensorRT-RTX captures and replays graphs internally. The backend cannot own the buffers of a replay, and "
    "cannot compare the replay with a run without capture",
    always=True,
)
_BUDGET = Text(r"-1|[0-9]{1,15}[BKMG]?|(?:100|[0-9]{1,2})%", "-1, bytes, a number with B, K, M or G, or 0% to 100%")
_TENSORRT_RTX = {
    "device_id": _PLUGIN_DEVICE,
    "enable_cuda_graph": Rule(_INTERNAL_GRAPHS, _SENT_OFF, "Lets TensorRT-RTX capture CUDA graphs internally."),
    "nv_max_workspace_size": _bytes("Bytes of workspace for building an engine."),
    "nv_max_shared_mem_size": Rule(Integer(0, 2**20), "0", "Maximum bytes of shared memory for a kernel."),
    "nv_weight_streaming_budget": Rule(_BUDGET, "0", "Amount of the weights that stays on the GPU."),
    "nv_op_types_to_exclude": Rule(_OPERATORS, "none", "Operator types that the EP does not run."),
    "nv_use_sync_gpu_allocator": _switch("Allocates with cudaMalloc, which CUDA graphs do not support."),
    "nv_persistent_context_memory": _switch("Keeps working memory between runs."),
}


def _not_beside(other: str) -> tuple[Need, ...]:
    # Together, they disable each other without an error.
    return (Need(f"{other}=0", lambda facts, text: text == "0" or facts.beside.get(other) != "1"),)


_MIGRAPHX = {
    "device_id": _DEVICE,
    "migraphx_fp16_enable": _switch("Computes in float16.", needs=_not_beside("migraphx_bf16_enable")),
    "migraphx_bf16_enable": _switch("Computes in bfloat16.", needs=_not_beside("migraphx_fp16_enable")),
    "migraphx_fp8_enable": _switch("Computes in float8.", needs=_not_beside("migraphx_int8_enable")),
    "migraphx_int8_enable": _switch("Computes in int8.", needs=_not_beside("migraphx_fp8_enable")),
    "migraphx_exhaustive_tune": _switch("Tries all kernels when it compiles the model, which is slow."),
}

_NO_FILE = Fixed(False, "CANN would write the compiled model to the current folder", always=True)
_CANN = {
    "device_id": _DEVICE,
    "npu_mem_limit": _ARENA_LIMIT,
    "arena_extend_strategy": _ARENA_GROWTH,
    "enable_cann_graph": _switch_on("Compiles each subgraph as a unit."),
    "enable_cann_subgraph": _switch("Lets CANN partition the model."),
    "dump_om_model": Rule(_NO_FILE, _SENT_OFF, "Writes compiled models to the current folder."),
}


def _device(facts: Circumstances) -> str:
    return facts.beside.get("device_type", "CPU")


_FP16_ON_GPU = Need(
    "device_type='GPU' for the value FP16", lambda facts, text: text != "FP16" or _device(facts) == "GPU"
)
_WITH_CPU = Need("a device_type that contains CPU", lambda facts, _: "CPU" in _device(facts))
_WITHOUT_CPU = Need("a device_type that does not contain CPU", lambda facts, _: "CPU" not in _device(facts))
_CPU_OR_GPU = Need(
    "a device_type that begins with CPU or GPU", lambda facts, _: _device(facts).startswith(("CPU", "GPU"))
)
_STREAMS = "Streams, which share the CPU threads. Each of the parallel runs of a session uses one stream."
_TWO_THREADS = Threads(
    2,
    "a run that fails can return the output of the previous run, or terminate the process (a defect of OpenVINO)",
)
_OPENVINO_DEVICE = r"(?:CPU|GPU(?:\.[0-9])?|NPU)"

_OPENVINO_BUNDLED = {
    "device_type": Rule(
        Text(
            rf"{_OPENVINO_DEVICE}|(?:AUTO|HETERO|MULTI):{_OPENVINO_DEVICE}(?:,{_OPENVINO_DEVICE})*",
            "a device (CPU, GPU, GPU.0 to GPU.9, NPU), or AUTO:, HETERO: or MULTI: and a list of different devices",
            max_bytes=64,
            # With AUTO:CPU,CPU, a run that should raise an error hangs. GPU and GPU.0 are the same device.
            once=r"(?<=[:,])(?:CPU|GPU(?:\.[1-9])?|NPU)",
        ),
        "CPU",
        # With AUTO:, HETERO: and MULTI:, OpenVINO's own default is bfloat16.
        "OpenVINO device. With AUTO:, HETERO: and MULTI:, a CPU that supports bfloat16 computes in bfloat16 if "
        "precision is not set.",
    ),
    "precision": Rule(
        Choice("FP32", "FP16", "ACCURACY"),
        "FP32 on CPU, FP16 on GPU and NPU",
        "Precision of the device. ACCURACY: the model's precision. To use FP16 on an NPU, do not set the option.",
        needs=(_FP16_ON_GPU,),
    ),
    "num_of_threads": Rule(_TWO_THREADS, "0, OpenVINO decides", "CPU threads of the session.", needs=(_WITH_CPU,)),
    "num_streams": Rule(Threads(1), "1", _STREAMS, needs=(_CPU_OR_GPU,)),
    "model_priority": Rule(
        Choice("LOW", "MEDIUM", "HIGH", "DEFAULT"),
        "DEFAULT",
        "Priority of the session on a busy GPU or NPU.",
        needs=(_WITHOUT_CPU,),
    ),
}


_OPENVINO_PLUGIN = {
    "device_id": _PLUGIN_DEVICE,
    "num_of_threads": Rule(_TWO_THREADS, "OpenVINO decides", "CPU threads of the session."),
    "num_streams": Rule(Threads(1), "OpenVINO decides", _STREAMS),
    "precision": Rule(
        # Not FP16: on a CPU without FP16, OpenVINO silently computes in bfloat16 or float32.
        Choice(FP32="f32", ACCURACY="dynamic"),
        "bfloat16 on a CPU that has it, else FP32",
        "Precision of a CPU. ACCURACY: the model's precision.",
    ),
}
# The plugin reads these options only inside load_config, in the section of the device that runs the model.
_PROPERTIES = {
    "num_of_threads": "INFERENCE_NUM_THREADS",
    "num_streams": "NUM_STREAMS",
    "precision": "INFERENCE_PRECISION_HINT",
}
_SECTIONS = {eps.OPENVINO: "CPU", eps.OPENVINO_AUTO: "AUTO"}


def option_texts(name: str, kind: str, settings: Mapping[str, Setting]) -> dict[str, str]:
    """Return the texts of an EP's options as ORT receives them."""
    texts = texts_of(settings)
    if kind == "plugin" and name in _SECTIONS:
        inside = {_PROPERTIES[option]: texts.pop(option) for option in settings if option in _PROPERTIES}
        return texts | ({"load_config": json.dumps({_SECTIONS[name]: inside})} if inside else {})
    return texts


def hardware_for(name: str, option: str) -> str:
    """Return the only kind of a plugin EP's devices that reads an option, as ORT names this kind, or ``""``."""
    return _SECTIONS[name] if name == eps.OPENVINO and option in _PROPERTIES else ""


def _htp(kind: Kind, default: str, effect: str) -> Rule:
    return Rule(kind, default, f"{effect} No effect on the simulator.")


_HTP_MODES = (
    "default burst sustained_high_performance high_performance balanced low_balanced high_power_saver power_saver "
    "low_power_saver extreme_power_saver"
)
_QNN_PLUGIN = {
    "device_id": _PLUGIN_DEVICE,
    # Not gpu and cpu: the session takes no node and only logs the reason, and the package lacks the cpu library.
    # Not saver, ir and genie: saver and ir write files, and return wrong outputs or none.
    "backend_type": Rule(
        Choice("htp"),
        "chosen by the EP, except on a CPU",
        "Qualcomm's QNN backend that runs the model. On x86, htp is a simulator.",
    ),
    "htp_graph_finalization_optimization_mode": _htp(Integer(0, 3), "0", "Effort of the HTP compiler."),
    "htp_performance_mode": _htp(Choice(*_HTP_MODES.split()), "default", "Clock and power of the HTP."),
    "offload_graph_io_quantization": _switch_on("Lets another EP quantize the inputs and dequantize the outputs."),
    # Not the higher priorities of the EP: they would give a caller priority over all other callers.
    "qnn_context_priority": _htp(Choice("low", "normal"), "normal", "Priority of the session on the HTP."),
    "rpc_control_latency": _htp(Integer(0, 1000), "0", "Requested latency of the device in microseconds."),
    "vtcm_mb": _htp(Integer(1, 16), "the device's own", "Mebibytes of on-chip memory for a graph."),
}

_INT64 = Need(
    "a value other than 0 if the session captures graphs",
    lambda facts, text: text == "1" or facts.beside.get("enableGraphCapture") != "1",
)
_WEBGPU = {
    "preferredLayout": Rule(Choice("NHWC", "NCHW"), "NHWC", "Layout of operators that support both layouts."),
    "enableInt64": _switch("Keeps int64 operators on the GPU.", since=(1, 25)),
}
_CAPTURE = "Captures the GPU commands of a run and replays them in later runs."
_NO_CAPTURE = Fixed(
    False,
    "the backend cannot allocate fixed device buffers with the built-in WebGPU EP. Without these buffers, a replay "
    "reads freed memory and returns zeros",
)
_WEBGPU_BUNDLED = _WEBGPU | {"enableGraphCapture": Rule(_NO_CAPTURE, "0", _CAPTURE)}
_WEBGPU_PLUGIN = {
    "device_id": _PLUGIN_DEVICE,
    **_WEBGPU,
    "enableInt64": _switch(
        "Keeps int64 operators on the GPU. Always on if the session captures graphs.", since=(1, 25), needs=(_INT64,)
    ),
    "enableGraphCapture": _switch(_CAPTURE),
}

# The condition for an EP to be in a session.
PROVIDER_NEEDS = {
    eps.OPENVINO: Need(
        # On one core, OpenVINO uses one thread for any value of num_of_threads. This is so for onnxruntime-openvino
        # 1.24.1 and onnxruntime-ep-openvino 1.8.1, on one CPU and on two CPUs of one core.
        "two CPU cores that this process may use, or device_type 'AUTO:CPU' (plugin: OpenVINOExecutionProvider.AUTO)",
        lambda facts, _: _device(facts).startswith(("AUTO:", "MULTI:", "GPU", "NPU")) or value_kinds.usable_cores() > 1,
        without="a run that must fail returns the outputs of the previous run, and sessions crash the process",
    )
}


def _unreported(rules: Mapping[str, Rule]) -> dict[str, Rule]:
    """Return the rules of an EP that reports no option, or reports each option."""
    return {name: rule._replace(reported=False) for name, rule in rules.items()}


# A plugin without a table. The application trusts it, because it has registered it.
ANY_PLUGIN = _unreported({"device_id": _PLUGIN_DEVICE})
_WITHOUT_OPTION = "Dml CoreML VitisAI Xnnpack ACL Dnnl Js WebNN ArmNN Azure Nnapi Rknpu VSINPU"
# EP name to kind to options, for each EP that has been reviewed.
PROVIDERS: dict[str, dict[str, dict[str, Rule]]] = {
    eps.CPU: {"built-in": {}},
    eps.CUDA: {"built-in": _CUDA, "plugin": {}},
    eps.TENSORRT: {"built-in": _TENSORRT},
    eps.NV_TENSORRT_RTX: {"plugin": _unreported(_TENSORRT_RTX)},
    eps.MIGRAPHX: {"built-in": _MIGRAPHX},
    eps.CANN: {"built-in": _CANN},
    eps.OPENVINO: {"built-in": _unreported(_OPENVINO_BUNDLED), "plugin": _unreported(_OPENVINO_PLUGIN)},
    eps.OPENVINO_AUTO: {"plugin": _unreported(_OPENVINO_PLUGIN)},
    eps.QNN: {"built-in": {}, "plugin": _unreported(_QNN_PLUGIN)},
    eps.WEBGPU: {"built-in": _unreported(_WEBGPU_BUNDLED), "plugin": _unreported(_WEBGPU_PLUGIN)},
    **{f"{name}ExecutionProvider": {"built-in": {}} for name in _WITHOUT_OPTION.split()},
    "MLXExecutionProvider": {"plugin": ANY_PLUGIN},  # strings: onnxruntime-ep-mlx 0.31.0 reads no options
}
