# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Measure the cost of the backend: ``python -m benchmarks [SUBJECT...]``, see docs/benchmarks.md."""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import os
import platform
import subprocess
import sys
import time
from importlib.metadata import packages_distributions, version
from pathlib import Path

from benchmarks import record, report
from benchmarks.comparison import BY_HAND, RATIO, VALUE, Comparison, Figure, Row, figure

# Modules of this package with COMPARISONS that every machine can run. Others can be specified.
SUBJECTS = ("run_path", "prepare_path", "memory", "concurrency")
FREE_THREADED = "free_threaded"  # measured with another Python


class Measurement:
    """One comparison of a subject, and its best result so far."""

    def __init__(
        self, subject: str, number: int, comparison: Comparison, rounds: int, python: str, stock: str | None
    ) -> None:
        self.comparison = comparison
        self.row: Row | None = None
        self._arguments = [subject, str(number), str(comparison.rounds or rounds)]
        self._python = python
        self._stock = stock if comparison.stock else None

    def measure(self) -> None:
        """Measure the comparison, and keep the result if it is the first or steadier than the last."""
        samples, busy = self._samples(self._python)
        ratio = figure(RATIO, samples) if BY_HAND in samples else None
        stock: Figure | None = None
        if self._stock:
            of_stock, also_busy = self._samples(self._stock)
            stock, busy = figure(RATIO if ratio else VALUE, of_stock), busy or also_busy
        row = Row(self.comparison, figure(VALUE, samples), ratio, stock, busy)
        if self.row is None or not row.unsteady or (ratio and self.row.ratio and ratio.spread < self.row.ratio.spread):
            self.row = row

    def _samples(self, python: str) -> tuple[dict, str]:
        command = [python, "-m", "benchmarks.worker", *self._arguments]
        measured = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        return measured["samples"], measured["busy"]


def machine() -> dict[str, str]:
    """The facts that the figures depend on."""
    model = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "")
    return {
        "date": datetime.date.today().isoformat(),
        "CPU": model.partition(":")[2].strip() or platform.machine(),
        "CPUs": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}",
        "Python": platform.python_version(),
        # Each distribution of onnxruntime can be the installed one.
        **{name: version(packages_distributions()[name][0]) for name in ("onnxruntime", "onnx", "numpy")},
    }


def main() -> int:
    """Measure, print and write; return 1 if a judged figure is above its limit."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.partition(":")[0])
    parser.add_argument(
        "subjects", nargs="*", default=SUBJECTS, metavar="SUBJECT", help=f"modules (default: {' '.join(SUBJECTS)})"
    )
    parser.add_argument("--stock", metavar="PYTHON", help="interpreter of an environment with the stock wheel")
    parser.add_argument(
        "--free-threaded",
        metavar="PYTHON",
        help=f"interpreter without the global lock, of an environment with this backend: also measure {FREE_THREADED}",
    )
    parser.add_argument("--rounds", type=int, default=100, help="most rounds of each comparison (default: %(default)s)")
    parser.add_argument(
        "--minutes", type=float, default=5, help="time after which nothing is repeated (default: %(default)s)"
    )
    parser.add_argument("--match", default="", help="measure only comparisons whose name contains this text")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument(
        "--record",
        action="store_true",
        help=f"keep the last {record.KEPT} results in build/, and print each row that became slower",
    )
    parser.add_argument("--document", type=Path, help="write the table into this file, and the picture next to it")
    parser.add_argument("--table", metavar="NAME", help="the table in the file to write, without the picture")
    arguments = parser.parse_args()

    until = time.monotonic() + arguments.minutes * 60
    pythons = dict.fromkeys(arguments.subjects, sys.executable)
    if arguments.free_threaded:
        pythons[FREE_THREADED] = arguments.free_threaded
    measurements = [
        Measurement(subject, number, comparison, arguments.rounds, python, arguments.stock)
        for subject, python in pythons.items()
        for number, comparison in enumerate(importlib.import_module(f"benchmarks.{subject}").COMPARISONS)
        if arguments.match in comparison.name
    ]
    left = measurements
    while left and (time.monotonic() < until or left is measurements):
        for one in left:
            if one.row and time.monotonic() >= until:
                break
            print(f"... {one.comparison.name}", file=sys.stderr)
            one.measure()
        left = [one for one in left if one.row.unsteady]

    rows, here = [one.row for one in measurements], machine()
    print("\n".join(f"{name}: {value}" for name, value in here.items()), *report.table(rows), sep="\n")
    result = {"machine": here, "comparisons": report.plain(rows)}
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")
    if arguments.record:
        file = Path("build", f"{(arguments.json or Path('bench')).stem}-record.json")
        for line in record.slower_rows(record.read(file), result):
            print(line)
        record.add(file, result)
    if arguments.document:
        report.write_document(arguments.document, rows, here, arguments.table or "")
        if not arguments.table:
            report.draw(arguments.document.with_suffix(".svg"), rows, here)
    return int(any(row.met is False for row in rows))


if __name__ == "__main__":
    sys.exit(main())
