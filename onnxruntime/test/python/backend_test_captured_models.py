# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Models for graph capture on WebGPU: real blocks, hidden stale values, and random graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from backend_test_models import model
from onnx import ModelProto, NodeProto, TensorProto, helper

node = helper.make_node
Feeds = dict[str, np.ndarray]


def _floats(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def convolutional_net() -> ModelProto:
    """Return two convolutions with related operators, and a Flatten between the features and the classes."""
    rng = np.random.default_rng(0)
    nodes = [
        node("Conv", ["X", "W1", "B1"], ["c1"], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["c1", "s", "b", "m", "v"], ["n1"]),
        node("Relu", ["n1"], ["r1"]),
        node("MaxPool", ["r1"], ["p1"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["p1", "W2"], ["c2"], pads=[1, 1, 1, 1], group=2),
        node("Sigmoid", ["c2"], ["g2"]),
        node("Mul", ["c2", "g2"], ["r2"]),
        node("GlobalAveragePool", ["r2"], ["p2"]),
        node("Flatten", ["p2"], ["f"]),
        node("Gemm", ["f", "W3", "B3"], ["l"]),
        node("Softmax", ["l"], ["Y"], axis=1),
    ]
    shapes = {
        "W1": (8, 3, 3, 3),
        "B1": (8,),
        "s": (8,),
        "b": (8,),
        "m": (8,),
        "W2": (6, 4, 3, 3),
        "W3": (6, 5),
        "B3": (5,),
    }
    constants = {name: _floats(rng, *shape) for name, shape in shapes.items()}
    constants["v"] = np.abs(_floats(rng, 8)) + np.float32(1)
    return model(nodes, {"X": ("N", 3, 8, 8)}, {"Y": ("N", 5)}, constants)


def attention_block(width: int = 16, heads: int = 2) -> ModelProto:
    """Return a transformer block as exporters write it: reshapes and transposes inside, no fused operator."""
    rng = np.random.default_rng(1)
    head = width // heads
    nodes = [
        node("LayerNormalization", ["X", "g1", "b1"], ["n1"], axis=-1),
    ]
    for name in "qkv":
        perm = [0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]
        nodes += [
            node("MatMul", ["n1", f"W{name}"], [f"{name}1"]),
            node("Add", [f"{name}1", f"B{name}"], [f"{name}2"]),
            node("Reshape", [f"{name}2", "to_heads"], [f"{name}3"]),
            node("Transpose", [f"{name}3"], [f"{name}4"], perm=perm),
        ]
    nodes += [
        node("MatMul", ["q4", "k4"], ["s1"]),
        node("Div", ["s1", "scale"], ["s2"]),
        node("Softmax", ["s2"], ["s3"], axis=-1),
        node("MatMul", ["s3", "v4"], ["o1"]),
        node("Transpose", ["o1"], ["o2"], perm=[0, 2, 1, 3]),
        node("Reshape", ["o2", "to_width"], ["o3"]),
        node("MatMul", ["o3", "Wo"], ["o4"]),
        node("Add", ["o4", "X"], ["h1"]),
        node("LayerNormalization", ["h1", "g2", "b2"], ["n2"], axis=-1),
        node("MatMul", ["n2", "Wu"], ["u1"]),
        node("Gelu", ["u1"], ["u2"]),
        node("MatMul", ["u2", "Wd"], ["u3"]),
        node("Add", ["u3", "h1"], ["Y"]),
    ]
    shapes = {f"W{name}": (width, width) for name in "qkvo"}
    shapes |= {f"B{name}": (width,) for name in "qkv"} | {"Wu": (width, 2 * width), "Wd": (2 * width, width)}
    constants = {name: _floats(rng, *shape) / np.float32(width**0.5) for name, shape in shapes.items()}
    constants |= {name: _floats(rng, width) for name in ("g1", "b1", "g2", "b2")}
    constants |= {"scale": np.array(head**0.5, np.float32)}
    constants |= {"to_heads": np.array([0, 0, heads, head]), "to_width": np.array([0, 0, width])}
    shape = ("N", "L", width)
    return model(nodes, {"X": shape}, {"Y": shape}, constants)


def _scatter(first: str, last: str) -> NodeProto:
    return node("ScatterND", [first, "i", "u"], [last])


def hidden_copies() -> Mapping[str, tuple[ModelProto, str, Callable[[int], Feeds]]]:
    """Return models whose outputs hide stale values, each with the operator to refuse and the inputs of a run."""
    rng = np.random.default_rng(5)
    shape = (4, 16)
    rows = {"i": np.array([[0]]), "u": np.zeros((1, 16), np.float32)}

    def spike(copying: NodeProto, constants: Mapping[str, np.ndarray], *between: NodeProto) -> ModelProto:
        nodes = [
            copying,
            *between,
            node("Sub", ["S", "th"], ["d"]),
            node("Relu", ["d"], ["r"]),
            node("Add", ["M", "r"], ["Y"]),
        ]
        made = {**constants, "th": np.array(4, np.float32)}
        return model(nodes, {"X": shape, "M": shape}, {"Y": shape}, made)

    def spikes(run: int) -> Feeds:
        feeds = {name: _floats(rng, *shape) / 2 for name in "XM"}
        if run % 10 == 9:
            feeds["X"][2, 3] = 9
        return feeds

    def modes(run: int) -> Feeds:
        return {**spikes(run), "K": np.array([[0], [2], [1 if run > 5 else 3], [2]], np.int32)}

    def shifted(copying: NodeProto, inner: tuple, outer: tuple, constants: Feeds) -> ModelProto:
        return model([node("Add", ["X", "k"], ["T"]), copying], {"X": inner}, {"Y": outer}, constants)

    def uniform(*sizes: int) -> Callable[[int], Feeds]:
        return lambda run: {"X": rng.random(sizes, np.float32)}

    large = {"k": np.array(3000, np.float32)}
    by_mode = [_scatter("X", "S"), node("Equal", ["K", "one"], ["C"]), node("Where", ["C", "S", "M"], ["Y"])]
    by_mode = model(
        by_mode, {"X": shape, "M": shape, "K": (4, 1)}, {"Y": shape}, {**rows, "one": np.array(1, np.int32)}
    )
    by_mode.graph.input[2].type.tensor_type.elem_type = TensorProto.INT32
    summed = [_scatter("X", "S"), node("Sub", ["S", "th"], ["d"]), node("Relu", ["d"], ["r"])]
    summed = model(
        [*summed, node("ReduceSum", ["r", "a"], ["Y"])],
        {"X": shape},
        {"Y": (4, 1)},
        {**rows, "th": np.array(4, np.float32), "a": np.array([1])},
    )
    boxes = [node("Sigmoid", ["X"], ["P"]), node("Add", ["B", "k"], ["b"]), node("Concat", ["b", "P"], ["C"], axis=2)]
    boxes = model(
        [*boxes, node("Squeeze", ["C", "z"], ["Y"])],
        {"B": (1, 5, 4), "X": (1, 5, 1)},
        {"Y": (5, 5)},
        {**large, "z": np.array([0])},
    )
    shapes = {"B": (1, 5, 4), "X": (1, 5, 1)}
    return {
        "Reshape of X + 3000": (
            shifted(node("Reshape", ["T", "s"], ["Y"]), (3, 2, 2), (3, 4), {**large, "s": np.array([0, -1])}),
            "Reshape",
            uniform(3, 2, 2),
        ),
        "Flatten of X + 3000": (
            shifted(node("Flatten", ["T"], ["Y"]), (3, 2, 2), (3, 4), large),
            "Flatten",
            uniform(3, 2, 2),
        ),
        "boxes + 3000 beside scores": (
            boxes,
            "Squeeze",
            lambda run: {name: rng.random(size, np.float32) for name, size in shapes.items()},
        ),
        "a mode that is used later": (by_mode, "ScatterND", modes),
        "spikes behind ScatterND": (spike(_scatter("X", "S"), rows), "ScatterND", spikes),
        "spikes behind ScatterElements": (
            spike(
                node("ScatterElements", ["X", "e", "v"], ["S"]),
                {"e": np.array([[0]]), "v": np.zeros((1, 1), np.float32)},
            ),
            "ScatterElements",
            spikes,
        ),
        "spikes behind Max of one": (spike(node("Max", ["X"], ["S"]), {}), "Max", spikes),
        "spikes behind Min of one": (spike(node("Min", ["X"], ["S"]), {}), "Min", spikes),
        "spikes behind ReduceSum without axes": (
            spike(node("ReduceSum", ["X"], ["S"], noop_with_empty_axes=1), {}),
            "ReduceSum",
            spikes,
        ),
        "spikes, summed up": (summed, "ScatterND", lambda run: {"X": spikes(run)["X"]}),
        "spikes behind Transpose of one dimension": (
            model(
                [node("Neg", ["X"], ["T"]), node("Transpose", ["T"], ["S"], perm=[0]), node("Relu", ["S"], ["Y"])],
                {"X": (16,)},
                {"Y": (16,)},
            ),
            "Transpose",
            lambda run: {"X": np.abs(_floats(rng, 16)) - np.float32(9 * (run % 10 == 9))},
        ),
    }


# --- random graphs ----------------------------------------------------------------------------------------------------

_UNARY = ("Sigmoid", "Tanh", "Relu", "Neg", "Abs", "Softplus", "HardSigmoid", "Erf", "Cos", "Gelu", "Identity", "Floor")
_BINARY = ("Add", "Sub", "Mul", "Max", "Min", "PRelu")


class _Graph:
    """A graph that grows node by node. Each value has the shape (N, a, b); N changes from run to run."""

    def __init__(self, seed: int, copies: float) -> None:
        self.rng = np.random.default_rng(seed)
        self.copies = copies
        self.nodes: list[NodeProto] = []
        self.constants: Feeds = {}
        self.shapes: dict[str, tuple[int, int]] = {}

    def pick(self, shape: tuple[int, int] | None = None) -> str:
        names = [name for name, other in self.shapes.items() if shape in (None, other)]
        return names[self.rng.integers(len(names))]

    def constant(self, array: np.ndarray) -> str:
        name = f"k{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def put(
        self, operator: str, inputs: list[str], shape: tuple[int, int], outputs: int = 1, **attributes
    ) -> list[str]:
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(node(operator, inputs, names, **attributes))
        self.shapes.update(dict.fromkeys(names, shape))
        return names

    def grow(self) -> None:
        """Add a node, or a few related nodes."""
        rng, x = self.rng, self.pick()
        a, b = self.shapes[x]
        steps = _COPYING if rng.random() < self.copies else _MOVING if rng.random() < 0.6 else _COMPUTING
        steps[rng.integers(len(steps))](self, x, a, b)


def _ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def _broken_up(g: _Graph, x: str, a: int, b: int) -> None:
    if b % 2:
        g.put("Concat", [x, x], (a, 2 * b), axis=2)
    else:
        g.put("Split", [x], (a, b // 2), 2, axis=2, num_outputs=2)


def _masked(g: _Graph, x: str, a: int, b: int) -> None:
    other = g.pick((a, b))
    g.nodes.append(node("Greater", [x, g.constant(np.float32(0.3))], [f"c{len(g.nodes)}"]))
    g.put("Where", [g.nodes[-1].output[0], other, x], (a, b))


def _by_integers(g: _Graph, x: str, a: int, b: int) -> None:
    g.nodes.append(node("Cast", [x], [f"c{len(g.nodes)}"], to=TensorProto.INT32))
    g.put("Cast", [g.nodes[-1].output[0]], (a, b), to=TensorProto.FLOAT)


def _unsqueezed(g: _Graph, x: str, a: int, b: int) -> None:
    g.nodes.append(node("Unsqueeze", [x, g.constant(_ints(2))], [f"c{len(g.nodes)}"]))
    g.put("Squeeze", [g.nodes[-1].output[0], g.constant(_ints(2))], (a, b))


def _flat(g: _Graph, x: str, a: int, b: int) -> None:
    g.nodes.append(node("Flatten", [x], [f"c{len(g.nodes)}"]))
    g.put("Reshape", [g.nodes[-1].output[0], g.constant(_ints(0, b, a))], (b, a))


_COMPUTING = (
    lambda g, x, a, b: g.put(_UNARY[g.rng.integers(len(_UNARY))], [x], (a, b)),
    lambda g, x, a, b: g.put(_BINARY[g.rng.integers(len(_BINARY))], [x, g.pick((a, b))], (a, b)),
    lambda g, x, a, b: g.put("MatMul", [x, g.constant(_floats(g.rng, b, 6) / 2)], (a, 6)),
    lambda g, x, a, b: g.put("Softmax", [x], (a, b), axis=int(g.rng.integers(1, 3))),
    lambda g, x, a, b: g.put("LayerNormalization", [x, g.constant(_floats(g.rng, b))], (a, b), axis=-1),
    lambda g, x, a, b: g.put("ReduceMean", [x, g.constant(_ints(1))], (1, b), keepdims=1),
    lambda g, x, a, b: g.put("ReduceMax", [x, g.constant(_ints(2))], (a, 1), keepdims=1),
    lambda g, x, a, b: g.put("CumSum", [x, g.constant(np.array(2))], (a, b)),
    lambda g, x, a, b: g.put("Clip", [x, g.constant(np.float32(-1)), g.constant(np.float32(1))], (a, b)),
    _masked,
    _by_integers,
)
_MOVING = (
    lambda g, x, a, b: g.put("Transpose", [x], (b, a), perm=[0, 2, 1]),
    lambda g, x, a, b: g.put("Reshape", [x, g.constant(_ints(0, b, a))], (b, a)),
    lambda g, x, a, b: g.put("Identity", [x], (a, b)),
    lambda g, x, a, b: g.put("Concat", [x, g.pick((a, b))], (2 * a, b), axis=1),
    lambda g, x, a, b: g.put("Slice", [x, *(g.constant(_ints(v)) for v in (0, 1, 1))], (1, b)),
    lambda g, x, a, b: g.put("Gather", [x, g.constant(g.rng.integers(0, a, 3))], (3, b), axis=1),
    lambda g, x, a, b: g.put("Pad", [x, g.constant(_ints(0, 0, 1, 0, 0, 0))], (a, b + 1)),
    lambda g, x, a, b: g.put("Tile", [x, g.constant(_ints(1, 1, 2))], (a, 2 * b)),
    lambda g, x, a, b: g.put("Expand", [x, g.constant(_ints(1, a, b))], (a, b)),
    _broken_up,
    _unsqueezed,
    _flat,
)
_COPYING = (
    lambda g, x, a, b: g.put("ScatterND", [x, g.constant(_ints(0)[None]), g.constant(_floats(g.rng, 1, a, b))], (a, b)),
    lambda g, x, a, b: g.put("Max", [x], (a, b)),
    lambda g, x, a, b: g.put("Min", [x], (a, b)),
    lambda g, x, a, b: g.put("ReduceSum", [x], (a, b), noop_with_empty_axes=1),
    lambda g, x, a, b: g.put("ReduceMax", [x, g.constant(_ints())], (a, b), noop_with_empty_axes=1),
    lambda g, x, a, b: g.put(
        "ScatterElements", [x, g.constant(np.zeros((1, 1, 1), np.int64)), g.constant(_floats(g.rng, 1, 1, 1))], (a, b)
    ),
)


def random_model(seed: int) -> ModelProto:
    """Return a model of 3 to about 60 nodes with inputs ``X`` of (N, 4, 6) and ``I`` of (N, 1).

    The input ``I`` contains int32 indices up to 4. Every third model has nodes that always copy.
    """
    rng = np.random.default_rng(seed)
    g = _Graph(seed, 0.15 if seed % 3 == 0 else 0.0)
    g.shapes["X"] = (4, 6)
    for _ in range(int(rng.integers(3, 24 if seed % 5 else 50))):
        if sum(a * b for a, b in g.shapes.values()) < 60_000:
            g.grow()
    # Values that no node reads are outputs, and up to three others. Most go through a last node: a view there copies.
    read = {name for made in g.nodes for name in made.input}
    ends = [name for name in g.shapes if name not in read and name != "X"]
    ends += [name for name in (g.pick() for _ in range(3)) if name != "X" and name not in ends and rng.random() < 0.3]
    outputs = {}
    for i, name in enumerate(dict.fromkeys(ends)):
        if rng.random() < 0.9:
            g.nodes.append(node("Neg", [name], [f"Y{i}"]))
            outputs[f"Y{i}"] = [None] * 3
        else:
            outputs[name] = [None] * 3
    g.nodes.append(node("Gather", [g.constant(_floats(rng, 5, 2)), "I"], ["Z"]))
    made = model(g.nodes, {"X": ("N", 4, 6), "I": ("N", 1)}, {**outputs, "Z": [None] * 3}, g.constants)
    made.graph.input[1].type.tensor_type.elem_type = TensorProto.INT32
    return made


def random_feeds(rng: np.random.Generator, batch: int) -> Feeds:
    """Return inputs for :func:`random_model`."""
    return {"X": _floats(rng, batch, 4, 6), "I": rng.integers(-5, 5, (batch, 1), np.int32)}
