# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Writes two patches for an ORT source tree: the request of issue 28209 alone, and the whole tree of this repository.

``python tools/python/backend_patch.py --checkout FOLDER --out FOLDER`` needs git. The checkout is ORT's source tree.
The patches change the three files of the stock backend and two build files. The file ``cmake/onnxruntime_python.cmake``
copies the package into the build, and ``setup.py`` lists the packages and data files of the wheel. The option
``--stock FOLDER`` accepts ``onnxruntime/backend`` of a stock wheel instead, and these patches do not contain the build
files. To check each patch, the tool applies it to the original files.

``backend_first_step.py`` derives the first patch.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from backend_first_step import BACKEND, ROOT, TESTS, derive, git

CMAKE = "cmake/onnxruntime_python.cmake"
SETUP = "setup.py"
TREE = "backend.patch"  # the name of the patch of the whole tree
_TITLE = "Backend API: provider_options, session_config and run_config"
_TEXT = """\
prepare, run and rep.run accept options of execution providers, session
config entries and run config entries (issue 28209), on the CPU EP and on
CUDA. ORT receives a setting only if a table permits the name and the
value. The backend compares the session with the settings afterwards.
Callers who use none of the new arguments see no difference."""


def upstream_files() -> list[str]:
    """Return the files of this repository that go into ORT's tree, as git lists them."""
    files = git(ROOT, "ls-files", f"{BACKEND}/*.py", f"{BACKEND}/py.typed", TESTS).splitlines()
    if deleted := [file for file in files if not (ROOT / file).exists()]:
        raise SystemExit(f"{', '.join(deleted)}: git tracks it, but it does not exist. Restore it, or run git rm")
    return files


def start(tree: Path, stock: Path, checkout: Path | None = None) -> None:
    """Make a repository with the files of ORT that the patches change."""
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


def write_first_step(tree: Path) -> None:
    """Replace the stock backend by the first step."""
    with tempfile.TemporaryDirectory() as name:
        if not derive(Path(name), tree / BACKEND):
            raise SystemExit("The diff of the first step does not apply. Run: make first-step")
        shutil.copytree(name, tree, dirs_exist_ok=True)


def write_tree(tree: Path) -> None:
    """Replace the stock backend by the whole tree."""
    for file in upstream_files():
        (tree / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tree / file)


def build(tree: Path, out: Path) -> None:
    """Commit each change on a branch of its own, and write its patch."""
    if out.exists():
        shutil.rmtree(out)
    out.mkdir(parents=True)
    _commit(tree, "first_step", write_first_step)
    git(tree, "format-patch", "--quiet", "--output-directory", str(out.resolve()), "stock")
    _commit(tree, "tree", write_tree)
    (out / TREE).write_text(git(tree, "diff", "stock", "tree"), encoding="utf-8")


def _commit(tree: Path, branch: str, write: Callable[[Path], None]) -> None:
    git(tree, "checkout", "--quiet", "-b", branch, "stock")
    write(tree)
    if (tree / SETUP).exists():
        edit_build_files(tree)
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message", _TITLE, "--message", _TEXT)
    lines = git(tree, "diff", "--shortstat", "stock").strip()
    print(f"{branch}: {lines}", flush=True)


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
    """Apply each patch to ORT's files, and compare the result with its branch."""
    (first_step,) = out.glob("0001-*.patch")
    for patch, branch in ((first_step, "first_step"), (out / TREE, "tree")):
        git(tree, "checkout", "--quiet", "--detach", "stock")
        git(tree, "apply", "--index", "--whitespace=error-all", str(patch.resolve()))
        if git(tree, "write-tree") != git(tree, "rev-parse", f"{branch}^{{tree}}"):
            raise SystemExit(f"{patch.name} makes other files than the branch {branch}")
        git(tree, "reset", "--quiet", "--hard")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--checkout", type=Path, help="source tree of ORT")
    source.add_argument("--stock", type=Path, help="onnxruntime/backend of a stock wheel: no build files")
    out = ROOT / "build" / "patch"
    parser.add_argument("--out", type=Path, default=out, help="folder to write; replaced if it exists")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        start(tree, chosen.stock or chosen.checkout / BACKEND, chosen.checkout)
        build(tree, chosen.out)
        check(tree, chosen.out)
    print(f"The patches in {chosen.out} apply to ORT's files")
    if not chosen.checkout:
        print(f"They leave out {CMAKE} and {SETUP}, without which ORT's build lacks the folders: use --checkout")


if __name__ == "__main__":
    main()
