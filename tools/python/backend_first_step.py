# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Opens, saves, tests and sends the pull requests for ORT in ``upstream/``, on the files of the stock backend.

A folder of ``upstream/`` is one step. It contains the message of its commit, ``changes.diff`` for files that exist
before the step, and the new files. No step contains a module of this tree.

``open`` makes a git repository with a commit for each step, and ``save`` writes the commits back. ``patch`` writes a
patch for each step. ``test`` tests each step with this Python, and compares it with the stock backend. ``upstream``
runs ORT's own tests. The option ``--stock`` is the folder ``onnxruntime/backend`` of a stock wheel.
"""

import argparse
import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UPSTREAM = ROOT / "upstream"
BACKEND = "onnxruntime/python/backend"
TESTS = "onnxruntime/test/python"
PATTERNS = ROOT / "tests" / "stock_patterns.py"
UPSTREAM_TESTS = ROOT / "tests" / "upstream_tests.py"
MESSAGE = "message.txt"
CHANGES = "changes.diff"
NOBODY = "nobody <nobody@localhost>"  # the author of commits that are not sent

# Files of a source tree that a wheel does not contain. A patch for a source tree changes them, too.
BUILD = "tools/ci_build/build.py"
TEST_OF_ORT = "onnxruntime_test_python_backend.py"
API = "docs/python/api_summary.rst"
LAST_FUNCTION = ".. autofunction:: onnxruntime.backend.supports_device\n"


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def steps() -> list[Path]:
    """Return the folder of each step, in order."""
    return sorted(UPSTREAM.glob("[0-9]*"))


def new_files(step: Path) -> list[str]:
    return sorted(path.relative_to(step).as_posix() for path in step.rglob("*.py"))


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def open_steps(folder: Path, stock: Path, checkout: Path | None = None, author: str = NOBODY) -> None:
    """Make a repository with a commit of the stock backend, and a commit and a tag for each step."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "--quiet")
    for file in stock.glob("*.py"):
        _copy(file, folder / BACKEND / file.name)
    for name in (BUILD, API) if checkout else ():
        _copy(checkout / name, folder / name)
    _commit(folder, "stock", NOBODY, "stock")
    for step in steps():
        git(folder, "apply", "--whitespace=error-all", str(step / CHANGES))
        for new in new_files(step):
            _copy(step / new, folder / new)
        if checkout:
            _add_to_build(folder / BUILD, step)
            _add_to_api(folder / API, step / "api_summary.rst")
        _commit(folder, (step / MESSAGE).read_text(encoding="utf-8"), author, step.name)


def _commit(folder: Path, message: str, author: str, tag: str) -> None:
    parts = re.fullmatch(r"(.+) <(.+@.+)>", author)
    if not parts:
        raise SystemExit("the author must have the form 'Name <address>', with an address that ORT's CLA check accepts")
    identity = ["-c", f"user.name={parts[1]}", "-c", f"user.email={parts[2]}"]
    git(folder, "add", "--all")
    git(folder, *identity, "commit", "--quiet", "--message", message)
    git(folder, "tag", tag)


def _add_to_build(file: Path, step: Path) -> None:
    """Run the tests of a step in the same way as ORT's own test of the backend, and after it."""
    source = file.read_text(encoding="utf-8")
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Expr)]
    found = [call for call in calls if TEST_OF_ORT in ast.unparse(call)]
    if len(found) != 1:
        raise SystemExit(f"{BUILD}: expected one call with {TEST_OF_ORT}, found {len(found)}")
    lines = source.splitlines(keepends=True)
    call = "".join(lines[found[0].lineno - 1 : found[0].end_lineno])
    tests = [Path(new).name for new in new_files(step) if new.startswith(TESTS)]
    lines[found[0].end_lineno : found[0].end_lineno] = [call.replace(TEST_OF_ORT, test) for test in tests]
    file.write_text("".join(lines), encoding="utf-8")


def _add_to_api(file: Path, addition: Path) -> None:
    source = file.read_text(encoding="utf-8")
    if source.count(LAST_FUNCTION) != 1:
        raise SystemExit(f"{API}: expected this line once: {LAST_FUNCTION}")
    if addition.exists():
        text = addition.read_text(encoding="utf-8")
        file.write_text(source.replace(LAST_FUNCTION, f"{LAST_FUNCTION}\n{text}"), encoding="utf-8")


def save(folder: Path) -> None:
    """Write the commits of an opened repository into the folders of the steps."""
    commits = ["stock", *git(folder, "rev-list", "--reverse", "stock..HEAD").split()]
    for step, (before, after) in zip(steps(), pairwise(commits), strict=True):
        for old in new_files(step):
            (step / old).unlink()
        for new in git(folder, "diff", "--name-only", "--diff-filter=A", before, after).split():
            (step / new).parent.mkdir(parents=True, exist_ok=True)
            (step / new).write_text(git(folder, "show", f"{after}:{new}"), encoding="utf-8")
        changes = git(folder, "diff", "--unified=1", "--diff-filter=M", before, after)
        (step / CHANGES).write_text(changes, encoding="utf-8")
        message = git(folder, "log", "--max-count=1", "--format=%B", after)
        (step / MESSAGE).write_text(message.strip() + "\n", encoding="utf-8")


def write_patches(stock: Path, checkout: Path | None, author: str, out: Path) -> None:
    """Write a patch for each step, for ``git am``."""
    if out.exists():
        shutil.rmtree(out)
    with tempfile.TemporaryDirectory() as name:
        open_steps(Path(name), stock, checkout, author)
        print(git(Path(name), "format-patch", "--output-directory", str(out.resolve()), "stock"), end="")
        print(git(Path(name), "log", "--reverse", "--stat", "--format=%n%s", "stock..HEAD"), end="")


def each_step(folder: Path, stock: Path) -> Iterator[tuple[str, Path]]:
    """Check out the stock backend and then each step, and return its name and its backend."""
    open_steps(folder, stock)
    for tag in ("stock", *(step.name for step in steps())):
        git(folder, "checkout", "--quiet", tag)
        yield tag, folder / BACKEND


def with_backend(backend: Path, site: Path) -> dict[str, str]:
    """Return environment variables with which Python imports the installed ORT with another backend."""
    package = site / "onnxruntime"
    package.mkdir(parents=True)
    code = "import onnxruntime; print(onnxruntime.__path__[0])"
    found = subprocess.run([sys.executable, "-c", code], cwd=site, check=True, stdout=subprocess.PIPE, text=True)
    for entry in Path(found.stdout.strip()).iterdir():
        if entry.name not in ("backend", "__pycache__"):
            (package / entry.name).symlink_to(entry)
    (package / "backend").symlink_to(backend)
    return {**os.environ, "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}


def test(folder: Path, stock: Path, site: Path) -> None:
    """Run the tests of each step, and compare its outcomes for users of the stock backend."""
    environment = {}
    expected = {}
    for tag, backend in each_step(folder, stock):
        environment = environment or with_backend(backend, site)
        for file in sorted((folder / TESTS).glob("onnxruntime_test_*.py")):
            print(f"{tag}: {file.name}", flush=True)
            subprocess.run([sys.executable, "-W", "ignore", file.name], cwd=file.parent, env=environment, check=True)
        outcomes = _outcomes(environment)
        expected = expected or outcomes  # of the stock backend
        different = compare(expected, outcomes)
        summary = f"{len(outcomes)} patterns of the stock backend's users: {len(different)} differ"
        print(f"{tag}: {summary}", flush=True)
        if different:
            raise SystemExit("\n".join(different))


def _outcomes(environment: dict[str, str]) -> dict[str, dict]:
    command = [sys.executable, str(PATTERNS)]
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    return json.loads(done.stdout.splitlines()[-1])  # ORT writes log lines before


def compare(there: dict[str, dict], here: dict[str, dict]) -> list[str]:
    """Return a line for each pattern and call with another outcome than with the stock backend."""
    different = []
    for name, outcome in there.items():
        if not _is_same(outcome, here[name]):
            different.append(f"{name}: stock {outcome}, here {here[name]}")
    return different


def _is_same(there: dict, here: dict) -> bool:
    if there["warnings"] != here["warnings"]:
        return False
    if "raised" not in there:
        return there["returned"] == here.get("returned")
    if there["raised"][0] not in here.get("raised", ()):  # a class of this backend derives from it
        return False
    return _without_addresses(there["message"]) == _without_addresses(here["message"])


def _without_addresses(message: str) -> str:
    return re.sub("0x[0-9a-f]+", "", message)


def upstream(stock: Path, checkout: Path, stock_python: str) -> int:
    """Run ORT's own tests with the last step and with the stock wheel. Return 1 if a result is worse."""
    with tempfile.TemporaryDirectory() as name:
        *_, (_, backend) = each_step(Path(name, "steps"), stock)
        path = with_backend(backend, Path(name, "site"))["PYTHONPATH"]
        command = [sys.executable, str(UPSTREAM_TESTS), str(checkout), stock_python, "--path", path]
        return subprocess.run(command, check=False).returncode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("command", choices=("open", "save", "patch", "test", "upstream"))
    parser.add_argument("--stock", type=Path, required=True, help="onnxruntime/backend of a stock wheel")
    parser.add_argument("--checkout", type=Path, help="for patch and upstream: ORT's source tree")
    parser.add_argument("--author", default="", help="for patch: 'Name <address>'")
    parser.add_argument("--stock-python", help="for upstream: the Python of an environment with the stock wheel")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "first_step", help="for open and save")
    chosen = parser.parse_args()
    if chosen.command == "save":
        save(chosen.folder)
    elif chosen.command == "open":
        chosen.folder.mkdir(parents=True)
        open_steps(chosen.folder, chosen.stock)
        print(f"{chosen.folder} has a commit for each step. Change the commits, and save them")
    elif chosen.command == "patch":
        stock = chosen.checkout / BACKEND if chosen.checkout else chosen.stock
        write_patches(stock, chosen.checkout, chosen.author, ROOT / "build" / "patch")
    elif chosen.command == "test":
        with tempfile.TemporaryDirectory() as name:
            test(Path(name, "steps"), chosen.stock, Path(name, "site"))
    else:
        sys.exit(upstream(chosen.stock, chosen.checkout, chosen.stock_python))


if __name__ == "__main__":
    main()
