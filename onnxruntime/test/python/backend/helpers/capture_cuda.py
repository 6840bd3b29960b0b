# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The CUDA EP, for the tests of graph capture."""

from __future__ import annotations

import unittest

from onnx import ModelProto

import onnxruntime
import onnxruntime.backend
from helpers.capture import Checks
from helpers.execution_providers import gpus
from helpers.models import same_array
from onnxruntime import InferenceSession, SessionOptions
from onnxruntime.backend import locks

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
ORDINARY = {"gpu_graph_id": -1}


DEVICES = gpus() if CUDA in onnxruntime.get_available_providers() else 0
needs_cuda = unittest.skipUnless(DEVICES, "there is no CUDA device, nor the software CUDA of make test-cuda")


def open_session(made: ModelProto, options: dict | None = None, config: dict | None = None) -> InferenceSession:
    """Create a session as a caller does, without the backend."""
    asked = SessionOptions()
    for key, value in (config or {}).items():
        asked.add_session_config_entry(key, value)
    options = {"enable_cuda_graph": "1"} if options is None else options
    with locks.CUDA.alone():
        return InferenceSession(made.SerializeToString(), asked, providers=[(CUDA, options)])


class OnCuda(Checks, unittest.TestCase):
    """Methods that the classes for CUDA share."""

    def prepare(self, made: ModelProto, device_id: int = 0, **keywords):
        options = {"enable_cuda_graph": True, "device_id": device_id}
        return onnxruntime.backend.prepare(made, provider_options={CUDA: options}, **keywords)

    def ordinary(self, made: ModelProto):
        return onnxruntime.backend.prepare(made, provider_options={CUDA: {}})

    def same(self, got, want) -> None:
        for have, wanted in zip(got, want, strict=True):
            same_array(have, wanted)
