# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Write this repository as patches for an ORT source tree: one whole, and a series that can be reviewed step by step.

``python tools/python/backend_patch.py --stock FOLDER --out FOLDER`` needs git. The stock folder is
``onnxruntime/backend`` of a stock wheel: the three files that ORT's tree has already. Both forms are applied to those
files to check them. With ``--test`` each step's tests run as ORT's build runs them, each file by itself, with the files
of the steps so far on top of the installed ORT.

Steps are cut by files, from the policy up to the API, so that nothing is written twice: until the step that replaces
``backend.py`` the stock backend is in use, and what was added is reached by its tests alone.
"""

from __future__ import annotations

import argparse
import ast
import fnmatch
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
BACKEND = "onnxruntime/python/backend"
TESTS = "onnxruntime/test/python"
_IDENTITY = ("-c", "user.name=onnxruntime-backend", "-c", "user.email=backend@localhost")


class Step(NamedTuple):
    """One commit of the series.

    :param title: its subject.
    :param text: what it adds, and what it leaves out.
    :param files: patterns of names; with them come the files that they import.
    """

    title: str
    text: str
    files: tuple[str, ...]


_TEST = "onnxruntime_test_python_backend_"
STEPS = (
    Step(
        "Backend API: an allowlist for EP options, session and run config entries",
        """
        The policy and its look-ups: which option of which EP, which config key and which attribute
        a caller may set, to which values, and why the others are refused. The tables can be read
        from top to bottom; nothing calls them yet.
        """,
        ("allowlist.py", "refusals.py", f"{_TEST}allowlist.py", f"{_TEST}provider_tables.py"),
    ),
    Step(
        "Backend API: inputs and outputs of every ONNX type",
        """
        What callers pass becomes what a session is fed, and what it returns becomes arrays, for the
        element types that numpy lacks too. Errors say what the model takes. Left out: their use,
        which comes with the API.
        """,
        ("model_inputs.py", "tensor_values.py", "model_versions.py", "errors.py", f"{_TEST}tensor_values.py"),
    ),
    Step(
        "Backend API: open sessions with named EPs, and read back what ORT holds",
        """
        Each EP comes in through the way that loses none of its options, in the order that was
        named, and what ORT reports afterwards is held against what was sent. Captured graphs get
        buffers of their own. Left out: their use.
        """,
        ("execution_providers.py", "graph_capture.py", "captured_graph.py", "free_dimensions.py"),
    ),
    Step(
        "Backend API: provider_options, session_config and run_config",
        """
        prepare, run and rep.run take the three configurations (issue 28209). Replaces the stock
        backend, whose callers notice nothing else; the tests on the CPU EP come with it. Left out:
        the tests on other EPs.
        """,
        ("*",),
    ),
    Step(
        "Backend API: tests on CUDA, OpenVINO, WebGPU and plugin EPs",
        """
        Each skips where its EP is not there. CUDA's also run without a GPU, on a CUDA in software.
        """,
        (
            *(f"{_TEST}{name}*.py" for name in ("cuda", "openvino", "plugins", "webgpu", "operators", "capture_graphs")),
            *(f"{_TEST}{name}*.py" for name in ("software", "exploits_")),
            "software_cuda/*",
            "with_software_*.sh",
        ),
    ),
    Step(
        "Backend API: a command line that tells what can be configured",
        """
        python -m onnxruntime.backend: what this machine has, what may be set, whether a
        configuration holds and what became of it.
        """,
        ("__main__.py", "command_*.py", "backend_test_command_line.py", f"{_TEST}command_*.py"),
    ),
)
_API = next(step for step in STEPS if step.files == ("*",))


def assign(files: list[str]) -> dict[Step, list[str]]:
    """Give each file to a step: the first that names it or needs it, the API's if there is none."""
    found: dict[Step, list[str]] = {step: [] for step in STEPS}
    left = set(files)
    for step in STEPS:
        if step != _API:
            named = {file for file in left if any(fnmatch.fnmatchcase(_name(file), name) for name in step.files)}
            found[step] = sorted(_needed(named, left))
            left -= set(found[step])
        else:
            later = {name for other in STEPS[STEPS.index(step) + 1 :] for name in other.files}
            rest = {file for file in left if not any(fnmatch.fnmatchcase(_name(file), name) for name in later)}
            found[step] = sorted(_needed(rest, left))
            left -= set(found[step])
    for step in STEPS[: STEPS.index(_API)]:
        if f"{BACKEND}/backend.py" in found[step]:
            raise SystemExit(f"a file of '{step.title}' needs the API, which comes later")
    return found


def _name(file: str) -> str:
    """A file's name, with its folder inside the backend's or the tests' one."""
    return file.removeprefix(f"{BACKEND}/").removeprefix(f"{TESTS}/")


def _needed(files: set[str], among: set[str]) -> set[str]:
    """These files and those that they import, directly or not."""
    needed, new = set(), set(files)
    while new:
        needed |= new
        imported = {place for file in new if file.endswith(".py") for place in _imports(ROOT / file)}
        new = (imported & among) - needed
    return needed


def _imports(file: Path) -> Iterator[str]:
    """The places in ORT's tree where what a file imports can be."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            yield f"{BACKEND}/{name.removeprefix('onnxruntime.backend.')}.py"
            yield f"{TESTS}/{name}.py"


def git(folder: Path, *arguments: str) -> str:
    command = ["git", *_IDENTITY, *arguments]
    return subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


def upstream_files() -> list[str]:
    """What goes into ORT's tree, of the files that git has."""
    return git(ROOT, "ls-files", f"{BACKEND}/*.py", TESTS).splitlines()


def start(tree: Path, stock: Path) -> None:
    """Make a tree with the files that ORT has."""
    (tree / BACKEND).mkdir(parents=True)
    for file in stock.glob("*.py"):
        shutil.copyfile(file, tree / BACKEND / file.name)
    git(tree, "init", "--quiet", "--initial-branch=main")
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message=ONNX Runtime")
    git(tree, "tag", "stock")


def build(tree: Path, out: Path, tests: bool) -> None:
    """Commit step after step and write the patches."""
    for step, files in assign(upstream_files()).items():
        for file in files:
            (tree / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, tree / file)
        git(tree, "add", "--all")
        git(tree, "commit", "--quiet", "--message", step.title, "--message", _wrapped(step.text))
        lines = git(tree, "diff", "--shortstat", "HEAD~").strip()
        print(f"{step.title}: {lines}", flush=True)
        if tests:
            run_tests(tree, [Path(file) for file in files if Path(file).match("onnxruntime_test_*.py")])
    if out.exists():
        shutil.rmtree(out)
    git(tree, "format-patch", "--quiet", "--output-directory", str(out.resolve() / "series"), "stock")
    (out / "backend.patch").write_text(git(tree, "diff", "stock", "HEAD"))


def _wrapped(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), 72)


def check(tree: Path, out: Path) -> None:
    """Apply both forms to ORT's files, and compare what comes of it."""
    made = git(tree, "rev-parse", "HEAD^{tree}")
    git(tree, "checkout", "--quiet", "stock")
    git(tree, "apply", "--check", "--whitespace=error-all", str(out.resolve() / "backend.patch"))
    git(tree, "am", "--quiet", *(str(patch.resolve()) for patch in sorted((out / "series").iterdir())))
    if git(tree, "rev-parse", "HEAD^{tree}") != made:
        raise SystemExit("the series does not make the same tree")


def run_tests(tree: Path, files: list[Path]) -> None:
    """Run test files with the tree's backend in the place of the installed one."""
    with tempfile.TemporaryDirectory() as site:
        package = Path(site, "onnxruntime")
        package.mkdir()
        installed = subprocess.run(
            [sys.executable, "-c", "import onnxruntime; print(onnxruntime.__path__[0])"],
            cwd=site, check=True, stdout=subprocess.PIPE, text=True,
        ).stdout.strip()  # fmt: skip
        for entry in Path(installed).iterdir():
            if entry.name not in ("backend", "__pycache__"):
                (package / entry.name).symlink_to(entry)
        (package / "backend").symlink_to(tree / BACKEND)
        environment = {**os.environ, "PYTHONPATH": site, "PYTHONDONTWRITEBYTECODE": "1"}
        for file in files:
            command = [sys.executable, "-W", "ignore", file.name]
            streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
            done = subprocess.run(command, cwd=tree / file.parent, env=environment, check=False, **streams)
            print(f"  {file.name}: {(done.stdout.strip().splitlines() or ['nothing'])[-1]}", flush=True)
            if done.returncode:
                raise SystemExit(done.stdout[-5000:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--stock", type=Path, required=True, help="onnxruntime/backend of a stock wheel")
    parser.add_argument("--out", type=Path, required=True, help="where to write; what is there goes")
    parser.add_argument("--test", action="store_true", help="run each step's tests")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        start(tree, chosen.stock)
        build(tree, chosen.out, chosen.test)
        check(tree, chosen.out)
    print(f"{chosen.out}/backend.patch and {chosen.out}/series apply to ORT's files")


if __name__ == "__main__":
    main()
