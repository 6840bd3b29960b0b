# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Runs models of real architectures through the backend and in bare sessions, and compares the outputs.

    python zoo.py [--ep EP] [FOLDER]

FOLDER contains ONNX files, or archives of ONNX files (``.txz``). By default, it is the folder ``zoo`` beside this file,
with the twenty smallest of 77 models that were exported from torchvision, timm, transformers, and nets of common
layers. Their weights are patterned. The EP is that of the environment.

On the CPU EP, the outputs must be those of a bare session, bit for bit. On another EP, if a bare session computes the
outputs of the CPU EP within the precision of the EP, the backend must run the model within the same precision. The exit
status is 1 if a model is wrong or refused.
"""

import argparse
import collections
import json
import math
import subprocess
import sys
import tarfile
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import _paths
import numpy as np
from helpers.execution_providers import OPENVINO, WEBGPU, add_openvino, register_openvino_plugin, register_webgpu_plugin

import onnxruntime
import onnxruntime.backend
from onnxruntime import InferenceSession, SessionOptions

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"
TOLERANCE = 0.01  # of the largest output: EPs can compute in TF32
# With bfloat16, many models are wrong in a bare session. It is the plugin EP's default on some CPUs.
OPTIONS = {OPENVINO: {"precision": "FP32"}}
_SECONDS = 600  # for a model in one process
_TYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(bool)": np.bool_,
}
Run = Callable[[dict[str, np.ndarray]], list[np.ndarray]]


def models(folder: Path) -> Iterator[Path]:
    """Yield the path of each model. A model of an archive exists until the next one is requested."""
    yield from sorted(folder.glob("*.onnx"))
    for path in sorted(folder.glob("*.txz")):
        with tarfile.open(path) as archive:
            for member in archive:
                if not member.name.endswith(".onnx"):
                    continue
                with tempfile.TemporaryDirectory() as unpacked:
                    archive.extract(member, unpacked, filter="data")
                    yield Path(unpacked, member.name)


def ep_of_environment() -> str:
    """Register the plugin EP of this environment, and return the EP that its tests are about."""
    register_openvino_plugin()
    register_webgpu_plugin()
    available = onnxruntime.get_available_providers()
    return next((ep for ep in (OPENVINO, CUDA, WEBGPU) if ep in available), CPU)


def bare_session(path: str, ep: str) -> InferenceSession:
    if ep == OPENVINO:
        options = SessionOptions()
        add_openvino(options, OPTIONS[ep])
        return InferenceSession(path, options)
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == ep]
    if ep == CPU or not devices:
        return InferenceSession(path, providers=[ep], enable_fallback=0)
    options = SessionOptions()
    options.add_provider_for_devices(devices[:1], {})
    return InferenceSession(path, options)


def feeds(session: InferenceSession) -> list[dict[str, np.ndarray]]:
    """Return inputs for six runs. If the model has free dimensions, two runs have another batch size."""
    random = np.random.default_rng(0)

    def feed(batch: int) -> dict[str, np.ndarray]:
        arrays = {}
        for node in session.get_inputs():
            shape = [size if isinstance(size, int) else batch for size in node.shape]
            if "float" in node.type:
                values = random.standard_normal(shape)
            else:
                values = random.integers(0, 9, shape)
            arrays[node.name] = values.astype(_TYPES[node.type])
        return arrays

    three = [feed(1), feed(2), feed(1)]
    if all(isinstance(size, int) for node in session.get_inputs() for size in node.shape):
        three[1] = feed(1)
    return three + three[::-1]


def distance(got: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest difference, as a fraction of the largest value. The same bits have the distance 0."""
    if (got.shape, got.dtype) != (expected.shape, expected.dtype):
        return math.inf
    if got.tobytes() == expected.tobytes():
        return 0.0
    exact = expected.astype(np.float64)
    found = float(np.max(np.abs(got - exact)) / (np.max(np.abs(exact)) + 1e-6))
    return math.inf if math.isnan(found) else found


def measure(path: str, ep: str, bare: bool) -> dict:
    """Run a model on an EP, and return the distance of its outputs from those of a bare session on the CPU EP."""
    reference = InferenceSession(path, providers=[CPU])
    inputs = feeds(reference)
    expected = [reference.run(None, feed) for feed in inputs]
    before = [array.tobytes() for feed in inputs for array in feed.values()]
    try:
        run = _run_of(path, ep, bare)
        outputs = [run(feed) for feed in inputs]
    except Exception as error:  # ORT raises classes without a common base
        return {"error": f"{type(error).__name__}: {error}"[:400]}
    found = 0.0
    for of_run, of_reference in zip(outputs, expected, strict=True):
        for got, want in zip(of_run, of_reference, strict=True):
            found = max(found, distance(got, want))
    if before != [array.tobytes() for feed in inputs for array in feed.values()]:
        return {"error": "a run changed an input"}
    return {"distance": found}


def _run_of(path: str, ep: str, bare: bool) -> Run:
    if bare:
        session = bare_session(path, ep)
        return lambda feed: session.run(None, feed)
    return onnxruntime.backend.prepare(path, provider_options={ep: OPTIONS.get(ep, {})}).run


def in_child(path: Path, ep: str, bare: bool) -> dict:
    """Return the result of :func:`measure` in another process, which the EP may terminate."""
    command = [sys.executable, __file__, "--ep", ep, "--model", str(path), *["--bare"] * bare]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"the process did not end within {_SECONDS} s"}
    for line in ran.stdout.splitlines():
        if line.startswith('{"'):
            return json.loads(line)
    return {"error": f"the process ended with status {ran.returncode}: {ran.stderr[-400:]}"}


def judge(bare: dict, ours: dict, tolerance: float) -> tuple[str, str]:
    """Return the result of a model, and details. The results ``wrong`` and ``refused`` are failures."""
    if "error" in bare:
        return "fails in a bare session", bare["error"]
    if bare["distance"] > tolerance:
        return "wrong in a bare session", f"distance {bare['distance']:.2g}"
    if "error" in ours:
        return "refused", ours["error"]
    if ours["distance"] > 2 * tolerance:  # the runs of some EPs differ
        return ("wrong", f"distance {ours['distance']:.2g}, of a bare session {bare['distance']:.2g}")
    return "right", f"distance {ours['distance']:.2g}"


def run_all(folder: Path, ep: str) -> int:
    """Print the result of each model that is not right, and a summary. Return the number of failures."""
    started = time.monotonic()
    results = collections.Counter()
    with ThreadPoolExecutor(2) as workers:
        for path in models(folder):
            ours = workers.submit(in_child, path, ep, False)
            bare = {"distance": 0.0}
            if ep != CPU:
                bare = workers.submit(in_child, path, ep, True).result()
            result, details = judge(bare, ours.result(), TOLERANCE if ep != CPU else 0.0)
            results[result] += 1
            if result != "right":
                print(f"{path.stem}: {result}: {details}", flush=True)
    failures = results["wrong"] + results["refused"]
    summary = ", ".join(f"{count} {result}" for result, count in results.most_common())
    print(f"{results.total()} models on {ep}, onnxruntime {onnxruntime.__version__}: {summary or 'no model'}", end="")
    print(f", {failures} failures, in {time.monotonic() - started:.0f} s")
    return failures or not results


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).with_suffix(""))
    parser.add_argument("--ep", help="the EP (default: the EP of the environment)")
    parser.add_argument("--model", help=argparse.SUPPRESS)  # in a child process
    parser.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    onnxruntime.set_default_logger_severity(4)
    ep = ep_of_environment()
    if chosen.model:
        print(json.dumps(measure(chosen.model, chosen.ep, chosen.bare)), flush=True)
        return 0
    return int(run_all(chosen.folder, chosen.ep or ep) > 0)


if __name__ == "__main__":
    sys.exit(main())
