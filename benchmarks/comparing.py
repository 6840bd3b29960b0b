# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Latencies that ``run`` and ``compare`` measure beside another configuration, and alone."""

from collections.abc import Callable, Mapping

from benchmarks import models
from benchmarks.comparison import BACKEND, BY_HAND, Comparison
from onnxruntime.backend.comparison import compare

RUNS = 200
WITHOUT_SPINNING = {"session_config": {"session.intra_op.allow_spinning": 0}}


def beside(neighbor: dict, measured: dict) -> Mapping[str, Callable[[], float]]:
    """Return sides that measure a configuration after a neighbor, whose threads may spin, and alone."""

    def latency(*configurations: dict) -> float:
        found = compare(models.MAGIKA_PATH, configurations, feeds=[models.magika_array()], repeat=RUNS)
        return found[-1]["latency_ms"]["p50"] / 1000

    return {BACKEND: lambda: latency(neighbor, measured), BY_HAND: lambda: latency(measured)}


COMPARISONS = (
    Comparison(
        "compare, Magika, beside another session", lambda: beside({}, WITHOUT_SPINNING), 1.05, stock=False, rounds=10
    ),
)
