# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The text that the ``run`` command prints."""

from __future__ import annotations

from collections.abc import Mapping

from onnxruntime.backend.command_line import inputs
from onnxruntime.backend.command_line.output import Page

_COLUMN = 18  # of values, after their labels
_MOST_OPERATORS = 5
_FIGURES = ("p50", "p90", "p99")
_REFERENCES = {"difference": "the CPU EP", "difference_to_first": "configuration 1"}


def show(result: dict, page: Page) -> None:
    page.add(result["model"], _COLUMN, "model")
    page.rows("input", list(map(inputs.declaration, result["inputs"])), _COLUMN)
    several = len(result["configurations"]) > 1
    for number, found in enumerate(result["configurations"], 1):
        if several:
            page.add()
            page.add(found["configuration"], 4, str(number))
        if found["error"]:
            page.add(found["error"]["message"], _COLUMN, "error")
            continue

        _show_settings(found, page)
        _show_outputs(found["outputs"], page)
        if found["latency_ms"] and not several:
            _show_latency(found["latency_ms"], page)
    if several:
        page.add()
        _show_table(result, page)


def _show_settings(found: dict, page: Page) -> None:
    specified = found["provider_options"]
    providers = []
    for one in found["providers"]:
        providers.append(f"{one['name']} ({one['kind']})")
    page.add(", ".join(providers), _COLUMN, "providers")
    for name, options in specified.items():
        _show_entries("provider_options", options, page, f"{name}.")
    for name, options in found["unconfirmed"].items():
        text = f"{name}: {', '.join(options)} (not reported, or without effect in this session)"
        page.add(text, _COLUMN, "unconfirmed")
    for keyword in ("session_options", "session_config", "run_config"):
        _show_entries(keyword, found[keyword], page)
    page.rows("extensions", found["extensions"], _COLUMN)

    if found["nodes"] is None:
        return
    counts = []
    for name, count in found["nodes"].items():
        if count or name in specified:
            counts.append(f"{count} on {name}")
    page.add(", ".join(counts), _COLUMN, "nodes")
    if found["operators_on_cpu"]:
        page.add(most_frequent(found["operators_on_cpu"]), _COLUMN, "on the CPU EP")


def _show_entries(label: str, entries: Mapping, page: Page, prefix: str = "") -> None:
    rows = []
    for key, value in entries.items():
        rows.append(f"{prefix}{key} = {value}")
    page.rows(label, rows, _COLUMN)


def most_frequent(operators: Mapping[str, int]) -> str:
    """Return the most frequent operators, which come first, with their numbers of nodes."""
    texts = []
    for name, count in operators.items():
        texts.append(f"{name} {count}")
    others = len(texts) - _MOST_OPERATORS
    text = ", ".join(texts[:_MOST_OPERATORS])
    if others <= 0:
        return text
    return f"{text}, and {others} other operator{'s' if others > 1 else ''}"


def _show_outputs(outputs: list[dict], page: Page) -> None:
    for output in outputs:
        page.add(inputs.declaration(output), _COLUMN, "output")
        for kind, reference in _REFERENCES.items():
            if kind in output:
                _show_difference(output[kind], reference, page)


def _show_difference(found: dict, reference: str, page: Page) -> None:
    verdict = "matches" if found["within"] else "DIFFERS from"
    reason = found["note"]
    if not reason:
        absolute = f"max absolute difference {found['absolute']:.2g}"
        reason = f"{absolute}, max relative difference {found['relative']:.2g}"
    page.add(f"{verdict} {reference} ({reason})", _COLUMN)
    if found["index"] is not None:
        place = f"largest difference at {found['index']}: {found['value']!r}, reference {found['reference']!r}"
        page.add(f"{place}; {100 * found['beyond']:.3g} % of the elements beyond the tolerance", _COLUMN)


def _show_latency(latency: dict, page: Page) -> None:
    figures = [f"{name} {latency[name]:.3g}" for name in _FIGURES]
    runs = f"{latency['runs']} run{'s' if latency['runs'] > 1 else ''}"
    text = f"{', '.join(figures)} ms ({runs}, after {latency['warm_up']} warm-up runs)"
    page.add(text, _COLUMN, "latency")


def _show_table(result: dict, page: Page) -> None:
    """Add one row for each configuration."""
    titles = ["p50 ms", "p90 ms", "p99 ms", "ratio"]
    if result["tolerance"]:
        titles.append("outputs")
    rows = [["", *titles]]
    for number, found in enumerate(result["configurations"], 1):
        cells = ["-"] * len(titles)
        if found["error"]:
            cells[0] = "failed"
        elif found["latency_ms"]:
            cells = _cells(found)
        rows.append([str(number), *cells[: len(titles)]])
    page.table(rows)


def _cells(found: dict) -> list[str]:
    latency = found["latency_ms"]
    cells = [f"{latency[name]:.3g}" for name in _FIGURES]
    ratio = latency["ratio_to_first"]
    cells.append("-" if ratio is None else f"{ratio:.2f}")

    verdict = "match"
    for output in found["outputs"]:
        for kind in _REFERENCES:
            if kind in output and not output[kind]["within"]:
                verdict = "DIFFER"
    cells.append(verdict)
    return cells
