# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The allowlist of provider options: every execution provider (EP), every option, permitted with its values or refused.

A plugin EP repeats the options it was given when it is asked, unknown ones too, so its report proves less than that of
an EP inside ORT; the effects named here were seen for real wherever the evidence says "run".
"""

from __future__ import annotations

from typing import NamedTuple

from onnxruntime.backend.allowlist_rules import (
    LOADS_LIBRARY,
    NO_EFFECT,
    NOT_VERIFIED,
    OTHER_DOOR,
    OUTSIDE_SESSION,
    RAW_POINTER,
    READS_FILES,
    UNSAFE_MEMORY,
    WRITES_FILES,
    WRONG_RESULTS,
    Circumstances,
    Need,
    Permitted,
    Refused,
    Rule,
)
from onnxruntime.backend.value_kinds import Choice, Flag, Integer, Text


class Provider(NamedTuple):
    """The options of one EP, by the door it comes through; ``None`` where no such EP exists or none was judged."""

    bundled: dict[str, Rule] | None = None
    plugin: dict[str, Rule] | None = None

    def rules(self, flavour: str) -> dict[str, Rule]:
        return (self.plugin if flavour == "plugin" else self.bundled) or {}


def _refused(hazard: str, reason: str, *options: str) -> dict[str, Rule]:
    """One verdict for several options."""
    return dict.fromkeys(options, Refused(hazard, reason))


def _known_by(evidence: str, rules: dict[str, Rule]) -> dict[str, Rule]:
    """Say how the rules of a table are known, where a rule does not say it itself."""
    return {option: rule if rule.evidence else rule._replace(evidence=evidence) for option, rule in rules.items()}


_DEVICE_INDEX = Integer(0, 63)
# A limit below this stops every model; one above it is no limit on any device there is.
_ARENA_BYTES = Integer(2**20, 2**48)
_ARENA_GROWTH = Choice("kNextPowerOfTwo", "kSameAsRequested")
_CAPTURE = (
    "ORT would replay the captured graph on memory that an ordinary run has freed, and return wrong results. It needs "
    "runs on fixed device buffers"
)

# --- Every EP ---------------------------------------------------------------------------------------------------------

EVERY_PROVIDER: dict[str, Rule] = _known_by(
    "run: ORT 1.24.4 loads it, 1.27.1 and 1.31.1 do not",
    _refused(
        LOADS_LIBRARY,
        "for an EP name that ORT does not know, ORT up to 1.24 loads the shared library it names",
        "shared_lib_path",
        "provider_factory_entry_point",
    ),
)

# --- CUDA -------------------------------------------------------------------------------------------------------------


def _tuning_bounded(here: Circumstances, text: str) -> bool:
    bounded = here.beside.get("tunable_op_enable") == "1" and "tunable_op_max_tuning_duration_ms" in here.beside
    return text == "0" or bounded


_CUDA: dict[str, Rule] = {
    "device_id": Permitted(_DEVICE_INDEX, "0", "Which CUDA device; ORT checks it against the device count."),
    "gpu_mem_limit": Permitted(
        _ARENA_BYTES, "18446744073709551615", "Most bytes that the EP's memory arena may hold; a run beyond it fails."
    ),
    "arena_extend_strategy": Permitted(_ARENA_GROWTH, "kNextPowerOfTwo", "How much the memory arena grows at a time."),
    "cudnn_conv_algo_search": Permitted(
        Choice("EXHAUSTIVE", "HEURISTIC", "DEFAULT"),
        "EXHAUSTIVE",
        "How cuDNN picks convolution algorithms; another algorithm may change the last bits.",
    ),
    "cudnn_conv_use_max_workspace": Permitted(Flag(), "1", "Lets cuDNN search with the largest workspace."),
    "cudnn_conv1d_pad_to_nc1d": Permitted(Flag(), "0", "Pads a 1-D convolution to [N, C, 1, D], not [N, C, D, 1]."),
    "do_copy_in_default_stream": Permitted(
        Flag(only_on="copies on a stream of their own race with the kernels that use the data, as ORT documents"),
        "1",
        "Copies between host and device on the stream that computes.",
    ),
    "enable_cuda_graph": Permitted(
        Flag(only_off=_CAPTURE), "0", "Captures a run into a CUDA graph and replays it on later runs."
    ),
    "enable_cudnn": Permitted(
        Flag(),
        "1",
        "Off: cuDNN is neither loaded nor used, and operators that need it fail when run.",
        since=(1, 31),
    ),
    "enable_skip_layer_norm_strict_mode": Permitted(
        Flag(), "0", "Uses a slower, more exact SkipLayerNormalization kernel.", reported=False
    ),
    "external_data_loader_reading_threads": Permitted(
        Integer(0, 16),
        "4",
        "Threads that read external weights into pinned memory; 0 switches that off. ORT itself takes up to 64.",
        since=(1, 31),
    ),
    "fuse_conv_bias": Permitted(Flag(), "0", "Fuses convolution and bias through cuDNN's graph interface."),
    "prefer_nhwc": Permitted(Flag(), "0", "Prefers kernels in NHWC layout."),
    "sdpa_kernel": Permitted(
        Integer(0, 1023), "0", "Bit mask of the attention kernels that may be used; 0 leaves the choice to ORT."
    ),
    "tunable_op_enable": Permitted(Flag(), "0", "Uses TunableOp kernels."),
    "tunable_op_tuning_enable": Permitted(
        Flag(),
        "0",
        "Measures TunableOp kernels inside runs and keeps the fastest: timing and last bits depend on earlier runs.",
        needs=(Need("tunable_op_enable=1 and tunable_op_max_tuning_duration_ms, which bounds it", _tuning_bounded),),
    ),
    "tunable_op_max_tuning_duration_ms": Permitted(
        Integer(1, 1000),
        "0",
        "Most milliseconds spent on tuning one operator; ORT's own default is no bound.",
        needs=(Need("tunable_op_tuning_enable=1", lambda here, _: here.beside.get("tunable_op_tuning_enable") == "1"),),
    ),
    "use_ep_level_unified_stream": Permitted(Flag(), "0", "All runs of the session share one CUDA stream."),
    "use_tf32": Permitted(Flag(), "1", "Lets float matmul and convolution use TF32."),
    **_refused(
        RAW_POINTER,
        "ORT hands the number to the CUDA driver as the address of a stream",
        "user_compute_stream",
        "has_user_compute_stream",
    ),
    **_refused(
        RAW_POINTER,
        "ORT calls the number as a function",
        "gpu_external_alloc",
        "gpu_external_free",
        "gpu_external_empty_cache",
    ),
    "external_data_loader_use_gds": Refused(
        LOADS_LIBRARY,
        "1.31 does not know it; newer ORT loads libcufile and reads weights past the file cache",
        "source of a later ORT; parser run: unknown to 1.31.1",
    ),
    "external_data_loader_use_directstorage": Refused(
        READS_FILES,
        "1.31 does not know it; newer ORT reads weights through Windows DirectStorage",
        "source of a later ORT; parser run: unknown to 1.31.1",
    ),
}

_CUDA_PLUGIN: dict[str, Rule] = {
    **_refused(
        NOT_VERIFIED,
        "only the plugin CUDA EP knows it; that EP ignores options it does not know and only logs values it cannot "
        "read, and could not be run here",
        "min_num_runs_before_cuda_graph_capture",
        "prefer_nhwc_layout",
        "cudnn_conv_algo",
    ),
    **_refused(
        OUTSIDE_SESSION,
        "the plugin CUDA EP has one memory arena per device for the whole process: the first session decides",
        "arena.use_cuda_mempool",
        "arena.cuda_mempool_release_threshold",
        "arena.cuda_mempool_bytes_to_keep_on_shrink",
        "arena.extend_strategy",
        "arena.max_mem",
        "arena.initial_chunk_size_bytes",
        "arena.max_dead_bytes_per_chunk",
    ),
}

# --- OpenVINO ---------------------------------------------------------------------------------------------------------


def _openvino_device(here: Circumstances) -> str:
    return here.beside.get("device_type", "CPU")


_OPENVINO_DEVICE = r"(?:CPU|GPU(?:\.[0-9])?|NPU)"
_CAUSAL_LM = "rewrites the model to keep a hidden state from run to run, and fails for models it does not fit"

_OPENVINO_BUNDLED: dict[str, Rule] = {
    "device_type": Permitted(
        Text(
            rf"{_OPENVINO_DEVICE}|(?:AUTO|HETERO|MULTI):{_OPENVINO_DEVICE}(?:,{_OPENVINO_DEVICE})*",
            "CPU, GPU, GPU.0 to GPU.9, NPU, or AUTO:, HETERO: or MULTI: before a list such as GPU,CPU",
            max_bytes=64,
        ),
        "CPU",
        "Which OpenVINO device computes; an absent one is an error. With AUTO:, HETERO: and MULTI: a CPU that has "
        "bfloat16 computes in it unless precision says FP32 or ACCURACY.",
        reported=False,
    ),
    "precision": Permitted(
        Choice("FP32", "FP16", "ACCURACY"),
        "FP32 on CPU, FP16 on GPU and NPU",
        "In which precision the device computes; ACCURACY keeps the model's.",
        needs=(
            Need(
                "device_type='GPU' for FP16",
                lambda here, text: text != "FP16" or _openvino_device(here) == "GPU",
            ),
        ),
        reported=False,
    ),
    "num_of_threads": Permitted(
        Integer(1, 256),
        "0, OpenVINO decides",
        "CPU threads that compute, and how many runs may be under way at once.",
        needs=(Need("a device_type that names the CPU", lambda here, _: "CPU" in _openvino_device(here)),),
        reported=False,
    ),
    "num_streams": Permitted(
        Integer(1, 64),
        "1",
        "Parallel streams: the CPU threads are divided among them, and each run uses one.",
        needs=(Need("device_type CPU or GPU", lambda here, _: _openvino_device(here).startswith(("CPU", "GPU"))),),
        reported=False,
    ),
    "model_priority": Permitted(
        Choice("LOW", "MEDIUM", "HIGH", "DEFAULT"),
        "DEFAULT",
        "Which sessions a busy GPU or NPU serves first.",
        needs=(
            Need(
                "a device_type without the CPU, to which it is not sent",
                lambda here, _: "CPU" not in _openvino_device(here),
            ),
        ),
        reported=False,
        evidence="source: sent to OpenVINO only where device_type has no CPU; run: no effect on CPU",
    ),
    "enable_opencl_throttling": Refused(
        NOT_VERIFIED,
        "acts on a GPU only, where it is handed to OpenVINO under the name of a device that does not exist",
        "source; run: no effect on CPU",
    ),
    "enable_qdq_optimizer": Refused(
        OUTSIDE_SESSION,
        "acts on an NPU only, where it sets a property that all sessions of the process share",
        "source; run: no effect on CPU",
    ),
    "disable_dynamic_shapes": Refused(NO_EFFECT, "it is read and then overwritten with what suits the device"),
    "enable_causallm": Refused(WRONG_RESULTS, _CAUSAL_LM),
    "reshape_input": Refused(
        UNSAFE_MEMORY, "a shape larger than the input makes OpenVINO read foreign memory into the output, or crash"
    ),
    "layout": Refused(NOT_VERIFIED, "no layout that fits the model made a difference, others make the session fail"),
    "cache_dir": Refused(WRITES_FILES, "compiled models are written to that folder, and whatever lies there is loaded"),
    "load_config": Refused(
        WRITES_FILES, "hands any property to OpenVINO, CACHE_DIR among them, which writes files to a folder"
    ),
    "context": Refused(RAW_POINTER, "the number is used as the address of an OpenCL context"),
    "device_id": Refused(OTHER_DOOR, "an old name of device_type, which it overwrites"),
    "device_luid": Refused(NOT_VERIFIED, "chooses a GPU or NPU by a Windows identifier"),
}

# --- All of them ------------------------------------------------------------------------------------------------------

PROVIDERS: dict[str, Provider] = {
    "CPUExecutionProvider": Provider(bundled={}),
    "CUDAExecutionProvider": Provider(
        bundled=_known_by("parser run: onnxruntime-gpu 1.31.1 on stub CUDA libraries", _CUDA),
        plugin=_known_by("source: CUDA plugin EP, April 2026", _CUDA_PLUGIN),
    ),
    "OpenVINOExecutionProvider": Provider(
        bundled=_known_by("run: onnxruntime-openvino 1.24.1", _OPENVINO_BUNDLED),
    ),
}
