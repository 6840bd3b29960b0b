# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Run OpenVINO with two threads, then four, and count the threads that work (Linux, onnxruntime-openvino, four cores).

``python examples/openvino_threads.py magika/models/standard_v3_3/model.onnx`` runs Google's Magika model. The built-in
OpenVINO EP cannot report its options, so the example measures which threads of the process use the CPU.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

import onnxruntime.backend
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep

EP = "OpenVINOExecutionProvider"


def ticks() -> dict[str, int]:
    """Return the CPU time of each thread of this process, in clock ticks."""
    found = {}
    for task in Path("/proc/self/task").iterdir():
        # After the name, which can contain spaces, fields 11 and 12 are the time of the user and of the system.
        fields = (task / "stat").read_text().rpartition(")")[2].split()
        found[task.name] = int(fields[11]) + int(fields[12])
    return found


def working_threads(rep: OnnxRuntimeBackendRep, inputs: list[np.ndarray], seconds: float = 2.0) -> int:
    """Return the number of threads that did more than a tenth of the work."""
    rep.run(inputs)
    before = ticks()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        rep.run(inputs)
    used = []
    for thread, after in ticks().items():
        used.append(after - before.get(thread, 0))
    return sum(10 * ticks_used > sum(used) for ticks_used in used)


def main(model: str) -> None:
    files = np.random.default_rng(0).integers(0, 256, (32, 2048)).astype(np.int32)
    for threads in (2, 4):
        rep = onnxruntime.backend.prepare(model, provider_options={EP: {"num_of_threads": threads}})
        print(f"num_of_threads={threads}: {working_threads(rep, [files])} working")
    print("nodes      ", rep.node_assignment)
    print("unconfirmed", rep.unconfirmed)


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_file():
        sys.exit("usage: python examples/openvino_threads.py MODEL (the ONNX file of Magika)")
    main(sys.argv[1])
