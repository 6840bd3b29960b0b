# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Compares configurations of a model, or two models: for notebooks. The command ``run`` does the same."""

import json
from collections.abc import Iterable, Mapping

from onnxruntime.backend.comparison import inputs, latency
from onnxruntime.backend.comparison.results import described
from onnxruntime.backend.comparison.side import Side
from onnxruntime.backend.environment import configuration


def compare(
    model: str,
    configurations: Iterable[Mapping],
    *,
    feeds: list | None = None,
    reference: str = "",
    repeat: int | None = None,
) -> list[dict]:
    """Run a model with each configuration, and compare outputs and latencies with those of the first.

    The configurations are trusted: ``permit`` does not narrow them, and they can contain libraries. The allowlist
    applies. ``pandas.json_normalize`` converts the result to a table, which has columns such as ``latency_ms.p50``.

    :param model: the path of the model.
    :param configurations: each as in ``ORT_ONNX_BACKEND_CONFIG``, which also applies.
    :param feeds: the inputs, as for a run, or ``None`` for random values.
    :param reference: the path of another model, which is the first of the result, and has the first configuration.
    :param repeat: the number of measured runs, or ``None`` for two seconds.
    :return: for each configuration, the object that the command ``run --json`` prints. It can contain an error.
    :raises ValueError: if a configuration has a wrong form.
    :raises RuntimeError: if an input cannot be random.
    """
    sides = [Side(model, text, configuration.parse(text)) for text in map(json.dumps, configurations)]
    if reference:
        add_reference(sides, reference)
    working = [side for side in sides if side.prepare()]
    if working:
        latency.measure(working, feeds or inputs.feeds(working[0], {}, {}), repeat)
    return [described(side, sides[0]) for side in sides]


def add_reference(sides: list[Side], model: str) -> None:
    """Insert another model with the first configuration as the first side."""
    sides.insert(0, Side(model, sides[0].label, sides[0].config))
    for side in sides:
        side.label = f"{side.model} {side.label}"
