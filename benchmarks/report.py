# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Presents the rows of the benchmark: as text, as JSON, as a table of a document, and as a picture."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.comparison import OF_STOCK, RATIO, VALUE, Row

_BEGIN, _END = "<!-- table{} -->\n", "<!-- end of the table{} -->\n"
_HEADINGS = ("", "time / time by hand", "quartiles", "stock", "limit", "")
_VERDICT = {True: "met", False: "MISSED", None: "not judged"}


def amount(value: float, unit: str) -> str:
    """Format a measurement: bytes in MiB, seconds in a unit with few digits."""
    if unit == "B":
        return f"{value / 2**20:.1f} MiB"
    for least, factor, name in ((1, 1, "s"), (1e-3, 1e3, "ms"), (0, 1e6, "µs")):
        if abs(value) >= least:
            return f"{value * factor:.2f} {name}"
    raise AssertionError


def _cells(row: Row) -> tuple[str, ...]:
    comparison, ratio = row.comparison, row.ratio
    if ratio:
        shown, quartiles = f"{ratio.median:.3f}", f"{ratio.low:.3f} to {ratio.high:.3f}"
    else:
        shown, quartiles = amount(row.value.median, comparison.unit), ""
    stock = (
        "" if row.stock is None else f"{row.stock.median:.3f}" if ratio else amount(row.stock.median, comparison.unit)
    )
    if comparison.limit is None:
        return comparison.name, shown, quartiles, stock, "", ""
    limits = {RATIO: "{:.2f}", OF_STOCK: "{:.2f} of stock", VALUE: "{}"}
    shown_limit = amount(comparison.limit, comparison.unit) if comparison.judged == VALUE else comparison.limit
    verdict = _VERDICT[row.met] + (f": {row.unsteady}" if row.unsteady else "")
    return comparison.name, shown, quartiles, stock, limits[comparison.judged].format(shown_limit), verdict


def table(rows: list[Row]) -> Iterator[str]:
    """The lines of the table for a terminal."""
    lines = [_HEADINGS, *map(_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()


def plain(rows: list[Row]) -> list[dict]:
    """The rows for JSON."""
    found = []
    for row in rows:
        figures = {
            name: one and one._asdict() for name, one in row._asdict().items() if name in ("value", "ratio", "stock")
        }
        comparison = {name: getattr(row.comparison, name) for name in ("name", "limit", "judged", "unit")}
        found.append(comparison | figures | {"met": row.met, "unsteady": row.unsteady})
    return found


def caption(machine: Mapping[str, str]) -> str:
    """The date and the machine, for the document and the picture."""
    facts = [f"{machine['CPUs']} CPUs of {machine['CPU']}", machine["system"], f"Python {machine['Python']}"]
    return f"{machine['date']}: {', '.join(facts)}, ONNX Runtime {machine['onnxruntime'].partition('+')[0]}"


def write_document(file: Path, rows: list[Row], machine: Mapping[str, str], name: str = "") -> None:
    """Replace a table in a document: that of this name, or the one without a name."""
    begin, end = (mark.format(name and f" {name}") for mark in (_BEGIN, _END))
    lines = [_HEADINGS, ("---",) * len(_HEADINGS), *map(_cells, rows)]
    text = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    old = file.read_text(encoding="utf-8")
    new, count = re.subn(
        f"(?s){begin}.*?{end}", lambda _: f"{begin}\n{text}\nMeasured on {caption(machine)}.\n\n{end}", old
    )
    if count != 1:
        raise SystemExit(f"{file}: expected one table between {begin.strip()} and {end.strip()}, found {count}")
    file.write_text(new, encoding="utf-8")


def draw(file: Path, rows: list[Row], machine: Mapping[str, str]) -> None:
    """Draw a bar for each ratio, next to the bar of the stock backend, as an SVG file."""
    import matplotlib as mpl  # only for the picture  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    shown = [row for row in rows if row.ratio][::-1]
    # Text stays text, and the file is the same for the same figures.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "benchmarks", "font.size": 9}):
        picture = Figure(figsize=(9, 0.6 + 0.42 * len(shown)), layout="constrained")
        axes = picture.add_subplot()
        places = range(len(shown))
        with_stock = [(place, row) for place, row in zip(places, shown, strict=True) if row.stock]
        ratios = [row.ratio for row in shown]
        quartiles = [[one.median - one.low for one in ratios], [one.high - one.median for one in ratios]]
        axes.barh(
            [place + 0.2 for place in places],
            [one.median for one in ratios],
            0.38,
            color="#2a6fb0",
            label="this backend",
            xerr=quartiles,
            error_kw={"elinewidth": 0.8, "ecolor": "#333333"},
        )
        stocks = [row.stock.median for _, row in with_stock]
        axes.barh([place - 0.2 for place, _ in with_stock], stocks, 0.38, color="#b8b8b8", label="stock backend")
        axes.axvline(1, color="black", linewidth=1, label="by hand")
        axes.margins(y=0.01)
        axes.set_yticks(list(places), [row.comparison.name for row in shown])
        axes.set_xlim(0, 1.1 * max(1.2, *(one.high for one in ratios), *stocks))
        axes.set_xlabel(f"time, by hand = 1; the lines at the bars are quartiles\n{caption(machine)}")
        axes.legend(loc="lower right", framealpha=1)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        picture.savefig(file, format="svg", metadata={"Date": None})
