# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of "permit" in ``ORT_ONNX_BACKEND_CONFIG``, which narrows the settings of callers."""

import json
import tempfile
import unittest
import warnings
from pathlib import Path
from unittest import mock

import _above
import numpy as np
from helpers.allowlist import NEWEST, having
from helpers.environment import VARIABLE, environment
from helpers.models import no_session_opens, two_nodes
from helpers.processes import UNKNOWN, process_with

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend.allowlist import conditions, threads
from onnxruntime.backend.allowlist.look_up import permit_of
from onnxruntime.backend.allowlist.permit import Permit
from onnxruntime.backend.allowlist.tables import BY_KEYWORD, KEYWORDS, PROVIDERS
from onnxruntime.backend.environment import narrowing, variable
from onnxruntime.backend.errors import NotPermittedError
from onnxruntime.backend.request import read_call

CPU, CUDA, TENSORRT, CANN, OPENVINO, WEBGPU = (
    f"{name}ExecutionProvider" for name in ("CPU", "CUDA", "Tensorrt", "CANN", "OpenVINO", "WebGpu")
)
THREADS = "intra_op_num_threads"
PREPACKING = "session.disable_prepacking"
SPINNING = "session.intra_op.allow_spinning"
NEW_KEY = "session.intra_op.new"
SHRINKAGE = "memory.enable_memory_arena_shrinkage"
GRAPH_ID = "gpu_graph_id"
OPTIONS = "provider_options"
MODEL = two_nodes(("N", 3)).SerializeToString()
X = np.ones((2, 3), np.float32)

POLICY = {
    "permit": {
        "session_options": {THREADS: [1, "2"], "logid": ["a"], "execution_mode": ["ORT_PARALLEL"]},
        "session_config": {SPINNING: True, NEW_KEY: [1]},
        "run_config": {GRAPH_ID: [-1, 3]},
        "free_dimension_overrides": {"N": [1, 2]},
        OPTIONS: {CUDA: {"use_tf32": True, "device_id": [0, 1]}, CANN: {}, TENSORRT: {"device_id": [0]}},
    },
    "session_options": {THREADS: 4, "inter_op_num_threads": 3},
    "session_config": {PREPACKING: True},
    "run_config": {SHRINKAGE: "cpu:0"},
}
PERMITTED = (
    *({THREADS: value} for value in (1, "2", np.int64(2))),
    {THREADS: 4},  # the environment's own
    {"session_options": {THREADS: "4", "logid": "a"}},
    {"execution_mode": onnxruntime.ExecutionMode.ORT_PARALLEL},
    {"session_config": {NEW_KEY: "1", PREPACKING: 1, SPINNING: 0}},
    {"run_config": {GRAPH_ID: "3", SHRINKAGE: "cpu:0"}},
    {"free_dimension_overrides": {"N": 2}},
    *({OPTIONS: eps} for eps in ({}, {CUDA: {"use_tf32": 0, "device_id": "1"}}, {CANN: {}})),
    {"device": "CUDA:1", OPTIONS: {CUDA: {}}},
)
REFUSED = (
    *(({THREADS: value}, (THREADS, "", "")) for value in (3, "03", "x")),
    # Even if another argument overrides it.
    ({THREADS: 2, "session_options": {THREADS: 8}}, ("session_options", "", THREADS)),
    ({THREADS: 8, "session_options": {THREADS: 2}}, (THREADS, "", "")),
    ({"session_config": {"session.intra_op.other": 1}}, ("session_config", "", "session.intra_op.other")),
    ({"run_config": {GRAPH_ID: 4}}, ("run_config", "", GRAPH_ID)),
    ({"free_dimension_overrides": {"N": 3}}, ("free_dimension_overrides", "", "N")),
    ({OPTIONS: {CUDA: {}, OPENVINO: {}}}, (OPTIONS, OPENVINO, "")),
    ({OPTIONS: {CUDA: {"gpu_mem_limit": 2**30}}}, (OPTIONS, CUDA, "gpu_mem_limit")),
    ({"device": "CUDA:2"}, (OPTIONS, CUDA, "device_id")),
    ({"device": "CUDA:1", OPTIONS: {TENSORRT: {}}}, (OPTIONS, TENSORRT, "device_id")),
)
BROKEN = (
    {"session_config": {"no.such": True}},
    {"session_config": {SPINNING: [True, 7]}},
    {"run_config": {GRAPH_ID: [[1]]}},
    {OPTIONS: {"NoSuchExecutionProvider": {}}},
    {OPTIONS: {CUDA: {"user_compute_stream": True}}},
    {OPTIONS: {"VitisAIExecutionProvider": {"session_options": True}}},  # the process does not have the EP
    # The form.
    *([], None, True, {THREADS: True}, {"extensions": ["x"]}, {"permit": {}}, {"session_options": True}),
    *({"session_options": {THREADS: values}} for values in (2, False, [], "2")),
    {OPTIONS: {CPU: True}},
)


def permit(device: str | None = None, **given: object) -> Permit:
    """Look up a call's settings as ``prepare`` does, as if this process had every EP."""
    keywords = {word: given.pop(word) for word in KEYWORDS if word in given}
    requested = read_call(keywords, given, device)
    process = NEWEST._replace(kinds={name: next(iter(of)) for name, of in PROVIDERS.items()})
    try:
        return permit_of(requested, variable.allowlist(requested.environment, process))
    except NotPermittedError as refusal:
        raise requested.with_origin(refusal) from None


class Case(unittest.TestCase):
    def setUp(self):
        self.enterContext(warnings.catch_warnings(action="ignore"))
        # With fewer CPUs than threads, spinning is refused.
        self.enterContext(mock.patch.object(threads, "CPUS", range(16)))
        self.enterContext(mock.patch.object(conditions, "has_global_lock", return_value=True))

    def refused(self, place: tuple[str, str, str], call, *arguments: object, **keywords: object) -> str:
        with self.assertRaises(NotPermittedError) as refused:
            call(*arguments, **keywords)
        error = refused.exception
        self.assertEqual((error.keyword, error.provider, error.key), place)
        return error.reason


class NarrowingTest(Case):
    def test_permitted_and_refused(self):
        with environment(POLICY):
            for given in PERMITTED:
                with self.subTest(given):
                    permit(**given)
            for given, place in REFUSED:
                with self.subTest(given):
                    self.refused(place, permit, **given)

    def test_callers_may_set_nothing(self):
        with environment({"permit": {}, "session_options": {THREADS: 2}}):
            for nothing in ({}, {THREADS: 2}, {"session_config": {}}, {"run_config": None}, {"device": "CPU"}):
                self.assertEqual(permit(**nothing).attributes.parsed, {THREADS: 2})
            for given in ({THREADS: 1}, {OPTIONS: {}}, {"session_config": {SPINNING: 1}}):
                with self.subTest(given):
                    self.assertRaises(NotPermittedError, permit, **given)

    def test_the_environment_is_not_narrowed(self):
        eps = {TENSORRT: {"trt_fp16_enable": True}, CANN: {"enable_cann_graph": 1}}
        with environment({"permit": {}, OPTIONS: eps}):
            for same in ({}, {OPTIONS: {}}, {OPTIONS: {TENSORRT: {}}}, {OPTIONS: eps}):
                self.assertEqual([*permit(**same).providers], [TENSORRT, CANN])
            for other in ({CANN: {}}, {CPU: {}}, {TENSORRT: {}, CPU: {}}, {CANN: {}, TENSORRT: {}}):  # another order
                with self.subTest(other):
                    self.assertRaises(NotPermittedError, permit, provider_options=other)
            # The backend sends this value in any case.
            permit(provider_options={TENSORRT: {}, CANN: {"dump_om_model": 0}})
        for chosen, specified, order in ((TENSORRT, {}, [TENSORRT, CANN]), (CANN, {CANN: {}}, [CANN, TENSORRT])):
            with environment({"permit": {OPTIONS: {chosen: {}}}, OPTIONS: eps}):
                self.assertEqual([*permit(provider_options=specified).providers], order)
        with environment({"permit": {}, OPTIONS: {CUDA: {"device_id": 1}}}):
            permit("CUDA:1")
            reason = self.refused(("device", "", ""), permit, "CUDA:2")
            self.assertEqual(reason, f"'CUDA:2' contradicts provider_options['{CUDA}']['device_id'], which is 1")
            self.refused((OPTIONS, CUDA, "device_id"), permit, provider_options={CUDA: {"device_id": 2}})
        with environment({"permit": {}, "session_config": {"no.such": 1}}):
            self.assertRaisesRegex(RuntimeError, VARIABLE, permit)

    def test_a_value_of_another_kind_of_the_ep(self):
        # The plugin EP permits both values, and the built-in EP of this process only one.
        with environment({"permit": {OPTIONS: {WEBGPU: {"enableGraphCapture": [True, False]}}}}):
            permit(provider_options={WEBGPU: {"enableGraphCapture": False}})
            place = (OPTIONS, WEBGPU, "enableGraphCapture")
            self.refused(place, permit, provider_options={WEBGPU: {"enableGraphCapture": True}})

    def test_a_broken_part(self):
        for part in BROKEN:
            with self.subTest(part), environment({"permit": part}), no_session_opens():
                with self.assertRaisesRegex(RuntimeError, f"{VARIABLE} cannot be used: permit: ") as raised:
                    onnxruntime.backend.prepare(MODEL)
                self.assertNotIsInstance(raised.exception, NotPermittedError)

    def test_each_name_of_the_allowlist_can_be_permitted(self):
        """On each machine, also names that only one kind of an EP has."""
        entries = [(keyword, "", table) for keyword, table in BY_KEYWORD.items()]
        entries += [(OPTIONS, ep, table) for ep, kinds in PROVIDERS.items() for table in kinds.values()]
        for keyword, ep, table in entries:
            names = {name: True for name, rule in table.items() if rule.until is None}
            part = {keyword: {ep: names} if ep else names}
            self.assertEqual([*narrowing.faults(part, NEWEST)], [])
        # A plugin EP without a table has its device index.
        part = {OPTIONS: {"SomeExecutionProvider": {"device_id": [1]}}}
        for kind, faults in (("plugin", 0), ("", 1)):
            self.assertEqual(len([*narrowing.faults(part, having(part[OPTIONS], kind))]), faults)


class CallsTest(Case):
    """The calls of the backend, with sessions on the CPU EP."""

    def test_prepare_and_run(self):
        prepare, run = onnxruntime.backend.prepare, onnxruntime.backend.run
        self.enterContext(environment(POLICY))
        with no_session_opens():
            for call, arguments in ((prepare, (MODEL,)), (run, (MODEL, [X])), (prepare, (two_nodes(),))):
                self.refused((THREADS, "", ""), call, *arguments, intra_op_num_threads=3)
                self.refused(("run_config", "", GRAPH_ID), call, *arguments, run_config={GRAPH_ID: 4})
            for attributes in ({"log_severity_level": 3}, {"logid": "b"}, {"only_execute_path_to_fetches": False}):
                self.refused((*attributes, "", ""), run, MODEL, [X], **attributes)
        np.testing.assert_array_equal(run(MODEL, [X], intra_op_num_threads=1, logid="a", timeout=9)[0], X)
        rep = prepare(MODEL, intra_op_num_threads="2", free_dimension_overrides={"N": 2})
        self.assertEqual(rep.session.get_session_options().intra_op_num_threads, 2)
        self.assertEqual(prepare(MODEL).session.get_session_options().intra_op_num_threads, 4)  # omitted
        self.assertEqual(prepare(MODEL, **rep.configuration()).configuration(), rep.configuration())

    def test_runs(self):
        self.enterContext(environment(POLICY))
        rep = onnxruntime.backend.prepare(MODEL)
        own = onnxruntime.backend.prepare(onnxruntime.InferenceSession(MODEL, providers=[CPU]))
        for prepared in (rep, own):
            for call in (
                lambda entries, rep=prepared: rep.run([X], run_config=entries),
                lambda entries, rep=prepared: onnxruntime.backend.prepare(rep, run_config=entries),
                lambda entries, rep=prepared: onnxruntime.backend.prepare(rep.session, run_config=entries),
                prepared.with_run_config,
                prepared.run_options,
            ):
                for entries in ({GRAPH_ID: -1}, {SHRINKAGE: "cpu:0"}, {}):
                    call(entries)
                for _ in range(2):  # a refusal is not remembered as permitted
                    self.refused(("run_config", "", GRAPH_ID), call, {GRAPH_ID: 4})
            for attributes in ({"logid": "b"}, {"only_execute_path_to_fetches": False}):
                self.refused((*attributes, "", ""), prepared.run, [X], **attributes)
            np.testing.assert_array_equal(prepared.run([X], logid="a", timeout=9)[0], X)

    def test_a_plugin_ep_without_a_table(self):
        """A run does not check its options: the first one can be the call that registers the plugin."""
        part = {OPTIONS: {UNKNOWN: {"device_id": [0]}}, "session_options": {"logid": ["a"]}}
        with environment({"permit": part}):
            with process_with(plugins=(UNKNOWN,)):
                rep = onnxruntime.backend.prepare(MODEL)
                onnxruntime.backend.run(MODEL, [X], logid="a")
                rep.run([X], logid="a")
                self.refused(("logid", "", ""), rep.run, [X], logid="b")
            self.assertRaisesRegex(RuntimeError, UNKNOWN, onnxruntime.backend.run, MODEL, [X], logid="a")

    def test_each_prepare_reads_the_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "policy.json")
            for allowed in ([1], [2]):
                path.write_text(json.dumps({"permit": {"session_options": {THREADS: allowed}}}))
                with environment(f"@{path}"):
                    onnxruntime.backend.prepare(MODEL, intra_op_num_threads=allowed[0])
                    self.refused((THREADS, "", ""), onnxruntime.backend.prepare, MODEL, intra_op_num_threads=3)


if __name__ == "__main__":
    unittest.main()
