# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tables as HTML, Markdown and CSV, and the options of commands that write them into files."""

from __future__ import annotations

import argparse
import csv
import io
import os
from collections.abc import Callable, Iterable, Mapping
from html import escape
from pathlib import Path
from typing import NamedTuple

from onnxruntime.backend.command_line.output import MistakeError, printable

Forms = Mapping[str, tuple[Callable[[dict], str], str]]

# The colors let the background of a light or a dark page through.
_STYLE = """:root{color-scheme:light dark}
body{font:14px/1.4 system-ui,sans-serif;margin:1em}
table{border-collapse:separate;border-spacing:0}
th,td{padding:.2em .6em;border:solid #8886;border-width:0 1px 1px 0;text-align:left;vertical-align:top;
overflow-wrap:anywhere;min-width:9em}
thead th{position:sticky;top:0;z-index:2;background:Canvas}
th:first-child{position:sticky;left:0;z-index:1;background:Canvas;min-width:9em;width:22em;max-width:38vw}
thead th:first-child{z-index:3}
tbody th{font-weight:normal}
.scroll{overflow:auto;max-height:85vh;margin:.5em 0 2em;border:1px solid #8886}
td div{max-height:7em;overflow:auto}
.failed{background:#e436;box-shadow:inset 4px 0 #e43}
.ep{background:#2a46}.mixed{background:#eb06}.cpu{background:#38e4}.none,.unknown,.skipped{background:#8884}
.kernel{background:#a3c4}
.values{background:#e43a;font-weight:bold}
"""


class Cell(NamedTuple):
    """A cell: its text, and the classes that its color shows."""

    text: str
    outcome: str = ""  # passed, failed or skipped
    kind: str = ""  # the reason of the outcome, such as the EPs of the nodes


class Table(NamedTuple):
    """A table with a column for each configuration."""

    title: str
    names: list[str]
    rows: dict[str, list[Cell]]


def add_arguments(parser: argparse.ArgumentParser, forms: Forms) -> None:
    """Add an option for each form, by its name: a function that returns its text, and the help."""
    for name, (_, use) in forms.items():
        metavar = "PAGE" if name == "html" else "FILE"
        parser.add_argument(f"--{name}", metavar=metavar, help=use)


def check_paths(chosen: argparse.Namespace, flags: Iterable[str]) -> None:
    """Check that the folder of each file exists, and that no two options write the same file."""
    written: dict[str, str] = {}
    for flag in flags:
        text = getattr(chosen, flag)
        if not text:
            continue
        path = Path(text)
        if not path.parent.is_dir():
            raise MistakeError(f"--{flag} {text}: the folder does not exist")
        if path.exists() and not path.is_file():  # two options can write to one pipe
            continue
        other = written.setdefault(os.path.realpath(path), flag)
        if other != flag:
            raise MistakeError(f"--{other} and --{flag} would write the same file {text}")


def write(chosen: argparse.Namespace, forms: Forms, result: dict) -> None:
    for name, (text_of, _) in forms.items():
        path = getattr(chosen, name)
        if path:
            text = printable(text_of(result))  # reports contain texts of models and errors
            Path(path).write_text(text, encoding="utf-8", newline="")


def csv_text(rows: Iterable[Iterable[str]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        writer.writerow(map(_without_formula, row))
    return text.getvalue()


def _without_formula(cell: str) -> str:
    """Return a cell that a spreadsheet shows, and does not compute."""
    if cell.startswith(("=", "+", "-", "@")):
        return f"'{cell}"
    return cell


def markdown(table: Table) -> str:
    lines = [_markdown_row([table.title, *table.names]), "|---" * (1 + len(table.names)) + "|\n"]
    for name, cells in table.rows.items():
        texts = [cell.text for cell in cells]
        lines.append(_markdown_row([name, *texts]))
    return "".join(lines)


def _markdown_row(texts: list[str]) -> str:
    cells = []
    for text in texts:
        # Markdown accepts HTML, and a bar ends a cell.
        escaped = escape(text, quote=False)
        cells.append(escaped.replace("|", "\\|"))
    row = " | ".join(cells)
    return f"| {row} |\n"


def html_page(title: str, body: str, style: str) -> str:
    """Return a page that loads nothing."""
    return f"""<!DOCTYPE html>
<html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>{escape(title)}</title><style>{_STYLE}{style}</style>
<h1>{escape(title)}</h1>{body}</html>
"""


def html(table: Table) -> str:
    titles = map(_title, [table.title, *table.names])
    head = "".join(titles)
    lines = ['<div class="scroll"><table>', f"<thead><tr>{head}</tr></thead><tbody>"]
    for name, cells in table.rows.items():
        row = "".join(map(_cell, cells))
        lines.append(f"<tr>{_title(name)}{row}</tr>")
    lines.append("</tbody></table></div>")
    return "\n".join(lines)


def _title(text: str) -> str:
    return f"<th>{escape(text)}</th>"


def _cell(cell: Cell) -> str:
    classes = f"{cell.outcome} {cell.kind}".strip()
    text = escape(cell.text)
    return f'<td class="{classes}"><div>{text}</div></td>'
