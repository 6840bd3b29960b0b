# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Memory that preparing takes at its peak, and that many runs leave behind."""

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import onnxruntime.backend
from benchmarks import models
from benchmarks.comparison import BACKEND, OF_STOCK, VALUE, Comparison

MEGABYTES = 500
RUNS = 100_000


def print_peak() -> None:
    """Print the maximum of the bytes that preparing the large model adds to the resident memory."""
    model = models.large(MEGABYTES)
    onnxruntime.backend.prepare(models.two_nodes(), "CPU")  # loads libraries and modules
    before = _resident()
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    onnxruntime.backend.prepare(model, "CPU")
    (peak,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    print(int(peak.split()[1]) * 1024 - before)


def _peak() -> float:
    command = [sys.executable, "-c", "from benchmarks import memory; memory.print_peak()"]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _growth(run: Callable[[], object]) -> float:
    for _ in range(RUNS // 10):
        run()
    before = _resident()
    for _ in range(RUNS - RUNS // 10):
        run()
    return _resident() - before


def _runs(**kwargs) -> Mapping[str, Callable[[], float]]:
    rep = onnxruntime.backend.prepare(models.two_nodes(), "CPU")
    return {BACKEND: partial(_growth, partial(rep.run, [models.small_array()], **kwargs))}


COMPARISONS = (
    Comparison(
        f"peak of preparing a ModelProto of {MEGABYTES} MB", lambda: {BACKEND: _peak}, 1.0, OF_STOCK, unit="B", rounds=3
    ),
    Comparison(f"growth over {RUNS} runs", _runs, 4 * 2**20, VALUE, unit="B", rounds=1),
    Comparison(
        f"growth over {RUNS} runs, run config for each",
        partial(_runs, run_config={"gpu_graph_id": "-1"}),
        4 * 2**20,
        VALUE,
        stock=False,
        unit="B",
        rounds=1,
    ),
)
