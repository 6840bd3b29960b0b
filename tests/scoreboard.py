# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Runs the tests of the ONNX Backend Scoreboard, unchanged, on several EPs, and compares them with the stock wheel.

Run ``python tests/scoreboard.py CHECKOUT STOCK NAME=PYTHON...``, with a checkout of onnx/backend-scoreboard, the Python
of an environment with the stock wheel, and those of environments with this backend. Environment variables alone
configure each run. For each run, ``build/scoreboard`` contains a folder with the files of the scoreboard, a report of
the EPs, and the log. The folder also contains a page that compares the runs, and the website of the scoreboard.

The exit status is 1 if a test passes with the stock wheel and not with this backend on the CPU EP. A run whose EP is
not available is left out, with the reason. Other arguments are those of pytest, such as ``-k relu``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from onnx import parser

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "build" / "scoreboard"
SOFTWARE_GPU = ROOT / "onnxruntime" / "test" / "python" / "with_software_gpu.sh"
# The default precision of the plugin EP is bfloat16 if the CPU supports it, which is not precise enough for the tests.
FLOAT32 = {"OpenVINOExecutionProvider": {"precision": "FP32"}}
# Each run with its environment and its configuration. "cpu" is compared with the stock wheel.
RUNS = {
    "cpu": ("cpu", {"provider_options": {"CPUExecutionProvider": {}}}),
    "openvino": ("openvino", {"provider_options": {"OpenVINOExecutionProvider": {}}}),
    "openvino-plugin": ("plugins", {"plugins": ["onnxruntime_ep_openvino"], "provider_options": FLOAT32}),
    "qnn-plugin": (
        "plugins",
        {"plugins": ["onnxruntime_qnn"], "provider_options": {"QNNExecutionProvider": {"backend_type": "htp"}}},
    ),
    "webgpu-plugin": (
        "webgpu-plugin",
        {"plugins": ["onnxruntime_ep_webgpu"], "provider_options": {"WebGpuExecutionProvider": {}}},
    ),
}
_MODEL = """<ir_version: 7, opset_import: ["": 13]>
two_nodes (float[1, 4] X) => (float[1, 4] Y) { Z = Neg(X) Y = Abs(Z) }"""


def environment(name: str, config: dict | None) -> dict[str, str]:
    """Return the environment of a run, which is all that configures it; ``None`` for the stock wheel."""
    folder = str(OUT / name)
    variables = {"RESULTS_DIR": folder, "CSVDIR": folder, "ONNX_MODELS": str(OUT / "models")}
    if config is not None:
        report = {
            "PYTEST_PLUGINS": "onnxruntime.backend.conformance",
            "ORT_ONNX_BACKEND_REPORT": f"{folder}/{name}.jsonl",
        }
        variables |= report | {"ORT_ONNX_BACKEND_CONFIG": json.dumps(config)}
    paths = [str(ROOT / "tests" / "kept_series"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, **variables, "PYTHONPATH": os.pathsep.join(paths)}


def problem(command: list[str], variables: dict[str, str]) -> str:
    """Return why the EP of a configuration cannot run a small model, ``""`` if it can."""
    model = OUT / "model.onnx"
    model.write_bytes(parser.parse_model(_MODEL).SerializeToString())
    command = [*command, "-m", "onnxruntime.backend", "run", str(model), "--repeat", "1"]
    ran = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    return "" if ran.returncode == 0 else (ran.stderr.strip().splitlines() or ["no error"])[-1]


def run(checkout: Path, name: str, command: list[str], variables: dict[str, str], arguments: list[str]) -> set[str]:
    """Run the scoreboard's tests as its Dockerfiles do, and return the passed ones.

    If a test ends the process, run them again with pytest-xdist, which makes it one failure. The scoreboard writes its
    tables of operators in the first case only.
    """
    folder = OUT / name
    report, lines, log = folder / "report.json", folder / f"{name}.jsonl", folder / "log"
    versions = [*command, "-m", "pip", "list", "--format=json"]
    (folder / "pip-list.json").write_bytes(
        subprocess.run(versions, env=variables, stdout=subprocess.PIPE, check=True).stdout
    )
    tests = ["-m", "pytest", "-p", "no:cacheprovider", str(checkout / "test" / "test_backend.py")]
    tests += ["--onnx_backend=onnxruntime.backend.backend", "-k", "not _cuda", *arguments]
    for isolated in ([], ["-n", "1"]):
        lines.unlink(missing_ok=True)
        with log.open("w") as out:
            subprocess.run(
                [*command, *tests, *isolated], env=variables, cwd=checkout, stdout=out, stderr=out, check=False
            )
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


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("checkout", type=Path, help="a checkout of onnx/backend-scoreboard")
    arguments.add_argument("stock", help="the Python of an environment with the stock wheel")
    arguments.add_argument("pythons", metavar="NAME=PYTHON", nargs="+", help="the Pythons with this backend")
    chosen, of_pytest = arguments.parse_known_args()
    checkout, pythons = chosen.checkout.resolve(), dict(one.split("=", 1) for one in chosen.pythons)
    shutil.rmtree(OUT, ignore_errors=True)
    passed: dict[str, set[str]] = {}
    for name, (python, config) in {"stock": ("", None), **RUNS}.items():
        variables = environment(name, config)
        command = [os.path.abspath(pythons[python] if python else chosen.stock)]
        if python == "webgpu-plugin":
            command = ["sh", str(SOFTWARE_GPU), *command]
        (OUT / name).mkdir(parents=True)
        if config and (reason := problem(command, variables)):
            print(f"{name} is left out: {reason}")
            shutil.rmtree(OUT / name)
            continue
        passed[name] = run(checkout, name, command, variables, of_pytest)
    files = [f"{name}={OUT / name / (f'{name}.jsonl' if name in RUNS else 'report.json')}" for name in passed]
    page = OUT / "index.html"
    subprocess.run([sys.executable, "-m", "onnxruntime.backend", "report", *files, "--html", str(page)], check=True)
    website(checkout, [*passed])
    print(f"See {page} and {OUT / 'website' / 'index.html'}")
    for test in sorted(passed["stock"] - passed["cpu"]):
        print(f"FAILED {test}: it passes with the stock wheel")
    return 1 if passed["stock"] - passed["cpu"] else 0


if __name__ == "__main__":
    sys.exit(main())
