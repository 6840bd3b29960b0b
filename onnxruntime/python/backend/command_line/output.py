# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Lays out text for people, makes it safe for a terminal, and keeps the result apart from other output."""

from __future__ import annotations

import contextlib
import io
import math
import os
import shutil
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

INTERRUPTED = 130  # the exit status
_SECONDS_SHOWN = 0.2  # of a line of progress, at least


_KEPT = "\n\N{NO-BREAK SPACE}"


class MistakeError(Exception):
    """An error that the command line reports in one line, without a traceback."""


def printable(text: str) -> str:
    """Return text with an escape sequence for each character, except a line break, that acts on a terminal."""
    characters = []
    for character in text:
        if character not in _KEPT and not character.isprintable():
            character = ascii(character)[1:-1]  # noqa: PLW2901
        characters.append(character)
    return "".join(characters)


def one_line(message: object) -> str:
    """Return a message without line breaks and control characters."""
    return printable(" ".join(str(message).split()))


class Progress:
    """A line on a terminal about the current step of a command, until the next line or output."""

    def __init__(self) -> None:
        self._shown = -math.inf
        self._width = 0

    def show(self, text: str) -> None:
        now = time.monotonic()
        if now - self._shown < _SECONDS_SHOWN or not sys.stderr.isatty():
            return
        self.clear()
        self._shown = now
        columns = shutil.get_terminal_size().columns - 1
        line = one_line(text)[:columns]
        self._width = len(line)
        print(line, end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._width:
            blank = " " * self._width
            print(f"\r{blank}\r", end="", file=sys.stderr, flush=True)
            self._width = 0


progress = Progress()


class Page:
    """Lines of text for a person. A wrapped line is longer than the page only if one word is."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._lines: list[str] = []

    def add(self, text: str = "", indent: int = 0, label: str = "") -> None:
        """Add text, wrapped between words, that starts at a column, with a label before it in the first line."""
        first = f"{printable(label):{indent}}"
        lines = textwrap.wrap(
            one_line(text),
            self.width,
            initial_indent=first,
            subsequent_indent=" " * max(indent, 2),
            break_long_words=False,  # a path that is broken cannot be copied
            break_on_hyphens=False,
        )
        for line in lines or [first]:
            self._lines.append(line.rstrip())

    def add_command(self, command: str) -> None:
        """Add a command as it is: a shell cannot run a command that is wrapped."""
        self._lines.append(f"  {printable(command)}")

    def rows(self, label: str, texts: Iterable[str], indent: int) -> None:
        """Add a paragraph for each text, with a label before the first one."""
        for text in texts:
            self.add(text, indent, label)
            label = ""

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        """Add rows of cells in columns: the first is aligned left, the others right. Cells of one word only."""
        widths = []
        for column in zip(*rows, strict=True):
            lengths = map(len, column)
            widths.append(max(lengths))
        for row in rows:
            cells = list(map(str.rjust, row, widths))
            cells[0] = row[0].ljust(widths[0])
            line = printable("  ".join(cells))
            self._lines.append(line.rstrip())

    def __str__(self) -> str:
        return "\n".join([*self._lines, ""])


def replace_closed() -> None:
    """Open the null device for each closed standard stream. A new file gets the lowest number that is free."""
    modes = {"stdin": "r", "stdout": "w", "stderr": "w"}
    for name, mode in modes.items():
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115 (until the process ends)
            setattr(sys, name, stream)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # file names and models may contain any character


@contextlib.contextmanager
def result_stream() -> Iterator[TextIO]:
    """Return a stream to stdout that only the result uses.

    EP libraries print to file descriptor 1, some of them when the process ends. This function permanently
    makes this descriptor a copy of stderr, and the returned stream writes to the former stdout.
    """
    out = sys.stdout
    out.flush()
    is_of_process = out is sys.__stdout__
    if is_of_process:
        kept = os.dup(out.fileno())
        os.dup2(2, out.fileno())
        out = os.fdopen(kept, "w", encoding=out.encoding, errors="backslashreplace")
    with contextlib.redirect_stdout(sys.stderr):
        yield out
        out.flush()
