# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The tables of the ``run`` command, and the picture of its latencies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path

from onnxruntime.backend.command_line import inputs, run_page, tables
from onnxruntime.backend.command_line.report_tables import on_eps, place
from onnxruntime.backend.command_line.tables import Cell, Table

_SETTINGS = (
    "provider_options",
    "session_options",
    "session_config",
    "run_config",
    "unconfirmed",
)
_STYLE = """td div{max-height:none}
svg{max-width:60em;width:100%}svg text{font:13px system-ui,sans-serif;fill:currentColor}
svg .p50{fill:#2a6}svg .p90{fill:#2a66}svg .p99{stroke:currentColor}"""
_WIDTH = 800  # of the picture
_HEIGHT = 46  # of a configuration in the picture
_LABEL = 60  # characters


def html(result: dict) -> str:
    declarations = map(inputs.declaration, result["inputs"])
    sentences = [f"ONNX Runtime {result['onnxruntime']}, backend {result['backend']}."]
    listed = "; ".join(declarations)
    if listed:
        sentences.append(f"Inputs: {listed}.")
    if result["interrupted"]:
        sentences.append("The command was interrupted.")
    introduction = escape(" ".join(sentences))
    table = _table(result)
    body = "".join(
        [
            f"<p>{introduction}</p>",
            _picture(result),
            tables.html(table),
        ]
    )
    return tables.html_page(_model(result), body, _STYLE)


def markdown(result: dict) -> str:
    table = _table(result)
    return tables.markdown(table)


def csv_text(result: dict) -> str:
    """Return one row for each configuration."""
    table = _table(result)
    rows = [["configuration", *table.rows]]
    for column, name in enumerate(table.names):
        row = [name]
        for cells in table.rows.values():
            row.append(cells[column].text)
        rows.append(row)
    return tables.csv_text(rows)


FORMS = {
    "html": (
        html,
        "write an HTML page with the latencies as a picture, the nodes, and the outputs",
    ),
    "csv": (
        csv_text,
        "write a CSV file with one row for each configuration",
    ),
    "markdown": (
        markdown,
        "write a Markdown table with one column for each configuration",
    ),
}


def _names(result: dict) -> list[str]:
    configurations = result["configurations"]
    if len(configurations) == 1:
        return ["result"]
    names = []
    for number, ran in enumerate(configurations, 1):
        names.append(f"{number}: {ran['configuration']}")
    return names


def _table(result: dict) -> Table:
    columns = list(map(_cells, result["configurations"]))
    labels: dict = {}
    for column in columns:
        labels |= column
    rows = {}
    for label in labels:
        cells = []
        texts = ""
        for column in columns:
            cell = column.get(label, Cell(""))
            cells.append(cell)
            texts += cell.text
        if texts:
            rows[label] = cells
    return Table(_model(result), _names(result), rows)


def _model(result: dict) -> str:
    """Return the file name: the folder is of interest on this machine only."""
    return Path(result["model"]).name


def _cells(ran: dict) -> dict[str, Cell]:
    cells = {"error": Cell("")}
    if ran["error"]:
        cells["error"] = Cell(ran["error"]["message"], "failed", "error")
        return cells

    latency = ran["latency_ms"]
    if latency:
        for name in run_page.FIGURES:
            figure = f"{latency[name]:.3g}"
            cells[f"{name} ms"] = Cell(figure)
        ratio = latency["ratio_to_first"]
        if ratio is not None:
            cells["ratio to the first"] = Cell(f"{ratio:.2f}")
        cells["runs"] = Cell(str(latency["runs"]))

    cells["EPs"] = _text(provider["name"] for provider in ran["providers"])
    if ran["nodes"] is not None:
        cells["nodes"] = _nodes(ran["nodes"])
    on_cpu = run_page.most_frequent(ran["operators_on_cpu"])
    cells["operators on the CPU EP"] = Cell(on_cpu)
    for output in ran["outputs"]:
        cells[f"output {output['name']}"] = _output(output)
    for keyword in _SETTINGS:
        entries = _entries(ran[keyword])
        cells[keyword] = _text(entries)
    warnings = " ".join(ran["warnings"])
    cells["warnings"] = Cell(warnings)
    return cells


def _nodes(nodes: dict[str, int]) -> Cell:
    taken = set()
    for name, count in nodes.items():
        if count:
            taken.add(name)
    kind = place(taken)
    text = on_eps(nodes)
    return Cell(text, "passed", kind)


def _entries(settings: Mapping, prefix: str = "") -> Iterable[str]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _entries(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name} = {value}"


def _text(parts: Iterable[str]) -> Cell:
    return Cell(", ".join(parts))


def _output(output: dict) -> Cell:
    texts = [inputs.declaration(output)]
    outcome = ""
    for kind, reference in run_page.REFERENCES.items():
        difference = output.get(kind)
        if difference is None:
            continue
        texts.append(run_page.verdict(difference, reference))
        if not difference["within"]:
            outcome = "failed"
    return Cell("; ".join(texts), outcome)


def _picture(result: dict) -> str:
    """Return bars of the percentiles of each configuration."""
    measured = []
    for name, ran in zip(_names(result), result["configurations"], strict=True):
        latency = ran.get("latency_ms")
        if latency:
            measured.append((name, latency))
    if not measured:
        return ""

    # A few slow runs would shorten all bars.
    longest = max(latency["p99"] for _, latency in measured)
    longest = min(longest, 2 * max(latency["p90"] for _, latency in measured))
    bars = []
    for number, (name, latency) in enumerate(measured):
        bars.append(_bar(name, latency, longest, number * _HEIGHT))
    height = _HEIGHT * len(measured)
    lines = "\n".join(bars)
    return f"""<h2>Latency</h2>
<p>From 0: the median (p50), the time of 90 % of the runs (p90), and a line to the time of 99 % (p99).</p>
<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="Latency of each configuration">
{lines}
</svg>
<h2>Configurations</h2>"""


def _bar(
    name: str,
    latency: dict,
    longest: float,
    top: int,
) -> str:
    label = name
    if len(name) > _LABEL:
        label = f"{name[: _LABEL - 3]}..."
    texts = []
    widths = []
    for figure in run_page.FIGURES:
        milliseconds = latency[figure]
        texts.append(f"{figure} {milliseconds:.3g}")
        share = min(1.0, milliseconds / longest)
        widths.append(share * _WIDTH)
    listed = ", ".join(texts)
    text = f"{label} — {listed} ms"
    p50, p90, p99 = widths
    middle = top + 29
    return (
        f'<text x="0" y="{top + 16}">{escape(text)}</text>'
        f'<rect class="p90" x="0" y="{top + 22}" width="{p90:.1f}" height="14"/>'
        f'<rect class="p50" x="0" y="{top + 22}" width="{p50:.1f}" height="14"/>'
        f'<line class="p99" x1="{p90:.1f}" y1="{middle}" x2="{p99:.1f}" y2="{middle}"/>'
    )
