# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Summarize on which execution providers the tests of a suite ran, and compare configurations test by test.

A file is a report of the pytest plugin onnxruntime.backend.conformance, or the report.json of an ONNX Backend
Scoreboard run.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from html import escape
from pathlib import Path

from onnxruntime.backend.command_line.output import MistakeError, Page
from onnxruntime.backend.provider_names import CPU, ON_ANY_DEVICE

_OF_PASSED = {
    "ep": "passed, no node on the CPU EP",
    "mixed": "passed, some nodes on the CPU EP",
    "cpu": "passed, all nodes on the CPU EP",
    "none": "passed, no node left after ORT's optimizations",
    "unknown": "passed, ORT has no record of the nodes",
}
_VERSIONS = ("onnxruntime", "backend", "onnx")
_RESULTS = {**_OF_PASSED, "failed": "did not pass", "skipped": "did not run"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    use = "a report, and a name for its configuration (default: the name of the file)"
    parser.add_argument("files", metavar="[NAME=]FILE", nargs="+", help=use)
    parser.add_argument("--html", metavar="PAGE", help="write an HTML page that compares all operators and tests")


def execute(chosen: argparse.Namespace) -> tuple[dict[str, object], int]:
    reports = [_read(text) for text in chosen.files]
    configurations, tests, operators = [], {}, {}
    for name, versions, found in reports:
        counts = Counter(one["result"] for one in found.values())
        configurations.append({"name": name, **versions, **{result: counts[result] for result in _RESULTS}})
        for test, one in found.items():
            tests.setdefault(test, {})[name] = one
            for ep, of_ep in one["nodes"].items() if one["result"] in _OF_PASSED else ():
                for operator, count in of_ep.items():
                    operators.setdefault(operator, {}).setdefault(name, Counter())[ep] += count
    if len({one["name"] for one in configurations}) < len(reports):
        raise MistakeError("two reports have the same name. Use NAME=FILE")
    tests, operators = (dict(sorted(rows.items())) for rows in (tests, operators))
    result = {"configurations": configurations, "operators": operators, "tests": tests}
    if chosen.html:
        Path(chosen.html).write_text(_page(result), encoding="utf-8")
    return result, 0


def _read(text: str) -> tuple[str, dict[str, str], dict[str, dict]]:
    """Return a report's name, versions, and results by test. Of a test with several lines, the last one counts."""
    name, _, path = text.rpartition("=")
    versions, found = dict.fromkeys(_VERSIONS, ""), {}
    try:
        content = Path(path).read_text(encoding="utf-8")
        for line in _of_scoreboard(content) if path.endswith(".json") else map(json.loads, content.splitlines()):
            nodes: dict[str, Counter] = {}
            eps = set() if line["models"] else {""}
            for model in line["models"]:
                for ep, counts in model["operators"].items():
                    nodes.setdefault(ep, Counter()).update(counts)
                if not model["operators"]:
                    eps.add(CPU if ON_ANY_DEVICE.issuperset(model["providers"]) else "")
            eps.update(ep for ep, counts in nodes.items() if counts)
            result = {"passed": _place(eps), "failed": "failed"}.get(line["outcome"], "skipped")
            found[str(line["test"])] = {"result": result, "nodes": nodes, "reason": str(line["reason"])}
            versions = {package: str(line.get(package, "")) for package in versions}
    except OSError as error:
        raise MistakeError(f"cannot read {path!a}: {error.strerror}") from None
    except (AttributeError, KeyError, TypeError, ValueError):
        raise MistakeError(f"{path!a} is not a report of the pytest plugin onnxruntime.backend.conformance") from None
    return name or Path(path).stem, versions, found


def _of_scoreboard(content: str) -> list[dict[str, object]]:
    """Return the lines for a ``report.json`` of the ONNX Backend Scoreboard."""
    outcomes = [(kind, json.loads(content)[kind]) for kind in ("passed", "failed", "skipped")]
    return [{"test": test, "outcome": kind, "reason": "", "models": []} for kind, tests in outcomes for test in tests]


def _place(eps: set[str]) -> str:
    """Return the result of a test that passed with nodes on these EPs; ``""`` is an unknown EP."""
    if "" in eps:
        return "unknown"
    return ("mixed" if CPU in eps else "ep") if eps - {CPU} else "cpu" if eps else "none"


def show(result: dict, page: Page) -> None:
    configurations = result["configurations"]
    page.table([("", *_RESULTS), *((one["name"], *(str(one[kind]) for kind in _RESULTS)) for one in configurations)])
    page.add()
    for kind, description in _OF_PASSED.items():
        page.add(description, 9, kind)
    for one in configurations:
        on_cpu = [name for name, eps in result["operators"].items() if eps.get(one["name"], {}).keys() == {CPU}]
        if on_cpu and one["ep"] + one["mixed"]:
            page.add(f"{one['name']}: operators on the CPU EP alone: {', '.join(on_cpu)}")


# The colors let the background of a light or a dark page through.
_STYLE = """:root{color-scheme:light dark}body{font:14px/1.4 system-ui,sans-serif;margin:1.5em}
table{border-collapse:collapse;margin:1em 0}th,td{padding:.2em .6em;border:1px solid #8888;text-align:left;
vertical-align:top;overflow-wrap:anywhere;min-width:6em}tbody th{font-weight:normal;min-width:max(11em,28vw)}
thead th{position:sticky;top:0;background:Canvas}.ep{background:#2a46}.mixed{background:#eb06}
.cpu{background:#38e4}.none,.unknown{background:#8884}.failed{background:#e436}
td div{max-height:7em;overflow:auto}input{font:inherit;width:30em;max-width:100%;box-sizing:border-box}"""
_SCRIPT = """for(const input of document.querySelectorAll("input"))input.oninput=()=>{
for(const row of input.nextElementSibling.tBodies[0].rows)
row.hidden=!row.textContent.toLowerCase().includes(input.value.toLowerCase())}"""


def _page(result: dict) -> str:
    """Return an HTML page that loads nothing."""
    configurations, operators, tests = result["configurations"], {}, {}
    names = [one["name"] for one in configurations]
    totals = {package: [("", one[package] or "?") for one in configurations] for package in _VERSIONS}
    for kind, description in _RESULTS.items():
        totals[f"{kind}: {description}"] = [(kind if one[kind] else "", str(one[kind])) for one in configurations]
    for operator, by_name in result["operators"].items():
        counted = [by_name.get(name, {}) for name in names]
        operators[operator] = [(_place({*counts}) if counts else "", _counts(counts)) for counts in counted]
    for test, by_name in result["tests"].items():
        tests[test] = [_of_test(by_name[name]) if name in by_name else ("", "") for name in names]
    search = '<input type="search" placeholder="Show rows that contain" aria-label="Show rows that contain">'
    return f"""<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Tests and execution providers</title><style>{_STYLE}</style>
<h1>Tests and execution providers (EPs)</h1>{_table("Number of tests", names, totals)}
<h2>Operators</h2><p>The number of nodes on each EP, in tests that passed.</p>{search}
{_table("Operator", names, operators)}
<h2>Tests</h2><p>The number of nodes on each EP, or the reason why the test did not pass.</p>{search}
{_table("Test", names, tests)}<script>{_SCRIPT}</script></html>
"""


def _of_test(one: dict) -> tuple[str, str]:
    text = one["reason"] or _counts({ep: counts.total() for ep, counts in one["nodes"].items()})
    return one["result"], f"{one['result']}: {text}" if text else one["result"]


def _counts(counts: dict[str, int]) -> str:
    """Return the number of nodes on each EP, the CPU EP last."""
    ordered = sorted(counts, key=CPU.__eq__)
    return ", ".join(f"{ep.replace('ExecutionProvider', '')} {counts[ep]}" for ep in ordered if counts[ep])


def _table(title: str, names: list[str], rows: dict[str, list[tuple[str, str]]]) -> str:
    head = "".join(f"<th>{escape(text)}</th>" for text in (title, *names))
    lines = [f"<table><thead><tr>{head}</tr></thead><tbody>"]
    for name, cells in rows.items():
        row = "".join(f'<td class="{kind}"><div>{escape(text)}</div></td>' for kind, text in cells)
        lines.append(f"<tr><th>{escape(name)}</th>{row}</tr>")
    return "\n".join([*lines, "</tbody></table>"])
