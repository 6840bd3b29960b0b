# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Some operators of the CPU EP do not write all elements of their outputs.

The program searches the installed ORT for them. It runs the node tests of the installed onnx, and products of integer
matrices, with degenerate inputs: dimensions of size 0 and 1, zeros, and other values. Before each run, it fills the
memory arena with a pattern of bytes. An element is not written if it consists of the pattern in two runs with different
patterns. The exit status is 1 if such an operator is not in KNOWN. PART selects tests by name.

    python tools/ort_defects/unwritten_outputs.py [PART]

In this backend: not prevented, but docs/security.md lists the operators that do so for tensors without elements.
"""

import contextlib
import itertools
import multiprocessing
import os
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import NamedTuple

os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

import onnxruntime
from onnxruntime import InferenceSession, OrtArenaCfg, OrtMemoryInfo, SessionOptions

# The products of integer matrices without a node test in onnx.
PRODUCTS = {
    "MatMulIntegerToFloat": (np.uint8, "MatMulIntegerToFloat(x, y, s, s)"),
    "DynamicQuantizeMatMul": (np.float32, "DynamicQuantizeMatMul(x, y, s)"),
    "QGemm": (np.uint8, "QGemm(x, s, o, y, s, o, , s, o)"),
}
KNOWN = {"Concat", "MatMul", "MatMulInteger", "QLinearMatMul", "ReverseSequence", "Scan", *PRODUCTS}
PATTERNS = (0xA7, 0x5B)
_SIZES = {256: 32, 1 << 12: 16, 1 << 16: 4, 1 << 18: 2}  # number of blocks by their bytes
_MOST_VARIANTS = 60  # of a test
_MOST_TESTS = int(os.environ.get("TESTS", "6"))  # of an operator
_SECONDS = 120  # for one test


class Test(NamedTuple):
    """A model and its inputs."""

    name: str
    model: onnx.ModelProto
    inputs: dict[str, np.ndarray]


def options() -> SessionOptions:
    """Return options of a session that allocates from the arena of the process."""
    made = SessionOptions()
    made.log_severity_level = 4
    made.intra_op_num_threads = 1
    made.enable_mem_pattern = False
    made.add_session_config_entry("session.use_env_allocators", "1")
    return made


def filler(pattern: int) -> InferenceSession:
    """Return a session whose run allocates blocks of many sizes, and fills them with a pattern."""
    nodes, weights, outputs = [], [], []
    for size, number in _SIZES.items():
        weights.append(numpy_helper.from_array(np.array([size]), f"size{size}"))
        value = numpy_helper.from_array(np.array([pattern], np.uint8))
        for _ in range(number):
            name = f"out{len(outputs)}"
            nodes.append(onnx.helper.make_node("ConstantOfShape", [f"size{size}"], [name], value=value))
            outputs.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.UINT8, [size]))
    graph = onnx.helper.make_graph(nodes, "filler", [], outputs, weights)
    opset = onnx.helper.make_opsetid("", 17)
    made = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8)
    without_folding = options()
    without_folding.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return InferenceSession(made.SerializeToString(), without_folding, providers=["CPUExecutionProvider"])


def tests(part: str) -> list[Test]:
    """Return the first node tests of each operator whose inputs are arrays, and those of products of integers."""
    with warnings.catch_warnings(action="ignore"):
        loaded = load_model_tests(kind="node")
    found = []
    number = Counter()
    for test in loaded:
        operator = test.model.graph.node[-1].op_type
        inputs, _ = test.data_sets[0]
        is_function = "_expanded" in test.name  # the same operator as several others
        are_arrays = all(isinstance(value, np.ndarray) for value in inputs)
        if part in test.name and are_arrays and not is_function and number[operator] < _MOST_TESTS:
            number[operator] += 1
            names = [value.name for value in test.model.graph.input]
            found.append(Test(test.name, test.model, dict(zip(names, inputs, strict=False))))
    found.extend(product(name) for name in PRODUCTS if part in name)
    return found


def product(name: str) -> Test:
    """Return a test of a product of integer matrices."""
    dtype, node = PRODUCTS[name]
    of_input = "uint8" if dtype == np.uint8 else "float"
    of_output = "uint8" if name == "QGemm" else "float"
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]> test
        ({of_input}[A, B] x, uint8[B, C] y) => ({of_output}[A, C] z) <float s = {{1.0}}, uint8 o = {{0}}>
        {{ z = com.microsoft.{node} }}"""
    )
    return Test(name, model, {"x": np.ones((4, 6), dtype), "y": np.ones((6, 5), np.uint8)})


def variants(inputs: dict[str, np.ndarray]) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Return the inputs, and degenerate ones."""
    yield "as they are", inputs
    for size in (0, 1):
        for axis in range(3):
            cut = {name: _cut(array, axis, size) for name, array in inputs.items()}
            yield f"axis {axis} of all inputs with size {size}", cut
    axes = [(name, axis) for name, array in inputs.items() for axis in range(array.ndim)]
    for (first, axis), (second, other) in itertools.combinations(axes, 2):
        if first != second and inputs[first].shape[axis] == inputs[second].shape[other]:
            cut = {first: _cut(inputs[first], axis, 0), second: _cut(inputs[second], other, 0)}
            yield f"axis {axis} of {first} and axis {other} of {second} with size 0", inputs | cut
    for name, array in inputs.items():
        for axis, size in itertools.product(range(array.ndim), (0, 1)):
            yield (f"axis {axis} of {name} with size {size}", inputs | {name: _cut(array, axis, size)})
        if array.dtype.kind in "biuf":
            for value in (0, 1, -1):
                with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
                    full = np.full(array.shape, value).astype(array.dtype)
                yield f"{name} full of {value}", inputs | {name: full}
            if array.size > 1:
                first = array.copy()
                first.flat[0] = 0
                yield f"{name} begins with 0", inputs | {name: first}


def _cut(array: np.ndarray, axis: int, size: int) -> np.ndarray:
    if axis >= array.ndim or array.shape[axis] < size:
        return array
    return np.ascontiguousarray(np.take(array, range(size), axis))


def unwritten(first: object, second: object) -> int:
    """Return how many elements consist of the pattern of their run."""
    if not isinstance(first, np.ndarray) or not isinstance(second, np.ndarray):
        return 0
    if not first.size or first.shape != second.shape or first.dtype != second.dtype or first.dtype.kind not in "biufcV":
        return 0
    counted = np.ones(first.size, bool)
    for array, pattern in zip((first, second), PATTERNS, strict=True):
        content = np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(first.size, -1)
        counted &= (content == pattern).all(axis=1)
    return int(counted.sum())


def session_of(model: onnx.ModelProto) -> InferenceSession | None:
    """Return a session with the newest opset of this release, ``None`` if it lacks the operator."""
    model.ir_version = min(model.ir_version, 10)
    imported = [opset for opset in model.opset_import if opset.domain == ""]
    for version in (26, 23, 21, 17):
        for opset in imported:
            opset.version = min(opset.version, version)
        with contextlib.suppress(Exception):
            return InferenceSession(model.SerializeToString(), options(), providers=["CPUExecutionProvider"])
    return None


def outputs_of(session: InferenceSession, inputs: dict[str, np.ndarray]) -> list[list] | None:
    """Return the outputs of a run after each filler, ``None`` if the inputs are not valid, as most degenerate ones."""
    found = []
    for fill in FILLERS:
        fill.run(None, {})
        try:
            found.append(session.run(None, inputs))
        except Exception:
            return None
    return found


def check(test: Test) -> dict:
    """Return the number of runs of a test, and the variants with elements that were not written."""
    model = onnx.ModelProto()
    model.CopyFrom(test.model)
    for value in itertools.chain(model.graph.input, model.graph.output):
        for dimension in value.type.tensor_type.shape.dim:
            dimension.Clear()
    session = session_of(model)
    runs = 0
    found = {}
    if session is None:
        return {"runs": 0, "found": {}}
    for description, given in itertools.islice(variants(test.inputs), _MOST_VARIANTS):
        outputs = outputs_of(session, given)
        if outputs is None:
            continue
        runs += 1
        for first, second in zip(*outputs, strict=True):
            number = unwritten(first, second)
            if number:
                found[description] = f"{number} of {first.size}"
    return {"runs": runs, "found": found}


def send(connection: Connection, test: Test) -> None:
    """Send the result of a test from a process that the test can terminate."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    connection.send(check(test))


def main(part: str) -> int:
    runs = 0
    operators = set()
    chosen = tests(part)
    for test in chosen:
        receiver, sender = multiprocessing.Pipe(duplex=False)
        child = multiprocessing.get_context("fork").Process(target=send, args=[sender, test])
        child.start()
        sender.close()
        try:
            result = receiver.recv() if receiver.poll(_SECONDS) else None
        except EOFError:
            result = None
        child.kill()
        child.join()
        if result is None:
            print(f"terminated the process, or took too long: {test.name}", flush=True)
            continue
        runs += result["runs"]
        for description, elements in result["found"].items():
            operators.add(test.model.graph.node[-1].op_type)
            print(f"not written: {elements} elements of {test.name}, {description}", flush=True)
    print(f"ORT {onnxruntime.__version__}, onnx {onnx.__version__}: {runs} variants of {len(chosen)} tests ran")
    new = operators - KNOWN
    if new:
        print(f"not in KNOWN: {', '.join(sorted(new))}")
    return int(bool(new))


arena = OrtArenaCfg({"max_mem": 0, "arena_extend_strategy": 0, "initial_chunk_size_bytes": 1 << 20})
onnxruntime.create_and_register_allocator(
    OrtMemoryInfo("Cpu", onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, onnxruntime.OrtMemType.DEFAULT), arena
)
FILLERS = [filler(pattern) for pattern in PATTERNS]

if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
