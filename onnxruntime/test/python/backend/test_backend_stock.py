# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the interface of the stock backend."""

from __future__ import annotations

import unittest
import warnings
from unittest import mock

import numpy as np
from helpers.models import open_session, three_inputs, two_nodes
from onnx.backend.base import Backend, BackendRep

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend import NotPermittedError, backend, prepare
from onnxruntime.backend.backend import OnnxRuntimeBackend
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep
from onnxruntime.capi.onnxruntime_pybind11_state import EPFail

CPU = "CPUExecutionProvider"
DEVICE = onnxruntime.get_device()
MODEL = two_nodes().SerializeToString()
X = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)


def check(outputs: list) -> None:
    """Fail unless the model has computed these outputs from ``X``."""
    np.testing.assert_array_equal(outputs[0], abs(X))


class Wrapper:
    """A session of the caller that is not ORT's, with the three methods that the backend calls."""

    def __init__(self) -> None:
        self.inner = open_session()
        self.get_inputs, self.get_outputs = self.inner.get_inputs, self.inner.get_outputs

    def run(self, names, feeds, options: onnxruntime.RunOptions) -> list:
        return ["wrapped", *self.inner.run(names, feeds, options)]


class ModelsTest(unittest.TestCase):
    """Models that cannot be prepared."""

    def test_a_path_that_ort_would_cut_or_ignore(self):
        class Lying(str):
            __slots__ = ()

            def __contains__(self, item):
                return False

            def __len__(self):
                return 1

        for bad in ("", "x\0.png", Lying(""), Lying("x\0.png")):
            with self.subTest(bad), self.assertRaisesRegex(RuntimeError, "empty or contains a NUL") as raised:
                prepare(bad)
            self.assertNotIsInstance(raised.exception, NotPermittedError)

    def test_a_model_that_is_too_large_to_serialize(self):
        class EncodeError(Exception):
            """As protobuf raises it above 2 GB."""

        too_large = ValueError("This protobuf of onnx model is too large (>2GB).")
        for error, kind in ((EncodeError("Failed"), RuntimeError), (too_large, RuntimeError), (KeyError(1), KeyError)):
            failing = mock.Mock(spec=["SerializeToString", "graph"], **{"SerializeToString.side_effect": error})
            for made in (failing, two_nodes()):
                with mock.patch.object(backend, "check_model", side_effect=error), self.assertRaises(kind) as raised:
                    prepare(made)
                self.assertIn("save_as_external_data=True" if kind is RuntimeError else "1", str(raised.exception))
                self.assertIs(raised.exception.__context__ or raised.exception, error)


class ApiTest(unittest.TestCase):
    def test_backend_class(self):
        self.assertTrue(issubclass(OnnxRuntimeBackend, Backend) and issubclass(OnnxRuntimeBackendRep, BackendRep))
        for name in ("prepare", "supports_device", "is_compatible"):
            self.assertEqual(getattr(onnxruntime.backend, name), getattr(OnnxRuntimeBackend, name))
        self.assertEqual(onnxruntime.backend.run, OnnxRuntimeBackend.run_model)

    def test_run_node(self):
        with self.assertRaises(NotImplementedError):
            OnnxRuntimeBackend.run_node(two_nodes().graph.node[0], [X])

    def test_only_a_session_of_the_caller_falls_back(self):
        # Without OpenVINO, whose session is replaced after a failed run.
        with mock.patch.object(backend, "get_available_providers", return_value=[CPU]):
            rep, own = prepare(two_nodes()), prepare(open_session())
        inner = rep.session._sess = own.session._sess = mock.Mock()
        inner.is_webgpu_graph_capture_enabled.return_value = False
        inner.run.side_effect = EPFail("a device is gone")
        self.assertFalse(rep.session._enable_fallback)
        with self.assertRaisesRegex(EPFail, "a device is gone"):
            rep.run([X])
        with mock.patch("builtins.print"):  # ORT tells of it
            check(own.run([X]))
        self.assertIsNot(own.session._sess, inner)
        check(own.run([X]))

    def test_a_device_for_an_existing_session_on_the_cpu_causes_a_warning(self):
        session = open_session()
        for opened in (session, prepare(session)):
            for device, expected in (("CUDA", 1), ("TPU", 1), ("CPU", 0), (None, 0)):
                with self.subTest(device), warnings.catch_warnings(record=True, action="always") as given:
                    prepare(opened, device)
                    self.assertEqual(len(given), expected)
                    wrapped = OnnxRuntimeBackendRep(Wrapper())
                    self.assertIs(prepare(wrapped, device), wrapped)
                    self.assertEqual(len(given), expected)

    def test_other_providers_for_the_session(self):
        rep = prepare(two_nodes())
        rep.run([X])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # ORT warns where the EPs came in with the session options
            rep.session.set_providers([CPU])
        self.assertEqual(rep.providers, (CPU,))
        with mock.patch.object(rep.session, "run", wraps=rep.session.run) as ran:
            rep.run([X], logid="later")
        self.assertEqual(ran.call_args.args[2].logid, "later")
        check(rep.run([X]))

    def test_a_patched_run_is_seen(self):
        rep = prepare(two_nodes())
        for target in (onnxruntime.InferenceSession, rep._session):
            with mock.patch.object(target, "run", return_value={"Z": 1, "Y": 2}) as patched:
                self.assertEqual(rep.run([X]), [2])
            self.assertIsNone(patched.call_args.args[0])
        check(rep.run([X]))

    def test_a_session_of_a_subclass_runs_once(self):
        """Only ORT's own ``run`` may repeat a run on other EPs."""

        class Counting(onnxruntime.InferenceSession):
            runs, error = 0, None

            def run(self, *arguments):
                self.runs += 1
                if self.error:
                    raise self.error
                return super().run(*arguments)

        session = open_session(Counting)
        check(prepare(session).run([X]))
        session.error = EPFail("a device is gone")
        for number, inputs in enumerate(([X], [X.tolist()]), 2):
            with self.assertRaisesRegex(EPFail, "a device is gone"):
                prepare(session).run(inputs)
            self.assertEqual(session.runs, number)


class SubclassTest(unittest.TestCase):
    """Where a program steps in."""

    def test_prepare_sees_every_form_of_a_model(self):
        seen = []

        class Hooked(OnnxRuntimeBackend):
            @classmethod
            def prepare(cls, model, device=None, **kwargs):
                seen.append((type(model).__name__, device, {*kwargs}))
                if isinstance(model, onnxruntime.InferenceSession):
                    kwargs["run_config"] = {"gpu_graph_id": -1}
                return super().prepare(model, device, **kwargs)

        keywords = {
            "intra_op_num_threads": 1,
            "session_config": {"session.intra_op.allow_spinning": "0"},
            "run_config": {"memory.enable_memory_arena_shrinkage": "cpu:0"},
        }
        rep = Hooked.prepare(two_nodes(), DEVICE, **keywords)
        every, of_session = {*keywords}, {"intra_op_num_threads"}
        self.assertEqual(
            seen, [("ModelProto", DEVICE, every), ("bytes", DEVICE, every), ("InferenceSession", DEVICE, of_session)]
        )
        self.assertEqual(dict(rep.session_config), keywords["session_config"])
        self.assertEqual(dict(rep.run_config), keywords["run_config"] | {"gpu_graph_id": "-1"})
        # The session does not keep the applied configuration.
        self.assertEqual(dict(prepare(rep.session).run_config), {})

    def test_a_subclass_that_does_not_pass_the_session_on(self):
        class Mine(OnnxRuntimeBackend):
            @classmethod
            def prepare(cls, model, device=None, **kwargs):
                if isinstance(model, onnxruntime.InferenceSession):
                    return model
                return super().prepare(model, device, **kwargs)

        session = Mine.prepare(two_nodes(), session_config={"session.disable_prepacking": True})
        self.assertIsInstance(session, onnxruntime.InferenceSession)
        self.assertEqual(prepare(session).configuration(), {})

    def test_a_subclass_that_adds_settings(self):
        class Mine(OnnxRuntimeBackend):
            @classmethod
            def prepare(cls, model, device=None, **kwargs):
                if isinstance(model, cls.form):
                    kwargs[cls.keyword] = {"session.disable_prepacking": "1"}
                return super().prepare(model, device, **{**kwargs, "intra_op_num_threads": 1})

        Mine.form, Mine.keyword = bytes, "session_config"
        rep = Mine.prepare(two_nodes())
        self.assertEqual((rep.session_config, rep.warnings), ({"session.disable_prepacking": "1"}, ()))
        Mine.form = onnxruntime.InferenceSession
        with self.assertRaisesRegex(NotPermittedError, "^session_config: cannot be applied to an existing session"):
            Mine.prepare(two_nodes())

    def test_prepare_of_the_old_signature(self):
        class Mine(OnnxRuntimeBackend):
            @classmethod
            def prepare(cls, model, device=None, intra_op_num_threads=1):
                return super().prepare(model, device, intra_op_num_threads=intra_op_num_threads)

        check(Mine.run_model(two_nodes(), [X]))

    def test_a_run_of_its_own_gets_every_keyword(self):
        class Mine(OnnxRuntimeBackend):
            @classmethod
            def prepare(cls, model, device=None, **kwargs):
                return mock.Mock(run=lambda inputs, **keywords: [inputs, keywords])

        self.assertEqual(Mine.run_model(None, 1, mine=2, logid="a"), [1, {"mine": 2, "logid": "a"}])

    def test_own_answers(self):
        class Mine(OnnxRuntimeBackend):
            @classmethod
            def supports_device(cls, device):
                return device == "MINE"

        check(Mine.prepare(two_nodes(), "MINE").run([X]))
        self.assertFalse(Mine.is_compatible(two_nodes()))
        self.assertTrue(onnxruntime.backend.is_compatible(two_nodes()))
        with self.assertRaisesRegex(RuntimeError, "not supported"):
            Mine.prepare(two_nodes(), "CPU")

    def test_a_rep_that_sets_its_session_itself(self):
        class Own(OnnxRuntimeBackendRep):
            def __init__(self, model) -> None:
                self._session = onnxruntime.InferenceSession(model.SerializeToString(), providers=[CPU])

        rep = Own(two_nodes())
        check(rep.run([X]))
        v = np.arange(4, dtype=np.float32)
        rep._session = Own(three_inputs())._session
        np.testing.assert_array_equal(rep.run([v, v, v])[0], v)
        for other in (rep, Own(two_nodes())):
            self.assertEqual(dict(other.run_config), {})
        self.assertIsInstance(Own(two_nodes()).run_options(), onnxruntime.RunOptions)
        run_config = {"memory.enable_memory_arena_shrinkage": "cpu:0"}
        self.assertEqual(dict(Own(two_nodes()).with_run_config(run_config).run_config), run_config)

    def test_an_object_with_three_methods(self):
        wrapped, output = OnnxRuntimeBackendRep(Wrapper()).run([X])
        self.assertEqual(wrapped, "wrapped")
        np.testing.assert_array_equal(output, abs(X))
        with self.assertRaises(RuntimeError):  # as in stock, also for a number that ORT rejects as an array
            OnnxRuntimeBackendRep(Wrapper()).run([3.0])

    def test_an_object_without_get_outputs(self):
        without = Wrapper()
        del without.get_outputs
        self.assertEqual(OnnxRuntimeBackendRep(without).run([X])[0], "wrapped")

        by_name = Wrapper()  # the outputs of a mapping have the order of the model
        by_name.run = lambda names, feeds, options: {"Z": 0, "Y": 1}
        self.assertEqual(OnnxRuntimeBackendRep(by_name).run([X]), [1])


if __name__ == "__main__":
    unittest.main()
