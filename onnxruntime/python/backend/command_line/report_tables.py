# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The tables of the ``report`` command, and their forms in CSV and Markdown."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection

from onnxruntime.backend.command_line import tables
from onnxruntime.backend.command_line.tables import Cell, Table
from onnxruntime.backend.provider_names import CPU

OF_PASSED = {
    "ep": "passed, no node on the CPU EP",
    "mixed": "passed, some nodes on the CPU EP",
    "cpu": "passed, all nodes on the CPU EP",
    "none": "passed, no node left after ORT's optimizations",
    "unknown": "passed, ORT has no record of the nodes",
}
RESULTS = OF_PASSED | {"failed": "did not pass", "skipped": "did not run"}
FAILURES = {"values": "wrong values", "kernel": "missing kernel", "error": "error"}
VERSIONS = ("onnxruntime", "backend", "onnx")


# The nodes of an operator in passed tests, if the reports contain none.
_NODES = {"none": "none: ORT replaced the operator", "unknown": "unknown"}


def place(eps: Collection[str]) -> str:
    """Return the result of a passed test with nodes on these EPs; ``""`` is an unknown EP."""
    if "" in eps:
        return "unknown"
    if CPU not in eps:
        return "ep" if eps else "none"
    if len(eps) == 1:
        return "cpu"
    return "mixed"


def totals(result: dict) -> Table:
    """Return the table of versions and of the number of tests with each result."""
    configurations = result["configurations"]
    rows = defaultdict(list)
    for configuration in configurations:
        for package in VERSIONS:
            version = configuration[package] or "?"
            rows[package].append(Cell(version))
        for kind, description in RESULTS.items():
            outcome = "passed" if kind in OF_PASSED else ""
            cell = _number(configuration[kind], outcome, kind)
            rows[f"{kind}: {description}"].append(cell)
        for kind, description in FAILURES.items():
            cell = _number(configuration[kind], "failed", kind)
            rows[f"failed: {description}"].append(cell)
    return Table("Number of tests", _names(result), rows)


def _number(count: int, outcome: str, kind: str) -> Cell:
    if not count:
        return Cell("0")
    return Cell(str(count), outcome, kind)


def operators(result: dict) -> Table:
    """Return the table of operators: nodes on each EP, and outcomes of tests."""
    names = _names(result)
    rows = {}
    for operator, results in result["operator_tests"].items():
        nodes = result["operators"].get(operator, {})
        cells = []
        for name in names:
            of_name = nodes.get(name, {})
            cell = _of_operator(of_name, results.get(name))
            cells.append(cell)
        rows[operator] = cells
    return Table("Operator", names, rows)


def _of_operator(nodes: dict[str, int], results: Counter | None) -> Cell:
    if results is None:
        return Cell("no test")
    failed = results["failed"]
    skipped = results["skipped"]
    ran = results.total() - skipped
    if not ran:
        return Cell(f"{skipped} skipped", "skipped")

    passed = ran - failed
    percent = 100 * passed // ran
    share = f"{passed} passed, {failed} failed ({percent}\N{NO-BREAK SPACE}%)"
    if not passed:
        return Cell(share, "failed", "error")
    outcome = "failed" if failed else "passed"
    if nodes:
        return Cell(f"{on_eps(nodes)}; {share}", outcome, place(nodes))
    kind = "unknown" if results["unknown"] == passed else "none"
    return Cell(f"{_NODES[kind]}; {share}", outcome, kind)


def tests(result: dict) -> Table:
    """Return the table of tests."""
    names = _names(result)
    rows = {}
    for test, by_name in result["tests"].items():
        cells = []
        for name in names:
            cell = _of_test(by_name.get(name))
            cells.append(cell)
        rows[test] = cells
    return Table("Test", names, rows)


def _of_test(one: dict | None) -> Cell:
    if one is None:
        return Cell("not in this report")
    result = one["result"]
    failure = one["failure"]
    reason = one["reason"]
    if failure:
        return _cell(f"failed, {FAILURES[failure]}", reason, "failed", failure)
    if result == "skipped":
        return _cell(result, reason, result)
    return _cell(result, _nodes(one), "passed", result)


def _cell(text: str, more: str, outcome: str, kind: str = "") -> Cell:
    if more:
        text += f": {more}"
    return Cell(text, outcome, kind)


def _nodes(one: dict) -> str:
    """Return the number of nodes of a test on each EP."""
    counts = {}
    for ep, of_ep in one["nodes"].items():
        counts[ep] = of_ep.total()
    return on_eps(counts)


def _names(result: dict) -> list[str]:
    return [one["name"] for one in result["configurations"]]


def on_eps(counts: dict[str, int]) -> str:
    """Return the number of nodes on each EP, the CPU EP last."""
    texts = []
    for ep in sorted(counts, key=CPU.__eq__):
        count = counts[ep]
        if count:
            name = ep.removesuffix("ExecutionProvider")
            texts.append(f"{name} {count}")
    return ", ".join(texts)


def csv_text(result: dict) -> str:
    """Return one row for each test and configuration."""
    rows = [("test", "configuration", "result", "failure", "nodes", "reason")]
    for test, by_name in result["tests"].items():
        for name, one in by_name.items():
            row = (test, name, one["result"], one["failure"], _nodes(one), one["reason"])
            rows.append(row)
    return tables.csv_text(rows)


def markdown(result: dict) -> str:
    """Return tables of the totals, the operators, and the tests that failed in some configuration."""
    failed = tests(result)._replace(title="Failed test")
    for test, cells in list(failed.rows.items()):
        outcomes = {cell.outcome for cell in cells}
        if "failed" not in outcomes:
            del failed.rows[test]
    texts = []
    for table in (totals(result), operators(result), failed):
        if table.rows:
            texts.append(tables.markdown(table))
    return "\n".join(texts)
