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
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
BACKEND = "onnxruntime/python/backend"
TESTS = "onnxruntime/test/python"
CMAKE = "cmake/onnxruntime_python.cmake"
SETUP = "setup.py"
DOCUMENT = ROOT / "docs" / "upstreaming.md"
_IDENTITY = ("-c", "user.name=onnxruntime-backend", "-c", "user.email=backend@localhost")
_TEST = "onnxruntime_test_python_backend_"


class Step(NamedTuple):
    """One commit of the series.

    :param title: its subject.
    :param text: the content that it adds, and why.
    :param product: patterns of files below the folder of the backend.
    :param tests: patterns of test files, without their common beginning or ``backend_test_``.
    """

    title: str
    text: str
    product: tuple[str, ...]
    tests: tuple[str, ...]


_COMMANDS_OF_SETTINGS = (
    "__init__",
    "check",
    "configurations",
    "info",
    "inputs",
    "main",
    "options",
    "output",
    "schema",
    "value_schemas",
)
STEPS = (
    Step(
        "Backend API: tables of the EP options, session config entries and run config entries that callers may set",
        """
        Callers of the backend can be untrusted clients of an application. The tables say which option of which EP,
        which config entry and which attribute a caller may set, and to which values. All other names are refused.
        Nothing uses the tables yet. They come first, because they decide what the API can do.
        """,
        ("allowlist/*", "errors.py", "keywords.py", "optional_parts.py", "provider_names.py", "request.py"),
        (
            "allowlist_look_up.py",
            "allowlist_order.py",
            "allowlist_providers.py",
            "backend_test_allowlist.py",
            "backend_test_hostile_values.py",
            "backend_test_models.py",
        ),
    ),
    Step(
        "Backend API: provider_options, session_config and run_config",
        """
        prepare, run and rep.run accept the three configurations (issue 28209), on the CPU EP, on CUDA, and on each EP
        that needs no code of its own. The backend applies permitted settings and compares them with the values that
        ORT reports. Replaces the stock backend and keeps its behavior. Graph capture, OpenVINO and WebGPU are refused
        until a later step adds their part.
        """,
        ("__init__.py", "backend.py", "backend_rep.py", "py.typed", "runs/*", "session/*"),
        (
            "allowlist_ort_options_attributes.py",
            "backend_rep.py",
            "backend_stock.py",
            "backend_test_children.py",
            "backend_test_execution_providers.py",
            "backend_test_inputs.py",
            "backend_test_processes.py",
            "backend_test_threads.py",
            "errors.py",
            "configured.py",
            "request.py",
            "runs_inputs.py",
            "runs_outputs.py",
            "runs_run_options.py",
            "session_opening.py",
            "session_presence.py",
            "session_verification.py",
        ),
    ),
    Step(
        "Backend API: tests of each config entry, of conversions, and of failures on the CPU EP",
        """
        Observes an effect of each permitted config entry and attribute. Checks the values of each ONNX type, limits,
        broken models, and hostile settings. They are apart from the API because of their size.
        """,
        (),
        (
            "allowlist_ort_options_con*.py",
            "allowlist_value_kinds.py",
            "backend_test_observable_models.py",
            "exploits.py",
            "runs_values.py",
            "session_failures.py",
            "session_model_versions.py",
        ),
    ),
    Step(
        "Backend API: sizes for the free dimensions of a model",
        """
        free_dimension_overrides={name: size} fixes symbolic dimensions of the model's inputs. Some EPs run only models
        with fixed dimensions.
        """,
        ("free_dimensions.py",),
        ("free_dimensions.py",),
    ),
    Step(
        "Backend API: time limits and cancellation of runs",
        """
        rep.run(inputs, timeout=seconds, cancellation=...) ends a run that takes too long or that another thread ends.
        One thread keeps the deadlines of all runs.
        """,
        ("limits.py",),
        ("limits.py",),
    ),
    Step(
        "Backend API: reasons for refusals, and suggestions for misspelt names",
        """
        Every name of ORT that is not permitted was reviewed. An error contains the reason, or a permitted name that
        is similar. Safety does not depend on this part: without it, the same names are refused.
        """,
        ("refusals/*",),
        ("allowlist_properties*.py", "refusals*.py"),
    ),
    Step(
        "Backend API: a configuration in an environment variable",
        """
        ORT_ONNX_BACKEND_CONFIG configures every model that a process prepares, and can narrow the allowlist for
        callers. Programs such as ONNX's conformance tests call prepare without a configuration.
        """,
        ("environment/*",),
        ("environment*.py",),
    ),
    Step(
        "Backend API: plugin EPs and custom operators from the environment",
        """
        The environment variable can specify libraries, which are code. Callers cannot.
        """,
        ("libraries/*",),
        ("libraries_*.py", "plugins.py"),
    ),
    Step(
        "Backend API: a lock for sessions that share a device",
        """
        Permits WebGPU, whose sessions may not be created, run or released at the same time. A later step uses the
        same lock for graph capture on CUDA.
        """,
        ("locks.py",),
        ("locks*.py", "webgpu.py", "with_software_gpu.sh"),
    ),
    Step(
        "Backend API: OpenVINO",
        """
        Permits the OpenVINO EP. Decides which runs may be parallel, replaces a session after a failed run, and
        refuses models for which the EP is known to return wrong values.
        """,
        ("openvino/*",),
        ("openvino*.py", "backend_openvino_*.py", "backend_parallel_operators.py"),
    ),
    Step(
        "Backend API: graph capture",
        """
        Captures and replays graphs on CUDA, TensorRT and WebGPU: session.run would be wrong on a session that
        captures. A graph has its own buffers, and is compared with a run without capture before it returns its first
        outputs.
        """,
        ("capture/*",),
        (
            "backend_test_capture.py",
            "backend_test_capture_cuda.py",
            "backend_test_captured_models.py",
            "capture_*.py",
            "cuda*.py",
            "session_ort_messages.py",
            "session_state.py",
        ),
    ),
    Step(
        "Backend API: tests of graph capture on WebGPU",
        """
        Captures each operator that WebGPU may capture, in small models whose shapes and attributes vary.
        """,
        (),
        ("backend_captured_*.py", "operators_webgpu_capture.py", "webgpu_capture.py"),
    ),
    Step(
        "Backend API: a software CUDA for the tests of the CUDA EP",
        """
        Libraries with the functions of NVIDIA's libraries that the tests need. They compute on the CPU, so that the
        tests of the CUDA EP run without a GPU.
        """,
        (),
        ("software_cuda*", "software_cuda/*", "with_software_cuda.sh"),
    ),
    Step(
        "Backend API: a command line that lists and checks configurations",
        """
        python -m onnxruntime.backend lists the EPs of this machine and the permitted settings, and checks a
        configuration.
        """,
        (
            "__main__.py",
            *(f"command_line/{name}.py" for name in _COMMANDS_OF_SETTINGS),
        ),
        (
            "backend_test_command_line.py",
            *(f"command_line_{name}*.py" for name in _COMMANDS_OF_SETTINGS),
            "command_line_arguments.py",
            "command_line_processes.py",
        ),
    ),
    Step(
        "Backend API: a command that runs a model, and a report of ONNX's tests",
        """
        The command run compares outputs and latencies of several configurations. The pytest plugin conformance.py
        records the EPs of each of ONNX's backend tests, and the command report shows them. Adds the test of the
        architecture.
        """,
        (
            "conformance.py",
            "command_line/inspect.py",
            "command_line/measure.py",
            "command_line/report*.py",
            "command_line/run*.py",
        ),
        (
            "architecture.py",
            "backend_differential_fuzz.py",
            "command_line_inspect*.py",
            "command_line_run*.py",
            "command_line_measure*.py",
            "command_line_report*.py",
            "conformance.py",
            "backend_test_messages.py",
            "messages.py",
            "optional_parts.py",
        ),
    ),
)
# The step that replaces the stock backend.
API = next(number for number, step in enumerate(STEPS) if "backend.py" in step.product)


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
