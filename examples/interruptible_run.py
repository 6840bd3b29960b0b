# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Run a model so that Ctrl-C, or the interrupt button of a notebook, ends the run at the end of its current node.

Python calls signal handlers in the main thread only, and only after a call of ORT. Therefore, :func:`run` calls
``rep.run`` in another thread. To use it, copy the function. ``python examples/interruptible_run.py`` runs a model
without an end, until you press Ctrl-C.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

import numpy as np
import onnx.parser

import onnxruntime.backend
from onnxruntime.backend import Cancellation
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep

ENDLESS = """<ir_version: 8, opset_import: ["": 17]>
endless (float[200,200] X) => (float[200,200] Y) {
    N = Constant <value = int64 {9223372036854775807}> ()
    True = Constant <value = bool {1}> ()
    Y = Loop <body = step (int64 i, bool before, float[200,200] x) => (bool after, float[200,200] y) {
        after = Identity (before)
        z = MatMul (x, x)
        y = Softmax (z)
    }> (N, True, X)
}"""


def run(rep: OnnxRuntimeBackendRep, inputs: object, **settings: object) -> list:
    """Return the outputs, as ``rep.run`` does. An interrupt ends the run."""
    cancellation = Cancellation()
    # Not futures.wait: an interrupt in it can keep a lock that the end of the run needs.
    ended = Lock()
    ended.acquire()
    with ThreadPoolExecutor(1) as pool:
        try:
            running = pool.submit(rep.run, inputs, cancellation=cancellation, **settings)
            running.add_done_callback(lambda _: ended.release())
            while not ended.acquire(timeout=0.1):  # on Windows, Ctrl-C does not end a wait
                pass
            return running.result()
        except KeyboardInterrupt:
            cancellation.cancel()
            raise


def main() -> None:
    rep = onnxruntime.backend.prepare(onnx.parser.parse_model(ENDLESS), provider_options={})
    print("Press Ctrl-C", flush=True)
    begun = time.monotonic()
    try:
        run(rep, [np.ones((200, 200), np.float32)])
    except KeyboardInterrupt:
        print(f"ended after {time.monotonic() - begun:.1f} s")


if __name__ == "__main__":
    main()
