# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""A pytest plugin: writes one JSON line for each test, with its outcome and the EPs of the nodes of its models.

To load it without code, set ``PYTEST_PLUGINS=onnxruntime.backend.conformance``. ``ORT_ONNX_BACKEND_REPORT`` specifies
the file. With pytest-xdist, the workers send their records to the main process, which writes all lines. If a worker
crashes, no line is lost: its test fails.
"""

import json
import os
import re
from collections import Counter

import onnx

import onnxruntime
from onnxruntime.backend import __version__, locks, waiting
from onnxruntime.backend.applied import nodes
from onnxruntime.backend.backend import OnnxRuntimeBackend
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep
from onnxruntime.backend.capture import graphs
from onnxruntime.backend.openvino import run_order
from onnxruntime.backend.runs import plan
from onnxruntime.backend.session import creation

_PROPERTY = "onnxruntime.backend"  # the user property of pytest's reports that contains the models of a test
_MODULE = "onnxruntime.capi.onnxruntime_pybind11_state."  # of ORT's exceptions: most reasons would begin with it
# Texts before a message: the name and number of a status, which the class of the exception repeats, and places.
_BEFORE = re.compile(r"\[ONNXRuntimeError\] : \d+ : \w+ : |Exception (?:during initialization|from \S+:\d+): ")
_SOURCE = re.compile(r"\S+\.(?:h|hpp|cc|cpp|cu):\d+ ")  # a file of ORT's source with a line
_NO_MODELS = '{"models": [], "operators": {}}'
_models: list[dict] = []  # that the current test has prepared
_operators: Counter[str] = Counter()  # of the models that the current test has passed to prepare


def pytest_configure(config) -> None:
    """Record each prepared model from now on."""
    prepare = OnnxRuntimeBackendRep.__init__

    def prepare_and_record(rep, *arguments, **keywords) -> None:
        prepare(rep, *arguments, **keywords)
        _models.append(_described(rep))

    # mypy permits no replacement of a method.
    OnnxRuntimeBackendRep.__init__ = prepare_and_record  # type: ignore[method-assign, assignment]
    is_supported = vars(OnnxRuntimeBackend)["is_opset_supported"].__func__

    def record_and_check(cls, model) -> tuple[bool, str]:
        # prepare calls this method first. So the record also contains the operators of a model that ORT rejects.
        if isinstance(model, onnx.ModelProto):
            _operators.update(map(nodes.operator_of, model.graph.node))
        return is_supported(cls, model)

    OnnxRuntimeBackend.is_opset_supported = classmethod(record_and_check)  # type: ignore[method-assign, assignment]
    # pytest leaves out the frames of these modules, which are between the backend's API and ORT.
    for module in (creation, plan, locks, waiting, graphs, run_order):
        vars(module)["__tracebackhide__"] = True
    if not hasattr(config, "workerinput"):  # of a worker of pytest-xdist
        path = os.environ.get("ORT_ONNX_BACKEND_REPORT", "conformance.jsonl")
        config.pluginmanager.register(_Writer(path))


def pytest_runtest_setup(item) -> None:
    _models.clear()
    _operators.clear()


def pytest_runtest_teardown(item) -> None:
    """Add the models to the last report of a test."""
    record = {"models": _models, "operators": _operators}
    item.user_properties.append((_PROPERTY, json.dumps(record, default=dict)))


def _described(rep: OnnxRuntimeBackendRep) -> dict:
    applied = rep._applied  # some properties of a prepared model choose how it runs, which is too early
    operators = {}
    recorded = nodes.recorded_nodes(rep.session)
    for ep, of_ep in recorded.items():
        operators[ep] = nodes.count_operators(of_ep)
    return {
        "providers": list(rep.providers),
        "operators": operators,
        "configuration": applied.configuration,
        "unconfirmed": applied.unconfirmed,
        "warnings": applied.warnings,
    }


class _Writer:
    """Writes the line of a test after its last phase: the setup, the call or the teardown."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._unfinished: dict = {}

    def pytest_runtest_logreport(self, report) -> None:
        test = report.nodeid
        new = {"test": test.partition("::")[2], "outcome": "passed", "reason": ""}
        line = self._unfinished.setdefault(test, new)
        if report.outcome != "passed" and line["outcome"] == "passed":
            line["outcome"] = report.outcome
            line["reason"] = _reason(report.longrepr)
        if report.when in ("setup", "call"):
            return
        del self._unfinished[test]
        properties = dict(report.user_properties)
        line |= json.loads(properties.get(_PROPERTY, _NO_MODELS))
        line["onnxruntime"] = onnxruntime.__version__
        line["backend"] = __version__
        line["onnx"] = onnx.__version__
        text = json.dumps(line) + "\n"
        # One write for each line, because several processes can append to one file.
        with open(self._path, "ab", buffering=0) as file:
            file.write(text.encode())


def _reason(failure: object) -> str:
    """Return the message of a failure: pytest has a text, a tuple that ends with it, or an object."""
    crash = getattr(failure, "reprcrash", None)
    if crash:
        text = crash.message
    elif isinstance(failure, tuple):
        text = failure[-1]
    else:
        text = str(failure)
    words = text.removeprefix(_MODULE).split()
    text = " ".join(words)[:5000]
    text = _BEFORE.sub("", text)
    return _SOURCE.sub("", text)[:500]
