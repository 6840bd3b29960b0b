# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Writes this repository as patches for an ORT source tree: one complete patch, and a series for review.

``python tools/python/backend_patch.py --checkout FOLDER --out FOLDER`` needs git. The checkout is ORT's source tree.
The patches change the three files of the stock backend and two build files. The file ``cmake/onnxruntime_python.cmake``
copies the package into the build, and ``setup.py`` lists the packages and data files of the wheel. The option
``--stock FOLDER`` accepts ``onnxruntime/backend`` of a stock wheel instead, and these patches do not contain the build
files. To check both forms, the tool applies the patches to the original files.

The first steps add the core of the backend, and each later step adds an optional part. With ``--test``, the tests of
all steps so far run after each step. Each test file has its own process, as in ORT's build, with the files of the steps
so far in place of the backend of the installed ORT. After the step that replaces the stock backend, ORT's own tests of
its backend run, too, if a checkout is specified.

``--document`` writes the table of the steps in ``docs/upstreaming.md``.
"""

from __future__ import annotations

import argparse
import ast
import fnmatch
import io
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import tokenize
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from backend_patch_steps import API, STEPS, Step

ROOT = Path(__file__).resolve().parents[2]
BACKEND = "onnxruntime/python/backend"
TESTS = "onnxruntime/test/python"
CMAKE = "cmake/onnxruntime_python.cmake"
SETUP = "setup.py"
DOCUMENT = ROOT / "docs" / "upstreaming.md"
_IDENTITY = ("-c", "user.name=onnxruntime-backend", "-c", "user.email=backend@localhost")
_TEST = "onnxruntime_test_python_backend_"


def assign(files: list[str]) -> dict[Step, list[str]]:
    """Assign each file to the only step that specifies it, and check that no step needs a file of a later step."""
    number: dict[str, int] = {}
    for file in files:
        specified = [index for index, step in enumerate(STEPS) if _specifies(step, file)]
        if len(specified) != 1:
            raise SystemExit(f"{file}: expected one step that specifies it, found {len(specified)}")
        number[file] = specified[0]

    for file in files:
        if not file.endswith(".py"):
            continue
        for needed in _imports(file) & set(files):
            if number[needed] > number[file]:
                raise SystemExit(f"{file} imports {needed} of a later step, {STEPS[number[needed]].title!r}")

    return {step: [file for file in files if STEPS[number[file]] is step] for step in STEPS}


def _specifies(step: Step, file: str) -> bool:
    if file.startswith(f"{BACKEND}/"):
        name, patterns = file.removeprefix(f"{BACKEND}/"), step.product
    else:
        name, patterns = _short_name(file), step.tests
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _short_name(file: str) -> str:
    """Return the name of a test file without the beginning that all test files have."""
    name = file.removeprefix(f"{TESTS}/")
    if is_test(file):
        return name.removeprefix(_TEST)
    return name


def is_test(file: str) -> bool:
    return fnmatch.fnmatchcase(file, f"{TESTS}/onnxruntime_test_*.py")


def _imports(file: str) -> set[str]:
    """Return the files that the import statements of a file can mean, in ORT's tree."""
    return {place for name in _imported_names(file) for place in _places(name)}


def _imported_names(file: str) -> Iterator[str]:
    """Yield the full names of imported modules; a name imported from the package itself is the package's."""
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
    # The stock backend has the package itself, too.
    if name == "onnxruntime.backend":
        return []
    if not name.startswith("onnxruntime.backend."):
        return [f"{TESTS}/{name}.py"]
    path = "/".join((BACKEND, *name.split(".")[2:]))
    return [f"{path}.py", f"{path}/__init__.py"]


def count_tokens(files: list[str]) -> int:
    """Return the number of tokens of Python files, without comments and docstrings."""
    return sum(_tokens_of((ROOT / file).read_text(encoding="utf-8")) for file in files if file.endswith(".py"))


def _tokens_of(text: str) -> int:
    documented: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            documented.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    names = ("COMMENT", "NL", "NEWLINE", "INDENT", "DEDENT", "ENDMARKER")
    skipped = {getattr(tokenize, name) for name in names}
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(token.type not in skipped and token.start[0] not in documented for token in tokens)


def table() -> str:
    """Return the table of the steps: the lines that each adds, and its tokens."""
    rows = ["| Step | Lines | Tokens of the backend | Tokens of tests |", "|---|---|---|---|"]
    for number, (step, files) in enumerate(assign(upstream_files()).items(), 1):
        lines = sum((ROOT / file).read_text(encoding="utf-8").count("\n") for file in files)
        product = count_tokens([file for file in files if file.startswith(f"{BACKEND}/")])
        tests = count_tokens([file for file in files if file.startswith(f"{TESTS}/")])
        rows.append(f"| {number} {step.title} | {lines:,} | {product:,} | {tests:,} |")
    return "\n".join(rows)


def documented(text: str) -> str:
    """Return the text of the document with the current table."""
    before, _, rest = text.partition("| Step | Lines |")
    after = rest.partition("\n\n")[2]
    return f"{before}{table()}\n\n{after}"


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


def build(tree: Path, out: Path, tests: bool, checkout: Path | None = None) -> None:
    """Commit step after step and write the patches."""
    existing: list[Path] = []
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
            existing += [Path(file) for file in files if is_test(file)]
            run_tests(tree, existing)
            if step is STEPS[API] and checkout is not None:
                run_tests_of_ort(tree, checkout)
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
        environment = _with_backend(tree, Path(site))

        def run(file: Path) -> subprocess.CompletedProcess:
            command = [sys.executable, "-W", "ignore", file.name]
            streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
            return subprocess.run(command, cwd=tree / file.parent, env=environment, check=False, **streams)

        failed = []
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for file, done in zip(files, pool.map(run, files), strict=True):
                last = (done.stdout.strip().splitlines() or ["nothing"])[-1]
                print(f"  {file.name}: {last}", flush=True)
                if done.returncode:
                    failed.append(f"{file.name}:\n{done.stdout[-5000:]}")
    if failed:
        raise SystemExit("\n".join(failed))


def _with_backend(tree: Path, site: Path) -> dict[str, str]:
    """Return environment variables with which Python imports the installed ORT with the backend of a tree."""
    package = site / "onnxruntime"
    package.mkdir()
    code = "import onnxruntime; print(onnxruntime.__path__[0])"
    found = subprocess.run([sys.executable, "-c", code], cwd=site, check=True, stdout=subprocess.PIPE, text=True)
    for entry in Path(found.stdout.strip()).iterdir():
        if entry.name not in ("backend", "__pycache__"):
            (package / entry.name).symlink_to(entry)
    (package / "backend").symlink_to(tree / BACKEND)
    return {**os.environ, "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}


def run_tests_of_ort(tree: Path, checkout: Path) -> None:
    """Run ORT's own tests of its backend, and compare the results with the stock backend."""
    stock = os.environ.get("ORT_STOCK_PYTHON")
    if not stock:
        raise SystemExit("ORT's own tests require ORT_STOCK_PYTHON, the Python of an environment with the stock wheel")
    with tempfile.TemporaryDirectory() as site:
        environment = _with_backend(tree, Path(site))
        program = str(ROOT / "tests" / "upstream_tests.py")
        command = [sys.executable, program, str(checkout), stock, "--path", environment["PYTHONPATH"]]
        subprocess.run(command, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--checkout", type=Path, help="source tree of ORT")
    source.add_argument("--stock", type=Path, help="onnxruntime/backend of a stock wheel: no build files")
    source.add_argument("--document", action="store_true", help=f"write the table of the steps in {DOCUMENT.name}")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "build" / "patch", help="folder to write; replaced if it exists"
    )
    parser.add_argument("--test", action="store_true", help="run the tests of all steps so far after each step")
    chosen = parser.parse_args()
    if chosen.document:
        DOCUMENT.write_text(documented(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
        return
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        start(tree, chosen.stock or chosen.checkout / BACKEND, chosen.checkout)
        build(tree, chosen.out, chosen.test, chosen.checkout)
        check(tree, chosen.out)
    print(f"{chosen.out}/backend.patch and {chosen.out}/series apply to ORT's files")
    if not chosen.checkout:
        print(f"They leave out {CMAKE} and {SETUP}, without which ORT's build lacks the folders: use --checkout")


if __name__ == "__main__":
    main()
