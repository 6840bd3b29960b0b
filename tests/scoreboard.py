# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Runs the tests of the ONNX Backend Scoreboard, unchanged, on several EPs, and compares them with the stock wheel.

Run ``python tests/scoreboard.py CHECKOUT NAME=PYTHON...``, with a checkout of onnx/backend-scoreboard, and the Python
of each environment in ``RUNS``. Environment variables alone configure each run. For each run, ``build/scoreboard``
contains a folder with the files of the scoreboard, a report of the EPs, and the log. The folder also contains a page
that compares the runs, and the website of the scoreboard.

The exit status is 1 if a test passes with a stock wheel and not with this backend on the same EPs. A plugin EP without
a device is left out, with the reason. Other arguments are those of pytest, such as ``-k relu``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from _paths import ROOT
from onnx import parser

OUT = ROOT / "build" / "scoreboard"
SOFTWARE_GPU = ROOT / "onnxruntime" / "test" / "python" / "with_software_gpu.sh"
# The default precision of the plugin EP is bfloat16 if the CPU supports it, which is not precise enough for the tests.
FLOAT32 = {"OpenVINOExecutionProvider": {"precision": "FP32"}}


class Run(NamedTuple):
    """The environment of a run, and how it is configured."""

    environment: str
    config: dict | None = None  # None: a stock wheel
    stock: str = ""  # the run of the stock wheel with the same EPs


RUNS = {
    "stock": Run("stock"),
    "cpu": Run("cpu", {"provider_options": {"CPUExecutionProvider": {}}}, "stock"),
    "stock-openvino": Run("stock-openvino"),
    "openvino": Run("openvino", {"provider_options": {"OpenVINOExecutionProvider": {}}}, "stock-openvino"),
    "openvino-plugin": Run("plugins", {"plugins": ["onnxruntime_ep_openvino"], "provider_options": FLOAT32}),
    "qnn-plugin": Run(
        "plugins",
        {"plugins": ["onnxruntime_qnn"], "provider_options": {"QNNExecutionProvider": {"backend_type": "htp"}}},
    ),
    "webgpu-plugin": Run(
        "webgpu-plugin", {"plugins": ["onnxruntime_ep_webgpu"], "provider_options": {"WebGpuExecutionProvider": {}}}
    ),
}
_MODEL = """<ir_version: 7, opset_import: ["": 13]>
two_nodes (float[1, 4] X) => (float[1, 4] Y) { Z = Neg(X) Y = Abs(Z) }"""


def environment(name: str, config: dict | None) -> dict[str, str]:
    """Return the environment of a run, which is all that configures it; ``None`` for a stock wheel."""
    folder = str(OUT / name)
    variables = {"RESULTS_DIR": folder, "CSVDIR": folder, "ONNX_MODELS": str(OUT / "models")}
    if config is not None:
        variables["PYTEST_PLUGINS"] = "onnxruntime.backend.conformance"
        variables["ORT_ONNX_BACKEND_REPORT"] = f"{folder}/{name}.jsonl"
        variables["ORT_ONNX_BACKEND_CONFIG"] = json.dumps(config)
    return os.environ | variables


def problem(command: list[str], variables: dict[str, str]) -> str:
    """Return why the EP of a configuration cannot run a small model, ``""`` if it can."""
    model = OUT / "model.onnx"
    model.write_bytes(parser.parse_model(_MODEL).SerializeToString())
    run = ["-m", "onnxruntime.backend", "run", str(model), "--repeat", "1"]
    ran = subprocess.run(command + run, env=variables, capture_output=True, text=True, check=False)
    if ran.returncode == 0:
        return ""
    return ran.stderr.strip().rpartition("\n")[2] or "no error"


def run_tests(
    checkout: Path, name: str, command: list[str], variables: dict[str, str], arguments: list[str]
) -> set[str]:
    """Run the scoreboard's tests as its Dockerfiles do, and return the passed ones.

    If a test ends the process, run them again with pytest-xdist, which makes it one failure. The scoreboard writes its
    tables of operators in the first case only.
    """
    folder = OUT / name
    report, lines, log = folder / "report.json", folder / f"{name}.jsonl", folder / "log"
    pip = ["-m", "pip", "list", "--format=json"]
    versions = subprocess.run(command + pip, env=variables, stdout=subprocess.PIPE, check=True)
    (folder / "pip-list.json").write_bytes(versions.stdout)
    tests = [*command, "-m", "pytest", "-p", "no:cacheprovider", str(checkout / "test" / "test_backend.py")]
    tests += ["--onnx_backend=onnxruntime.backend.backend", "-k", "not _cuda"]
    tests += arguments
    for isolated in ([], ["-n", "1"]):
        lines.unlink(missing_ok=True)
        with log.open("w") as out:
            subprocess.run(tests + isolated, env=variables, cwd=checkout, stdout=out, stderr=out, check=False)
        if report.exists():
            return set(json.loads(report.read_text())["passed"])
    raise SystemExit(f"{name}: the tests did not run to their end. See {log}")


def website(checkout: Path, names: list[str]) -> None:
    """Write the scoreboard's own website of these runs."""
    pages = str(OUT / "website")
    backends = {name: {"name": name, "results_dir": str(OUT / name)} for name in names}
    paths = {"index": pages, "subpages": pages, "resources": f"{pages}/resources"}
    config = OUT / "config.json"
    config.write_text(json.dumps({"stable": backends, "development": {}, "deploy_paths": paths, "repo_url": ""}))
    generator = checkout / "website-generator" / "generator.py"
    subprocess.run([sys.executable, str(generator), "--config", str(config)], cwd=checkout, check=True)


def compare(passed: dict[str, set[str]]) -> int:
    """Print how many tests each run passes beside its stock wheel, and return 1 if it lacks a test, else 0."""
    print(f"\n{'':16}{'passed':>8}{'stock':>8}{'with stock only':>17}{'here only':>11}")
    lost = []
    for name, run in RUNS.items():
        if name in passed and run.stock:
            here, stock = passed[name], passed[run.stock]
            print(f"{name:16}{len(here):8}{len(stock):8}{len(stock - here):17}{len(here - stock):11}")
            for test in sorted(stock - here):
                lost.append(f"FAILED {name}: {test} passes with the stock wheel")
        elif name in passed and run.config:
            print(f"{name:16}{len(passed[name]):8}  the stock backend cannot use a plugin EP")
    print("\n".join(lost))
    return int(bool(lost))


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("checkout", type=Path, help="a checkout of onnx/backend-scoreboard")
    arguments.add_argument("pythons", metavar="NAME=PYTHON", nargs="+", help="the Python of each environment")
    chosen, of_pytest = arguments.parse_known_args()
    checkout = chosen.checkout.resolve()
    pythons = dict(one.split("=", 1) for one in chosen.pythons)
    shutil.rmtree(OUT, ignore_errors=True)
    passed: dict[str, set[str]] = {}
    for name, (python, config, _) in RUNS.items():
        begun = time.monotonic()
        variables = environment(name, config)
        command = [os.path.abspath(pythons[python])]
        if python == "webgpu-plugin":
            command = ["sh", str(SOFTWARE_GPU), *command]
        (OUT / name).mkdir(parents=True)
        if config and "plugins" in config:
            reason = problem(command, variables)
            if reason:
                print(f"{name} is left out: {reason}", flush=True)
                shutil.rmtree(OUT / name)
                continue
        passed[name] = run_tests(checkout, name, command, variables, of_pytest)
        seconds = time.monotonic() - begun
        print(f"{name}: {len(passed[name])} tests passed, in {seconds:.0f} s", flush=True)
    page = OUT / "index.html"
    reports = [f"{name}={OUT / name / name}.jsonl" for name in passed if RUNS[name].config]
    report = ROOT / "tools" / "python" / "backend_report.py"
    subprocess.run([sys.executable, str(report), "--html", str(page), *reports], check=True)
    website(checkout, list(passed))
    print(f"See {page} and {OUT / 'website' / 'index.html'}")
    return compare(passed)


if __name__ == "__main__":
    sys.exit(main())
