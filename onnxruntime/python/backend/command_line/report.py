# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The ``report`` command: summarizes the files of the pytest plugin ``conformance``, and compares them by name."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from html import escape
from pathlib import Path

from onnxruntime.backend.command_line.output import MistakeError, Page
from onnxruntime.backend.provider_names import CPU, ON_ANY_DEVICE

HELP = "summarize on which EPs the tests of a suite ran, and compare configurations"
DESCRIPTION = """Summarize files that the pytest plugin onnxruntime.backend.conformance wrote: the number of tests that
passed on other EPs entirely, in part, and on the CPU EP alone. With several files, compare the configurations test by
test. A file can also be the report.json of an ONNX Backend Scoreboard run."""
_OF_PASSED = {
    "ep": "passed, no node on the CPU EP",
    "mixed": "passed, some nodes on the CPU EP",
    "cpu": "passed, all nodes on the CPU EP",
    "none": "passed, no node left after ORT's optimizations",
    "unknown": "passed, ORT has no record of the nodes",
}
_RESULTS = {**_OF_PASSED, "failed": "failed", "skipped": "skipped"}


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
    versions, found = {"onnxruntime": "", "onnx": ""}, {}
    try:
        content = Path(path).read_text(encoding="utf-8")
        for line in _of_scoreboard(content) if path.endswith(".json") else map(json.loads, content.splitlines()):
            nodes: dict[str, Counter] = {}
            for model in line["models"]:
                for ep, counts in model["operators"].items():
                    nodes.setdefault(ep, Counter()).update(counts)
            outcomes = {"passed": _place(line["models"]), "failed": "failed"}
            result = outcomes.get(line["outcome"], "skipped")
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


def _place(models: list[dict]) -> str:
    """Return the result of a test that passed with these models."""
    nodes = Counter()
    for model in models:
        if not model["operators"]:
            nodes[CPU if ON_ANY_DEVICE.issuperset(model["providers"]) else ""] += 1
        nodes.update({ep: sum(counts.values()) for ep, counts in model["operators"].items()})
    eps = {ep for ep, count in nodes.items() if count}
    if not models or "" in eps:
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


_STYLE = """body{font:14px/1.4 system-ui,sans-serif;margin:2em}table{border-collapse:collapse;margin:1em 0}
th,td{padding:.2em .6em;border:1px solid #ccc;text-align:left;vertical-align:top;overflow-wrap:anywhere}
thead th{position:sticky;top:0;background:#eee}tbody th{font-weight:normal;min-width:16em}
.ep{background:#b7e4c0}.mixed{background:#fbe7a1}.cpu{background:#cfe0f5}.none,.unknown{background:#e8e8e8}
.failed{background:#f6c1bd}.skipped{color:#666}input{font:inherit;width:30em;max-width:100%}"""
_SCRIPT = """for(const input of document.querySelectorAll("input"))input.oninput=()=>{
for(const row of input.nextElementSibling.tBodies[0].rows)
row.hidden=!row.textContent.toLowerCase().includes(input.value.toLowerCase())}"""


def _page(result: dict) -> str:
    """Return an HTML page that loads nothing."""
    names = [one["name"] for one in result["configurations"]]
    totals, operators, tests = {}, {}, {}
    for one in result["configurations"]:
        title = f"{one['name']}: ONNX Runtime {one['onnxruntime'] or '?'}, onnx {one['onnx'] or '?'}"
        totals[title] = [(kind, one[kind]) for kind in _RESULTS]
    for operator, by_name in result["operators"].items():
        counted = [{ep: {operator: count} for ep, count in by_name.get(name, {}).items()} for name in names]
        operators[operator] = [(_place([{"operators": one}]) if one else "", _counts(one)) for one in counted]
    for test, by_name in result["tests"].items():
        found = [by_name.get(name, {"result": "", "nodes": {}, "reason": ""}) for name in names]
        tests[test] = [(one["result"], one["reason"] or _counts(one["nodes"]) or one["result"]) for one in found]
    legend = " ".join(f'<span class="{kind}">{kind}: {text}.</span>' for kind, text in _OF_PASSED.items())
    search = '<input type="search" placeholder="Show rows that contain" aria-label="Show rows that contain">'
    return f"""<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>Tests and execution providers</title><style>{_STYLE}</style>
<h1>Tests and execution providers</h1>{_table([*_RESULTS], totals)}<p>{legend}</p>
<h2>Operators</h2><p>The number of nodes on each execution provider, in tests that passed.</p>
{search}{_table(names, operators)}
<h2>Tests</h2><p>The number of nodes on each execution provider, or the reason of the failure.</p>
{search}{_table(names, tests)}<script>{_SCRIPT}</script></html>
"""


def _counts(nodes: dict[str, dict[str, int]]) -> str:
    """Return the number of nodes on each EP, the CPU EP last."""
    totals = [(ep.replace("ExecutionProvider", ""), sum(nodes[ep].values())) for ep in sorted(nodes, key=CPU.__eq__)]
    return ", ".join(f"{ep} {count}" for ep, count in totals if count)


def _table(titles: list[str], rows: dict[str, list[tuple[str, object]]]) -> str:
    head = "".join(f"<th>{escape(title)}</th>" for title in ("", *titles))
    lines = [f"<table><thead><tr>{head}</tr></thead><tbody>"]
    for name, cells in rows.items():
        row = "".join(f'<td class="{kind}">{escape(str(text))}</td>' for kind, text in cells)
        lines.append(f"<tr><th>{escape(name)}</th>{row}</tr>")
    return "\n".join([*lines, "</tbody></table>"])
