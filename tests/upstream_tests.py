# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Runs ONNX Runtime's own tests of the backend, unchanged, on this backend and on the stock wheel.

Run ``python tests/upstream_tests.py CHECKOUT STOCK``. It runs each test file in a checkout of ONNX Runtime that
contains ``onnxruntime.backend``. Each file runs with this Python, and with the Python of an environment with the stock
wheel. The exit status is 1 if a test passes with the stock wheel only, or is skipped in only one environment. The files
include ONNX's series, which needs pytest, and onnx as ``onnxruntime/test/python/requirements.txt`` of the checkout
specifies it.
"""

import argparse
import collections
import json
import os
import runpy
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path


def files(checkout: Path) -> list[Path]:
    """The tests that use the backend."""
    found = sorted((checkout / "onnxruntime" / "test" / "python").rglob("*.py"))
    return [file for file in found if "onnxruntime.backend" in file.read_text(encoding="utf-8")]


def run(file: Path, out: Path) -> None:
    """Run a file as ``python FILE`` does, and write the outcome of each of its tests."""
    results: dict[str, str] = {}

    class Result(unittest.TextTestResult):
        def startTest(self, test) -> None:  # noqa: N802 (unittest's name)
            super().startTest(test)
            results[test.id()] = "failed"

        def addSuccess(self, test) -> None:  # noqa: N802
            super().addSuccess(test)
            results[test.id()] = "passed"

        def addSkip(self, test, reason) -> None:  # noqa: N802
            super().addSkip(test, reason)
            results[test.id()] = "skipped"

    unittest.TextTestRunner.resultclass = Result
    sys.argv[:] = [str(file)]
    sys.path[0] = str(file.parent)
    try:
        runpy.run_path(str(file), run_name="__main__")
    finally:
        out.write_text(json.dumps(results))


def outcomes(python: str, file: Path, path: str) -> dict[str, str]:
    """Test to ``passed``, ``failed`` or ``skipped``. Python looks for modules in ``path`` first."""
    environment = {**os.environ, "PYTHONPATH": path}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "outcomes.json")
        command = [python, "-W", "ignore", __file__, "--run", str(file.resolve()), str(out)]
        streams = {"capture_output": True, "text": True, "errors": "replace"}
        done = subprocess.run(command, cwd=file.parent, env=environment, check=False, **streams)
        results = json.loads(out.read_text()) if out.exists() else {}
    if not results:
        raise SystemExit(f"{python} ran no test of {file.name}:\n{done.stderr[-3000:]}")
    return results


def compare(file: Path, stock: str, path: str) -> list[str]:
    """Run a file on both, print a line with the counts, and return the tests that are worse on this backend."""
    there, here = outcomes(stock, file, ""), outcomes(sys.executable, file, path)
    text = ["{passed} passed, {failed} failed, {skipped} skipped".format_map(_counts(found)) for found in (there, here)]
    print(f"{file.name}: stock {text[0]}; here {text[1]}", flush=True)
    return [
        f"{name}: stock {there.get(name, 'has it not')}, here {here.get(name, 'has it not')}"
        for name in sorted(there | here)
        if (there.get(name), here.get(name)) not in (("failed", "passed"), (there.get(name),) * 2)
    ]


def _counts(results: dict[str, str]) -> collections.Counter[str]:
    return collections.Counter(results.values())


def main() -> int:
    if sys.argv[1:2] == ["--run"]:
        run(Path(sys.argv[2]), Path(sys.argv[3]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkout", type=Path, help="a checkout of ONNX Runtime, with its test data")
    parser.add_argument("stock", help="the Python of an environment with the stock wheel")
    path = os.environ.get("PYTHONPATH", "")
    parser.add_argument(
        "--path", default=path, help="a folder in which this Python finds the backend under test, for PYTHONPATH"
    )
    chosen = parser.parse_args()
    found = files(chosen.checkout)
    if not found:
        raise SystemExit(f"{chosen.checkout} has no tests of onnxruntime.backend")
    stock = str(Path(chosen.stock).absolute())  # not resolved: an environment's Python is a link
    worse = [line for file in found for line in compare(file, stock, chosen.path)]
    for line in worse:
        print(line)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
