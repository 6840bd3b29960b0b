# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""What is named acts, or is refused, or is warned of and listed as unconfirmed: there is no fourth outcome.

And what one caller names does nothing to others: no thread, no memory and no arithmetic but the session's own.
"""

from __future__ import annotations

import ast
import functools
import os
import pathlib
import subprocess
import sys
import textwrap
import unittest
import warnings
from unittest import mock

import numpy as np
from backend_test_models import no_session_opens, two_nodes

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend import request
from onnxruntime.backend.allowlist import look_up, providers
from onnxruntime.backend.allowlist.circumstances import Circumstances
from onnxruntime.backend.errors import NotPermittedError
from onnxruntime.backend.session import presence

CPU, CUDA, OPENVINO = "CPUExecutionProvider", "CUDAExecutionProvider", "OpenVINOExecutionProvider"
MODEL = two_nodes((2, 4)).SerializeToString()
X = np.ones((2, 4), np.float32)
ON_CPU = {"provider_options": {}}


def prepare(**keywords):
    """The prepared model, and the texts of the warnings."""
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        rep = onnxruntime.backend.prepare(MODEL, **{**ON_CPU, **keywords})
    return rep, [str(warning.message) for warning in given]


class TestIdle(unittest.TestCase):
    """Entries whose subject a session lacks: accepted, warned of, listed as unconfirmed."""

    def assert_idle(self, keyword: str, name: str, **keywords) -> None:
        rep, given = prepare(**keywords)
        self.assertEqual(dict(rep.unconfirmed), {keyword: (name,)})
        self.assertEqual(len(given), 1)
        self.assertRegex(given[0], f"{name}.* has no effect in this session: it requires ")
        self.assertEqual(rep.warnings, tuple(given))
        np.testing.assert_array_equal(rep.run([X])[0], onnxruntime.backend.run(MODEL, [X], **ON_CPU)[0])

    def assert_acts(self, **keywords) -> None:
        rep, given = prepare(**keywords)
        self.assertEqual((dict(rep.unconfirmed), given), ({}, []))

    def test_threads_between_operators_without_parallel_mode(self):
        spinning = {"session.inter_op.allow_spinning": False}
        self.assert_idle("session_config", "session.inter_op.allow_spinning", session_config=spinning)
        self.assert_idle("session_options", "inter_op_num_threads", inter_op_num_threads=2)
        self.assert_acts(session_config=spinning, inter_op_num_threads=2, execution_mode="ORT_PARALLEL")

    def test_parallel_mode_with_one_thread_between_operators(self):
        """ORT makes the session sequential."""
        rep, given = prepare(execution_mode="ORT_PARALLEL", inter_op_num_threads=1)
        self.assertEqual(dict(rep.unconfirmed), {"session_options": ("execution_mode", "inter_op_num_threads")})
        self.assertEqual(len(given), 2)
        held = rep.session.get_session_options().execution_mode
        self.assertEqual(held, onnxruntime.ExecutionMode.ORT_SEQUENTIAL)

    def test_both_kinds_of_spinning_together(self):
        both = {f"session.{threads}.allow_spinning": "0" for threads in ("intra_op", "inter_op")}
        self.assert_idle("session_config", "session.inter_op.allow_spinning", session_config=both)

    def test_threads_within_operators_where_there_is_one(self):
        for key in ("session.intra_op.allow_spinning", "session.force_spinning_stop"):
            self.assert_idle("session_config", key, session_config={key: True}, intra_op_num_threads=1)
            self.assert_acts(session_config={key: True}, intra_op_num_threads=2)

    def test_graph_optimization_below_the_level_of_a_pass(self):
        for key, value, level in (
            ("optimization.enable_cast_chain_elimination", True, "ORT_DISABLE_ALL"),
            ("optimization.disable_specified_optimizers", "ConstantFolding", "ORT_DISABLE_ALL"),
            ("optimization.enable_gelu_approximation", True, "ORT_ENABLE_BASIC"),
            ("session.disable_quant_qdq", True, "ORT_ENABLE_BASIC"),
        ):
            with self.subTest(key):
                self.assert_idle("session_config", key, session_config={key: value}, graph_optimization_level=level)
                self.assert_acts(session_config={key: value}, graph_optimization_level="ORT_ENABLE_EXTENDED")

    def test_a_key_that_acts_only_beside_another(self):
        if tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 26):
            self.skipTest("session.disable_qdq_constant_folding came with ORT 1.26")
        key = "session.disable_qdq_constant_folding"
        self.assert_idle("session_config", key, session_config={key: True})
        self.assert_acts(session_config={key: True, "session.disable_quant_qdq": True})

    def test_memory_pattern_in_parallel_mode(self):
        parallel = {"execution_mode": "ORT_PARALLEL"}
        self.assert_idle("session_options", "enable_mem_pattern", enable_mem_pattern=True, **parallel)
        self.assert_acts(enable_mem_pattern=False, **parallel)

    def test_a_graph_of_a_session_that_captures_none(self):
        self.assert_idle("run_config", "gpu_graph_id", run_config={"gpu_graph_id": 3})
        self.assert_acts(run_config={"gpu_graph_id": -1})
        rep, _ = prepare()
        with self.assertWarnsRegex(RuntimeWarning, "gpu_graph_id.*has no effect"):
            rep.run([X], run_config={"gpu_graph_id": 3})

    def test_threads_of_a_session_on_the_global_pool(self):
        code = """
            import sys, warnings
            import onnxruntime, onnxruntime.backend
            onnxruntime.set_global_thread_pool_sizes(2, 2)
            warnings.simplefilter("error")
            from onnxruntime_test_python_backend_promise import MODEL
            for keywords in (
                {"intra_op_num_threads": 4},
                {"session_config": {"session.intra_op.allow_spinning": False}},
                {"session_config": {"session.force_spinning_stop": True}},
                {"session_config": {"session.dynamic_block_base": 4}},
            ):
                try:
                    onnxruntime.backend.prepare(MODEL, provider_options={}, use_per_session_threads=False, **keywords)
                except RuntimeWarning as warning:
                    assert "it requires thread pools of its own" in str(warning), warning
                    continue
                raise AssertionError(keywords)
        """
        run_in_a_new_process(code)


class TestUnconfirmed(unittest.TestCase):
    def test_an_unknown_key_of_a_family(self):
        key = "session.intra_op.new_knob"
        rep, given = prepare(session_config={key: True})
        self.assertEqual(dict(rep.session_config), {key: "1"})
        self.assertEqual(dict(rep.unconfirmed), {"session_config": (key,)})
        self.assertRegex(given[0], f"{key}.*cannot confirm that it acts")

    def test_a_misspelt_key_of_a_family_is_refused(self):
        for family, rest, meant in (
            ("intra_op", "allow_spining", "allow_spinning"),
            ("inter_op", "allow_spin", "allow_spinning"),
            ("intra_op", "spin_duration_ms", "spin_duration_us"),
            ("intra_op", "spin_backof_max", "spin_backoff_max"),
        ):
            key = f"session.{family}.{rest}"
            with self.subTest(key), no_session_opens(), self.assertRaises(NotPermittedError) as refused:
                onnxruntime.backend.prepare(MODEL, session_config={key: 1})
            self.assertIn(f"Did you mean 'session.{family}.{meant}'?", str(refused.exception))


class TestOthers(unittest.TestCase):
    """What a caller names does nothing to others of the process."""

    def test_arithmetic_and_memory_of_the_process(self):
        for key in ("session.set_denormal_as_zero", "session.use_env_allocators"):
            with self.subTest(key), no_session_opens(), self.assertRaises(NotPermittedError) as refused:
                onnxruntime.backend.prepare(MODEL, session_config={key: 1})
            self.assertIn("acts outside the caller's session", str(refused.exception))

    def test_the_log_of_the_process(self):
        for name, values in (
            ("log_severity_level", (0, 1, "0", -2, 5)),
            ("log_verbosity_level", (1, -1)),
            ("logid", ("a b", "a]", "[a", "a:b", "a,b", "a\n", "\u00e9", "x" * 257)),
        ):
            for value in values:
                for call in (onnxruntime.backend.prepare, lambda model, **keywords: prepare()[0].run([X], **keywords)):
                    with self.subTest(name, value=value), self.assertRaises(NotPermittedError):
                        call(MODEL, **{name: value})
            prepare()[0].run([X], log_severity_level=-1, log_verbosity_level=0, logid="tenant-7/run_2@host+x.y")

    def test_enum_numbers_without_a_name(self):
        for name, kind in (
            ("execution_mode", onnxruntime.ExecutionMode),
            ("execution_order", onnxruntime.ExecutionOrder),
            ("graph_optimization_level", onnxruntime.GraphOptimizationLevel),
        ):
            with self.subTest(name), no_session_opens(), self.assertRaises(NotPermittedError):
                onnxruntime.backend.prepare(MODEL, **{name: kind(77)})


class TestOpenVinoOnOneCore(unittest.TestCase):
    """There OpenVINO returns the outputs of another run where it should fail."""

    def setUp(self):
        patched = mock.patch.object(providers, "usable_cores", return_value=1)
        patched.start()
        self.addCleanup(patched.stop)

    def test_named(self):
        for options in ({}, {"num_of_threads": 2}, {"device_type": "CPU"}, {"device_type": "HETERO:CPU"}):
            with self.subTest(options), no_session_opens(), self.assertRaisesRegex(NotPermittedError, "two CPU cores"):
                onnxruntime.backend.prepare(MODEL, provider_options={OPENVINO: options})

    def test_one_thread_is_refused_anywhere(self):
        with (
            mock.patch.object(providers, "usable_cores", return_value=64),
            self.assertRaisesRegex(NotPermittedError, "num_of_threads"),
        ):
            onnxruntime.backend.prepare(MODEL, provider_options={OPENVINO: {"num_of_threads": 1}})

    def test_not_named(self):
        with (
            mock.patch.object(presence, "stock_list", return_value=[OPENVINO, CPU]),
            self.assertWarnsRegex(RuntimeWarning, f"{OPENVINO} is left out, because it requires two CPU cores"),
        ):
            rep = onnxruntime.backend.prepare(MODEL)
        self.assertEqual(rep.providers, (CPU,))


class TestReleases(unittest.TestCase):
    """Entries that ORT takes and ignores, by release, system and what stands beside them."""

    def at(self, release, **changes):
        here = {"machine": "x86_64", "system": "Linux", "providers": (CPU,)}
        return Circumstances(release, **{**here, **changes})

    def test_an_option_that_later_releases_ignore(self):
        rule = providers.PROVIDERS[CUDA]["built-in"]["enable_skip_layer_norm_strict_mode"]
        self.assertEqual(rule.until, (1, 28))
        asked = request.of_call({"provider_options": {CUDA: {"enable_skip_layer_norm_strict_mode": 1}}})
        permit = look_up.permit
        permit(asked, self.at((1, 27)), lambda _: "built-in")
        for release in ((1, 28), (1, 31)):
            with self.assertRaisesRegex(NotPermittedError, "ignores it, as all releases from 1.28"):
                permit(asked, self.at(release), lambda _: "built-in")

    def test_an_order_that_only_training_builds_have(self):
        for order in (onnxruntime.ExecutionOrder.MEMORY_EFFICIENT, "MEMORY_EFFICIENT"):
            with no_session_opens(), self.assertRaisesRegex(NotPermittedError, "DEFAULT, PRIORITY_BASED"):
                onnxruntime.backend.prepare(MODEL, execution_order=order)

    def test_two_ways_to_place_nodes(self):
        one = {"session.name_based_layer_assignment": "cpu(a)"}
        look_up.entries("session_config", one, self.at((1, 31)))
        for both in (
            {**one, "session.layer_assignment_settings": "cpu(a)"},
            {"session.layer_assignment_settings": "cpu(a)", **one},
        ):
            with self.assertRaisesRegex(
                NotPermittedError, "session.layer_assignment_settings not to be named beside it"
            ):
                look_up.entries("session_config", both, self.at((1, 31)))

    def test_optimizers_of_one_release(self):
        config = {"optimization.disable_specified_optimizers": "MatMulNBitsMlpFusion"}
        find = functools.partial(look_up.entries, "session_config")
        find(config, self.at((1, 27)))
        for release in ((1, 26), (1, 28), (1, 31)):
            with self.assertRaisesRegex(NotPermittedError, "in 1.27 only"):
                find(config, self.at(release))

    def test_bfloat16_on_arm(self):
        config = {"mlas.enable_gemm_fastmath_arm64_bfloat16": 1}
        find = functools.partial(look_up.entries, "session_config")
        for features, machine, system, permitted in (
            ("Features\t: fp asimd bf16 i8mm\n", "aarch64", "Linux", True),
            ("Features\t: fp asimd\n", "aarch64", "Linux", False),
            ("Features\t: fp asimd bf16\n", "arm64", "Darwin", False),
            ("Features\t: fp asimd bf16\n", "ARM64", "Windows", False),
            ("flags\t: avx512_bf16 bf16\n", "x86_64", "Linux", False),
        ):
            at = self.at((1, 31), machine=machine, system=system)
            with self.subTest(machine, system=system), mock.patch("builtins.open", mock.mock_open(read_data=features)):
                if permitted:
                    self.assertEqual(find(config, at)[0], {next(iter(config)): "1"})
                    continue
                with self.assertRaisesRegex(NotPermittedError, "Linux on a 64-bit Arm CPU with bfloat16"):
                    find(config, at)

    def test_int64_off_in_a_captured_webgpu_graph(self):
        ep = "WebGpuExecutionProvider"
        for options, permitted in (
            ({"enableInt64": 0, "enableGraphCapture": 1}, False),
            ({"enableInt64": 1, "enableGraphCapture": 1}, True),
            ({"enableInt64": 0, "enableGraphCapture": 0}, True),
        ):
            asked = request.of_call({"provider_options": {ep: options}})
            with self.subTest(options):
                if permitted:
                    look_up.permit(asked, self.at((1, 31)), lambda _: "plugin")
                    continue
                with self.assertRaisesRegex(NotPermittedError, "enableGraphCapture off"):
                    look_up.permit(asked, self.at((1, 31)), lambda _: "plugin")


class TestPluginsBefore1244(unittest.TestCase):
    """Device records of those releases do not say where a plugin's library is."""

    def test_recognised_by_the_version(self):
        def device(name, **metadata):
            return mock.Mock(ep_name=name, ep_metadata=metadata)

        devices = [
            device(CPU, version="1.24.1"),
            device(OPENVINO, version="1.8.1+95d534b.ci.79"),
        ]
        with (
            mock.patch.object(onnxruntime, "__version__", "1.24.1"),
            mock.patch.object(onnxruntime, "get_ep_devices", return_value=devices, create=True),
        ):
            self.assertEqual(presence.plugin_devices(OPENVINO), devices[1:])
            self.assertEqual(presence.kind_of(OPENVINO), "plugin")
            self.assertEqual(presence.kind_of(CPU), "built-in")
        with (
            mock.patch.object(onnxruntime, "get_ep_devices", return_value=devices, create=True),
            mock.patch.object(onnxruntime, "__version__", "1.24.4"),
        ):
            self.assertEqual(presence.plugin_devices(OPENVINO), [])


class TestErrors(unittest.TestCase):
    """What a caller names and cannot have is a NotPermittedError; everything else is not."""

    # Where the package raises another class than NotPermittedError by itself, and what that is about.
    NOT_ABOUT_WHAT_WAS_NAMED = {  # noqa: RUF012
        "backend.OnnxRuntimeBackend.run_node": "a part of the API that is not there",
        "backend._checked": "a model whose opset onnx has not released",
        "backend._source": "something that is no model",
        "backend_rep._Closed.__call__": "a prepared model that is closed",
        "backend_rep._Closed.__getattr__": "a prepared model that is closed",
        "backend_rep.OnnxRuntimeBackendRep.__reduce_ex__": "a copy of a prepared model",
        "capture.eligibility.written": "a machine without a temporary folder",
        "capture.graph_ids": "the graphs of a session",
        "capture.graphs": "the graphs of a session, and inputs",
        "capture.locks": "a run that was ended, and a process that cannot use CUDA",
        "request._add_environment": "the environment",
        "request.Request.telling_apart": "the environment",
        "runs.inputs": "inputs",
        "runs.limits": "a run that was ended",
        "runs.tensors": "inputs and outputs",
        "session.extensions": "the environment",
        "session.free_dimensions.verify": "sizes that ORT changed",
        "session.free_dimensions._input_shapes": "a model that onnx cannot read",
        "session.opening": "a session that ORT did not open as requested",
        "session.replacement": "a session in which a run failed",
        "session.verification": "values that ORT changed",
        # These are ValueErrors that another function words.
        "configuration": "the environment or a command line",
        "allowlist.value_kinds": "a value, which allowlist refuses",
    }
    COMMAND_LINE = ("__main__", "command_line")

    def raising(self):
        """Each function that raises a class by name, as module.class.function."""
        folder = pathlib.Path(onnxruntime.backend.__file__).parent
        for path in sorted(folder.rglob("*.py")):
            name = ".".join(path.relative_to(folder).with_suffix("").parts)
            if name.startswith(self.COMMAND_LINE):
                continue

            def visit(node, names, module=name):
                if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                    names = (*names, node.name)
                if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                    yield ".".join((module, *names)), ast.unparse(node.exc.func)
                for child in ast.iter_child_nodes(node):
                    yield from visit(child, names)

            yield from visit(ast.parse(path.read_text(encoding="utf-8")), ())

    def test_every_place_that_raises(self):
        listed = {*self.NOT_ABOUT_WHAT_WAS_NAMED}
        met = set()
        for place, kind in self.raising():
            if place == "errors._raise":
                continue
            known = next((name for name in listed if place == name or place.startswith(f"{name}.")), None)
            with self.subTest(place):
                self.assertIsNotNone(known, f"raises {kind}: use errors.refuse for what a caller named, or list it")
            met.add(known)
        self.assertEqual(met, listed)

    def test_refusals_say_of_what(self):
        rep, _ = prepare()
        session = onnxruntime.InferenceSession(MODEL, providers=[CPU])
        for call, place in (
            (lambda: prepare(provider_options={"No": {}}), ("provider_options", "No", "")),
            (lambda: prepare(provider_options={CPU: {"x": 1}}), ("provider_options", CPU, "x")),
            (lambda: prepare(provider_options={CUDA: {"user_compute_stream": 1}}), None),
            (lambda: prepare(provider_options=[]), ("provider_options", "", "")),
            (lambda: prepare(provider_options={CPU: 1}), ("provider_options", CPU, "")),
            (lambda: prepare(provider_options={1: {}}), ("provider_options", "", "1")),
            (lambda: prepare(session_config={"session.no": 1}), ("session_config", "", "session.no")),
            (lambda: prepare(session_config={"session.disable_prepacking": 2}), None),
            (lambda: prepare(session_config={"session.disable_model_compile": 1}), None),
            (lambda: prepare(session_config="x"), ("session_config", "", "")),
            (lambda: prepare(session_config=dict.fromkeys(map(str, range(1000)), 1)), ("session_config", "", "")),
            (lambda: prepare(run_config={"qnn.lora_config": "x"}), ("run_config", "", "qnn.lora_config")),
            (lambda: rep.run([X], run_config={"no": 1}), ("run_config", "", "no")),
            (lambda: rep.run([X], run_config=1), ("run_config", "", "")),
            (lambda: rep.run([X], session_config={"a": 1}), ("session_config", "", "")),
            (lambda: rep.run([X], terminate=True), ("terminate", "", "")),
            (lambda: prepare(enable_profiling=True), ("enable_profiling", "", "")),
            (lambda: prepare(intra_op_num_threads=-1), ("intra_op_num_threads", "", "")),
            (lambda: prepare(free_dimension_overrides={"N": 1}), ("free_dimension_overrides", "", "N")),
            (lambda: prepare(free_dimension_overrides={"N": 0}), ("free_dimension_overrides", "", "N")),
            (lambda: onnxruntime.backend.prepare(MODEL, "NO_SUCH_DEVICE:1"), ("device", "", "")),
            (lambda: onnxruntime.backend.prepare(session, session_config={"a": 1}), ("session_config", "", "")),
        ):
            with self.subTest(place), self.assertRaises(NotPermittedError) as refused:
                call()
            refusal = refused.exception
            self.assertIn(refusal.reason, str(refusal))
            self.assertTrue(refusal.keyword and refusal.reason)
            if place:
                self.assertEqual((refusal.keyword, refusal.provider, refusal.key), place)
        for wrong in ({"provider_options": []}, {"session_config": 1}, {"run_config": "x"}):
            with self.assertRaises(TypeError):
                prepare(**wrong)

    def test_other_errors_are_none(self):
        rep, _ = prepare()
        for call in (
            lambda: onnxruntime.backend.prepare(b"no model"),
            lambda: onnxruntime.backend.prepare("no such file"),
            lambda: rep.run([X[:1]]),
            lambda: rep.run({"no": X}),
        ):
            with self.assertRaises(Exception) as raised:  # ORT's own
                call()
            self.assertNotIsInstance(raised.exception, NotPermittedError)

    def test_a_path_that_is_not_utf8(self):
        with self.assertRaisesRegex(NotPermittedError, "UTF-8.*Pass the file's bytes"):
            onnxruntime.backend.prepare(b"\xff.onnx".decode("utf-8", "surrogateescape"))


def run_in_a_new_process(code: str) -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH"))))},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=120,
    )
    if done.returncode:
        raise AssertionError(done.stdout)


if __name__ == "__main__":
    unittest.main()
