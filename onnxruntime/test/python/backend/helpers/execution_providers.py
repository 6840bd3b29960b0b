# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Shared by the tests of execution providers: a model that any EP can run alone, and checks of the EP that ran."""

import ctypes
import importlib.util
import json
import os
import subprocess
import sys
import unittest
from pathlib import Path
from typing import ClassVar

import numpy as np
from onnx import ModelProto

import onnxruntime
import onnxruntime.backend
from helpers.models import parsed
from onnxruntime.backend.allowlist import threads

CPU = "CPUExecutionProvider"
OPENVINO = "OpenVINOExecutionProvider"
# The build decides: another module of tests can have registered the plugin EP of the same name.
HAS_BUILT_IN_OPENVINO = "OPENVINO" in onnxruntime.get_device()
WEBGPU = "WebGpuExecutionProvider"
INTEL = 0x8086
# OpenVINO's plugin EP reads these options only inside load_config.
_PROPERTIES = {"num_of_threads": "INFERENCE_NUM_THREADS", "precision": "INFERENCE_PRECISION_HINT"}
NO_CPU = {"session.disable_cpu_ep_fallback": "1"}


def gpus() -> int:
    """How many GPUs the driver sees, without asking ORT."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int()
    return count.value if driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 else 0


def set_cpu_vendor(vendor: int) -> None:
    """Correct the vendor in ORT's record of the CPU, an OrtHardwareDevice, whose second field it is."""
    device = next(device for device in onnxruntime.get_ep_devices() if device.ep_name == CPU).device
    record = ctypes.c_void_p.from_address(id(device) + object.__basicsize__).value  # what pybind11 wraps
    field = ctypes.c_uint32.from_address(record + ctypes.sizeof(ctypes.c_int))
    if field.value != device.vendor_id:
        raise AssertionError("ORT keeps its record of devices in another form than this test knows")
    field.value = vendor


def register_openvino_plugin() -> bool:
    """Register OpenVINO's plugin EP once, and return whether it is installed.

    The EP supports Intel's hardware only. On another CPU, correct the vendor in ORT's record of it.
    """
    try:
        import onnxruntime_ep_openvino  # noqa: PLC0415
    except ImportError:
        return False
    if not any(device.ep_name == OPENVINO for device in onnxruntime.get_ep_devices()):
        set_cpu_vendor(INTEL)
        onnxruntime.register_execution_provider_library(OPENVINO, onnxruntime_ep_openvino.get_library_path())
    return True


def needs_openvino(case: type) -> type:
    """Skip the tests of a class if OpenVINO is neither built-in nor a plugin."""
    is_usable = HAS_BUILT_IN_OPENVINO or register_openvino_plugin()
    return unittest.skipUnless(is_usable, f"needs {OPENVINO}, built-in or plugin")(case)


def add_openvino(options: onnxruntime.SessionOptions, settings: dict[str, str]) -> None:
    """Add the OpenVINO EP, built-in or plugin, to the options of a session without the backend."""
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == OPENVINO]
    if devices:  # of the plugin
        properties = {_PROPERTIES[option]: text.replace("FP32", "f32") for option, text in settings.items()}
        load_config = json.dumps({"CPU": properties})
        options.add_provider_for_devices(devices[:1], {"load_config": load_config})
    else:
        options.add_provider(OPENVINO, settings)


def register_webgpu_plugin() -> bool:
    """Register the plugin EP for WebGPU, unless the EP is there, and return whether it is."""
    if WEBGPU in onnxruntime.get_available_providers():
        return True
    try:
        import onnxruntime_ep_webgpu  # noqa: PLC0415
    except ImportError:
        return False
    onnxruntime.register_execution_provider_library(WEBGPU, onnxruntime_ep_webgpu.get_library_path())
    return True


def set_up_webgpu_plugin() -> None:
    """Register the plugin EP for WebGPU until the tests of a module end, or skip these tests."""
    missing = "onnxruntime-ep-webgpu is not installed"
    if importlib.util.find_spec("onnxruntime_ep_webgpu") and register_webgpu_plugin():
        if any(device.ep_name == WEBGPU for device in onnxruntime.get_ep_devices()):
            unittest.addModuleCleanup(onnxruntime.unregister_execution_provider_library, WEBGPU)
            return
        onnxruntime.unregister_execution_provider_library(WEBGPU)
        missing = "this machine has no GPU"
    # Under with_software_gpu.sh, nothing may be missing.
    if os.environ.get("ORT_TEST_SOFTWARE_GPU"):
        raise RuntimeError(missing)
    raise unittest.SkipTest(missing)


def convolutions(channels: int = 3, size: int = 16) -> ModelProto:
    """Four convolutions of 16 channels with their activations, then ten numbers: 11 nodes."""
    random = np.random.default_rng(0)
    weights = {f"W{i}": random.standard_normal((16, 16 if i else channels, 3, 3), np.float32) / 5 for i in range(4)}
    layers = " ".join(f"C{i} = Conv <pads = [1, 1, 1, 1]> (X{i}, W{i}) X{i + 1} = Relu (C{i})" for i in range(4))
    return parsed(
        f"""(float[1,{channels},{size},{size}] X) => (float[1,10] Y) {{
            {layers} G = GlobalAveragePool (X4) F = Flatten (G) Y = Gemm (F, W)
        }}""".replace("X0", "X"),
        **weights,
        W=random.standard_normal((16, 10), np.float32),
    )


def doubled_text() -> ModelProto:
    """``Y = X + X`` on text, which the CPU EP alone can do."""
    return parsed("(string[1] X) => (string[1] Y) { Y = StringConcat (X, X) }")


def image(channels: int = 3, size: int = 16) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((1, channels, size, size)).astype(np.float32)


def on_cpu(made: ModelProto, array: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=[CPU])
    return session.run(None, {"X": array})[0]


class EpTests:
    """Tests of an EP that computes a whole model. A class inherits them together with ``unittest.TestCase``."""

    EP: str
    OPTIONS: ClassVar[dict]
    UNCONFIRMED: ClassVar[dict]  # the options as ORT receives them
    TOLERANCE = 1e-4

    def prepare(self, options: dict, made: ModelProto | None = None, **keywords):
        return onnxruntime.backend.prepare(made or convolutions(), provider_options={self.EP: options}, **keywords)

    def test_it_takes_every_node_and_computes_right(self):
        made, array = convolutions(), image()
        rep = self.prepare(self.OPTIONS, made, session_config=NO_CPU)
        self.assertEqual(rep.providers, (self.EP, CPU))
        self.assertGreaterEqual(rep.node_assignment[self.EP], 11)
        self.assertEqual(rep.node_assignment[CPU], 0)
        single = onnxruntime.backend.run(made, [array], provider_options={self.EP: self.OPTIONS})
        for (got,) in (rep.run([array]), single):
            np.testing.assert_allclose(got, on_cpu(made, array), atol=self.TOLERANCE)
        self.assertEqual(dict(rep.provider_options[self.EP]), {})
        self.assertEqual(rep.unconfirmed[self.EP], self.UNCONFIRMED)

    def test_leaving_nodes_to_the_cpu_can_be_an_error(self):
        with self.assertWarnsRegex(RuntimeWarning, f"No node .*{self.EP}.*disable_cpu_ep_fallback"):
            rep = self.prepare(self.OPTIONS, doubled_text())
        self.assertEqual(dict(rep.node_assignment), {self.EP: 0, CPU: 1})
        with self.assertRaisesRegex(Exception, "fallback to CPU EP has been explicitly disabled"):
            self.prepare(self.OPTIONS, doubled_text(), session_config=NO_CPU)


_COUNT_THREADS = """
import os
import sys
import onnxruntime
import onnxruntime.backend
from helpers.execution_providers import OPENVINO, add_openvino, convolutions, image, register_openvino_plugin
register_openvino_plugin()
made = convolutions(16, 56).SerializeToString()
if COUNT == 1:
    options = onnxruntime.SessionOptions()
    add_openvino(options, {"num_of_threads": "1"})
    made = onnxruntime.InferenceSession(made, options)
    rep = onnxruntime.backend.prepare(made)
else:
    rep = onnxruntime.backend.prepare(made, provider_options={OPENVINO: {"num_of_threads": COUNT}})
for _ in range(5):
    rep.run([image(16, 56)])
print(len(os.listdir("/proc/self/task")))
"""


class ThreadTests:
    """Tests of OpenVINO's ``num_of_threads``. The backend refuses one thread: this session is the caller's."""

    @unittest.skipUnless(sys.platform == "linux", "reads the threads of a process from Linux")
    @unittest.skipUnless(threads.usable_cores() > 1, "OpenVINO starts no second thread on one core")
    def test_num_of_threads_is_how_many_threads_work(self):
        one, two = (int(run_in_a_new_process(_COUNT_THREADS.replace("COUNT", count))) for count in "12")
        self.assertEqual(two - one, 1)


def run_in_a_new_process(code: str, *command: str, **environment: str) -> str:
    """Run code in a process where no EP was loaded or registered yet, and return its output."""
    done = subprocess.run(
        [*command, sys.executable, "-c", code],
        env={**os.environ, **environment},
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise AssertionError(f"the process ended with {done.returncode}: {done.stdout}")
    return done.stdout
