# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The messages of the backend, each with the call that causes it. Other tests check classes and attributes.

"..." in a message matches any text: names of this machine or release, and ORT's own words.
"""

from __future__ import annotations

import copy
import json
import os
import re
import traceback
import unittest
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from unittest import mock

import numpy as np
import onnx
from backend_test_allowlist import NEWEST, having
from backend_test_models import IR_VERSION, OPSET, model, slow, two_nodes
from onnx import TensorProto, helper

import onnxruntime
import onnxruntime.backend
from onnxruntime import InferenceSession
from onnxruntime.backend import errors
from onnxruntime.backend.allowlist import look_up
from onnxruntime.backend.allowlist.providers import PROVIDERS
from onnxruntime.backend.allowlist.rules import Need
from onnxruntime.backend.capture import eligibility
from onnxruntime.backend.capture.graph_keys import GraphIds
from onnxruntime.backend.errors import InputError, RunCancelledError
from onnxruntime.backend.request import of_call
from onnxruntime.backend.session import presence, replacement, state, verification
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"
CANN = "CANNExecutionProvider"
OPENVINO = "OpenVINOExecutionProvider"
SPINNING = "session.intra_op.allow_spinning"
VARIABLE = "ORT_ONNX_BACKEND_CONFIG"
MODEL = two_nodes().SerializeToString()
OPEN = two_nodes(("N", 3)).SerializeToString()
X = np.ones((2, 3), np.float32)
DEVICES = dict.fromkeys(["CPU", "CUDA", "GPU", *onnxruntime.get_device().split("-")])
SUPPORTED = ", ".join(filter(onnxruntime.backend.supports_device, DEVICES))


def prepare(model: object = MODEL, device: str | None = None, **keywords: object):
    return onnxruntime.backend.prepare(model, device, **keywords)


def session_config(key: object, value: object = 1) -> Callable:
    return lambda: prepare(session_config={key: value})


def run_config(key: object, value: object = 1) -> Callable:
    return lambda: prepare(run_config={key: value})


def options(provider: str, given: object) -> Callable:
    return lambda: prepare(provider_options={provider: given})


def attribute(name: str, value: object) -> Callable:
    return lambda: prepare(**{name: value})


def permit(
    provider: str, given: dict, kind: str = "built-in", release: tuple = NEWEST.release, device: str | None = None
):
    """Look up options of an EP that this machine need not have."""
    at = NEWEST._replace(release=release)
    return lambda: look_up.permit(
        of_call({"provider_options": {provider: given}}, {}, device), having([provider], kind, at)
    )


def look_up_key(key: str, value: object) -> Callable:
    """Look up a session config key in the newest release, whichever release is installed."""
    return lambda: look_up.permit(of_call({"session_config": {key: value}}), NEWEST)


def run(inputs: object, **keywords: object) -> Callable:
    return lambda: prepare().run(inputs, **keywords)


def existing(**keywords: object) -> Callable:
    return lambda: prepare(onnxruntime.InferenceSession(MODEL, providers=[CPU]), **keywords)


def with_text(inputs: object) -> Callable:
    """Run a model with an input of text."""
    nodes = [helper.make_node("Identity", ["X"], ["Y"])]
    made = model(nodes, {"X": (1,)}, {"Y": (1,)}, elem_type=TensorProto.STRING)
    return lambda: prepare(made.SerializeToString()).run([inputs])


def newer(opset: int = OPSET, ir_version: int = IR_VERSION) -> onnx.ModelProto:
    made = two_nodes()
    made.opset_import[0].version, made.ir_version = opset, ir_version
    return made


def without_the_ep() -> None:
    """Have ORT create a session without the specified EP."""
    with mock.patch.object(onnxruntime.InferenceSession, "get_providers", return_value=["AzureExecutionProvider"]):
        prepare(provider_options={CPU: {}})


def with_a_variable_of_ort() -> None:
    """Have ORT 1.32 or later reject the value of an environment variable."""
    error = InvalidArgument("Invalid session.moe.offload.min_expert_weight value 'abc'")
    with (
        setting(ORT_QMOE_MIN_EXPERT_WEIGHT="abc"),
        mock.patch.object(onnxruntime.InferenceSession, "__init__", side_effect=error),
    ):
        prepare()


def excluding(name: str, specified: dict | None = None) -> Callable:
    def with_the_variable():
        with setting(ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS=name):
            return prepare(provider_options=specified or {CPU: {}})

    return with_the_variable


def excluding_the_cpu() -> None:
    with setting(ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS=CPU):
        prepare()


def on_one_core() -> None:
    """Leave out an EP that the caller does not specify."""
    need = Need("two CPU cores", lambda *_: False, without="runs can block")
    with mock.patch.dict(look_up.PROVIDER_NEEDS, {"AzureExecutionProvider": need}):
        look_up.permit(of_call({}), NEWEST._replace(providers=("AzureExecutionProvider", CPU)))


def setting(**variables: str) -> AbstractContextManager:
    return mock.patch.dict(os.environ, variables)


def in_environment(text: str, call: Callable = prepare) -> Callable:
    def with_the_variable():
        with setting(**{VARIABLE: text}):
            return call()

    return with_the_variable


def narrowed(permit: dict, call: Callable) -> Callable:
    return in_environment(json.dumps({"permit": permit}), call)


def while_the_model_configures(call: Callable) -> Callable:
    def with_the_variable():
        with setting(ORT_LOAD_CONFIG_FROM_MODEL="1"):
            return call()

    return with_the_variable


def cancelled() -> onnxruntime.backend.Cancellation:
    cancellation = onnxruntime.backend.Cancellation()
    cancellation.cancel()
    return cancellation


def captured(*calls: Callable[[GraphIds], object], once: bool = False) -> Callable:
    """Call methods of a new object that assigns graph ids to captures."""

    def in_order() -> None:
        ids = GraphIds(once, False)
        for call in calls:
            call(ids)

    return in_order


def capturing(session: InferenceSession, *providers: str) -> Callable:
    """Return the check of a session that captures graphs, which needs no device."""

    def checked() -> None:
        raise RuntimeError(eligibility.problem(session, [*providers]))

    return checked


def after_a_failed_run(model: str | bytes = MODEL, *, own: bool = True) -> Callable:
    """Run a session that has the EP of OpenVINO by name only, after a run that failed.

    :param own: whether the caller created the session. Otherwise, the file of the model changes.
    """

    def failing(*_: object) -> None:
        raise ValueError("fails inside the EP")

    def run_again() -> None:
        session = InferenceSession(MODEL, providers=[CPU])
        with mock.patch.object(session, "get_providers", return_value=[OPENVINO, CPU]):
            if not own:
                origin = replacement.Origin(model, lambda: (session, None))
                state.of(session).replace_from(origin, session)
            order = state.of(session).order_of(session)
            with mock.patch.object(replacement, "_files_of", return_value={"another": None}):
                caught(lambda: order.run(None, failing, {}, None))
                order.run(None, failing, {}, None)

    return run_again


def read_back_otherwise() -> None:
    """Verify a session with another value of a session config entry."""
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry(SPINNING, "1")
    permitted = look_up.permit(of_call({"session_config": {SPINNING: 0}}), NEWEST)
    verification.read_back(InferenceSession(MODEL, options, providers=[CPU]), permitted)


def closed() -> object:
    rep = prepare()
    rep.close()
    return rep


# The allowlist does not permit the setting.
REFUSALS = (
    (
        session_config("session.intra_op.allow_spining"),
        (
            "session_config['session.intra_op.allow_spining'] is not permitted via the backend API: unknown key. "
            "Did you mean 'session.intra_op.allow_spinning'?"
        ),
    ),
    (
        session_config("spinning"),
        (
            "session_config['spinning'] is not permitted via the backend API: unknown key. "
            "Did you mean 'session.intra_op.allow_spinning' or "
            "'session.inter_op.allow_spinning'?"
        ),
    ),
    (
        session_config("num_threads"),
        (
            "session_config['num_threads'] is not permitted via the backend API: unknown key. "
            "Did you mean session_options['inter_op_num_threads'] or session_options['intra_op_num_threads']?"
        ),
    ),
    (
        options("CUDAExecutionProvider", {"do_copy_in_default_stream": 0}),
        (
            "provider_options['CUDAExecutionProvider']['do_copy_in_default_stream'] is not permitted via the backend "
            "API: with the value 0, copies on another stream race..."
        ),
    ),
    (
        lambda: prepare(session_options={"": 1}),
        "session_options[''] is not permitted via the backend API: unknown attribute...",
    ),
    (
        options("", {}),
        (
            "provider_options[''] is not permitted via the backend API: unknown execution provider. Known: ... "
            'If it is a plugin EP, register its library first, with "plugins" in the environment or '
            "onnxruntime.register_execution_provider_library"
        ),
    ),
    (
        session_config("foo"),
        (
            "session_config['foo'] is not permitted via the backend API: unknown key. "
            "To list the permitted names, run `python -m onnxruntime.backend options session`"
        ),
    ),
    (
        session_config("session.collect_node_memory_stats_to_file"),
        (
            "session_config['session.collect_node_memory_stats_to_file'] is not permitted via the backend API: "
            "writes files (overwrites a file of any name after each run)"
        ),
    ),
    (
        session_config("gpu_graph_id"),
        ("session_config['gpu_graph_id'] is not permitted via the backend API: unknown key. It belongs in run_config"),
    ),
    (
        session_config("intra_op_num_threads"),
        (
            "session_config['intra_op_num_threads'] is not permitted via the backend API: unknown key. "
            "It belongs in session_options"
        ),
    ),
    (
        lambda: prepare(run_config={"log_severity_level": 2}),
        (
            "run_config['log_severity_level'] is not permitted via the backend API: unknown key. It belongs "
            "in session_options or the keyword arguments of run"
        ),
    ),
    (
        session_config("use_tf32"),
        (
            "session_config['use_tf32'] is not permitted via the backend API: set by another argument "
            "(an option of the CUDA execution provider. Pass it in provider_options)"
        ),
    ),
    (
        session_config("session.disable_cpu_ep_fallback"),
        (
            "session_config['session.disable_cpu_ep_fallback'] is not permitted via the backend API: it requires "
            "...CPUExecutionProvider. Otherwise, ORT ignores or rejects it"
        ),
    ),
    (
        run_config("only_execute_path_to_fetches"),
        (
            "run_config['only_execute_path_to_fetches'] is not permitted via the backend API: "
            "unknown key. It belongs in the keyword arguments of run"
        ),
    ),
    (
        attribute("optimized_model_filepath", "x"),
        (
            "optimized_model_filepath is not permitted via the backend API: writes files (saves the optimized model to "
            "a file of any name). Permitted attributes: enable_cpu_mem_arena, ..."
        ),
    ),
    (
        attribute("enable_profiling", True),
        (
            "enable_profiling is not permitted via the backend API: with the value True, ORT writes a trace of every "
            "run to a file"
        ),
    ),
    (
        lambda: prepare(session_options={"intra_op_num_thread": 1}),
        (
            "session_options['intra_op_num_thread'] is not permitted via the backend API: unknown attribute. "
            "Did you mean 'intra_op_num_threads'?"
        ),
    ),
    (
        attribute("extensions", ["x"]),
        (
            "extensions is not permitted via the backend API: only the environment variable "
            "ORT_ONNX_BACKEND_CONFIG can "
            'specify libraries, as {"extensions": [...]}'
        ),
    ),
    (
        attribute("plugins", ["x"]),
        (
            "plugins is not permitted via the backend API: only the environment variable ORT_ONNX_BACKEND_CONFIG can "
            'specify libraries, as {"plugins": [...]}'
        ),
    ),
    (
        attribute("permit", {}),
        (
            "permit is not permitted via the backend API: only the environment variable ORT_ONNX_BACKEND_CONFIG can "
            'specify the settings of callers, as {"permit": {...}}'
        ),
    ),
    (
        narrowed({"session_options": {"intra_op_num_threads": [1, 2]}}, attribute("intra_op_num_threads", 8)),
        (
            'intra_op_num_threads is not permitted via the backend API: "permit" in the environment variable '
            "ORT_ONNX_BACKEND_CONFIG does not contain this setting. "
            "Permitted in session_options['intra_op_num_threads']: 1, 2"
        ),
    ),
    (
        narrowed({"provider_options": {CUDA: {}}}, options(CPU, {})),
        (
            "provider_options['CPUExecutionProvider'] is not permitted via the backend API: \"permit\" in the "
            "environment variable ORT_ONNX_BACKEND_CONFIG does not contain this setting. "
            "Permitted in provider_options: 'CUDAExecutionProvider'"
        ),
    ),
    (
        narrowed({}, session_config(SPINNING)),
        "session_config['session.intra_op.allow_spinning'] ... Permitted in session_config: nothing",
    ),
    (
        options("cuda", {}),
        (
            "provider_options['cuda'] is not permitted via the backend API: unknown execution provider. "
            "Did you mean 'CUDAExecutionProvider'?"
        ),
    ),
    (
        options("FooExecutionProvider", {}),
        (
            "provider_options['FooExecutionProvider'] is not permitted via the backend API: unknown "
            "execution provider. "
            "Known: CPUExecutionProvider, ..."
        ),
    ),
    (
        options(CPU, {"use_arena": 1}),
        (
            "provider_options['CPUExecutionProvider']['use_arena'] is not permitted via the backend API: "
            "no options of this execution provider are permitted. Use provider_options={'CPUExecutionProvider': {}}"
        ),
    ),
    (
        permit("XExecutionProvider", {"x": 1}, "plugin"),
        (
            "provider_options['XExecutionProvider']['x'] is not permitted via the backend API: no options of this "
            "execution provider have been reviewed. Use provider_options={'XExecutionProvider': {}}"
        ),
    ),
    (
        permit(CUDA, {"device": 1}),
        (
            "provider_options['CUDAExecutionProvider']['device'] is not permitted via the backend API: unknown option. "
            "Did you mean 'device_id'?"
        ),
    ),
    (
        permit(CUDA, {"user_compute_stream": 1}),
        (
            "provider_options['CUDAExecutionProvider']['user_compute_stream'] is not permitted via the backend API: "
            "raw pointer (ORT passes the number to the CUDA driver as the address of a stream)"
        ),
    ),
    (
        permit(CUDA, {"fuse_conv_bias": 1}, release=(1, 23)),
        (
            "provider_options['CUDAExecutionProvider']['fuse_conv_bias'] is not permitted via the backend API: "
            "it requires ORT 1.24. ORT 1.23 stores it and ignores it"
        ),
    ),
    (
        permit(CUDA, {"enable_skip_layer_norm_strict_mode": 1}),
        (
            "provider_options['CUDAExecutionProvider']['enable_skip_layer_norm_strict_mode'] is not permitted via the "
            "backend API: ORT ... ignores it, as all releases from 1.28 do"
        ),
    ),
)

# The value, type or number of entries is wrong.
WRONG_VALUES = (
    (
        session_config(SPINNING, "yes"),
        f"session_config['{SPINNING}']: invalid value 'yes' (not a flag). Expected True/False, 0/1 or '0'/'1'",
    ),
    (
        look_up_key("optimization.constant_folding_max_output_size_in_bytes", "many"),
        (
            "session_config['optimization.constant_folding_max_output_size_in_bytes']: invalid value "
            "'many' (not an integer). "
            "Expected an integer from 1 to 1073741824"
        ),
    ),
    (
        attribute("intra_op_num_threads", 10**6),
        "intra_op_num_threads: invalid value 1000000... Expected an integer ...",
    ),
    (
        attribute("intra_op_num_threads", 1 << 200),
        "intra_op_num_threads: invalid value of 201 bits (out of range...). Expected an integer ...",
    ),
    (
        attribute("graph_optimization_level", "ALL"),
        (
            "graph_optimization_level: invalid value 'ALL' (not a member of this enum). Expected "
            "...GraphOptimizationLevel...ORT_DISABLE_ALL, ..."
        ),
    ),
    (attribute("logid", "a\nb"), "logid: invalid value 'a\\nb' (not of the accepted form). Expected ..."),
    (
        lambda: prepare(OPEN, free_dimension_overrides={"N": 0}),
        "free_dimension_overrides['N']: invalid value 0 (out of range). Expected an integer from 1 to 16777216",
    ),
    (
        lambda: prepare(session_config={f"session.intra_op.{'a' * size}": 1 for size in range(1, 20)}),
        "session_config['session.intra_op.aaaaaaaaaaaaaaaaa']: more than 16 keys of session.intra_op.*",
    ),
    (
        lambda: prepare(session_config=dict.fromkeys(map(str, range(300)), 1)),
        "session_config: more than 256 entries",
    ),
    (session_config(1), "session_config[1]: a key must be a str, not int"),
    (
        session_config(SPINNING, None),
        (
            f"session_config['{SPINNING}']: invalid value None (values of this type are not accepted). "
            "Expected True/False, 0/1 or '0'/'1'"
        ),
    ),
    (
        look_up_key("session.gqa_value_layout", "x"),
        (
            "session_config['session.gqa_value_layout']: invalid value 'x' (not one of the accepted names). "
            "Expected one of 'BNSH', 'BNHS'"
        ),
    ),
    (
        look_up_key("optimization.disable_specified_optimizers", "Nope"),
        (
            "session_config['optimization.disable_specified_optimizers']: invalid value 'Nope' "
            "(it contains a name that is not permitted). Expected names from these lists, joined by ';'. ORT 1.24 ..."
        ),
    ),
    (
        run([X], timeout="1"),
        "timeout: invalid value '1'. Expected a number of seconds greater than 0 and at most 1000000",
    ),
)

WRONG_TYPES = (
    (
        lambda: prepare(provider_options=[CPU]),
        (
            "provider_options must be a mapping such as a dict, not list. Use "
            "provider_options={'CPUExecutionProvider': {}}"
        ),
    ),
    (options(CPU, None), "provider_options['CPUExecutionProvider'] must be a mapping such as a dict, not NoneType"),
    (lambda: prepare(session_config="x"), "session_config must be a mapping such as a dict, not str"),
    (run([X], cancellation=1), "cancellation must be an onnxruntime.backend.Cancellation, not int"),
)

# The setting is valid and cannot be applied in this call.
NOT_APPLICABLE = (
    (
        options(CANN, {}),
        (
            "provider_options['CANNExecutionProvider']: the execution provider is not available in this process. "
            "Available: ..."
        ),
    ),
    (
        excluding(CUDA, {CUDA: {}}),
        (
            "provider_options['CUDAExecutionProvider']: the environment variable ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS "
            "excludes it"
        ),
    ),
    (
        lambda: prepare(two_nodes(("N", 2**14)), free_dimension_overrides={"N": 2**12}),
        (
            "free_dimension_overrides: input 'X' would have 67108864 elements. The maximum is ..., because ORT "
            "computes size-dependent values when it loads the model"
        ),
    ),
    (
        lambda: look_up.reject_device("CUDA", ["CPU"], presence.advice(CUDA)),
        (
            "device: 'CUDA' is not supported. This ORT build supports: CPU. ...CUDAExecutionProvider requires an "
            "NVIDIA GPU with its driver, and the base onnxruntime-gpu. To install this base, run in a checkout of this "
            "package: pip uninstall -y "
            "onnxruntime... && ORT_BACKEND_BASE=onnxruntime-gpu pip install ."
        ),
    ),
    (lambda: prepare(device="NPU"), f"device: 'NPU' is not supported. This ORT build supports: {SUPPORTED}"),
    (
        lambda: look_up.reject_device("cuda", ["CUDA", "GPU"]),
        "device: 'cuda' is not supported. Did you mean 'CUDA'? This ORT build supports: CUDA, GPU",
    ),
    (
        lambda: look_up.reject_device("cuda", ["CPU"], "Advice"),
        "device: 'cuda' is not supported. Did you mean 'CUDA'? This ORT build supports: CPU. Advice",
    ),
    (
        lambda: look_up.reject_device("tpu", ["CPU"]),
        "device: 'tpu' is not supported. This ORT build supports: CPU",
    ),
    (
        permit(OPENVINO, {}, device="CUDA"),
        "device: 'CUDA' contradicts provider_options, which contains no EP for this device",
    ),
    (
        permit(CUDA, {"device_id": 0}, device="CUDA:1"),
        "device: 'CUDA:1' contradicts provider_options['CUDAExecutionProvider']['device_id'], which is 0",
    ),
    (
        lambda: prepare(two_nodes(("N", "K")), free_dimension_overrides={"M": 2}),
        "free_dimension_overrides['M']: the model's inputs have no dimension of this name. Named dimensions: 'K', 'N'",
    ),
    (
        existing(session_config={SPINNING: 0}),
        ("session_config: cannot be applied to an existing session. Pass the model, or create the session with it"),
    ),
    (run([X], session_config={SPINNING: 0}), "session_config: cannot be set for a run. Pass it to prepare"),
    (
        while_the_model_configures(session_config(SPINNING, 0)),
        "session_config: cannot be applied while ORT_LOAD_CONFIG_FROM_MODEL=1. ORT uses the model's options",
    ),
)

# ORT and the stock backend ignore these. The backend warns.
IGNORED = (
    (attribute("foo", 1), "Keyword argument 'foo' is unknown and is ignored"),
    (
        attribute("intra_op_num_thread", 2),
        "Keyword argument 'intra_op_num_thread' is unknown and is ignored. Did you mean intra_op_num_threads=2?",
    ),
    (
        attribute("threads", 2),
        (
            "Keyword argument 'threads' is unknown and is ignored. "
            "Did you mean inter_op_num_threads=2, intra_op_num_threads=2 or use_per_session_threads=2?"
        ),
    ),
    (
        attribute("only_execute_path_to_fetches", True),
        "Keyword argument 'only_execute_path_to_fetches' is ignored by prepare. Pass it to run",
    ),
    (
        attribute("providers", [CPU]),
        "Keyword argument 'providers' is ignored. Use provider_options={'CPUExecutionProvider': {}}",
    ),
    (
        attribute("providers", [(CUDA, {"use_tf32": 0, "user_compute_stream": 1})]),
        ("Keyword argument 'providers' is ignored. Use provider_options={'CUDAExecutionProvider': {'use_tf32': 0}}"),
    ),
    (
        attribute("sess_options", onnxruntime.SessionOptions()),
        (
            "Keyword argument 'sess_options' is ignored. Pass attributes as keyword arguments, such as "
            "intra_op_num_threads=2, and config entries in session_config={...}. Or create an "
            "InferenceSession with these "
            "options and pass it as the model"
        ),
    ),
    (
        attribute("run_options", None),
        (
            "Keyword argument 'run_options' is ignored. Pass attributes as keyword arguments, and config entries in "
            "run_config={...}"
        ),
    ),
    (attribute("device_id", 1), "Keyword argument 'device_id' is ignored. Use device='CUDA:1'"),
    (
        attribute("use_tf32", 0),
        "Keyword argument 'use_tf32' is ignored. Use provider_options={'CUDAExecutionProvider': {'use_tf32': 0}}",
    ),
    (
        on_one_core,
        "AzureExecutionProvider is left out, because it requires two CPU cores. Otherwise, runs can block",
    ),
    (
        excluding("NoEP"),
        (
            "Environment variable ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS excludes an unknown execution provider, 'NoEP'. "
            f"Known: {', '.join(PROVIDERS)}"
        ),
    ),
    (
        excluding_the_cpu,
        (
            "Environment variable ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS cannot exclude CPUExecutionProvider, which every "
            "session has"
        ),
    ),
    (
        run([X, X]),
        (
            "Got 2 inputs. Model inputs: X: float32[2, 3]. The surplus inputs are ignored. To pass a list as the only "
            "input, put it in a list: [value]"
        ),
    ),
    (
        existing(intra_op_num_threads=2),
        (
            "Keyword argument 'intra_op_num_threads' is ignored, because the session already exists. "
            "Pass it to prepare "
            "together with the model"
        ),
    ),
    (
        existing(device="CUDA"),
        "device 'CUDA' has no effect on an existing session, which runs on CPUExecutionProvider",
    ),
    (
        lambda: prepare(disabled_optimizers=["ConstantFolding"]),
        (
            "Keyword argument 'disabled_optimizers' is ignored. Use session_config="
            "{'optimization.disable_specified_optimizers': 'NAME;NAME'}"
        ),
    ),
    (
        run([X], output_names=["Y"]),
        (
            "Keyword argument 'output_names' is ignored. run() returns all outputs. To compute some, call "
            "rep.session.run(names, feeds, rep.run_options())"
        ),
    ),
    (
        attribute("inter_op_num_threads", 2),
        "inter_op_num_threads has no effect in this session: it requires ...",
    ),
    (
        in_environment('{"session_options": {"inter_op_num_threads": 2}}'),
        (
            "session_options['inter_op_num_threads'] has no effect in this session: it requires ... "
            "(from the environment variable ORT_ONNX_BACKEND_CONFIG)"
        ),
    ),
)

# Errors that are not about a setting of the caller.
OTHER_ERRORS = (
    (run([]), InputError, "Input 'X' expects float32[2, 3], got nothing"),
    (run({"Z": X}), InputError, "Unknown input 'Z'. Model inputs: X: float32[2, 3]"),
    (run([X.astype(np.float64)]), InputError, "Input 'X' expects float32[2, 3], got float64[2, 3]"),
    (run([X[:1]]), InputError, "Input 'X' expects float32[2, 3], got float32[1, 3]"),
    (
        run([[1, 2, 3]]),
        InputError,
        (
            "Input 'X' expects float32[2, 3], got float32[3]. The value lacks one dimension, such as the batch. To "
            "pass a list as the only input, put it in a list: [value]"
        ),
    ),
    (run([[[None] * 3] * 2]), InputError, "Input 'X' expects float32[2, 3], got a list that contains None"),
    (
        run([[[1e300] * 3] * 2]),
        InputError,
        "Input 'X' expects float32[2, 3], got a list that contains 1e+300, which is out of range",
    ),
    (
        run([[[1, 2], [3]]]),
        InputError,
        "Input 'X' expects float32[2, 3], got a list of lists of different lengths",
    ),
    (with_text([b"\xff"]), InputError, "Input 'X' expects string[1], got bytes that are not UTF-8 text"),
    (
        lambda: prepare(newer(ir_version=99).SerializeToString()),
        RuntimeError,
        (
            "The model has IR version 99, but ONNX Runtime ... supports IR versions up to .... If the model does not "
            "use features of newer versions, set model.ir_version = ..."
        ),
    ),
    (
        lambda: prepare(newer(opset=99).SerializeToString()),
        RuntimeError,
        (
            "The model imports ai.onnx opset 99, but ONNX Runtime ... supports opsets up to ... of this domain. "
            "To run it anyway, set the environment variable ALLOW_RELEASED_ONNX_OPSET_ONLY=0"
        ),
    ),
    (
        lambda: prepare(newer(opset=99)),
        unittest.SkipTest,
        (
            "The model imports ai.onnx opset 99, which is not released according to the installed onnx. To run it "
            "anyway, set the environment variable ALLOW_RELEASED_ONNX_OPSET_ONLY=0"
        ),
    ),
    (
        with_a_variable_of_ort,
        RuntimeError,
        (
            "The cause may be the environment variable ORT_QMOE_MIN_EXPERT_WEIGHT='abc'. Correct or unset it. ORT "
            "error: Invalid session.moe.offload.min_expert_weight value 'abc'"
        ),
    ),
    (
        without_the_ep,
        RuntimeError,
        (
            "ORT created the session with AzureExecutionProvider, but provider_options specifies "
            "CPUExecutionProvider, in this order. The ORT log may contain details."
        ),
    ),
    (
        lambda: prepare(b"x", free_dimension_overrides={"N": 2}),
        RuntimeError,
        "free_dimension_overrides requires a model that onnx can read. onnx error: ...",
    ),
    (in_environment('{"session_config": {"a": NaN}}'), RuntimeError, f"... {VARIABLE} ...'NaN' is not a finite number"),
    (in_environment("[" * 100_000), RuntimeError, f"... {VARIABLE} ... nested too deeply"),
    (in_environment('{"run_config": []}'), RuntimeError, f"... {VARIABLE} ...run_config must be an object, ..."),
    (
        in_environment('{"extensions": ["no_such_package"]}'),
        RuntimeError,
        "Extension 'no_such_package' cannot be registered: ... (from the environment variable ORT_ONNX_BACKEND_CONFIG)",
    ),
    (
        in_environment('{"extensions": ["./x.so"]}'),
        RuntimeError,
        (
            "Extension './x.so' cannot be registered: expected the name of a Python package or an absolute path "
            "(from the environment variable ORT_ONNX_BACKEND_CONFIG)"
        ),
    ),
    (
        in_environment('{"plugins": ["my-ep"]}'),
        RuntimeError,
        (
            "Plugin 'my-ep' cannot be registered: expected the name of a Python package, such as my_ep, or EP=LIBRARY "
            "(from the environment variable ORT_ONNX_BACKEND_CONFIG)"
        ),
    ),
    (
        in_environment('{"plugins": ["json"]}'),
        RuntimeError,
        (
            "Plugin 'json' cannot be registered: the package has no get_ep_name() and get_library_path(). Expected "
            "EP=LIBRARY (from the environment variable ORT_ONNX_BACKEND_CONFIG)"
        ),
    ),
    (lambda: closed().run([X]), RuntimeError, "... prepared model is closed"),
    (
        lambda: prepare(slow(), intra_op_num_threads=1).run([np.eye(400, dtype=np.float32)], timeout=0.01),
        TimeoutError,
        "The run exceeded its timeout of 0.01 s and was ended",
    ),
    (
        read_back_otherwise,
        RuntimeError,
        "session_config['session.intra_op.allow_spinning'] was sent as '0', but ORT holds '1'",
    ),
    (
        after_a_failed_run(),
        RuntimeError,
        (
            "A run failed inside OpenVINOExecutionProvider, and the session may return values of earlier runs. The "
            "backend cannot replace a session that the caller created or changed. Create a new session and prepare it"
        ),
    ),
    (
        after_a_failed_run(__file__, own=False),
        RuntimeError,
        (
            "A run failed inside OpenVINOExecutionProvider, and the session could not be replaced: the model's file "
            "or its external data has changed. Prepare the model again"
        ),
    ),
    (
        captured(lambda ids: ids.lend({"gpu_graph_id": "5"}), lambda ids: ids.claim({"gpu_graph_id": "5"})),
        RuntimeError,
        "gpu_graph_id=5 is used by run_options() of this session. Choose another id",
    ),
    (
        captured(lambda ids: ids.claim({"gpu_graph_id": "5"}), lambda ids: ids.lend({"gpu_graph_id": "5"})),
        RuntimeError,
        (
            "gpu_graph_id=5 is used by run() of this session. For runs with your own binding, choose another id, as in "
            "run_options({'gpu_graph_id': 7}), or -1 for runs without capture"
        ),
    ),
    (
        captured(lambda ids: ids.begin(("5", (2, 3))), lambda ids: ids.check(("5", (4, 3)))),
        RuntimeError,
        (
            "gpu_graph_id=5 was captured with inputs of shapes [(2, 3)], but this run has [(4, 3)]. Choose another id. "
            "Without an id, the backend selects one for each set of shapes"
        ),
    ),
    (
        captured(lambda ids: ids.check(("5", (2, 3))), once=True),
        RuntimeError,
        (
            "TensorrtExecutionProvider keeps one graph for a session, of one set of input shapes, and gpu_graph_id has "
            "no effect. Prepare the model once more for other runs"
        ),
    ),
    (
        capturing(InferenceSession(MODEL, providers=[CPU]), CUDA, "TensorrtExecutionProvider"),
        RuntimeError,
        (
            "CUDAExecutionProvider and TensorrtExecutionProvider both capture, and ORT replays the graph of one: leave "
            "it to one of them"
        ),
    ),
    (
        in_environment('{"provider_options": {"CANNExecutionProvider": {}}}'),
        RuntimeError,
        "provider_options['CANNExecutionProvider']: ... (from the environment variable ORT_ONNX_BACKEND_CONFIG)",
    ),
    (run([X], cancellation=cancelled()), RunCancelledError, "... run was canceled"),
    (
        lambda: copy.deepcopy(prepare()),
        TypeError,
        (
            "Send functools.partial(onnxruntime.backend.prepare, path, **rep.configuration()), call it in a function "
            "of the worker, and return outputs only: a prepared model cannot be pickled or deep-copied. copy.copy "
            "shares the session"
        ),
    ),
    (lambda: prepare(bytearray(MODEL)), TypeError, "model must be a path, bytes, ... not ...bytearray"),
    (
        in_environment('{"a": 1}'),
        RuntimeError,
        f"...{VARIABLE} ...: 'a' ..., plugins, permit. Attributes ... belong in session_options",
    ),
    (in_environment('{"run_config": {"x": 1, "x": 2}}'), RuntimeError, f"... {VARIABLE} ...: duplicate key 'x'..."),
    (
        in_environment('{"session_options": {"use_per_session_threads": false}}'),
        RuntimeError,
        (
            "use_per_session_threads: the process has no global thread pools. Call "
            "onnxruntime.set_global_thread_pool_sizes before the first session, or leave out "
            "use_per_session_threads=False (from the environment variable ORT_ONNX_BACKEND_CONFIG)"
        ),
    ),
    (
        in_environment("config.json"),
        RuntimeError,
        f"... {VARIABLE} ...not JSON: ... To specify a file, write @ and its path",
    ),
    (in_environment("{"), RuntimeError, f"... {VARIABLE} ...not JSON: ..."),
    (
        narrowed({"session_config": {"no.such": True}}, prepare),
        RuntimeError,
        (
            f"the environment variable {VARIABLE} cannot be used: permit: session_config['no.such'] is not permitted "
            "via the backend API: unknown key. To list ..."
        ),
    ),
    (
        narrowed({"session_options": {"logid": "a"}}, prepare),
        RuntimeError,
        f"... {VARIABLE} ...: permit: session_options['logid'] must be true or a list of values, not 'a'",
    ),
    (
        narrowed({"logid": {}}, prepare),
        RuntimeError,
        f"... {VARIABLE} ...: permit: 'logid' is not one of provider_options, ...",
    ),
    (
        in_environment('{"session_config": {"foo": 1}}'),
        RuntimeError,
        (
            "session_config['foo'] is not permitted via the backend API: unknown key. To list the permitted names, run "
            f"`python -m onnxruntime.backend options session` (from the environment variable {VARIABLE})"
        ),
    ),
)

SECTIONS = {
    "refusals": (errors.NotPermittedError, REFUSALS),
    "wrong values": (errors.NotPermittedError, WRONG_VALUES),
    "wrong types": (errors.WrongTypeError, WRONG_TYPES),
    "not applicable": (errors.NotPermittedError, NOT_APPLICABLE),
}


def caught(call: Callable) -> Exception | None:
    try:
        call()
    except Exception as error:
        return error
    return None


class MessagesTest(unittest.TestCase):
    maxDiff = None

    def check(self, message: str, expected: str) -> None:
        pattern = ".*".join(map(re.escape, expected.split("...")))
        if not re.fullmatch(pattern, message, re.DOTALL):
            self.assertEqual(message, expected)
        self.assertTrue(message.isascii())
        self.assertNotRegex(message, "; ")

    def check_traceback(self, error: Exception) -> None:
        """Check that Python prints one traceback. The log of a test suite contains that of each failure."""
        self.assertEqual("".join(traceback.format_exception(error)).count("Traceback (most recent call last)"), 1)

    def test_errors(self) -> None:
        for section, (kind, table) in SECTIONS.items():
            for call, expected in table:
                with self.subTest(section, message=expected[:60]):
                    error = caught(call)
                    self.assertIs(type(error), kind, error)
                    self.check(str(error), expected)
                    self.check_traceback(error)
                    self.assertEqual("is not permitted via the backend API" in str(error), section == "refusals")
                    self.assertTrue(str(error).endswith(error.reason))

    def test_warnings(self) -> None:
        for call, expected in IGNORED:
            with self.subTest(message=expected[:60]), warnings.catch_warnings(record=True) as given:
                warnings.simplefilter("always")
                call()
                (message,) = [str(one.message) for one in given if one.category is RuntimeWarning]
                self.check(message, expected)

    def test_other_errors(self) -> None:
        for call, kind, expected in OTHER_ERRORS:
            with self.subTest(message=expected[:60]):
                error = caught(call)
                self.assertIsInstance(error, kind)
                self.assertNotIsInstance(error, errors.NotPermittedError)
                self.check(str(error), expected)
                if not isinstance(error, (InputError, TimeoutError, RunCancelledError)) and "A run" not in expected:
                    self.check_traceback(error)

    def test_no_message_is_listed_twice(self) -> None:
        listed = [message for _, table in SECTIONS.values() for _, message in table]
        listed += [message for _, message in IGNORED] + [message for *_, message in OTHER_ERRORS]
        self.assertEqual(len(listed), len({*listed}))

    def test_a_refused_attribute_gives_no_warning(self) -> None:
        rep = prepare()
        for call in (rep.run, lambda inputs, **keywords: onnxruntime.backend.run(MODEL, inputs, **keywords)):
            with self.subTest(call), warnings.catch_warnings():
                warnings.simplefilter("error")
                with self.assertRaises(errors.NotPermittedError) as refused:
                    call([X], terminate=True)
                self.assertEqual(refused.exception.keyword, "terminate")

    def test_the_call_of_another_api(self) -> None:
        with self.assertRaisesRegex(TypeError, re.escape("Use rep.run({...}) instead of session.run(None, {...})")):
            prepare().run(None, {"X": X})


if __name__ == "__main__":
    unittest.main()
