# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The HTML page of the ``report`` command."""

from __future__ import annotations

from onnxruntime.backend.command_line import report_tables, tables

_STYLE = "input,select{font:inherit;max-width:100%;box-sizing:border-box}input{width:30em}"
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
    totals = tables.html(report_tables.totals(result))
    operators = tables.html(report_tables.operators(result))
    tests = tables.html(report_tables.tests(result))
    body = f"""{totals}
<h2>Operators</h2><p>{_OPERATORS}</p>{_FILTER}
{operators}
<h2>Tests</h2><p>The number of nodes on each EP, or the reason why the test did not pass.</p>{_FILTER}
{tests}<script>{_SCRIPT}</script>"""
    return tables.html_page("Tests and execution providers (EPs)", body, _STYLE)
