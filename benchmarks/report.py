# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Presents the rows of the benchmark: as text, as JSON, as a table of a document, and as a picture."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.comparison import OF_STOCK, VALUE, Comparison, Row

_BEGIN, _END = "<!-- table{} -->\n", "<!-- end of the table{} -->\n"
_HEADINGS = ("", "time / time by hand", "quartiles", "stock", "limit", "")
_VERDICT = {True: "met", False: "MISSED", None: "not judged"}
# Colors of the bars.
_OURS, _STOCK = "#2a6fb0", "#b8b8b8"


def amount(value: float, unit: str) -> str:
    """Format a measurement: bytes in MiB, seconds in a unit with few digits."""
    if unit == "B":
        return f"{value / 2**20:.1f} MiB"
    for least, factor, name in ((1, 1, "s"), (1e-3, 1e3, "ms"), (0, 1e6, "µs")):
        if abs(value) >= least:
            return f"{value * factor:.2f} {name}"
    raise AssertionError


def _cells(row: Row) -> tuple[str, ...]:
    name, unit = row.comparison.name, row.comparison.unit
    quartiles = stock = ""
    if row.ratio:
        shown = f"{row.ratio.median:.3f}"
        quartiles = f"{row.ratio.low:.3f} to {row.ratio.high:.3f}"
        if row.stock:
            stock = f"{row.stock.median:.3f}"
    else:
        shown = amount(row.value.median, unit)
        if row.stock:
            stock = amount(row.stock.median, unit)
    return name, shown, quartiles, stock, _limit(row.comparison), _verdict(row)


def _limit(comparison: Comparison) -> str:
    if comparison.limit is None:
        return ""
    if comparison.judged == VALUE:
        return amount(comparison.limit, comparison.unit)
    if comparison.judged == OF_STOCK:
        return f"{comparison.limit:.2f} of stock"
    return f"{comparison.limit:.2f}"


def _verdict(row: Row) -> str:
    if row.comparison.limit is None:
        return ""
    if row.unsteady:
        return f"{_VERDICT[row.met]}: {row.unsteady}"
    return _VERDICT[row.met]


def _lines(rows: list[Row]) -> list[tuple[str, ...]]:
    """Return the headings and the cells of each row."""
    lines = [_HEADINGS]
    for row in rows:
        lines.append(_cells(row))
    return lines


def table(rows: list[Row]) -> Iterator[str]:
    """The lines of the table for a terminal."""
    lines = _lines(rows)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        yield "  ".join(map(str.ljust, line, widths)).rstrip()


def plain(rows: list[Row]) -> list[dict]:
    """The rows for JSON."""
    found = []
    for row in rows:
        one = {
            "name": row.comparison.name,
            "limit": row.comparison.limit,
            "judged": row.comparison.judged,
            "unit": row.comparison.unit,
            "met": row.met,
            "unsteady": row.unsteady,
        }
        for name in ("value", "ratio", "stock"):
            figure = getattr(row, name)
            one[name] = figure and figure._asdict()
        found.append(one)
    return found


def caption(machine: Mapping[str, str]) -> str:
    """The date and the machine, for the document and the picture."""
    facts = [f"{machine['CPUs']} CPUs of {machine['CPU']}", machine["system"], f"Python {machine['Python']}"]
    return f"{machine['date']}: {', '.join(facts)}, ONNX Runtime {machine['onnxruntime'].partition('+')[0]}"


def write_document(file: Path, rows: list[Row], machine: Mapping[str, str], name: str = "") -> None:
    """Replace a table in a document: that of this name, or the one without a name."""
    label = name and f" {name}"
    begin, end = _BEGIN.format(label), _END.format(label)
    lines = _lines(rows)
    lines.insert(1, ("---",) * len(_HEADINGS))
    text = ""
    for line in lines:
        text += f"| {' | '.join(line)} |\n"
    text = f"{begin}\n{text}\nMeasured on {caption(machine)}.\n\n{end}"
    old = file.read_text(encoding="utf-8")
    new, count = re.subn(f"(?s){begin}.*?{end}", lambda _: text, old)
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
        longest = 1.2
        for place, row in enumerate(shown):
            ratio = row.ratio
            quartiles = [[ratio.median - ratio.low], [ratio.high - ratio.median]]
            lines = {"elinewidth": 0.8, "ecolor": "#333333"}
            axes.barh(place + 0.2, ratio.median, 0.38, color=_OURS, xerr=quartiles, error_kw=lines)
            longest = max(longest, ratio.high)
            if row.stock:
                axes.barh(place - 0.2, row.stock.median, 0.38, color=_STOCK)
                longest = max(longest, row.stock.median)
        axes.barh(0, 0, 0.38, color=_OURS, label="this backend")
        axes.barh(0, 0, 0.38, color=_STOCK, label="stock backend")
        axes.axvline(1, color="black", linewidth=1, label="by hand")
        axes.margins(y=0.01)
        axes.set_yticks(range(len(shown)), [row.comparison.name for row in shown])
        axes.set_xlim(0, 1.1 * longest)
        axes.set_xlabel(f"time, by hand = 1; the lines at the bars are quartiles\n{caption(machine)}")
        axes.legend(loc="lower right", framealpha=1)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        picture.savefig(file, format="svg", metadata={"Date": None})
