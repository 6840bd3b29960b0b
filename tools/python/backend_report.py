# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Show on which execution providers (EPs) the tests of a suite ran, and compare configurations test by test.

A file is a report of the pytest plugin ``onnxruntime.backend.conformance``. The program prints the number of tests with
each result, and the most frequent reasons of failures. It requires pandas, and does not require ONNX Runtime.
"""

import argparse
import json
import re
import sys
from collections import Counter
from html import escape
from pathlib import Path

import pandas as pd

# The results of a test, with a description and a color. The first five are passed tests.
KINDS = {
    "ep": ("passed, no node on the CPU EP", "#2e9f5b"),
    "mixed": ("passed, some nodes on the CPU EP", "#dfa52a"),
    "cpu": ("passed, all nodes on the CPU EP", "#4484d6"),
    "none": ("passed, no node left after ORT's optimizations", "#9aa3ad"),
    "unknown": ("passed, ORT has no record of the nodes", "#c3c9d0"),
    "values": ("failed, wrong values", "#d6302a"),
    "kernel": ("failed, missing kernel", "#a156c4"),
    "error": ("failed, another error", "#e8730c"),
    "skipped": ("did not run", "#e6e8ea"),
}
PASSED = list(KINDS)[:5]
FAILED = ["values", "kernel", "error"]
VERSIONS = ["onnxruntime", "backend", "onnx"]
MOST_REASONS = 5  # of each report
CPU = "CPUExecutionProvider"
ON_CPU = {CPU, "AzureExecutionProvider"}  # the EPs of a model without another EP
_WITHOUT_KERNEL = re.compile("NotImplemented: |.*is not a registered function/op")
# onnx creates each test for each device, and skips the tests of devices that the backend does not support.
_OTHER_DEVICE = re.compile(r"support device \w+$")
_STYLE = """:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;margin:1.5em;max-width:75em}
.bar{display:flex;height:1.2em;border-radius:4px;overflow:hidden;margin:.2em 0 .8em}
.legend span{margin-right:1.2em;white-space:nowrap}
.legend i{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.4em}
table{border-collapse:collapse;margin:1em 0}
th,td{padding:.25em .7em;border-bottom:1px solid #8884;text-align:left;vertical-align:top}
thead th{position:sticky;top:0;background:Canvas}
.filtered tbody th{min-width:24em}.filtered tbody th,td span{overflow-wrap:anywhere}
td span{display:block;min-width:12em;border-left:5px solid;
padding-left:.5em;max-width:45em;max-height:6em;overflow:auto}
input[type=search]{font:inherit;width:24em;padding:.2em .5em}
"""
_SCRIPT = """const [text, differ] = document.querySelectorAll("input")
const rows = document.querySelectorAll("table.filtered tbody tr")
const kinds = row => new Set([...row.cells].slice(1).map(cell => cell.firstElementChild?.className))
const filter = () => rows.forEach(row => row.hidden = differ.checked && kinds(row).size < 2
  || !row.textContent.toLowerCase().includes(text.value.toLowerCase()))
text.oninput = differ.oninput = filter"""


def read(argument: str) -> pd.DataFrame:
    """Return a row for each test of a report ``[NAME=]FILE``. The last line of a test counts."""
    name, _, path = argument.rpartition("=")
    rows = []
    for line in map(json.loads, Path(path).read_text(encoding="utf-8").splitlines()):
        if line["outcome"] == "skipped" and _OTHER_DEVICE.search(line["reason"]):
            continue
        row = {"report": name or Path(path).stem, "test": line["test"], "kind": kind_of(line)}
        row |= {"nodes": nodes_of(line), "reason": line["reason"], "operators": sorted(line["operators"])}
        row["trusted"] = trusted_of(line)
        rows.append(row | {version: line[version] for version in VERSIONS})
    return pd.DataFrame(rows).drop_duplicates("test", keep="last")


def kind_of(line: dict) -> str:
    """Return the result of a test."""
    reason = line["reason"]
    if line["outcome"] == "failed":
        if reason.startswith("AssertionError"):
            return "values"
        return "kernel" if _WITHOUT_KERNEL.match(reason) else "error"
    if line["outcome"] == "skipped":
        return "skipped"
    eps: set[str] = set()
    for model in line["models"]:
        if model["operators"]:
            eps.update(ep for ep, operators in model["operators"].items() if operators)
        else:  # ORT has no record
            eps.add(CPU if ON_CPU.issuperset(model["providers"]) else "")
    if "" in eps or not line["models"]:
        return "unknown"
    if CPU not in eps:
        return "ep" if eps else "none"
    return "cpu" if len(eps) == 1 else "mixed"


def nodes_of(line: dict) -> str:
    """Return the number of nodes on each EP as text."""
    counts: Counter[str] = Counter()
    for model in line["models"]:
        for ep, operators in model["operators"].items():
            counts[ep.removesuffix("ExecutionProvider")] += sum(operators.values())
    return ", ".join(f"{ep} {count}" for ep, count in counts.items() if count)


def trusted_of(line: dict) -> str:
    """Return the settings of a test outside of the allowlist: those of the part "trusted" of the configuration."""
    names = set()
    for model in line["models"]:
        for place, settings in model["unconfirmed"].items():
            names.update(f"{place}.{name}" for name, value in settings.items() if value == "trusted")
    return ", ".join(sorted(names))


def about_trusted(tests: pd.DataFrame) -> list[str]:
    """Return a sentence about each report with settings outside of the allowlist."""
    found = tests[tests["trusted"] != ""].groupby("report", sort=False)["trusted"].unique()
    return [f"{report}: settings outside of the allowlist: {'; '.join(names)}" for report, names in found.items()]


def totals(tests: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each report: the share of passed tests, the number with each result, and the versions."""
    counts = pd.crosstab(tests["report"], tests["kind"]).reindex(columns=list(KINDS), fill_value=0)
    ran = counts.drop(columns="skipped").sum(axis=1)
    counts.insert(0, "passed", (100 * counts[PASSED].sum(axis=1) / ran).map("{:.1f}%".format))
    return counts.join(tests.groupby("report")[VERSIONS].last()).loc[tests["report"].unique()]


def reasons(tests: pd.DataFrame) -> pd.DataFrame:
    """Return the most frequent reasons of failures of each report."""
    failed = tests[tests["kind"].isin(FAILED)]
    counts = failed.groupby(["report", "reason"], sort=False).size().rename("tests").reset_index()
    counts = counts.sort_values("tests", ascending=False, kind="stable").groupby("report").head(MOST_REASONS)
    return counts.sort_values(["report", "tests"], ascending=[True, False], kind="stable")[
        ["report", "tests", "reason"]
    ]


def cells(tests: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each test, a column for each report, and HTML in the cells."""
    more = tests["nodes"].where(tests["kind"].isin(PASSED), tests["reason"])
    texts = tests["kind"] + more.map(lambda text: f": {text}" if text else "")
    return _table(tests["test"], tests, texts, tests["kind"])


def of_operators(tests: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each operator, with the tests whose models contain it, and their most frequent result."""
    each = tests[tests["kind"] != "skipped"].explode("operators").dropna(subset="operators")
    groups = each.groupby(["operators", "report"], sort=True)["kind"]
    found = groups.agg(
        total="size",
        passed=lambda kinds: kinds.isin(PASSED).sum(),
        kind=lambda kinds: kinds[kinds.isin(PASSED) == kinds.isin(PASSED).any()].mode()[0],
    ).reset_index()
    texts = found.apply(lambda row: f"{row['kind']}: {row['passed']} of {row['total']} tests passed", axis=1)
    return _table(found["operators"], found, texts, found["kind"])


def _table(index: pd.Series, rows: pd.DataFrame, texts: pd.Series, kinds: pd.Series) -> pd.DataFrame:
    styled = [
        f'<span class="{kind}" style="border-color:{KINDS[kind][1]}">{escape(text)}</span>'
        for text, kind in zip(texts, kinds, strict=True)
    ]
    frame = pd.DataFrame({"row": index.map(escape), "report": rows["report"].map(escape), "cell": styled})
    return frame.pivot(index="row", columns="report", values="cell").fillna("").rename_axis(index=None, columns=None)


def page(tests: pd.DataFrame) -> str:
    """Return an HTML page that loads nothing."""
    counts = totals(tests)
    bars = []
    for report, row in counts.iterrows():
        parts = "".join(
            f'<div title="{kind}: {row[kind]}" style="background:{color};flex:{row[kind]}"></div>'
            for kind, (_, color) in KINDS.items()
        )
        bars.append(f'{escape(str(report))}: {row["passed"]} passed<div class="bar">{parts}</div>')
    legend = "".join(
        f'<span><i style="background:{color}"></i>{kind}: {description}</span> '
        for kind, (description, color) in KINDS.items()
    )
    filtered = {"escape": False, "border": 0, "classes": "filtered"}
    return f"""<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>Tests and execution providers</title><style>{_STYLE}</style>
<h1>Tests and execution providers (EPs)</h1>{"".join(bars)}<p class="legend">{legend}</p>
{counts.rename_axis(index=None, columns=None).to_html(border=0)}
{"".join(f"<p>{escape(text)}</p>" for text in about_trusted(tests))}
<h2>Most frequent reasons of failures</h2>{reasons(tests).to_html(border=0, index=False)}
<h2>Operators and tests</h2><p><input type="search" placeholder="Show operators and tests that contain">
<label><input type="checkbox"> only rows whose results differ</label></p>
{of_operators(tests).to_html(**filtered)}{cells(tests).to_html(**filtered)}<script>{_SCRIPT}</script></html>
"""


def safe(text: str) -> str:
    """Return text without characters that act on a terminal or that UTF-8 lacks."""
    return "".join(one if one.isprintable() or one == "\n" else ascii(one)[1:-1] for one in text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", metavar="[NAME=]FILE", nargs="+", help="a report, and a name for its configuration")
    parser.add_argument("--html", type=Path, metavar="PAGE", help="write a page with all operators and tests")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write a row for each test of each report")
    chosen = parser.parse_args()
    reports = []
    for argument in chosen.files:
        try:
            reports.append(read(argument))
        except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
            expected = "not a report of the pytest plugin onnxruntime.backend.conformance"
            parser.error(safe(f"{argument}: {expected}: {error!r}"))
    tests = pd.concat(reports)
    if tests.duplicated(["report", "test"]).any():
        parser.error("two reports have the same name. Use NAME=FILE")
    if chosen.html:
        chosen.html.write_text(safe(page(tests)), encoding="utf-8")
    if chosen.csv:
        table = tests.drop(columns="operators").map(lambda text: re.sub(r"^(?=[=+\-@])", "'", safe(text)))
        table.to_csv(chosen.csv, index=False)  # a spreadsheet would compute a text that begins with =
    print(safe(totals(tests).to_string()), end="\n\n")
    for text in about_trusted(tests):
        print(safe(text))
    for report, tests_of, reason in reasons(tests).itertuples(index=False):
        print(safe(f"{report}: {tests_of} tests failed for one reason: {' '.join(reason.split())}"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
