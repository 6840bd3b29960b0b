# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""A prepared model besides its runs: closing, ``with``, ``repr``, pickling."""

import copy
import gc
import itertools
import json
import tempfile
import unittest
import warnings
import weakref
from collections.abc import Mapping
from pathlib import Path
from unittest import mock

import numpy as np
from helpers.models import open_session, two_nodes, usable_providers

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend import Cancellation, prepare
from onnxruntime.backend.allowlist.rules import NOTHING
from onnxruntime.backend.applied import nodes as nodes_of_session
from onnxruntime.backend.runs.inputs import ModelInputs
from onnxruntime.backend.runs.plan import Plan

CPU = "CPUExecutionProvider"
SPINNING = "session.intra_op.allow_spinning"
SHRINKING = {"memory.enable_memory_arena_shrinkage": "cpu:0"}
PREPACKING = {"session.disable_prepacking": "1"}
IDLE = {"gpu_graph_id": 5}
REPORTS = ("provider_options", "session_options", "session_config", "run_config", "unconfirmed")
X = np.ones((2, 3), np.float32)


class ClosingTest(unittest.TestCase):
    def test_closing_lets_go_of_the_session(self):
        rep = prepare(two_nodes())
        gone = weakref.ref(rep.session)
        gc.disable()
        try:
            rep.close()
            self.assertIsNone(gone())
        finally:
            gc.enable()

    def test_a_closed_model_says_so(self):
        with prepare(two_nodes(), provider_options={CPU: {}}) as rep:
            rep.run([X])
        for use in (
            lambda: rep.run([X]),
            lambda: rep.run([X], run_config={"gpu_graph_id": 3}, timeout=1),
            lambda: rep.providers,
            lambda: rep.session,
            rep.run_options,
            lambda: prepare(rep, run_config={"gpu_graph_id": 3}),
        ):
            with self.assertRaisesRegex(RuntimeError, "^The prepared model is closed$"):
                use()
        rep.close()  # again
        self.assertIn("closed", repr(rep))
        self.assertEqual(dict(rep.provider_options), {CPU: {}})  # the applied configuration stays available


class NamesTest(unittest.TestCase):
    def test_a_name_of_a_session_has_advice(self):
        rep = prepare(two_nodes())
        for name, advice in (("get_inputs", "Use rep.session.get_inputs$"), ("no_name", "has no attribute 'no_name'$")):
            with self.assertRaisesRegex(AttributeError, advice):
                getattr(rep, name)
            self.assertFalse(hasattr(rep, name))

    def test_a_subclass_whose_constructor_fails(self):
        class Own(type(prepare(two_nodes()))):
            def __init__(self) -> None:
                raise ValueError

        with mock.patch("sys.unraisablehook") as unraisable, self.assertRaises(ValueError):
            Own()
        unraisable.assert_not_called()


class DescriptionTest(unittest.TestCase):
    def test_repr(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "some model\x1b.onnx")
            path.write_bytes(two_nodes().SerializeToString())
            rep = prepare(
                str(path),
                provider_options={CPU: {}},
                session_config={SPINNING: 0},
                run_config=SHRINKING,
                intra_op_num_threads=2,
            )
        self.assertEqual(
            repr(rep),
            f"<OnnxRuntimeBackendRep of 'some model\\x1b.onnx': 2 of 2 nodes on {CPU}, "
            f"provider_options={{'{CPU}': {{}}}}, session_options={{'intra_op_num_threads': 2}}, "
            f"session_config={{'{SPINNING}': '0'}}, "
            f"run_config={SHRINKING}>",
        )
        plain = repr(prepare(two_nodes()))  # OpenVINO always has a record of its nodes
        self.assertRegex(plain, rf"^<OnnxRuntimeBackendRep of graph 'test'(:.*)? on .*{CPU}>$")

    def test_an_attribute_that_ort_changed_is_told(self):
        # As the EP of DirectML does, which has no memory patterns.
        changed = onnxruntime.SessionOptions()
        changed.enable_mem_pattern = False
        with (
            mock.patch.object(onnxruntime.InferenceSession, "get_session_options", lambda _: changed),
            self.assertWarnsRegex(RuntimeWarning, "enable_mem_pattern was set to True, and the session has False"),
        ):
            rep = prepare(two_nodes(), enable_mem_pattern=True)
        self.assertEqual(rep.session_options, {"enable_mem_pattern": False})
        self.assertEqual(rep.unconfirmed, {"session_options": {"enable_mem_pattern": True}})

    def test_a_copy_shares_the_session(self):
        rep = prepare(two_nodes(), session_config=PREPACKING, run_config=SHRINKING)
        rep.__class__ = type("OfTheApplication", (type(rep),), {})
        rep.note = "of the application"
        others = copy.copy(rep), rep.with_run_config({})
        for other in others:
            self.assertEqual((type(other), other.note), (type(rep), rep.note))
            self.assertIs(other.session, rep.session)
            self.assertEqual(other.configuration(), rep.configuration())
        rep.close()
        for other in others:
            np.testing.assert_array_equal(other.run([X])[0], X)


class ConfigurationTest(unittest.TestCase):
    """``rep.configuration()`` is plain data, and ``prepare`` accepts it."""

    def test_it_repeats_everything(self):
        model = two_nodes()
        given = {
            "provider_options": {CPU: {}},
            "session_config": {"session.intra_op.allow_spinning": False, **PREPACKING},
            "run_config": SHRINKING,
            "execution_mode": onnxruntime.ExecutionMode.ORT_PARALLEL,
            "graph_optimization_level": "ORT_ENABLE_BASIC",
            "session_options": {"intra_op_num_threads": 2, "inter_op_num_threads": 2, "logid": "mine"},
        }
        rep = prepare(model, **given)
        configuration = rep.configuration()
        text = json.dumps(configuration)
        self.assertEqual(json.loads(text), configuration)
        again = prepare(model, **configuration)
        self.assertEqual(again.configuration(), configuration)
        for name in ("providers", "provider_options", "session_options", "session_config", "run_config"):
            self.assertEqual(getattr(again, name), getattr(rep, name), name)
        for part in (*configuration.values(), *configuration["provider_options"].values()):
            part["x"] = 1  # the caller owns it
        self.assertEqual(rep.configuration(), json.loads(text))

    def test_nothing_specified_is_nothing(self):
        available = usable_providers()
        for source, given, providers in (
            (two_nodes(), {}, available),
            (two_nodes(), {"provider_options": None, "session_config": {}, "run_config": {}}, available),
            (open_session(), {}, (CPU,)),
        ):
            rep = prepare(source, **given)
            self.assertEqual((rep.providers, rep.configuration()), (providers, {}))
            # ORT records the nodes for the check of models on OpenVINO.
            self.assertEqual(rep.node_assignment is not None, "OpenVINOExecutionProvider" in providers)
            self.assertEqual([getattr(rep, name) for name in REPORTS], [{}] * len(REPORTS))
        empty = prepare(two_nodes(), provider_options={}, session_config={})
        self.assertEqual(empty.configuration(), {"provider_options": {}})

    def test_a_program_cannot_change_a_report(self):
        with warnings.catch_warnings(action="ignore"):
            specified = {"provider_options": {CPU: {}}, "session_config": PREPACKING, "run_config": SHRINKING}
            reps = (prepare(two_nodes(), **specified, inter_op_num_threads=2), prepare(open_session()))
        for rep, name in itertools.product(reps, REPORTS):
            with self.subTest(name):
                before = repr(getattr(rep, name))
                whole = getattr(rep, name)
                for report in (whole, *whole.values()):
                    if isinstance(report, Mapping):
                        report["x"] = "1"
                with self.assertRaises(AttributeError):
                    setattr(rep, name, None)
                self.assertEqual(repr(getattr(rep, name)), before)
        self.assertFalse(NOTHING)

    def test_where_the_nodes_are(self):
        rep = prepare(two_nodes(), provider_options={CPU: {}})
        self.assertEqual(f"{rep.node_assignment}", f"2 of 2 nodes on {CPU}")
        for counts, sentence in (
            ({"X": 3, CPU: 409}, f"3 of 412 nodes on X, 409 on {CPU}"),
            ({"X": 0, "Y": 1, CPU: 0}, f"0 of 1 nodes on X, 1 on Y, 0 on {CPU}"),
        ):
            nodes = {ep: [None] * count for ep, count in counts.items()}
            with mock.patch.object(nodes_of_session, "recorded_nodes", return_value=nodes):
                self.assertEqual(str(rep.node_assignment), sentence)
                self.assertIn(f"of graph 'test': {sentence}, provider_options=", repr(rep))


@unittest.skipUnless(hasattr(onnxruntime, "ModelPackageContext"), "requires ONNX Runtime 1.32 or newer")
class ModelPackageTest(unittest.TestCase):
    """A session that ORT creates from a model package, with a path and bytes that are ``None``."""

    def test_it_is_prepared_run_and_closed(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        variant = {"ep": CPU, "executor_info": {"ort": {"model_file": "model.onnx"}}}
        manifest = {"schema_version": "1.0", "components": {"whole": {"variants": {"default": variant}}}}
        Path(folder, "model.onnx").write_bytes(two_nodes().SerializeToString())
        Path(folder, "manifest.json").write_text(json.dumps(manifest))
        package = onnxruntime.ModelPackageContext(folder)
        options = onnxruntime.ModelPackageOptions(onnxruntime.SessionOptions())
        session = package.select_component("whole", options).create_session()
        with prepare(session, run_config=SHRINKING) as rep:
            self.assertEqual((rep.providers, dict(rep.run_config)), ((CPU,), SHRINKING))
            for inputs in ([X], [X.tolist()]):  # the fast path, and the general path
                np.testing.assert_array_equal(rep.run(inputs)[0], X)
            with self.assertRaises(onnxruntime.backend.NotPermittedError):
                prepare(session, session_config=PREPACKING)
        with self.assertRaisesRegex(RuntimeError, "closed"):
            rep.run([X])


class WithoutEffectTest(unittest.TestCase):
    def test_an_entry_without_effect_is_listed_wherever_it_was_passed(self):
        self.enterContext(warnings.catch_warnings(action="ignore"))
        for call in (
            lambda: prepare(two_nodes(), run_config=IDLE),
            lambda: prepare(two_nodes()).with_run_config(IDLE),
            lambda: prepare(prepare(two_nodes()).session, run_config=IDLE),
        ):
            rep = call()
            self.assertEqual(rep.unconfirmed, {"run_config": {"gpu_graph_id": "5"}})
            self.assertEqual(rep.configuration(), rep.unconfirmed)
            self.assertEqual(len(rep.warnings), 1)
        rep = prepare(two_nodes(), inter_op_num_threads=2)
        other = rep.with_run_config(IDLE).with_run_config({"gpu_graph_id": 6})
        threads = {"inter_op_num_threads": 2}
        self.assertEqual(other.unconfirmed, {"session_options": threads, "run_config": {"gpu_graph_id": "6"}})
        self.assertEqual(rep.unconfirmed, {"session_options": threads})
        self.assertEqual((len(rep.warnings), len(other.warnings)), (1, 3))


class CloseBesideARunTest(unittest.TestCase):
    def test_a_run_that_has_begun_ends(self):
        """Another thread closes the model while the run converts its inputs."""
        for keywords in ({}, {"run_config": SHRINKING}, {"timeout": 60}, {"cancellation": Cancellation()}):
            rep = prepare(two_nodes())
            convert = ModelInputs.feeds

            def close_first(inputs, given, rep=rep, convert=convert):
                rep.close()
                return convert(inputs, given)

            with self.subTest(keywords), mock.patch.object(ModelInputs, "feeds", close_first):
                np.testing.assert_array_equal(rep.run([X.tolist()], **keywords)[0], X)
            with self.assertRaisesRegex(RuntimeError, "closed"):
                rep.run([X])

    def test_closed_while_another_thread_prepares_its_first_run(self):
        rep = prepare(two_nodes())
        session, plan_runs = weakref.ref(rep.session), Plan.__init__

        def close_first(*arguments) -> None:
            rep.close()
            plan_runs(*arguments)

        with mock.patch.object(Plan, "__init__", close_first):
            np.testing.assert_array_equal(rep.run([X])[0], X)
        self.assertIsNone(session(), "the closed model keeps its session")


if __name__ == "__main__":
    unittest.main()
