# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Compares configurations of a model, or two models: for notebooks, and for the command ``run``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence

from onnxruntime.backend.comparison import inputs, latency, outputs
from onnxruntime.backend.comparison.results import described
from onnxruntime.backend.comparison.side import Side
from onnxruntime.backend.environment import configuration


def compare(
    model: str,
    configurations: Iterable[Mapping] = ({},),
    *,
    feeds: list | None = None,
    reference: str | None = None,
    repeat: int | None = None,
    tolerance: tuple[float, float] = (1e-3, 1e-5),
) -> list[dict]:
    """Run a model with each configuration, and compare outputs and latencies with those of the first.

    The configurations are trusted: ``permit`` does not narrow them, and they can contain libraries. The allowlist
    applies. ``pandas.json_normalize`` converts the result to a table, which has columns such as ``latency_ms.p50``.

    :param model: the path of the model.
    :param configurations: each as in ``ORT_ONNX_BACKEND_CONFIG``, which also applies.
    :param feeds: the inputs, as for a run; ``None`` for random values.
    :param reference: the path of another model, which is the first of the result, and has the first configuration.
    :param repeat: the number of measured runs; ``None`` for two seconds.
    :param tolerance: the relative and the absolute tolerance of outputs, as for :func:`numpy.testing.assert_allclose`.
    :return: for each configuration, the object that the command ``run --json`` prints. It can contain an error.
    :raises ValueError: if a configuration has a wrong form, or an input cannot be random.
    """
    sides = [Side(model, text, configuration.parse(text)) for text in map(json.dumps, configurations)]
    if reference is not None:
        sides.insert(0, Side(reference, f"{reference} {sides[0].label}", sides[0].config))
    try_all(sides, lambda side: feeds or inputs.feeds(side, {}, {}), repeat, tolerance)
    return [described(side, sides[0]) for side in sides]


def try_all(
    sides: Sequence[Side],
    feeds_of: Callable[[Side], list | None],
    repeat: int | None,
    tolerance: tuple[float, float] | None,
    progress: Callable[[str], object] = str,
) -> None:
    """Prepare all sides, run them, and compare their outputs with those of the first.

    :param feeds_of: returns the inputs for a side, or ``None`` to run none.
    :param tolerance: relative and absolute, or ``None`` to compare no outputs.
    """
    for number, side in enumerate(sides, 1):
        progress(f"preparing configuration {number} of {len(sides)}")
        side.prepare()
    working = [side for side in sides if side.error is None]
    feeds = feeds_of(working[0]) if working else None
    if feeds is None:
        return
    latency.measure(working, feeds, repeat, progress)
    first, *others = sides
    for side in others:
        if tolerance and not (first.error or side.error):
            for output, expected in zip(side.outputs, first.outputs, strict=False):
                side.differences.append(outputs.difference(output, expected, *tolerance))
