# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Lays out tables as text that is safe for a terminal, and keeps the result apart from other output."""

import contextlib
import os
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TextIO

INTERRUPTED = 130  # the exit status
_NARROWEST = 30  # of a column that wraps
_INDENT = 2
_WHOLE_WORDS: dict = {"break_long_words": False, "break_on_hyphens": False}  # a path that is broken cannot be copied
_NUMBER = re.compile(r"[-+\d.,]*( ?%)?")
_COLORS = {"name": 1, "good": 32, "bad": 31, "note": 2}  # by the kind of a cell


class Cell(NamedTuple):
    """A text, and its kind, which a color shows."""

    text: str
    kind: str = ""


class Table(NamedTuple):
    """Rows of cells or texts, with the titles of the columns."""

    rows: Sequence[Sequence[Cell | str]]
    head: Sequence[str] = ()
    title: str = ""


def pairs(found: Mapping[str, object], title: str = "") -> Table:
    """Return a table of labels and texts. A mapping or a list has a row for each text."""
    rows = []
    for name, value in found.items():
        if isinstance(value, Mapping):
            value = list(entries(value))  # noqa: PLW2901
        texts = value if isinstance(value, list) else [value]
        for index, text in enumerate(filter(None, texts)):
            rows.append((Cell("" if index else name, "note"), str(text)))
    return Table(rows, (), title)


def entries(settings: Mapping, prefix: str = "") -> Iterator[str]:
    """Yield each setting of a mapping, which may contain mappings, as text."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from entries(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name} = {value}"


def one_line(message: object) -> str:
    """Return a message without line breaks, and with an escape sequence for each character that acts on a terminal."""
    line = " ".join(str(message).split())
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in line)


def text(tables: Iterable[Table], width: int, colors: bool) -> str:
    """Return tables as text. A line is longer than the width only if one word, a title, or the label of a row is."""
    blocks = []
    for table in tables:
        block = ""
        for line in _lines(table, width):
            parts = [f"\x1b[{_COLORS[kind]}m{part}\x1b[0m" if colors and kind and part else part for part, kind in line]
            block += "  ".join(parts).rstrip() + "\n"
        blocks.append(block)
    return "\n".join(blocks)


def _lines(table: Table, width: int) -> Iterator[list[Cell]]:
    """Yield the lines of a table. The last column wraps. If it had no place, the first column has its own lines."""
    if table.title:
        yield [Cell(one_line(table.title), "name")]
    columns = _columns(table) if table.rows else []
    widths = [max(len(cell.text) for cell in column) for column in columns]
    indent = sum(size + 2 for size in widths[:-1])
    stacked = bool(indent) and indent + min(widths[-1], _NARROWEST) > width
    if stacked:
        indent += _INDENT - widths[0]
        widths[0] = _INDENT
    for row in list(zip(*columns, strict=True))[0 if table.head else 1 :]:
        if stacked:
            yield [row[0]]
            row = (Cell(""), *row[1:])  # noqa: PLW2901
        *cells, last = row
        line = []
        for cell, size in zip(cells, widths, strict=False):
            place = str.rjust if _NUMBER.fullmatch(cell.text) else str.ljust
            line.append(cell._replace(text=place(cell.text, size)))
        for part in textwrap.wrap(last.text, max(width - indent, _NARROWEST), **_WHOLE_WORDS) or [""]:
            yield [*line, last._replace(text=part)]
            line = [Cell(" " * size) for size in widths[:-1]]


def _columns(table: Table) -> list[list[Cell]]:
    """Return the columns with their titles, without columns that have no text below the title."""
    titles = [Cell(title, "note") for title in table.head or [""] * len(table.rows[0])]
    rows = []
    for row in (titles, *table.rows):
        cells = [cell if isinstance(cell, Cell) else Cell(cell) for cell in row]
        rows.append([cell._replace(text=one_line(cell.text)) for cell in cells])
    return [list(column) for column in zip(*rows, strict=True) if any(cell.text for cell in column[1:])]


@contextlib.contextmanager
def result_stream() -> Iterator[TextIO]:
    """Return a stream to stdout that only the result uses.

    EP libraries print to file descriptor 1, some of them when the process ends. This function permanently
    makes this descriptor a copy of stderr, and the returned stream writes to the former stdout.
    """
    out: Any = sys.stdout
    out.flush()
    if sys.stdout is sys.__stdout__:
        kept = os.dup(out.fileno())
        os.dup2(2, out.fileno())
        out = os.fdopen(kept, "w", encoding=out.encoding, errors="backslashreplace")
    with contextlib.redirect_stdout(sys.stderr):
        yield out
        out.flush()
