# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Runs models with the structures of ``openvino/known_defects.py``, and models that look similar, without the backend.

    python -m campaigns.openvino_known_defects [STRUCTURE ...]

The program compares the values with those of the CPU EP for several sizes. It counts the results of the models that the
backend refuses, and those of the other models. The exit status is 1 if a model is refused that is right, or if fewer
than 30 models of a structure are refused, unless none is. The program requires Linux, and the EP, built-in or plugin.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import product

import numpy as np
from helpers.execution_providers import OPENVINO, add_openvino, register_openvino_plugin
from onnx import ModelProto, helper, parser

import onnxruntime
from campaigns.children import in_children
from onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions
from onnxruntime.backend.openvino.known_defects import that_ends_the_process, that_is_wrong

# Of each run, the size of the dimension N, negative if conditions are false.
RUNS = (1, -4, 8, 1, -64, 64, -3, 2, -2, -1, -8, 8, 3, 1)
VALUES = {"trips": 3, "lengths": [9, 6]}  # of inputs
RIGHT, WRONG, NO_SESSION = "right", "wrong", "no session"
LEAST = 30  # variants of a structure
NUMBERS = "float; int32; int64"
MATRICES = "2,3; N,3"  # their shapes


def variants(text: str, **choices: str) -> list[str]:
    """Return the text with each combination of these choices in place of their names.

    Choices are lines, or have semicolons between them. A choice can have several parts with ``|`` between them. The
    last part is for the rest of the places.
    """
    found = []
    lists = [re.split("[;\\n]", each.strip()) for each in choices.values()]
    for combination in product(*lists):
        variant = text
        for name, choice in zip(choices, combination, strict=True):
            *firsts, last = choice.strip().split("|")
            for first in firsts:
                variant = variant.replace(name, first, 1)
            variant = variant.replace(name, last)
        found.append(variant)
    return found


def recurrent(rows: dict[str, int], text: str, **choices: str) -> list[str]:
    """Return variants of models with constant weights: for each operator the rows of its weights, and both directions.

    In the text, ``OUTPUTS`` are declarations and names of the outputs, and ``CALL`` is the operator with attributes.
    """
    found = []
    generator = np.random.default_rng(0)
    for operator, (count, direction) in product(rows, ((1, "forward"), (2, "bidirectional"))):
        constants = "int32[2] c = {9, 9}"
        for name, columns in (("W", 3), ("R", 4)):
            shape = [count, rows[operator], columns]
            numbers = generator.integers(-9, 9, shape).ravel() / 10
            constants += f", float{shape} {name} = {{{','.join(map(str, numbers))}}}"
        outputs = """
            float[E,F,G,H] Y) <CONSTANTS> { Y
            float[E,F,G] Z) <CONSTANTS> { , Z
            float[E,F,G,H] Y, float[E,F,G] Z) <CONSTANTS> { Y, Z
        """
        call = f'{operator}<hidden_size=4, direction="{direction}"'
        found += variants(text, **choices, OUTPUTS=outputs, CALL=call, CONSTANTS=constants)
    return found


STRUCTURES = {
    "unread": [
        *variants(
            "(INPUTS) => (float[SHAPE] y) <float k = {2}> { NODES }",
            INPUTS="KIND[SIZES] u, float[SHAPE] x; float[SHAPE] x, KIND[SIZES] u",
            NODES="""
                y = Neg(x)
                a = Exp(x) b = Neg(a) y = Abs(b)
                a = Neg(x) b = Abs(x) y = Mul(a, b)
                y = Add(x, k)
            """,
            KIND="float; int64; bool",
            SIZES="2,3; N,3; 4",
            SHAPE=MATRICES,
        ),
        *variants(
            "(float[SHAPE] u, float[SHAPE] xREST }",
            REST="""
                ) => (float[SHAPE] y) { y = Add(x, u)
                ) => (float[SHAPE] y) { y = Neg(x) d = Abs(u)
                ) => (float[SHAPE] y, int64 z) { y = Neg(x) z = Size(u)
                , float[SHAPE] b) => (float[SHAPE] y) { y = Add(u, b)
            """,
            SHAPE=MATRICES,
        ),
    ],
    "copies": [
        *variants(
            "(KIND[SHAPE] x) => (KIND[SHAPE] y, KIND[SHAPE] z) { NODES }",
            NODES="""
            y = OP(x) z = Abs(x)
            y = OP(x) a = Abs(x) z = Neg(a)
            a = Abs(x) y = OP(a) z = Neg(a)
            a = OP(x) y = Abs(a) z = Neg(a)
            y = OP(x, x) z = Abs(x)
            a = Identity(x) y = OP(a) z = Neg(a)
            y = Identity(x) z = OP(y)
        """,
            OP="Max; Min; Sum; Mean",
            SHAPE="2,3; 5; 1; N,3",
            KIND=NUMBERS,
        ),
        *variants(
            "(KIND[SHAPE] x) => (KIND[SHAPE] y, KIND[SHAPE] z) { NODES }",
            NODES="""
            y = Identity(x) z = Cast<to=KIND>(y)
            y = Identity(x) a = Cast<to=KIND>(y) z = Identity(a)
            a = Identity(x) y = Identity(a) z = Cast<to=KIND>(y)
            y = Identity(x) z = Cast<to=KIND>(x)
        """,
            KIND="""
            bool|bool|uint8|2
            float16|float16|float|1
            double|double|float|1
            int8|int8|int32|6
            int16|int16|int32|6
            int64|int64|int32|6
            uint16|uint16|int32|6
            uint32|uint32|int32|6
        """,
            SHAPE="2,3; 5; N,3",
        ),
    ],
    "tile": variants(
        "(KIND[SHAPE] x, int64[SHAPE] r) => (KIND[SHAPE] y) <int64[SHAPE] k = {SHAPE}> { NODES }",
        NODES="""
            y = Tile(x, r)
            a = Neg(x) y = Tile(a, r)
            a = Tile(x, r) y = Neg(a)
            a = Concat<axis=0>(x, x) y = Tile(a, r)
            y = Tile(x, k)
        """,
        SHAPE="""
            2,3,4,5|4|E,F,G,H|4|2,2,2,2
            N,3,4,5|4|E,F,G,H|4|2,2,2,2
            B,C,H,W|4|E,F,G,H|4|2,2,2,2
            1,3,4,5|4|E,F,G,H|4|2,2,2,2
            N,1,2,2|4|E,F,G,H|4|2,2,2,2
            2,1,3,2,2|5|E,F,G,H,I|5|2,2,2,2,2
            N,2,2,2,2|5|E,F,G,H,I|5|2,2,2,2,2
            2,3,4|3|E,F,G|3|2,2,2
            N,3|2|E,F|2|2,2
        """,
        KIND=NUMBERS,
    ),
    "layout": recurrent(
        {"GRU": 12, "RNN": 4},
        "(float[SHAPE] X) => (OUTPUTS = CALL, layout=LAYOUT>(X, W, R) }",
        LAYOUT="0; 1",
        SHAPE="5,2,3; 2,5,3; N,5,3; N,C,3",
    ),
    "lengths": recurrent(
        {"GRU": 12, "RNN": 4, "LSTM": 16},
        "(float[SHAPE] XLENGTHS) => (OUTPUTS = CALL>(X, W, R, , LENGTHS) }",
        LENGTHS=", int32[2] lengths|lengths; |c",
        SHAPE="9,2,3; 9,B,3; T,2,3; T,B,3",
    ),
    "states": [
        *variants(
            """(float[SHAPE] h, KIND[SHAPE] mOUTERTRIPS) => (float[SHAPE] y) <int64 k = {3}> {
            y, zMORE = Loop(TRIPS, , h, m) <body = b (int64 i, bool c, float[SHAPE] h0, KIND[SHAPE] m0) =>
            (bool d, float[SHAPE] t, KIND[SHAPE] STATEMORE) { d = Identity(c) OUTER t = Tanh(OUTER) STATE MORE }> }""",
            STATE="m0|; m1|m1 = Neg(m0)",
            OUTER="""
                ||h0
                , float[SHAPE] o0|h1 = Add(h0, o0)|h1
                , float[SHAPE] o0, float[SHAPE] o1|h1 = Add(h0, o0) h2 = Add(h1, o1)|h2
            """,
            TRIPS="|k; , int64 trips|trips",
            MORE="||; , w|, float[SHAPE] s|s = Abs(t)",
            KIND=NUMBERS,
            SHAPE=MATRICES,
        ),
        *variants(
            """(float[SHAPE] x, float[3] h, float m, float[3] o) => (float[SHAPE] y) <float[3] k = {1, 2, 3}> {
            v = Neg(o) e, f, y = Scan<num_scan_inputs=1, body = b (float[3] s, float p, float[3] r) =>
            (float[3] t, float STATE, float[3] u) { a = Add(s, OUTER) t = Add(a, r) u = OP(t) STATE }>(h, m, x) }""",
            STATE="p|; q|q = Neg(p)",
            OUTER="s; o; k",
            OP="Tanh; Hardmax",
            SHAPE=MATRICES,
        ),
    ],
    "branches": variants(
        """(float[SHAPE] x, CONDITION) => (float[E,F] y)
        <int64[2] k = {-1, 3}, float half = {0.5}, int64 zero = {0}, int64 eight = {8}> {
        z = Abs(x) CONDITION RESULT = If(b) <then_branch = t () => (float[P,Q] v) { v = BRANCH },
        else_branch = e () => (float[P,Q] v) { BRANCH }> RESULT }""",
        BRANCH="""
            Neg(SOURCE)|v = Identity(SOURCE)
            Identity(x)|v = Identity(SOURCE)
            Neg(SOURCE)|v = Exp(SOURCE)
            Neg(SOURCE)|v = Reshape(SOURCE, k)
            Neg(SOURCE)|a = Identity(SOURCE) v = Neg(a)
            Neg(SOURCE)|v = Concat<axis=0>(SOURCE, SOURCE)
            Constant<value = float[1,3] {1, 2, 3}>()|v = Neg(SOURCE)
        """,
        SOURCE="x; z",
        CONDITION="""
            bool b|
            float[1] condition|s = ReduceSum<keepdims=0>(condition) b = Greater(s, half)
            float[SHAPE] w|s = Shape(x) n = Gather(s, zero) b = Equal(n, eight)
        """,
        RESULT="y|; q|y = Identity(q); q|y = Neg(q)",
        SHAPE=MATRICES,
    ),
    "clips": variants(
        "(KIND[SHAPE] x, KIND m) => (KIND[SHAPE] y) <KIND l = {-9}, KIND h = {20}> { NODES }",
        NODES="y = Clip(xLIMITS); a = Clip(xLIMITS) y = Neg(a)",
        LIMITS="; , l; , m; , l, h; , , h",
        SHAPE="2,3; N,3; 5; N; 1; 2,N,3; N,2,3; 1,4",
        KIND="float; int64",
    ),
}


def parsed(text: str) -> ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> test {text}')


def feeds(made: ModelProto, size: int, generator: np.random.Generator) -> dict[str, np.ndarray]:
    sizes = {"N": abs(size), "T": 9, "B": 2}
    found = {}
    for value in made.graph.input:
        kind = value.type.tensor_type
        shape = [sizes.get(one.dim_param, one.dim_value or 3) for one in kind.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
        if value.name in ("b", "condition"):
            numbers = np.full(shape, size > 0)
        elif value.name == "r":
            numbers = generator.integers(1, 4, shape)
        elif dtype.kind in "bu":
            numbers = generator.integers(0, 2, shape)
        else:
            numbers = generator.integers(-50, 50, shape) / (16 if dtype.kind == "f" else 1)
        found[value.name] = np.asarray(VALUES.get(value.name, numbers), dtype)
    return found


def attempt(text: str) -> tuple[str, str]:
    """Return the reason why the backend refuses a model, and the result of its runs without the backend."""
    made = parsed(text)
    ends = that_ends_the_process(made)
    same = parsed(text.replace("layout=1", "layout=0"))  # the CPU EP has no other layout
    options = SessionOptions()
    options.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL
    on_openvino = SessionOptions()
    on_openvino.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    add_openvino(on_openvino, {"precision": "FP32"})
    try:
        cpu = InferenceSession(same.SerializeToString(), options, providers=["CPUExecutionProvider"])
        session = InferenceSession(made.SerializeToString(), on_openvino)
    except Exception:  # ORT raises classes without a common base
        return ends, NO_SESSION
    refused = ends or that_is_wrong(made, session)
    generator = np.random.default_rng(0)
    kept = []
    for size in RUNS:
        kept.append(feeds(made, size, generator))
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
                    return refused, WRONG if same == made else RIGHT
    return refused, RIGHT if same == made else WRONG


def main(names: Sequence[str]) -> int:
    onnxruntime.set_default_logger_severity(4)
    if OPENVINO not in onnxruntime.get_available_providers() and not register_openvino_plugin():
        sys.exit(f"{OPENVINO} is neither built into this ORT, nor installed as a plugin")
    failed = False
    for name in names or STRUCTURES:
        found = {"refused": Counter(), "permitted": Counter()}
        for text, answer in in_children(attempt, STRUCTURES[name]):
            refused, result = answer or (that_ends_the_process(parsed(text)), "process terminated")
            found["refused" if refused else "permitted"][result] += 1
            if result != NO_SESSION and bool(refused) == (result == RIGHT):
                print(f"{result}: {refused}: {text[-300:]}", flush=True)
        print(name, found, flush=True)
        failed |= found["refused"][RIGHT] > 0 or 0 < found["refused"].total() < LEAST
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
