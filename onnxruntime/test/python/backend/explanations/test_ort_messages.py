# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests that the backend recognizes the messages of the installed ORT, which each release can change.

The backend recognizes an error by a pattern of its text. ``test_backend_model_versions.py``
also causes such errors: those about operators that ORT lacks.
"""

import contextlib
import functools
import importlib.util
import io
import tempfile
import unittest
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import _above
import numpy as np
import onnx
from helpers import observable_models as observable
from helpers.capture import CUDA_DEVICES
from helpers.capture import open_session as open_capturing
from helpers.execution_providers import CPU, OPENVINO, register_openvino_plugin, run_in_a_new_process
from helpers.models import parsed, three_inputs, two_nodes
from onnx import ModelProto

import onnxruntime
import onnxruntime.backend
from onnxruntime import InferenceSession, RunOptions
from onnxruntime.backend.allowlist.facts import RELEASE
from onnxruntime.backend.allowlist.session_config import SESSION_CONFIG
from onnxruntime.backend.capture import sessions
from onnxruntime.backend.explanations import failures
from onnxruntime.backend.openvino.run_order import RunOrder
from onnxruntime.backend.provider_names import CUDA

WEBGPU = "WebGpuExecutionProvider"
X = np.ones((2, 3), np.float32)


def create(made: ModelProto) -> InferenceSession:
    return InferenceSession(made.SerializeToString(), providers=[CPU])


BRANCHING = onnx.load_from_string(observable.GELU_IN_BRANCH)
# No EP but the CPU EP can run its node.
ON_THE_CPU_ONLY = onnx.load_from_string(observable.model("(float[2, 2] X) => (float Y) { Y = Det(X) }"))
WITHOUT_RANK = parsed("(float[2, 3] X, int64[N] S) => (float Y) { Z = Reshape (X, S) Y = Relu (Z) }")


def captured(made: ModelProto) -> None:
    """Create a session that captures."""
    if CUDA not in onnxruntime.get_available_providers():
        if RELEASE < (1, 26):
            raise unittest.SkipTest(f"ORT {onnxruntime.__version__} does not check models for plugin EPs that capture")
        return on_webgpu(made, enableGraphCapture="1")
    if not CUDA_DEVICES:
        raise unittest.SkipTest("there is no CUDA device, nor the software CUDA of make test-cuda")
    return open_capturing(made)


def on_webgpu(made: ModelProto, **options: str) -> None:
    """Create a session with the WebGPU plugin EP, in a process that does not unregister the EP."""
    if not importlib.util.find_spec("onnxruntime_ep_webgpu"):
        raise unittest.SkipTest("onnxruntime-ep-webgpu is not installed")
    printed = run_in_a_new_process(f"""if True:
        import os, onnxruntime, onnxruntime_ep_webgpu
        onnxruntime.register_execution_provider_library({WEBGPU!r}, onnxruntime_ep_webgpu.get_library_path())
        devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == {WEBGPU!r}]
        options = onnxruntime.SessionOptions()
        try:
            if devices:
                options.add_provider_for_devices(devices[:1], {options})
                onnxruntime.InferenceSession({made.SerializeToString()}, options, enable_fallback=0)
            print("no device" if not devices else "no error", flush=True)
        except Exception as error:
            print(error, flush=True)
        os._exit(0)
    """)
    if "no device" in printed:
        raise unittest.SkipTest("this machine has no GPU, nor the software GPU of make test-webgpu-plugin")
    if "no error" not in printed:
        raise RuntimeError(printed)


def on_openvino(made: ModelProto) -> InferenceSession:
    """Create a session with an EP of OpenVINO."""
    if OPENVINO in onnxruntime.get_available_providers():
        return InferenceSession(made.SerializeToString(), providers=[OPENVINO], enable_fallback=0)
    if not register_openvino_plugin():
        raise unittest.SkipTest("neither onnxruntime-openvino nor onnxruntime-ep-openvino is installed")
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == OPENVINO]
    options = onnxruntime.SessionOptions()
    options.add_provider_for_devices(devices[:1], {})
    return InferenceSession(made.SerializeToString(), options)


def old_ort() -> None:
    on_webgpu(two_nodes())
    raise unittest.SkipTest("this ORT is not too old for the plugin EP")


def linked_data() -> None:
    """Load a model whose data file is a symbolic link, as in the cache of a model hub."""
    made = parsed("(float[300] X) => (float[300] Y) { Y = Add (X, W) }", W=np.ones(300, np.float32))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        onnx.save(made, path, save_as_external_data=True, location="model.data", size_threshold=0)
        cache = Path(folder, "cache")
        cache.mkdir()
        path.with_suffix(".data").rename(cache / "0123abcd")
        path.with_suffix(".data").symlink_to(cache / "0123abcd")
        path.rename(cache / "4567cdef")
        path.symlink_to(cache / "4567cdef")
        InferenceSession(path, providers=[CPU])
    raise unittest.SkipTest("this ORT accepts symbolic links")


# Models that ORT rejects, and the facts that the explanation contains. The name is a part of the pattern.
EXPLAINED = {
    "ort_version_supported": [(old_ort, WEBGPU)],
    "External data path": [(linked_data, "'model.data'")],
    "OpenVINO": [(lambda: on_openvino(WITHOUT_RANK), "CPUExecutionProvider")],
}
# test_messages.py causes the errors of the first two. The simulator of the QNN EP does not
# cause the last: the EP leaves such nodes to the CPU EP.
ELSEWHERE = ("IR version", "under development", "[Dd]ynamic shape")


# The keyword and the key of a setting that ORT rejects, and arguments of prepare.
REJECTED = [
    *(
        ("session_config", key, {"model": observable.in_ort_format(observable.RELU), "session_config": {key: value}})
        for key, value in (("session.gqa_value_layout", "BNHS"), ("session.strict_workspace_verification", 1))
        if SESSION_CONFIG[key].since <= RELEASE
    ),
    *(
        ("use_per_session_threads", "", {"model": two_nodes(), "use_per_session_threads": False} | keywords)
        for keywords in ({"provider_options": {CPU: {}}}, {"provider_options": {}}, {})
    ),
]


def terminated() -> None:
    options = RunOptions()
    options.terminate = True
    create(two_nodes()).run(None, {"X": X}, options)


# Runs that fail outside of the EP.
OUTSIDE_EP = {
    "no value": lambda: create(three_inputs()).run(None, {"A": X}),
    "wrong size": lambda: create(two_nodes()).run(None, {"X": X[:, :2]}),
    "wrong rank": lambda: create(two_nodes()).run(None, {"X": X[0]}),
    "wrong type": lambda: create(two_nodes()).run(None, {"X": X.astype(np.float64)}),
    "wrong name": lambda: create(two_nodes()).run(None, {"X": X, "no": X}),
    "terminated": terminated,
}


class MessagesTest(unittest.TestCase):
    def error_of(self, provoke: Callable[[], object]) -> Exception:
        """Return the error that ORT raises, without lines in the log."""
        onnxruntime.set_default_logger_severity(4)
        self.addCleanup(onnxruntime.set_default_logger_severity, 2)
        try:
            provoke()
        except unittest.SkipTest:
            raise
        except Exception as error:  # ORT raises classes without a common base
            return error
        raise AssertionError("ORT raises no error")

    def test_explanations(self):
        for name, cases in EXPLAINED.items():
            for provoke, fact in cases:
                with self.subTest(name):
                    error = self.error_of(provoke)
                    explained = failures._explanation(str(error))
                    self.assertTrue(explained, error)
                    self.assertIn(fact, explained)

    def test_models_that_ort_does_not_capture(self):
        for made, fact in ((BRANCHING, "control flow"), (ON_THE_CPU_ONLY, "")):
            error = self.error_of(lambda made=made: captured(made))
            self.assertRegex(str(error), f"{sessions.NOT_CAPTURED}.*{fact}")

    def test_each_explanation_is_tested(self):
        names = (*EXPLAINED, *ELSEWHERE)
        found = [[name for name in names if name in pattern] for pattern in failures.EXPLANATIONS]
        self.assertEqual(sorted(found), sorted([name] for name in names))

    def test_rejected_settings(self):
        for keyword, key, arguments in REJECTED:
            printed = io.StringIO()  # ORT prints if it falls back
            with self.subTest(keyword, key=key), contextlib.redirect_stdout(printed):
                error = self.error_of(functools.partial(onnxruntime.backend.prepare, **arguments))
                self.assertIsInstance(error, onnxruntime.backend.NotPermittedError)
                self.assertEqual((error.keyword, error.key), (keyword, key))
            self.assertEqual(printed.getvalue(), "")

    def test_runs_that_fail_outside_of_the_ep(self):
        for name, provoke in OUTSIDE_EP.items():
            with self.subTest(name):
                error = self.error_of(provoke)
                session, renewed = SimpleNamespace(_providers=[]), []
                order = RunOrder(lambda session=session: session, renewed.append, "", copies=False)
                compute = mock.Mock(side_effect=[error, [], []])
                with contextlib.suppress(type(error)):
                    order.run(None, compute, {}, None)
                self.assertEqual(order.run(None, compute, {}, None), [])
                self.assertEqual(renewed, [], error)


if __name__ == "__main__":
    unittest.main()
