# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The tasks of this repository. ``nox -l`` lists them, and ``nox -s test`` runs one.

Tasks have variables: ``make try FILE=locks TEST="-k NAME"``, or ``nox -s try -- FILE=locks -k NAME``.
``BASE_cpu=onnxruntime==1.30.0`` selects another stock wheel for the environment ``cpu``.
"""

import shlex
import sys
from pathlib import Path

import nox

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

import setup  # noqa: E402
from tools.nox_environments import (  # noqa: E402
    CHECKOUT,
    ENV,
    ENVIRONMENTS,
    LISTED_TESTS,
    ONNX,
    ONNX_OF_ORT,
    OTHER,
    RELEASES,
    TEST,
    TESTS,
    all_tests,
    ending,
    overlay,
    run,
    site_packages,
    task,
    variable,
)

nox.needs_version = ">=2025.10.14"  # sessions can require other sessions
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.download_python = "never"
nox.options.error_on_missing_interpreters = True
nox.options.sessions = ["test"]

# At import, numpy's OpenBLAS starts a thread for each CPU. The threads spin for 0.1 s in each of the many processes.
PYTEST = f"OPENBLAS_NUM_THREADS=1 -m pytest {TEST}"
WORKERS = f"-n {variable('WORKERS', 'auto')}"
PARALLEL = f"{PYTEST} {WORKERS} --dist loadfile --no-loadscope-reorder"  # all tests of a file in the same process
CAMPAIGN = f"PYTHONPATH={TESTS} -m campaigns"
SERIES = "-m pytest -q -rX tests/onnx_series.py"
PIP = "-m pip install --quiet --constraint constraints.txt"
STOCK_FILES = f"--stock {shlex.quote(str(site_packages('stock') / 'onnxruntime/backend'))}"
FIRST_STEP = "tools/python/backend_first_step.py"
BENCH = variable("BENCH", "")

# --- Tests and checks ---


@task(*([] if site_packages(ENV).is_dir() else [ENV]))
def try_(session: nox.Session) -> None:
    """run the test files FILE=ENDING on this tree, without building a wheel; TEST="-k NAME" ENV=cuda"""
    files = ending([variable("FILE", "FILE")])
    run(session, f"{ENV} PYTHONPATH={overlay(ENV, 'try')} -m pytest {TEST} {' '.join(files)}")


def add_tests(environment: str, table: dict) -> None:
    """Add the session that runs the tests of an environment."""
    name = f"test-{environment}"
    required = [environment]
    without = LISTED_TESTS["once"]
    start = f"ORT_BACKEND_EXAMPLES=100 {PARALLEL}"
    if environment == "cpu":
        name = "test"
        required = ["cpu", "stock"]
        without = []
        start = f"ORT_STOCK_PYTHON=@stock {PARALLEL}"
    elif "alone" in table:
        start = PYTEST

    def test(session: nox.Session) -> None:
        files = all_tests(environment, without)
        run(session, f"{environment} {start} {' '.join(files)}")
        again = table.get("again")
        if again:
            files = ending(again["tests"])
            run(session, f"{environment} {again['settings']} {PYTEST} {' '.join(files)}")

    test.__doc__ = table["help"]
    task(*required, name=name)(test)


for name, table in ENVIRONMENTS.items():
    if "help" in table:
        add_tests(name, table)


@task(OTHER)
def test_python(session: nox.Session) -> None:
    """run the CPU tests on PYTHON=python3.13, or WITH="numpy==1.24.4 onnx==1.17.0"; FEWER=1"""
    without = [*LISTED_TESTS["once"], "option_drift"]
    if variable("FEWER"):
        without += LISTED_TESTS["newest"]
    files = all_tests("cpu", without)
    run(session, f"{OTHER} ORT_BACKEND_EXAMPLES=100 {PARALLEL} {' '.join(files)}")


@task("stock", "cpu", "openvino", "webgpu", "cuda")
def test_first_step(session: nox.Session) -> None:
    """test the patches for ORT on four stock wheels"""
    for name in ("cpu", "openvino", "webgpu", "cuda"):
        run(session, f"{name} {FIRST_STEP} test {STOCK_FILES}")


@task("cpu")
def lint(session: nox.Session) -> None:
    """check the code with ruff, and the types of the backend with mypy"""
    run(session, "cpu -m ruff check")
    run(session, "cpu -m ruff format --check")
    path = overlay("cpu", "lint")
    run(session, f"cpu MYPYPATH={path} -m mypy")
    run(session, f"cpu MYPYPATH={path} -m mypy tests/typed_program.py")


@task("cpu")
def demo(session: nox.Session) -> None:
    """classify this repository's files with a real model"""
    files = session.run("git", "ls-files", external=True, silent=True, log=False).splitlines()
    run(session, f"cpu examples/magika_demo.py {shlex.join(files)}")


@task("dask")
def scale_out(session: nox.Session) -> None:
    """run the Dask example: two local workers, then a scheduler and two workers on 127.0.0.1"""
    run(session, "dask tests/scale_out.py")
    run(session, "dask -m pytest tests/test_documents.py -k services")


@task("stock", *ENVIRONMENTS)
def environments(session: nox.Session) -> None:
    """create the environments of all tests and examples; NOX_PARALLEL=2 creates two at a time"""


@task(OTHER)
def environment_python(session: nox.Session) -> None:
    """create the environment of test-python"""


# --- ONNX's tests, and real models ---


@task("cpu")
def conformance(session: nox.Session) -> None:
    """run ONNX's backend tests on the default base"""
    run(session, f"cpu {SERIES} {WORKERS}")


@task("openvino")
def conformance_openvino(session: nox.Session) -> None:
    """run ONNX's backend tests on OpenVINO"""
    run(session, f"openvino {SERIES} {WORKERS}")


@task("webgpu")
def conformance_webgpu(session: nox.Session) -> None:
    """run ONNX's backend tests on WebGPU"""
    run(session, f"webgpu {SERIES}")


@task("cpu")
def conformance_keys(session: nox.Session) -> None:
    """run ONNX's tests with each config key"""
    run(session, "cpu -W ignore tests/onnx_series.py --each-key")


@task(*map("onnx-{}".format, ONNX), *map("onnx-{}-stock".format, ONNX))
def conformance_numbers(session: nox.Session) -> None:
    """compare both backends and InferenceSession in ONNX's tests of several releases of onnx"""
    for release in ONNX:
        run(session, f"onnx-{release} -W ignore tests/onnx_series.py --stock @onnx-{release}-stock")


ENVIRONMENTS_OF_ZOO = variable("ENV", "cpu openvino").split()


@task(*ENVIRONMENTS_OF_ZOO)
def zoo(session: nox.Session) -> None:
    """run models of real architectures on the CPU EP and on OpenVINO; ZOO=FOLDER ENV=cuda"""
    for name in ENVIRONMENTS_OF_ZOO:
        run(session, f"{name} tests/zoo.py {shlex.quote(variable('ZOO', 'tests/zoo'))}")


# --- Measurements ---


@task("cpu", "stock")
def bench(session: nox.Session) -> None:
    """measure the backend, and write docs/benchmarks.md (6 minutes); BENCH="run_path --match Magika" """
    options = "--stock @stock --json build/bench.json"
    # ``make test-python PYTHON=python3.14t`` creates this environment. An older backend in it is not measured.
    if any(site_packages("python3.14t").glob(f"*{setup.labeled('')}.dist-info")):
        options += " --free-threaded @python3.14t"
    run(session, f"cpu {PIP} matplotlib")
    wanted = BENCH or "--record --document docs/benchmarks.md"
    run(session, f"cpu PYTHONPATH=.nox/stock/models -m benchmarks {options} {wanted}")


@task("openvino")
def bench_openvino(session: nox.Session) -> None:
    """measure parallel runs on OpenVINO, and write their table of docs/benchmarks.md"""
    options = "openvino --json build/bench-openvino.json"
    wanted = BENCH or "--record --document docs/benchmarks.md --table openvino"
    run(session, f"openvino PYTHONPATH=.nox/openvino/models -m benchmarks {options} {wanted}")


@task("cuda", "webgpu-plugin")
def bench_capture(session: nox.Session) -> None:
    """measure graph capture and other runs on CUDA and on the WebGPU plugin"""
    command = "-m benchmarks graph_capture --json"
    run(session, f"cuda {command} build/bench-capture-cuda.json {BENCH}")
    run(session, f"webgpu-plugin {command} build/bench-capture.json {BENCH}")


# --- Campaigns ---


@task("webgpu-plugin")
def captured_operators(session: nox.Session) -> None:
    """capture each operator on WebGPU"""
    run(session, f"webgpu-plugin {CAMPAIGN}.captured_operators")


@task("cpu", "openvino", "webgpu", "cuda")
def unwritten_outputs(session: nox.Session) -> None:
    """search the CPU EP of each base for operators that do not write their outputs"""
    for name in ("cpu", "openvino", "webgpu", "cuda"):
        run(session, f"{name} tools/ort_defects/unwritten_outputs.py")


@task("cpu", "openvino")
def fuzz(session: nox.Session) -> None:
    """test the allowlist with 50,000 examples, and outputs with 4,000 configurations (30 minutes)"""
    run(session, f"cpu ORT_BACKEND_EXAMPLES=50000 -m pytest -s {' '.join(ending(['properties']))}")
    for name in ("cpu", "openvino"):
        run(session, f"{name} {CAMPAIGN}.differential_fuzz")


@task("cpu")
def mutants(session: nox.Session) -> None:
    """change the backend in 200 small ways, and list changes that no test detects (an hour)"""
    files = [file for file in all_tests("cpu", []) if file.startswith(TESTS)]
    options = f"--sample 200 --json build/mutants.json {variable('MUTANTS', '')}"
    run(session, f"cpu {PIP} coverage")
    run(session, f"cpu ORT_BACKEND_EXAMPLES=100 tools/python/backend_mutants.py {options} {' '.join(files)}")


# --- Options, and releases of ORT ---


@task("cpu")
def document(session: nox.Session) -> None:
    """write the documents of options, and the JSON Schema of configurations"""
    run(session, "cpu tools/python/backend_option_document.py")
    run(session, "cpu tools/python/backend_configuration_schema.py")


@task("cpu")
def drift(session: nox.Session) -> None:
    """list option names of RELEASES=onnxruntime==1.31.1 that the allowlist does not contain"""
    releases = variable("RELEASES", " ".join(RELEASES["drift"]))
    run(session, f"cpu tools/python/backend_option_drift.py {releases}")


@task("cpu")
def new_release(session: nox.Session) -> None:
    """test RELEASE=onnxruntime==1.33.0, and print one page of things to review"""
    run(session, f"cpu tools/python/backend_new_release.py {variable('RELEASE', 'RELEASE')}")


# --- Upstream ---


@task("cpu", "stock")
def patch(session: nox.Session) -> None:
    """write the patches for ORT, AUTHOR="Name <address>" CHECKOUT=FOLDER, into build/patch"""
    checkout = f"--checkout {CHECKOUT}" if variable("CHECKOUT") else ""
    author = shlex.quote(variable("AUTHOR", ""))
    run(session, f"cpu {FIRST_STEP} patch {STOCK_FILES} --author {author} {checkout}")


@task("cpu", "stock")
def first_step(session: nox.Session) -> None:
    """open the patches for ORT as commits in build/first_step for edits, and write the edits back with SAVE=1"""
    command = "save" if variable("SAVE") else "open"
    run(session, f"cpu {FIRST_STEP} {command} {STOCK_FILES}")


@task("stock", f"onnx-{ONNX_OF_ORT}", f"onnx-{ONNX_OF_ORT}-stock")
def upstream_tests(session: nox.Session) -> None:
    """run ORT's own backend tests, CHECKOUT=FOLDER, and compare the results; FIRST_STEP=1"""
    name = f"onnx-{ONNX_OF_ORT}"
    stock = f"@{name}-stock"
    if variable("FIRST_STEP"):
        command = f"{FIRST_STEP} upstream --checkout {CHECKOUT} {STOCK_FILES} --stock-python {stock}"
    else:
        command = f"tests/upstream_tests.py {CHECKOUT} {stock}"
    run(session, f"{name} {command}")
