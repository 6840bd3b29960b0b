# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests which final graphs may be captured: the rules on small graphs, and how ORT writes the final graph.

No device is needed. The tests of the WebGPU EP check that it replays the permitted operators, and no others.
"""

from __future__ import annotations

import os
import unittest
from pathlib import Path
from unittest import mock

import numpy as np
import onnx
from backend_test_children import run_code
from backend_test_models import model, two_nodes
from onnx import ModelProto, TensorProto, helper, numpy_helper

import onnxruntime
from onnxruntime import InferenceSession, SessionOptions
from onnxruntime.backend.capture import eligibility
from onnxruntime.backend.capture.eligibility import DISABLED_OPTIMIZERS
from onnxruntime.backend.capture.operators import DROPOUTS, INSIDE, MICROSOFT, NHWC, OPERATORS, RANDOM, RELEASES, TYPES
from onnxruntime.backend.errors import NotPermittedError
from onnxruntime.backend.provider_names import CPU, CUDA, WEBGPU
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

_FOUR = (4, 4)


def between(node: onnx.NodeProto, constants: dict[str, np.ndarray] | None = None) -> ModelProto:
    """A graph in which ``X -> Neg -> T -> node -> V -> Exp -> Y``."""
    nodes = [helper.make_node("Neg", ["X"], ["T"]), node, helper.make_node("Exp", ["V"], ["Y"])]
    return model(nodes, {"X": _FOUR}, {"Y": None}, constants)


def last(node: onnx.NodeProto, constants: dict[str, np.ndarray] | None = None) -> ModelProto:
    """A graph in which ``X -> Neg -> T -> node -> Y``."""
    return model([helper.make_node("Neg", ["X"], ["T"]), node], {"X": _FOUR}, {"Y": None}, constants)


def _axes(*values: int) -> dict[str, np.ndarray]:
    return {"A": np.array(values, np.int64)}


class RuleTest(unittest.TestCase):
    """The conditions of WebGPU for a graph."""

    def permit(self, made: ModelProto) -> None:
        self.assertEqual(eligibility._unknown(made), "")

    def refuse(self, made: ModelProto, pattern: str) -> None:
        self.assertRegex(eligibility._unknown(made), pattern)

    def test_only_operators_of_the_table(self) -> None:
        self.permit(between(helper.make_node("Tanh", ["T"], ["V"])))
        self.refuse(
            between(helper.make_node("Selu", ["T"], ["V"], name="n1")), r"^node 'n1' \(Selu, which makes 'V'\) is not"
        )
        for operator in ("ScatterND", "ScatterElements", "LSTM", "GRU", "If", "Loop", "Scan", "DequantizeLinear"):
            self.refuse(between(helper.make_node(operator, ["T"], ["V"])), f"{operator}.*not known to be replayed")

    def test_domains_are_told_apart(self) -> None:
        for domain, operator in ((NHWC, "Conv"), (MICROSOFT, "QuickGelu")):
            self.permit(between(helper.make_node(operator, ["T"], ["V"], domain=domain)))
            self.refuse(between(helper.make_node(operator, ["T"], ["V"])), f"\\({operator}, .*not known")
            self.refuse(between(helper.make_node(operator, ["T"], ["V"], domain="other")), f"other::{operator}")
        self.refuse(between(helper.make_node("Relu", ["T"], ["V"], domain="ai.onnx.ml")), "not known")

    def test_functions(self) -> None:
        made = between(helper.make_node("Tanh", ["T"], ["V"]))
        made.functions.append(
            helper.make_function("", "Tanh", ["a"], ["b"], [helper.make_node("Selu", ["a"], ["b"])], made.opset_import)
        )
        self.refuse(made, "functions")

    def test_sparse_constants(self) -> None:
        made = between(helper.make_node("Add", ["T", "A"], ["V"]), {"A": np.ones(4, np.float32)})
        self.permit(made)
        made.graph.sparse_initializer.add().values.CopyFrom(made.graph.initializer.pop())
        self.refuse(made, "sparse constants")

    def test_views_inside_and_as_outputs(self) -> None:
        for operator in ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"):
            self.permit(between(helper.make_node(operator, ["T", "A"], ["V"]), _axes(0)))
            self.refuse(last(helper.make_node(operator, ["T", "A"], ["Y"]), _axes(0)), "makes an output.*a copy$")
        # Another node reads its output.
        made = between(helper.make_node("Identity", ["T"], ["V"]))
        made.graph.output.append(helper.make_tensor_value_info("V", TensorProto.FLOAT, _FOUR))
        self.refuse(made, "makes an output of the model")

    def test_one_input(self) -> None:
        for operator in ("Max", "Min"):
            self.permit(between(helper.make_node(operator, ["T", "X"], ["V"])))
            self.permit(between(helper.make_node(operator, ["T", "T"], ["V"])))
            self.refuse(between(helper.make_node(operator, ["T"], ["V"])), "copies its input")
            self.refuse(between(helper.make_node(operator, ["T", ""], ["V"])), "copies its input")

    def test_transposes(self) -> None:
        self.permit(between(helper.make_node("Transpose", ["T"], ["V"], perm=[1, 0])))
        for attributes in ({}, {"perm": [0]}):
            self.refuse(between(helper.make_node("Transpose", ["T"], ["V"], **attributes)), "one dimension")

    def test_reductions(self) -> None:
        reductions = [name for _, name in OPERATORS if name.startswith("Reduce")]
        self.assertEqual(len(reductions), 10)
        for operator in reductions:
            self.permit(between(helper.make_node(operator, ["T", "A"], ["V"]), _axes(0)))
            self.permit(between(helper.make_node(operator, ["T"], ["V"], axes=[0])))
            for inputs, constants in ((["T"], {}), (["T", ""], {}), (["T", "A"], _axes()), (["T", "X"], {})):
                self.refuse(between(helper.make_node(operator, inputs, ["V"]), constants), "specifies no axes")
            self.refuse(between(helper.make_node(operator, ["T"], ["V"], noop_with_empty_axes=1)), "specifies no axes")

    def test_outputs(self) -> None:
        def attention(count: int) -> ModelProto:
            outputs = ["V", *(f"o{i}" for i in range(count - 1))]
            return between(helper.make_node("MultiHeadAttention", ["T", "T", "T"], outputs, domain=MICROSOFT))

        self.permit(attention(3))
        made = attention(4)
        self.refuse(made, "more than 3 outputs")
        made.graph.node[1].output[1:3] = ["", ""]
        self.refuse(made, "more than 3 outputs")
        made.graph.node[1].output[3] = ""
        self.permit(made)

    def test_types(self) -> None:
        self.permit(between(helper.make_node("Cast", ["T"], ["V"], to=TensorProto.INT32)))
        self.refuse(between(helper.make_node("Cast", ["T"], ["V"], to=TensorProto.FLOAT16)), "FLOAT16")
        made = between(helper.make_node("Tanh", ["T"], ["V"]))
        made.graph.input[0].type.tensor_type.elem_type = TensorProto.FLOAT16
        self.refuse(made, r"'X' is of a type \(FLOAT16\)")
        half = {"A": np.ones(4, np.float16)}
        self.refuse(between(helper.make_node("Add", ["T", "A"], ["V"]), half), r"'A' is of a type \(FLOAT16\)")
        # No node reads the value.
        self.permit(between(helper.make_node("Tanh", ["T"], ["V"]), half))

    def test_the_name_of_a_node_is_shown_and_not_printed(self) -> None:
        problem = eligibility._unknown(between(helper.make_node("Selu", ["T"], ["V"], name="\x1b[31m" + "n" * 500)))
        self.assertNotIn("\x1b", problem)
        self.assertLess(len(problem), 300)

    def test_the_table(self) -> None:
        self.assertNotIn(TensorProto.FLOAT16, TYPES)
        for (domain, name), rule in OPERATORS.items():
            self.assertIn(domain, ("", NHWC, MICROSOFT))
            self.assertEqual(rule == INSIDE, name in ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"), name)
        for ort, plugin in RELEASES:
            self.assertRegex(ort, r"^\d+\.\d+\.\d+$")
            self.assertRegex(plugin, r"^\d+\.\d+\.\d+$")


class RepeatableTest(unittest.TestCase):
    """Graphs that no EP may capture."""

    def refuse(self, made: ModelProto, pattern: str) -> None:
        self.assertRegex(eligibility._not_repeatable(made), pattern)

    def permit(self, made: ModelProto) -> None:
        self.assertEqual(eligibility._not_repeatable(made), "")

    def test_every_operator_with_a_seed(self) -> None:
        schemas = [(schema.domain, schema) for schema in get_all_operator_schema() if "seed" in schema.attributes]
        self.assertGreater(len(schemas), 8)
        for domain, schema in schemas:
            if schema.name == "MurmurHash3":  # the seed of a hash
                continue
            operator = (domain, schema.name)
            self.assertIn(operator, RANDOM | DROPOUTS.keys())
            if operator in DROPOUTS:
                self.assertEqual(schema.inputs[DROPOUTS[operator]].name, "training_mode")

    def test_random_operators(self) -> None:
        for domain, name in RANDOM:
            node = helper.make_node(name, ["T"], ["V"], domain=domain)
            self.refuse(between(node), f"{name}, which makes 'V'.*random")
            if not domain:
                node.domain = "ai.onnx"
                self.refuse(between(node), name)

    def test_in_functions(self) -> None:
        made = between(helper.make_node("Noisy", ["T"], ["V"], domain="own"))
        body = [helper.make_node("RandomNormalLike", ["a"], ["b"])]
        made.functions.append(helper.make_function("own", "Noisy", ["a"], ["b"], body, made.opset_import))
        self.refuse(made, "RandomNormalLike")

    def test_in_subgraphs(self) -> None:
        noise = helper.make_node("RandomUniform", [], ["b"], shape=[2, 4])
        for depth in range(3):
            value = helper.make_tensor_value_info("b", TensorProto.FLOAT, None)
            graph = helper.make_graph([noise], f"g{depth}", [], [value])
            noise = helper.make_node("If", ["C"], ["b"], then_branch=graph, else_branch=graph)
        noise.output[0] = "V"
        self.refuse(between(noise), "RandomUniform")

    def test_dropout_draws_in_training_only(self) -> None:
        on, off = np.array(True), np.array(False)
        for (domain, name), position in DROPOUTS.items():
            inputs = ["T", "", "", "", ""][: position + 1]
            self.permit(between(helper.make_node(name, ["T"], ["V"], domain=domain)))
            self.permit(between(helper.make_node(name, inputs, ["V"], domain=domain)))
            inputs[position] = "M"
            node = helper.make_node(name, inputs, ["V"], domain=domain)
            self.permit(between(node, {"M": off}))
            self.refuse(between(node, {"M": on}), name)
            self.refuse(between(node), name)  # an input, or the output of another node
            self.refuse(between(node, {"M": np.array(0, np.int64)}), name)
            made = between(node)
            for value, check in ((off, self.permit), (on, lambda made: self.refuse(made, "Dropout"))):
                constant = helper.make_node("Constant", [], ["M"], value=numpy_helper.from_array(value))
                made.graph.node.insert(0, constant)
                check(made)
                del made.graph.node[0]

    def test_a_flag_outside_of_a_subgraph(self) -> None:
        value = helper.make_tensor_value_info("b", TensorProto.FLOAT, None)
        for flag in (False, True):
            dropout = helper.make_node("Dropout", ["T", "", "M"], ["b"])
            graph = helper.make_graph([dropout], "g", [], [value])
            node = helper.make_node("If", ["C"], ["V"], then_branch=graph, else_branch=graph)
            made = between(node, {"M": np.array(flag)})
            self.refuse(made, "Dropout") if flag else self.permit(made)
            made.functions.append(helper.make_function("own", "F", ["a"], ["b"], [dropout], made.opset_import))
            self.refuse(made, "Dropout")  # a function does not see the names of the graph

    def test_an_initializer_as_an_output(self) -> None:
        made = between(helper.make_node("Add", ["T", "W"], ["V"]), {"W": np.ones(4, np.float32)})
        self.permit(made)
        made.graph.output.append(helper.make_tensor_value_info("W", TensorProto.FLOAT, [4]))
        self.refuse(made, "output 'W' is a constant that nodes read")
        made.graph.node[1].input[1] = "T"
        self.permit(made)


class WrittenTest(unittest.TestCase):
    """ORT writes the final graph, and its folder is removed."""

    def open(self, made: ModelProto | str, options: SessionOptions | None = None):
        options = options or SessionOptions()
        source = made if isinstance(made, str) else made.SerializeToString()
        arguments = {"providers": [CPU], "disabled_optimizers": DISABLED_OPTIMIZERS}
        with eligibility.written(options) as path:
            session = InferenceSession(source, options, **arguments)
            self.assertEqual(path.parent.stat().st_mode & 0o777, 0o700 if os.name == "posix" else 0o777)
            if os.name == "posix":
                self.assertEqual([file for file in path.parent.iterdir() if file.is_file()], [path])
            graph = onnx.load_model(path, load_external_data=False)
        self.assertFalse(path.parent.exists())
        return session, graph

    def test_after_all_optimizers(self) -> None:
        nodes = [helper.make_node("MatMul", ["X", "W"], ["T"]), helper.make_node("Add", ["T", "B"], ["Y"])]
        made = model(
            nodes, {"X": (2, 4)}, {"Y": (2, 3)}, {"W": np.ones((4, 3), np.float32), "B": np.ones(3, np.float32)}
        )
        _, graph = self.open(made)
        self.assertEqual([node.op_type for node in graph.graph.node], ["Gemm"])
        # Flags and other tensors of a few bytes stay in the graph.
        for tensor in graph.graph.initializer:
            self.assertLessEqual(len(tensor.raw_data) + 4 * len(tensor.float_data), 16)

    def test_weights_are_not_kept_and_not_changed(self) -> None:
        weights = np.random.default_rng(0).standard_normal((512, 512)).astype(np.float32)
        made = model([helper.make_node("MatMul", ["X", "W"], ["Y"])], {"X": (2, 512)}, {"Y": (2, 512)}, {"W": weights})
        session, graph = self.open(made)
        self.assertLess(graph.ByteSize(), 2000)
        self.assertEqual([list(tensor.dims) for tensor in graph.graph.initializer], [[512, 512]])
        x = np.random.default_rng(1).standard_normal((2, 512)).astype(np.float32)
        np.testing.assert_allclose(session.run(None, {"X": x})[0], x @ weights, rtol=1e-3, atol=1e-3)

    def test_the_options_write_nothing_later(self) -> None:
        options = SessionOptions()
        self.open(two_nodes(), options)
        self.assertEqual(options.optimized_model_filepath, "")
        InferenceSession(two_nodes().SerializeToString(), options, providers=[CPU])

    def test_no_temporary_folder(self) -> None:
        missing = mock.patch("tempfile.mkdtemp", side_effect=FileNotFoundError("no usable temporary directory"))
        with missing, self.assertRaisesRegex(RuntimeError, "needs a temporary folder.*no usable"):
            self.open(two_nodes())

    def test_a_folder_that_cannot_be_removed(self) -> None:
        """On Windows, a program such as a virus scanner may read the graph."""
        options = SessionOptions()
        with mock.patch("os.rmdir", side_effect=OSError("busy")), eligibility.written(options) as path:
            pass
        self.addCleanup(path.parent.rmdir)
        self.assertEqual([*path.parent.iterdir()], [])

    def test_nothing_is_left_after_an_error(self) -> None:
        options, paths = SessionOptions(), []
        with self.assertRaises(Exception), eligibility.written(options) as path:  # noqa: B017 # ORT's own Fail
            paths.append(path)
            InferenceSession(b"no model", options, providers=[CPU])
        self.assertFalse(paths[0].parent.exists())
        self.assertEqual(options.optimized_model_filepath, "")


# The result of a check of a session that may capture.
NOTHING_FOUND = "", frozenset()


class CheckTest(unittest.TestCase):
    """The check of a session with a stubbed EP and releases."""

    def setUp(self) -> None:
        ort, plugin = max(RELEASES)
        self.device = mock.Mock(ep_name=WEBGPU, ep_metadata={"version": plugin, "library_path": "plugin.so"})
        for patch in (
            mock.patch.object(onnxruntime, "__version__", ort),
            mock.patch.object(onnxruntime, "get_ep_devices", lambda: [self.device], create=True),
        ):
            patch.start()
            self.addCleanup(patch.stop)

    def check(self, made: ModelProto, memories: dict[str, str] | None = None, ep: str = WEBGPU):
        options = SessionOptions()
        with eligibility.written(options) as path:
            InferenceSession(
                made.SerializeToString(), options, providers=[CPU], disabled_optimizers=DISABLED_OPTIMIZERS
            )
            session = mock.Mock(spec=["get_inputs", "get_input_memory_infos"])
            values = [mock.Mock() for _ in made.graph.input]
            for value, given in zip(values, made.graph.input, strict=True):
                value.name = given.name
            session.get_inputs.return_value = values
            infos = [mock.Mock() for _ in values]
            for info, value in zip(infos, values, strict=True):
                info.name = (memories or {}).get(value.name, "WebGPU_Buf")
            session.get_input_memory_infos.return_value = infos
            return eligibility.check(session, ep, path)

    def permitted(self, *arguments, **keywords) -> frozenset[str]:
        """Return the inputs on the CPU that no node reads."""
        reason, unread = self.check(*arguments, **keywords)
        self.assertEqual(reason, "")
        return unread

    def refused(self, pattern: str, *arguments, **keywords) -> None:
        self.assertRegex(self.check(*arguments, **keywords)[0], pattern)

    def test_a_graph(self) -> None:
        self.assertEqual(self.permitted(two_nodes()), frozenset())
        self.refused("Selu", between(helper.make_node("Selu", ["T"], ["V"])))

    def test_releases(self) -> None:
        for version in ("0.4.1", "", None):
            self.device.ep_metadata["version"] = version
            self.refused(f"version {version} of the EP on ORT", two_nodes())
        # A built-in EP has ORT's version.
        del self.device.ep_metadata["library_path"]
        self.refused(f"version {onnxruntime.__version__} of the EP", two_nodes())
        onnxruntime.get_ep_devices = list
        self.refused(f"version {onnxruntime.__version__} of the EP", two_nodes())

    def test_a_release_of_ort(self) -> None:
        for version in ("1.30.0", "1.31.2", "1.32.1", "1.33.0"):
            with mock.patch.object(onnxruntime, "__version__", version):
                self.refused(f"on ORT {version} was never checked", two_nodes())

    def test_every_plugin_that_is_registered_counts(self) -> None:
        other = mock.Mock(ep_name=WEBGPU, ep_metadata={"version": "9.9.9", "library_path": "other.so"})
        with mock.patch.object(onnxruntime, "get_ep_devices", lambda: [self.device, other]):
            self.refused("version 9.9.9 of the EP", two_nodes())

    def test_inputs(self) -> None:
        nodes = [helper.make_node("Reshape", ["X", "S"], ["T"]), helper.make_node("Neg", ["T"], ["Y"])]
        made = model(nodes, {"X": _FOUR, "S": (2,), "U": (3,)}, {"Y": (2, 8)})
        made.graph.input[1].type.tensor_type.elem_type = TensorProto.INT64
        for ep in (WEBGPU, CUDA):
            self.refused("input 'S' is read on the CPU", made, {"S": "Cpu", "U": "Cpu"}, ep)
            self.assertEqual(self.permitted(made, {"U": "Cpu"}, ep), {"U"})

    def test_cuda_captures_every_operator_but_random_ones(self) -> None:
        self.permitted(between(helper.make_node("Selu", ["T"], ["V"])), ep=CUDA)
        noise = between(helper.make_node("RandomNormalLike", ["T"], ["V"]))
        for ep in (CUDA, WEBGPU):
            self.refused("RandomNormalLike", noise, ep=ep)

    def test_flags_are_read_from_the_final_graph(self) -> None:
        for flag in (True, False):
            # ORT eliminates a Dropout whose output is not an output of the graph.
            made = last(helper.make_node("Dropout", ["T", "R", "M"], ["Y"]))
            for name, value in (("M", np.array(flag)), ("R", np.float32(0.5))):
                made.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
            self.refused("Dropout", made, ep=CUDA) if flag else self.permitted(made, ep=CUDA)

    def test_no_graph(self) -> None:
        self.assertRegex(eligibility.check(mock.Mock(), WEBGPU, Path("no", "such", "file"))[0], "cannot be read")

    def test_too_large_a_graph(self) -> None:
        with mock.patch.object(eligibility, "_MOST_BYTES", 10):
            self.refused("too many to check", two_nodes())

    def test_not_a_graph(self) -> None:
        options = SessionOptions()
        with eligibility.written(options) as path:
            path.write_bytes(b"\xff\xff\xff")
            for most in (eligibility._MOST_BYTES, 3):
                with mock.patch.object(eligibility, "_MOST_BYTES", most):
                    self.assertRegex(eligibility.check(mock.Mock(), WEBGPU, path)[0], "cannot be read")

    def test_a_session_of_an_unreadable_model(self) -> None:
        for content, path in ((b"\xff\xff\xff", None), (None, "no-such.onnx"), (None, None)):
            self.assertIsNone(eligibility._as_opened(mock.Mock(_model_bytes=content, _model_path=path)))


class OpenTest(unittest.TestCase):
    """Which sessions are checked."""

    def open(self, granted: dict[str, dict[str, bool]]) -> list[str]:
        grants = {ep: {name: mock.Mock(value=on) for name, on in options.items()} for ep, options in granted.items()}
        looked = []
        with mock.patch.object(
            eligibility, "check", lambda _, ep, path: looked.append((ep, path.exists())) or NOTHING_FOUND
        ):
            session, _ = eligibility.open_session(
                two_nodes().SerializeToString(), SessionOptions(), grants, providers=[CPU], enable_fallback=0
            )
        self.assertEqual(session.get_providers(), [CPU])
        self.assertTrue(all(exists for _, exists in looked))
        return [ep for ep, _ in looked]

    def test_those_that_capture(self) -> None:
        self.assertEqual(self.open({WEBGPU: {"enableGraphCapture": True}}), [WEBGPU])
        self.assertEqual(self.open({CPU: {}, CUDA: {"enable_cuda_graph": True}}), [CUDA])

    def test_no_others(self) -> None:
        for granted in ({}, {WEBGPU: {}}, {WEBGPU: {"enableGraphCapture": False}}, {CPU: {"enableGraphCapture": True}}):
            self.assertEqual(self.open(granted), [])

    def test_optimizers_that_were_disabled_stay_so(self) -> None:
        nodes = [helper.make_node("MatMul", ["X", "W"], ["T"]), helper.make_node("Add", ["T", "B"], ["Y"])]
        weights = {"W": np.ones((4, 3), np.float32), "B": np.ones(3, np.float32)}
        made = model(nodes, {"X": (2, 4)}, {"Y": (2, 3)}, weights).SerializeToString()
        grants = {WEBGPU: {"enableGraphCapture": mock.Mock(value=True)}}
        for disabled, left in (("", ["Gemm"]), ("ConstantFolding;MatMulAddFusion", ["MatMul", "Add"])):
            options, found = SessionOptions(), []
            if disabled:
                options.add_session_config_entry("optimization.disable_specified_optimizers", disabled)
            with mock.patch.object(
                eligibility,
                "check",
                lambda *given, to=found: to.append(onnx.load(given[2], load_external_data=False)) or NOTHING_FOUND,
            ):
                eligibility.open_session(made, options, grants, providers=[CPU])
            self.assertEqual([node.op_type for node in found[0].graph.node], left)

    def test_ort_warns_of_nothing(self) -> None:
        # ORT warns of every graph that it writes after an optimizer for one kind of processor.
        program = (
            "import sys\nfrom unittest import mock\nfrom onnxruntime import SessionOptions\n"
            "from onnxruntime.backend.capture import eligibility\n"
            "eligibility.check = lambda *_: ('', frozenset())\n"
            "grants = {'CUDAExecutionProvider': {'enable_cuda_graph': mock.Mock(value=True)}}\n"
            "eligibility.DISABLED_OPTIMIZERS = tuple(sys.argv[1:])\n"
            "eligibility.open_session(sys.stdin.buffer.read(), SessionOptions(), grants,"
            " providers=['CPUExecutionProvider'])\n"
        )
        for disabled in (DISABLED_OPTIMIZERS, ()):
            done = run_code(program, *disabled, input=two_nodes().SerializeToString())
            done.check_returncode()
            self.assertEqual("Serializing optimized model" in done.stderr, not disabled, done.stderr)

    def test_what_was_found_is_raised(self) -> None:
        grants = {WEBGPU: {"enableGraphCapture": mock.Mock(value=True)}}
        with self.assertRaises(NotPermittedError) as raised:
            eligibility.open_session(two_nodes().SerializeToString(), SessionOptions(), grants, providers=[CPU])
        self.assertEqual((raised.exception.provider, raised.exception.key), (WEBGPU, "enableGraphCapture"))


if __name__ == "__main__":
    unittest.main()
