# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""An allocation by another thread fails while a CUDA graph is captured, and breaks the capture.

onnxruntime-gpu 1.31.1. ONNX Runtime captures in CUDA's global mode. In this mode, an allocation or a synchronization in
any thread is an error and invalidates the capture. Run with SOFTCUDA_CAPTURE_US=2000, which makes each capture take 2
ms: 154 of 199 captures and 588 calls of the other thread fail.

In this backend: captures, and all other CUDA work of prepared models, use one lock.
"""

import threading

import numpy as np
import onnx.parser

import onnxruntime

text = '<ir_version: 10, opset_import: ["": 21]> g (float[N] x) => (float[N] y) { a = Neg(x) y = Abs(a) }'
model = onnx.parser.parse_model(text).SerializeToString()
failed = {"captures": 0, "the other thread": 0}
done = False


def use_cuda() -> None:
    while not done:
        try:
            onnxruntime.OrtValue.ortvalue_from_numpy(np.ones(1 << 20, np.float32), "cuda").numpy()
        except Exception:
            failed["the other thread"] += 1


threading.Thread(target=use_cuda).start()
for size in range(1, 200):
    array = np.ones(size, np.float32)
    try:
        session = onnxruntime.InferenceSession(model, providers=[("CUDAExecutionProvider", {"enable_cuda_graph": "1"})])
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", onnxruntime.OrtValue.ortvalue_from_numpy(array, "cuda"))
        binding.bind_ortvalue_output("y", onnxruntime.OrtValue.ortvalue_from_numpy(array, "cuda"))
        session.run_with_iobinding(binding)
    except Exception:
        failed["captures"] += 1
done = True
print(failed)
raise SystemExit(any(failed.values()))
