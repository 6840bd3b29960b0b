# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The text that the ``run`` command prints."""

from __future__ import annotations

from collections.abc import Mapping

from onnxruntime.backend.command_line import inputs
from onnxruntime.backend.command_line.output import Page
from onnxruntime.backend.session.nodes import most_frequent

_COLUMN = 18  # of values, after their labels
FIGURES = ("p50", "p90", "p99")
REFERENCES = {"difference": "the CPU EP", "difference_to_first": "configuration 1"}


def show(result: dict, page: Page) -> None:
    page.add(result["model"], _COLUMN, "model")
    declarations = map(inputs.declaration, result["inputs"])
    page.rows("input", declarations, _COLUMN)
    configurations = result["configurations"]
    several = len(configurations) > 1
    for number, ran in enumerate(configurations, 1):
        if several:
            page.add()
            page.add(ran["configuration"], 4, str(number))
        error = ran["error"]
        if error:
            page.add(error["message"], _COLUMN, "error")
            continue

        _show_settings(ran, page)
        _show_outputs(ran["outputs"], page)
        latency = ran["latency_ms"]
        if latency and not several:
            _show_latency(latency, page)
    if several:
        page.add()
        _show_table(result, page)


def _show_settings(ran: dict, page: Page) -> None:
    providers = []
    for provider in ran["providers"]:
        providers.append(f"{provider['name']} ({provider['kind']})")
    page.add(", ".join(providers), _COLUMN, "providers")
    specified = ran["provider_options"]
    for name, options in specified.items():
        _show_entries("provider_options", options, page, f"{name}.")
    for name, options in ran["unconfirmed"].items():
        text = f"{name}: {', '.join(options)} (not reported, or without effect in this session)"
        page.add(text, _COLUMN, "unconfirmed")
    for keyword in ("session_options", "session_config", "run_config"):
        _show_entries(keyword, ran[keyword], page)
    page.rows("extensions", ran["extensions"], _COLUMN)

    nodes = ran["nodes"]
    if nodes is None:
        return
    counts = []
    for name, count in nodes.items():
        if count or name in specified:
            counts.append(f"{count} on {name}")
    page.add(", ".join(counts), _COLUMN, "nodes")
    on_cpu = ran["operators_on_cpu"]
    if on_cpu:
        page.add(most_frequent(on_cpu), _COLUMN, "on the CPU EP")


def _show_entries(
    label: str,
    entries: Mapping,
    page: Page,
    prefix: str = "",
) -> None:
    rows = []
    for key, value in entries.items():
        rows.append(f"{prefix}{key} = {value}")
    page.rows(label, rows, _COLUMN)


def _show_outputs(outputs: list[dict], page: Page) -> None:
    for output in outputs:
        page.add(inputs.declaration(output), _COLUMN, "output")
        for kind, reference in REFERENCES.items():
            if kind in output:
                _show_difference(output[kind], reference, page)


def verdict(difference: dict, reference: str) -> str:
    """Return the result of the comparison of an output with a reference."""
    verb = "DIFFERS from"
    if difference["within"]:
        verb = "matches"
    reason = difference["note"]
    if not reason:
        absolute = f"max absolute difference {difference['absolute']:.2g}"
        reason = f"{absolute}, max relative difference {difference['relative']:.2g}"
    return f"{verb} {reference} ({reason})"


def _show_difference(
    difference: dict,
    reference: str,
    page: Page,
) -> None:
    page.add(verdict(difference, reference), _COLUMN)
    index = difference["index"]
    if index is not None:
        values = f"{difference['value']!r}, reference {difference['reference']!r}"
        share = f"{100 * difference['beyond']:.3g} % of the elements beyond the tolerance"
        page.add(f"largest difference at {index}: {values}; {share}", _COLUMN)


def _show_latency(latency: dict, page: Page) -> None:
    figures = [f"{name} {latency[name]:.3g}" for name in FIGURES]
    listed = ", ".join(figures)
    plural = "s" if latency["runs"] > 1 else ""
    runs = f"{latency['runs']} run{plural}, after {latency['warm_up']} warm-up runs"
    page.add(f"{listed} ms ({runs})", _COLUMN, "latency")


def _show_table(result: dict, page: Page) -> None:
    """Add one row for each configuration."""
    titles = ["p50 ms", "p90 ms", "p99 ms", "ratio"]
    if result["tolerance"]:
        titles.append("outputs")
    rows = [["", *titles]]
    for number, ran in enumerate(result["configurations"], 1):
        cells = ["-"] * len(titles)
        if ran["error"]:
            cells[0] = "failed"
        elif ran["latency_ms"]:
            cells = _cells(ran)
        row = [str(number), *cells]
        rows.append(row[: len(titles) + 1])
    page.table(rows)


def _cells(ran: dict) -> list[str]:
    latency = ran["latency_ms"]
    cells = [f"{latency[name]:.3g}" for name in FIGURES]
    ratio = latency["ratio_to_first"]
    cells.append("-" if ratio is None else f"{ratio:.2f}")

    outputs = "match"
    for output in ran["outputs"]:
        for kind in REFERENCES:
            if kind in output and not output[kind]["within"]:
                outputs = "DIFFER"
    cells.append(outputs)
    return cells
