# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Runs models with the structures of ``openvino/known_defects.py``, and models that look similar, without the backend.

    python backend_openvino_known_defects.py [STRUCTURE ...]

The program compares the values with those of the CPU EP for several sizes. It counts the results of the models that the
backend refuses, and those of the other models. The exit status is 1 if a model is refused that is right, or if fewer
than 30 models of a structure are refused, unless none is. The program requires Linux, and the EP, built-in or plugin.
"""

from __future__ import annotations

import collections
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import product

import numpy as np
from backend_openvino_children import in_children
from backend_test_execution_providers import OPENVINO, register_openvino_plugin
from onnx import ModelProto, helper, parser

import onnxruntime
from onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions
from onnxruntime.backend.openvino.known_defects import that_ends_the_process, that_is_wrong

# Of each run: the size of the dimension N, and the value of conditions.
RUNS = [
    (1, 1),
    (4, 0),
    (8, 1),
    (1, 1),
    (64, 0),
    (64, 1),
    (3, 0),
    (2, 1),
    (2, 0),
    (1, 0),
    (8, 0),
    (8, 1),
    (3, 1),
    (1, 1),
]
VALUES = {"trips": 3, "lengths": [9, 6], "long_lengths": [9, 6]}  # of inputs
RIGHT, NO_SESSION, LEAST = "right", "no session", 30
NUMBERS = ("float", "int32", "int64")
Model = str | tuple[str, str]  # in the syntax of onnx's parser, with another one that the CPU EP can compute


def unread() -> Iterator[Model]:
    nodes = ("y = Neg(x)", "a = Exp(x) b = Neg(a) y = Abs(b)", "a = Neg(x) b = Abs(x) y = Mul(a, b)", "y = Add(x, k)")
    for kind, sizes, shape, text in product(("float", "int64", "bool"), ("2,3", "N,3", "4"), ("2,3", "N,3"), nodes):
        x, u = f"float[{shape}] x", f"{kind}[{sizes}] u"
        for inputs in (f"{u}, {x}", f"{x}, {u}"):
            yield f"({inputs}) => (float[{shape}] y) <float k = {{2}}> {{ {text} }}"
    for shape, text in product(("2,3", "N,3"), ("y = Add(x, u)", "y = Neg(x) d = Abs(u)", "y = Neg(x) z = Size(u)")):
        outputs = f"float[{shape}] y" + ", int64 z" * ("z =" in text)
        yield f"(float[{shape}] u, float[{shape}] x) => ({outputs}) {{ {text} }}"


def one_input() -> Iterator[Model]:
    nodes = (
        *("y = OP(x) z = Abs(x)", "y = OP(x) a = Abs(x) z = Neg(a)", "a = Abs(x) y = OP(a) z = Neg(a)"),
        *("a = OP(x) y = Abs(a) z = Neg(a)", "y = OP(x, x) z = Abs(x)"),
    )
    for operator, kind, shape, text in product(("Max", "Min", "Sum", "Mean"), NUMBERS, ("2,3", "5", "1", "N,3"), nodes):
        if kind == "float" or operator[2] in "xn":
            outputs = f"{kind}[{shape}] y, {kind}[{shape}] z"
            yield f"({kind}[{shape}] x) => ({outputs}) {{ {text.replace('OP', operator)} }}"


def casts() -> Iterator[Model]:
    nodes = (
        *("y = Identity(x) z = Cast<to=K>(y)", "y = Identity(x) a = Cast<to=K>(y) z = Identity(a)"),
        *("a = Identity(x) y = Identity(a) z = Cast<to=K>(y)", "y = Identity(x) z = Cast<to=K>(x)"),
    )
    kinds = [("bool", "uint8", 2), ("float16", "float", 1), ("int8", "int32", 6), ("double", "float", 1)]
    kinds += [(kind, "int32", 6) for kind in ("int16", "int64", "uint16", "uint32")]
    for (kind, to, number), shape, text in product(kinds, ("2,3", "5", "N,3"), nodes):
        nodes_of_kind = text.replace("K", str(number))
        yield f"({kind}[{shape}] x) => ({kind}[{shape}] y, {to}[{shape}] z) {{ {nodes_of_kind} }}"


def tile() -> Iterator[Model]:
    nodes = ("y = Tile(x, r)", "a = Neg(x) y = Tile(a, r)", "a = Tile(x, r) y = Neg(a)", "y = Tile(x, k)")
    shapes = ("2,3,4,5", "N,3,4,5", "B,C,H,W", "2,1,3,2,2", "N,2,2,2,2", "1,3,4,5", "N,1,2,2", "2,3,4", "N,3")
    for kind, shape, text in product(NUMBERS, shapes, nodes):
        rank = shape.count(",") + 1
        inputs, constant = f"{kind}[{shape}] x, int64[{rank}] r", f"int64[{rank}] k = {{{','.join('2' * rank)}}}"
        yield f"({inputs}) => ({kind}[{','.join('EFGHI'[:rank])}] y) <{constant}> {{ {text} }}"


def _recurrent(operator: str, shape: str, outputs: str, lengths: str = "", both: int = 0, layout: int = 0) -> Model:
    gates, directions = {"GRU": 3, "RNN": 1, "LSTM": 4}[operator], 1 + both
    parts = {"int32[2] c": lengths or "1, 1"}
    for name, size in (("W", 3), ("R", 4)):
        numbers = np.random.default_rng(0).integers(-9, 9, directions * gates * 4 * size) / 10
        parts[f"float[{directions},{gates * 4},{size}] {name}"] = ",".join(map(str, numbers))
    constants = ", ".join(f"{name} = {{{numbers}}}" for name, numbers in parts.items() if "leng" not in numbers)
    declared = ", ".join(f"float[{'E,F,G,H' if name == 'Y' else 'E,F,G'}] {name}" for name in outputs if name in "YZ")
    inputs, given = f"float[{shape}] X", "X, W, R"
    if lengths:
        is_input = "leng" in lengths
        given += f", , {lengths}" if is_input else ", , c"
        inputs += f", int32[2] {lengths}" if is_input else ""
    attributes = f'hidden_size=4, direction="{("forward", "bidirectional")[both]}"'
    head = f"({inputs}) => ({declared}) <{constants}> {{"
    first = f"{head} {outputs} = {operator}<{attributes}, layout={layout}>({given}) }}"
    if not layout:
        return first
    names = outputs.replace("Y", "P").replace("Z", "Q")  # the CPU EP computes layout 0 only
    turned = ("Y = Transpose<perm=[2,0,1,3]>(P) " if "P" in names else "") + (
        "Z = Transpose<perm=[1,0,2]>(Q)" if "Q" in names else ""
    )
    before = f"T = Transpose<perm=[1,0,2]>(X) {names} = {operator}<{attributes}>({given.replace('X', 'T')})"
    return first, f"{head} {before} {turned} }}"


def layout() -> Iterator[Model]:
    shapes, outputs = ("5,2,3", "2,5,3", "N,5,3", "N,C,3"), ("Y", ", Z", "Y, Z")
    for operator, shape, names, both, number in product(("GRU", "RNN"), shapes, outputs, (0, 1), (0, 1)):
        yield _recurrent(operator, shape, names, "", both, number)


def lengths() -> Iterator[Model]:
    shapes, given = ("T,2,3", "T,B,3", "9,B,3", "9,2,3"), ("lengths", "long_lengths", "9, 9")
    for operator, shape, names, both, source in product(("GRU", "RNN", "LSTM"), shapes, ("Y", ", Z"), (0, 1), given):
        yield _recurrent(operator, shape, names, source, both)


def states() -> Iterator[Model]:
    for passes, outer, shape, kind, trips, more in product((1, 0), (0, 1, 2), ("N,3", "2,3"), NUMBERS, (0, 1), (0, 1)):
        x = f"float[{shape}]"
        inputs = [f"{x} h", f"{kind}[{shape}] m", *(f"{x} o{number}" for number in range(outer))]
        inputs += ["int64 trips"] * trips
        adds = " ".join(f"h{number + 1} = Add(h{number}, o{number})" for number in range(outer))
        state = "m0" if passes else "m1"
        body = f"int64 i, bool c, {x} h0, {kind}[{shape}] m0) => (bool d, {x} t, {kind}[{shape}] {state}"
        nodes = f"d = Identity(c) {adds} t = Tanh(h{outer})" + " m1 = Neg(m0)" * (not passes)
        body, names = (f"{body}, {x} s", "y, z, w") if more else (body, "y, z")
        nodes += " s = Abs(t)" * more
        call = f"{names} = Loop({'trips' if trips else 'k'}, , h, m) <body = b ({body}) {{ {nodes} }}>"
        yield f"({', '.join(inputs)}) => ({x} y) <int64 k = {{3}}> {{ {call} }}"
    for passes, outer, shape, operator in product((1, 0), ("0", "1", "constant"), ("N,3", "2,3"), ("Tanh", "Hardmax")):
        added = {"0": "s", "1": "o", "constant": "k"}[outer]
        state = "p" if passes else "q"
        body = f"float[3] s, float p, float[3] r) => (float[3] t, float {state}, float[3] u"
        nodes = f"a = Add(s, {added}) t = Add(a, r) u = {operator}(t)" + " q = Neg(p)" * (not passes)
        call = f"e, f, y = Scan<num_scan_inputs=1, body = b ({body}) {{ {nodes} }}>(h, m, x)"
        inputs = f"float[{shape}] x, float[3] h, float m, float[3] o"
        yield f"({inputs}) => (float[{shape}] y) <float[3] k = {{1, 2, 3}}> {{ v = Neg(o) {call} }}"


def branches() -> Iterator[Model]:
    forms = (
        "v = Identity(S)",
        "v = Neg(S)",
        "v = Reshape(S, k)",
        "a = Identity(S) v = Neg(a)",
        "v = Concat<axis=0>(S, S)",
    )
    conditions = {
        "bool b": "",
        "float[1] condition": "s = ReduceSum<keepdims=0>(condition) b = Greater(s, half)",
        "float[N,3] w": "s = Shape(x) n = Gather(s, zero) b = Equal(n, eight)",
    }
    pairs = [("v = Neg(S)", form) for form in forms] + [("v = Constant<value = float[1,3] {1, 2, 3}>()", forms[1])]
    for (first, second), source, shape, after, (given, condition) in product(
        pairs, "xz", ("N,3", "2,3"), ("", "Neg"), conditions.items()
    ):
        bodies = [form.replace("S", source) for form in (first, second)]
        output = f"y{0 if after else ''}"
        then, other = (f"{name} () => (float[P,Q] v) {{ {text} }}" for name, text in zip("te", bodies, strict=True))
        call = f"z = Abs(x) {condition} {output} = If(b) <then_branch = {then}, else_branch = {other}>"
        constants = "<int64[2] k = {-1, 3}, float half = {0.5}, int64 zero = {0}, int64 eight = {8}>"
        inputs = f"float[{shape}] x, {given.replace('N', shape[0])}"
        yield f"({inputs}) => (float[E,F] y) {constants} {{ {call} {'y = Neg(y0)' if after else ''} }}"


def clips() -> Iterator[Model]:
    nodes = ("y = Clip(xLIMITS)", "a = Clip(xLIMITS) y = Neg(a)")
    limits = ("", ", l", ", m", ", l, h", ", , h")
    for kind, shape, given, text in product(
        ("float", "int64"), ("2,3", "N,3", "5", "N", "1", "2,N,3", "N,2,3", "1,4"), limits, nodes
    ):
        constants = f"<{kind} l = {{-9}}, {kind} h = {{20}}>"
        yield f"({kind}[{shape}] x, {kind} m) => ({kind}[{shape}] y) {constants} {{ {text.replace('LIMITS', given)} }}"


STRUCTURES = (unread, one_input, casts, tile, layout, lengths, states, branches, clips)


def parsed(text: str) -> ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> test {text}')


def feeds(made: ModelProto, size: int, condition: int, generator: np.random.Generator) -> dict[str, np.ndarray]:
    sizes, found = {"N": size, "T": 9, "B": 2}, {}
    for value in made.graph.input:
        kind = value.type.tensor_type
        shape = [sizes.get(one.dim_param, one.dim_value or 3) for one in kind.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
        if value.name == "r":
            numbers = generator.integers(1, 4, shape)
        elif value.name in ("b", "condition"):
            numbers = np.full(shape, condition)
        elif value.name in VALUES:
            numbers = VALUES[value.name]
        elif dtype.kind in "bu":
            numbers = generator.integers(0, 2, shape)
        else:
            numbers = generator.integers(-50, 50, shape) / (16 if dtype.kind == "f" else 1)
        found[value.name] = np.asarray(numbers, dtype)
    return found


def session_of(made: ModelProto) -> InferenceSession:
    options = SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == OPENVINO]
    if devices:  # of the plugin
        options.add_provider_for_devices(devices[:1], {"precision": "FP32"})
    else:
        options.add_provider(OPENVINO, {"precision": "FP32"})
    return InferenceSession(made.SerializeToString(), options)


def attempt(made: ModelProto, same: ModelProto) -> tuple[str, str]:
    """Return the reason why the backend refuses a session of a model, and the result of runs of the session."""
    options = SessionOptions()
    options.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL
    cpu = InferenceSession(same.SerializeToString(), options, providers=["CPUExecutionProvider"])
    try:
        session = session_of(made)
    except Exception:  # ORT raises classes without a common base
        return "", NO_SESSION
    refused = that_is_wrong(made, session)
    generator, kept = np.random.default_rng(0), []
    for size, condition in RUNS:
        kept.append(feeds(made, size, condition, generator))
        expected = cpu.run(None, kept[-1])
        for _ in range(2):
            garbage = [np.full(4096, 77, np.float32) for _ in range(3)]
            del garbage  # its memory is used again
            try:
                outputs = session.run(None, kept[-1])
            except Exception:
                return refused, "failed run"
            for output, wanted in zip(outputs, expected, strict=True):
                if output.shape != wanted.shape or not np.allclose(output, wanted, 1e-3, 1e-3, equal_nan=True):
                    return refused, "wrong"
    return refused, RIGHT


def verdict(model: Model) -> tuple[str, str]:
    """Return the reason why the backend refuses a model, and the result of its runs without the backend."""
    first, same = (model, model) if isinstance(model, str) else model
    refused, result = attempt(parsed(first), parsed(same))
    return that_ends_the_process(parsed(first)) or refused, result


def main(names: Sequence[str]) -> int:
    onnxruntime.set_default_logger_severity(4)
    if OPENVINO not in onnxruntime.get_available_providers() and not register_openvino_plugin():
        sys.exit(f"{OPENVINO} is neither built into this ORT, nor installed as a plugin")
    chosen: list[Callable[[], Iterator[Model]]] = [each for each in STRUCTURES if each.__name__ in names or not names]
    failed = False
    for structure in chosen:
        found: dict[str, collections.Counter] = {"refused": collections.Counter(), "permitted": collections.Counter()}
        for model, answer in in_children(verdict, list(structure())):
            text = model if isinstance(model, str) else model[0]
            refused, result = answer or (that_ends_the_process(parsed(text)), "process terminated")
            found["refused" if refused else "permitted"][result] += 1
            if result != NO_SESSION and bool(refused) == (result == RIGHT):
                print(f"{result}: {refused}: {text[-300:]}", flush=True)
        print(structure.__name__, {name: dict(counts) for name, counts in found.items()}, flush=True)
        failed |= found["refused"][RIGHT] > 0 or 0 < found["refused"].total() < LEAST
    return int(failed)


if __name__ == "__main__":
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    sys.exit(main(sys.argv[1:]))
