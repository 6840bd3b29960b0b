# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Options of the CUDA EPs.

The parser of onnxruntime-gpu 1.31.1 read the options of the built-in EP, on stubs of the CUDA libraries. The plugin EP
was not run: its options are those of its source code of April 2026, and of texts in onnxruntime 1.32.0.
"""

from onnxruntime.backend.allowlist.common_options import ARENA_OPTIONS, DEVICE
from onnxruntime.backend.allowlist.rules import Need, Rule, Table, switch, switch_on
from onnxruntime.backend.allowlist.value_kinds import Choice, Fixed, Integer
from onnxruntime.backend.provider_names import CUDA

_ONE_STREAM = Fixed(True, "copies on another stream race with the kernels that use the data, as ORT documents")
_TUNING, _TUNING_LIMIT = "tunable_op_tuning_enable", "tunable_op_max_tuning_duration_ms"
_BOUNDED = Need(
    f"tunable_op_enable=1, and {_TUNING_LIMIT} as its limit",
    lambda facts, text: (
        text == "0" or (facts.option(CUDA, "tunable_op_enable") == "1" and facts.option(CUDA, _TUNING_LIMIT) != "")
    ),
)
_TUNED = Need(f"{_TUNING}=1", lambda facts, _: facts.option(CUDA, _TUNING) == "1")
BUILT_IN = Table(
    {
        "device_id": DEVICE,
        "gpu_mem_limit": Rule(
            # A lower limit stops each model, and a higher limit has no effect on any device.
            Integer(2**20, 2**48),
            "18446744073709551615",
            "Maximum size of the EP's memory arena in bytes. A run that needs more fails.",
        ),
        "arena_extend_strategy": Rule(
            Choice("kNextPowerOfTwo", "kSameAsRequested"), "kNextPowerOfTwo", "How the memory arena grows."
        ),
        "cudnn_conv_algo_search": Rule(
            Choice("EXHAUSTIVE", "HEURISTIC", "DEFAULT"),
            "EXHAUSTIVE",
            "How cuDNN selects convolution algorithms. Another algorithm can change the last bits of outputs.",
        ),
        "cudnn_conv_use_max_workspace": switch_on("Lets cuDNN search with the largest workspace."),
        "cudnn_conv1d_pad_to_nc1d": switch("Pads a 1-D convolution to [N, C, 1, D] instead of [N, C, D, 1]."),
        "do_copy_in_default_stream": Rule(_ONE_STREAM, "1", "Copies between host and device on the compute stream."),
        "enable_cuda_graph": switch("Captures a run as a CUDA graph and replays it in later runs."),
        "enable_cudnn": switch_on("Off: ORT does not load cuDNN. Operators that need it fail in a run.", since=(1, 31)),
        # Ignored since ORT pull request 29388.
        "enable_skip_layer_norm_strict_mode": switch(
            "Uses a slower, more exact kernel.", until=(1, 28), reported=False
        ),
        "external_data_loader_reading_threads": Rule(
            Integer(0, 16), "4", "Threads that read external weights into pinned memory. 0: off.", since=(1, 31)
        ),
        "fuse_conv_bias": switch("Fuses convolution and bias with cuDNN's graph API."),
        "prefer_nhwc": switch("Prefers kernels in NHWC layout."),
        "sdpa_kernel": Rule(Integer(0, 1023), "0", "Bit mask of the permitted attention kernels. 0: ORT chooses."),
        "tunable_op_enable": switch("Uses TunableOp kernels."),
        _TUNING: switch(
            "Measures TunableOp kernels in runs and keeps the fastest. The duration of a run and the last bits of its "
            "outputs depend on earlier runs.",
            needs=(_BOUNDED,),
        ),
        _TUNING_LIMIT: Rule(Integer(1, 1000), "0", "Maximum milliseconds per operator. 0: no limit.", needs=(_TUNED,)),
        "use_ep_level_unified_stream": switch("Lets all runs of the session share one CUDA stream."),
        "use_tf32": switch_on("Lets float matmul and convolution use TF32."),
    },
    {
        "raw pointer": {
            "user_compute_stream": "ORT passes the number to the CUDA driver as the address of a stream",
            "gpu_external_alloc gpu_external_free gpu_external_empty_cache": "ORT calls the number as a function",
        },
        "requires another refused option": {"has_user_compute_stream": "acts only together with user_compute_stream"},
        "loads a library": {
            "external_data_loader_use_gds": (
                "ORT 1.31 does not know it. Newer source code loads libcufile and reads weights without the file cache"
            )
        },
        "reads files": {
            "external_data_loader_use_directstorage": (
                "ORT 1.31 does not know it. Newer source code reads weights through Windows DirectStorage"
            )
        },
        "unbounded use of resources": {
            "external_data_loader_pinned_memory_bytes external_data_loader_chunk_bytes": (
                "sets pinned memory of the loader of external data. The stock wheel of 1.32 has no CUDA EP to run it"
            )
        },
    },
)
PLUGIN = Table(
    {},
    {
        "not verified": {
            "min_num_runs_before_cuda_graph_capture prefer_nhwc_layout cudnn_conv_algo": (
                "only the plugin CUDA EP knows it. That EP was not run. According to its source, it ignores unknown "
                "options, and only logs values that it cannot read"
            ),
            "external_data_loader_reading_threads external_data_loader_pinned_memory_bytes "
            "external_data_loader_chunk_bytes gpu_device_mem_limit": (
                "ORT passes it to the plugin CUDA EP, which was not run"
            ),
        },
        "acts outside the caller's session": {
            "arena.use_cuda_mempool arena.cuda_mempool_release_threshold arena.cuda_mempool_bytes_to_keep_on_shrink "
            f"{ARENA_OPTIONS}": (
                "the plugin CUDA EP has one memory arena per device in a process, which its first session configures"
            )
        },
    },
)
