# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The WebGPU EP for real: the one that ORT was built with (onnxruntime-webgpu), or the plugin (onnxruntime-ep-webgpu).

A GPU does it, and so does ``with_software_gpu.sh`` on a machine that has none.
"""

import os
import unittest
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from helpers.execution_providers import (
    EpTests,
    convolutions,
    image,
    on_cpu,
    register_webgpu_plugin,
    run_in_a_new_process,
)

import onnxruntime.backend

EP = "WebGpuExecutionProvider"
BUNDLED = EP in onnxruntime.get_available_providers()
# A machine without a GPU has an empty class of devices and no driver for Vulkan.
WITHOUT_DEVICES = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=4k tmpfs /sys/class; exec "$@"', "sh")
NO_DRIVER = {"VK_ICD_FILENAMES": "/nonexistent", "VK_DRIVER_FILES": "/nonexistent"}


def setUpModule() -> None:
    missing = "" if register_webgpu_plugin() else f"needs onnxruntime-ep-webgpu, or an ORT built with {EP}"
    if not missing:
        try:
            WebGpuTest().prepare({})
        except RuntimeError as error:
            missing = f"this machine has no GPU: {error}"
    # Under with_software_gpu.sh nothing may be missing: that is how the tests are meant to be run.
    if missing and os.environ.get("ORT_TEST_SOFTWARE_GPU"):
        raise RuntimeError(missing)
    if missing:
        raise unittest.SkipTest(missing)


def in_gpu_memory(rep) -> set[str]:
    session = rep._session
    return {info.name for info in (*session.get_input_memory_infos(), *session.get_output_memory_infos())}


class WebGpuTest(EpTests, unittest.TestCase):
    EP = EP
    OPTIONS = UNCONFIRMED = {"preferredLayout": "NCHW"}  # noqa: RUF012
    TOLERANCE = 1e-3

    def test_preferred_layout_is_the_layout_it_computes_in(self):
        made, array = convolutions(), image()
        nodes = {}
        for layout in ("NCHW", "NHWC"):
            rep = self.prepare({"preferredLayout": layout}, made)
            self.assertEqual(in_gpu_memory(rep), {"WebGPU_Buf"})
            np.testing.assert_allclose(rep.run([array])[0], on_cpu(made, array), atol=1e-3)
            nodes[layout] = rep.node_assignment[EP]
        # In the layout of the model its nodes stay as they are. In the other they are replaced: by new ones which the
        # bundled EP's record lacks, and with a transposition at either end.
        self.assertEqual(nodes["NCHW"], 11)
        self.assertEqual(nodes["NHWC"], 2 if BUNDLED else 13)

    def test_without_a_device_it_is_unavailable(self):
        printed = run_in_a_new_process(
            "import test_webgpu as tests\n"
            "tests.register_webgpu_plugin()\n"
            "try: tests.WebGpuTest().prepare({})\n"
            "except RuntimeError as error: print(error)\n",
            *WITHOUT_DEVICES,
            **NO_DRIVER,
        )
        self.assertRegex(printed, f"{EP}.*could not be attached" if BUNDLED else f"{EP}.*(no device|not available)")

    def test_sessions_take_turns(self):
        """Without their lock, two sessions in two threads fail, or crash the process, within a hundred runs."""
        made, array = convolutions(size=8), image(size=8)
        want = on_cpu(made, array)
        reps = [self.prepare({}, made) for _ in range(2)]

        def runs(rep) -> None:
            for _ in range(150):
                np.testing.assert_allclose(rep.run([array])[0], want, atol=1e-3)

        def openings() -> None:
            for i in range(40):
                options = {EP: {}} if i % 2 or not BUNDLED else None  # the bundled one also comes without a name
                runs_once = onnxruntime.backend.prepare(made, provider_options=options)
                np.testing.assert_allclose(runs_once.run([array])[0], want, atol=1e-3)

        with ThreadPoolExecutor(3) as pool:
            for done in [pool.submit(openings), *(pool.submit(runs, rep) for rep in reps)]:
                done.result()


if __name__ == "__main__":
    unittest.main()
