# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Patterns of programs that use ``onnxruntime.backend``. ``stock_outcomes.py`` runs them.

Every function of ``PATTERNS`` is one pattern.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import os
import pathlib
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from unittest import mock

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
sys.path.insert(
    0,
    str(pathlib.Path(__file__).resolve().parents[1] / "onnxruntime" / "test" / "python" / "backend"),
)

import onnx
import onnx.backend.base
import onnx.backend.test
from helpers.models import IR_VERSION, model, two_nodes
from onnx import ModelProto, helper, parser
from stock_values import LISTS, NAMES, SCALARS, VALUES, X

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend import prepare
from onnxruntime.backend.backend import OnnxRuntimeBackend
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep

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


class Proxy:
    """A session of the caller that has only the members that the stock backend uses."""

    def __init__(self) -> None:
        self._inner = session()

    def get_inputs(self):
        return self._inner.get_inputs()

    def get_outputs(self):
        return self._inner.get_outputs()

    def run(self, names, feeds, options=None):
        return ["wrapped", *self._inner.run(names, feeds, options)]


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
        "bytearray": lambda: prepare(bytearray(two_nodes().SerializeToString())),
        "no file": lambda: prepare("no-such-model.onnx"),
        "an empty path": lambda: prepare(""),
        "a folder": lambda: prepare(os.getcwd()),
        "broken bytes": lambda: prepare(b"not a model"),
        "empty bytes": lambda: prepare(b""),
        "empty ModelProto": lambda: prepare(ModelProto()),
        "ir_version and nothing else": lambda: prepare(ModelProto(ir_version=IR_VERSION)),
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
    "without inputs": (
        "m () => (float[2] Y) { Y = Constant <value_floats = [1.0, -2.0]> () }",
        [],
    ),
    "without inputs, surplus": (
        "m () => (float[2] Y) { Y = Constant <value_floats = [1.0, -2.0]> () }",
        [X],
    ),
    "surplus for an initializer": (
        "m (float[2] X, float[2] W = {1, 2}) => (float[2] Y) { Y = Mul (X, W) }",
        [X[0, :2]] * 2,
    ),
    "with an If": (
        """m (float[2, 3] X) => (float[2, 3] Y) {
            S = ReduceSum <keepdims = 0> (X)
            C = Cast <to = 9> (S)
            Y = If (C) <then_branch = a () => (float[2, 3] B) { B = Abs (X) },
                        else_branch = b () => (float[2, 3] B) { B = Neg (X) }>
        }""",
        [X],
    ),
    "with a local function": (
        """m (float[2, 3] X) => (float[2, 3] Y) { Y = mine.Twice (X) }
        <domain: "mine", opset_import: ["": 21]> Twice (A) => (B) { B = Add (A, A) }""",
        [X],
    ),
    "with an unknown operator": (
        "m (float[2, 3] X) => (float[2, 3] Y) { Y = No (X) }",
        [X],
    ),
    "with a contrib operator": (
        "m (float[2, 3] X) => (float[2, 3] Y) { Y = com.microsoft.Gelu (X) }",
        [X],
    ),
    "two outputs": (
        "m (float[2, 3] X) => (float[1, 3] A, float[1, 3] B) { A, B = Split <num_outputs = 2> (X) }",
        [X],
    ),
    "an input that is an output": (
        "m (float[2, 3] X) => (float[2, 3] X, float[2, 3] Y) { Y = Neg (X) }",
        [X],
    ),
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
    versions = {"": 21, "mine": 1, "com.microsoft": 1, "ai.onnx.ml": 3}
    opsets = ", ".join(f'"{domain}": {version}' for domain, version in versions.items() if domain in text)
    return prepare(form(parser.parse_model(f"<ir_version: 10, opset_import: [{opsets}]> {text}"))).run(inputs)


def _named(name: str) -> list:
    made = model([helper.make_node("Neg", [name], ["Y"])], {name: ["N", None]}, {"Y": None})
    return prepare(made.SerializeToString()).run([X])


patterns(
    "an unusual model",
    {
        **{
            f"{name}, as {form}": partial(_unusual, make, *case)
            for name, case in UNUSUAL.items()
            for form, make in FORMS.items()
        },
        "input of another alphabet": lambda: _named("größe"),
        "input with spaces": lambda: _named("the input"),
        **{
            f"opset {opset}, IR version {ir}, as {form}": partial(_versions, make, opset, ir)
            for opset, ir in (
                (7, 10),
                (9999, 10),
                (NEWEST, 10),
                (21, onnx.IR_VERSION),
                (21, 99),
                (21, 3),
            )
            for form, make in FORMS.items()
        },
    },
)


# --- values ---


def _run(source, inputs: object) -> list:
    return prepare(source).run(inputs)


patterns("values", {name: partial(_run, *case) for name, case in VALUES.items()})

patterns(
    "a numpy scalar",
    {
        f"{value!r} for {NAMES[source]}, {form}": lambda source=source, inputs=inputs: _run(source, inputs)
        for source, values in SCALARS
        for value in values
        for form, inputs in (("alone", value), ("in a list", [value]))
    },
)
patterns(
    "a list",
    {
        f"{value!r} for {NAMES[source]}": lambda source=source, value=value: _run(source, [value])
        for source, *values in LISTS
        for value in values
    },
)


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


patterns(
    "supports_device",
    {f"built for {build}": lambda build=build: _supports(build) for build in BUILDS},
)
patterns(
    "prepare",
    {
        f"built for {build}, device {device}": lambda build=build, device=device: _prepare_on(build, device)
        for build, device in (
            ("CPU", None), ("CPU", "CPU"), ("CPU", "CUDA"), ("CPU", "TPU"), ("CPU", "cpu"), ("GPU", "CPU"),
            ("GPU", None), ("CPU-OPENVINO_CPU", "CPU"), ("CPU-OPENVINO_CPU", "GPU"),
        )
    },
)  # fmt: skip
patterns(
    "is_compatible",
    {
        str(device): lambda device=device: onnxruntime.backend.is_compatible(two_nodes(), *device)
        for device in ((None,), ("CPU",))
    },
)
PATTERNS["is_compatible: a keyword"] = lambda: onnxruntime.backend.is_compatible(two_nodes(), device="CPU", other=1)


# --- keyword arguments ---

# The sequences use the first value of each name, which both backends accept if they accept the name.
SESSION = {
    "enable_cpu_mem_arena": (False, True),
    "enable_mem_pattern": (False,),
    "enable_mem_reuse": (False,),
    "execution_mode": (onnxruntime.ExecutionMode.ORT_PARALLEL,),
    "execution_order": (onnxruntime.ExecutionOrder.PRIORITY_BASED,),
    "graph_optimization_level": (onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL, 99),
    "inter_op_num_threads": (0, 2, -1, "2", 1.5),
    "intra_op_num_threads": (0, 1, 2, -1, None),
    "log_severity_level": (2, -1, 1, 3, 4, "x"),
    "log_verbosity_level": (0, 1),
    "logid": ("", "a-session", "a session", b"a"),
    "use_deterministic_compute": (True,),
    "use_per_session_threads": (True,),
    "optimized_model_filepath": ("no-such-folder/x",),
    "profile_file_prefix": ("no-such-folder/x",),
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
    return rep.run([X]), "" if callable(held) else str(held)


for _call, _table, _pattern in (
    ("prepare", SESSION, _attribute),
    ("rep.run", RUN, lambda name, value: prepare(two_nodes()).run([X], **{name: value})),
    (
        "run",
        RUN,
        lambda name, value: onnxruntime.backend.run(two_nodes(), [X], **{name: value}),
    ),
):
    cases = ((name, value) for name, values in _table.items() for value in values)
    patterns(
        _call,
        {f"{name}={value!r}": partial(_pattern, name, value) for name, value in cases},
    )
PATTERNS["run: everything by keyword"] = lambda: onnxruntime.backend.run(
    model=two_nodes(), inputs=[X], device="CPU", intra_op_num_threads=1, logid="a"
)


# --- the environment ---


def _opset_gate(only: object, form: Callable[[ModelProto], object], assigned: bool) -> list:
    """Run a model with an opset that is not released and no operator of it, with an attribute of the backend."""
    proto = two_nodes()
    proto.opset_import.add(domain="ai.onnx.ml", version=9999)
    own = OnnxRuntimeBackend if assigned else type("Own", (OnnxRuntimeBackend,), {"allowReleasedOpsetsOnly": only})
    with mock.patch.object(own, "allowReleasedOpsetsOnly", only):
        return (onnxruntime.backend.run if assigned else own.run_model)(form(proto), [X])


patterns(
    "the environment",
    {
        f"allowReleasedOpsetsOnly={only!r}, {'assigned' if assigned else 'of a subclass'}, {form}": (
            partial(_opset_gate, only, make, assigned)
        )
        for only in (True, False, 1, None, "0")
        for form, make in FORMS.items()
        for assigned in (True, False)
    },
)


PATTERNS["the environment: opsets"] = lambda: [
    OnnxRuntimeBackend.is_opset_supported(
        helper.make_model(two_nodes().graph, opset_imports=[helper.make_opsetid("", of)])
    )[0]
    for of in (1, 7, 21, 9999)
]


# --- what programs reach for ---


class _TwoThreads(onnxruntime.SessionOptions):
    def __init__(self) -> None:
        super().__init__()
        self.intra_op_num_threads = 2


def _patched_name(name: str, value: object) -> tuple:
    with mock.patch.object(onnxruntime.backend.backend, name, value):
        opened = prepare(two_nodes())._session
    return opened.get_providers(), opened.get_session_options().intra_op_num_threads


def _first_parameters(function: Callable) -> list[str]:
    kept = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.VAR_KEYWORD)
    return [str(name) for name, parameter in inspect.signature(function).parameters.items() if parameter.kind in kept]


patterns(
    "a program",
    {
        "signatures": lambda: [
            _first_parameters(function)
            for function in (
                onnxruntime.backend.prepare,
                onnxruntime.backend.run,
                onnxruntime.backend.is_compatible,
                onnxruntime.backend.supports_device,
                OnnxRuntimeBackend.run_node,
                OnnxRuntimeBackend.is_opset_supported,
                OnnxRuntimeBackendRep.run,
            )
        ],
        "get_available_providers patched": lambda: _patched_name("get_available_providers", lambda: [CPU]),
        "SessionOptions patched": lambda: _patched_name("SessionOptions", _TwoThreads),
        "names of its modules": lambda: [
            name
            for module, names in {
                onnxruntime.backend.backend: "Backend ModelProto InferenceSession SessionOptions OnnxRuntimeBackend "
                "OnnxRuntimeBackendRep check_model get_device is_compatible prepare run supports_device",
                onnxruntime.backend.backend_rep: "BackendRep RunOptions OnnxRuntimeBackendRep",
            }.items()
            for name in names.split()
            if not hasattr(module, name)
        ],
    },
)
