# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The environments and tasks of this repository. ``nox -l`` lists them, and ``nox -s test`` runs one.

An environment is a folder ``.nox/NAME`` with a wheel of this tree and the packages that pyproject.toml lists. After an
edit of the backend or of the packages, nox updates it. Tasks have variables: ``make try FILE=locks TEST="-k NAME"``, or
``nox -s try -- FILE=locks -k NAME``. ``BASE_cpu=onnxruntime==1.30.0`` selects another stock wheel for ``cpu``.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from functools import partial
from pathlib import Path

import nox

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

import setup  # noqa: E402

nox.needs_version = ">=2025.10.14"  # sessions can require other sessions
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.download_python = "never"
nox.options.error_on_missing_interpreters = True
nox.options.sessions = ["test"]

given = sys.argv[sys.argv.index("--") + 1 :] if "--" in sys.argv else []
is_setting = re.compile(r"[A-Z]\w*=").match
os.environ.update(word.split("=", 1) for word in given if is_setting(word))
# If PYTHON changes, nox creates the environments again. uv compiles the modules, as pip does, because tests start many
# processes, and a shell can contain PYTHONDONTWRITEBYTECODE.
os.environ |= {"ORT_DISABLE_TELEMETRY": "1", "NOX_ENABLE_STALENESS_CHECK": "1", "UV_COMPILE_BYTECODE": "1"}
variable = os.environ.get

TEST = variable("TEST", shlex.join(word for word in given if not is_setting(word)))
PROJECT = nox.project.load_toml("pyproject.toml")
GROUPS, TOOL = PROJECT["dependency-groups"], PROJECT["tool"]
ENVIRONMENTS, ORDER, RELEASES = TOOL["environments"], TOOL["tests"], TOOL["releases"]
CONSTRAINTS = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
TESTS = "onnxruntime/test/python/backend"
found = [*ROOT.glob(f"{TESTS}/test_*.py"), *ROOT.glob("tests/test_*.py")]
TEST_FILES = sorted(file.relative_to(ROOT).as_posix() for file in found)


def ending(endings: list[str]) -> list[str]:
    return [file for one in endings for file in TEST_FILES if file.endswith(f"_{one}.py")]


def own_tests(table: dict) -> list[str]:
    return ending(table.get("also", []) + table.get("only", []))


def all_tests(name: str, without: list[str]) -> list[str]:
    """Return the test files of an environment, in the order in which they begin."""
    own = own_tests(ENVIRONMENTS[name])
    if ENVIRONMENTS[name].get("alone"):
        return own + ending(["option_drift"])
    left_out = {file for table in ENVIRONMENTS.values() for file in ending(table.get("only", [])) if file not in own}
    left_out.update(ending(without))
    ordered = dict.fromkeys(ending(ORDER["longest"]) + own + TEST_FILES)
    return [file for file in ordered if file not in left_out]


def folder(name: str) -> Path:
    return ROOT / ".nox" / re.sub(r"\W+", "-", name).lower()  # as nox does


def python(name: str) -> str:
    return str(folder(name) / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))


def site_packages(name: str) -> Path:
    return next(folder(name).glob("lib/python3*/site-packages"), folder(name) / "Lib/site-packages")


def environment(name: str, base: str, packages: list[str], *, stock: bool = False) -> None:
    """Add the session that creates an environment with the wheel of this tree, or with the stock wheel."""
    distribution, version = setup.requested_base(base)
    wheel = f"{distribution.replace('-', '_')}-{version if stock else setup.labeled(version)}"
    packages = GROUPS["test"] + packages
    chosen = {package.partition("==")[0] for package in packages if "==" in package}
    constraints = "\n".join(line for line in CONSTRAINTS if line.partition("==")[0] not in chosen)
    contents = "\n".join([distribution, version, *packages, constraints])
    made = folder(name) / "made"
    old = made.read_text(encoding="utf-8") if made.is_file() else ""

    def create(session: nox.Session) -> None:
        if made.is_file() and old == f"{wheel}\n{contents}":
            return
        made.unlink(missing_ok=True)
        folder(name).joinpath("constraints.txt").write_text(constraints, encoding="utf-8")
        install = partial(session.install, "--quiet", "--constraint", f".nox/{folder(name).name}/constraints.txt")
        install(f"{distribution}=={version}" if stock else ".", *packages, env={"ORT_BACKEND_BASE": base})
        install("--no-deps", "--target", str(folder(name) / "models"), *GROUPS["models"])
        session.run("python", "-m", "pip", "check", silent=True)
        if not site_packages(name).joinpath(f"{wheel}.dist-info").is_dir():
            session.error(f"the installed package is not {wheel}")
        made.write_text(f"{wheel}\n{contents}", encoding="utf-8")

    create.__doc__ = f"create .nox/{folder(name).name}: {'the stock' if stock else 'this backend on'} {distribution}"
    keep = old.partition("\n")[2] == contents
    nox.session(create, name=name, python=variable("PYTHON"), reuse_venv=keep, allow_parallel=True)


def run(session: nox.Session, command: str) -> None:
    """Run an environment's Python with settings and arguments. In them, ``@NAME`` is the Python of an environment."""
    name, *words = shlex.split(command)
    words = [re.sub(r"(^|(?<==))@([\w.-]+)$", lambda found: python(found[2]), word) for word in words]
    settings = dict(word.split("=", 1) for word in words if is_setting(word))
    arguments = [word for word in words if not is_setting(word)]
    script = ENVIRONMENTS.get(name, {}).get("under")
    under = ["sh", f"{TESTS}/{script}"] if script and sys.platform == "linux" else []
    session.log(command[:160])  # nox would show each test file
    session.run(*under, python(name), *arguments, env=settings, external=True, log=False)


def task(name: str, description: str, *commands: str) -> None:
    """Add the session that runs commands: an environment, settings such as ``NAME=VALUE``, and arguments."""

    def run_all(session: nox.Session) -> None:
        for command in commands:
            run(session, command)

    run_all.__doc__ = description
    environments = re.findall(r"(?:^|(?<=[ =])@)([\w.-]+)", "\n".join(commands), re.MULTILINE)
    nox.session(run_all, name=name, python=False, requires=list(dict.fromkeys(environments)))


for name, table in ENVIRONMENTS.items():
    table["base"] = variable(f"BASE_{name.replace('-', '_')}", table["base"])
    environment(name, table["base"], table.get("packages", []))
CPU, ONNX = ENVIRONMENTS["cpu"]["base"], variable("ONNX", " ".join(RELEASES["onnx"])).split()
environment("stock", CPU, ["onnx"], stock=True)
environment("stock-openvino", ENVIRONMENTS["openvino"]["base"], ["onnx"], stock=True)
for release in dict.fromkeys([*ONNX, RELEASES["onnx-of-ort"]]):
    environment(f"onnx-{release}", CPU, [f"onnx=={release}"])
    environment(f"onnx-{release}-stock", CPU, [f"onnx=={release}"], stock=True)
# Another Python and other packages have an environment of their own.
chosen = variable("WITH", "").split()
OTHER = "-".join([Path(variable("PYTHON", "python3")).name, *chosen]).replace("==", "-")
environment(OTHER, CPU, ENVIRONMENTS["cpu"]["packages"] + chosen)

# At import, numpy's OpenBLAS starts a thread for each CPU. The threads spin for 0.1 s in each of the many processes.
PYTEST = f"OPENBLAS_NUM_THREADS=1 -m pytest {TEST}"
PARALLEL = f"{PYTEST} -n auto --dist loadfile --no-loadscope-reorder"  # all tests of a file in the same process
CAMPAIGN = f"PYTHONPATH={TESTS} -m campaigns"
SERIES = "-m pytest -q -rX tests/onnx_series.py"
PIP = "-m pip install --quiet --constraint constraints.txt"
# ``make test-python PYTHON=python3.14t`` creates this environment. An older backend in it is not measured.
measured = any(site_packages("python3.14t").glob(f"*{setup.labeled('')}.dist-info"))
FREE_THREADED = f"--free-threaded {shlex.quote(python('python3.14t'))}" if measured else ""
BENCH, ENV, CHECKOUT = variable("BENCH", ""), variable("ENV", "cpu"), shlex.quote(variable("CHECKOUT", "CHECKOUT"))


def overlay(name: str, folder: str) -> str:
    """Make a folder with the installed ORT of an environment, and with this tree in place of its backend."""
    made = ROOT / "build" / folder
    shutil.rmtree(made, ignore_errors=True)
    made.joinpath("onnxruntime").mkdir(parents=True)
    for path in site_packages(name).joinpath("onnxruntime").iterdir():
        target = ROOT / "onnxruntime/python/backend" if path.name == "backend" else path
        made.joinpath("onnxruntime", path.name).symlink_to(target, target.is_dir())
    return shlex.quote(str(made))


@nox.session(name="try", python=False, requires=[] if site_packages(ENV).is_dir() else [ENV])
def try_files(session: nox.Session) -> None:
    """run the test files FILE=ENDING on this tree, without building a wheel; TEST="-k NAME" ENV=cuda"""
    files = ending([variable("FILE", "?")]) or session.error("no test file ends with _FILE.py")
    run(session, f"{ENV} PYTHONPATH={overlay(ENV, 'try')} -m pytest {TEST} {' '.join(files)}")


@nox.session(python=False, requires=["cpu"])
def lint(session: nox.Session) -> None:
    """check the code with ruff, and the types of the backend with mypy"""
    run(session, "cpu -m ruff check")
    run(session, "cpu -m ruff format --check")
    path = overlay("cpu", "lint")
    run(session, f"cpu MYPYPATH={path} -m mypy")
    run(session, f"cpu MYPYPATH={path} -m mypy tests/typed_program.py")


STOCK_FILES = f"--stock {shlex.quote(str(site_packages('stock') / 'onnxruntime/backend'))}"
FIRST_STEP = "tools/python/backend_first_step.py"


@nox.session(python=False, requires=["cpu", "stock"])
def patch(session: nox.Session) -> None:
    """write the patches for an ORT source tree, CHECKOUT=FOLDER, into build/patch"""
    source = f"--checkout {CHECKOUT}" if variable("CHECKOUT") else STOCK_FILES
    run(session, f"cpu tools/python/backend_patch.py {source}")


@nox.session(name="first-step", python=False, requires=["cpu", "stock"])
def first_step(session: nox.Session) -> None:
    """open the first upstream step in build/first_step for edits, and write the edits back with SAVE=1"""
    command = "save" if variable("SAVE") else "open"
    run(session, f"cpu {FIRST_STEP} {command} {STOCK_FILES}")


@nox.session(python=False, requires=["cpu"])
def demo(session: nox.Session) -> None:
    """classify this repository's files with a real model"""
    files = session.run("git", "ls-files", external=True, silent=True, log=False).splitlines()
    run(session, f"cpu examples/magika_demo.py {shlex.join(files)}")


for name, table in ENVIRONMENTS.items():
    files = " ".join(all_tests(name, [] if name == "cpu" else ORDER["once"]))
    again = [f"{name} {table['again']} {PYTEST} {' '.join(own_tests(table))}"] if "again" in table else []
    start = PYTEST if "alone" in table else PARALLEL
    stock = "ORT_STOCK_PYTHON=@stock" if name == "cpu" else ""
    if "help" in table:
        task("test" if stock else f"test-{name}", table["help"], f"{name} {stock} {start} {files}", *again)
# fmt: off
task("environments", "create the environments of all tests and examples; NOX_PARALLEL=2 creates two at a time",
     *(f"{name} --version" for name in ("stock", *ENVIRONMENTS)))
task("environment-python", "create the environment of test-python", f"{OTHER} --version")
files = " ".join(all_tests("cpu", [*ORDER["once"], "option_drift", "option_document"]))
task("test-python", 'run the CPU tests on PYTHON=python3.13, or WITH="numpy==1.24.4 onnx==1.17.0"',
     f"{OTHER} ORT_BACKEND_EXAMPLES=100 {PARALLEL} {files}")
task("test-first-step", "test the first upstream step on four stock wheels", "stock --version",
     *(f"{name} {FIRST_STEP} test {STOCK_FILES}" for name in ("cpu", "openvino", "webgpu", "cuda")))
task("scale-out", "run the Dask example: two local workers, then a scheduler and two workers on 127.0.0.1",
     "dask tests/scale_out.py", "dask -m pytest tests/test_documents.py -k services_and_scale_out")
task("conformance", "run ONNX's backend tests on the default base", f"cpu {SERIES} -n auto")
task("conformance-openvino", "run ONNX's backend tests on OpenVINO", f"openvino {SERIES} -n auto")
task("conformance-webgpu", "run ONNX's backend tests on WebGPU", f"webgpu {SERIES}")
task("conformance-keys", "run ONNX's tests with each config key", "cpu -W ignore tests/onnx_series.py --each-key")
task("conformance-numbers", "compare both backends and InferenceSession in ONNX's tests of several releases of onnx",
     *(f"onnx-{release} -W ignore tests/onnx_series.py --stock @onnx-{release}-stock" for release in ONNX))
task("bench", 'measure the backend, and write docs/benchmarks.md (6 minutes); BENCH="run_path --match Magika"',
     f"cpu {PIP} matplotlib", "cpu PYTHONPATH=.nox/stock/models -m benchmarks --stock @stock --json build/bench.json "
     f"{FREE_THREADED} {BENCH or '--record --document docs/benchmarks.md'}")
task("bench-openvino", "measure parallel runs on OpenVINO, and write their table of docs/benchmarks.md",
     "openvino PYTHONPATH=.nox/openvino/models -m benchmarks openvino --json build/bench-openvino.json "
     f"{BENCH or '--record --document docs/benchmarks.md --table openvino'}")
task("bench-capture", "measure graph capture and other runs on CUDA and on the WebGPU plugin",
     f"cuda -m benchmarks graph_capture --json build/bench-capture-cuda.json {BENCH}",
     f"webgpu-plugin -m benchmarks graph_capture --json build/bench-capture.json {BENCH}")
task("campaign-cuda", "capture 120 random models on CUDA, in 12,000 runs", *(f"cuda SOFTCUDA_LAZY={lazy} "
     f"ORT_BACKEND_MODELS=120 -m pytest {' '.join(ending(['cuda_models']))}" for lazy in (0, 1)))
task("captured-operators", "capture each operator on WebGPU", f"webgpu-plugin {CAMPAIGN}.captured_operators")
task("unwritten-outputs", "search the CPU EP of each base for operators that do not write their outputs",
     *(f"{name} {CAMPAIGN}.unwritten_outputs" for name in ("cpu", "openvino", "webgpu", "cuda")))
task("openvino-defects", "run each structure that is refused on OpenVINO, and similar ones, on each form of OpenVINO",
     *(f"{name} {CAMPAIGN}.openvino_known_defects" for name in ("openvino", "plugins")))
task("openvino-graphs", 'run 5,000 random graphs on each form of OpenVINO; GRAPHS="--count 100 --seed 7"',
     *(f"{name} {CAMPAIGN}.openvino_graphs {variable('GRAPHS', '')}" for name in ("openvino", "plugins")))
ZOO = shlex.quote(variable("ZOO", "tests/zoo"))
task("zoo", "run models of real architectures on the CPU EP and on OpenVINO; ZOO=FOLDER ENV=cuda",
     *(f"{name} tests/zoo.py {ZOO}" for name in variable("ENV", "cpu openvino").split()))
task("fuzz", "test the allowlist with 50,000 examples, and outputs with 4,000 configurations (30 minutes)",
     f"cpu ORT_BACKEND_EXAMPLES=50000 -m pytest -s {' '.join(ending(['properties']))}",
     *(f"{name} {CAMPAIGN}.differential_fuzz" for name in ("cpu", "openvino")))
files = " ".join(file for file in all_tests("cpu", []) if file.startswith(TESTS))
task("mutants", "change the backend in 200 small ways, and list changes that no test detects (an hour)",
     f"cpu {PIP} coverage", "cpu ORT_BACKEND_EXAMPLES=100 tools/python/backend_mutants.py --sample 200 "
     f"--json build/mutants.json {variable('MUTANTS', '')} {files}")
task("document", "write the documents of options", "cpu tools/python/backend_option_document.py")
task("drift", "list option names of RELEASES=onnxruntime==1.31.1 that the allowlist does not contain",
     f"cpu tools/python/backend_option_drift.py {variable('RELEASES', ' '.join(RELEASES['drift']))}")
task("new-release", "test RELEASE=onnxruntime==1.33.0, and print one page of things to review",
     f"cpu tools/python/backend_new_release.py {variable('RELEASE', 'RELEASE')}")
BOARD = ("stock", "stock-openvino", "cpu", "openvino", "plugins", "webgpu-plugin")
task("scoreboard", "run onnx/backend-scoreboard, CHECKOUT=FOLDER, on several EPs and the stock wheel (30 minutes)",
     *(f"{name} {PIP} tabulate jinja2" for name in BOARD),
     f"cpu tests/scoreboard.py {CHECKOUT} {' '.join(f'{name}=@{name}' for name in BOARD)} {TEST}")
name = f"onnx-{RELEASES['onnx-of-ort']}"
task("upstream-tests", "run ORT's own backend tests, CHECKOUT=FOLDER, and compare the results; FIRST_STEP=1",
     "stock --version", f"{name} {FIRST_STEP} upstream {CHECKOUT} {STOCK_FILES} --stock-python @{name}-stock"
     if variable("FIRST_STEP") else f"{name} tests/upstream_tests.py {CHECKOUT} @{name}-stock")
