# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Memory that preparing takes at its peak, and that many runs leave behind."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from onnx.checker import check_model

import onnxruntime.backend
from benchmarks import models
from benchmarks.comparison import BACKEND, BY_HAND, OF_STOCK, VALUE, Comparison
from onnxruntime import InferenceSession

MEGABYTES = 500
RUNS = 100_000


def _prepare(model) -> object:
    return onnxruntime.backend.prepare(model, "CPU")


def _by_hand(model) -> object:
    serialized = model.SerializeToString()
    check_model(serialized)
    return InferenceSession(serialized, providers=["CPUExecutionProvider"])


def print_peak(side: str) -> None:
    """Print the most bytes that were resident while a side worked, the model that it was given included."""
    model = models.large(MEGABYTES)
    work = {BACKEND: _prepare, BY_HAND: _by_hand}[side]
    work(models.two_nodes())  # what is loaded at first use
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    kept = work(model)  # noqa: F841
    (peak,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    print(int(peak.split()[1]) * 1024)


def _peak(side: str) -> float:
    command = [sys.executable, "-c", f"from benchmarks import memory; memory.print_peak({side!r})"]
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
        f"peak of preparing a ModelProto of {MEGABYTES} MB",
        lambda: {side: partial(_peak, side) for side in (BACKEND, BY_HAND)},
        1.0,
        OF_STOCK,
        unit="B",
        rounds=5,
    ),
    Comparison(f"growth over {RUNS} runs", _runs, 4 * 2**20, VALUE, unit="B", rounds=1),
    Comparison(
        f"growth over {RUNS} runs, run config for each",
        partial(_runs, run_config={"gpu_graph_id": "7"}),
        4 * 2**20,
        VALUE,
        stock=False,
        unit="B",
        rounds=1,
    ),
)
