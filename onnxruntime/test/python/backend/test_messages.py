# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The messages of the backend, each with the call that causes it. The errors also have the names of the setting.

The tables are in ``helpers/messages.py``.
"""

from __future__ import annotations

import copy  # noqa: F401 - a call in the tables
import itertools
import json
import os
import re
import traceback
import unittest
import warnings
from collections.abc import Iterator
from functools import partial
from unittest import mock

import numpy as np
import onnx
from helpers.allowlist import NEWEST, having, permit, session_config  # noqa: F401 - a call in the tables
from helpers.messages import (
    CANCELLATIONS,
    IGNORED,
    INPUT_ERRORS,
    NOT_APPLICABLE,
    REFUSALS,
    RUNTIME_ERRORS,
    SKIPS,
    TIMEOUTS,
    TYPE_ERRORS,
    WRONG_TYPES,
    WRONG_VALUES,
)
from helpers.models import cancelled, caught, identity, model, open_session, slow, tensor, two_nodes  # noqa: F401

import onnxruntime
import onnxruntime.backend
from onnxruntime import InferenceSession
from onnxruntime.backend import errors, packages
from onnxruntime.backend.allowlist import conditions, look_up
from onnxruntime.backend.allowlist.conditions import Need
from onnxruntime.backend.allowlist.look_up import permit_of
from onnxruntime.backend.allowlist.providers import PROVIDERS
from onnxruntime.backend.allowlist.tables import KEYWORDS  # noqa: F401 - a call in the tables
from onnxruntime.backend.applied import settings
from onnxruntime.backend.capture import eligibility
from onnxruntime.backend.errors import ORT_ERRORS, InputError, RunCancelledError
from onnxruntime.backend.openvino import replacement, run_order
from onnxruntime.backend.request import read_call
from onnxruntime.backend.session import presence  # noqa: F401 - a call in the tables
from onnxruntime.backend.session.creation import Construction

CPU = "CPUExecutionProvider"
AZURE = "AzureExecutionProvider"
CANN = "CANNExecutionProvider"
CUDA = "CUDAExecutionProvider"
OPENVINO = "OpenVINOExecutionProvider"
TENSORRT = "TensorrtExecutionProvider"
SPINNING = "session.intra_op.allow_spinning"
# Environment variables.
CONFIG = "ORT_ONNX_BACKEND_CONFIG"
EXCLUDE = "ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS"
MODEL = two_nodes().SerializeToString()
OPEN = two_nodes(("N", 3)).SerializeToString()
ADD = model([onnx.helper.make_node("Add", ["X", "Z"], ["Y"])], {"X": [2, 3], "Z": [2, 3]}, {"Y": [2, 3]})
X = np.ones((2, 3), np.float32)
DEVICES = dict.fromkeys(["CPU", "CUDA", "GPU", *onnxruntime.get_device().split("-")])
# Parts of messages.
SUPPORTED = ", ".join(filter(onnxruntime.backend.supports_device, DEVICES))
KNOWN = ", ".join(PROVIDERS)
FROM = " (from the environment variable ORT_ONNX_BACKEND_CONFIG)"
NOT_PERMITTED = " is not permitted via the backend API"


def prepare(model: object = MODEL, device: str | None = None, **keywords: object):
    return onnxruntime.backend.prepare(model, device, **keywords)


def under(variable: str, value: object, **keywords: object) -> None:
    """Prepare a model while an environment variable is set: to text as it is, to anything else as JSON."""
    with mock.patch.dict(os.environ, {variable: value if type(value) is str else json.dumps(value)}):
        prepare(**keywords)


def newer(opset: int = 21, ir_version: int = 10) -> onnx.ModelProto:
    made = two_nodes()
    made.opset_import[0].version, made.ir_version = opset, ir_version
    return made


def without_the_ep() -> None:
    """Have ORT create a session without the specified EP."""
    with mock.patch.object(InferenceSession, "get_providers", return_value=[AZURE]):
        prepare(provider_options={CPU: {}})


def permit_on(device: str, provider_options: dict) -> None:
    """Look up the EPs of a call on a device, in a process that has them."""
    process = having(provider_options, "built-in")
    permit_of(read_call({"provider_options": provider_options}, device=device), look_up.Allowlist(process))


def on_one_core() -> None:
    """Leave out an EP that the caller does not specify."""
    need = Need("two CPU cores", lambda *_: False, otherwise="runs can block")
    with mock.patch.dict(conditions.PROVIDER_NEEDS, {AZURE: (need,)}):
        permit_of(read_call({}), look_up.Allowlist(NEWEST._replace(providers=(AZURE, CPU))))


def capturing(*providers: str) -> None:
    """Check a session that captures graphs, which needs no device."""
    raise RuntimeError(eligibility.problem(open_session(), [*providers], two_nodes()))


def after_a_change_of_the_file() -> None:
    """Replace the inner session of a model, as after a failed run, although the file of the model has changed."""
    origin, failed = replacement.Origin(__file__, open_session), open_session()
    origin.created = failed._providers
    with mock.patch.object(replacement, "_stamp", return_value=()):
        origin.renew(failed)


def after_a_failed_run_of_a_session_of_the_caller() -> None:
    """Run a session again that the backend cannot replace."""
    session = open_session()
    order = run_order.RunOrder(lambda: session, None, "")
    run = partial(order.run, None, mock.Mock(side_effect=ORT_ERRORS[0]), {}, onnxruntime.RunOptions())
    caught(run)
    run()


def absent(name: str) -> None:
    """Report the next step for an EP that the process does not have."""
    raise RuntimeError(packages.advice(name))


def read_back_otherwise() -> None:
    """Verify a session with another value of a session config entry."""
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry(SPINNING, "1")
    permitted = permit(session_config={SPINNING: 0})
    settings.confirm(InferenceSession(MODEL, options, providers=[CPU]), Construction(MODEL, permitted, options))


SECTIONS = {
    "refusals": (errors.NotPermittedError, REFUSALS),
    "wrong values": (errors.NotPermittedError, WRONG_VALUES),
    "wrong types": (errors.WrongTypeError, WRONG_TYPES),
    "not applicable": (errors.NotPermittedError, NOT_APPLICABLE),
}
# Errors that are not about a setting of the caller.
OTHER_ERRORS = {
    InputError: INPUT_ERRORS,
    (RuntimeError, *ORT_ERRORS): RUNTIME_ERRORS,
    TypeError: TYPE_ERRORS,
    unittest.SkipTest: SKIPS,
    TimeoutError: TIMEOUTS,
    RunCancelledError: CANCELLATIONS,
}


def rows(table: str) -> Iterator[tuple[str, str]]:
    """Yield the call and the message of each row of a table."""
    groups = itertools.groupby(table.strip().splitlines(), key=lambda line: line.startswith(" "))
    lines = [" ".join(map(str.strip, group)) for _, group in groups]
    yield from zip(lines[::2], lines[1::2], strict=True)


class MessagesTest(unittest.TestCase):
    maxDiff = None

    def check(self, message: str, expected: str) -> None:
        expected = expected.replace("{SUPPORTED}", SUPPORTED).replace("{KNOWN}", KNOWN).replace("{FROM}", FROM)
        pattern = ".*".join(map(re.escape, expected.split("...")))
        if not re.fullmatch(pattern, message, re.DOTALL):
            self.assertEqual(message, expected)
        self.assertTrue(message.isascii())
        self.assertNotRegex(message, "; ")

    def check_traceback(self, error: Exception) -> None:
        """Check that Python prints one traceback. The log of a test suite contains that of each failure."""
        self.assertEqual("".join(traceback.format_exception(error)).count("Traceback (most recent call last)"), 1)

    def test_errors(self):
        for section, (kind, table) in SECTIONS.items():
            for call, expected in rows(table):
                with self.subTest(section, call=call):
                    error = caught(lambda call=call: eval(call))
                    self.assertIs(type(error), kind, error)
                    self.check(str(error), expected.replace(":", f"{NOT_PERMITTED}:", section == "refusals"))
                    self.check_traceback(error)
                    self.assertEqual(NOT_PERMITTED in str(error), section == "refusals")
                    self.assertEqual(isinstance(error, TypeError), section == "wrong types")
                    self.assertTrue(error.reason and str(error).endswith(error.reason))
                    keyword, rest = re.match(r"(\w+)((?:\[.*?\])*)", str(error)).groups()
                    names = [""] * (keyword != "provider_options") + re.findall(r"\['?(.*?)'?\]", rest)
                    self.assertEqual([error.keyword, error.provider, error.key], [keyword, *names, "", ""][:3])

    def test_warnings(self):
        for call, expected in rows(IGNORED):
            with self.subTest(call), warnings.catch_warnings(record=True, action="always") as given:
                eval(call)
                (message,) = [str(one.message) for one in given if one.category is RuntimeWarning]
                self.check(message, expected)

    def test_other_errors(self):
        for kind, table in OTHER_ERRORS.items():
            for call, expected in rows(table):
                with self.subTest(call):
                    error = caught(lambda call=call: eval(call))
                    self.assertIsInstance(error, kind)
                    self.assertNotIsInstance(error, errors.NotPermittedError)
                    self.check(str(error), expected)
                    if kind not in (InputError, TimeoutError, RunCancelledError) and "A run" not in expected:
                        self.check_traceback(error)

    def test_no_message_is_listed_twice(self):
        tables = [*(table for _, table in SECTIONS.values()), IGNORED, *OTHER_ERRORS.values()]
        listed = [message for table in tables for _, message in rows(table)]
        self.assertEqual(len(listed), len({*listed}))


if __name__ == "__main__":
    unittest.main()
