# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests provider_options, session_config and run_config of the backend API.

Permitted settings reach ORT, and act. All others are refused before ORT receives any setting.
"""

from __future__ import annotations

import os
import pickle
import tempfile
import unittest
import warnings
from pathlib import Path
from unittest import mock

import numpy as np
import onnx
import onnx.parser

import onnxruntime
from onnxruntime import InferenceSession, backend
from onnxruntime.backend import NotPermittedError
from onnxruntime.backend.allowlist_tables import CPU, CUDA, PROVIDERS, RECORD_ASSIGNMENT, RUN_CONFIG, SESSION_CONFIG
from onnxruntime.backend.backend import OnnxRuntimeBackend
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep
from onnxruntime.backend.value_kinds import Choice, Flag, Integer, Kind
from onnxruntime.capi import onnxruntime_pybind11_state

MODEL = onnx.parser.parse_model(
    '<ir_version: 8, opset_import: ["": 17]> g (float[2,3] X) => (float[2,3] Y) { N = Neg(X) Y = Abs(N) }'
)
BYTES = MODEL.SerializeToString()
X = np.full((2, 3), -1, np.float32)
SHRINKAGE = "memory.enable_memory_arena_shrinkage"
SHRINK = {SHRINKAGE: "cpu:0"}
HARMLESS = {"session.disable_prepacking": 1}
HARMFUL = {"session.load_model_format": "ORT"}
ON_CUDA = {CUDA: {}}

# Each table with the keyword argument and the EP that it belongs to.
TABLES = [("session_config", "", SESSION_CONFIG), ("run_config", "", RUN_CONFIG)]
TABLES += [("provider_options", ep, table) for ep, table in PROVIDERS.items()]

# Names that exist in ORT and may never be in a table: they name files or libraries, take pointers, or act outside of
# the session.
REFUSED = {
    "session_config": (
        "ep.context_embed_mode",
        "ep.context_enable",
        "ep.context_file_path",
        "session.allow_released_opsets_only",
        "session.collect_node_memory_stats_to_file",
        "session.intra_op_thread_affinities",
        "session.load_model_format",
        "session.model_external_initializers_file_folder_path",
        "session.optimized_model_external_initializers_file_name",
        "session.save_external_prepacked_constant_initializers",
        "session.save_model_format",
        "session.set_denormal_as_zero",
        "session.use_env_allocators",
        "session.use_ort_model_bytes_directly",
        "session.use_ort_model_bytes_for_initializers",
    ),
    "run_config": ("disable_synchronize_execution_providers", "gpu_graph_id"),
    "provider_options": (
        "do_copy_in_default_stream",
        "enable_cuda_graph",
        "external_data_loader_use_gds",
        "gpu_external_alloc",
        "gpu_external_empty_cache",
        "gpu_external_free",
        "has_user_compute_stream",
        "tunable_op_tuning_enable",
        "user_compute_stream",
    ),
}
# The first refused value on each side of each integer. Whoever permits more values has to change them here, too.
BOUNDS = {
    "session.intra_op.spin_duration_us": (-2, 10_001),
    "session.inter_op.spin_duration_us": (-2, 10_001),
    "session.dynamic_block_base": (-1, 129),
    "optimization.constant_folding_max_output_size_in_bytes": (0, 1_073_741_825),
    "session.function_expansion_byte_limit": (0, 1_073_741_825),
    "session.function_expansion_node_limit": (0, 1_000_001),
    "session.graph_optimizations_loop_level": (-1, 3),
    "device_id": (-1, 64),
    "gpu_mem_limit": (1_048_575, 281_474_976_710_657),
    "external_data_loader_reading_threads": (-1, 17),
    "sdpa_kernel": (-1, 1024),
}
# All values of each choice.
CHOICES = {
    "arena_extend_strategy": ("kNextPowerOfTwo", "kSameAsRequested"),
    "cudnn_conv_algo_search": ("EXHAUSTIVE", "HEURISTIC", "DEFAULT"),
}


def samples(name: str, kind: Kind) -> dict[object, str]:
    """Return values that an entry accepts, each with the text that ORT receives."""
    if isinstance(kind, Flag):
        return {True: "1", "0": "0"}
    if isinstance(kind, Integer):
        low, high = BOUNDS[name]
        return {low + 1: str(low + 1), str(high - 1): str(high - 1)}
    if isinstance(kind, Choice):
        return {value: value for value in CHOICES[name]}
    return {"cpu:0": "cpu:0", "cpu:0;gpu:15": "cpu:0;gpu:15"}


def entry_of(rep: OnnxRuntimeBackendRep, key: str) -> str:
    return rep._session.get_session_options().get_session_config_entry(key)


class Pretending(InferenceSession):
    """A session on the CPU EP that reports other EPs and options."""

    providers = (CUDA, CPU)
    node_on = CUDA

    def __init__(self, model: bytes, sess_options: onnxruntime.SessionOptions, **keywords) -> None:
        self.keywords = keywords
        super().__init__(model, sess_options, providers=[CPU])

    def get_providers(self) -> list[str]:
        return list(self.providers)

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        return {CUDA: {"use_tf32": "1"}, CPU: {}}

    def get_provider_graph_assignment_info(self) -> list[object]:
        return [mock.Mock(ep_name=self.node_on)] if self.node_on else []


def pretend(session_class: type[InferenceSession] = Pretending) -> mock._patch:
    """Return a context in which ORT has the CUDA EP, and sessions are of another class."""
    new = {"get_available_providers": lambda: [CUDA, CPU], "InferenceSession": session_class}
    return mock.patch.multiple(backend.backend, **new)


class AppliedTest(unittest.TestCase):
    def test_session_config(self) -> None:
        for key, kind in SESSION_CONFIG.items():
            for value, text in samples(key, kind).items():
                if key == "session.disable_cpu_ep_fallback" and text == "1":
                    continue  # ORT raises an error if all nodes are on the CPU EP
                with self.subTest(key, value=value):
                    rep = backend.prepare(MODEL, session_config={key: value})
                    self.assertEqual(entry_of(rep, key), text)
                    np.testing.assert_array_equal(rep.run([X])[0], -X)

    @unittest.skipIf(onnxruntime.__version__ < "1.32", "requires the release that contains this test")
    def test_ort_contains_each_key(self) -> None:
        """ORT stores a key that it does not know, and reports it."""
        library = Path(onnxruntime_pybind11_state.__file__).read_bytes()
        for key in [*SESSION_CONFIG, *RUN_CONFIG]:
            self.assertIn(key.encode(), library)

    def test_numpy_scalars(self) -> None:
        entries = {"session.disable_prepacking": np.bool_(True), "session.dynamic_block_base": np.int64(4)}
        rep = backend.prepare(MODEL, session_config=entries)
        self.assertEqual([entry_of(rep, key) for key in entries], ["1", "4"])

    def test_a_session_config_entry_acts(self) -> None:
        with self.assertRaisesRegex(Exception, "fallback to"):
            backend.prepare(MODEL, session_config={"session.disable_cpu_ep_fallback": True})

    def test_forms_of_a_model(self) -> None:
        settings = {"provider_options": {CPU: {}}, "session_config": HARMLESS, "run_config": SHRINK}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            onnx.save(MODEL, path)
            for model in (path, MODEL, BYTES):
                rep = backend.prepare(model, **settings)
                self.assertEqual(rep._session.get_providers(), [CPU])
                self.assertEqual(entry_of(rep, "session.disable_prepacking"), "1")
                self.assertEqual(rep._run_config, SHRINK)

    def test_only_the_cpu(self) -> None:
        for specified in ({}, {CPU: {}}):
            with mock.patch.dict(os.environ, ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS=CPU):
                rep = backend.prepare(MODEL, provider_options=specified)
            self.assertEqual(rep._session.get_providers(), [CPU])
            with self.assertRaises(RuntimeError):
                entry_of(rep, RECORD_ASSIGNMENT)

    def test_without_settings(self) -> None:
        """ORT receives the arguments that it received before this feature. A program can replace its class."""
        with mock.patch.object(backend.backend, "InferenceSession", Pretending):
            rep = backend.prepare(MODEL)
        self.assertEqual(rep._session.keywords, {"providers": onnxruntime.get_available_providers()})
        with self.assertRaises(RuntimeError):
            entry_of(rep, RECORD_ASSIGNMENT)


class VerifiedTest(unittest.TestCase):
    """The session does not have what was sent to ORT."""

    def test_the_execution_providers_differ(self) -> None:
        class OnTheCpu(Pretending):
            providers = (CPU,)

        with pretend(OnTheCpu), self.assertRaisesRegex(RuntimeError, f"with {CPU} instead of {CUDA}, {CPU}"):
            backend.prepare(MODEL, provider_options=ON_CUDA)
        with pretend(), self.assertRaisesRegex(RuntimeError, f"with {CUDA}, {CPU} instead of {CPU}, {CUDA}"):
            backend.prepare(MODEL, provider_options={CPU: {}, CUDA: {}})

    def test_ort_does_not_fall_back(self) -> None:
        with pretend():
            rep = backend.prepare(MODEL, provider_options={CUDA: {"use_tf32": 1}})
        self.assertEqual(rep._session.keywords, {"providers": [(CUDA, {"use_tf32": "1"})], "enable_fallback": 0})

    def test_an_option_differs(self) -> None:
        for option, report in (("use_tf32", "'1'"), ("prefer_nhwc", "None")):
            words = f"{CUDA}'..'{option}'. was sent as '0', but ORT reports {report}"
            with self.subTest(option), pretend(), self.assertRaisesRegex(RuntimeError, words):
                backend.prepare(MODEL, provider_options={CUDA: {option: 0}})

    def test_a_session_config_entry_differs(self) -> None:
        class Changing(Pretending):
            def get_session_options(self) -> onnxruntime.SessionOptions:
                options = onnxruntime.SessionOptions()
                options.add_session_config_entry("session.disable_prepacking", "0")
                return options

        with pretend(Changing), self.assertRaisesRegex(RuntimeError, "was sent as '1', but the session has '0'"):
            backend.prepare(MODEL, session_config=HARMLESS)

    def test_the_options_of_the_model_replace_those_of_the_caller(self) -> None:
        model = onnx.ModelProto()
        model.CopyFrom(MODEL)
        model.metadata_props.add(key="ort_config", value='{"session_options": {"enable_cpu_mem_arena": 0}}')
        with mock.patch.dict(os.environ, ORT_LOAD_CONFIG_FROM_MODEL="1"), self.assertRaises(RuntimeError):
            backend.prepare(model, session_config=HARMLESS)


class IdleTest(unittest.TestCase):
    """A specified EP gets no node."""

    def warnings_of(self, node_on: str, **settings) -> list[warnings.WarningMessage]:
        """Prepare and run each form of the model in a line of its own."""
        settings = {"provider_options": ON_CUDA, **settings}
        with (
            pretend(type("Idle", (Pretending,), {"node_on": node_on})),
            warnings.catch_warnings(record=True) as caught,
        ):
            warnings.simplefilter("default")
            backend.prepare(MODEL, **settings)
            backend.prepare(MODEL, **settings)
            backend.prepare(BYTES, **settings)
            backend.run(MODEL, [X], **settings)
        return caught

    def test_each_call_warns_at_its_line(self) -> None:
        caught = self.warnings_of(CPU)
        lines = [warning.lineno for warning in caught]
        self.assertEqual(lines, list(range(lines[0], lines[0] + 4)))
        self.assertEqual({warning.filename for warning in caught}, {__file__})
        words = f"No node of this model is assigned to {CUDA}, which .* runs on {CPU}"
        self.assertRegex(str(caught[0].message), words)

    def test_no_warning(self) -> None:
        self.assertEqual(self.warnings_of(CUDA), [])
        self.assertEqual(self.warnings_of(""), [])  # ORT has no record of the nodes
        self.assertEqual(self.warnings_of(CPU, session_config={RECORD_ASSIGNMENT: 0}), [])


class RunConfigTest(unittest.TestCase):
    """ORT raises an error for a run that shrinks an arena that the session does not have. The error shows the entry."""

    def setUp(self) -> None:
        self.rep = backend.prepare(MODEL, enable_cpu_mem_arena=False)

    def assert_shrinks(self, call, *positional, **keywords) -> None:
        with self.assertRaisesRegex(Exception, "arena"):
            call(*positional, **keywords)

    def test_of_prepare(self) -> None:
        settings = {"run_config": SHRINK, "enable_cpu_mem_arena": False}
        rep = backend.prepare(MODEL, **settings)
        for inputs in ([X], X, [X]):
            self.assert_shrinks(rep.run, inputs)
        self.assert_shrinks(backend.run, MODEL, [X], **settings)

    def test_the_mapping_is_read_once(self) -> None:
        class Once(dict):
            read = False

            def items(self):
                if self.read:
                    raise AssertionError("read again")
                self.read = True
                return super().items()

        rep = backend.prepare(BYTES, run_config=Once(SHRINK))
        self.assertEqual(rep._run_config, SHRINK)
        self.assert_shrinks(backend.run, BYTES, [X], run_config=Once(SHRINK), enable_cpu_mem_arena=False)

    def test_of_one_run(self) -> None:
        self.assert_shrinks(self.rep.run, [X], run_config=SHRINK)
        self.rep.run([X])

    def test_of_a_session_or_a_prepared_model(self) -> None:
        for model in (self.rep, self.rep._session):
            rep = backend.prepare(model, run_config=SHRINK)
            self.assertIs(rep._session, self.rep._session)
            self.assert_shrinks(rep.run, [X])
        self.assertIs(backend.prepare(self.rep), self.rep)
        self.rep.run([X])

    def test_a_run_overrides_prepare(self) -> None:
        rep = backend.prepare(self.rep, run_config=SHRINK)
        with mock.patch.object(backend.backend_rep, "RunOptions") as options, self.assertRaises(TypeError):
            rep.run([X], run_config={SHRINKAGE: "gpu:0"})
        options.return_value.add_run_config_entry.assert_called_once_with(SHRINKAGE, "gpu:0")


class SubclassTest(unittest.TestCase):
    def test_prepare_receives_each_form_of_the_model(self) -> None:
        calls = []

        class Recording(OnnxRuntimeBackend):
            @classmethod
            def prepare(cls, model, device=None, **kwargs):
                calls.append((type(model).__name__, sorted(kwargs)))
                return super().prepare(model, device, **kwargs)

        Recording.run_model(MODEL, [X], provider_options={CPU: {}}, session_config=HARMLESS, run_config=SHRINK)
        every = ["provider_options", "run_config", "session_config"]
        self.assertEqual(calls, [("ModelProto", every), ("bytes", every), ("InferenceSession", ["run_config"])])

    def test_prepare_without_keyword_arguments(self) -> None:
        class Old(OnnxRuntimeBackend):
            @classmethod
            def prepare(cls, model, device=None):
                return super().prepare(model, device)

        np.testing.assert_array_equal(Old.run_model(MODEL, [X])[0], -X)

    def test_prepare_that_ignores_settings(self) -> None:
        class Old(OnnxRuntimeBackend):
            @classmethod
            def prepare(cls, model, device=None, **kwargs):
                return super().prepare(model, device)

        with self.assertRaisesRegex(NotPermittedError, "is not permitted"):
            Old.run_model(MODEL, [X], run_config=HARMFUL)

    def test_a_prepared_model_without_init(self) -> None:
        class Old(OnnxRuntimeBackendRep):
            def __init__(self, session) -> None:
                self._session = session

        rep = Old(backend.prepare(MODEL)._session)
        np.testing.assert_array_equal(rep.run([X])[0], -X)
        self.assertIsInstance(backend.prepare(rep, run_config=SHRINK), Old)


class Named(str):  # noqa: SLOT000
    """A name that a dict finds as another name."""

    def __hash__(self) -> int:
        return hash("session.disable_prepacking")

    def __eq__(self, other: object) -> bool:
        return True


class Silent:
    """An object whose methods must not run."""

    def __repr__(self) -> str:
        raise AssertionError("ran code of the caller")

    __bool__ = __eq__ = __hash__ = __index__ = __int__ = __iter__ = __len__ = __str__ = __repr__


# Values that no entry accepts.
HOSTILE = [
    *(None, Silent(), type("Number", (int,), {})(1), Named("1"), np.float32(1), np.ones(1), 0.5, 1.0, float("nan")),
    *([], (1,), {}, b"1", 1j, 2**63, -(2**63), 10**30, "", " 1", "1 ", "1\n", "1\0", "yes", "true", "\u0663", "0x1"),
    *("1e3", "1;2", "../x", "+1", "9" * 5000, "CPU:0", "cpu:0;", "cpu:0\n", "cpu:1", "gpu:100", "cpu:0;" * 8 + "cpu:0"),
]


def arguments(keyword: str, ep: str, settings: object) -> dict[str, object]:
    """Return a keyword argument with settings, which belong to an EP if one is given."""
    return {keyword: {ep: settings} if ep else settings}


class RefusedTest(unittest.TestCase):
    """Each error is about the right setting, and ORT receives nothing before it."""

    def assert_refused(self, words: str, call=None, *positional, **keywords) -> NotPermittedError:
        """Call ``prepare``, or another function, and return its error."""
        if call is None:
            call, positional = backend.prepare, [MODEL]
        with (
            mock.patch.object(backend.backend, "get_available_providers", return_value=["Azure", CUDA, CPU]),
            mock.patch.object(backend.backend, "SessionOptions") as session_options,
            mock.patch.object(backend.backend_rep, "RunOptions") as run_options,
            self.assertRaisesRegex(NotPermittedError, words) as caught,
        ):
            call(*positional, **keywords)
        session_options.assert_not_called()
        run_options.assert_not_called()
        error = caught.exception
        self.assertLess(len(str(error)), 1200)
        self.assertTrue(str(error).isascii())
        self.assertTrue(error.reason)
        self.assertTrue(str(error).endswith(error.reason))
        return error

    def assert_each_refused(self, words: str, keyword: str, ep: str, entries: list[tuple[str, object]]) -> None:
        """Specify each entry alone. The error must contain its place."""
        for name, value in entries:
            with self.subTest(name, kind=type(value)):
                error = self.assert_refused(words, **arguments(keyword, ep, {name: value}))
                self.assertEqual((error.keyword, error.provider, error.key), (keyword, ep, name))

    def test_values(self) -> None:
        for keyword, ep, table in TABLES:
            for name, kind in table.items():
                values = [*HOSTILE, -1, 2] if isinstance(kind, Flag) else HOSTILE
                self.assert_each_refused("invalid value", keyword, ep, [(name, value) for value in values])

    def test_values_at_the_bounds(self) -> None:
        frozen = set()
        for keyword, ep, table in TABLES:
            for name, kind in table.items():
                if isinstance(kind, Integer):
                    self.assert_each_refused("invalid value", keyword, ep, [(name, value) for value in BOUNDS[name]])
                elif isinstance(kind, Choice):
                    self.assertEqual(kind.names, CHOICES[name])
                else:
                    continue
                frozen.add(name)
        self.assertEqual(frozen, {*BOUNDS, *CHOICES})

    def test_names(self) -> None:
        for keyword, ep, table in TABLES:
            names = ["", "*", *REFUSED[keyword]]
            for name in table:
                names += [name.upper(), f"{name} ", f"{name}\0"]
            self.assert_each_refused("is not permitted", keyword, ep, [(name, "1") for name in names])

    def test_the_reason(self) -> None:
        """Names that callers ask for have a reason of their own. For others, the permitted names are listed."""
        for settings in ({"run_config": {"gpu_graph_id": 1}}, {"provider_options": {CUDA: {"enable_cuda_graph": 1}}}):
            error = self.assert_refused("API: a replay of a captured graph uses the addresses", **settings)
            self.assertTrue(error.reason.startswith("a replay"))
        self.assert_refused(f"API: permitted are {SHRINKAGE}$", run_config=HARMFUL)
        self.assert_refused("API: permitted are none$", provider_options={CPU: {"use_arena": 1}})

    def test_a_permitted_entry_beside_a_refused_one(self) -> None:
        self.assert_refused("is not permitted", session_config=HARMLESS | HARMFUL)
        self.assert_refused("is not permitted", run_config=SHRINK | HARMFUL)

    def test_keys_that_are_not_text(self) -> None:
        words = "a key must be a str"
        for keyword, ep, _ in TABLES:
            for key in (1, None, b"a", 1.5, (), Named("session.load_model_format")):
                self.assert_refused(words, **arguments(keyword, ep, {key: 1}))
        self.assert_refused(words, provider_options={Named(CPU): {}})

    def test_arguments_that_are_not_mappings(self) -> None:
        class Unreadable(dict):
            def items(self):
                raise RuntimeError("cannot be read")

        words = "must be a mapping such as a dict, not"
        for keyword, ep, _ in TABLES:
            for value in ([("a", 1)], "text", 3, {CPU}, Silent()):
                self.assert_refused(words, **arguments(keyword, ep, value))
            self.assert_refused("must be a mapping that can be read", **arguments(keyword, ep, Unreadable()))
        self.assert_refused(words, provider_options={CPU: None})

    def test_execution_providers(self) -> None:
        for name in ("", "CPU", "cpuexecutionprovider", f"{CPU} ", "TensorrtExecutionProvider", "Azure", "library.so"):
            error = self.assert_refused("is not permitted", provider_options={name: {}})
            self.assertEqual((error.provider, error.key), (name, ""))
        with mock.patch.dict(os.environ, ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS=CUDA):
            self.assert_refused(f"not available. Available: {CPU}$", provider_options=ON_CUDA)

    def test_a_device_that_contradicts_the_execution_providers(self) -> None:
        for device in ("CUDA", "GPU"):
            error = self.assert_refused("contradicts", backend.prepare, MODEL, device, provider_options={})
            self.assertEqual(error.keyword, "device")

    def test_calls_that_accept_settings(self) -> None:
        words = "is not permitted"
        rep = backend.prepare(MODEL)
        for keyword in ("provider_options", "session_config", "run_config"):
            self.assert_refused(words, backend.run, MODEL, [X], **{keyword: HARMFUL})
        for model in (rep, rep._session):
            self.assert_refused(words, backend.prepare, model, run_config=HARMFUL)
        self.assert_refused(words, rep.run, [X], run_config=HARMFUL)
        self.assert_refused("must be a mapping", rep.run, [X], run_config=[])

    def test_settings_that_cannot_be_applied(self) -> None:
        rep = backend.prepare(MODEL)
        for keyword in ("provider_options", "session_config"):
            for model in (rep, rep._session):
                words = f"^{keyword}: cannot be applied to an existing session"
                self.assert_refused(words, backend.prepare, model, **{keyword: {}})
            self.assert_refused(f"^{keyword}: cannot be applied to a run", rep.run, [X], **{keyword: {}})
            rep.run([X], **{keyword: None})

    def test_the_error_is_short_and_plain_data(self) -> None:
        self.assertLess(len(str(self.assert_refused("x" * 70, run_config={"x" * 10_000: 1}))), 260)
        error = self.assert_refused(r"f600.U0001\.\.\.\]", run_config={"\U0001f600" * 70: 1})
        copied = pickle.loads(pickle.dumps(error))
        self.assertEqual((str(copied), vars(copied)), (str(error), vars(error)))
        long_name = type("\u00e9" + "x" * 1000, (), {})()
        for value, words in {1 << 40_000: "int with 40001 bits", long_name: r"\\xe9x{56}", 0.5: "0.5"}.items():
            error = self.assert_refused(words, provider_options={CUDA: {"device_id": value}})
            expected = rf"invalid value (of type )?{words}\. Expected an integer from 0 to 63"
            self.assertRegex(str(error), rf"^provider_options\['{CUDA}'\]\['device_id'\]: {expected}$")

    def test_attributes(self) -> None:
        rep = backend.prepare(MODEL)
        words = "is not permitted via the backend API"
        for call, model, keyword in ((backend.prepare, MODEL, "enable_profiling"), (rep.run, [X], "terminate")):
            with self.assertRaisesRegex(NotPermittedError, words) as caught:
                call(model, **{keyword: True})
            self.assertEqual(caught.exception.keyword, keyword)
            self.assertRegex(caught.exception.reason, "^Allowed attributes: .*log_severity_level")


def cuda_works() -> bool:
    """Return whether ORT can create a session on CUDA."""
    if CUDA not in onnxruntime.get_available_providers():
        return False
    return CUDA in InferenceSession(BYTES, providers=[CUDA]).get_providers()


@unittest.skipUnless(cuda_works(), "requires a CUDA device and a build for it")
class CudaTest(unittest.TestCase):
    def test_each_option(self) -> None:
        for option, kind in PROVIDERS[CUDA].items():
            for value, text in samples(option, kind).items():
                if option == "device_id" and text != "0":
                    continue
                with self.subTest(option, value=value):
                    rep = backend.prepare(MODEL, "CUDA", provider_options={CUDA: {option: value}})
                    self.assertEqual(rep._session.get_providers(), [CUDA, CPU])
                    self.assertEqual(rep._session.get_provider_options()[CUDA][option], text)
                    np.testing.assert_array_equal(rep.run([X])[0], -X)

    def test_a_device_that_does_not_exist(self) -> None:
        with self.assertRaisesRegex(Exception, "device"):
            backend.prepare(MODEL, provider_options={CUDA: {"device_id": 63}})

    def test_run_config(self) -> None:
        rep = backend.prepare(MODEL, provider_options=ON_CUDA)
        np.testing.assert_array_equal(rep.run([X], run_config={SHRINKAGE: "gpu:0"})[0], -X)

    def test_the_order(self) -> None:
        with self.assertWarnsRegex(RuntimeWarning, f"No node of this model is assigned to {CUDA}"):
            rep = backend.prepare(MODEL, provider_options={CPU: {}, CUDA: {"use_tf32": 0}})
        self.assertEqual(rep._session.get_providers(), [CPU, CUDA])

    def test_only_the_cpu(self) -> None:
        rep = backend.prepare(MODEL, provider_options={})
        self.assertEqual(rep._session.get_providers(), [CPU])


@unittest.skipUnless(CUDA in onnxruntime.get_available_providers(), "requires a build for CUDA")
@unittest.skipIf(cuda_works(), "requires a machine without CUDA")
class NoFallbackTest(unittest.TestCase):
    def test_the_execution_provider_is_specified(self) -> None:
        with self.assertRaisesRegex(RuntimeError, "CUDA") as caught:
            backend.prepare(MODEL, provider_options=ON_CUDA)
        self.assertNotIsInstance(caught.exception, NotPermittedError)


if __name__ == "__main__":
    unittest.main()
