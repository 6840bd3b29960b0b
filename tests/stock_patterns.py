# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Patterns of programs that use ``onnxruntime.backend``. The program ``stock_sequences.py`` runs them.

The module ``test_stock_comparison.py`` compares the outcomes with this backend and with the stock backend.
Every function with the decorator is one pattern. The outcome is its result, or the classes of the error that it raises.
"""

from __future__ import annotations

import contextlib
import copy
import decimal
import gc
import inspect
import io
import os
import pathlib
import sys
import tempfile
import threading
import unittest
import warnings
import weakref
from collections.abc import Callable, Iterable
from unittest import mock

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "onnxruntime" / "test" / "python"))

import numpy as np
import onnx
import onnx.backend.base
import onnx.backend.test
from backend_test_models import IR_VERSION, identity, model, one_node, tensor, three_inputs, two_nodes
from onnx import ModelProto, TensorProto, helper, numpy_helper

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend.backend import OnnxRuntimeBackend
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep

CPU = "CPUExecutionProvider"
X = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
V = np.array([1, 2, 3, 4], np.float32)

PATTERNS: dict[str, Callable[[], object]] = {}


def pattern(function: Callable[[], object]) -> Callable[[], object]:
    PATTERNS[function.__name__.replace("_", " ")] = function
    return function


def patterns(title: str, cases: dict[str, Callable[[], object]]) -> None:
    for name, function in cases.items():
        PATTERNS[f"{title}: {name}"] = function


def prepare(made, *arguments, **keywords) -> OnnxRuntimeBackendRep:
    return onnxruntime.backend.prepare(made, *arguments, **keywords)


@contextlib.contextmanager
def saved(made: ModelProto):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        onnx.save(made, path)
        yield path


def session(**keywords) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(two_nodes().SerializeToString(), providers=[CPU], **keywords)


# --- the forms of a model ---


@pattern
def a_path():
    with saved(two_nodes()) as path:
        return prepare(path).run([X])


@pattern
def a_path_object():
    with saved(two_nodes()) as path:
        return prepare(pathlib.Path(path)).run([X])


@pattern
def a_model_with_external_data():
    made = model([helper.make_node("Add", ["X", "W"], ["Y"])], {"X": [2, 3]}, {"Y": [2, 3]}, {"W": X})
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        onnx.save(made, path, save_as_external_data=True, size_threshold=0)
        return prepare(path).run([X])


def _a_session():
    opened = session()
    rep = prepare(opened)
    return rep._session is opened, rep.run([X])


def _a_rep():
    rep = prepare(two_nodes())
    return prepare(rep) is rep, prepare(rep, "CPU", intra_op_num_threads=1) is rep


class _Subclass(onnxruntime.InferenceSession):
    def run(self, *arguments, **keywords):
        return [len(super().run(*arguments, **keywords))]


class Proxy:
    """A session of the caller that has only the members that the stock backend uses."""

    def __init__(self) -> None:
        self._inner = session()

    def get_inputs(self):
        return self._inner.get_inputs()

    def get_outputs(self):
        return self._inner.get_outputs()

    def run(self, names, feeds, options=None):
        return self._inner.run(names, feeds, options)


class _Wrapper(Proxy):
    def run(self, names, feeds, options=None):
        return ["wrapped", *super().run(names, feeds, options)]


patterns(
    "a model",
    {
        "ModelProto": lambda: prepare(two_nodes()).run([X]),
        "bytes": lambda: prepare(two_nodes().SerializeToString()).run([X]),
        "session": _a_session,
        "rep": _a_rep,
        "session of a subclass": lambda: prepare(_Subclass(two_nodes().SerializeToString(), providers=[CPU])).run([X]),
        "rep of a wrapper": lambda: OnnxRuntimeBackendRep(_Wrapper()).run([X]),
        "session, options that it cannot take any more": lambda: prepare(session(), intra_op_num_threads=1).run([X]),
        "session, another device": lambda: prepare(session(), "CUDA").run([X]),
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
        "unknown operator": lambda: prepare(model([helper.make_node("No", ["X"], ["Y"])], {"X": [1]}, {"Y": [1]})),
        "unknown operator in bytes": lambda: prepare(
            model([helper.make_node("No", ["X"], ["Y"])], {"X": [1]}, {"Y": [1]}).SerializeToString()
        ),
    },
)


# --- models out of the ordinary ---


def _proto(**versions) -> ModelProto:
    made = two_nodes()
    made.ir_version = versions.get("ir", IR_VERSION)
    made.opset_import[0].version = versions.get("opset", 21)
    return made


def _overridable(serialized: bool = True):
    made = model([helper.make_node("Mul", ["X", "W"], ["Y"])], {"X": [2, 3], "W": [2, 3]}, {"Y": [2, 3]}, {"W": X})
    return prepare(made.SerializeToString() if serialized else made)


def _constant() -> OnnxRuntimeBackendRep:
    node = helper.make_node("Constant", [], ["Y"], value=numpy_helper.from_array(X))
    return prepare(model([node], {}, {"Y": X.shape}))


def _conditional() -> OnnxRuntimeBackendRep:
    def branch(op: str) -> onnx.GraphProto:
        return helper.make_graph(
            [helper.make_node(op, ["X"], ["B"])], op, [], [helper.make_tensor_value_info("B", 1, [2, 3])]
        )

    made = model(
        [
            helper.make_node("ReduceSum", ["X"], ["S"], keepdims=0),
            helper.make_node("Cast", ["S"], ["C"], to=TensorProto.BOOL),
            helper.make_node("If", ["C"], ["Y"], then_branch=branch("Abs"), else_branch=branch("Neg")),
        ],
        {"X": [2, 3]},
        {"Y": [2, 3]},
    )
    return prepare(made)


def _gelu(serialized: bool):
    made = model(
        [helper.make_node("Gelu", ["X"], ["Y"], domain="com.microsoft")],
        {"X": [2, 3]},
        {"Y": [2, 3]},
        extra_domains=["com.microsoft"],
    )
    return prepare(made.SerializeToString() if serialized else made)


def _function() -> OnnxRuntimeBackendRep:
    made = model([helper.make_node("Twice", ["X"], ["Y"], domain="mine")], {"X": [2, 3]}, {"Y": [2, 3]})
    made.opset_import.add(domain="mine", version=1)
    body = [helper.make_node("Add", ["A", "A"], ["B"])]
    made.functions.append(helper.make_function("mine", "Twice", ["A"], ["B"], body, [helper.make_opsetid("", 21)]))
    return prepare(made.SerializeToString())


def _named(name: str) -> list:
    made = model([helper.make_node("Neg", [name], ["Y"])], {name: ["N", None]}, {"Y": None})
    return prepare(made.SerializeToString()).run([X])


def _same_dtype(element: int) -> list:
    array = X.astype(helper.tensor_dtype_to_np_dtype(element))
    return prepare(identity(tensor(element))).run([array])


def _split() -> list:
    made = model([helper.make_node("Split", ["X"], ["A", "B"], num_outputs=2)], {"X": [2, 3]}, {"A": None, "B": None})
    return prepare(made.SerializeToString()).run([X])


def _input_is_output() -> list:
    return prepare(model([helper.make_node("Neg", ["X"], ["Y"])], {"X": [2, 3]}, {"X": [2, 3], "Y": [2, 3]})).run([X])


def _classifier() -> list:
    nodes = [
        helper.make_node(
            "LinearClassifier", ["X"], ["L", "P"], domain="ai.onnx.ml",
            coefficients=[1.0, -1.0, 0.0, 0.5, 0.5, 0.5], intercepts=[0.0, 1.0], classlabels_ints=[0, 1],
        ),
        helper.make_node("ZipMap", ["P"], ["Z"], domain="ai.onnx.ml", classlabels_int64s=[0, 1]),
    ]  # fmt: skip
    of = helper.make_sequence_type_proto(helper.make_map_type_proto(TensorProto.INT64, tensor(TensorProto.FLOAT, [])))
    graph = helper.make_graph(
        nodes,
        "pattern",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, [None, 3])],
        [helper.make_tensor_value_info("L", TensorProto.INT64, [None]), helper.make_value_info("Z", of)],
    )
    opsets = [helper.make_opsetid("", 15), helper.make_opsetid("ai.onnx.ml", 3)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return prepare(made.SerializeToString()).run(X)


SEQUENCE = helper.make_sequence_type_proto(tensor(TensorProto.FLOAT))
OPTIONAL = helper.make_optional_type_proto(tensor(TensorProto.FLOAT))
MAP = helper.make_map_type_proto(TensorProto.INT64, tensor(TensorProto.FLOAT))

patterns(
    "an unusual model",
    {
        "without inputs": lambda: _constant().run([]),
        "with an If": lambda: _conditional().run([X]),
        "with a local function": lambda: _function().run([X]),
        "with a contrib operator, as ModelProto": lambda: _gelu(False).run([X]),
        "with a contrib operator, as bytes": lambda: _gelu(True).run([X]),
        "two outputs": _split,
        "an input that is an output": _input_is_output,
        "a classifier with ZipMap": _classifier,
        "input of another alphabet": lambda: _named("größe"),
        "input with spaces": lambda: _named("the input"),
        "any rank": lambda: prepare(identity(tensor(TensorProto.FLOAT))).run([X]),
        "scalar": lambda: prepare(identity(tensor(TensorProto.FLOAT, []))).run([np.float32(1)]),
        "no elements": lambda: prepare(identity(tensor(TensorProto.FLOAT, [None]))).run([X[0, :0]]),
        **{
            TensorProto.DataType.Name(element).lower(): lambda element=element: _same_dtype(element)
            for element in (2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13)
        },
        "opset 7": lambda: prepare(_proto(opset=7)).run([X]),
        "unreleased opset": lambda: prepare(_proto(opset=9999)),
        "unreleased opset in bytes": lambda: prepare(_proto(opset=9999).SerializeToString()),
        "unreleased opset of ai.onnx.ml": lambda: prepare(
            helper.make_model(
                two_nodes().graph,
                opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 99)],
                ir_version=10,
            )
        ),
        "newest opset that onnx knows": lambda: prepare(_proto(opset=onnx.defs.onnx_opset_version())),
        "newest IR version that onnx knows": lambda: prepare(_proto(ir=onnx.IR_VERSION)),
        "IR version 99": lambda: prepare(_proto(ir=99)),
        "IR version 99 in bytes": lambda: prepare(_proto(ir=99).SerializeToString()),
        "IR version 3": lambda: prepare(_proto(ir=3).SerializeToString()).run([X]),
    },
)


# --- values ---


def _run(source, inputs: object) -> list:
    return prepare(source).run(inputs)


class _Array:
    def __array__(self, dtype=None, copy=None):
        return X


FLOAT, INT64, STRING, BOOL = (
    identity(tensor(element))
    for element in (TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING, TensorProto.BOOL)
)

CAST_MAP = one_node("CastMap", {"X": MAP}, tensor(TensorProto.FLOAT), "ai.onnx.ml", map_form="DENSE")

patterns(
    "values",
    {
        "an array": lambda: _run(two_nodes(), X),
        "a list of one": lambda: _run(two_nodes(), [X]),
        "three in a list": lambda: _run(three_inputs(), [V, V, V]),
        "one array for three inputs": lambda: _run(three_inputs(), V),
        "a tuple": lambda: _run(two_nodes(), (X,)),
        "a mapping": lambda: _run(two_nodes(), {"X": X}),
        "a mapping of another name": lambda: _run(two_nodes(), {"Z": X}),
        "an iterator": lambda: _run(two_nodes(), iter([X])),
        "too few": lambda: _run(three_inputs(), [V, V]),
        "none": lambda: _run(two_nodes(), []),
        "None": lambda: _run(two_nodes(), None),
        "None in a list": lambda: _run(two_nodes(), [None]),
        "surplus": lambda: _run(two_nodes(), [X, X]),
        "surplus for a model without inputs": lambda: _constant().run([X]),
        "surplus for an initializer": lambda: _overridable().run([X, X]),
        "surplus for an initializer of a ModelProto": lambda: _overridable(False).run([X, X]),
        "float64 for float": lambda: _run(two_nodes(), [X.astype(np.float64)]),
        "int64 for float": lambda: _run(two_nodes(), [X.astype(np.int64)]),
        "float16 for float": lambda: _run(two_nodes(), [X.astype(np.float16)]),
        "float for text": lambda: _run(STRING, [X]),
        "another shape": lambda: _run(two_nodes(), [X[:1]]),
        "a lower rank": lambda: _run(two_nodes(), [X[0]]),
        "a higher rank": lambda: _run(two_nodes(), [X[None]]),
        "nested lists": lambda: _run(two_nodes(), [X.tolist()]),
        "list of ints": lambda: _run(INT64, [[1, 2]]),
        "list of bools": lambda: _run(BOOL, [[True, False]]),
        "list of texts": lambda: _run(STRING, [["a", "b"]]),
        "texts and numbers": lambda: _run(STRING, [["a", 1]]),
        "numbers for text": lambda: _run(STRING, [[1]]),
        "objects for text": lambda: _run(STRING, [np.array(["a", 1, None, 1.5], object)]),
        "bytes for text": lambda: _run(STRING, [np.array([b"a"], object)]),
        "array of fixed texts": lambda: _run(STRING, [np.array(["a", "bcd"])]),
        "a ragged list": lambda: _run(FLOAT, [[[1], [2, 3]]]),
        "a Python float": lambda: _run(FLOAT, [1.5]),
        "a Python int": lambda: _run(INT64, [3]),
        "a text for a number": lambda: _run(FLOAT, ["a"]),
        "an object": lambda: _run(FLOAT, [object()]),
        "np.void for text": lambda: _run(STRING, np.void(b"ab\0")),
        "np.void in a list for text": lambda: _run(STRING, [np.void("é".encode())]),
        "an array of np.void for text": lambda: _run(STRING, [np.array([b"a", b"bc"], "V2")]),
        "np.void that is not UTF-8 for text": lambda: _run(STRING, [np.void(b"\xff")]),
        "np.void of fields for text": lambda: _run(STRING, [np.void((1, 2), "i4,i4")]),
        "with __array__": lambda: _run(FLOAT, [_Array()]),
        "memoryview": lambda: _run(FLOAT, [memoryview(X)]),
        "foreign byte order": lambda: _run(FLOAT, [X.astype(">f4")]),
        "not contiguous": lambda: _run(FLOAT, [X.T]),
        "reversed": lambda: _run(FLOAT, [X[::-1]]),
        "Fortran order": lambda: _run(FLOAT, [np.asfortranarray(X)]),
        "read only": lambda: _run(FLOAT, [np.frombuffer(X.tobytes(), np.float32)]),
        "masked array": lambda: _run(FLOAT, [np.ma.array(X)]),
        "OrtValue": lambda: _run(two_nodes(), [onnxruntime.OrtValue.ortvalue_from_numpy(X)]),
        "OrtValue alone": lambda: _run(two_nodes(), onnxruntime.OrtValue.ortvalue_from_numpy(X)),
        "sequence": lambda: _run(identity(SEQUENCE), [[X, X[0]]]),
        "an array for a sequence": lambda: _run(identity(SEQUENCE), [X]),
        "another type in a sequence": lambda: _run(identity(SEQUENCE), [[X.astype(np.float64)]]),
        "optional": lambda: _run(identity(OPTIONAL), [X]),
        "optional without a value": lambda: _run(identity(OPTIONAL), [None]),
        "map": lambda: _run(CAST_MAP, {0: 1.5, 1: 2.0}),
        "map in a list": lambda: _run(CAST_MAP, [{0: 1.5, 1: 2.0}]),
    },
)  # fmt: skip

SCALARS = (
    (FLOAT, (np.float32(2), np.float64(2), np.int64(2), np.bool_(True), np.str_("2"), np.timedelta64(2, "s"))),
    (INT64, (np.int64(2), np.int32(2), np.uint64(2), np.float64(2))),
    (BOOL, (np.bool_(True), np.int64(1))),
    (STRING, (np.str_("a"), np.float32(2))),  # not np.bytes_, beyond whose end ORT reads
)
LISTS = (
    (FLOAT, [1, 2.5], [True], ["1.5", b"2"], [1, "2"], ["x"], [1e300], [None], [decimal.Decimal(1)], [np.array(1)]),
    (INT64, [1.0, 2.0], [1.5], [np.float32(3)], ["7", b" 8 "], ["7.0"], [2**63], [2.0**63], [np.nan], [[1], [2.0]]),
    (BOOL, [1, 0], [1.0, 0.0], [2], ["0"], [None], [np.int8(1)]),
    (STRING, [np.array(1)], [np.array("a")], [1, 2.5, None], [np.void(b"a")], [np.void(b"a"), "b"]),
)  # fmt: skip
NAMES = {FLOAT: "float", INT64: "int64", BOOL: "bool", STRING: "text"}

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


patterns("supports_device", {f"built for {build}": lambda build=build: _supports(build) for build in BUILDS})
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
        for device in ((), (None,), ("CPU",), ("TPU",))
    },
)
PATTERNS["is_compatible: a keyword"] = lambda: onnxruntime.backend.is_compatible(two_nodes(), device="CPU", other=1)


# --- keyword arguments ---

SESSION = {
    "enable_cpu_mem_arena": (False, True),
    "enable_mem_pattern": (False,),
    "enable_mem_reuse": (False,),
    "execution_mode": (onnxruntime.ExecutionMode.ORT_PARALLEL,),
    "execution_order": (onnxruntime.ExecutionOrder.PRIORITY_BASED,),
    "graph_optimization_level": (onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL, 99),
    "inter_op_num_threads": (0, 2, -1, "2", 1.5),
    "intra_op_num_threads": (0, 1, 2, -1, None),
    "log_severity_level": (-1, 1, 2, 3, 4, "x"),
    "log_verbosity_level": (0, 1),
    "logid": ("", "a-session", "a session", b"a"),
    "use_deterministic_compute": (True,),
    "use_per_session_threads": (True,),
    "optimized_model_filepath": ("no-such-folder/x",),
    "profile_file_prefix": ("no-such-folder/x",),
    "enable_profiling": (True, False),
    "add_session_config_entry": (("a", "b"),),
    "register_custom_ops_library": ("no-such-library",),
    "session_configs": ({},),
    "no_such_option": (1,),
    "providers": ([CPU],),
    "sess_options": (None,),
}
RUN = {
    "log_severity_level": (-1, 1, 2, 3, 4, "x"),
    "log_verbosity_level": (0, 1),
    "logid": ("", "a-run", "a run"),
    "only_execute_path_to_fetches": (True, False),
    "terminate": (True, False),
    "training_mode": (True,),
    "add_run_config_entry": (("a", "b"),),
    "no_such_option": (1,),
    "intra_op_num_threads": (1,),
}


def _attribute(name: str, value: object) -> object:
    rep = prepare(two_nodes(), **{name: value})
    held = getattr(rep._session.get_session_options(), name, None)
    return rep.run([X]), str(held) if name in SESSION and not callable(held) else ""


for _name, _values in SESSION.items():
    for _value in _values:
        _case = f"{_name}={_value!r}"
        PATTERNS[f"prepare: {_case}"] = lambda name=_name, value=_value: _attribute(name, value)
for _name, _values in RUN.items():
    for _value in _values:
        _case = f"{_name}={_value!r}"
        PATTERNS[f"rep.run: {_case}"] = lambda name=_name, value=_value: prepare(two_nodes()).run([X], **{name: value})
        PATTERNS[f"run: {_case}"] = lambda name=_name, value=_value: onnxruntime.backend.run(
            two_nodes(), [X], **{name: value}
        )


@pattern
def run_with_everything_by_keyword():
    return onnxruntime.backend.run(model=two_nodes(), inputs=[X], device="CPU", intra_op_num_threads=1, logid="a")


@pattern
def run_of_a_session_with_session_options():
    return onnxruntime.backend.run(session(), [X], "CPU", enable_mem_pattern=False)


# --- the environment ---


@pattern
def excluded_providers():
    available = [name for name in onnxruntime.get_available_providers() if name != CPU]
    with mock.patch.dict(os.environ, {"ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS": ",".join(["NoSuch", *available])}):
        return prepare(two_nodes())._session.get_providers()


@pattern
def providers_of_a_session():
    return prepare(two_nodes())._session.get_providers() == onnxruntime.get_available_providers()


@pattern
def unreleased_opsets_on_request():
    with mock.patch.object(OnnxRuntimeBackend, "allowReleasedOpsetsOnly", False):
        return OnnxRuntimeBackend.is_opset_supported(_proto(opset=9999))[0], prepare(_proto(opset=9999))


def _opset_gate(only: object, form: Callable[[ModelProto], object], assigned: bool) -> list:
    """Run a model with an opset that is not released and no operator of it, with an attribute of the backend."""
    proto = two_nodes()
    proto.opset_import.add(domain="ai.onnx.ml", version=9999)
    own = OnnxRuntimeBackend if assigned else type("Own", (OnnxRuntimeBackend,), {"allowReleasedOpsetsOnly": only})
    with mock.patch.object(own, "allowReleasedOpsetsOnly", only):
        return (onnxruntime.backend.run if assigned else own.run_model)(form(proto), [X])


patterns(
    "allowReleasedOpsetsOnly",
    {
        f"{only!r}, {'assigned' if assigned else 'of a subclass'}, {name}": (
            lambda only=only, form=form, assigned=assigned: _opset_gate(only, form, assigned)
        )
        for only in (True, False, 1, None, "0")
        for name, form in (("ModelProto", lambda proto: proto), ("bytes", ModelProto.SerializeToString))
        for assigned in (True, False)
    },
)


@pattern
def is_opset_supported():
    return [OnnxRuntimeBackend.is_opset_supported(_proto(opset=opset))[0] for opset in (1, 7, 21, 9999)]


# --- subclasses, hooks and what programs reach for ---


def _hooked(made: object) -> list[str]:
    seen = []

    class Hooked(OnnxRuntimeBackend):
        @classmethod
        def prepare(cls, model, device=None, **kwargs):
            seen.append("InferenceSession" if isinstance(model, onnxruntime.InferenceSession) else type(model).__name__)
            return super().prepare(model, device, **kwargs)

    Hooked.run_model(made, [X])
    return seen


def _old_signature():
    class Mine(OnnxRuntimeBackend):
        @classmethod
        def prepare(cls, model, device=None, intra_op_num_threads=1):
            return super().prepare(model, device, intra_op_num_threads=intra_op_num_threads)

    return Mine.run_model(two_nodes(), [X])


def _own_answer(method: str, answer: object, *arguments):
    own = type("Own", (OnnxRuntimeBackend,), {method: classmethod(lambda cls, *_, **__: answer)})
    return own.prepare(two_nodes(), *arguments).run([X])


def _own_prepare():
    class Opening(OnnxRuntimeBackend):
        @classmethod
        def prepare(cls, model, device=None, **kwargs):
            options = onnxruntime.SessionOptions()
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            opened = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=[CPU])
            return super().prepare(opened, device, **kwargs)

    return Opening.run_model(two_nodes(), [X], "CPU")


class _OwnRep(OnnxRuntimeBackendRep):
    """Opens its session when it is first needed."""

    def __init__(self) -> None:
        self._session = session()

    def run(self, inputs, **kwargs):
        return ["own", *super().run(inputs, **kwargs)]


class _CountingRep(OnnxRuntimeBackendRep):
    runs = 0

    def run(self, inputs, **kwargs):
        self.runs += 1
        return super().run(inputs, **kwargs)


def _counting_rep():
    rep = _CountingRep(session())
    return rep.run([X]), rep.run(X), rep.runs


def _patched(target: object) -> object:
    rep = prepare(session()) if target is onnxruntime.InferenceSession else prepare(target)
    with mock.patch.object(target, "run", return_value=["patched"]) as patched:
        return rep.run([X]), patched.call_count


def _mapping_outputs():
    opened = session()
    with mock.patch.object(opened, "run", return_value={"Y": 1, "Z": 2}):
        return prepare(opened).run([X])


def _replaced_session():
    rep = prepare(two_nodes())
    rep._session = onnxruntime.InferenceSession(three_inputs().SerializeToString(), providers=[CPU])
    return rep.run([V, V, V])


def _fallback_disabled():
    return prepare(two_nodes())._session._enable_fallback, prepare(session())._session._enable_fallback


def _node_tests() -> dict[str, str]:
    runner = onnx.backend.test.BackendTest(onnxruntime.backend, __name__).include(
        "^test_(abs|add|conv|concat_1d)_.*cpu$"
    )
    results = {}
    for case in runner.test_cases.values():
        for name in dir(case):
            if name.startswith(("test_abs", "test_add", "test_concat_1d")) and name.endswith("_cpu"):
                try:
                    getattr(case(name), name)()
                    results[name] = "passed"
                except unittest.SkipTest:
                    results[name] = "skipped"
    return results


def _threads() -> list:
    rep, results = prepare(two_nodes()), []
    started = [threading.Thread(target=lambda: results.append(rep.run([X])[0].sum())) for _ in range(4)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return [float(result) for result in results]


def _released() -> bool:
    rep = prepare(two_nodes())
    rep.run([X])
    gone = weakref.ref(rep._session)
    del rep
    gc.collect()
    return gone() is None


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
        "hook on prepare sees a ModelProto, bytes and a session": lambda: _hooked(two_nodes()),
        "hook on prepare sees bytes and a session": lambda: _hooked(two_nodes().SerializeToString()),
        "hook on prepare sees a session": lambda: _hooked(session()),
        "prepare of the old signature": _old_signature,
        "prepare that opens a session itself": _own_prepare,
        "own is_opset_supported": lambda: _own_answer("is_opset_supported", (False, "not for me")),
        "own supports_device, yes": lambda: _own_answer("supports_device", True, "TPU"),
        "own supports_device, no": lambda: _own_answer("supports_device", False, "CPU"),
        "rep that sets its session itself": lambda: _OwnRep().run([X]),
        "rep of a subclass": _counting_rep,
        "run patched on the class": lambda: _patched(onnxruntime.InferenceSession),
        "run patched on the session": lambda: _patched(session()),
        "run that returns a mapping": _mapping_outputs,
        "session replaced": _replaced_session,
        "fallback": _fallback_disabled,
        "onnx's node tests": _node_tests,
        "four threads": _threads,
        "nothing is kept": _released,
        "run_node": lambda: OnnxRuntimeBackend.run_node(two_nodes().graph.node[0], [X]),
        "classes": lambda: (
            issubclass(OnnxRuntimeBackend, onnx.backend.base.Backend),
            issubclass(OnnxRuntimeBackendRep, onnx.backend.base.BackendRep),
        ),
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
        "copy": lambda: copy.copy(prepare(two_nodes())).run([X]),
        "names of onnxruntime.backend": lambda: sorted(
            {"is_compatible", "prepare", "run", "supports_device"} - set(dir(onnxruntime.backend))
        ),
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
