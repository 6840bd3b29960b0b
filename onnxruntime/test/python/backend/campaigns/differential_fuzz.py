# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Checks that random permitted configurations change only precision and speed on real EPs.

    python -m campaigns.differential_fuzz [--examples 2000] [--seed 0]

Each example selects a model. It selects EPs with options, attributes, and session and run config entries from the
tables of the allowlist. It prepares and runs the model with these settings, and checks four conditions.

1. The outputs are those of an unconfigured session, within the requested precision.
2. The reported settings are the requested settings, or are listed as unconfirmed.
3. A configuration that cannot be applied raises NotPermittedError. No other error is raised.
4. Afterwards, the process is unchanged. The check covers floating point mode, threads, environment, current folder and
   its files, open files, warning filters and numpy's error handling.

The EPs are the CPU EP and, if this ORT contains it, the built-in OpenVINO EP. Only ORT, onnx and numpy are required.
"""

import argparse
import collections
import gc
import os
import random
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from helpers import observable_models as models
from helpers.allowlist import bounds, listed_values

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend.allowlist.attributes import RUN_ATTRIBUTES, SESSION_ATTRIBUTES
from onnxruntime.backend.allowlist.facts import RELEASE
from onnxruntime.backend.allowlist.run_config import RUN_CONFIG
from onnxruntime.backend.allowlist.session_config import SESSION_CONFIG
from onnxruntime.backend.allowlist.tables import PROVIDERS
from onnxruntime.backend.allowlist.value_kinds import Kind, Names
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep
from onnxruntime.backend.provider_names import CPU, OPENVINO

HAS_OPENVINO = OPENVINO in onnxruntime.get_available_providers()
# Names whose permitted values make a model fail that is right: three of them are there to fail.
FAILING = {
    "use_per_session_threads",  # needs a thread pool that the application made
    "session.disable_model_compile",
    "session.disable_cpu_ep_fallback",
    "session.function_expansion_byte_limit",
    "session.function_expansion_node_limit",
    "device_type",  # names devices that this machine need not have
}
TEXTS = {
    "logid": ("", "fuzz-1"),
    "session.layer_assignment_settings": ("cpu(first,=second)",),
    "session.name_based_layer_assignment": ("cpu(first)",),
    "memory.enable_memory_arena_shrinkage": ("cpu:0",),
    "optimization.disable_specified_optimizers": ("ConstantFolding;Level1_RuleBasedTransformer;MatMulAddFusion",),
}
# Entries that lower the precision, and models whose outputs are steps of quantization: one step may be another.
LOWER = {
    "optimization.enable_gelu_approximation": 2e-3,
    "optimization.enable_cast_chain_elimination": 2e-3,
    "mlas.enable_gemm_fastmath_arm64_bfloat16": 3e-2,
}
STEPS = 0.051


class Trial(NamedTuple):
    """A model with an input, and its outputs in an unconfigured session."""

    serialized: bytes
    feed: np.ndarray
    outputs: list[np.ndarray]
    steps: float


def trials() -> list[Trial]:
    generator = np.random.default_rng(0)

    def trial(serialized: bytes, *shape: int, steps: float = 0.0) -> Trial:
        feed = generator.standard_normal(shape, np.float32)
        if serialized == models.SQUARE:
            feed[:] = 1e-20
        session = onnxruntime.InferenceSession(serialized, providers=[CPU])
        return Trial(serialized, feed, session.run(None, {session.get_inputs()[0].name: feed}), steps)

    return [
        *(trial(made, 4) for made in (models.RELU, models.CASTS, models.FOLDABLE, models.FUNCTION, models.GELU)),
        trial(models.SQUARE, 1),
        trial(models.TWO_QDQ_PAIRS, 4, steps=0.12),
        trial(models.quantized_matmul(), 4, 16, steps=STEPS),
        trial(models.matmul(2), 64, 512),
    ]


def drawn(kind: Kind, name: str, draw: random.Random) -> object:
    """A value that a kind accepts, in one of the ways to write it."""
    of_kind = bounds(kind, 6)
    if of_kind is not None:
        low, high = of_kind
        return draw.choice((low, high, draw.randint(low, high)))
    if type(kind) is Names:
        return kind.separator.join(draw.sample(sorted(kind.known()), draw.randint(1, 3)))
    return draw.choice(TEXTS.get(name) or listed_values(kind))


def some(table: dict, draw: random.Random, most: int) -> dict[str, object]:
    names = [name for name, rule in table.items() if name not in FAILING and rule.since <= RELEASE]
    chosen = draw.sample(names, min(draw.randint(0, most), len(names)))
    return {name: drawn(table[name].kind, name, draw) for name in chosen}


def request(draw: random.Random) -> dict[str, object]:
    keywords: dict[str, object] = some(SESSION_ATTRIBUTES, draw, 4)
    keywords["session_config"] = some(SESSION_CONFIG, draw, 5)
    keywords["run_config"] = some(RUN_CONFIG, draw, 1)
    eps = [{}, {CPU: {}}]
    if HAS_OPENVINO:
        options = some(PROVIDERS[OPENVINO]["built-in"], draw, 3)
        eps += [{OPENVINO: options}, {OPENVINO: options, CPU: {}}, {OPENVINO: {**options, "device_type": "AUTO:CPU"}}]
    keywords["provider_options"] = draw.choice(eps)
    return keywords


def tolerance(trial: Trial, keywords: dict) -> tuple[float, float]:
    """Relative and absolute tolerance: of the model, and of the precision that was asked for."""
    lower = max((LOWER.get(name, 0) for name in keywords["session_config"]), default=0)
    options = keywords["provider_options"].get(OPENVINO, {})
    if options.get("device_type") and options.get("precision") not in ("FP32", "ACCURACY"):
        lower = max(lower, 3e-2)  # AUTO computes in bfloat16 on a CPU that has it
    return max(1e-5, lower), max(1e-5, lower * (40 if trial.feed.size > 1000 else 4), trial.steps)


def check_reports(rep: OnnxRuntimeBackendRep, keywords: dict) -> None:
    unconfirmed = rep.unconfirmed
    for keyword, table in (("session_config", SESSION_CONFIG), ("run_config", RUN_CONFIG)):
        asked = {key: table[key].kind.render(table[key].kind.parse(value)) for key, value in keywords[keyword].items()}
        assert getattr(rep, keyword) == asked, f"{keyword} was {asked}, reported is {getattr(rep, keyword)}"
    for name, options in keywords["provider_options"].items():
        for option in options.keys() - unconfirmed.get(name, {}).keys():
            kind = PROVIDERS[name]["built-in"][option].kind
            shown = rep.provider_options[name].get(option)
            assert kind.read(shown) == kind.parse(options[option]), f"{option} of {name} is {shown!r}"
    held = rep.session.get_session_options()
    for name in (SESSION_ATTRIBUTES.keys() & keywords.keys()) - unconfirmed.get("session_options", {}).keys():
        expected = SESSION_ATTRIBUTES[name].kind.parse(keywords[name])
        assert getattr(held, name) == expected, f"{name} is {getattr(held, name)}"


def state() -> dict[str, object]:
    """Return the state of the process that a session must not change."""
    tiny32, tiny64 = np.array([1e-20], np.float32), np.array([5e-324])
    return {
        "denormals": (float((tiny32 * tiny32)[0]), float((tiny64 * np.array([1.0]))[0]), 5e-324 * 1.0),
        "rounding": (1.0 / 3.0, -1.0 / 3.0, float(np.float32(1) / np.float32(3)), 0.1 + 0.2),
        "environment": dict(os.environ),
        "folder": (os.getcwd(), sorted(os.listdir())),
        "files": sorted(filter(None, map(_target, Path("/proc/self/fd").glob("*")))),
        "warning filters": list(warnings.filters),
        "numpy": np.geterr(),
        "Python threads": threading.active_count(),
    }


def _target(descriptor: Path) -> str:
    try:
        target = os.readlink(descriptor)
    except OSError:  # the one that listed the folder
        return ""
    # ORT's telemetry sends data at any time, unless ORT_DISABLE_TELEMETRY is set, as noxfile.py does.
    return "" if "DeveloperTools" in target or target.startswith("socket:") else target


def threads() -> int:
    return len(os.listdir("/proc/self/task")) if sys.platform == "linux" else 0


def check_process(before: dict[str, object], most: int) -> None:
    """Check that the process has the state from before, and soon no more threads."""
    gc.collect()
    after = state()
    changed = {name: (before[name], after[name]) for name in before if before[name] != after[name]}
    assert not changed, f"the process is not as it was: {changed}"
    end = time.monotonic() + 5
    while threads() > most:
        assert time.monotonic() < end, "threads stay"
        time.sleep(0.01)


def example(trial: Trial, keywords: dict, run_keywords: dict) -> str:
    """Try one configuration, and return the outcome."""
    try:
        rep = onnxruntime.backend.prepare(trial.serialized, **keywords)
    except onnxruntime.backend.NotPermittedError:
        return "refused"
    check_reports(rep, keywords)
    relative, absolute = tolerance(trial, keywords)
    for _ in range(2):
        for got, want in zip(rep.run([trial.feed], **run_keywords), trial.outputs, strict=True):
            assert got.dtype == want.dtype, f"{got.dtype} for {want.dtype}"
            np.testing.assert_allclose(got, want, relative, max(absolute, 1e-5 * float(np.abs(want).max())))
    return "idle" if rep.unconfirmed else "applied"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    onnxruntime.set_default_logger_severity(4)
    warnings.simplefilter("ignore", RuntimeWarning)
    counts: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        everything = trials()
        # Libraries keep thread pools after first use. The pool of OpenVINO grows to the requested size.
        for providers in [None, {}, *[{OPENVINO: {"num_of_threads": 6, "num_streams": 6}}] * HAS_OPENVINO] * 2:
            onnxruntime.backend.run(everything[-1].serialized, everything[-1].feed, provider_options=providers)
        gc.collect()
        before, most = state(), threads()
        for number in range(arguments.examples):
            draw = random.Random(f"{arguments.seed} {number}")
            trial, keywords, run_keywords = draw.choice(everything), request(draw), some(RUN_ATTRIBUTES, draw, 2)
            if trial.serialized == models.GELU:  # which OpenVINO computes with another precision
                keywords["provider_options"] = {}
            try:
                counts[example(trial, keywords, run_keywords)] += 1
                check_process(before, most)
            except Exception as error:
                counts["failed"] += 1
                model = everything.index(trial)
                print(f"example {number}, model {model}, {keywords}, {run_keywords}: {type(error).__name__}: {error}")
        os.chdir("/")
    print(f"{arguments.examples} examples, {dict(counts)}, seed {arguments.seed}")
    return int(counts["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
