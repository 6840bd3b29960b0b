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
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from onnxruntime.backend.command_line import report_page, report_tables, tables
from onnxruntime.backend.command_line.output import INTERRUPTED, MistakeError, Page, progress
from onnxruntime.backend.command_line.report_tables import FAILURES, OF_PASSED, RESULTS, VERSIONS, place
from onnxruntime.backend.provider_names import CPU, ON_ANY_DEVICE

# By the option of a form: a function that returns the text of the form, and the help for the option.
_FORMS = {
    "html": (report_page.html, "write an HTML page that compares all operators and tests"),
    "csv": (report_tables.csv_text, "write a CSV file with one row for each test and configuration"),
    "markdown": (report_tables.markdown, "write Markdown tables of the totals, operators, and failed tests"),
}
# onnx creates each test for each device, and skips the tests of devices that the backend does not support.
_OTHER_DEVICE = re.compile(r"support device \w+$")
_UNKNOWN = ""  # EP
# A reason is common from this number and share of the failed tests on. The text is cut.
_FEWEST = 3
_SHARE = 0.25
_LONGEST = 400
_WITHOUT_KERNEL = re.compile("NotImplemented: |.*is not a registered function/op")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    use = "a report, and a name for its configuration (default: the name of the file)"
    parser.add_argument("files", metavar="[NAME=]FILE", nargs="+", help=use)
    tables.add_arguments(parser, _FORMS)


def execute(chosen: argparse.Namespace) -> tuple[dict, int]:
    tables.check_paths(chosen, _FORMS)
    configurations: list[dict] = []
    tests: dict[str, dict] = {}
    interrupted = False
    for number, text in enumerate(chosen.files, 1):
        progress.show(f"reading report {number} of {len(chosen.files)}: {text}")
        try:
            name, versions, found = _read(text)
        except KeyboardInterrupt:
            if not configurations:
                raise
            interrupted = True
            break
        counts = dict.fromkeys([*RESULTS, *FAILURES], 0)
        configuration = {"name": name, **versions, **counts}
        configurations.append(configuration)
        for test, one in found.items():
            configuration[one["result"]] += 1
            if one["failure"]:
                configuration[one["failure"]] += 1
            by_name = tests.setdefault(test, {})
            by_name[name] = one

    names = {configuration["name"] for configuration in configurations}
    if len(names) < len(configurations):
        raise MistakeError("two reports have the same name. Use NAME=FILE")

    tests = _sorted(tests)
    nodes, results = _of_operators(tests)
    result = {"configurations": configurations, "operators": nodes, "operator_tests": results, "tests": tests}
    tables.write(chosen, _FORMS, result)
    return result, INTERRUPTED if interrupted else 0


def _of_operators(tests: dict) -> tuple[dict, dict]:
    """Return, by operator and configuration, the nodes on each EP in passed tests, and the results of all tests."""
    nodes: dict[str, dict] = defaultdict(_by_name)
    results: dict[str, dict] = defaultdict(_by_name)
    for by_name in tests.values():
        of_model = set()
        for one in by_name.values():
            of_model.update(one.pop("operators"))

        for name, one in by_name.items():
            result = one["result"]
            of_test = set(of_model)
            for ep, counts in one["nodes"].items():
                of_test.update(counts)
                if result not in OF_PASSED:
                    continue
                for operator, count in counts.items():
                    nodes[operator][name][ep] += count
            for operator in of_test:
                results[operator][name][result] += 1
    return _sorted(nodes), _sorted(results)


def _sorted(table: dict) -> dict:
    return dict(sorted(table.items()))


def _by_name() -> dict[str, Counter]:
    return defaultdict(Counter)


def _read(text: str) -> tuple[str, dict, dict]:
    """Return a report's name, versions, and results by test. Of a test with several lines, the last one counts."""
    name, _, path = text.rpartition("=")
    versions = dict.fromkeys(VERSIONS, "")
    found = {}
    try:
        for line in _lines(path):
            if line["outcome"] == "skipped" and _OTHER_DEVICE.search(line["reason"]):
                continue
            test = str(line["test"])
            found[test] = _result(line)
            for package in versions:
                versions[package] = str(line.get(package, ""))
    except OSError as error:
        raise MistakeError(f"cannot read {path!a}: {error.strerror}") from None
    except (AttributeError, KeyError, TypeError, ValueError):
        raise MistakeError(f"{path!a} is not a report of the pytest plugin onnxruntime.backend.conformance") from None
    return name or Path(path).stem, versions, found


def _lines(path: str) -> Iterator[dict]:
    """Yield the lines of a report, or for a ``report.json`` of the ONNX Backend Scoreboard, lines for its tests."""
    content = Path(path).read_text(encoding="utf-8")
    if not path.endswith(".json"):
        for line in content.splitlines():
            yield json.loads(line)
        return
    report = json.loads(content)
    for outcome in ("passed", "failed", "skipped"):
        for test in report[outcome]:
            yield {"test": test, "outcome": outcome, "reason": "", "models": []}


def _result(line: dict) -> dict:
    """Return the result of a test, with its nodes on each EP and the operators of its models."""
    nodes: dict[str, Counter] = defaultdict(Counter)
    eps = set()
    for model in line["models"]:
        for ep, counts in model["operators"].items():
            nodes[ep].update(counts)
            if counts:
                eps.add(ep)
        if not model["operators"]:
            only_on_cpu = ON_ANY_DEVICE.issuperset(model["providers"])
            eps.add(CPU if only_on_cpu else _UNKNOWN)
    if not line["models"]:
        eps.add(_UNKNOWN)

    reason = str(line["reason"])
    failure = ""
    if line["outcome"] == "passed":
        result = place(eps)
    elif line["outcome"] == "failed":
        result = "failed"
        failure = _failure(reason)
    else:
        result = "skipped"
    return {
        "result": result,
        "failure": failure,
        "nodes": nodes,
        "reason": reason,
        "operators": list(line.get("operators", ())),
    }


def _failure(reason: str) -> str:
    if reason.startswith("AssertionError"):
        return "values"
    if _WITHOUT_KERNEL.match(reason):
        return "kernel"
    return "error"


def show(result: dict, page: Page) -> None:
    rows = [["", *RESULTS]]
    for configuration in result["configurations"]:
        row = [configuration["name"]]
        for kind in RESULTS:
            row.append(str(configuration[kind]))
        rows.append(row)
    page.table(rows)
    page.add()
    for kind, description in OF_PASSED.items():
        page.add(description, 9, kind)

    for configuration in result["configurations"]:
        name = configuration["name"]
        reason, count = _common_reason(result, name)
        if count:
            page.add(f"{name}: {count} of {configuration['failed']} failed tests for one reason: {reason}")
        on_cpu = []
        for operator, by_name in result["operators"].items():
            eps = set(by_name.get(name, ()))
            if eps == {CPU}:
                on_cpu.append(operator)
        on_another_ep = configuration["ep"] or configuration["mixed"]
        if on_cpu and on_another_ep:
            page.add(f"{name}: operators on the CPU EP alone: {', '.join(on_cpu)}")


def _common_reason(result: dict, name: str) -> tuple[str, int]:
    """Return the reason for which many tests of a configuration fail, and their number, or ``("", 0)``."""
    reasons: Counter[str] = Counter()
    for by_name in result["tests"].values():
        one = by_name.get(name)
        if one and one["result"] == "failed":
            reasons[one["reason"]] += 1
    for reason, count in reasons.most_common(1):
        if reason and count >= max(_FEWEST, reasons.total() * _SHARE):
            return reason[:_LONGEST], count
    return "", 0
