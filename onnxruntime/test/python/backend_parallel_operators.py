# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Runs operators on the OpenVINO EP with hostile values. No value may fail a run whose shapes are right.

This is the evidence for the lists in ``openvino/parallel_models.py``, and for the operators before a Clip in
``openvino/unsafe_models.py``: the process terminates if the EP does not convert such an operator. Run it again for
another release of the EP, or before you add an operator. It requires Linux, and the EP, built-in or plugin.

    python backend_parallel_operators.py [OPERATOR ...]

The program runs each operator with each of its types in ranks 1 to 4, with tensors without elements, too. It also
creates a session with a Clip after the operator, if the backend permits this model. Each operator runs in a process of
its own, because a value can terminate the process. This terminates a session without the backend, too, and returns no
wrong value. The program prints a line for each operator, with the types that the EP does not compute in parentheses.
The exit status is 1 if a value fails a run, if a later run returns another output, or if a Clip terminates a process.
"""

from __future__ import annotations

import math
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from backend_test_execution_providers import register_openvino_plugin
from backend_test_models import parsed
from onnx import ModelProto, TensorProto, helper
from onnx.shape_inference import infer_shapes

import onnxruntime
from onnxruntime import InferenceSession, SessionOptions
from onnxruntime.backend.openvino.model_graph import Graph
from onnxruntime.backend.openvino.parallel_models import OPERATORS, TYPES, only_shapes_decide
from onnxruntime.backend.openvino.unsafe_models import clips_unconverted
from onnxruntime.backend.provider_names import OPENVINO

RUNS = 6  # of each shape
_SECONDS = 120  # for one operator
DIED = "terminates the process"
# By the names that onnx's parser and its types have.
NAMES = {TensorProto.DataType.Name(number).lower(): number for number in sorted(TYPES)}
_BYTES = ("int8", "uint8")


class Variant(NamedTuple):
    """A node of one operator, and shapes of its inputs. ``T`` is the tested type in all texts."""

    call: str  # its inputs are the values a, x1, x2, ..., and the constants
    shapes: Sequence[Sequence[tuple[int, ...]]]  # of a, x1, x2, ... in each run; all dimensions of the model are free
    constants: str = ""  # of the model, in the syntax of onnx's parser
    types: Sequence[str] = ("T", "T", "T", "T", "T")  # of a, x1, x2, ...
    only: Sequence[str] = tuple(NAMES)  # the tested types


def _ranks(call: str, inputs: int = 1) -> list[Variant]:
    """Return variants with inputs of the same shape, of one to four dimensions."""
    shapes = ((3,), (2, 67), (2, 3, 5), (1, 2, 3, 4))
    return [Variant(call, [[shape] * inputs, [(0, *shape[1:])] * inputs]) for shape in shapes]


def _weights(*shape: int) -> str:
    """Return a constant of ones, which some operators need as weights on this EP."""
    return f"T[{','.join(map(str, shape))}] w = {{{','.join('1' * math.prod(shape))}}}"


_IMAGE, _WIDE = (1, 2, 6, 6), (2, 2, 9, 7)
_BINARY = "Add And Div Equal Greater GreaterOrEqual Less LessOrEqual Max Mean Min Mul Or Pow Sub Sum Xor"
_REDUCE = [name for name in OPERATORS if name.startswith("Reduce")]
VARIANTS = {
    **{name: _ranks(f"{name}(a)") for name in OPERATORS},
    **{name: _ranks(f"{name}(a, x1)", 2) for name in _BINARY.split()},
    **{
        name: [Variant(f"{name}<keepdims={k}>(a, c)", [[(2, 3, 4)], [(2, 3, 0)]], "int64[1] c = {1}") for k in (0, 1)]
        for name in _REDUCE
    },
    "AveragePool": [Variant("AveragePool<kernel_shape=[2,2]>(a)", [[_IMAGE], [_WIDE]])],
    "BatchNormalization": [Variant("BatchNormalization(a, x1, x2, x3, x4)", [[_IMAGE, *[(2,)] * 4]])],
    "Cast": [variant for to in TYPES for variant in _ranks(f"Cast<to={to}>(a)")[1:3]],
    "CastLike": [Variant("CastLike(a, x1)", [[(2, 3), (2,)]], types=("T", to)) for to in NAMES],
    "Clip": [Variant("Clip(a, x1, x2)", [[(2, 3), (), ()], [(0, 3), (), ()]])],
    "Concat": _ranks("Concat<axis=0>(a, x1)", 2),
    "Conv": [
        Variant("Conv(a, w)", [[_IMAGE], [_WIDE]], _weights(2, 2, 3, 3)),
        Variant("Conv<group=2>(a, w, x1)", [[(1, 2, 9), (4,)], [(2, 2, 67), (4,)]], _weights(4, 1, 3)),
    ],
    "ConvTranspose": [Variant("ConvTranspose(a, w)", [[_IMAGE], [_WIDE]], _weights(2, 2, 3, 3))],
    "CumSum": [Variant("CumSum(a, c)", [[(2, 3)], [(0, 3)]], "int64 c = {1}")],
    "DepthToSpace": [Variant("DepthToSpace<blocksize=2>(a)", [[(1, 8, 2, 3)], [(2, 4, 5, 1)]])],
    "DequantizeLinear": [
        Variant(
            "DequantizeLinear(a, x1, x2)", [[(2, 3), (), ()], [(0, 3), (), ()]], types=("T", "float", "T"), only=_BYTES
        ),
        Variant("DequantizeLinear(a, x1, x2)", [[(2, 3), (3,), (3,)]], types=("T", "float", "T"), only=_BYTES),
    ],
    "Dropout": [Variant("Dropout(a, r, t)", [[(2, 3)], [(0, 3)]], "float r = {0.5}, bool t = {0}")],
    "Expand": [Variant("Expand(a, c)", [[(2, 1)], [(1, 3)]], "int64[2] c = {2, 3}")],
    "Gather": [
        Variant("Gather(a, x1)", [[(4, 3), (2,)], [(5, 3), (0,)]], types=("T", index)) for index in ("int32", "int64")
    ],
    "Gemm": [
        Variant("Gemm(a, w, x1)", [[(2, 3), (4,)], [(0, 3), (4,)]], _weights(3, 4)),
        Variant("Gemm(a, x1, x2)", [[(2, 3), (3, 4), (4,)], [(0, 3), (3, 4), (4,)]]),
    ],
    "GlobalAveragePool": [Variant("GlobalAveragePool(a)", [[_IMAGE], [_WIDE]])],
    "GlobalMaxPool": [Variant("GlobalMaxPool(a)", [[_IMAGE], [_WIDE]])],
    "GroupNormalization": [Variant("GroupNormalization<num_groups=2>(a, x1, x2)", [[_IMAGE, (2,), (2,)]])],
    "InstanceNormalization": [Variant("InstanceNormalization(a, x1, x2)", [[_IMAGE, (2,), (2,)]])],
    "LRN": [Variant("LRN<size=3>(a)", [[_IMAGE], [_WIDE]])],
    "LayerNormalization": [Variant("LayerNormalization(a, x1, x2)", [[(2, 3), (3,), (3,)], [(0, 3), (3,), (3,)]])],
    "MatMul": [
        Variant("MatMul(a, x1)", [[(2, 3), (3, 4)], [(0, 3), (3, 4)]]),
        Variant("MatMul(a, x1)", [[(2, 5, 67), (2, 67, 4)]]),
        Variant("MatMul(a, w)", [[(2, 3)], [(0, 3)]], _weights(3, 4)),
    ],
    "MaxPool": [Variant("MaxPool<kernel_shape=[2,2]>(a)", [[_IMAGE], [_WIDE]])],
    "MeanVarianceNormalization": [Variant("MeanVarianceNormalization(a)", [[_IMAGE], [_WIDE]])],
    "Mod": [*_ranks("Mod<fmod=1>(a, x1)", 2), *_ranks("Mod(a, x1)", 2)],
    "PRelu": [Variant("PRelu(a, x1)", [[(1, 2, 3), (2, 1)], [(0, 2, 3), (2, 1)]])],
    "Pad": [
        Variant(f'Pad<mode="{mode}">(a, c)', [[(2, 3)], [(4, 3)]], "int64[4] c = {1, 0, 1, 1}")
        for mode in ("constant", "edge", "reflect")
    ],
    "QuantizeLinear": [
        Variant("QuantizeLinear(a, x1, x2)", [[(2, 3), (), ()], [(0, 3), (), ()]], types=("T", "T", to))
        for to in _BYTES
    ],
    "Reshape": [
        Variant("Reshape(a, c)", [[(2, 6)], [(4, 3)]], "int64[2] c = {3, -1}"),
        Variant("Reshape(a, c)", [[(2, 6)], [(0, 6)]], "int64[3] c = {0, 2, 3}"),
    ],
    "Resize": [
        Variant(f'Resize<mode="{mode}">(a, , c)', [[(1, 1, 4, 4)], [(1, 1, 2, 3)]], "float[4] c = {1, 1, 2, 2}")
        for mode in ("nearest", "linear", "cubic")
    ],
    "Slice": [Variant("Slice(a, s, e, s)", [[(4, 5)], [(4, 0)]], "int64[1] s = {1}, int64[1] e = {9}")],
    "SpaceToDepth": [Variant("SpaceToDepth<blocksize=2>(a)", [[(1, 2, 4, 6)]])],
    "Split": [Variant("Split(a, c)", [[(4, 3)], [(4, 0)]], "int64[2] c = {1, 3}")],
    "Squeeze": [Variant("Squeeze(a, c)", [[(2, 1, 3)], [(0, 1, 3)]], "int64[1] c = {1}")],
    "Tile": [Variant("Tile(a, c)", [[(2, 3)], [(0, 3)]], "int64[2] c = {2, 2}")],
    "TopK": [Variant("TopK(a, c)", [[(2, 5)], [(0, 5)]], "int64[1] c = {2}")],
    "Trilu": [Variant("Trilu(a, c)", [[(3, 4)], [(2, 3)]], "int64 c = {1}")],
    "Unsqueeze": [Variant("Unsqueeze(a, c)", [[(2, 3)], [(0, 3)]], "int64[1] c = {1}")],
    "Where": [variant._replace(types=("bool", "T", "T")) for variant in _ranks("Where(a, x1, x2)", 3)],
}
_OUTPUTS = {"TopK": "y, z", "Split": "y, z"}


def build(operator: str, variant: Variant, tested: str) -> ModelProto:
    """Return a model of the node, and of a node before it: the EP leaves some single nodes to the CPU EP."""
    types = [kind.replace("T", tested) for kind in variant.types[: len(variant.shapes[0])]]
    free = (",".join(f"d{i}_{j}" for j in range(len(shape))) for i, shape in enumerate(variant.shapes[0]))
    inputs = ", ".join(f"{kind}[{sizes}] x{i}" for i, (kind, sizes) in enumerate(zip(types, free, strict=True)))
    inputs = inputs.replace("[]", "")
    before = "Not(x0)" if types[0] == "bool" else "Sub(x0, zero)"
    constants = [variant.constants.replace("T[", f"{tested}[")] if variant.constants else []
    constants += [] if types[0] == "bool" else [f"{types[0]} zero = {{0}}"]
    outputs = _OUTPUTS.get(operator, "y")
    nodes = f"{{ a = {before} {outputs} = {variant.call} }}"
    made = parsed(f"({inputs}) => () <{', '.join(constants)}> {nodes}".replace("<>", ""))
    made.graph.output.extend(map(helper.make_empty_tensor_value_info, outputs.split(", ")))
    return made


def hostile(shape: Sequence[int], dtype: np.dtype, random: np.random.Generator) -> np.ndarray:
    """Return an array of values that could fail a kernel."""
    if dtype.kind == "f":
        limits = np.finfo(dtype)
        values = [0.0, -0.0, 0.5, np.nan, np.inf, -np.inf]
        values += [limits.max, limits.min, limits.tiny, limits.smallest_subnormal]
    elif dtype.kind == "b":
        values = [False, True]
    else:
        limits = np.iinfo(dtype)
        values = [0, 1, 7, limits.max, limits.min, limits.max - 1, limits.min + 1]
    return random.choice(np.array(values, dtype), shape)


def create(made: ModelProto) -> InferenceSession:
    """Create a session whose nodes are all on the EP, or raise an error."""
    options = SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == OPENVINO]
    if devices:  # of the plugin
        options.add_provider_for_devices(devices[:1], {})
    else:
        options.add_provider(OPENVINO, {"num_of_threads": "2"})
    return InferenceSession(made.SerializeToString(), options, enable_fallback=0)


def attempt(made: ModelProto, variant: Variant, tested: str) -> str:
    """Return why a value failed a run, ``"CPU"`` if the EP does not compute the operator, or ``""``."""
    if not only_shapes_decide(Graph(made)):
        return "the model is not permitted"
    try:
        session = create(made)
    except Exception:  # ORT raises classes without a common base
        return "CPU"
    random = np.random.default_rng(0)
    kinds = [np.dtype(helper.tensor_dtype_to_np_dtype(NAMES[kind.replace("T", tested)])) for kind in variant.types]
    ones, ran = [], False
    for shapes in variant.shapes:
        inputs = [(f"x{i}", shape, kinds[i]) for i, shape in enumerate(shapes)]
        ones.append({name: np.ones(shape, dtype) for name, shape, dtype in inputs})
        try:
            first = session.run(None, ones[-1])
        except Exception as error:
            if 0 in shapes[0]:  # the shape itself fails
                session = create(made)
                continue
            return f"fails with ones: {error}"
        for number in range(RUNS):
            fed = {name: hostile(shape, dtype, random) for name, shape, dtype in inputs}
            if number < len(inputs):
                fed[f"x{number}"] = np.zeros_like(fed[f"x{number}"])
            try:
                session.run(None, fed)
            except Exception as error:
                return f"fails: {error}"
        again = session.run(None, ones[-1])
        if any(one.tobytes() != other.tobytes() for one, other in zip(first, again, strict=True)):
            return "returns another output after hostile values"
        ran = True
    return "" if ran else "no shape ran"


def attempt_with_clips(made: ModelProto) -> str:
    """Create a session of a model with a Clip without a limit after each output, if the backend permits it."""
    clipped = infer_shapes(made)
    for output in made.graph.output:
        name = f"clip_{output.name}"
        clipped.graph.node.append(helper.make_node("Clip", [output.name], [name]))
        clipped.graph.output.append(helper.make_empty_tensor_value_info(name))
    if not clips_unconverted(Graph(clipped), None):
        with suppress(Exception):  # ORT rejects a Clip of bool
            create(clipped)
    return ""


def main(operators: Sequence[str]) -> int:
    onnxruntime.set_default_logger_severity(4)
    if OPENVINO not in onnxruntime.get_available_providers() and not register_openvino_plugin():
        sys.exit(f"{OPENVINO} is neither built into this ORT, nor installed as a plugin")
    failed = 0
    for operator in operators or OPERATORS:
        found = results(operator)
        on_cpu = sorted(
            {kind for kind, result in found if result == "CPU"} - {kind for kind, result in found if not result}
        )
        problems = sorted({f"{kind} {result}" for kind, result in found if result not in ("", "CPU", DIED)})
        died = sorted({kind for kind, result in found if result == DIED})
        right = sum(not result for _, result in found)
        problems += sorted({f"{kind} {result} with a Clip" for kind, result in results(operator, clip=True) if result})
        failed += bool(problems) or not right
        print(
            f"{operator}: {right} right ({' '.join(on_cpu)}) {' '.join([DIED, *died]) if died else ''}",
            *problems,
            flush=True,
        )
    return 1 if failed else 0


def results(operator: str, kinds: Sequence[str] = tuple(NAMES), clip: bool = False) -> list[tuple[str, str]]:
    """Return the type and the result of each attempt with an operator and one of these types."""
    variants = [(each, kind) for each in VARIANTS[operator] for kind in each.only if kind in kinds]
    attempts = [(build(operator, *each), *each) for each in variants]
    found: list[tuple[str, str]] = []
    while len(found) < len(attempts):  # each child continues after the attempt that terminated the one before it
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            signal.alarm(_SECONDS)
            for each in attempts[len(found) :]:
                result = attempt_with_clips(each[0]) if clip else attempt(*each).replace("\n", " ")[:300]
                os.write(writer, f"{result}\n".encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as lines:
            got = lines.read().splitlines()
        os.waitpid(child, 0)
        found += zip((kind for *_, kind in attempts[len(found) :]), got, strict=False)
        if len(found) < len(attempts):
            found.append((attempts[len(found)][2], DIED))
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
