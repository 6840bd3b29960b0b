# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Measure the cost of the backend: ``python -m benchmarks [SUBJECT...]``, see docs/benchmarks.md."""

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
SUBJECTS = ("run_path", "prepare_path", "memory", "concurrency", "comparing")
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
        self._stock: str | None = None
        if comparison.stock:
            self._stock = stock

    def measure(self) -> None:
        """Measure the comparison, and keep the result if it is the first or steadier than the last."""
        samples, busy = self._samples(self._python)
        ratio: Figure | None = None
        kind = VALUE
        if BY_HAND in samples:
            kind = RATIO
            ratio = figure(RATIO, samples)
        stock: Figure | None = None
        if self._stock:
            of_stock, also_busy = self._samples(self._stock)
            stock = figure(kind, of_stock)
            busy = busy or also_busy
        row = Row(self.comparison, figure(VALUE, samples), ratio, stock, busy)
        if self.row is None or not row.unsteady:
            self.row = row
        elif ratio and self.row.ratio and ratio.spread < self.row.ratio.spread:
            self.row = row

    def _samples(self, python: str) -> tuple[dict, str]:
        command = [python, "-m", "benchmarks.worker", *self._arguments]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        measured = json.loads(done.stdout)
        return measured["samples"], measured["busy"]


def machine() -> dict[str, str]:
    """The facts that the figures depend on."""
    found = {
        "date": datetime.date.today().isoformat(),
        "CPU": platform.machine(),
        "CPUs": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}",
        "Python": platform.python_version(),
    }
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            found["CPU"] = line.partition(":")[2].strip()
    # Each distribution of onnxruntime can be the installed one.
    for name in ("onnxruntime", "onnx", "numpy"):
        found[name] = version(packages_distributions()[name][0])
    return found


def _parse() -> argparse.Namespace:
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
    return parser.parse_args()


def _chosen(arguments: argparse.Namespace) -> list[Measurement]:
    pythons = dict.fromkeys(arguments.subjects, sys.executable)
    if arguments.free_threaded:
        pythons[FREE_THREADED] = arguments.free_threaded
    found = []
    for subject, python in pythons.items():
        comparisons = importlib.import_module(f"benchmarks.{subject}").COMPARISONS
        for number, comparison in enumerate(comparisons):
            if arguments.match in comparison.name:
                one = Measurement(subject, number, comparison, arguments.rounds, python, arguments.stock)
                found.append(one)
    return found


def _measure(measurements: list[Measurement], minutes: float) -> list[Row]:
    """Measure everything once, and again what is not steady while there is time."""
    until = time.monotonic() + minutes * 60
    left = measurements
    while left and (time.monotonic() < until or left is measurements):
        for one in left:
            if one.row and time.monotonic() >= until:
                break
            print(f"... {one.comparison.name}", file=sys.stderr)
            one.measure()
        left = [one for one in left if one.row.unsteady]
    return [one.row for one in measurements]


def main() -> int:
    """Measure, print and write; return 1 if a judged figure is above its limit."""
    arguments = _parse()
    rows = _measure(_chosen(arguments), arguments.minutes)
    here = machine()
    for name, value in here.items():
        print(f"{name}: {value}")
    for line in report.table(rows):
        print(line)
    result = {"machine": here, "comparisons": report.plain(rows)}
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")
    if arguments.record:
        named = arguments.json or Path("bench")
        file = Path("build", f"{named.stem}-record.json")
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
