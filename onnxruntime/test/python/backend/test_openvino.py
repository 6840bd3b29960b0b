# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the built-in OpenVINO EP (onnxruntime-openvino)."""

import os
import signal
import unittest

import numpy as np
from helpers.execution_providers import EpTests, ThreadTests, convolutions, run_in_a_new_process
from helpers.models import parsed

import onnxruntime.backend
from onnxruntime.backend import NotPermittedError

EP = "OpenVINOExecutionProvider"


_ON_ONE_CORE = """
import os, warnings
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import numpy as np
import onnxruntime.backend
from helpers.models import parsed, two_nodes
from test_openvino import EP, check_failing_runs
warnings.simplefilter("ignore")
x = np.ones((2, 3), np.float32)
checks = "a = Abs(x) b = GatherElements(a, i) y = Abs(b)"
refused = two_nodes(("N", 3)), parsed(f"(float[2] x, int64[2] i) => (float[2] y) {{ {checks} }}")
for options in ({}, {"num_of_threads": 2}, {"device_type": "HETERO:CPU"}):
    rep = onnxruntime.backend.prepare(two_nodes(), provider_options={EP: options})
    assert rep.node_assignment[EP] and all((rep.run([x])[0] == 1).all() for _ in range(20))
    for made in refused:
        try:
            onnxruntime.backend.prepare(made, provider_options={EP: options})
        except onnxruntime.backend.NotPermittedError as refusal:
            assert "one CPU core" in str(refusal) and refusal.provider == EP, refusal
        else:
            raise AssertionError(options)
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    assert EP in onnxruntime.backend.prepare(two_nodes()).providers and not warned
    assert EP not in onnxruntime.backend.prepare(refused[0]).providers
assert any(f"{EP} is left out" in str(each.message) for each in warned), warned
for device in ("AUTO:CPU", "MULTI:CPU"):
    check_failing_runs({"device_type": device})
"""


def check_failing_runs(options: dict):
    """Check that a run that must fail fails. With one thread, OpenVINO returns the outputs of the previous run."""
    made = parsed("(float[N] a, float[M] b) => (float[K] y) { y = Add (a, b) }")
    four, three = np.full(4, 21, np.float32), np.zeros(3, np.float32)
    rep = onnxruntime.backend.prepare(made, provider_options={EP: options})
    for _ in range(20):
        np.testing.assert_array_equal(rep.run([four, four])[0], 42)
        try:
            got = rep.run([four, three])
        except Exception:  # ORT's own Fail
            continue
        raise AssertionError(got)


_SIGNAL_AFTER_A_RELEASE = """
import signal, threading
import onnxruntime.backend
from helpers.models import two_nodes
from test_openvino import EP
received = []
signal.signal(signal.SIGUSR1, lambda *_: received.append(1))
rep = onnxruntime.backend.prepare(two_nodes(), provider_options={EP: {}})
thread = threading.Thread(target=rep.close)
thread.start()
thread.join()
signal.raise_signal(signal.SIGUSR1)
assert received == [1]
"""


@unittest.skipUnless(EP in onnxruntime.get_available_providers(), f"this ORT was built without {EP}")
class BundledOpenVinoTest(EpTests, ThreadTests, unittest.TestCase):
    EP = EP
    OPTIONS = {"precision": "FP32", "num_of_threads": 2, "device_type": "CPU"}  # noqa: RUF012
    UNCONFIRMED = OPTIONS | {"num_of_threads": "2"}

    @unittest.skipUnless(hasattr(os, "sched_setaffinity"), "the system cannot bind a process to a CPU")
    def test_on_one_core(self):
        """A model whose runs can fail is refused, or the EP is left out. Through AUTO, the EP is right."""
        run_in_a_new_process(_ON_ONE_CORE)

    @unittest.skipUnless(hasattr(signal, "SIGUSR1"), "the system has no such signal")
    def test_a_signal_after_another_thread_released_the_session(self):
        run_in_a_new_process(_SIGNAL_AFTER_A_RELEASE)

    def test_an_absent_device_is_an_error(self):
        for device in ("GPU.9", "AUTO:GPU.9", "HETERO:GPU.9,CPU"):
            with self.subTest(device), self.assertRaises(NotPermittedError) as caught:
                onnxruntime.backend.prepare(convolutions(), provider_options={EP: {"device_type": device}})
            refusal = caught.exception
            self.assertEqual(refusal.key, "device_type")
            self.assertIn(repr(device), refusal.reason)


if __name__ == "__main__":
    unittest.main()
