# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The wording of errors and warnings, each with the call that causes it. Other tests assert classes and fields.

``...`` in a text matches any text: names of this machine or release, and ORT's own words.
"""

import copy
import json
import os
import re
import traceback
import unittest
import warnings
from unittest import mock

import numpy as np
import onnx
from helpers.allowlist import NEWEST, permit
from helpers.models import cancelled, caught, open_session, slow, two_nodes

import onnxruntime.backend
from onnxruntime.backend import packages
from onnxruntime.backend.errors import ORT_ERRORS, InputError, NotPermittedError, RunCancelledError, WrongTypeError
from onnxruntime.backend.session import presence

CPU = "CPUExecutionProvider"
CANN = "CANNExecutionProvider"
CUDA = "CUDAExecutionProvider"
OPENVINO = "OpenVINOExecutionProvider"
SPINNING = "session.intra_op.allow_spinning"
NO_FALLBACK = "session.disable_cpu_ep_fallback"
INTER = "inter_op_num_threads"
SEARCH = "cudnn_conv_algo_search"
STRICT = "enable_skip_layer_norm_strict_mode"
CONFIG = "ORT_ONNX_BACKEND_CONFIG"
EXCLUDE = "ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS"
MODEL = two_nodes().SerializeToString()
OPEN = two_nodes(("N", 3))
LOGIDS = [f"id{number}" for number in range(40)]
OLD = NEWEST._replace(release=(1, 23))
X = np.ones((2, 3), np.float32)


def prepare(model: object = MODEL, device: str | None = None, **keywords: object):
    return onnxruntime.backend.prepare(model, device, **keywords)


def run(inputs: object, **keywords: object) -> list:
    return prepare().run(inputs, **keywords)


def under(variable: str, value: object, **keywords: object) -> None:
    """Prepare a model while an environment variable is set: to text as it is, to anything else as JSON."""
    with mock.patch.dict(os.environ, {variable: value if type(value) is str else json.dumps(value)}):
        prepare(**keywords)


def narrowed(name: str, values: object, **keywords: object) -> None:
    under(CONFIG, {"permit": {"session_options": {name: values}}}, **keywords)


def newer(opset: int = 21, ir_version: int = 10) -> onnx.ModelProto:
    made = two_nodes()
    made.opset_import[0].version, made.ir_version = opset, ir_version
    return made


def absent(name: str) -> None:
    """Report the next step for an EP that the process does not have."""
    raise RuntimeError(packages.advice(name))


# Settings that the allowlist does not permit. "_" stands for "is not permitted via the backend API".
NOT_PERMITTED = [
    (lambda: prepare(session_config={"foo": 1}), "session_config['foo'] _: unknown key. ... options session`"),
    (
        lambda: prepare(run_config={"graph_id": 1}),
        "run_config['graph_id'] _: unknown key. Did you mean 'gpu_graph_id'?",
    ),
    (
        lambda: prepare(provider_options={"": {}}),
        "provider_options[''] _: unknown execution provider. Known: ... If it is a plugin EP, ...",
    ),
    (lambda: prepare(session_config={"use_tf32": 1}), "... _: set by another argument (an option of the CUDA ...)"),
    (
        lambda: prepare(session_config={NO_FALLBACK: 1}),
        "... _: it requires ...CPUExecutionProvider. Otherwise, ORT ...",
    ),
    (lambda: prepare(optimized_model_filepath="x"), "optimized_model_filepath _: writes files (saves ...). In a ..."),
    (lambda: prepare(enable_profiling=True), "enable_profiling _: with the value True, ORT writes a trace of ..."),
    (
        lambda: prepare(plugins=["x"]),
        'plugins _: only the environment variable ... can specify it, as {"plugins": ...}',
    ),
    (lambda: narrowed("logid", LOGIDS, logid="a"), "logid _: with ... this value. Permitted: 'id0', ..., 'id31', ..."),
    (
        lambda: under(CONFIG, {"session_options": {INTER: 2}, "permit": {}}, inter_op_num_threads=3),
        "inter_op_num_threads _: with ... this value. Permitted: 2",
    ),
    (
        lambda: narrowed(INTER, [1, 2], inter_op_num_threads=1.5),
        "... invalid value 1.5 (not an integer). Expected 1, 2",
    ),
    (
        lambda: narrowed("logid", ["a"], use_deterministic_compute=1),
        "... this setting. Permitted in session_options: 'logid'",
    ),
    (lambda: narrowed("logid", ["a"], session_config={SPINNING: 1}), "... _: ... Permitted in session_config: nothing"),
    (
        lambda: prepare(provider_options={CPU: {"x": 1}}),
        "... _: no options ... are permitted. Use provider_options={...}",
    ),
    (
        lambda: permit(OLD, provider_options={CUDA: {"fuse_conv_bias": 1}}),
        "... it requires ORT 1.24. ORT 1.23 stores it ...",
    ),
    (lambda: permit(provider_options={CUDA: {STRICT: 1}}), "... _: ORT ... ignores it, as all releases from 1.28 do"),
]
# Values that a setting cannot have, and settings that this call cannot apply.
NOT_APPLICABLE = [
    (
        lambda: prepare(session_config={SPINNING: "x"}),
        "... invalid value 'x' (not a flag). Expected True/False, 0/1 ...",
    ),
    (
        lambda: prepare(session_config={SPINNING: None}),
        "... invalid value None (values of this type are not accepted). ...",
    ),
    (
        lambda: prepare(OPEN, free_dimension_overrides={"N": 0}),
        "...['N']: invalid value 0 (out of range). Expected an integer from 1 to 16777216",
    ),
    (
        lambda: prepare(OPEN, free_dimension_overrides={"M": 2}),
        "...['M']: the model's inputs have no dimension of this name. Named dimensions: 'N'",
    ),
    (
        lambda: prepare(two_nodes(("N", 99)), free_dimension_overrides={"N": 2**24}),
        "free_dimension_overrides: input 'X' would have 1660944384 elements. ...",
    ),
    (
        lambda: prepare(intra_op_num_threads=1 << 200),
        "...: invalid value of 201 bits (out of range...). Expected an integer ...",
    ),
    (lambda: prepare(execution_mode=1), "...: invalid value 1 (not a member of this enum). Expected a member of ..."),
    (lambda: permit(provider_options={CUDA: {SEARCH: 0}}), "... invalid value 0 (not text). Expected one of ..."),
    (lambda: prepare(logid="a\nb"), "logid: invalid value 'a\\nb' (not of the accepted form). Expected ..."),
    (lambda: prepare(session_config=dict.fromkeys(map(str, range(300)), 1)), "session_config: more than 256 entries"),
    (lambda: prepare(session_config={1: 1}), "session_config: a key must be a str, not 1"),
    (
        lambda: run([X], timeout="1"),
        "timeout: invalid value '1'. Expected a number of seconds greater than 0 and at most 1000000",
    ),
    (
        lambda: prepare(provider_options={CANN: {}}),
        "...: the execution provider is not available in this process. Available: ...",
    ),
    (lambda: under(EXCLUDE, CUDA, provider_options={CUDA: {}}), "...: the environment variable ... excludes it"),
    (
        lambda: presence.reject_device("CUDA", ["CPU"]),
        "device: 'CUDA' is not supported. This ORT build supports: CPU...",
    ),
    (lambda: prepare(device=[CPU]), "device: a value of type list is not supported. ... To choose execution ..."),
    (
        lambda: prepare("\udcff.onnx"),
        "model: the path is not UTF-8, which ORT's Python API requires. Pass the file's bytes",
    ),
    (
        lambda: prepare(open_session(), session_config={SPINNING: 0}),
        "session_config: cannot be applied to an existing session. Pass ...",
    ),
    (lambda: run([X], session_config={SPINNING: 0}), "session_config: cannot be set for a run. Pass it to prepare"),
    (lambda: run([X], timeout_ms=0.5), "timeout_ms: a run has the limits timeout, in seconds, and cancellation. ..."),
    (lambda: run([X], cancelation=1), "cancelation: a run has the limits ... Pass them to rep.run or run"),
    (lambda: prepare(open_session(), timeout=5), "timeout: a run has the limits ... Pass them to rep.run or run"),
    (
        lambda: under("ORT_LOAD_CONFIG_FROM_MODEL", "1", session_config={SPINNING: 0}),
        "... cannot be applied while ORT_LOAD_CONFIG_FROM_MODEL=1. ...",
    ),
]
WRONG_TYPES = [
    (
        lambda: prepare(provider_options=[CPU]),
        "provider_options must be a mapping such as a dict, not list. Use provider_options=...",
    ),
    (lambda: run([X], cancellation=1), "cancellation must be an onnxruntime.backend.Cancellation, not int"),
]
# ORT and the stock backend ignore these. The backend warns.
IGNORED = [
    (lambda: prepare(foo=1), "Keyword argument 'foo' is unknown and is ignored"),
    (
        lambda: prepare(providers=["cuda"]),
        "Keyword argument 'providers' is ignored. Use provider_options={'CUDA...': {}}",
    ),
    (lambda: prepare(sess_options=None), "Keyword argument 'sess_options' is ignored. Pass attributes ..."),
    (
        lambda: under(EXCLUDE, "NoEP"),
        "Environment variable ... excludes an unknown execution provider, 'NoEP'. Known: ...",
    ),
    (
        lambda: under(EXCLUDE, CPU),
        "Environment variable ... cannot exclude CPUExecutionProvider, which every session has",
    ),
    (
        lambda: run([X, X]),
        "Got 2 inputs. Model inputs: X: float32[2, 3]. The surplus inputs are ignored. To pass a list ...",
    ),
    (
        lambda: prepare(open_session(), logid="x"),
        "Keyword argument 'logid' is ignored, because the session already exists. ...",
    ),
    (
        lambda: prepare(open_session(), device="CUDA"),
        "device 'CUDA' has no effect on an existing session, which runs on ...",
    ),
    (
        lambda: under(CONFIG, {"session_options": {INTER: 2}}),
        "session_options[...] has no effect in this session: it requires ... (from ...)",
    ),
]
INPUT_ERRORS = [
    (lambda: run([]), "Input 'X' expects float32[2, 3], got nothing"),
    (lambda: run({"Z": X}), "Unknown input 'Z'. Model inputs: X: float32[2, 3]"),
    (lambda: run([X.astype(np.float64)]), "... got float64[2, 3]. Convert the array: value.astype('float32')"),
    (
        lambda: run([[1, 2, 3]]),
        "... got float32[3]. The value lacks one dimension, such as the batch. To pass a list ...",
    ),
    (lambda: run([[[None] * 3] * 2]), "... got a list that contains None"),
    (lambda: run([[[1e300] * 3] * 2]), "... got a list that contains 1e+300, which is out of range"),
    (lambda: run([[[1, 2], [3]]]), "... got a list of lists of different lengths"),
]
# Errors that are not about a setting of the caller.
RUNTIME_ERRORS = [
    (
        lambda: prepare(newer(ir_version=99).SerializeToString()),
        "The model has IR version 99, but ... set model.ir_version = ...",
    ),
    (
        lambda: prepare(newer(opset=99).SerializeToString()),
        "The model imports ai.onnx opset 99, but ... ALLOW_RELEASED_ONNX_OPSET_ONLY=0",
    ),
    (
        lambda: prepare(b"x", free_dimension_overrides={"N": 2}),
        "The model is not in ONNX's binary format. Pass the path ...",
    ),
    (
        lambda: prepare(b"version https://git-lfs.github.com/spec/v1"),
        "The model is a Git LFS pointer. Run `git lfs pull` ...",
    ),
    (
        lambda: under(CONFIG, {"extensions": ["./x.so"]}),
        "Extension './x.so' cannot be registered: expected the name ... (from ...)",
    ),
    (
        lambda: under(CONFIG, {"plugins": ["my-ep"]}),
        "Plugin 'my-ep' cannot be registered: expected the name of ... (from ...)",
    ),
    (
        lambda: under(CONFIG, {"session_options": {"use_per_session_threads": False}}),
        "...: the process has no global thread pools. ... (from ...)",
    ),
    (
        lambda: narrowed("no_such", True),
        "the environment variable ... cannot be used: permit: session_options['no_such'] _: unknown ...",
    ),
    (lambda: narrowed("logid", "a"), "... session_options['logid'] must be true or a list of values, not 'a'. ..."),
    (
        lambda: absent(OPENVINO),
        "OpenVINOExecutionProvider requires the base onnxruntime-openvino. ... The package onnxruntime-ep-openvino ...",
    ),
    (lambda: absent("DmlExecutionProvider"), "DmlExecutionProvider is a part of the wheel onnxruntime-directml"),
]
TYPE_ERRORS = [
    (lambda: copy.deepcopy(prepare()), "Send functools.partial(... copy.copy shares the session"),
    (
        lambda: prepare().run(None, {"X": X}),
        "run() takes the inputs as its only positional argument, ... session.run(None, {...})",
    ),
    (lambda: prepare(bytearray(MODEL)), "model must be a path, bytes, ... not ...bytearray"),
]
ENDED = [
    (
        lambda: prepare(slow()).run([np.eye(400, dtype=np.float32)], timeout=0.01),
        "The run exceeded its timeout of 0.01 s and was ended",
    ),
    (lambda: run([X], cancellation=cancelled()), "... run was canceled"),
    (
        lambda: prepare(newer(opset=99)),
        "The model imports ai.onnx opset 99, which is not released according to the ...",
    ),
]
ERRORS = {
    NotPermittedError: NOT_PERMITTED + NOT_APPLICABLE,
    WrongTypeError: WRONG_TYPES,
    InputError: INPUT_ERRORS,
    (RuntimeError, *ORT_ERRORS): RUNTIME_ERRORS,
    TypeError: TYPE_ERRORS,
    (TimeoutError, RunCancelledError, unittest.SkipTest): ENDED,
}


class MessagesTest(unittest.TestCase):
    maxDiff = None

    def check(self, message: str, expected: str) -> None:
        expected = expected.replace(" _:", " is not permitted via the backend API:")
        if not re.fullmatch(".*".join(map(re.escape, expected.split("..."))), message, re.DOTALL):
            self.assertEqual(message, expected)
        self.assertTrue(message.isascii())
        self.assertNotIn("; ", message)

    def test_errors(self):
        for classes, rows in ERRORS.items():
            for call, expected in rows:
                with self.subTest(expected):
                    error = caught(call)
                    self.assertIsInstance(error, classes)
                    self.check(str(error), expected)
                    if isinstance(error, NotPermittedError):
                        self.check_fields(error)
                    # Python prints one traceback: the log of a test suite contains that of each failure.
                    if rows not in (INPUT_ERRORS, ENDED):
                        text = "".join(traceback.format_exception(error))
                        self.assertEqual(text.count("Traceback (most recent call last)"), 1)

    def check_fields(self, error: NotPermittedError) -> None:
        """Compare the fields of an error with its text."""
        self.assertTrue(error.reason and str(error).endswith(error.reason))
        keyword, rest = re.match(r"(\w+)((?:\[.*?\])*)", str(error)).groups()
        names = [""] * (keyword != "provider_options") + re.findall(r"\['?(.*?)'?\]", rest)
        self.assertEqual([error.keyword, error.provider, error.key], [keyword, *names, "", ""][:3])

    def test_warnings(self):
        for call, expected in IGNORED:
            with self.subTest(expected), warnings.catch_warnings(record=True, action="always") as given:
                call()
                (message,) = [str(one.message) for one in given if one.category is RuntimeWarning]
                self.check(message, expected)


if __name__ == "__main__":
    unittest.main()
