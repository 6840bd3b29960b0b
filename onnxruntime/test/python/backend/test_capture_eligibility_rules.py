# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests the rules of capture on small graphs: which operators may be captured, and which graphs repeat their values.

No device is needed.
"""

from __future__ import annotations

import unittest
from functools import partial

import numpy as np
import onnx
from helpers.models import model
from onnx import ModelProto, TensorProto, helper, numpy_helper

from onnxruntime.backend.capture import eligibility
from onnxruntime.backend.capture.operators import DROPOUTS, MICROSOFT, NHWC, OPERATORS, RANDOM, RELEASES
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema


def between(operator: str, *inputs: str, constants: dict[str, np.ndarray] | None = None, **attributes) -> ModelProto:
    """A graph in which ``X -> Neg -> T -> operator -> V -> Exp -> Y``. The operator reads T unless inputs are given."""
    node = helper.make_node(operator, inputs or ["T"], ["V"], **attributes)
    nodes = [helper.make_node("Neg", ["X"], ["T"]), node, helper.make_node("Exp", ["V"], ["Y"])]
    return model(nodes, {"X": (4, 4)}, {"Y": None}, constants)


def last(made: ModelProto) -> ModelProto:
    """Remove the last node of a graph, so that the one before it makes the output."""
    del made.graph.node[2]
    made.graph.node[1].output[0] = "Y"
    return made


def with_output(made: ModelProto, name: str, shape: tuple[int, ...] = (4, 4)) -> ModelProto:
    made.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
    return made


def with_functions(made: ModelProto, domain: str, name: str, *body: onnx.NodeProto) -> ModelProto:
    made.functions.append(helper.make_function(domain, name, ["a"], ["b"], body, made.opset_import))
    return made


def product() -> ModelProto:
    """A product and a sum, which ORT fuses."""
    nodes = [helper.make_node("MatMul", ["X", "W"], ["T"]), helper.make_node("Add", ["T", "B"], ["Y"])]
    constants = {"W": np.ones((4, 3), np.float32), "B": np.ones(3, np.float32)}
    return model(nodes, {"X": (2, 4)}, {"Y": (2, 3)}, constants)


def _axes(*values: int) -> dict[str, np.ndarray]:
    return {"A": np.array(values, np.int64)}


def _rules():
    """Yield graphs with what the message must match; empty if WebGPU may capture the graph."""
    yield between("Tanh"), ""
    yield between("Selu", name="n1"), r"^node 'n1' \(Selu, which makes 'V'\) is not"
    for operator in ("ScatterND", "ScatterElements", "LSTM", "GRU", "If", "Loop", "Scan", "DequantizeLinear"):
        yield between(operator), f"{operator}.*not known to be replayed"
    for domain, operator in ((NHWC, "Conv"), (MICROSOFT, "QuickGelu")):
        yield between(operator, domain=domain), ""
        yield between(operator), f"\\({operator}, .*not known"
        yield between(operator, domain="other"), f"other::{operator}"
    yield between("Relu", domain="ai.onnx.ml"), "not known"
    yield (with_functions(between("Tanh"), "", "Tanh", helper.make_node("Selu", ["a"], ["b"])), "functions")
    made = between("Add", "T", "A", constants={"A": np.ones(4, np.float32)})
    yield made, ""
    sparse = onnx.ModelProto.FromString(made.SerializeToString())
    sparse.graph.sparse_initializer.add().values.CopyFrom(sparse.graph.initializer.pop())
    yield sparse, "sparse constants"
    for operator in ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"):
        yield between(operator, "T", "A", constants=_axes(0)), ""
        yield (last(between(operator, "T", "A", constants=_axes(0))), "makes an output.*a copy$")
    yield (with_output(between("Identity"), "V"), "makes an output of the model")  # another node reads it, too
    for operator in ("Max", "Min"):
        for inputs, problem in ((("T", "X"), ""), (("T", "T"), ""), (("T",), "copies its"), (("T", ""), "copies its")):
            yield between(operator, *inputs), problem
    for attributes, problem in (({"perm": [1, 0]}, ""), ({}, "one dimension"), ({"perm": [0]}, "one dimension")):
        yield between("Transpose", **attributes), problem
    for operator in (name for _, name in OPERATORS if name.startswith("Reduce")):
        yield between(operator, "T", "A", constants=_axes(0)), ""
        yield between(operator, axes=[0]), ""
        for inputs, constants in ((["T"], {}), (["T", ""], {}), (["T", "A"], _axes()), (["T", "X"], {})):
            yield between(operator, *inputs, constants=constants), "specifies no axes"
        yield between(operator, noop_with_empty_axes=1), "specifies no axes"
    for outputs, problem in (
        ("V a b", ""),
        ("V a b c", "more than 3 outputs"),
        ("V - - c", "more than 3"),
        ("V - - -", ""),
    ):
        made = between("MultiHeadAttention", "T", "T", "T", domain=MICROSOFT)
        made.graph.node[1].output[:] = ["" if name == "-" else name for name in outputs.split()]
        yield made, problem
    half = {"A": np.ones(4, np.float16)}
    yield between("Cast", to=TensorProto.INT32), ""
    yield between("Cast", to=TensorProto.FLOAT16), "FLOAT16"
    made = between("Tanh")
    made.graph.input[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    yield made, r"'X' is of a type \(FLOAT16\)"
    yield between("Add", "T", "A", constants=half), r"'A' is of a type \(FLOAT16\)"
    yield between("Tanh", constants=half), ""  # no node reads the value


class RuleTest(unittest.TestCase):
    """The conditions of WebGPU for a graph."""

    def test_rules(self):
        for made, problem in _rules():
            with self.subTest(problem, node=str(made.graph.node[1])):
                self.assertRegex(eligibility._unknown(made), problem or "^$")

    def test_the_name_of_a_node_is_shown_and_not_printed(self):
        made = between("Selu", name="\x1b[31m" + "n" * 500)
        made.graph.node[1].output.extend("abcd")
        problem = eligibility._unknown(made)
        self.assertNotIn("\x1b", problem)
        self.assertIn("which makes 'V', 'a', 'b', 'c')", problem)
        self.assertLess(len(problem), 300)

    def test_the_table(self):
        for domain, _ in OPERATORS:
            self.assertIn(domain, ("", NHWC, MICROSOFT))
        for release in RELEASES:
            self.assertRegex(" ".join(release), r"^\d+\.\d+\.\d+ \d+\.\d+\.\d+$")


def _repeatable():
    """Yield graphs with what the message must match; empty if a replay of the graph is right on CUDA."""
    for domain, name in RANDOM:
        yield between(name, domain=domain), f"{name}, which makes 'V'.*random"
        if not domain:
            yield between(name, domain="ai.onnx"), name
    noisy = helper.make_node("RandomNormalLike", ["a"], ["b"])
    yield (with_functions(between("Noisy", domain="own"), "own", "Noisy", noisy), "RandomNormalLike")
    noise, value = (helper.make_node("RandomUniform", [], ["b"], shape=[2, 4]), onnx.ValueInfoProto(name="b"))
    for depth in range(3):
        graph = helper.make_graph([noise], f"g{depth}", [], [value])
        noise = helper.make_node("If", ["C"], ["b"], then_branch=graph, else_branch=graph)
    yield between("If", "C", then_branch=graph, else_branch=graph), "RandomUniform"
    # A Dropout draws random numbers in training mode only.
    off, on = np.array(False), np.array(True)
    for (domain, name), position in DROPOUTS.items():
        inputs = ["T", "", "", "", ""][:position]
        yield between(name, domain=domain), ""
        yield between(name, *inputs, "", domain=domain), ""
        flagged = partial(between, name, *inputs, "M", domain=domain)
        yield flagged(constants={"M": off}), ""
        yield flagged(constants={"M": on}), name
        yield flagged(), name  # an input, or the output of another node
        yield flagged(constants={"M": np.array(0, np.int64)}), name
        unread = flagged(constants={"M": off})
        (tensor,) = (tensor for tensor in unread.graph.initializer if tensor.name == "M")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        yield unread, name
        for flag, problem in ((off, ""), (on, name)):
            for operator, found in (("Constant", problem), ("Other", name)):
                made = flagged()
                made.graph.node.insert(0, helper.make_node(operator, [], ["M"], value=numpy_helper.from_array(flag)))
                yield made, found
    # The flag is outside of a subgraph. A function does not see the names of the graph.
    dropout = helper.make_node("Dropout", ["T", "", "M"], ["b"])
    graph = helper.make_graph([dropout], "g", [], [value])
    for flag, problem in ((off, ""), (on, "Dropout")):
        made = partial(between, "If", "C", constants={"M": flag}, then_branch=graph, else_branch=graph)
        yield made(), problem
        yield with_functions(made(), "own", "F", dropout), "Dropout"
    weights = {"W": np.ones(4, np.float32)}
    yield between("Add", "T", "W", constants=weights), ""
    yield (
        with_output(between("Add", "T", "W", constants=weights), "W", (4,)),
        "output 'W' is a constant that nodes read",
    )
    yield with_output(between("Add", "T", "T", constants=weights), "W", (4,)), ""


class RepeatableTest(unittest.TestCase):
    """Graphs that no EP may capture."""

    def test_graphs(self):
        for made, problem in _repeatable():
            with self.subTest(problem, node=str(made.graph.node[1])):
                self.assertRegex(eligibility._not_repeatable(made), problem or "^$")

    def test_every_operator_with_a_seed(self):
        schemas = [(schema.domain, schema) for schema in get_all_operator_schema() if "seed" in schema.attributes]
        self.assertGreater(len(schemas), 8)
        for domain, schema in schemas:
            if schema.name == "MurmurHash3":  # the seed of a hash
                continue
            operator = (domain, schema.name)
            self.assertIn(operator, RANDOM | DROPOUTS.keys())
            if operator in DROPOUTS:
                self.assertEqual(schema.inputs[DROPOUTS[operator]].name, "training_mode")


if __name__ == "__main__":
    unittest.main()
