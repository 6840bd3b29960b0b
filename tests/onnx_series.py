# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Runs all backend tests of ONNX on ``onnxruntime.backend``, and compares the failures with a list.

Under pytest, each test of ONNX is one test. A listed test that fails is an expected failure. ``-rX`` reports listed
tests that pass. Any other failure fails the run. As a program, this file prints a summary, and ``--update`` writes the
failures into the list. The list has one entry for each ORT release, execution provider and onnx release.

The environment variable ``ORT_ONNX_BACKEND_CONFIG`` of the backend specifies a configuration for every test. For the
program, ``--config`` specifies the keyword arguments of ``prepare`` as JSON. The list is that of no configuration.
``--each-key`` compares the tests that pass without configuration and with each permitted config key. ``--stock``
compares this backend, the stock backend, and sessions without a backend.
"""

import argparse
import collections
import ctypes
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable, Iterator
from typing import NamedTuple

import _paths
import numpy as np
import onnx
import onnx.backend.test
from helpers.models import two_nodes
from onnx import TensorProto, numpy_helper
from onnx.backend.base import Backend, BackendRep

import onnxruntime
from onnxruntime import InferenceSession, OrtValue
from onnxruntime.backend.backend import OnnxRuntimeBackend

EXPECTED = pathlib.Path(__file__).with_name("onnx_series_expected.json")

# Patterns of errors and their causes. The first match counts.
_CAUSES = (
    (r"Could not find an implementation for (\S+) node|Failed to find kernel for (\S+) ", "kernel missing"),
    (r"(?:\S+:)?(\S+)\(-1\) is not a registered function/op", "kernel missing"),
    (r"(tensor\(\w+\)) is not currently registered|Invalid (tensor data type \d+)", "type missing"),
    (r"Failed to construct locale with name:(\S+?):", "locale missing"),
    (r"Unsupported model IR version: (\d+)|[Tt]he model has IR version (\d+)", "IR"),
    (r"(Opset \d+) is under development|[Tt]he model imports \S+ (opset \d+)", "opset"),
    (r"does not support the following ONNX operations: (\S+)", "kernel missing"),
    (r"ONNX node '<Node\((\w+)\)|\[OpenVINO-EP\].*(?:failed at|Exception from) \S+ (.{,100})", "kernel error"),
    (r"INVALID_GRAPH.* Error (.{,100})|(Type Error: .{,100})|\[ShapeInferenceError\] (.{,100})", "graph refused"),
    (r"was false\. (.{,100})|Status Message: (?!/)(.{1,100})|while running (\S+) node", "kernel error"),
    (r"Mismatched elements?: (\d+ / \d+)|(\S+ (?:location )?mismatch|has incorrect shape|not equal)", "numeric"),
    (r"(Unable to compare expected type)", "test"),
)
# Operators with random outputs: with the same seed, another library draws other numbers.
_RANDOM = {"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform"}
# Types that numpy lacks: bfloat16, float8e5m2, float4e2m1, int4, uint2 and others.
_NUMPY_LACKS = re.compile(r"tensor\((bfloat16|float8\w+|float4\w+|u?int[24])\)")
# Config keys that may change which tests pass. A session without the backend fails on the same models.
_CHANGING = {
    "session.function_expansion_byte_limit",  # refuses every model with a function,
    "session.function_expansion_node_limit",  # or an operator that ORT has only as a function
    "session.strict_shape_type_inference",  # refuses a shape that ONNX's own function for RMSNormalization has wrong
}


class Outcome(NamedTuple):
    """The result of a test, ``passed``, ``failed`` or ``skipped``, and the reason."""

    result: str
    reason: str = ""


def device_tests(backend: type) -> Iterator[tuple[type[unittest.TestCase], str]]:
    """Yield ONNX's test classes with the names of their tests on devices that a backend supports."""
    for test_class in onnx.backend.test.BackendTest(backend, __name__).test_cases.values():
        for name in dir(test_class):
            if name.startswith("test_") and backend.supports_device(name.rpartition("_")[2].upper()):
                yield test_class, name


def configured(backend: type, arguments: dict) -> type:
    """Return a backend that prepares each model with these arguments, and keeps the last ``ModelProto``."""

    class Configured(backend):
        @classmethod
        def prepare(cls, model, device=None, **kwargs):
            if isinstance(model, onnx.ModelProto):
                Configured.model = model
            kwargs.update(arguments)
            return super().prepare(model, device, **kwargs)

    return Configured


def outcomes(backend: type) -> dict[str, Outcome]:
    """Run all tests on a backend of :func:`configured`."""
    results = {}
    for test_class, name in device_tests(backend):
        backend.model = None
        try:
            getattr(test_class(name), name)()
            results[name] = Outcome("passed")
        except unittest.SkipTest as skip:
            results[name] = Outcome("skipped", str(skip))
        except Exception as error:
            results[name] = Outcome("failed", _cause(error, backend.model))
    return results


def named(results: dict[str, Outcome], result: str) -> dict[str, str]:
    """Return the names of the tests with a result, and their reasons."""
    return {name: outcome.reason for name, outcome in results.items() if outcome.result == result}


def outcomes_of(python: str, config: dict) -> dict[str, Outcome]:
    """Run all tests in a new process, with a Python and the keyword arguments of ``prepare``.

    :raises RuntimeError: if the backend refuses the configuration.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "outcomes.json")
        command = [python, "-W", "ignore", __file__]
        command += ["--outcomes", str(path), "--config", json.dumps(config)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.strip().splitlines()[-1])
        found = json.loads(path.read_text())
    return {name: Outcome(*outcome) for name, outcome in found.items()}


def changed_keys() -> Iterator[tuple[str, dict]]:
    """Yield each permitted config key, and a configuration that sets it to a value far from its default."""
    # The stock backend lacks what this imports.
    from campaigns.differential_fuzz import TEXTS  # noqa: PLC0415
    from helpers.allowlist import bounds, listed_values  # noqa: PLC0415

    from onnxruntime.backend.allowlist.run_config import RUN_CONFIG  # noqa: PLC0415
    from onnxruntime.backend.allowlist.session_config import SESSION_CONFIG  # noqa: PLC0415

    for keyword, table in (("session_config", SESSION_CONFIG), ("run_config", RUN_CONFIG)):
        for key, rule in table.items():
            values = TEXTS.get(key) or listed_values(rule.kind) or bounds(rule.kind, 16)
            default = rule.default.split(",")[0]
            value = values[-1]
            if str(value) == default:
                value = values[-2]
            config = {keyword: {key: value}}
            if key.startswith("session.inter_op."):
                config["execution_mode"] = "ORT_PARALLEL"
            yield key, config


def compare_keys() -> int:
    """Run all tests in a process for each config key, and return 1 if a key unexpectedly changes which tests pass."""
    status = 0
    without = named(outcomes_of(sys.executable, {}), "passed")
    print(f"without a key: {len(without)} pass", flush=True)
    for key, config in changed_keys():
        try:
            results = outcomes_of(sys.executable, config)
        except RuntimeError as refusal:
            print(f"{json.dumps(config)}: not available: {refusal}", flush=True)
            continue
        passed = named(results, "passed")
        changed = passed.keys() ^ without.keys()
        names = ", ".join(sorted(changed)) or "none"
        print(f"{json.dumps(config)}: {len(passed)} pass, changed: {names}", flush=True)
        if changed and key not in _CHANGING:
            status = 1
    return status


class BareBackend(Backend):
    """ORT without a backend, to find the cause of a failure. It shares no code with the backend under test."""

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"

    @classmethod
    def prepare(cls, model, device="CPU", **kwargs) -> "BareRep":
        return BareRep(InferenceSession(model.SerializeToString(), providers=onnxruntime.get_available_providers()))


class BareRep(BackendRep):
    """A session with the input and output values of ONNX's test runner."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session

    def run(self, inputs, **kwargs) -> list:
        feeds = {}
        for node, value in zip(self._session.get_inputs(), inputs, strict=False):
            feeds[node.name] = _to_ort(value)
        outputs = self._session.get_outputs()
        names = [node.name for node in outputs]
        if any(_NUMPY_LACKS.search(node.type) for node in outputs):
            values = self._session.run_with_ort_values(names, feeds)
            return list(map(_from_ort, values))
        return self._session.run(names, feeds)


def _to_ort(value: object) -> object:
    if value is None or isinstance(value, list):
        return value
    tensor = numpy_helper.from_array(np.asarray(value))
    if tensor.data_type == TensorProto.STRING:
        return value
    result = OrtValue.ortvalue_from_shape_and_type(list(tensor.dims), tensor.data_type)
    ctypes.memmove(result.data_ptr(), tensor.raw_data, len(tensor.raw_data))
    return result


def _from_ort(value: OrtValue) -> np.ndarray:
    data = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return numpy_helper.to_array(TensorProto(data_type=value.element_type(), dims=value.shape(), raw_data=data))


def compare_with_stock(stock: str) -> int:
    """Run all tests on this backend, on the stock backend of a Python, and on bare sessions, and print the differences.

    Return 1 if a test fails on this backend, and passes on the stock backend or, with onnx 1.19 or newer, on a bare
    session; or if a test is skipped on this backend only.
    """
    columns = {
        "stock": outcomes_of(stock, {}),
        "ours": outcomes(configured(OnnxRuntimeBackend, {})),
        "bare": outcomes(configured(BareBackend, {})),
    }
    ours = columns["ours"]
    print(f"\nonnxruntime {onnxruntime.__version__}, onnx {onnx.__version__}: {len(ours)} tests")
    print(f"{'':8}{'passed':>8}{'failed':>8}{'skipped':>8}")
    for title, column in columns.items():
        if column.keys() != ours.keys():
            raise SystemExit("The environments do not have the same tests: they must have the same onnx.")
        counts = _counts(column)
        print(f"{title:8}{counts['passed']:8}{counts['failed']:8}{counts['skipped']:8}")

    failed = named(ours, "failed")
    skipped = named(ours, "skipped")
    causes = collections.Counter(reason.partition(": ")[0] for reason in failed.values())
    print("\nFailures by cause:", dict(causes))
    status = 0
    for meaning, found, counts_against in (
        # With an older onnx, the backend does not support the types that numpy lacks.
        (
            "fail here, and pass on a bare session",
            failed.keys() & named(columns["bare"], "passed"),
            tuple(map(int, onnx.__version__.split(".")[:2])) >= (1, 19),
        ),
        ("fail here, and pass on the stock backend", failed.keys() & named(columns["stock"], "passed"), True),
        ("are skipped here, and not on the stock backend", skipped.keys() - named(columns["stock"], "skipped"), True),
    ):
        print(f"\n{len(found)} {meaning}")
        for name in sorted(found):
            print(f"  {name}: {ours[name].reason}")
        if found and counts_against:
            status = 1
    return status


def _counts(results: dict[str, Outcome]) -> collections.Counter:
    return collections.Counter(outcome.result for outcome in results.values())


def _cause(error: Exception, model: onnx.ModelProto | None) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, AssertionError) and model is not None:
        operators = {node.op_type for node in model.graph.node}
        for function in model.functions:
            operators.update(node.op_type for node in function.node)
        random = operators & _RANDOM
        if random:
            return f"random: {', '.join(sorted(random))}"
    for pattern, cause in _CAUSES:
        match = re.search(pattern, text)
        if match:
            return f"{cause}: {match[match.lastindex]}"
    return f"{type(error).__name__}: {text[:100]}"


def list_key(backend: type) -> str:
    """Return the name of the list for a backend: ORT's release and the first execution provider of its sessions.

    :raises RuntimeError: if the backend refuses the configuration: once, instead of in every test.
    """
    providers = backend.prepare(two_nodes())._session.get_providers()
    if providers[0].startswith("Azure"):  # no test contains its operator
        del providers[0]
    return f"onnxruntime {onnxruntime.__version__} {providers[0]}"


def expected_failures(key: str) -> dict[str, str]:
    """Return test names and reasons from a list for this onnx.

    :param key: the name of the list, from :func:`list_key`.
    """
    lists = json.loads(EXPECTED.read_text()).get(key, {})
    known = set(" ".join(lists).split())
    if onnx.__version__ not in known:
        raise RuntimeError(
            f"{EXPECTED.name} has no list for {key} with onnx {onnx.__version__} (it has "
            f"{', '.join(sorted(known)) or 'none'}): write one with {pathlib.Path(__file__).name} --update"
        )
    found = {}
    for releases, entries in lists.items():
        if onnx.__version__ in releases.split():
            found.update(entries)
    return found


def update(key: str, failed: dict[str, str]) -> None:
    """Write the failures into a list, and keep the other lists and the entries of other onnx releases."""
    everything = json.loads(EXPECTED.read_text())
    releases_of = collections.defaultdict(set)
    for releases, entries in everything.get(key, {}).items():
        others = set(releases.split())
        others.discard(onnx.__version__)
        for entry in entries.items():
            releases_of[entry] |= others
    for entry in failed.items():
        releases_of[entry].add(onnx.__version__)
    groups = collections.defaultdict(dict)
    for (name, reason), releases in sorted(releases_of.items()):
        if releases:
            groups[" ".join(sorted(releases))][name] = reason
    everything[key] = dict(sorted(groups.items()))
    EXPECTED.write_text(json.dumps(dict(sorted(everything.items())), indent=1) + "\n")


def _define_tests(define: Callable[[str, type], None]) -> None:
    """Define a test class for pytest for each test class of ONNX, with expected failures marked."""
    import pytest  # only under pytest  # noqa: PLC0415

    expected = expected_failures(list_key(OnnxRuntimeBackend))
    tests = collections.defaultdict(dict)
    for test_class, name in device_tests(OnnxRuntimeBackend):
        test = getattr(test_class, name)
        if name in expected:
            # Not strict: random and numeric results can be right on another machine.
            test = pytest.mark.xfail(reason=expected[name], strict=False)(test)
        tests[test_class.__name__][name] = test
    for class_name, members in tests.items():
        members["__module__"] = __name__
        define(class_name, type(class_name, (unittest.TestCase,), members))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--config", type=json.loads, default={}, help="prepare's keyword arguments, as JSON")
    parser.add_argument("--update", action="store_true", help="write the failures into the list of expected ones")
    parser.add_argument("--outcomes", help="only write every test's outcome to this file, as JSON, without a list")
    parser.add_argument("--each-key", action="store_true", help="only compare the tests with each permitted config key")
    parser.add_argument("--stock", metavar="PYTHON", help="only compare with a stock wheel that has the same onnx")
    parser.add_argument("--or-list-of", metavar="RELEASE", help="use the list of this ORT release if there is no other")
    arguments = parser.parse_args()
    if arguments.each_key:
        return compare_keys()
    onnxruntime.set_default_logger_severity(4)
    if arguments.stock:
        return compare_with_stock(arguments.stock)
    backend = configured(OnnxRuntimeBackend, arguments.config)
    key = list_key(backend)
    results = outcomes(backend)
    counts = _counts(results)
    print(
        f"{key}, onnx {onnx.__version__}: {counts['passed']} passed, {counts['failed']} failed, "
        f"{counts['skipped']} skipped of {len(results)}"
    )
    if arguments.outcomes:
        pathlib.Path(arguments.outcomes).write_text(json.dumps(results))
        return 0
    failed = named(results, "failed")
    if arguments.update:
        update(key, failed)
    if arguments.or_list_of and key not in json.loads(EXPECTED.read_text()):
        key = key.replace(onnxruntime.__version__, arguments.or_list_of)
    expected = expected_failures(key)
    for name in sorted(expected.keys() - failed.keys()):
        result = results.get(name, Outcome("gone")).result
        print(f"{result}, but listed: {name} ({expected[name]})")
    unexpected = sorted(failed.keys() - expected.keys())
    for name in unexpected:
        print(f"FAILED {name}: {failed[name]}")
    return int(bool(unexpected))


# The folder for the inputs that ONNX makes for its few whole models. The default is in the user's home.
_models = tempfile.TemporaryDirectory()
os.environ.setdefault("ONNX_MODELS", _models.name)

if __name__ == "__main__":
    sys.exit(main())
if "pytest" in sys.modules:
    _define_tests(globals().__setitem__)
