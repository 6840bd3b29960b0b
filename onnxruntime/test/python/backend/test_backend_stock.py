# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the interface of the stock backend."""

import unittest
import warnings
from unittest import mock

import numpy as np
from helpers.inputs import X
from helpers.models import open_session, two_nodes

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend import NotPermittedError, backend, prepare
from onnxruntime.backend.backend import OnnxRuntimeBackend
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep
from onnxruntime.capi.onnxruntime_pybind11_state import EPFail, Fail

CPU = "CPUExecutionProvider"
DEVICE = onnxruntime.get_device()


def check(outputs: list) -> None:
    """Fail unless the model has computed these outputs from ``X``."""
    np.testing.assert_array_equal(outputs[0], abs(X))


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
    def test_only_a_session_of_the_caller_falls_back(self):
        # Without OpenVINO, whose session is replaced after a failed run.
        with mock.patch.object(backend, "get_available_providers", return_value=[CPU]):
            rep, own = prepare(two_nodes()), prepare(open_session())
        inner = rep.session._sess = own.session._sess = mock.Mock()
        inner.is_webgpu_graph_capture_enabled.return_value = False
        inner.run.side_effect = Fail("failed")
        self.assertRaises(Fail, rep.run, [X])
        inner.run.assert_called_once()
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

    def test_a_rep_that_sets_its_session_itself(self):
        class Own(OnnxRuntimeBackendRep):
            def __init__(self, model) -> None:
                self._session = onnxruntime.InferenceSession(model.SerializeToString(), providers=[CPU])

        rep = Own(two_nodes())
        self.assertEqual(dict(rep.run_config), {})
        self.assertIsInstance(rep.run_options(), onnxruntime.RunOptions)
        run_config = {"memory.enable_memory_arena_shrinkage": "cpu:0"}
        self.assertEqual(dict(rep.with_run_config(run_config).run_config), run_config)
        check(rep.run([X]))


if __name__ == "__main__":
    unittest.main()
