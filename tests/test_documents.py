# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Runs every code block of the documents, or checks its commands, and compares the output with the documented output.

Each document has its own folder. Its blocks run in this folder, one after the other: Python in a new process, shell
commands in bash. The folder contains ``model.onnx`` (``Y = abs(-X)`` on float32 of shape 2 by 3). It contains the real
models that ``make`` installs (``models``), and ``examples``, ``tools``, ``tests``, and ``onnxruntime/test`` from this
repository.

A comment ``<!-- file NAME -->`` before a block specifies the file in which the reader saves the block: it is written.
A comment ``<!-- needs NAME -->`` before a block specifies an EP or a Python package. If the EP or package is not
available, the block must fail and say so. A shell block with a command that builds, installs, or copies is not run. The
targets, files, and packages in such a block must exist. A text block immediately after another block contains the
output of that block, and ``...`` matches any text.
"""

import concurrent.futures
import doctest
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest
from functools import cache
from pathlib import Path
from typing import NamedTuple

import _paths
import numpy as np
from helpers.children import run_code
from helpers.models import two_nodes

import onnxruntime
import onnxruntime.backend
import setup
from onnxruntime.backend.environment import configuration
from onnxruntime.backend.provider_names import ON_ANY_DEVICE

ROOT = Path(setup.__file__).parent
BACKEND = ROOT / "onnxruntime" / "python" / "backend"
DEFECTS = ROOT / "tools" / "ort_defects"
DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "onnxruntime" / "test" / "python" / "backend" / "software_cuda" / "README.md",
    ROOT / "tools" / "ort_defects" / "README.md",
    ROOT / "upstream" / "README.md",
]
_FENCE = re.compile(
    r"^(?:<!-- (?P<mark>needs|file) (?P<name>\S+) -->\n)?"
    r"^(?P<indent> *)```(?P<kind>\w*)\n(?P<body>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
# Commands that change more than the folder they run in.
_NOT_RUN = re.compile(r"^(\w+=\S* )?(make|pip|cp|rm|python -m pytest tests/)\b", re.MULTILINE)


class Block(NamedTuple):
    line: int
    kind: str
    body: str
    needs: str
    file: str
    follows: bool


def blocks(document: Path) -> list[Block]:
    text = document.read_text(encoding="utf-8")
    found = list(_FENCE.finditer(text))
    ends = [0, *(block.end() for block in found)]
    return [
        Block(
            line=text.count("\n", 0, block.start()) + 1,
            kind=block["kind"],
            body=textwrap.dedent(block["body"]),
            needs=block["name"] if block["mark"] == "needs" else "",
            file=block["name"] if block["mark"] == "file" else "",
            follows=not text[end : block.start()].strip(),
        )
        for end, block in zip(ends, found, strict=False)
    ]


def anchors(document: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub generates them, and its explicit ones."""
    text = _FENCE.sub("", document.read_text(encoding="utf-8"))
    titles = (re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in re.findall(r"(?m)^#+ (.*)$", text))
    return {*titles, *re.findall(r'<a id="([^"]+)">', text)}


@cache
def is_here(name: str) -> bool:
    """Whether an EP or a Python package can be used."""
    if not name.endswith("ExecutionProvider"):
        return importlib.util.find_spec(name) is not None
    try:
        # An EP may be in the wheel and still not work, as CUDA's on a machine without a GPU.
        onnxruntime.backend.prepare(two_nodes(), provider_options={name: {}})
    except RuntimeError:
        return False
    return True


def runs_here(document: Path) -> bool:
    """Return whether this environment runs a document: the default base runs all, and others those with their EPs."""
    if set(onnxruntime.get_available_providers()) <= ON_ANY_DEVICE:
        return True
    needed = {block.needs for block in blocks(document) if block.needs.endswith("ExecutionProvider")}
    return any(map(is_here, needed))


def environment() -> dict[str, str]:
    """For the processes that run a document: none of make's variables, none of ours, and this Python first.

    The first folder of ``PYTHONPATH``, with ``KEPT_SERIES``, selects the modules of ONNX's tests that the documents
    run. ONNX needs 12 s to compute all tests (``make conformance`` runs all).
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MAKE", "MFLAGS", "ORT_")) and name != "PYTHONPATH"
    }
    return kept | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "ORT_DISABLE_TELEMETRY": "1",
        "PYTHONPATH": os.pathsep.join(
            filter(None, (str(ROOT / "tests" / "kept_series"), os.environ.get("PYTHONPATH")))
        ),
        "KEPT_SERIES": "relu conv",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # which the documents do not need
    }


def start(command: list[str], folder: Path) -> subprocess.CompletedProcess:
    return subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=False)


NOX = ROOT / ".venv-nox" / "bin" / "nox"


class SessionTest(unittest.TestCase):
    @unittest.skipUnless(NOX.is_file(), "make did not install nox")
    def test_make_knows_each_session_and_each_has_help(self):
        listed = start([str(NOX), "--list", "--json", "--keywords", "not none"], ROOT)  # all sessions
        sessions = {session["name"]: session["description"] for session in json.loads(listed.stdout)}
        self.assertNotIn(None, sessions.values())
        in_make = re.search(r"^SESSIONS := (.*?[^\\])$", (ROOT / "Makefile").read_text(), re.MULTILINE | re.DOTALL)[1]
        environments = {name for name, description in sessions.items() if description.startswith("create .nox/")}
        self.assertEqual(set(in_make.replace("\\", " ").split()), sessions.keys() - environments)


class DocumentTest(unittest.TestCase):
    def prepare_folder(self) -> Path:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "model.onnx").write_bytes(two_nodes((2, 3)).SerializeToString())
        (folder / "models").symlink_to(Path(sys.prefix, "models"))
        for name in ("examples", "tools", "tests", "onnxruntime/test"):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).symlink_to(ROOT / name)
        return folder

    def check_document(self, document: Path) -> None:
        folder = self.prepare_folder()
        printed: str | None = None
        for block in blocks(document):
            with self.subTest(f"{document.name}:{block.line}"):
                before, printed = printed, None
                if block.kind != "text":
                    printed = self.check_block(block, folder)
                elif block.follows and before is not None:  # None: that block cannot run here
                    self.check_printed(block.body, before)

    def check_block(self, block: Block, folder: Path) -> str | None:
        """Write, check or run a block, and return what it prints, if it runs."""
        lines: list[str] = []
        if block.file:
            if block.kind == "python":
                compile(block.body, block.file, "exec")
            (folder / block.file).write_text(block.body)
        elif block.kind == "json":
            configuration.parse(block.body)
        elif block.kind == "powershell":
            # The form of sh: an assignment for all later commands.
            self.assertNotRegex(block.body, r"(?m)^\w+=|<<|\\$")
            lines = re.sub(r"(?m)^\$env:(\w+) = ", r"export \1=", block.body).splitlines()
        elif block.kind == "sh" and _NOT_RUN.search(block.body):
            lines = block.body.replace("\\\n", " ").splitlines()
        elif block.kind != "mermaid":
            return self.run_block(block, folder)
        for line in lines:
            self.check_command(shlex.split(line, comments=True))
        return None

    def run_block(self, block: Block, folder: Path) -> str | None:
        if block.kind == "python":
            ran = run_code(block.body, cwd=folder, env=environment())
        else:
            ran = start(["bash", "-euo", "pipefail", "-c", block.body], folder)
        if "requires Python's global interpreter lock" in ran.stdout + ran.stderr:
            return None  # the example uses an EP that is refused
        if block.needs and not is_here(block.needs):
            self.assertNotEqual(ran.returncode, 0)
            unavailable = rf"{block.needs}.*(not available|could not be attached|without it|cannot be registered)"
            self.assertRegex(ran.stdout + ran.stderr, rf"{unavailable}|No module named '{block.needs}'")
            return None
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        return ran.stdout

    def check_printed(self, expected: str, printed: str) -> None:
        options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        checker = doctest.OutputChecker()
        example = doctest.Example("", expected)
        if not checker.check_output(expected, printed, options):
            self.fail(checker.output_difference(example, printed, options))

    def check_command(self, words: list[str]) -> None:
        """Check that the files, packages and targets of a command exist."""
        words = words[words[:1] == ["export"] :]
        while words and re.fullmatch(r"\w+=.*", words[0]):
            name, _, value = words.pop(0).partition("=")
            if name == "ORT_BACKEND_BASE":
                self.assertIsNotNone(setup.accepted_base(value), value)
        if not words:
            return
        if words[:4] == ["pipx", "run", "nox", "-s"]:
            words = ["make", words[4]]
        command, *arguments = words
        if command == "make":
            made = start(["make", "--dry-run", *arguments], ROOT)
            self.assertEqual(made.returncode, 0, made.stderr)
        elif command == "pip":
            self.check_packages([argument for argument in arguments[1:] if not argument.startswith("-")])
        elif words[:3] == ["python", "-m", "pytest"]:
            self.assertTrue((ROOT / arguments[2]).is_file(), arguments[2])
        elif command == "python" and not arguments[0].startswith("-"):
            self.assertTrue((ROOT / arguments[0]).is_file(), arguments[0])
        else:
            self.fail(f"Nobody checks {words}: put it in a separate block, where it is run.")

    def check_packages(self, names: list[str]) -> None:
        known = (ROOT / "constraints.txt").read_text() + " ".join(setup.BASES)
        folders = (ROOT / ".gitignore").read_text() + "models/ wheels/"
        for name in names:
            is_folder = name == "." or f"{name}/" in folders
            self.assertTrue(is_folder or re.split(r"==|\[", name)[0] in known, name)


def _test_of(document: Path):
    def test(self: DocumentTest) -> None:
        if not runs_here(document):
            self.skipTest("no example needs an EP of this base: the default base runs the document")
        self.check_document(document)

    return test


for _document in DOCUMENTS:
    _name = "_".join(_document.relative_to(ROOT).with_suffix("").parts[-2:]).lower().replace("-", "_")
    setattr(DocumentTest, f"test_{_name}", _test_of(_document))


class FormTest(unittest.TestCase):
    def test_every_block_is_fenced_and_of_a_kind_that_is_checked(self):
        for document in DOCUMENTS:
            text = document.read_text(encoding="utf-8")
            found = blocks(document)
            with self.subTest(document.name):
                self.assertEqual(text.count("```"), 2 * len(found))
                self.assertEqual(text.count("<!-- needs "), sum(bool(block.needs) for block in found))
                self.assertEqual(text.count("<!-- file "), sum(bool(block.file) for block in found))
                for block in found:
                    # Other shells than POSIX's have neither.
                    self.assertNotRegex(block.body, r"(?m)<<'?\w+'?$|^\w+=\S+ +[a-z]", block.line)
                self.assertLessEqual(
                    {block.kind for block in found}, {"python", "sh", "powershell", "json", "text", "mermaid"}
                )
                self.assertNotRegex(_FENCE.sub("", text), r"(?m)\n\n {4,}\S", "an indented block, which nothing checks")

    def test_links_lead_somewhere(self):
        for document in DOCUMENTS:
            text = _FENCE.sub("", document.read_text(encoding="utf-8"))
            for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", text):
                if "://" not in target:
                    to = document.parent / target if target else document
                    self.assertTrue(to.exists(), f"{document.name}: {target}")
                    if anchor:
                        self.assertIn(anchor, anchors(to), f"{document.name}: {target}")

    def test_settings_with_names_of_other_servers_are_permitted(self):
        services, options = (
            (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("services.md", "options.md")
        )
        rows = re.findall(r"(?m)^\| .* \| (.*) \|$", services.partition("\n## Names of other servers\n")[2])
        named = {name for cell in rows for name in re.findall(r"`([a-z_]+)`", cell)}
        self.assertGreater(len(named), 10)
        arguments = {"run_config", "session_config", "free_dimension_overrides", "extensions"}
        self.assertEqual({name for name in named - arguments if f"- **`{name}`**: " not in options}, set())

    def test_modules_in_the_architecture_are_there(self):
        text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
        found = re.findall(r"[\w*/]+\.py\b|(?<=`)[\w/]+/(?=`)", text)
        named = {name for name in found if not name.startswith(("test_", "onnxruntime"))}
        self.assertGreater(len(named), 20)
        missing = {name for name in named if not [*BACKEND.glob(name), *BACKEND.glob(f"*/{name}")]}
        self.assertEqual(missing, set())

    def test_every_defect_has_its_program_and_its_row(self):
        table = (DEFECTS / "README.md").read_text(encoding="utf-8")
        programs = {program.stem: program.read_text(encoding="utf-8") for program in DEFECTS.glob("*.py")}
        rows = re.findall(r"(?m)^\| (.*) \| .* \| \[(\w+)\]\(\2\.py\) \| \w+ \|$", table)
        self.assertEqual(sorted(name for _, name in rows), sorted(programs))
        for title, name in rows:
            compile(programs[name], name, "exec")
            self.assertIn(f'"""{title}.\n', programs[name])


class TranslationTest(unittest.TestCase):
    """The table for users of InferenceSession: both columns run, and create sessions with the same EPs."""

    def test_both_columns_run(self):
        text = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
        rows = re.findall(r"(?m)^\| `(.*)` \| `(.*)` \|$", text.partition("\n## From `InferenceSession`\n")[2])
        self.assertGreater(len(rows), 10)
        with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor() as pool:
            model = str(Path(folder, "model.onnx"))
            Path(model).write_bytes(two_nodes((2, 3)).SerializeToString())
            names = {"ort": onnxruntime, "backend": onnxruntime.backend, "pool": pool, "print": lambda future: None}
            called = threading.Event()
            names |= {"feeds": {"X": np.ones((2, 3), np.float32)}, "callback": lambda *_: called.set()}
            names |= {"options": onnxruntime.SessionOptions(), "run_options": onnxruntime.RunOptions()}
            for left, right in rows[1:]:  # the first is the head
                with self.subTest(right):
                    values = [self.value(code.replace("model.onnx", model), names) for code in (left, right)]
                    # The destructor of a session joins the thread of the callback while it holds the GIL.
                    self.assertTrue("run_async" not in left or called.wait(60))
                    if isinstance(values[0], list) and isinstance(values[0][0], np.ndarray):
                        np.testing.assert_array_equal(*values)

    def value(self, code: str, names: dict[str, object]) -> object:
        """Return the value of an expression, or run an assignment."""
        if re.match(r"[\w.]+ = ", code):
            return exec(code, names)
        if "CUDAExecutionProvider" in code and not is_here("CUDAExecutionProvider"):
            return None
        if "binding" in code:
            session = names["rep"].session if code.startswith("rep.") else names["session"]
            names["binding"] = session.io_binding()
            names["binding"].bind_cpu_input("X", names["feeds"]["X"])
            names["binding"].bind_output("Y", "cpu")
        return eval(code, names)


class ExampleTest(unittest.TestCase):
    """The examples on real models."""

    def test_silero_vad(self):
        model = Path(sys.prefix, "models", "silero_vad", "data", "silero_vad.onnx")
        ran = start([sys.executable, str(ROOT / "examples" / "silero_vad.py"), str(model)], ROOT)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertRegex(
            ran.stdout, r"\Asilence +no speech .*\nnoise +no speech .*\nbabble +speech +at most 0\.[5-9]\d\n"
        )
        self.assertIn("{'session.intra_op.allow_spinning': '0'}", ran.stdout)


class CheckerTest(unittest.TestCase):
    """The checks above can fail."""

    def check(self, text: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            document = Path(folder, "document.md")
            document.write_text(text)
            DocumentTest().check_document(document)

    def test_what_must_not_pass(self):
        for text in (
            "```python\nraise ValueError\n```\n",
            "```sh\nfalse\n```\n",
            "```sh\nfalse | true\n```\n",
            "```sh\nmake no-such-target\n```\n",
            "```sh\npip install no-such-package\n```\n",
            "```sh\nmake test\npython no_such_example.py\n```\n",
            "```sh\nmake test\nls\n```\n",
            "```sh\nexport ORT_BACKEND_BASE=no-such-base\npip install .\n```\n",
            "```powershell\n$env:ORT_BACKEND_BASE = 'no-such-base'\npip install .\n```\n",
            "```powershell\nNAME=value pip install .\n```\n",
            "```python\nprint(1)\n```\n\n```text\n2\n```\n",
            "<!-- file a.py -->\n```python\nraise ValueError\n```\n\n```sh\npython a.py\n```\n",
            "<!-- needs NoSuchExecutionProvider -->\n```python\nprint(1)\n```\n",
            "<!-- needs no_such_package -->\n```python\nraise ValueError\n```\n",
        ):
            with self.subTest(text), self.assertRaises(AssertionError):
                self.check(text)
        self.check(f"```json\n{json.dumps({'session_config': {}})}\n```\n")
        self.check("```python\nprint('a b c')\n```\n\n```text\na ... c\n```\n")


if __name__ == "__main__":
    unittest.main()
