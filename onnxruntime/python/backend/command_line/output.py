# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Lays out tables as text that is safe for a terminal, and keeps the result apart from other output."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TextIO

INTERRUPTED = 130  # the exit status
_NARROWEST = 30  # of a column that wraps
_INDENT = 2
_WHOLE_WORDS: dict = {"break_long_words": False, "break_on_hyphens": False}  # a path that is broken cannot be copied
_NUMBER = re.compile(r"[-+\d.,]*( ?%)?")
_COLORS = {"title": 1, "name": 1, "good": 32, "bad": 31, "note": 2}  # by the kind of a cell


class MistakeError(Exception):
    """An error that the command line reports in one line, without a traceback."""


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
    """Return a table of labels and texts. A list has a row for each text."""
    rows = []
    for name, texts in found.items():
        for index, text in enumerate(texts if isinstance(texts, list) else [texts]):
            rows.append((Cell("" if index else name, "note"), str(text)))
    return Table(rows, (), title)


def one_line(message: object) -> str:
    """Return a message without line breaks, and with an escape sequence for each character that acts on a terminal."""
    line = " ".join(str(message).split())
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in line)


def text(tables: Iterable[Table], width: int, colors: bool) -> str:
    """Return tables as text. A line is longer than the width only if one word is."""

    def paint(cell: Cell, part: str) -> str:
        return f"\x1b[{_COLORS[cell.kind]}m{part}\x1b[0m" if colors and cell.kind and part.strip() else part

    blocks = []
    for table in tables:
        title = Cell(one_line(table.title), "title")
        lines = [paint(title, title.text)] if title.text else []
        if table.rows:
            lines += _lines(table, width, paint)
        blocks.append("".join(f"{line.rstrip()}\n" for line in lines))
    return "\n".join(blocks)


def _lines(table: Table, width: int, paint: Callable[[Cell, str], str]) -> Iterator[str]:
    """Yield the lines of a table. The last column wraps. If it had no place, the first column has its own lines."""
    columns = _columns(table)
    widths = [max(len(cell.text) for cell in column) for column in columns]
    indent = sum(widths[:-1]) + 2 * len(widths[:-1])
    stacked = bool(indent) and indent + min(widths[-1], _NARROWEST) > width
    if stacked:
        indent += _INDENT - widths[0]
        widths[0] = _INDENT
    places = [
        str.rjust if all(_NUMBER.fullmatch(cell.text) for cell in column[1:]) else str.ljust for column in columns
    ]
    for row in list(zip(*columns, strict=True))[0 if table.head else 1 :]:
        if stacked:
            yield paint(row[0], row[0].text)
            row = (Cell(""), *row[1:])  # noqa: PLW2901
        *cells, last = row
        parts = [paint(cell, place(cell.text, size)) for cell, place, size in zip(cells, places, widths, strict=False)]
        for part in textwrap.wrap(last.text, max(width - indent, _NARROWEST), **_WHOLE_WORDS) or [""]:
            yield "  ".join([*parts, paint(last, part)])
            parts = [" " * size for size in widths[:-1]]


def _columns(table: Table) -> list[list[Cell]]:
    """Return the columns with their titles, without columns that have no text below the title."""
    rows = [[Cell(title, "note") for title in table.head or [""] * len(table.rows[0])]]
    for row in table.rows:
        cells = [cell if isinstance(cell, Cell) else Cell(cell) for cell in row]
        rows.append([cell._replace(text=one_line(cell.text)) for cell in cells])
    return [list(column) for column in zip(*rows, strict=True) if any(cell.text for cell in column[1:])]


def obeys_escapes(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal with escape sequences. On Windows, only some terminals have them."""
    return bool(stream and stream.isatty() and (os.name == "posix" or "WT_SESSION" in os.environ))


def progress(line: str = "") -> None:
    """Replace the line on a terminal about the current step."""
    if obeys_escapes(sys.stderr):
        print(f"\r\x1b[K{one_line(line)[:70]}", end="", file=sys.stderr, flush=True)


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
