# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests the built-in CUDA EP (onnxruntime-gpu): on a GPU or the software CUDA, and the errors without a device."""

import os
import subprocess
import sys
import unittest

import numpy as np
from helpers.children import run_code
from helpers.execution_providers import CPU, NO_CPU, convolutions, gpus, image, on_cpu

import onnxruntime.backend
from onnxruntime.backend.allowlist.tables import PROVIDERS

EP = "CUDAExecutionProvider"
TENSORRT = "TensorrtExecutionProvider"


GPUS = gpus()
needs_build = unittest.skipUnless(EP in onnxruntime.get_available_providers(), f"this ORT was built without {EP}")


def prepare(options: dict | None, device: str | None = None, model=None, **keywords):
    return onnxruntime.backend.prepare(model or convolutions(), device, provider_options=options, **keywords)


@needs_build
class CudaBuildTest(unittest.TestCase):
    def test_no_banner_of_an_ep_that_nobody_named(self):
        # If TensorRT's libraries are missing, ORT prints "EP Error". The stdout of a child contains native output, too.
        if TENSORRT not in onnxruntime.get_available_providers():
            self.skipTest("this ORT has no TensorRT")
        program = (
            "import onnxruntime.backend\nfrom helpers import execution_providers as models\n"
            "for device in (None, 'CUDA', 'CPU'):\n"
            "    try: print(onnxruntime.backend.prepare(models.convolutions(), device).providers)\n"
            "    except RuntimeError as error: print(type(error).__name__)\n"
        )
        done = run_code(program)
        self.assertEqual((done.returncode, len(done.stdout.splitlines())), (0, 3), done.stdout)
        self.assertNotIn("EP Error", done.stdout)


@needs_build
@unittest.skipIf(GPUS, "requires a machine without a GPU")
class WithoutGpuTest(unittest.TestCase):
    def test_every_request_for_cuda_fails(self):
        for options, device in (
            ({EP: {}}, None),
            ({CPU: {}, EP: {"device_id": 0, "use_tf32": False}}, None),
            ({TENSORRT: {}}, None),
            ({TENSORRT: {"trt_fp16_enable": True}, EP: {}}, None),
            ({EP: {}}, "CUDA:0"),
            (None, "CUDA:0"),
            (None, "CUDA"),
            (None, "GPU"),
        ):
            with self.subTest(options=options, device=device):
                with self.assertRaisesRegex(RuntimeError, "CUDA|Tensorrt|GPU"):
                    prepare(options, device)
                with self.assertRaisesRegex(RuntimeError, "CUDA|Tensorrt|GPU"):
                    onnxruntime.backend.run(convolutions(), [image()], device, provider_options=options)

    def test_the_error_says_what_may_be_missing(self):
        missing = r"(NVIDIA.s driver is missing|The system says: .*cu|CUDA or cuDNN.*may be missing)"
        with self.assertRaisesRegex(RuntimeError, f"{EP}.*could not be attached.*{missing}"):
            prepare({EP: {}})

    def test_who_asks_for_nothing_gets_the_cpu(self):
        made, array = convolutions(), image()
        for options in (None, {}, {CPU: {}}):
            rep = prepare(options, model=made)
            self.assertEqual(rep.providers, (CPU,))
            np.testing.assert_array_equal(rep.run([array])[0], on_cpu(made, array))


@needs_build
@unittest.skipUnless(GPUS, "requires a GPU, or with_software_cuda.sh")
class WithGpuTest(unittest.TestCase):
    def test_it_takes_every_node_and_computes_right(self):
        made, array = convolutions(), image()
        rep = prepare({EP: {"use_tf32": False}}, model=made, session_config=NO_CPU)
        self.assertEqual(rep.providers, (EP, CPU))
        self.assertGreaterEqual(rep.node_assignment[EP], 5)  # some are fused
        self.assertEqual(rep.node_assignment[CPU], 0)
        self.assertEqual({info.name for info in rep._session.get_input_memory_infos()}, {"Cuda"})
        np.testing.assert_allclose(rep.run([array])[0], on_cpu(made, array), atol=1e-3)

    def test_every_option_is_set_and_read_back(self):
        options = {
            "device_id": 0,
            "gpu_mem_limit": 2**31,
            "arena_extend_strategy": "kSameAsRequested",
            "cudnn_conv_algo_search": "HEURISTIC",
            "cudnn_conv_use_max_workspace": False,
            "cudnn_conv1d_pad_to_nc1d": True,
            "do_copy_in_default_stream": True,
            "enable_cudnn": True,
            "external_data_loader_reading_threads": 2,
            "fuse_conv_bias": True,
            "prefer_nhwc": True,
            "sdpa_kernel": 1,
            "tunable_op_enable": True,
            "tunable_op_tuning_enable": True,
            "tunable_op_max_tuning_duration_ms": 5,
            "use_ep_level_unified_stream": True,
            "use_tf32": False,
        }
        # Graph capture has its own tests.
        permitted = PROVIDERS[EP]["built-in"].keys() - {"enable_cuda_graph"}
        ignored = "enable_skip_layer_norm_strict_mode"
        release = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
        if release < (1, 28):
            options[ignored] = True
        else:
            with self.assertRaisesRegex(RuntimeError, f"{ignored}.*not permitted.*ignores it"):
                prepare({EP: {ignored: True}})
            permitted -= {ignored}
        self.assertEqual(options.keys(), permitted)
        rep = prepare({EP: options})
        # prepare checks that ORT reports the values that were sent, in ORT's spelling.
        unconfirmed = rep.unconfirmed.get(EP, ())
        self.assertLessEqual({*unconfirmed}, {ignored})
        self.assertEqual(rep.provider_options[EP].keys(), options.keys() - {*unconfirmed})
        rep.run([image()])

    def test_a_memory_limit_is_kept(self):
        array = image(16, 512)
        rep = prepare({EP: {"gpu_mem_limit": 2**20}}, model=convolutions(16, 512))
        with self.assertRaisesRegex(Exception, "memory"):
            rep.run([array])

    def test_a_device_that_does_not_exist(self):
        for keywords in ({"provider_options": {EP: {"device_id": 63}}}, {"device": "CUDA:63"}):
            with self.subTest(keywords), self.assertRaises(onnxruntime.backend.NotPermittedError) as refused:
                onnxruntime.backend.prepare(convolutions(), **keywords)
            self.assertEqual(refused.exception.key, "device_id")
            self.assertIn("Invalid device ID: 63", refused.exception.reason)
            self.assertNotIn("Install", str(refused.exception))

    def test_the_device_of_a_call_is_the_device_of_the_ep(self):
        for options in (None, {EP: {}}, {EP: {"device_id": 0}}):
            rep = prepare(options, "CUDA:0")
            self.assertEqual(rep.provider_options[EP]["device_id"], "0")
            self.assertEqual(rep.providers, (EP, CPU))
        with self.assertRaises(RuntimeError):
            prepare(None, f"CUDA:{GPUS}")

    @unittest.skipUnless(
        os.environ.get("ORT_TEST_SOFTWARE_CUDA"), "requires the software CUDA, which a child can run without"
    )
    def test_the_same_without_a_gpu(self):
        environment = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}
        command = [sys.executable, os.path.abspath(__file__), "WithoutGpuTest"]
        done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("skipped", done.stderr)


if __name__ == "__main__":
    unittest.main()
