# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Runs random small graphs on the OpenVINO EP in one thread, and then in several, and checks memory.

    python -m campaigns.openvino_graphs [--count 1000] [--seed 0]

The nodes copy, alias, or fold. No run may change an input, an earlier output, or memory that the caller released, or
terminate the process. Otherwise, the exit status is 1. The program also counts wrong values, models that terminate the
process when the EP compiles them, and models that are refused. It requires Linux, and the EP, built-in or plugin.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
from helpers.execution_providers import OPENVINO, register_openvino_plugin
from helpers.models import parsed
from onnx import ModelProto, TensorProto, helper

import onnxruntime
import onnxruntime.backend
from campaigns.children import in_children
from onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions

MEMORY, WRONG, FAILED, RIGHT = "changed memory", "wrong values", "failed run", "right"
NO_SESSION, REFUSED, IN_A_RUN = "no session", "refused", "process terminated in a run"
THREADS = 4  # that run a graph
RUNS = 10  # pairs of runs of each thread
PROVIDERS = {OPENVINO: {"precision": "FP32"}}
FLOATS = ["float", "double", "float16"]
NUMBERS = [*FLOATS, "int32", "int64"]
TYPES = [*NUMBERS, "bool", "int8", "uint8", "int16", "uint16", "uint32"]

# Nodes in the syntax of onnx's parser. X and Z are values of the type T and the shape S, and so is Y, the new one. K is
# the number of another type, N that of T, and @ a new number. Names of constants and further inputs are below.
_ANY = """
Y = Identity(X) | Y = Cast<to=N>(X) | Y = CastLike(X, Z) | c@ = Cast<to=K>(X) Y = Cast<to=N>(c@)
Y = Reshape(X, zeros) | s@ = Shape(X) Y = Reshape(X, s@) | Y = Reshape(X, given_zeros)
u@ = Unsqueeze(X, zero) Y = Squeeze(u@, zero) | Y = Slice(X, zero, given_most, zero) | Y = Concat<axis=0>(X)
Y = Expand(X, given_ones) | s@ = Shape(X) Y = Expand(X, s@) | Y = Tile(X, ones) | t@ = Transpose(X) Y = Transpose(t@)
Y = Where(given_b, X, Z) | c@ = Concat<axis=0>(X, Z) Y = Slice(c@, zero, one, zero) | n@ = NonZero(X) Y = Identity(X)
Y = If(given_b) <then_branch = t@ () => (T[S] a@) { a@ = COPY(X) }, else_branch = e@ () => (T[S] b@) { b@ = COPY(Z) }>
Y = Loop(two, , X) <body = l@ (int64 i@, bool c@, T[S] h@) => (bool d@, T[S] k@) { d@ = COPY(c@) k@ = COPY(h@) }>
""".replace("COPY", "Identity")
_NUMBERS = """
Y = Add(X, low) | Y = Mul(X, unit) | Y = Max(X) | Y = Max(X, Z) | Y = Neg(X) | Y = Abs(X) | Y = Clip(X, low, high)
Y = Add(X, Z) | r@ = ReduceMax<keepdims=1>(X, zero) Y = Max(X, r@) | t@ = Tile(X, given_repeats) Y = Abs(X)
"""
_FLOATS = """
Y = Sum(X) | Y = Mean(X) | Y = Sum(X, Z) | Y = Relu(X) | Y, m@ = Dropout(X) | Y = Floor(X)
Y = ai.onnx.ml.Scaler<offset=[0.0], scale=[1.0]>(X) | r@ = ReduceMean<keepdims=1>(X, zero) Y = Max(X, r@)
"""
_CONSTANTS = "int64[1] zero = {0}, int64[1] one = {1}, int64 two = {2}"
_SHAPES = "N N,4 2,N N,M 3 2,3 2,3,1 1,1 1000 2,3,4,5 N,3,4,5"
# The further inputs, each with its type and value.
GIVEN = {
    "given_zeros": ("int64[R]", 0),
    "given_ones": ("int64[R]", 1),
    "given_repeats": ("int64[R]", 2),
    "given_most": ("int64[1]", 2000),
    "given_b": ("bool", None),
}


def random_graph(seed: int) -> ModelProto:
    """Return the graph of a seed: always the same one."""
    draw = random.Random(seed)
    kind, shape = draw.choice(TYPES + FLOATS[:1] * 10), draw.choice(_SHAPES.split())
    rank = shape.count(",") + 1
    templates = _ANY + _NUMBERS * 2 * (kind in NUMBERS) + _FLOATS * 2 * (kind in FLOATS)
    choices = [choice for choice in re.split(r"[|\n]", templates) if choice.strip()]
    values, nodes = ["x0", "x2"], ""
    for number in range(draw.randint(1, 7)):
        names = {"X": draw.choice(values[-3:]), "Y": f"y{number}", "Z": draw.choice(values), "T": kind, "S": shape}
        names |= {"N": _number(kind), "K": _number(draw.choice(TYPES))}
        text = re.sub(r"\b[XYZTSNK]\b", lambda found, names=names: names[found[0]], draw.choice(choices))
        nodes += text.replace("@", str(number))
        values.append(names["Y"])

    read = re.findall(r"\w+", nodes)
    inputs = {"x0": f"{kind}[{shape}]", "x1": f"{draw.choice(TYPES)}[N]", "x2": f"{kind}[{shape}]"}
    inputs |= {name: given.replace("R", str(rank)) for name, (given, _) in GIVEN.items()}
    given = [f"{inputs[name]} {name}" for name in inputs if name in read]
    dtype = helper.tensor_dtype_to_np_dtype(int(_number(kind)))
    weights = {"zeros": np.zeros(rank, int), "ones": np.ones(rank, int)}
    weights |= {name: np.array(number, dtype) for name, number in (("low", 0), ("unit", 1), ("high", 40))}
    model = parsed(f"({', '.join(given)}) => () <{_CONSTANTS}> {{{nodes} }}", "ai.onnx.ml", **weights)
    computed = [name for node in model.graph.node for name in node.output]
    outputs = {name for name in computed if read.count(name) == 1 or draw.random() < 0.2}
    model.graph.output.extend(map(helper.make_empty_tensor_value_info, sorted(outputs)))
    return model


def _number(kind: str) -> str:
    return str(TensorProto.DataType.Value(kind.upper()))


def arrays_of(model: ModelProto, draw: random.Random) -> dict[str, np.ndarray]:
    """Return random values for each input."""
    generator = np.random.default_rng(draw.randrange(2**32))
    sizes, found = {name: draw.choice((1, 2, 3, 8, 64)) for name in "NM"}, {}
    for value in model.graph.input:
        kind = value.type.tensor_type
        dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
        shape = [size.dim_value or sizes[size.dim_param] for size in kind.shape.dim]
        _, number = GIVEN.get(value.name, ("", None))
        if number is None:
            number = generator.integers(0, 2 if dtype.kind == "b" else 50, shape)
        found[value.name] = np.full(shape, number, dtype)
    return found


def check(seed: int) -> str:
    """Return the result of the graph of a seed."""
    model = random_graph(seed)
    options = SessionOptions()
    options.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        oracle = InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        rep = onnxruntime.backend.prepare(model.SerializeToString(), provider_options=PROVIDERS)
    except onnxruntime.backend.NotPermittedError:
        return REFUSED
    except Exception:  # such as an operator that is not defined for a type
        return NO_SESSION
    if not rep.node_assignment or not rep.node_assignment[OPENVINO]:
        return NO_SESSION
    work = partial(client, rep, oracle, model)
    found = {work(seed)}
    with ThreadPoolExecutor(THREADS) as pool:
        found.update(pool.map(work, range(seed, seed + THREADS)))
    return min(found, key=[MEMORY, WRONG, FAILED, RIGHT].index)


def is_compiled(seed: int) -> bool:
    onnxruntime.backend.prepare(random_graph(seed).SerializeToString(), provider_options=PROVIDERS)
    return True


def client(rep, oracle: InferenceSession, model: ModelProto, seed: int) -> str:
    """Return what is wrong with the runs of one thread."""
    draw = random.Random(seed)
    kept: list[tuple[np.ndarray, bytes]] = []  # arrays that no run may change

    def keep(arrays: Iterable[np.ndarray]) -> None:
        kept.extend((array, array.tobytes()) for array in arrays)

    result = RIGHT
    for _ in range(RUNS):
        arrays = arrays_of(model, draw)
        try:
            expected = oracle.run(None, arrays)
        except Exception:  # such as a Reshape that does not fit
            continue
        for _ in range(2):
            try:
                outputs = rep.run(arrays)
            except Exception:
                result = FAILED
                continue
            keep(outputs)
            for output, wanted in zip(outputs, expected, strict=True):
                if output.shape != wanted.shape or not np.allclose(output, wanted, 0.01, 0.02, equal_nan=True):
                    result = WRONG
        if draw.random() < 0.5:  # numpy gives these arrays the memory of the released ones
            shapes = [(array.shape, array.dtype) for array in arrays.values()]
            arrays = outputs = None
            keep([np.zeros(shape, dtype) for shape, dtype in shapes])
        else:
            keep(arrays.values())
        if any(array.tobytes() != before for array, before in kept):
            return MEMORY
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000, help="number of graphs (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first graph (default: %(default)s)")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    onnxruntime.set_default_logger_severity(4)
    register_openvino_plugin()
    found: Counter[str] = Counter()
    for seed, answer in in_children(check, range(given.seed, given.seed + given.count)):
        result = answer
        if result is None:
            _, compiled = next(in_children(is_compiled, [seed]))
            result = IN_A_RUN if compiled else "process terminated by the model"
        found[result] += 1
        if result not in (NO_SESSION, RIGHT, REFUSED):
            operators = {node.op_type for node in random_graph(seed).graph.node}
            print(f"graph {seed}: {result}: {' '.join(sorted(operators))}", flush=True)
    print(f"{given.count} graphs: {dict(found)}")
    return int(found[MEMORY] + found[IN_A_RUN] > 0)


if __name__ == "__main__":
    sys.exit(main())
