# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests which models may be captured, the comparison of a replay, and TensorRT's graph. No device is needed."""

import unittest
from types import SimpleNamespace
from unittest import mock

import _above
import numpy as np
from helpers.models import parsed, two_nodes
from helpers.threads import needs_global_lock
from onnx import ModelProto

import onnxruntime
from onnxruntime import InferenceSession
from onnxruntime.backend.capture import comparison, eligibility, graphs
from onnxruntime.backend.capture.operators import MICROSOFT, NHWC, OPERATORS, RANDOM, RELEASES
from onnxruntime.backend.provider_names import CPU, CUDA, TENSORRT, WEBGPU
from onnxruntime.backend.runs.settings import RunSettings
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

ORT, PLUGIN = max(RELEASES)


def between(nodes: str, x: str = "float[4,4]", y: str = "Y") -> ModelProto:
    """Return a model in which T is ``Neg (X)``, nodes make V of T, and Y is ``Exp (V)``; ``y`` is the output."""
    constants = "int64[1] A = {0}, double[1] D = {1}"
    text = f"({x} X, bool M) => (float[N] {y}) <{constants}> {{ T = Neg (X) {nodes} Y = Exp (V) }}"
    made = parsed(text, MICROSOFT, NHWC, "own")
    read = {name for node in made.graph.node for name in node.input}
    for tensor in [tensor for tensor in made.graph.initializer if tensor.name not in read]:
        made.graph.initializer.remove(tensor)
    return made


VIEWS = ("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")
WEBGPU_RULES = (
    ("V = MatMul (T, T)", ""),
    ("V = Selu (T)", r"node '' \(Selu\) is not known to be replayed"),
    ("V = ScatterND (T, A, T)", "ScatterND"),
    ("V = com.microsoft.Gelu (T)", ""),
    ("V = own.Gelu (T)", "Gelu"),
    ("V = Conv (T, T)", "Conv"),  # in another layout than the EP's
    ("V = com.ms.internal.nhwc.Conv (T, T)", ""),
    ("V = Max (T, X)", ""),
    ("V = Max (T)", "copies its input"),
    ("V = Transpose <perm = [1, 0]> (T)", ""),
    ("V = Transpose (T)", "one dimension"),
    ("V = Transpose <perm = [0]> (T)", "one dimension"),
    ("V = ReduceSum (T, A)", ""),
    ("V = ReduceMax <axes = [0]> (T)", ""),
    ("V = ReduceMean (T)", "specifies no axes"),
    ("V = ReduceProd <noop_with_empty_axes = 1> (T)", "specifies no axes"),
    ("V, a, b = com.microsoft.MultiHeadAttention (T, T, T)", ""),
    ("V, a, b, c = com.microsoft.MultiHeadAttention (T, T, T)", "more than 3 outputs"),
    ("V = Cast <to = 6> (T)", ""),
    ("V = Cast <to = 10> (T)", "FLOAT16 was never checked"),
    ("V = Add (T, D)", "DOUBLE was never checked"),
    *((f"V = {name} (T)", "") for name in VIEWS),
)


class WebGpuTest(unittest.TestCase):
    def setUp(self):
        self.device = SimpleNamespace(ep_name=WEBGPU, ep_metadata={"version": PLUGIN})
        self.enterContext(mock.patch.object(onnxruntime, "__version__", ORT))
        self.enterContext(mock.patch.object(onnxruntime, "get_ep_devices", lambda: [self.device], create=True))

    def check(self, made: ModelProto, problem: str) -> None:
        self.assertRegex(eligibility.unknown(list(made.graph.node), made), problem or "^$")

    def test_rules(self):
        for nodes, problem in WEBGPU_RULES:
            with self.subTest(nodes):
                self.check(between(nodes), problem)
        self.check(between("V = Relu (T)", x="float16[4]"), "FLOAT16")
        for name in VIEWS:
            made = between(f"V = {name} (T)", y="V")
            self.check(made, "makes an output of the model")
            # The optimizers have removed the node.
            self.assertEqual(eligibility.unknown([made.graph.node[0]], made), "")

    def test_without_a_record_or_a_model(self):
        for record, made in (([], two_nodes()), (list(two_nodes().graph.node), ModelProto())):
            self.assertRegex(eligibility.unknown(record, made), "needs a model in ONNX's format, and ORT's record")

    def test_releases(self):
        self.assertEqual(eligibility.unknown_release(), "")
        for version in ("0.4.1", "", None, ORT):
            self.device.ep_metadata["version"] = version
            self.assertIn(f"version {version} of the EP on ORT {ORT} was never", eligibility.unknown_release())
        self.device.ep_metadata["version"] = PLUGIN
        with mock.patch.object(onnxruntime, "__version__", "1.33.0"):
            self.assertIn("on ORT 1.33.0 was never checked", eligibility.unknown_release())

    def test_a_name_is_shown_and_not_printed(self):
        made = between("V = Selu (T)")
        made.graph.node[1].name = "\x1b[31m" + "n" * 500
        problem = eligibility.unknown(list(made.graph.node), made)
        self.assertNotIn("\x1b", problem)
        self.assertLess(len(problem), 300)

    def test_the_domains_of_the_table(self):
        self.assertEqual({domain for domain, _ in OPERATORS}, {"", NHWC, MICROSOFT})


class RandomTest(unittest.TestCase):
    def test_models(self):
        in_function = between("V = own.Own (T)")
        in_function.functions.add(name="Own", domain="own").node.add(op_type="Bernoulli")
        for made, found in (
            (in_function, "Bernoulli"),
            *((between(f"V = {name} (T)"), name) for name in RANDOM),
            (between("V = Dropout (T)"), ""),
            (between("V = Dropout (T, , M)"), "Dropout"),
        ):
            with self.subTest(found):
                expected = f"^{found} draws random" if found else "^$"
                self.assertRegex(eligibility._random(list(made.graph.node), made), expected)
        self.assertEqual(eligibility._random([], made), "")  # ORT has removed the Dropout
        made = between("V = Multinomial (T)")
        self.assertIn("Multinomial", eligibility._random([], made))  # no record
        self.assertIn(
            "Multinomial", eligibility._random(list(made.graph.node), ModelProto())
        )  # a model that is not read

    def test_every_operator_with_a_seed(self):
        seeded = {schema.name for schema in get_all_operator_schema() if "seed" in schema.attributes}
        # BiasDropout and others are made by training builds only. The seed of MurmurHash3 is that of a hash.
        others = {name for name in seeded if name.endswith("Dropout")} | {"MurmurHash3"}
        self.assertEqual(seeded - others - RANDOM, set())


class ProblemTest(unittest.TestCase):
    def problem(
        self, text: str, on_cpu: str = "", eps: tuple[str, ...] = (CUDA,), made: ModelProto | None = None
    ) -> str:
        session = InferenceSession(parsed(text).SerializeToString(), providers=[CPU])
        memories = [SimpleNamespace(name="Cpu" if one.name in on_cpu else "Cuda") for one in session.get_inputs()]
        session.get_input_memory_infos = lambda: memories
        return eligibility.problem(session, [*eps], parsed(text) if made is None else made)

    def test_problems(self):
        reads = "(float[4,4] X, int64[2] S, float[3] U) => (float[2,8] Y) { T = Reshape (X, S) Y = Neg (T) }"
        shape = "(float[2] X) => (int64[1] S, float[1] Y) { S = Shape (X) F = Cast <to = 1> (S) Y = Neg (F) }"
        for text, on_cpu, problem in (
            (reads, "U", ""),
            (reads, "SU", "input 'S' is read on the CPU"),
            (shape, "", "output 'S' is a constant that nodes read"),
            ("(float[2] X) => (float[2] V, float[2] Y) { V = Neg (X) Y = Abs (V) }", "", ""),
            ("(string[1] X) => (string[1] Y) { Y = Identity (X) }", "", r"'X' is tensor\(string\)"),
            ("(float[2,4] X) => (seq(float[]) Y) { Y = SequenceConstruct (X) }", "", r"'Y' is seq\(tensor\(float\)\)"),
        ):
            with self.subTest(text, on_cpu=on_cpu):
                self.assertRegex(self.problem(text, on_cpu), problem or "^$")
        self.assertRegex(self.problem(reads, "U", made=ModelProto()), "input 'U' is read on the CPU")
        self.assertRegex(self.problem(reads, eps=(TENSORRT, CUDA)), "both capture")


class ComparisonTest(unittest.TestCase):
    def test_other_data(self):
        floats = np.array([[0, 1, -2], [np.inf, np.nan, 1e-40]], np.float32)
        other = comparison.other_data(floats, True)
        self.assertEqual((other.dtype, other.shape), (floats.dtype, floats.shape))
        self.assertFalse(np.any((other == floats) & np.isfinite(floats)))
        self.assertTrue(np.all(np.abs(other[:1]) <= [[0.5, 1, 2]]))
        flags, integers = np.array([True, False]), np.array([[3, -1], [0, 7]])
        np.testing.assert_array_equal(comparison.other_data(flags, True), ~flags)
        np.testing.assert_array_equal(comparison.other_data(integers, True), integers)
        np.testing.assert_array_equal(comparison.other_data(integers, False), np.zeros((2, 2)))
        for scalar in (np.array(3, np.float16), np.array(True), np.array(3)):
            self.assertIs(type(comparison.other_data(scalar, False)), np.ndarray)

    def test_agreement(self):
        nan, inf = np.nan, np.inf
        for got, want, same in (
            ([1, 2], [1, 2.0001], True),
            ([1, 2], [1, 2.01], False),
            ([1e-6, 2], [0, 2], True),  # terms cancel
            ([1, 2000], [0, 2000], False),
            ([nan, inf, -inf], [nan, inf, -inf], True),
            ([nan, 1], [1, 1], False),
            ([inf], [-inf], False),
            ([0, 0], [0, 0], True),
            ([1, 2, 3, -3e38], [1, 2, 4, -3e38], False),  # a mask hides nothing
            ([3e38, 1], [inf, 1], False),
            ([], [], True),
        ):
            with self.subTest(got=got, want=want):
                self.assertEqual(comparison.agree(np.float32(got), np.float32(want)), same)
        self.assertTrue(comparison.agree(np.float16([1]), np.float16([1.01])))
        self.assertFalse(comparison.agree(np.float64([1]), np.float64([1.0001])))
        self.assertFalse(comparison.agree(np.array([1]), np.array([2])))


class TensorRtTest(unittest.TestCase):
    """TensorRT keeps one graph. A session on the CPU runs the bindings of its graphs, too."""

    @needs_global_lock
    def test_one_graph(self):
        session = InferenceSession(two_nodes(("N", 3)).SerializeToString(), providers=[CPU])
        session.get_provider_options = lambda: {TENSORRT: {"trt_cuda_graph_enable": "1"}}
        capture = graphs.Capture(session, TENSORRT)
        refused = self.assertRaisesRegex
        for graph_id in ("5", "-1"):
            with refused(RuntimeError, "keeps one graph for a session"):
                capture.run({"X": np.ones((2, 3), np.float32)}, RunSettings({}, {graphs.GRAPH_ID: graph_id}))
        for i in range(4):
            x = np.full((2, 3), -i, np.float32)
            np.testing.assert_array_equal(capture.run({"X": x}, RunSettings({}, {}))[0], -x)
            with refused(RuntimeError, "keeps one graph for a session"):
                capture.run({"X": x[:1]}, RunSettings({}, {}))


if __name__ == "__main__":
    unittest.main()
