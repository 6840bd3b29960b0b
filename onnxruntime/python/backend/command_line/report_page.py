# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The HTML page of the ``report`` command, which loads nothing."""

from __future__ import annotations

from html import escape

from onnxruntime.backend.command_line import report_tables
from onnxruntime.backend.command_line.report_tables import Cell, Table

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
input,select{font:inherit;max-width:100%;box-sizing:border-box}input{width:30em}"""
_SCRIPT = """
for (const form of document.querySelectorAll("form")) {
  const [input, select] = form.elements
  const rows = form.nextElementSibling.querySelectorAll("tbody tr")
  const texts = {
    text: cell => cell.textContent,
    outcome: cell => cell.className.split(" ")[0],
  }
  form.oninput = () => {
    const wanted = input.value.toLowerCase()
    const text = texts[select.value]
    for (const row of rows) {
      const differs = !text || new Set([...row.cells].slice(1).map(text)).size > 1
      row.hidden = !(differs && row.textContent.toLowerCase().includes(wanted))
    }
  }
  form.onsubmit = () => false
  form.oninput()
}"""
_FILTER = """<form>
<input type="search" placeholder="Show rows that contain" aria-label="Show rows that contain">
<select aria-label="Rows"><option value="">All rows</option>
<option value="text">Rows that differ between columns</option>
<option value="outcome">Rows that pass in some columns only</option></select></form>"""
_OPERATORS = """
The number of nodes on each EP in passed tests, and the number of passed and failed tests. ORT can replace
an operator by other operators: then the cell contains none. Unknown: ORT has no record of the nodes.
"""


def html(result: dict) -> str:
    totals = _table(report_tables.totals(result))
    operators = _table(report_tables.operators(result))
    tests = _table(report_tables.tests(result))
    return f"""<!DOCTYPE html>
<html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>Tests and execution providers</title><style>{_STYLE}</style>
<h1>Tests and execution providers (EPs)</h1>{totals}
<h2>Operators</h2><p>{_OPERATORS}</p>{_FILTER}
{operators}
<h2>Tests</h2><p>The number of nodes on each EP, or the reason why the test did not pass.</p>{_FILTER}
{tests}<script>{_SCRIPT}</script></html>
"""


def _table(table: Table) -> str:
    head = "".join(map(_title, [table.title, *table.names]))
    lines = [
        '<div class="scroll"><table>',
        f"<thead><tr>{head}</tr></thead><tbody>",
    ]
    for name, cells in table.rows.items():
        row = "".join(map(_cell, cells))
        lines.append(f"<tr>{_title(name)}{row}</tr>")
    lines.append("</tbody></table></div>")
    return "\n".join(lines)


def _title(text: str) -> str:
    return f"<th>{escape(text)}</th>"


def _cell(cell: Cell) -> str:
    classes = f"{cell.outcome} {cell.kind}".strip()
    return f'<td class="{classes}"><div>{escape(cell.text)}</div></td>'
