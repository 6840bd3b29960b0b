# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""What is named acts, or is refused, or is warned of and listed as unconfirmed: there is no fourth outcome.

And what one caller names does nothing to others: no thread, no memory and no arithmetic but the session's own.
"""

from __future__ import annotations

import ast
import os
import pathlib
import subprocess
import sys
import textwrap
import unittest
import warnings
from unittest import mock

import numpy as np
from backend_test_models import two_nodes

import onnxruntime
import onnxruntime.backend
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
        "backend_rep.OnnxRuntimeBackendRep.run": "a second positional argument",
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
