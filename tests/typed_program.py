# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""A program of a user, which `make lint` type-checks and nothing runs: the types that the documented API has for it."""

from typing import assert_type

import numpy as np

from onnxruntime.backend import Cancellation, InputError, NotPermittedError, is_compatible, prepare, run
from onnxruntime.backend.backend import OnnxRuntimeBackend
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep
from onnxruntime.backend.comparison import compare


def use(model: bytes, cancellation: Cancellation) -> list:
    x = np.ones(3, np.float32)
    rep = prepare(
        model,
        "CPU",
        provider_options={"CPUExecutionProvider": {}},
        session_config={"session.disable_prepacking": True},
        run_config={"memory.enable_memory_arena_shrinkage": "cpu:0"},
        session_options={"intra_op_num_threads": 1},
        free_dimension_overrides={"batch": 1},
        log_severity_level=3,
    )
    assert_type(rep, OnnxRuntimeBackendRep)
    assert_type(rep.providers, tuple[str, ...])
    assert_type(rep.provider_options, dict[str, dict[str, str]])
    assert_type(rep.with_run_config({}), OnnxRuntimeBackendRep)
    assert_type(rep.run({"x": x}), list)
    assert_type(run(model, [x], session_config={}), list)
    assert_type(is_compatible(model), bool)
    with OnnxRuntimeBackend.prepare("model.onnx") as prepared, prepared.device_lock():
        assert_type(prepared, OnnxRuntimeBackendRep)
    assert_type(compare("model.onnx", [{"provider_options": {}}], feeds=[x], reference="other.onnx"), list[dict])
    return rep.run([x], run_config={}, timeout=1.5, cancellation=cancellation)


def explain(error: Exception) -> str:
    if isinstance(error, NotPermittedError):
        assert_type(error.keyword, str)
        return f"{error.keyword} {error.provider} {error.key} {error.value}: {error.reason}"
    if isinstance(error, InputError):
        assert_type(error.input, str | None)
        return error.expected
    return str(error)


def mistakes(rep: OnnxRuntimeBackendRep) -> None:
    # An ignore without its error is an error: warn_unused_ignores.
    prepare("model.onnx", provider_options=["CUDAExecutionProvider"])  # type: ignore[arg-type]
    prepare("model.onnx", session_config=1)  # type: ignore[arg-type]
    compare("model.onnx", 1)  # type: ignore[arg-type]
    rep.providers = ()  # type: ignore[misc]
