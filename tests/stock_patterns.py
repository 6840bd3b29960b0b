# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Patterns of programs that use ``onnxruntime.backend``. This program prints the outcome of each as JSON.

Every function of ``PATTERNS`` is one pattern. Its outcome is its result, or the classes of the error that it raises,
and its warnings. ``test_stock_comparison.py`` runs this program with this backend and with the stock backend.
"""

import contextlib
import copy
import inspect
import io
import json
import os
import pathlib
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from unittest import mock

import _paths
import numpy as np

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
import onnx
import onnx.backend.base
import onnx.backend.test
from helpers.models import model, three_inputs, two_nodes
from onnx import ModelProto, helper, parser
from stock_values import LISTS, NAMES, SCALARS, VALUES, X

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend import prepare
from onnxruntime.backend.backend import OnnxRuntimeBackend
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep
from onnxruntime.capi.onnxruntime_pybind11_state import EPFail

CPU = "CPUExecutionProvider"
ADDED = model([helper.make_node("Add", ["X", "W"], ["Y"])], {"X": [2, 3]}, {"Y": [2, 3]}, {"W": X})

PATTERNS: dict[str, Callable[[], object]] = {}


def patterns(title: str, cases: dict[str, Callable[[], object]]) -> None:
    for name, function in cases.items():
        PATTERNS[f"{title}: {name}"] = function


def session(providers: list[str] | None = None, **keywords) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(two_nodes().SerializeToString(), providers=providers or [CPU], **keywords)


REP = prepare(two_nodes())


# --- the forms of a model ---


def _a_file(kind: type, made: ModelProto, **keywords) -> list:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        onnx.save(made, path, **keywords)
        return prepare(kind(path)).run([X])


patterns(
    "a model",
    {
        "ModelProto": lambda: prepare(two_nodes()).run([X]),
        "bytes": lambda: prepare(two_nodes().SerializeToString()).run([X]),
        "path": lambda: _a_file(str, two_nodes()),
        "path object": lambda: _a_file(pathlib.Path, two_nodes()),
        "path, with external data": lambda: _a_file(str, ADDED, save_as_external_data=True, size_threshold=0),
        "session": lambda: prepare(session()).run([X]),
        "rep with options": lambda: prepare(REP, "CPU", intra_op_num_threads=1) is REP,
        "session, options that it cannot take any more": lambda: prepare(session(), intra_op_num_threads=1).run([X]),
        "session, another device": lambda: prepare(session(), "CUDA").run([X]),
        "session on all EPs": lambda: prepare(session(onnxruntime.get_available_providers())).run([X]),
        "None": lambda: prepare(None),
        "a number": lambda: prepare(3),
        "GraphProto": lambda: prepare(two_nodes().graph),
        "bytearray": lambda: prepare(bytearray(two_nodes().SerializeToString())),
        "no file": lambda: prepare("no-such-model.onnx"),
        "an empty path": lambda: prepare(""),
        "a folder": lambda: prepare(os.getcwd()),
        "broken bytes": lambda: prepare(b"not a model"),
        "empty ModelProto": lambda: prepare(ModelProto()),
    },
)


# --- models out of the ordinary ---


def _versions(form: Callable, opset: int, ir: int) -> list:
    made = two_nodes()
    made.ir_version = ir
    made.opset_import[0].version = opset
    return prepare(form(made)).run([X])


FORMS = {"ModelProto": copy.copy, "bytes": ModelProto.SerializeToString}
NEWEST = onnx.defs.onnx_opset_version()
# Each model runs in both forms, with these inputs.
UNUSUAL = {
    "without inputs": ("m () => (float[2] Y) { Y = Constant <value_floats = [1.0, -2.0]> () }", []),
    "without inputs, surplus": ("m () => (float[2] Y) { Y = Constant <value_floats = [1.0, -2.0]> () }", [X]),
    "surplus for an initializer": (
        "m (float[2] X, float[2] W = {1, 2}) => (float[2] Y) { Y = Mul (X, W) }",
        [X[0, :2]] * 2,
    ),
    "with a local function": (
        """m (float[2, 3] X) => (float[2, 3] Y) { Y = mine.Twice (X) }
        <domain: "mine", opset_import: ["": 21]> Twice (A) => (B) { B = Add (A, A) }""",
        [X],
    ),
    "with an unknown operator": ("m (float[2, 3] X) => (float[2, 3] Y) { Y = No (X) }", [X]),
    "an input that is an output": ("m (float[2, 3] X) => (float[2, 3] X, float[2, 3] Y) { Y = Neg (X) }", [X]),
    "a classifier with ZipMap": (
        """m (float[N, 3] X) => (int64[N] L, seq(map(int64, float)) Z) {
            L, P = ai.onnx.ml.LinearClassifier <coefficients = [1.0, -1.0, 0.0, 0.5, 0.5, 0.5],
                                                intercepts = [0.0, 1.0], classlabels_ints = [0, 1]> (X)
            Z = ai.onnx.ml.ZipMap <classlabels_int64s = [0, 1]> (P)
        }""",
        X,
    ),
}


def _unusual(form: Callable, text: str, inputs: object) -> list:
    opsets = '"": 21'
    for domain, version in {"mine": 1, "ai.onnx.ml": 3}.items():
        if domain in text:
            opsets += f', "{domain}": {version}'
    made = parser.parse_model(f"<ir_version: 10, opset_import: [{opsets}]> {text}")
    return prepare(form(made)).run(inputs)


def _named(name: str) -> list:
    made = model([helper.make_node("Neg", [name], ["Y"])], {name: ["N", None]}, {"Y": None})
    return prepare(made.SerializeToString()).run([X])


_models = {"input of another alphabet": partial(_named, "größe"), "input with spaces": partial(_named, "the input")}
for _form, _make in FORMS.items():
    for _name, (_text, _inputs) in UNUSUAL.items():
        _models[f"{_name}, as {_form}"] = partial(_unusual, _make, _text, _inputs)
    for _opset, _ir in ((7, 10), (9999, 10), (NEWEST, 10), (21, onnx.IR_VERSION), (21, 99), (21, 3)):
        _models[f"opset {_opset}, IR version {_ir}, as {_form}"] = partial(_versions, _make, _opset, _ir)
patterns("an unusual model", _models)


# --- values ---


def _run(source, inputs: object) -> list:
    return prepare(source).run(inputs)


_values = {}
for _name, (_source, _inputs) in VALUES.items():
    _values[_name] = partial(_run, _source, _inputs)
patterns("values", _values)

_scalars = {}
for _source, _of_source in SCALARS:
    for _value in _of_source:
        _name = f"{_value!r} for {NAMES[_source]}"
        _scalars[f"{_name}, alone"] = partial(_run, _source, _value)
        _scalars[f"{_name}, in a list"] = partial(_run, _source, [_value])
patterns("a numpy scalar", _scalars)

_lists = {}
for _source, *_of_source in LISTS:
    for _value in _of_source:
        _lists[f"{_value!r} for {NAMES[_source]}"] = partial(_run, _source, [_value])
patterns("a list", _lists)


# --- devices ---

BUILDS = ("CPU", "GPU", "CPU-OPENVINO_CPU", "CPU-DNNL", "GPU-MIGRAPHX", "NPU")
DEVICES = (
    "CPU", "GPU", "CUDA", "OPENVINO", "OPENVINO_CPU", "CPU_FP32", "DNNL", "MIGRAPHX", "NPU", "PU", "C", "cpu", "TPU",
    "", "-", "CPU-", "CPU-OPENVINO_CPU", "CPU OPENVINO", "CPU\n",
)  # fmt: skip


@contextlib.contextmanager
def built_for(device: str):
    """As if the wheel were another; each backend looks in its own places."""
    with contextlib.ExitStack() as stack:
        for module in list(sys.modules.values()):
            ours = f"{getattr(module, '__name__', '')}.".startswith("onnxruntime.backend.")
            if (ours or module is onnxruntime) and "get_device" in vars(module):
                stack.enter_context(mock.patch.object(module, "get_device", return_value=device))
        yield


def _supports(build: str) -> dict[str, bool]:
    with built_for(build):
        return {device: onnxruntime.backend.supports_device(device) for device in DEVICES}


def _prepare_on(build: str, device: str | None) -> list:
    with built_for(build):
        return prepare(two_nodes(), device).run([X])


patterns("supports_device", {f"built for {build}": partial(_supports, build) for build in BUILDS})
patterns(
    "prepare",
    {
        f"built for {build}, device {device}": partial(_prepare_on, build, device)
        for build, device in (
            ("CPU", None), ("CPU", "CPU"), ("CPU", "CUDA"), ("CPU", "TPU"), ("CPU", "cpu"), ("GPU", "CPU"),
            ("GPU", None), ("CPU-OPENVINO_CPU", "CPU"), ("CPU-OPENVINO_CPU", "GPU"),
        )
    },
)  # fmt: skip
patterns(
    "is_compatible",
    {
        "device None": lambda: onnxruntime.backend.is_compatible(two_nodes(), None),
        "device CPU": lambda: onnxruntime.backend.is_compatible(two_nodes(), "CPU"),
        "a keyword": lambda: onnxruntime.backend.is_compatible(two_nodes(), device="CPU", other=1),
    },
)


# --- keyword arguments ---

SESSION = {
    "enable_cpu_mem_arena": (False, True),
    "enable_mem_pattern": (False,),
    "execution_mode": (onnxruntime.ExecutionMode.ORT_PARALLEL,),
    "graph_optimization_level": (onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL, 99),
    "inter_op_num_threads": (0, 2, -1, "2", 1.5),
    "intra_op_num_threads": (0, 1, 2, -1, None),
    "log_severity_level": (2, -1, 1, 3, 4, "x"),
    "log_verbosity_level": (0, 1),
    "logid": ("", "a-session", "a session", b"a"),
    "use_deterministic_compute": (True,),
    "use_per_session_threads": (True,),
    "optimized_model_filepath": ("no-such-folder/x",),
    "enable_profiling": (True, False),
    "add_session_config_entry": (("a", "b"),),
    "register_custom_ops_library": ("no-such-library",),
    "no_such_option": (1,),
    "providers": ([CPU],),
}
RUN = {
    "log_severity_level": (2, -1, 1, 3, 4, "x"),
    "log_verbosity_level": (0, 1),
    "logid": ("", "a-run", "a run"),
    "only_execute_path_to_fetches": (True, False),
    "terminate": (False, True),
    "training_mode": (True,),
    "add_run_config_entry": (("a", "b"),),
    "no_such_option": (1,),
    "intra_op_num_threads": (1,),
}


def _attribute(name: str, value: object) -> object:
    rep = prepare(two_nodes(), **{name: value})
    held = getattr(rep._session.get_session_options(), name, None)
    if callable(held):
        held = ""
    return rep.run([X]), str(held)


def _rep_run(name: str, value: object) -> list:
    return prepare(two_nodes()).run([X], **{name: value})


def _run_once(name: str, value: object) -> list:
    return onnxruntime.backend.run(two_nodes(), [X], **{name: value})


for _call, _table, _pattern in (("prepare", SESSION, _attribute), ("rep.run", RUN, _rep_run), ("run", RUN, _run_once)):
    for _name, _of_name in _table.items():
        for _value in _of_name:
            PATTERNS[f"{_call}: {_name}={_value!r}"] = partial(_pattern, _name, _value)
PATTERNS["run: everything by keyword"] = lambda: onnxruntime.backend.run(
    model=two_nodes(), inputs=[X], device="CPU", intra_op_num_threads=1, logid="a"
)


# --- the environment ---


def _opset_gate(only: object, form: Callable[[ModelProto], object], assigned: bool) -> list:
    """Run a model with an opset that is not released and no operator of it, with an attribute of the backend."""
    proto = two_nodes()
    proto.opset_import.add(domain="ai.onnx.ml", version=9999)
    if not assigned:
        own = type("Own", (OnnxRuntimeBackend,), {"allowReleasedOpsetsOnly": only})
        return own.run_model(form(proto), [X])
    with mock.patch.object(OnnxRuntimeBackend, "allowReleasedOpsetsOnly", only):
        return onnxruntime.backend.run(form(proto), [X])


def _is_opset_supported(opset: int) -> bool:
    made = helper.make_model(two_nodes().graph, opset_imports=[helper.make_opsetid("", opset)])
    return OnnxRuntimeBackend.is_opset_supported(made)[0]


for _only in (True, False, 1, None, "0"):
    for _form, _make in FORMS.items():
        _title = f"the environment: allowReleasedOpsetsOnly={_only!r}"
        PATTERNS[f"{_title}, assigned, {_form}"] = partial(_opset_gate, _only, _make, True)
        PATTERNS[f"{_title}, of a subclass, {_form}"] = partial(_opset_gate, _only, _make, False)
for _opset in (1, 7, 21, 9999):
    PATTERNS[f"the environment: opset {_opset}"] = partial(_is_opset_supported, _opset)


# --- what programs reach for ---


class _TwoThreads(onnxruntime.SessionOptions):
    def __init__(self) -> None:
        super().__init__()
        self.intra_op_num_threads = 2


class _OnTwoThreads(onnxruntime.InferenceSession):
    """A session with settings that the stock backend does not accept."""

    def __init__(self, model: bytes, sess_options: onnxruntime.SessionOptions, **keywords) -> None:
        sess_options.intra_op_num_threads = 2
        super().__init__(model, sess_options, **keywords)


def _patched_name(name: str, value: object) -> tuple:
    with mock.patch.object(onnxruntime.backend.backend, name, value):
        opened = prepare(two_nodes())._session
    options = opened.get_session_options()
    return type(opened).__name__, opened.get_providers(), options.intra_op_num_threads


class _Wrapped:
    """A session of the caller that is not ORT's, with the methods that the stock backend calls."""

    def __init__(self) -> None:
        self.inner = session()
        self.get_inputs, self.get_outputs = self.inner.get_inputs, self.inner.get_outputs

    def run(self, names, feeds, options: onnxruntime.RunOptions) -> object:
        return ["wrapped", *self.inner.run(names, feeds, options)]


class _WithoutOutputs(_Wrapped):
    def __init__(self) -> None:
        super().__init__()
        del self.get_outputs


class _ByName(_Wrapped):
    def run(self, names, feeds, options: onnxruntime.RunOptions) -> object:
        return {"Z": 0, "Y": 1}


class _Counting(onnxruntime.InferenceSession):
    """A session that fails. Only ORT's own ``run`` may repeat a run on other EPs."""

    runs = 0

    def run(self, *arguments):
        self.runs += 1
        raise EPFail("a device is gone")


def _failing_runs() -> int:
    counting = _Counting(two_nodes().SerializeToString(), providers=[CPU])
    for inputs in ([X], X):
        with contextlib.suppress(EPFail):
            prepare(counting).run(inputs)
    return counting.runs


def _patched_run(patched: object) -> list:
    with mock.patch.object(patched, "run", return_value={"Z": 1, "Y": 2}):
        return REP.run([X])


class _OwnSession(OnnxRuntimeBackendRep):
    def __init__(self, model: ModelProto) -> None:
        self._session = onnxruntime.InferenceSession(model.SerializeToString(), providers=[CPU])


def _replaced_session() -> list:
    rep = _OwnSession(two_nodes())
    first = rep.run([X])
    rep._session = _OwnSession(three_inputs())._session
    return [first, rep.run([np.ones(4, np.float32)] * 3)]


class _OldSignature(OnnxRuntimeBackend):
    @classmethod
    def prepare(cls, model, device=None, intra_op_num_threads=1):
        return super().prepare(model, device, intra_op_num_threads=intra_op_num_threads)


class _OwnRep(OnnxRuntimeBackend):
    @classmethod
    def prepare(cls, model, device=None, **kwargs):
        return mock.Mock(run=lambda inputs, **keywords: [inputs, keywords])


class _OwnDevice(OnnxRuntimeBackend):
    @classmethod
    def supports_device(cls, device):
        return device == "MINE"


def _forms(model: object) -> list:
    """Return the forms of a model that a subclass receives, with the device and the keyword arguments."""
    seen = []

    class Hooked(OnnxRuntimeBackend):
        @classmethod
        def prepare(cls, model, device=None, **kwargs):
            seen.append([type(model).__name__, device, sorted(kwargs)])
            return super().prepare(model, device, **kwargs)

    Hooked.prepare(model, onnxruntime.get_device(), intra_op_num_threads=1)
    return seen


patterns(
    "an object",
    {
        "with three methods": lambda: OnnxRuntimeBackendRep(_Wrapped()).run([X]),
        "with three methods, a number": lambda: OnnxRuntimeBackendRep(_Wrapped()).run([3.0]),
        "without get_outputs": lambda: OnnxRuntimeBackendRep(_WithoutOutputs()).run([X]),
        "with outputs by name": lambda: OnnxRuntimeBackendRep(_ByName()).run([X]),
        "that is a rep, another device": lambda: prepare(OnnxRuntimeBackendRep(_Wrapped()), "CUDA").run([X]),
    },
)
patterns(
    "a subclass",
    {
        "of InferenceSession that fails": _failing_runs,
        "with a session of its own": _replaced_session,
        "with prepare of the old signature": lambda: _OldSignature.run_model(two_nodes(), [X]),
        "with a rep of its own": lambda: _OwnRep.run_model(None, 1, mine=2, logid="a"),
        "with a device of its own": lambda: _OwnDevice.prepare(two_nodes(), "MINE").run([X]),
        "with another device": lambda: _OwnDevice.prepare(two_nodes(), "CPU"),
        "with devices": lambda: _OwnDevice.is_compatible(two_nodes()),
        "that sees each form of a ModelProto": lambda: _forms(two_nodes()),
        "that sees each form of bytes": lambda: _forms(two_nodes().SerializeToString()),
        "of the interface of ONNX": lambda: [
            issubclass(OnnxRuntimeBackend, onnx.backend.base.Backend),
            issubclass(OnnxRuntimeBackendRep, onnx.backend.base.BackendRep),
            onnxruntime.backend.run == OnnxRuntimeBackend.run_model,
        ],
    },
)


def _first_parameters(function: Callable) -> list[str]:
    kept = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind in kept]


def _has_names(module: object, names: str) -> list[bool]:
    return [hasattr(module, name) for name in names.split()]


patterns(
    "a program",
    {
        "get_available_providers patched": lambda: _patched_name("get_available_providers", lambda: [CPU]),
        "run patched": lambda: _patched_run(onnxruntime.InferenceSession),
        "run of the session patched": lambda: _patched_run(REP._session),
        "run_node": lambda: OnnxRuntimeBackend.run_node(two_nodes().graph.node[0], [X]),
        "SessionOptions patched": lambda: _patched_name("SessionOptions", _TwoThreads),
        "InferenceSession patched": lambda: _patched_name("InferenceSession", _OnTwoThreads),
        "names in backend": partial(
            _has_names,
            onnxruntime.backend.backend,
            "Backend ModelProto InferenceSession SessionOptions OnnxRuntimeBackend OnnxRuntimeBackendRep check_model "
            "get_device is_compatible prepare run supports_device",
        ),
        "names in backend_rep": partial(
            _has_names, onnxruntime.backend.backend_rep, "BackendRep RunOptions OnnxRuntimeBackendRep"
        ),
    },
)
for _name, _function in {
    "prepare": onnxruntime.backend.prepare,
    "run": onnxruntime.backend.run,
    "is_compatible": onnxruntime.backend.is_compatible,
    "supports_device": onnxruntime.backend.supports_device,
    "run_node": OnnxRuntimeBackend.run_node,
    "is_opset_supported": OnnxRuntimeBackend.is_opset_supported,
    "rep.run": OnnxRuntimeBackendRep.run,
}.items():
    PATTERNS[f"the signature of {_name}"] = partial(_first_parameters, _function)


def _plain(value: object) -> object:
    """Return a value that can be compared as JSON, so that NaN equals NaN."""
    if isinstance(value, np.ndarray):
        return [str(value.dtype), list(value.shape), _plain(value.tolist())]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else type(value).__name__


def outcome(function: Callable[[], object]) -> dict[str, object]:
    """Return the outcome of a pattern: the value ``returned``, or the names of the classes ``raised`` and the message;
    and the texts of its ``warnings``."""
    with warnings.catch_warnings(record=True) as given, contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("always")
        try:
            found = {"returned": _plain(function())}
        except Exception as error:
            classes: Iterable[type] = type(error).__mro__
            found = {
                "raised": list(dict.fromkeys(kind.__name__ for kind in classes if kind not in (object, BaseException))),
                "message": " ".join(str(error).split())[:300],
            }
    return {**found, "warnings": [f"{warning.category.__name__}: {warning.message}"[:200] for warning in given]}


if __name__ == "__main__":
    onnxruntime.set_default_logger_severity(4)
    json.dump({name: outcome(function) for name, function in PATTERNS.items()}, sys.stdout)
