# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Programs that work with the stock backend work with this one, except for the differences in docs/configuration.md.

The patterns of ``stock_patterns.py`` run with this backend, and with the stock wheel of the same release. The variable
``ORT_STOCK_PYTHON`` is the Python of an environment with that wheel (``make test`` sets it).
"""

import decimal
import json
import os
import re
import subprocess
import sys
import unittest

from _paths import ROOT

import onnxruntime

RELEASE = tuple(map(int, onnxruntime.__version__.split(".")[:2]))
STOCK = os.environ.get("ORT_STOCK_PYTHON", "")
HEADING = "From the stock backend"

# The patterns that differ, and how the difference begins in docs/configuration.md.
DIFFERENCES = {
    "a model: None": "**A model of an unsupported type",
    "a model: a number": "**A model of an unsupported type",
    "a model: GraphProto": "**A model of an unsupported type",
    "a model: bytearray": "**A model of an unsupported type",
    "a model: an empty path": "**A model of an unsupported type",
    "values: too few": "**Missing inputs",
    "values: none": "**Missing inputs",
    "values: bytes for text": "**`bytes` in a string input",
    "values: np.void that is not UTF-8 for text": "**Text that UTF-8",
    "values: np.void of fields for text": "**A container in a string input",
    "values: objects for text": "**A missing value in a string input",
    "a list: [1, 2.5, None] for text": "**A missing value in a string input",
    **{
        f"a list: {value} for {kind}": "**Items of a list of numbers"
        for kind, values in (
            ("float", ([1e300], [None], [decimal.Decimal(1)])),
            ("int64", ([1.5],)),
            ("bool", ([2], ["0"], [None])),
        )
        for value in values
    },
    "values: foreign byte order": "**Arrays in non-native byte order",
    "prepare: inter_op_num_threads=-1": "**Attributes",
    "prepare: inter_op_num_threads=1.5": "**Attributes",
    "prepare: intra_op_num_threads=-1": "**Attributes",
    "prepare: intra_op_num_threads=None": "**Attributes",
    "prepare: graph_optimization_level=99": "**Attributes",
    "prepare: logid=b'a'": "**Attributes",
    **{
        f"{call}: {attribute}": "**Attributes"
        for call in ("prepare", "rep.run", "run")
        for attribute in ("log_severity_level='x'", "log_severity_level=1", "log_verbosity_level=1")
    },
    "rep.run: training_mode=True": "**Some attributes",
    "run: training_mode=True": "**Some attributes",
}

# The warnings that the stock backend does not give, and how the listed difference begins.
NEW_WARNINGS = {
    r"RuntimeWarning: .*ignored": "**Surplus inputs in a list, and unknown keyword arguments",
    r"RuntimeWarning: .* has no effect in this session": "**A setting without effect",
    r"RuntimeWarning: Environment variable ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS": "**An unknown name or",
    r"RuntimeWarning: device .* has no effect on an existing session": "**Devices other",
    r"RuntimeWarning: The session runs on the CPU": "**A CPU session on a GPU build",
}


def start(python: str, *arguments: str) -> subprocess.CompletedProcess:
    # make try finds the backend by this path, and the stock environment has its own backend.
    path = os.environ.get("PYTHONPATH", "") if python == sys.executable else ""
    environment = os.environ | {"PYTHONPATH": path}
    return subprocess.run([python, *arguments], capture_output=True, text=True, check=False, env=environment)


def outcomes(python: str) -> dict[str, dict]:
    """Return the outcomes of the patterns."""
    done = start(python, str(ROOT / "tests" / "stock_patterns.py"))
    if done.returncode:
        raise AssertionError(done.stderr[-3000:])
    return json.loads(done.stdout)


def worse(stock: dict, here: dict) -> str:
    """Return the difference for a program that works with the stock backend, or ``""`` for none."""
    if "raised" in stock:
        # A call may succeed that fails in stock. If it fails, a handler of the class that stock raises must catch it.
        if "returned" in here or stock["raised"][0] in here["raised"]:
            return ""
        return f"stock raises {stock['raised'][0]}, this {here['raised'][0]}: {here['message']}"
    if here.get("returned", ...) == stock["returned"]:
        return ""
    return f"stock returns {stock['returned']}, this " + (
        f"returns {here['returned']}" if "returned" in here else f"raises {here['raised'][0]}: {here['message']}"
    )


def new_warnings(stock: dict, here: dict) -> list[str]:
    """Return the warnings that only this backend gives and that the document does not list."""
    return [
        text
        for text in here["warnings"]
        if text not in stock["warnings"] and not any(re.match(known, text) for known in NEW_WARNINGS)
    ]


def listed() -> list[str]:
    """Return the differences that docs/configuration.md lists."""
    text = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    (section,) = re.findall(rf"^## {HEADING}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return re.findall(r"^- (.*)", section, re.MULTILINE)


@unittest.skipIf(RELEASE < (1, 28), "the list describes the stock backend of ORT 1.28 and later")
class ComparisonTest(unittest.TestCase):
    @unittest.skipUnless(STOCK, "ORT_STOCK_PYTHON is not set to a Python with the stock wheel")
    def test_patterns(self):
        stock, here = (outcomes(python) for python in (STOCK, sys.executable))
        self.assertEqual(stock.keys(), here.keys())
        self.assertGreater(len(stock), 200)
        found = {name: text for name in stock if (text := worse(stock[name], here[name]))}
        for name, text in found.items():
            with self.subTest(name):
                self.assertIn(name, DIFFERENCES, text)
        # Stock backends before 1.32 reject scalars of numpy.
        absent = {name for name in DIFFERENCES if "np.void" in name} if RELEASE < (1, 32) else set()
        self.assertEqual(DIFFERENCES.keys() - found.keys() - absent, set(), "listed, and no difference any more")
        for name in stock.keys() - DIFFERENCES.keys():
            with self.subTest(name):
                self.assertEqual(new_warnings(stock[name], here[name]), [])

    @unittest.skipUnless(STOCK, "ORT_STOCK_PYTHON is not set to a Python with the stock wheel")
    def test_the_import_that_detects_the_stock_backend(self):
        line = "from onnxruntime.backend import NotPermittedError"
        self.assertIn(f"\n{line}\n", (ROOT / "docs" / "installation.md").read_text(encoding="utf-8"))
        for executable, expected in ((STOCK, "ImportError"), (sys.executable, "")):
            done = start(executable, "-c", line)
            self.assertEqual((done.returncode != 0, expected in done.stderr), (bool(expected), True), done.stderr)

    def test_each_difference_is_in_the_document(self):
        differences = listed()
        for beginning in {*DIFFERENCES.values(), *NEW_WARNINGS.values()}:
            self.assertEqual(sum(text.startswith(beginning) for text in differences), 1, beginning)


if __name__ == "__main__":
    unittest.main()
