# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The table of the ``run`` command, with a column for each configuration, as text, CSV and Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from onnxruntime.backend.command_line import inputs, tables
from onnxruntime.backend.command_line.output import Page
from onnxruntime.backend.command_line.report_tables import on_eps, place
from onnxruntime.backend.command_line.tables import Cell, Table
from onnxruntime.backend.session.nodes import most_frequent

FIGURES = ("p50", "p90", "p99")
_COLUMN = 25  # of values, after their labels
# The rows that compare the configurations.
_COMPARING = ("p50 ms", "p90 ms", "p99 ms", "ratio", "runs", "outputs")
_REFERENCES = {"difference": "the CPU EP", "difference_to_first": "configuration 1"}
_SETTINGS = ("provider_options", "session_options", "session_config", "run_config")


def show(result: dict, page: Page) -> None:
    """Add the cells of each configuration, and a table of the rows that compare configurations."""
    page.add(result["model"], _COLUMN, "model")
    declarations = map(inputs.declaration, result["inputs"])
    page.rows("input", declarations, _COLUMN)
    found = table(result)
    titles = [label for label in _COMPARING if label in found.rows]
    rows = [["", *titles]]
    for column, name in enumerate(found.names):
        page.add()
        page.add(name)
        for label, cells in found.rows.items():
            text = cells[column].text
            # main.py prints the warnings when they appear.
            if text and label not in (*titles, "warnings"):
                page.add(text, _COLUMN, label)
        row = [name.partition(":")[0]]
        for label in titles:
            row.append(found.rows[label][column].text or "-")
        rows.append(row)
    if titles:
        page.add()
        page.table(rows)


def markdown(result: dict) -> str:
    return tables.markdown(table(result))


def csv_text(result: dict) -> str:
    """Return one row for each configuration."""
    found = table(result)
    rows = [["configuration", *found.rows]]
    for column, name in enumerate(found.names):
        row = [name]
        for cells in found.rows.values():
            row.append(cells[column].text)
        rows.append(row)
    return tables.csv_text(rows)


def table(result: dict) -> Table:
    """Return the rows that have text in some column. The title is the file name of the model."""
    configurations = result["configurations"]
    names = ["result"]
    if len(configurations) > 1:
        names = [f"{number}: {ran['configuration']}" for number, ran in enumerate(configurations, 1)]
    columns = list(map(_cells, configurations))
    labels: dict = {}
    for column in columns:
        labels |= column
    rows = {}
    for label in labels:
        cells = [column.get(label, Cell("")) for column in columns]
        if any(cell.text for cell in cells):
            rows[label] = cells
    return Table(Path(result["model"]).name, names, rows)


def _cells(ran: dict) -> dict[str, Cell]:
    if ran["error"]:
        return {"error": Cell(ran["error"]["message"], "failed", "error")}

    cells = {"error": Cell("")}  # the first row
    latency = ran["latency_ms"]
    if latency:
        for name in FIGURES:
            cells[f"{name} ms"] = Cell(f"{latency[name]:.3g}")
        ratio = latency["ratio_to_first"]
        if ratio is not None:
            cells["ratio"] = Cell(f"{ratio:.2f}")
        cells["runs"] = Cell(str(latency["runs"]))

    eps = [f"{provider['name']} ({provider['kind']})" for provider in ran["providers"]]
    cells["EPs"] = Cell(", ".join(eps))
    if ran["nodes"] is not None:
        cells["nodes"] = _nodes(ran["nodes"])
    cells["operators on the CPU EP"] = Cell(most_frequent(ran["operators_on_cpu"]))
    outcomes = set()
    for output in ran["outputs"]:
        cell = _output(output)
        cells[f"output {output['name']}"] = cell
        outcomes.add(cell.outcome)
    if "failed" in outcomes:
        cells["outputs"] = Cell("DIFFER", "failed")
    elif "passed" in outcomes:
        cells["outputs"] = Cell("match", "passed")
    for keyword in _SETTINGS:
        entries = ", ".join(_entries(ran[keyword]))
        cells[keyword] = Cell(entries)
    unconfirmed = ", ".join(_entries(ran["unconfirmed"]))
    if unconfirmed:
        unconfirmed += " (not reported, or without effect in this session)"
    cells["unconfirmed"] = Cell(unconfirmed)
    cells["extensions"] = Cell(", ".join(ran["extensions"]))
    cells["warnings"] = Cell(" ".join(ran["warnings"]))
    return cells


def _nodes(nodes: dict[str, int]) -> Cell:
    taken = set()
    for name, count in nodes.items():
        if count:
            taken.add(name)
    return Cell(on_eps(nodes), "passed", place(taken))


def _entries(settings: Mapping, prefix: str = "") -> Iterator[str]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _entries(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name} = {value}"


def _output(output: dict) -> Cell:
    texts = [inputs.declaration(output).removeprefix(f"{output['name']}: ")]  # the name is in the heading
    outcome = ""
    for kind, reference in _REFERENCES.items():
        difference = output.get(kind)
        if difference is None:
            continue
        texts += _compared(difference, reference)
        if not difference["within"]:
            outcome = "failed"
        elif not outcome:
            outcome = "passed"
    return Cell("; ".join(texts), outcome)


def _compared(difference: dict, reference: str) -> Iterator[str]:
    """Yield the result of the comparison of an output with a reference."""
    verb = "matches" if difference["within"] else "DIFFERS from"
    reason = difference["note"]
    if not reason:
        absolute = f"max absolute difference {difference['absolute']:.2g}"
        reason = f"{absolute}, max relative difference {difference['relative']:.2g}"
    yield f"{verb} {reference} ({reason})"
    index = difference["index"]
    if index is not None:
        values = f"{difference['value']!r}, reference {difference['reference']!r}"
        yield f"largest difference at {index}: {values}"
        yield f"{100 * difference['beyond']:.3g} % of the elements beyond the tolerance"
