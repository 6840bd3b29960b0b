# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The tool for a new release finds what it must report, and changes no file of this tree. Nothing is downloaded."""

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import _paths
import backend_new_release as tool

REPORT = """<testsuites><testsuite>
<testcase classname="onnxruntime.test.python.backend.explanations.test_ort_messages.A" name="test_a">
<failure message="other\n  text"/><failure message="again"/></testcase>
<testcase classname="tests.test_packaging.B" name="test_b"><error>label</error></testcase>
<testcase classname="tests.test_packaging.B" name="test_c"><skipped/></testcase>
<testcase classname="" name="tests.test_demo"><error>cannot be imported</error></testcase>
</testsuite></testsuites>"""
# The releases of a defect, and whether onnxruntime 1.32.0 shows it.
RELEASES = {
    "onnxruntime 1.31.1": False,
    "onnxruntime 1.32.0": True,
    "onnxruntime 1.31.1 and 1.32.0, Linux": True,
    "onnxruntime 1.24 to 1.32": True,
    "onnxruntime 1.24 to 1.26": False,
    "onnxruntime 1.31.1, 1.32.0, and the other wheels": True,
    "onnxruntime-gpu 1.32.0": False,
    "onnxruntime-qnn 2.7.0 on 1.32.0": False,
}


class ToolTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def test_failed_tests_by_cause(self):
        found = tool.by_cause(tool.failed_tests(self.write("tests.xml", REPORT)))
        self.assertEqual(
            {cause: lines for cause, lines in found.items() if lines},
            {
                "messages of ORT": [f"ort_messages.A.test_a: {text}" for text in ("other text", "again")],
                "the release is not accepted yet": ["packaging.B.test_b: label"],
                "other": [".tests.test_demo: cannot be imported"],
            },
        )

    def test_the_defects_of_a_release(self):
        rows = [f"| Text | {releases} | [{i}]({i}.py) | No |" for i, releases in enumerate(RELEASES)]
        shown = [f"tools/ort_defects/{i}.py" for i, shows in enumerate(RELEASES.values()) if shows]
        self.assertEqual(tool.listed_defects("\n".join(rows), "onnxruntime", "1.32.0"), shown)
        document = (tool.ROOT / "tools" / "ort_defects" / "README.md").read_text(encoding="utf-8")
        for base, known in tool.setup.BASES.items():
            programs = tool.listed_defects(document, base, known)
            self.assertTrue(programs, f"{base} {known}")
            self.assertEqual([name for name in programs if not (tool.ROOT / name).is_file()], [])

    def test_the_page_and_the_exit_status(self):
        lines = [str(i) for i in range(tool.LINES + 5)]
        diff = [f"--- {line}" for line in lines]
        for findings, status, parts in (
            ([("Names", []), ("Tests", [])], 0, ["Names: 0", "Nothing is to be done"]),
            ([("Names", ["a"]), ("Tests", [])], 1, ["Names: 1\n  a\n", "Review: Names\n"]),
            ([("Tests", lines), ("Diff", diff)], 1, ["and 5 more", diff[-1]]),
        ):
            printed = io.StringIO()
            with (
                mock.patch.object(tool.Trial, "findings", return_value=findings),
                mock.patch.object(sys, "argv", ["tool", "onnxruntime==1.99.0"]),
                contextlib.redirect_stdout(printed),
            ):
                self.assertEqual(tool.main(), status)
            for part in parts:
                self.assertIn(part, printed.getvalue())


if __name__ == "__main__":
    unittest.main()
