# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Which step the backend proposes if a model cannot be captured. Needs no device.

``helpers/capture_behaviour.py`` tests the same on devices.
"""

from __future__ import annotations

import unittest
from types import SimpleNamespace
from unittest import mock

from onnxruntime.backend.allowlist.permit import Permit
from onnxruntime.backend.allowlist.rules import Setting
from onnxruntime.backend.capture import advice
from onnxruntime.backend.errors import NotPermittedError, Place
from onnxruntime.backend.provider_names import CAPTURE_SWITCHES, CPU, CUDA
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

REFUSAL = Fail(f"This session cannot use the {advice.OF_ORT} as requested")
CONTROL_FLOW = Fail(f"{REFUSAL} as the model has control flow nodes")
OTHER = Fail("Incompatible dimensions")
WITHOUT = r"\. Prepare the model without graph capture(\. ORT error: .*)?$"


def setting(value: bool) -> Setting:
    return Setting(Place("provider_options"), mock.Mock(), value, str(int(value)))


def permit(ep: str = CUDA, sizes: dict | None = None) -> Permit:
    settings = {"device_id": setting(False), CAPTURE_SWITCHES[ep]: setting(True)}
    return Permit("", True, {CPU: {}, ep: settings}, sizes=sizes or {})


def session(*shapes: list, on_cpu: str = "") -> SimpleNamespace:
    """A session without capture, with these shapes of inputs, and operators on the CPU EP."""
    nodes = [SimpleNamespace(domain="", op_type=operator) for operator in on_cpu.split()]
    subgraph = SimpleNamespace(ep_name=CPU, get_nodes=lambda: nodes)
    return SimpleNamespace(
        get_inputs=lambda: [SimpleNamespace(shape=shape) for shape in shapes],
        get_providers=lambda: [CUDA, CPU],
        get_provider_graph_assignment_info=lambda: [subgraph],
    )


def refused(ep: str = CUDA, reason: str = "node 'n' is not known") -> NotPermittedError:
    """Return a refusal of the backend's own check."""
    place = {"keyword": "provider_options", "provider": ep, "key": CAPTURE_SWITCHES[ep]}
    return NotPermittedError("", **place, reason=reason)


class AdviceTest(unittest.TestCase):
    def explain(self, error: Exception, *results: object, ep: str = CUDA, sizes: dict | None = None) -> str:
        """Return the message if the model is opened with these results, and check the settings of each."""
        opened = mock.Mock(side_effect=results)
        with self.assertRaises(NotPermittedError) as raised:
            advice.explain(error, permit(ep, sizes), opened)
        found = raised.exception
        self.assertEqual((found.keyword, found.provider, found.key), ("provider_options", ep, CAPTURE_SWITCHES[ep]))
        self.assertTrue(str(found).endswith(found.reason))
        self.permits = [call.args[0] for call in opened.call_args_list]
        self.assertEqual(len(self.permits), len(results))
        return str(found)

    def test_fixed_sizes_that_do_not_help(self):
        same = r"\. The same applies with free_dimension_overrides=\{'N': 1\}" + WITHOUT
        message = self.explain(REFUSAL, session(["N"], on_cpu="Shape"), refused())
        self.assertRegex(message, f"node 'n' is not known{same}")
        message = self.explain(REFUSAL, session(["N"], on_cpu="Shape"), REFUSAL, session([1], on_cpu="Det"))
        self.assertRegex(message, rf"\(Det 1\){same}")
        self.assertEqual([one.sizes for one in self.permits], [{}, {"N": 1}, {"N": 1}])
        # The model does not have the size.
        message = self.explain(REFUSAL, session(["N"], on_cpu="Shape"), OTHER)
        self.assertRegex(message, r"\(Shape 1\)\. Fix the sizes .*\{'N': 1\}\. Otherwise, prepare")

    def test_no_named_dimensions(self):
        self.assertRegex(self.explain(REFUSAL, session([2, 3], on_cpu="Det")), r"\(Det 1\)" + WITHOUT)
        self.assertRegex(self.explain(REFUSAL, session([2, None])), "Give the inputs of the model fixed shapes")
        self.assertRegex(self.explain(CONTROL_FLOW, session([2])), "contains If, Loop, or Scan" + WITHOUT)
        self.assertRegex(self.explain(REFUSAL, MemoryError()), "not all nodes are on the EP" + WITHOUT)

    def test_the_message_is_bounded(self):
        names = [f"{i}" * 1000 for i in range(9)]
        operators = " ".join(name + "\x1b\u00fc" for name in names)
        message = self.explain(REFUSAL, session(names, on_cpu=operators), session(), sizes={"M": 4})
        self.assertIn(", and 4 other operators)", message)
        self.assertIn("With free_dimension_overrides={'M': 4, ", message)
        self.assertLess(len(message), 1500)
        self.assertTrue(message.isascii() and message.isprintable())

    def test_other_errors(self):
        opened = mock.Mock()
        for error in (OTHER, refused(), NotPermittedError("", provider=CUDA, key="device_id")):
            advice.explain(error, permit(), opened)
        opened.assert_not_called()


if __name__ == "__main__":
    unittest.main()
