# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The cost of preparing a model, of checking settings, of a one-shot run and of the import."""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import onnx
from onnx.checker import check_model

import onnxruntime.backend
from benchmarks import models
from benchmarks.comparison import BACKEND, BY_HAND, OF_STOCK, Comparison
from benchmarks.sampling import timed
from onnxruntime import InferenceSession, SessionOptions

PROVIDER_OPTIONS = {"CPUExecutionProvider": {}}
SESSION_CONFIG = {"session.intra_op.allow_spinning": "0", "session.disable_prepacking": "1"}

TWENTY_OPTIONS = {
    "TensorrtExecutionProvider": {"device_id": 0, "trt_fp16_enable": True},
    "CUDAExecutionProvider": {
        "device_id": 0,
        "gpu_mem_limit": 2**32,
        "arena_extend_strategy": "kSameAsRequested",
        "cudnn_conv_algo_search": "HEURISTIC",
        "cudnn_conv_use_max_workspace": True,
        "cudnn_conv1d_pad_to_nc1d": False,
        "do_copy_in_default_stream": True,
        "enable_cuda_graph": False,
        "enable_cudnn": True,
        "external_data_loader_reading_threads": 4,
        "fuse_conv_bias": "1",
        "prefer_nhwc": "0",
        "sdpa_kernel": "16",
        "tunable_op_enable": True,
        "tunable_op_tuning_enable": True,
        "tunable_op_max_tuning_duration_ms": 100,
        "use_ep_level_unified_stream": False,
        "use_tf32": False,
    },
}
TWENTY_KEYS = {
    "optimization.constant_folding_max_output_size_in_bytes": 4096,
    "optimization.disable_specified_optimizers": "ConstantFolding",
    "optimization.enable_cast_chain_elimination": True,
    "optimization.enable_gelu_approximation": True,
    "session.disable_aot_function_inlining": False,
    "session.disable_double_qdq_remover": "1",
    "session.disable_cpu_ep_fallback": False,
    "session.disable_prepacking": True,
    "session.disable_qdq_constant_folding": False,
    "session.disable_quant_qdq": "1",
    "session.dynamic_block_base": 4,
    "session.enable_quant_qdq_cleanup": True,
    "session.force_spinning_stop": True,
    "session.function_expansion_node_limit": 1000,
    "session.graph_optimizations_loop_level": 2,
    "session.intra_op.allow_spinning": False,
    "session.qdq_matmulnbits_accuracy_level": 4,
    "session.qdqisint8allowed": False,
    "session.strict_shape_type_inference": True,
    "session.use_device_allocator_for_initializers": True,
}

# In one process, since the same import in two differs by more than the backend adds.
_IMPORT = """
from time import perf_counter as now
began = now()
import onnxruntime, onnx.backend.base
print(now() - began)
import onnxruntime.backend
print(now() - began)
"""


def _open(model: str | bytes) -> InferenceSession:
    return InferenceSession(model, SessionOptions(), providers=onnxruntime.get_available_providers())


def _open_configured(model: str | bytes) -> InferenceSession:
    options = SessionOptions()
    for key, value in SESSION_CONFIG.items():
        options.add_session_config_entry(key, value)
    return InferenceSession(model, options, providers=["CPUExecutionProvider"], enable_fallback=0)


def _check_and_open(model: onnx.ModelProto, open_session: Callable[[str | bytes], InferenceSession] = _open):
    serialized = model.SerializeToString()
    check_model(serialized)
    return open_session(serialized)


def _sides(model: object, backend: str, by_hand: str) -> Mapping[str, Callable[[], float]]:
    namespace = {
        "model": model,
        "array": models.magika_array(),
        "prepare": onnxruntime.backend.prepare,
        "run": onnxruntime.backend.run,
        "named": {"provider_options": PROVIDER_OPTIONS, "session_config": SESSION_CONFIG},
        "open": _open,
        "open_configured": _open_configured,
        "check_and_open": _check_and_open,
    }
    return timed(namespace, backend=backend, by_hand=by_hand)


def _prepare(make: Callable[[], object], by_hand: str, named: str = "") -> Mapping[str, Callable[[], float]]:
    return _sides(make(), f"prepare(model, 'CPU'{named})", by_hand)


def _prepare_configured(make: Callable[[], object], by_hand: str) -> Mapping[str, Callable[[], float]]:
    """Measure settings. The stock backend, which has none, prepares without them."""
    if not hasattr(onnxruntime.backend, "NotPermittedError"):
        return _prepare(make, by_hand.replace("open_configured", "open"))
    return _prepare(make, by_hand, ", **named")


def _optimized_before() -> Mapping[str, Callable[[], float]]:
    """Measure a model that was saved after its optimization. The other side is the same model, which ORT optimizes."""
    folder = tempfile.TemporaryDirectory()
    options = SessionOptions()
    options.log_severity_level = 3  # the warning that the file is for this machine
    options.optimized_model_filepath = str(Path(folder.name, "optimized.onnx"))
    InferenceSession(models.MAGIKA_PATH, options, providers=["CPUExecutionProvider"])
    namespace = {
        "prepare": partial(onnxruntime.backend.prepare, provider_options=PROVIDER_OPTIONS),
        "optimized": options.optimized_model_filepath,
        "model": models.MAGIKA_PATH,
        "folder": folder,  # exists as long as the statements
    }
    before = "prepare(optimized, graph_optimization_level='ORT_DISABLE_ALL')"
    return timed(namespace, backend=before, by_hand="prepare(model)")


def _one_shot() -> Mapping[str, Callable[[], float]]:
    return _sides(models.magika(), "run(model, [array], 'CPU')", "check_and_open(model).run(None, {'bytes': array})")


def _validating() -> Mapping[str, Callable[[], float]]:
    from onnxruntime.backend.allowlist.facts import Process  # as above  # noqa: PLC0415
    from onnxruntime.backend.allowlist.look_up import Allowlist, permit_of  # as above  # noqa: PLC0415
    from onnxruntime.backend.request import read_call  # the stock backend has neither  # noqa: PLC0415

    kinds = dict.fromkeys(TWENTY_OPTIONS, "built-in")
    namespace = {
        "permit": permit_of,
        "read_call": read_call,
        "options": TWENTY_OPTIONS,
        "keys": TWENTY_KEYS,
        "allowlist": Allowlist(Process(kinds=kinds)),
    }
    return timed(
        namespace, backend="permit(read_call({'provider_options': options, 'session_config': keys}), allowlist)"
    )


def _importing() -> Mapping[str, Callable[[], float]]:
    measured: dict[str, float] = {}

    def measure(side: str) -> float:
        if side not in measured:
            process = subprocess.run([sys.executable, "-c", _IMPORT], check=True, capture_output=True, text=True)
            measured.update(zip((BY_HAND, BACKEND), map(float, process.stdout.split()), strict=True))
        return measured.pop(side)

    return {side: partial(measure, side) for side in (BACKEND, BY_HAND)}


def _magika_bytes() -> bytes:
    return Path(models.MAGIKA_PATH).read_bytes()


COMPARISONS = (
    Comparison("prepare, two nodes", partial(_prepare, models.two_nodes, "check_and_open(model)"), 1.20, OF_STOCK),
    Comparison(
        "prepare, two nodes, EP and two keys",
        partial(_prepare_configured, models.two_nodes, "check_and_open(model, open_configured)"),
        1.50,  # the settings are checked and read back
        OF_STOCK,
    ),
    Comparison("prepare, Magika", partial(_prepare, models.magika, "check_and_open(model)"), 1.04, OF_STOCK),
    Comparison("prepare, Magika, path", partial(_prepare, lambda: models.MAGIKA_PATH, "open(model)"), 1.04, OF_STOCK),
    Comparison("prepare, Magika, bytes", partial(_prepare, _magika_bytes, "open(model)"), 1.04, OF_STOCK),
    Comparison(
        "prepare, Magika, EP and two keys",
        partial(_prepare_configured, models.magika, "check_and_open(model, open_configured)"),
        1.07,
        OF_STOCK,
    ),
    Comparison(
        "prepare, Magika, path, EP and two keys",
        partial(_prepare_configured, lambda: models.MAGIKA_PATH, "open_configured(model)"),
        1.07,
        OF_STOCK,
    ),
    Comparison("prepare, Magika, optimized before", _optimized_before, 0.75, stock=False),
    Comparison("validating 20 options and 20 keys", _validating, None, stock=False),
    Comparison("one-shot run, Magika", _one_shot, 1.04, OF_STOCK),
    Comparison("import", _importing, 1.05, OF_STOCK, seconds=15),
)
