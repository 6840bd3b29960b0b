# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The demo returns the labels of the magika package, which runs the same model in its own session."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import magika
from _paths import ROOT

from examples import magika_demo as demo

# Corner cases: too little content, only white space, content shorter than the features, content of about the size of
# the blocks that are read, no text.
MADE_UP = [
    b"",
    b"1234567",
    b"\xff\xfe\xfd",
    b" \n" * 4000,
    b" \n" * 4000 + b"import os\n" * 30,
    b"import os\n" * 30 + b" \n" * 4000,
    b"\xff" * 3 + b" " * 5000,
    b'{"key": [1, 2, 3]}\n',
    bytes(range(256)) * 40,
    *(b"<p>text</p>\n" * 400 + b"x" * size for size in range(12)),
    *(b"int main() { return 0; }" + b" " * size for size in (999, 1000, 4071, 4072, 4073)),
]


class TestMagika(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.magika = magika.Magika()
        cls.rep = demo.prepare_magika(session_config=demo.SESSION_CONFIG, run_config=demo.RUN_CONFIG)

    def assert_same_labels(self, paths: list[Path]) -> set[str]:
        labels = demo.classify(self.rep, [path.read_bytes() for path in paths])
        theirs = [str(found.output.label) for found in self.magika.identify_paths(paths)]
        self.assertEqual(dict(zip(paths, labels, strict=True)), dict(zip(paths, theirs, strict=True)))
        return set(labels)

    def test_labels_of_the_files_of_this_repository(self):
        paths = [
            ROOT / name for name in ("LICENSE", "Makefile", "README.md", "pyproject.toml", ".ci/run", ".gitignore")
        ]
        paths += sorted((ROOT / "onnxruntime" / "python").rglob("*.py"))[::2]
        self.assertLessEqual({"python", "makefile", "markdown", "toml"}, self.assert_same_labels(paths))

    def test_labels_of_corner_cases(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder, str(number)) for number in range(len(MADE_UP))]
            for path, content in zip(paths, MADE_UP, strict=True):
                path.write_bytes(content)
            self.assertLessEqual({"empty", "txt", "unknown"}, self.assert_same_labels(paths))

    def test_output(self):
        command = [sys.executable, str(ROOT / "examples" / "magika_demo.py"), "--each", str(ROOT / "LICENSE"), __file__]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        for line in (
            "default",
            r"  session_config \{'session.intra_op.allow_spinning': '0'\}",
            r"  session_config\['session.collect_node_memory_stats_to_file'\] is not permitted via the backend API: .*",
            "unavailable: .*",
            r"  provider_options\['.*'\]: the execution provider is not available .*",
            f"python +{__file__}",
            "2 files: .*1 python.*",
        ):
            self.assertRegex(ran.stdout, rf"(?m)^{line}$")


class TestPlaces(unittest.TestCase):
    """The examples without arguments, and with the models in the folder that the README installs."""

    def run_example(self, name: str, folder: str, *arguments: str) -> subprocess.CompletedProcess:
        # The package magika is not installed.
        run = "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], None, '__main__')"
        code = f"import runpy, sys; sys.modules['magika'] = None; {run}"
        command = [sys.executable, "-c", code, str(ROOT / "examples" / name), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)

    def test_the_model_is_in_the_folder_models(self):
        with tempfile.TemporaryDirectory() as folder:
            ran = self.run_example("magika_demo.py", folder, "--each", __file__)
            self.assertEqual(ran.returncode, 1)
            self.assertIn("No module named 'magika'. Run: pip install --no-deps --target models magika", ran.stderr)
            Path(folder, "models").symlink_to(Path(sys.prefix, "models"))
            ran = self.run_example("magika_demo.py", folder, "--each", __file__)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertIn("1 files: 1 python", ran.stdout)

    def test_usage(self):
        for name in ("silero_vad.py", "service.py"):
            for arguments in ((), ("absent.onnx",)):
                with self.subTest(name, arguments=arguments), tempfile.TemporaryDirectory() as folder:
                    ran = self.run_example(name, folder, *arguments)
                    self.assertEqual(ran.returncode, 1)
                    self.assertRegex(ran.stderr, rf"\Ausage: python examples/{name} MODEL.*\n\Z")


if __name__ == "__main__":
    unittest.main()
