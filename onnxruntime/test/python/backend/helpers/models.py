# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Shared by the backend's tests: small models, checks of errors and arrays, and a function to skip a file.

IR version and opset are fixed: the newest that onnx writes may be too new.
"""

import sys
import unittest
from collections.abc import Callable, Sequence
from typing import NoReturn
from unittest import mock

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper, parser

import onnxruntime

IR_VERSION = 10
OPSET = 21

BFLOAT16 = helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)
# From onnx 1.19, arrays of the types that numpy does not have are of ml_dtypes.
NARROW = np.float32 != BFLOAT16
needs_narrow_types = unittest.skipUnless(NARROW, "needs onnx 1.19, whose arrays of these types are ml_dtypes")
reads_linux = unittest.skipUnless(sys.platform == "linux", "reads the state of a process from Linux")


def model(
    nodes: Sequence[NodeProto],
    inputs: dict[str, Sequence[int | str | None]],
    outputs: dict[str, Sequence[int | str | None] | None],
    initializers: dict[str, np.ndarray] | None = None,
    *,
    opset: int = OPSET,
    extra_domains: Sequence[str] = (),
) -> ModelProto:
    """Build a model from nodes, the shapes of its inputs and outputs, which are floats, and its initializers.

    The shape ``None`` of an output leaves the shape open. The nodes may use the domains ``extra_domains`` at version 1.
    """
    floats = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in values.items()]
        for values in (inputs, outputs)
    ]
    graph = helper.make_graph(nodes, "test", floats[0], floats[1])
    for name, array in (initializers or {}).items():
        graph.initializer.append(numpy_helper.from_array(array, name))
    imports = [helper.make_opsetid("", opset)]
    for domain in extra_domains:
        imports.append(helper.make_opsetid(domain, 1))
    return helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)


def parsed(text: str, *domains: str, **initializers: np.ndarray) -> ModelProto:
    """Return the model of a text such as ``(float[N,4] X) => (float[N,4] Y) { Y = Neg (X) }``.

    The nodes may use these domains at version 1. The text can contain initializers, too.
    """
    imports = f'"": {OPSET}'
    for domain in domains:
        imports += f', "{domain}": 1'
    made = parser.parse_model(f"<ir_version: {IR_VERSION}, opset_import: [{imports}]> test {text}")
    for name, array in initializers.items():
        made.graph.initializer.append(numpy_helper.from_array(array, name))
    return made


def on_cpu(made: ModelProto | str):
    """Prepare a model, or that of a text, on the CPU EP. It need not declare shapes. The caller imports the backend."""
    if isinstance(made, str):
        made = parsed(made, "ai.onnx.ml")
    return onnxruntime.backend.prepare(made.SerializeToString(), provider_options={})


def two_nodes(shape: Sequence[int | str | None] = (2, 3)) -> ModelProto:
    """``Y = abs(-X)``: the smallest model with something to assign."""
    nodes = [helper.make_node("Neg", ["X"], ["Z"]), helper.make_node("Abs", ["Z"], ["Y"])]
    return model(nodes, {"X": shape}, {"Y": shape})


def open_session(
    kind: type = onnxruntime.InferenceSession, providers: Sequence[str] = ("CPUExecutionProvider",)
) -> onnxruntime.InferenceSession:
    """Create a session of ``two_nodes`` without the backend."""
    return kind(two_nodes().SerializeToString(), providers=providers)


def usable_providers() -> tuple[str, ...]:
    """Return the available EPs that ORT can use on this machine."""
    return tuple(open_session(providers=onnxruntime.get_available_providers()).get_providers())


def three_inputs() -> ModelProto:
    """``Y = A + B - C`` on vectors of four."""
    return parsed("(float[4] A, float[4] B, float[4] C) => (float[4] Y) { D = Add (A, B) Y = Sub (D, C) }")


def slow() -> ModelProto:
    """Return a model that runs for seconds on one thread, and whose nodes each run for milliseconds.

    It has no weights, because each node would copy them when ORT creates the session.
    """
    nodes = " ".join(f"n{index} = MatMul (n{index - 1}, X)" for index in range(2, 3001))
    graph = f"n1 = MatMul (X, X) {nodes} Y = Identity (n3000)"
    return parsed(f"(float[400, 400] X) => (float[400, 400] Y) {{ {graph} }}")


def skip_file(reason: str) -> NoReturn:
    """Skip the test file that calls this, whether a test runner imports it or it is run as a program."""
    if sys._getframe(1).f_globals["__name__"] == "__main__":
        print(f"skipped: {reason}")
        sys.exit()
    raise unittest.SkipTest(reason)


def caught(call: Callable) -> Exception | None:
    """Return the error that a call raises."""
    try:
        call()
    except Exception as error:
        return error
    return None


def cancelled() -> "onnxruntime.backend.Cancellation":
    """Return a cancellation that ends a run at its first node. The caller imports the backend."""
    cancellation = onnxruntime.backend.Cancellation()
    cancellation.cancel()
    return cancellation


def same_array(got: object, expected: np.ndarray) -> None:
    """Fail unless a value is an array of the same type, shape and bytes."""
    of = (type(got), got.dtype, got.shape, got.tobytes())
    assert of == (np.ndarray, expected.dtype, expected.shape, expected.tobytes()), (got, expected)


def no_session_opens():
    """A context in which opening a session fails the test."""
    opened = AssertionError("a session was opened")
    return mock.patch.object(onnxruntime.InferenceSession, "__init__", side_effect=opened)


def sent_run_config(rep, **keywords) -> dict[str, str]:
    """Return the run config entries that ORT receives from ``rep.run``, on the fast path and without it."""
    x = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
    with mock.patch.object(rep.session, "_sess", wraps=rep.session._sess) as inner:
        rep.run([x], **keywords)
        rep.run([x.tolist()], **keywords)
    fast, converted = ({}, {})
    for found, call in zip((fast, converted), inner.run.call_args_list, strict=True):
        options = call.args[2]
        for key in ("gpu_graph_id", "memory.enable_memory_arena_shrinkage"):
            try:
                found[key] = options.get_run_config_entry(key)
            except (AttributeError, RuntimeError):  # no run options, or no such entry
                continue
    assert fast == converted, (fast, converted)
    return fast
