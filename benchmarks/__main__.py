# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Measure what the backend costs: ``python -m benchmarks [SUBJECT...]``, see README.md."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions, version
from pathlib import Path
from statistics import median

from benchmarks.comparison import BY_HAND, EXCESS, OF_STOCK, RATIO, VALUE, Comparison, figure
from benchmarks.sampling import disturbance_while_idle

# Modules of this package, each with its COMPARISONS, that every machine can run; others can be named.
SUBJECTS = ("run_path", "prepare_path", "memory", "concurrency")
ATTEMPTS = 3


def measure(python: str, subject: str, number: int, rounds: int, attempts: int) -> dict:
    """Measure one comparison with one environment's interpreter, again where the machine was busy."""
    for _ in range(attempts):
        command = [python, "-m", "benchmarks.worker", subject, str(number), str(rounds)]
        measured = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        if not measured["disturbance"]:
            break
    return measured


def judge(comparison: Comparison, measured: dict, of_stock: dict | None) -> dict:
    """Work out every figure of a comparison, and whether the judged one keeps its limit.

    :param measured: what :func:`measure` returned with the backend.
    :param of_stock: the same with the stock backend, if that was measured.
    """
    row = {"name": comparison.name, "judged": comparison.judged, "limit": comparison.limit, "unit": comparison.unit}
    samples = measured["samples"]
    for which in (VALUE, RATIO, EXCESS) if BY_HAND in samples else (VALUE,):
        row[which] = figure(which, samples)
    if BY_HAND in samples:
        row[BY_HAND] = median(samples[BY_HAND])
    if of_stock:
        which = RATIO if BY_HAND in samples else VALUE
        row["stock"] = figure(which, of_stock["samples"])
        if row["stock"][0]:  # memory may not grow at all
            row[OF_STOCK] = (row[which][0] / row["stock"][0],)
    row["disturbance"] = measured["disturbance"] or (of_stock or {}).get("disturbance", "")
    row["met"] = None
    if comparison.limit is not None and comparison.judged in row and not row["disturbance"]:
        judged = row[comparison.judged][0]
        # A ratio to the digits that are printed.
        row["met"] = (judged if comparison.judged in (VALUE, EXCESS) else round(judged, 3)) <= comparison.limit
    return row


def amount(value: float, unit: str) -> str:
    """A measurement for people: bytes in MiB, seconds in the unit that suits them."""
    if unit == "B":
        return f"{value / 2**20:.1f} MiB"
    for least, factor, name in ((1, 1, "s"), (1e-3, 1e3, "ms"), (0, 1e6, "µs")):
        if abs(value) >= least:
            return f"{value * factor:.2f} {name}"
    raise AssertionError


def table(rows: list[dict]) -> Iterator[str]:
    """The lines of the table."""
    cells = [("", "backend", "by hand", "ratio (quartiles)", "excess", "of stock", "limit", "")]
    for row in rows:
        unit, limit = row["unit"], row["limit"]
        backend = row[VALUE][0]
        shown = dict.fromkeys((BY_HAND, RATIO, EXCESS, OF_STOCK), "")
        if RATIO in row:
            shown[BY_HAND] = amount(row[BY_HAND], unit)
            shown[RATIO] = "{:.3f} ({:.3f} to {:.3f})".format(*row[RATIO])
            shown[EXCESS] = amount(row[EXCESS][0], unit)
        if OF_STOCK in row:
            shown[OF_STOCK] = f"{row[OF_STOCK][0]:.3f}"
        bound = ""
        if limit is not None:
            bound = f"{row['judged']} {amount(limit, unit) if row['judged'] in (VALUE, EXCESS) else f'{limit:.3f}'}"
        verdict = {None: "not judged" if limit is not None else "", True: "met", False: "MISSED"}[row["met"]]
        cells.append((row["name"], amount(backend, unit), *shown.values(), bound, verdict))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()


def machine() -> dict[str, str]:
    """What the numbers depend on."""
    model = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "")
    return {
        "CPU": model.partition(":")[2].strip() or platform.machine(),
        "CPUs": str(os.cpu_count()),
        "system": platform.platform(),
        "Python": platform.python_version(),
        # Of onnxruntime's distributions any may be installed.
        **{name: version(packages_distributions()[name][0]) for name in ("onnxruntime", "onnx", "numpy")},
    }


def main() -> int:
    """Measure, print, write; 1 where a limit was missed, 2 where the machine was busy."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.partition(":")[0])
    parser.add_argument("subjects", nargs="*", default=SUBJECTS, metavar="SUBJECT", help=f"of {', '.join(SUBJECTS)}")
    parser.add_argument("--stock", metavar="PYTHON", help="interpreter of an environment with the stock wheel")
    parser.add_argument("--rounds", type=int, default=100, help="interleaved rounds of each comparison (%(default)s)")
    parser.add_argument("--match", default="", help="only comparisons whose name holds this")
    parser.add_argument("--json", type=Path, help="file to write everything to")
    parser.add_argument("--busy", action="store_true", help="go on though the machine is busy, judging nothing then")
    arguments = parser.parse_args()

    disturbance = disturbance_while_idle()
    if disturbance and not arguments.busy:
        print(f"The machine is busy: {disturbance}. Times would mean nothing, so none were taken.", file=sys.stderr)
        return 2

    rows, attempts = [], 1 if arguments.busy else ATTEMPTS
    for subject in arguments.subjects:
        for number, comparison in enumerate(importlib.import_module(f"benchmarks.{subject}").COMPARISONS):
            if arguments.match not in comparison.name:
                continue
            print(f"... {comparison.name}", file=sys.stderr)
            rounds = comparison.rounds or arguments.rounds
            measured = measure(sys.executable, subject, number, rounds, attempts)
            of_stock = None
            if comparison.stock and arguments.stock:
                of_stock = measure(arguments.stock, subject, number, rounds, attempts)
            rows.append(judge(comparison, measured, of_stock))

    here = machine()
    print("\n".join(f"{name}: {value}" for name, value in here.items()), *table(rows), sep="\n")
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(
            json.dumps({"machine": here, "rounds": arguments.rounds, "comparisons": rows}, indent=1)
        )
    disturbed = [f"  {row['name']}: {row['disturbance']}" for row in rows if row["disturbance"]]
    if disturbed:
        print(
            "The machine was busy, so these prove nothing and were not judged:", *disturbed, sep="\n", file=sys.stderr
        )
        return 2
    return int(any(row["met"] is False for row in rows))


if __name__ == "__main__":
    sys.exit(main())
