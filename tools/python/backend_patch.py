# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Writes this repository as patches for an ORT source tree: one complete patch, and a series for review.

``python tools/python/backend_patch.py --checkout FOLDER --out FOLDER`` needs git. The checkout is ORT's source tree.
The patches change the three files of the stock backend and two build files. The file ``cmake/onnxruntime_python.cmake``
copies the package into the build, and ``setup.py`` lists the packages and data files of the wheel. The option
``--stock FOLDER`` accepts ``onnxruntime/backend`` of a stock wheel instead, and these patches do not contain the build
files. To check both forms, the tool applies the patches to the original files. With ``--test``, the tests of each step
run as in ORT's build. Each test file has its own process, with the files of the steps so far on top of the installed
ORT.

Each step adds a folder of the backend, in the order of the imports. Until the step that replaces ``backend.py``, the
stock backend is in use, and only tests import the new folders.
"""

from __future__ import annotations

import argparse
import ast
import fnmatch
import functools
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
CMAKE = "cmake/onnxruntime_python.cmake"
SETUP = "setup.py"
_IDENTITY = ("-c", "user.name=onnxruntime-backend", "-c", "user.email=backend@localhost")


class Step(NamedTuple):
    """One commit of the series.

    :param title: its subject.
    :param text: the content that it adds, and the content that it omits.
    :param files: patterns of file names; the files that these import come with them.
    """

    title: str
    text: str
    files: tuple[str, ...]


_TEST = "onnxruntime_test_python_backend_"
_OTHER_PROVIDERS = ("cuda", "openvino", "plugins", "webgpu")
STEPS = (
    Step(
        "Backend API: an allowlist for EP options, session and run config entries",
        """
        The policy: which option of which EP, which config entry and which attribute a caller may set,
        to which values, and why the others are refused. The tables can be read from top to bottom.
        Nothing calls them yet.
        """,
        ("allowlist/*", f"{_TEST}allowlist*.py"),
    ),
    Step(
        "Backend API: inputs and outputs of every ONNX type",
        """
        Converts the values of a caller to the inputs of a model, and outputs to arrays, for the
        element types that numpy lacks too. Errors name the type and shape that the model expects.
        Nothing calls this code yet.
        """,
        ("runs/*", f"{_TEST}runs*.py"),
    ),
    Step(
        "Backend API: capture and replay graphs with their own buffers",
        """
        Decides which sessions may capture graphs, keeps their buffers, and compares the first replay
        of each graph with an ordinary run. Nothing calls this code yet.
        """,
        ("capture/*", f"{_TEST}capture*.py"),
    ),
    Step(
        "Backend API: create sessions with the specified EPs, and verify them",
        """
        Attaches each EP in the specified order through the API that preserves its options, and
        compares the options that ORT reports with the specified options. Nothing calls this code yet.
        """,
        ("session/*", f"{_TEST}session*.py"),
    ),
    Step(
        "Backend API: provider_options, session_config and run_config",
        """
        prepare, run and rep.run accept the three configurations (issue 28209). Replaces the stock
        backend, with its behavior preserved, and adds the tests on the CPU EP. Leaves out the tests
        on other EPs.
        """,
        ("*",),
    ),
    Step(
        "Backend API: tests on CUDA, OpenVINO, WebGPU and plugin EPs",
        """
        Each test is skipped if its EP is not available. The tests of CUDA also run without a GPU, on
        a CUDA in software.
        """,
        (*(f"{_TEST}*{name}*.py" for name in _OTHER_PROVIDERS), "software_cuda/*", "with_software_*.sh"),
    ),
    Step(
        "Backend API: a command line that lists and checks configurations",
        """
        python -m onnxruntime.backend lists the EPs of this machine and the permitted settings,
        checks a configuration, and runs a model with it. Adds the test of the architecture.
        """,
        ("__main__.py", "command_line/*", f"{_TEST}command_*.py", f"{_TEST}architecture.py"),
    ),
)
_API = next(number for number, step in enumerate(STEPS) if step.files == ("*",))


def assign(files: list[str]) -> dict[Step, list[str]]:
    """Assign each file to one step.

    A module goes with the first step that specifies it or imports it. A test goes with its step, or with the first
    later step that completes its imports. A helper of the tests goes with the first test that imports it.
    """
    imports = {file: _imports(file) & set(files) if file.endswith(".py") else set() for file in files}
    number: dict[str, int] = {}
    for step in (*range(_API), *range(_API + 1, len(STEPS)), _API):
        for file in files:
            if file.startswith(f"{BACKEND}/") and file not in number and _specifies(step, file):
                later = step > _API
                for needed in {file} if later else _reached(file, imports):
                    number.setdefault(needed, step)
    if early := [file for file in imports if _is_public(file) and number[file] < _API]:
        raise SystemExit(f"{', '.join(early)}: an earlier step imports the API")
    for file in files:
        if _is_test(file):
            reached = _reached(file, imports)
            steps = [number.get(one, 0) for one in reached if one.startswith(f"{BACKEND}/")]
            for one in (one for one in reached if _is_test(one)):
                steps += [step for step in range(len(STEPS)) if step != _API and _specifies(step, one)] or [_API]
            number[file] = max(steps)
    for file in files:
        if file not in number:
            specified = [step for step in range(len(STEPS)) if step != _API and _specifies(step, file)]
            users = [number[one] for one in files if _is_test(one) and file in _reached(one, imports)]
            number[file] = min(specified or users or [_API])
    return {step: [file for file in files if STEPS[number[file]] is step] for step in STEPS}


def _specifies(step: int, file: str) -> bool:
    name = file.removeprefix(f"{BACKEND}/").removeprefix(f"{TESTS}/")
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in STEPS[step].files)


def _is_test(file: str) -> bool:
    return fnmatch.fnmatchcase(file, f"{TESTS}/onnxruntime_test_*.py")


def _is_public(file: str) -> bool:
    return file in (f"{BACKEND}/__init__.py", f"{BACKEND}/backend.py", f"{BACKEND}/backend_rep.py")


def _reached(file: str, imports: dict[str, set[str]]) -> set[str]:
    """The file and the files that it imports, directly or not."""
    reached, new = set(), {file}
    while new:
        reached |= new
        new = {imported for one in new for imported in imports[one]} - reached
    return reached


@functools.cache  # the files do not change while the patches are made
def _imports(file: str) -> set[str]:
    """The files that an import statement of a file can mean, in ORT's tree."""
    return {place for name in _imported_names(file) for place in _places(name)}


def _imported_names(file: str) -> Iterator[str]:
    """The full names of imported modules; a name imported from the package itself is the package's."""
    nodes = [ast.parse((ROOT / file).read_text(encoding="utf-8"))]
    while nodes:
        node = nodes.pop()
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            nodes += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "onnxruntime.backend." * bool(node.level) + (node.module or "")
            for alias in node.names:
                name = f"{module}.{alias.name}"
                yield name if any((ROOT / place).exists() for place in _places(name)) else module


def _places(name: str) -> list[str]:
    if name == "onnxruntime.backend":
        return [f"{BACKEND}/__init__.py"]
    if not name.startswith("onnxruntime.backend."):
        return [f"{TESTS}/{name}.py"]
    parts = name.split(".")[2:]
    packages = ["/".join((BACKEND, *parts[:depth], "__init__.py")) for depth in range(1, len(parts) + 1)]
    return [*packages, f"{BACKEND}/{'/'.join(parts)}.py"]


def git(folder: Path, *arguments: str) -> str:
    command = ["git", *_IDENTITY, *arguments]
    return subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


def upstream_files() -> list[str]:
    """The files of this repository that go into ORT's tree, as git lists them."""
    files = git(ROOT, "ls-files", f"{BACKEND}/*.py", f"{BACKEND}/py.typed", TESTS).splitlines()
    if deleted := [file for file in files if not (ROOT / file).exists()]:
        raise SystemExit(f"{', '.join(deleted)}: git tracks it, but it does not exist. Restore it, or run git rm")
    return files


def start(tree: Path, stock: Path, checkout: Path | None = None) -> None:
    """Make a tree with the files of ORT that the patches change."""
    (tree / BACKEND).mkdir(parents=True)
    for file in stock.glob("*.py"):
        shutil.copyfile(file, tree / BACKEND / file.name)
    for name in (CMAKE, SETUP) if checkout else ():
        (tree / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(checkout / name, tree / name)
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
        if (tree / SETUP).exists():
            edit_build_files(tree)
        git(tree, "add", "--all")
        git(tree, "commit", "--quiet", "--message", step.title, "--message", _wrapped(step.text))
        lines = git(tree, "diff", "--shortstat", "HEAD~").strip()
        print(f"{step.title}: {lines}", flush=True)
        if tests:
            run_tests(tree, [Path(file) for file in files if _is_test(file)])
    if out.exists():
        shutil.rmtree(out)
    git(tree, "format-patch", "--quiet", "--output-directory", str(out.resolve() / "series"), "stock")
    (out / "backend.patch").write_text(git(tree, "diff", "stock", "HEAD"))


def _wrapped(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), 72)


# CMake copies the files that a glob finds: those of one folder. copy_directory copies the folders below too.
_CMAKE_GLOB = """\
file(GLOB onnxruntime_backend_srcs CONFIGURE_DEPENDS
    "${ONNXRUNTIME_ROOT}/python/backend/*.py"
)

"""
_CMAKE_FOLDER = "      $<TARGET_FILE_DIR:${build_output_target}>/onnxruntime/backend"
_CMAKE_COPY = f"""\
  COMMAND ${{CMAKE_COMMAND}} -E copy
      ${{onnxruntime_backend_srcs}}
{_CMAKE_FOLDER}/
"""
_CMAKE_COPIES = f"""\
  COMMAND ${{CMAKE_COMMAND}} -E copy_directory
      ${{ONNXRUNTIME_ROOT}}/python/backend
{_CMAKE_FOLDER}
"""
_SETUP_PACKAGE = '    "onnxruntime.backend",\n'
_SETUP_DATA = "package_data = {"
_SETUP_MARKER = f'{_SETUP_DATA}"onnxruntime.backend": ["py.typed"], '


def edit_build_files(tree: Path) -> None:
    """Make CMake copy all folders of a tree's backend, and list these folders and ``py.typed`` in ``setup.py``."""
    cmake = (tree / CMAKE).read_text(encoding="utf-8")
    if _CMAKE_COPIES not in cmake:
        cmake = _replaced(CMAKE, cmake, _CMAKE_GLOB, "")
        cmake = _replaced(CMAKE, cmake, _CMAKE_COPY, _CMAKE_COPIES)
        (tree / CMAKE).write_text(cmake, encoding="utf-8")
    python = tree / BACKEND
    folders = sorted(file.parent.relative_to(python.parent) for file in python.rglob("__init__.py"))
    lines = [f'    "onnxruntime.{".".join(folder.parts)}",\n' for folder in folders]
    setup = (tree / SETUP).read_text(encoding="utf-8")
    old = "".join(line for line in setup.splitlines(keepends=True) if line.startswith(_SETUP_PACKAGE[:-3]))
    setup = _replaced(SETUP, setup, old or _SETUP_PACKAGE, "".join(lines))
    if (python / "py.typed").exists() and _SETUP_MARKER not in setup:
        setup = _replaced(SETUP, setup, _SETUP_DATA, _SETUP_MARKER)
    (tree / SETUP).write_text(setup, encoding="utf-8")


def _replaced(file: str, text: str, old: str, new: str) -> str:
    """The text with its only occurrence of a passage replaced."""
    if text.count(old) != 1:
        raise SystemExit(f"{file}: expected these lines once, found them {text.count(old)} times:\n{old}")
    return text.replace(old, new)


def check(tree: Path, out: Path) -> None:
    """Apply both forms to ORT's files, and compare the results."""
    made = git(tree, "rev-parse", "HEAD^{tree}")
    git(tree, "checkout", "--quiet", "stock")
    git(tree, "apply", "--check", "--whitespace=error-all", str(out.resolve() / "backend.patch"))
    git(tree, "am", "--quiet", *(str(patch.resolve()) for patch in sorted((out / "series").iterdir())))
    if git(tree, "rev-parse", "HEAD^{tree}") != made:
        raise SystemExit("The series and the complete patch make different trees.")


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
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--checkout", type=Path, help="source tree of ORT")
    source.add_argument("--stock", type=Path, help="onnxruntime/backend of a stock wheel: no build files")
    parser.add_argument("--out", type=Path, required=True, help="folder to write; replaced if it exists")
    parser.add_argument("--test", action="store_true", help="run the tests of each step")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        start(tree, chosen.stock or chosen.checkout / BACKEND, chosen.checkout)
        build(tree, chosen.out, chosen.test)
        check(tree, chosen.out)
    print(f"{chosen.out}/backend.patch and {chosen.out}/series apply to ORT's files")
    if not chosen.checkout:
        print(f"They leave out {CMAKE} and {SETUP}, without which ORT's build lacks the folders: use --checkout")


if __name__ == "__main__":
    main()
