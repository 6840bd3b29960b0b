# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Derives the first step of the upstream change: the request of issue 28209 alone, on the files of the stock backend.

The first step consists of the stock backend, of modules of this tree, and of ``upstream/first_step.diff``, which
changes both. The first lines of the diff list these modules. The tests of the first step are in ``upstream/``.

``open FOLDER`` writes the first step into a folder. After an edit, ``save FOLDER`` writes the diff and the tests back.
``test`` runs the tests of the first step with this Python, and compares the first step with the stock backend.
``upstream CHECKOUT`` runs ORT's own tests. The option ``--stock`` is the folder ``onnxruntime/backend`` of a
stock wheel.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UPSTREAM = ROOT / "upstream"
DIFF = UPSTREAM / "first_step.diff"
BACKEND = "onnxruntime/python/backend"
TESTS = "onnxruntime/test/python"
OUTCOMES = ROOT / "tests" / "stock_outcomes.py"
UPSTREAM_TESTS = ROOT / "tests" / "upstream_tests.py"
SEQUENCES = "40"
_FROM_TREE = "from the tree: "
_IDENTITY = ("-c", "user.name=onnxruntime-backend", "-c", "user.email=backend@localhost")


def git(folder: Path, *arguments: str) -> str:
    command = ["git", *_IDENTITY, *arguments]
    return subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


def tests() -> list[Path]:
    """Return the test files of the first step."""
    return sorted(UPSTREAM.glob("onnxruntime_test_*.py"))


def derive(folder: Path, stock: Path, *options: str) -> bool:
    """Write the first step into an empty folder. Return whether the diff applies to the tree.

    :param options: of ``git apply``.
    """
    _copy_stock(stock, folder)
    for line in DIFF.read_text(encoding="utf-8").splitlines():
        if line.startswith(_FROM_TREE):
            file = line.removeprefix(_FROM_TREE)
            _copy(ROOT / file, folder / file)
    git(folder, "init", "--quiet")  # git apply ignores a folder inside another repository
    command = ["git", "apply", "--whitespace=error-all", *options, str(DIFF)]
    applied = subprocess.run(command, cwd=folder, check=False)
    shutil.rmtree(folder / ".git")
    for test in tests():
        _copy(test, folder / TESTS / test.name)
    return applied.returncode == 0


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _copy_stock(stock: Path, folder: Path) -> None:
    for file in stock.glob("*.py"):
        _copy(file, folder / BACKEND / file.name)


def files_of(folder: Path) -> list[str]:
    """Return the modules of a first step in a folder."""
    return sorted(path.relative_to(folder).as_posix() for path in (folder / BACKEND).rglob("*.py"))


def save(folder: Path, stock: Path) -> None:
    """Write the diff and the tests of a first step in a folder."""
    for rejected in folder.rglob("*.rej"):
        raise SystemExit(f"{rejected} contains changes that do not apply. Make them, and delete this file")
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        _copy_stock(stock, base)
        from_tree = []
        for file in files_of(folder):
            if not (base / file).exists() and _is_similar(ROOT / file, folder / file):
                _copy(ROOT / file, base / file)
                from_tree.append(file)
        git(base, "init", "--quiet")
        git(base, "add", "--all")
        git(base, "commit", "--quiet", "--message=base")
        for file in files_of(folder):
            _copy(folder / file, base / file)
        git(base, "add", "--all")
        diff = git(base, "diff", "--cached", "--unified=1")
    header = "".join(f"{_FROM_TREE}{file}\n" for file in from_tree)
    DIFF.write_text(f"{header}\n{diff}", encoding="utf-8")
    for test in tests():
        test.unlink()
    for test in (folder / TESTS).glob("onnxruntime_test_*.py"):
        _copy(test, UPSTREAM / test.name)


def _is_similar(of_tree: Path, of_first_step: Path) -> bool:
    """Return whether a diff of a module of the tree is shorter than the module of the first step."""
    if not of_tree.exists():
        return False
    return len(_difference(of_tree, of_first_step)) < of_first_step.stat().st_size


def _difference(old: Path, new: Path) -> str:
    command = ["git", "diff", "--no-index", "--unified=1", str(old), str(new)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout


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


def run_tests(first: Path, stock: Path, site: Path) -> None:
    """Run the tests of the first step, and compare it with the stock backend."""
    here = with_backend(first / BACKEND, site / "here")
    for test in sorted((first / TESTS).glob("onnxruntime_test_*.py")):
        print(test.name, flush=True)
        subprocess.run([sys.executable, "-W", "ignore", test.name], cwd=test.parent, env=here, check=True)
    _copy_stock(stock, site / "stock_files")
    there = with_backend(site / "stock_files" / BACKEND, site / "there")
    differences = compare(_outcomes(there), _outcomes(here))
    if differences:
        raise SystemExit("\n".join(differences))


def _outcomes(environment: dict[str, str]) -> dict[str, dict]:
    command = [sys.executable, str(OUTCOMES), SEQUENCES]
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    patterns, sequences = json.loads(done.stdout.splitlines()[-1])  # ORT writes log lines before
    return patterns | sequences


def compare(there: dict[str, dict], here: dict[str, dict]) -> list[str]:
    """Return a line for each pattern and call with another outcome than with the stock backend, and print a summary."""
    different = []
    for name, outcome in there.items():
        if not _is_same(outcome, here[name]):
            different.append(f"{name}: stock {outcome}, first step {here[name]}")
    print(f"{len(there)} patterns and calls of the stock backend's users: {len(different)} differ", flush=True)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("command", choices=("open", "save", "test", "upstream"))
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "build" / "first_step")
    parser.add_argument("--stock-python", help="for upstream: the Python of an environment with the stock wheel")
    parser.add_argument("--stock", type=Path, required=True, help="onnxruntime/backend of a stock wheel")
    chosen = parser.parse_args()
    if chosen.command == "save":
        save(chosen.folder, chosen.stock)
    elif chosen.command == "open":
        chosen.folder.mkdir(parents=True)
        if not derive(chosen.folder, chosen.stock, "--reject"):
            print("An edit of the tree needs a change of the diff. Make the changes in the .rej files, and delete them")
        print(f"The first step is in {chosen.folder}. After an edit, save it")
    else:
        with tempfile.TemporaryDirectory() as name:
            first = Path(name, "first")
            first.mkdir()
            if not derive(first, chosen.stock):
                raise SystemExit("The diff does not apply to this tree. Run: make first-step")
            if chosen.command == "test":
                run_tests(first, chosen.stock, Path(name))
            else:
                path = with_backend(first / BACKEND, Path(name, "here"))["PYTHONPATH"]
                command = [sys.executable, str(UPSTREAM_TESTS), str(chosen.folder), chosen.stock_python]
                sys.exit(subprocess.run([*command, "--path", path], check=False).returncode)


if __name__ == "__main__":
    main()
