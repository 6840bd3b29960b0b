# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests which final graphs may be captured, and how ORT writes the final graph.

No device is needed. The tests of the WebGPU EP check that it replays the permitted operators, and no others.
"""

from __future__ import annotations

import os
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import onnx
from helpers.children import run_code
from helpers.models import model, open_session, parsed, two_nodes
from onnx import ModelProto, helper
from test_capture_eligibility_rules import between, last, product

import onnxruntime
from onnxruntime import InferenceSession, SessionOptions
from onnxruntime.backend.allowlist.permit import Permit
from onnxruntime.backend.capture import eligibility
from onnxruntime.backend.capture.operators import RELEASES
from onnxruntime.backend.errors import NotPermittedError
from onnxruntime.backend.provider_names import CPU, CUDA, WEBGPU
from onnxruntime.backend.session.construction import Construction


class WrittenTest(unittest.TestCase):
    """ORT writes the final graph, and its folder is removed."""

    def open(self, made: ModelProto | str, options: SessionOptions | None = None):
        options = options or SessionOptions()
        source = made if isinstance(made, str) else made.SerializeToString()
        with eligibility.written(options) as path:
            session = InferenceSession(source, options, providers=[CPU])
            self.assertEqual(path.parent.stat().st_mode & 0o777, 0o700 if os.name == "posix" else 0o777)
            if os.name == "posix":
                self.assertEqual([file for file in path.parent.iterdir() if file.is_file()], [path])
            graph = onnx.load_model(path, load_external_data=False)
        self.assertFalse(path.parent.exists())
        return session, graph

    def test_flags_and_other_tensors_of_a_few_bytes_stay_in_the_graph(self):
        _, graph = self.open(product())
        for tensor in graph.graph.initializer:
            self.assertLessEqual(len(tensor.raw_data) + 4 * len(tensor.float_data), 16)

    def test_weights_are_not_kept_and_not_changed(self):
        weights = np.random.default_rng(0).standard_normal((512, 512)).astype(np.float32)
        made = model([helper.make_node("MatMul", ["X", "W"], ["Y"])], {"X": (2, 512)}, {"Y": (2, 512)}, {"W": weights})
        session, graph = self.open(made)
        self.assertLess(graph.ByteSize(), 2000)
        self.assertEqual([list(tensor.dims) for tensor in graph.graph.initializer], [[512, 512]])
        x = np.random.default_rng(1).standard_normal((2, 512)).astype(np.float32)
        np.testing.assert_allclose(session.run(None, {"X": x})[0], x @ weights, rtol=1e-3, atol=1e-3)

    def test_no_temporary_folder(self):
        missing = mock.patch("tempfile.mkdtemp", side_effect=FileNotFoundError("no usable temporary directory"))
        with missing, self.assertRaisesRegex(RuntimeError, "needs a temporary folder.*no usable"):
            self.open(two_nodes())

    def test_a_folder_that_cannot_be_removed(self):
        """On Windows, a program such as a virus scanner may read the graph."""
        options = SessionOptions()
        with mock.patch("os.rmdir", side_effect=OSError("busy")), eligibility.written(options) as path:
            pass
        self.addCleanup(path.parent.rmdir)
        self.assertEqual([*path.parent.iterdir()], [])

    def test_nothing_is_left_after_an_error(self):
        options, paths = SessionOptions(), []
        with self.assertRaises(Exception), eligibility.written(options) as path:  # noqa: B017 # ORT's own Fail
            paths.append(path)
            InferenceSession(b"no model", options, providers=[CPU])
        self.assertFalse(paths[0].parent.exists())
        self.assertEqual(options.optimized_model_filepath, "")


class CheckTest(unittest.TestCase):
    """The check of a session with a stubbed EP and releases."""

    def setUp(self):
        ort, plugin = max(RELEASES)
        cpu = mock.Mock(ep_name=CPU, ep_metadata={"version": ort})
        self.device = mock.Mock(ep_name=WEBGPU, ep_metadata={"version": plugin, "library_path": "plugin.so"})
        for patch in (
            mock.patch.object(onnxruntime, "__version__", ort),
            mock.patch.object(onnxruntime, "get_ep_devices", lambda: [cpu, self.device], create=True),
        ):
            self.enterContext(patch)

    def check(self, problem: str, made: ModelProto, on_cpu: str = "", ep: str = WEBGPU) -> None:
        """Check a session whose inputs of these names are on the CPU; without a problem, the session may capture."""
        options, session = (SessionOptions(), mock.Mock(spec=["get_inputs", "get_input_memory_infos"]))
        session.get_inputs.return_value = made.graph.input
        memories = ["Cpu" if value.name in on_cpu else "WebGPU_Buf" for value in made.graph.input]
        session.get_input_memory_infos.return_value = [SimpleNamespace(name=name) for name in memories]
        with eligibility.written(options) as path:
            InferenceSession(made.SerializeToString(), options, providers=[CPU])
            self.assertRegex(eligibility.check(session, ep, path), problem or "^$")

    def test_releases(self):
        for version in ("0.4.1", "", None):
            self.device.ep_metadata["version"] = version
            self.check(f"version {version} of the EP on ORT", two_nodes())
        # Every plugin that is registered counts.
        other = mock.Mock(ep_name=WEBGPU, ep_metadata={"version": "9.9.9", "library_path": "other.so"})
        self.device.ep_metadata["version"] = max(RELEASES)[1]
        with mock.patch.object(onnxruntime, "get_ep_devices", lambda: [self.device, other]):
            self.check("version 9.9.9 of the EP", two_nodes())
        # A built-in EP has ORT's version.
        self.device.ep_metadata = {"version": onnxruntime.__version__}
        self.check(f"version {onnxruntime.__version__} of the EP", two_nodes())
        onnxruntime.get_ep_devices = list
        self.check(f"version {onnxruntime.__version__} of the EP", two_nodes())

    def test_a_release_of_ort(self):
        for version in ("1.30.0", "1.31.2", "1.32.1", "1.33.0"):
            with mock.patch.object(onnxruntime, "__version__", version):
                known = " on ORT .*, ".join(plugin for _, plugin in sorted(RELEASES))
                self.check(f"on ORT {version} was never checked, only {known} on ORT {max(RELEASES)[0]}", two_nodes())

    def test_graphs(self):
        reads = parsed("(float[4,4] X, int64[2] S, float[3] U) => (float[2,8] Y) { T = Reshape (X, S) Y = Neg (T) }")
        self.check("", two_nodes())
        self.check("Selu", between("Selu"))
        self.check("", between("Selu"), ep=CUDA)
        for ep in (WEBGPU, CUDA):
            self.check("input 'S' is read on the CPU", reads, "SU", ep)
            self.check("", reads, "U", ep)
            self.check("RandomNormalLike", between("RandomNormalLike"), ep=ep)

    def test_flags_are_read_from_the_final_graph(self):
        for flag, problem in ((True, "Dropout"), (False, "")):
            constants = {"M": np.array(flag), "R": np.array(0.5, np.float32)}
            # ORT eliminates a Dropout whose output is not an output of the graph.
            self.check(problem, last(between("Dropout", "T", "R", "M", constants=constants)), ep=CUDA)

    def test_too_large_a_graph(self):
        with mock.patch.object(eligibility, "_MOST_BYTES", 10):
            self.check("too many to check", two_nodes())

    def test_not_a_graph(self):
        reason = eligibility.check(mock.Mock(), WEBGPU, Path("no", "such", "file"))
        self.assertIn("cannot be read", reason)
        self.assertNotIn("such", reason)  # a caller may see it
        options = SessionOptions()
        with eligibility.written(options) as path:
            path.write_bytes(b"\xff\xff\xff")
            for most in (eligibility._MOST_BYTES, 3):
                with mock.patch.object(eligibility, "_MOST_BYTES", most):
                    self.assertRegex(eligibility.check(mock.Mock(), WEBGPU, path), "cannot be read")

    def test_the_model_of_a_callers_session(self):
        source = between("RandomNormalLike").SerializeToString()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.onnx")
            path.write_bytes(source)
            for model_or_path in (source, str(path)):
                session = InferenceSession(model_or_path, providers=[CPU])
                self.assertIn("random numbers", eligibility.problem(session, [CUDA], False))
                self.assertEqual(eligibility.problem(session, [CUDA], True), "")

    def test_shared_device_memory(self):
        options = SessionOptions()
        options.add_session_config_entry("session.use_env_allocators", "1")
        session = InferenceSession(two_nodes().SerializeToString(), options, providers=[CPU])
        self.assertIn("leave out session.use_env_allocators", eligibility.problem(session, [CUDA], True))

    def test_a_session_of_an_unreadable_model(self):
        session = open_session()
        for content, path in ((b"\xff\xff\xff", None), (None, "no-such.onnx"), (None, None)):
            session._model_bytes, session._model_path = content, path
            # Its inputs on the CPU may be read.
            self.assertIn("input 'X' is read on the CPU", eligibility.problem(session, [CUDA], False))


def opened_on_cpu(
    made: ModelProto, grants: dict[str, dict], options: SessionOptions | None = None
) -> tuple[InferenceSession, bool]:
    """Create a session for a permit of these options, but on the CPU EP. Return it, and whether it was checked."""
    wanted = Construction(made.SerializeToString(), Permit("", True, grants), options or SessionOptions())
    on_cpu = replace(wanted, permit=Permit("", True, {CPU: {}}))
    wanted.create = on_cpu.create
    return eligibility.open_session(wanted)


class OpenTest(unittest.TestCase):
    """Which sessions are checked."""

    def open(self, granted: dict[str, dict[str, bool]]) -> list[str]:
        grants = {ep: {name: mock.Mock(value=on) for name, on in options.items()} for ep, options in granted.items()}
        looked = []
        with mock.patch.object(eligibility, "check", lambda _, ep, path: looked.append((ep, path.exists())) or ""):
            session, checked = opened_on_cpu(two_nodes(), grants)
        self.assertEqual((session.get_providers(), checked), ([CPU], bool(looked)))
        self.assertTrue(all(exists for _, exists in looked))
        return [ep for ep, _ in looked]

    def test_those_that_capture(self):
        for granted, looked in (
            ({WEBGPU: {"enableGraphCapture": True}}, [WEBGPU]),
            ({CPU: {}, CUDA: {"enable_cuda_graph": True}}, [CUDA]),
            ({}, []),
            ({WEBGPU: {}}, []),
            ({WEBGPU: {"enableGraphCapture": False}}, []),
            ({CPU: {"enableGraphCapture": True}}, []),
        ):
            self.assertEqual(self.open(granted), looked)

    def test_optimizers_that_were_disabled_stay_so(self):
        grants = {WEBGPU: {"enableGraphCapture": mock.Mock(value=True)}}
        for disabled, left in (("", ["Gemm"]), ("ConstantFolding;MatMulAddFusion", ["MatMul", "Add"])):
            options, found = SessionOptions(), []
            if disabled:
                options.add_session_config_entry("optimization.disable_specified_optimizers", disabled)
            read = lambda *given, to=found: to.append(onnx.load(given[2], load_external_data=False)) or ""  # noqa: E731
            with mock.patch.object(eligibility, "check", read):
                opened_on_cpu(product(), grants, options)
            self.assertEqual([node.op_type for node in found[0].graph.node], left)

    def test_ort_warns_of_nothing(self):
        # ORT warns of every graph that it writes after an optimizer for one kind of processor.
        program = (
            "import sys\nfrom unittest import mock\nfrom onnx import load_from_string\n"
            "from onnxruntime import SessionOptions\n"
            "from onnxruntime.backend.capture import eligibility\n"
            "from test_capture_eligibility import opened_on_cpu\n"
            "eligibility.check = lambda *_: ''\n"
            "grants = {'CUDAExecutionProvider': {'enable_cuda_graph': mock.Mock(value=True)}}\n"
            "options = SessionOptions()\n"
            "for text in sys.argv[1:]:\n    options.add_session_config_entry(eligibility._DISABLED, text)\n"
            "opened_on_cpu(load_from_string(sys.stdin.buffer.read()), grants, options)\n"
        )
        # An entry of a caller stays.
        for entry in ([], [""], ["ConstantFolding"]):
            done = run_code(program, *entry, input=two_nodes().SerializeToString())
            done.check_returncode()
            self.assertEqual("Serializing optimized model" in done.stderr, entry != [], done.stderr)

    def test_what_was_found_is_raised(self):
        grants = {WEBGPU: {"enableGraphCapture": mock.Mock(value=True)}}
        with self.assertRaises(NotPermittedError) as raised:
            opened_on_cpu(two_nodes(), grants)
        self.assertEqual((raised.exception.provider, raised.exception.key), (WEBGPU, "enableGraphCapture"))


if __name__ == "__main__":
    unittest.main()
