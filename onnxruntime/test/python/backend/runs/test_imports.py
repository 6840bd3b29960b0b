# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests that no run imports a module: an interrupt during an import can leave Python's import lock taken."""

import os
import unittest

import _above
from helpers.children import run_code
from helpers.execution_providers import CPU, OPENVINO, WEBGPU

import onnxruntime

# Those whose sessions have parts, and the one whose sessions have none.
EPS = {CPU, "CUDAExecutionProvider", OPENVINO, WEBGPU}

# A new process prepares a model, makes runs and errors of runs, and prints the modules that they import.
PROGRAM = """
import json, sys, warnings
import numpy as np
import onnxruntime, onnxruntime.backend
from helpers.models import two_nodes
from onnxruntime import InferenceSession

warnings.simplefilter("ignore")
model = two_nodes((2, 4)).SerializeToString()
session = InferenceSession(model, providers=[{ep!r}])
if {ep!r} not in session.get_providers():
    print("null")  # this machine has no device of the EP
    sys.exit()
if {own}:
    rep = onnxruntime.backend.prepare(session)
else:
    rep = onnxruntime.backend.prepare(model, provider_options={{{ep!r}: {{}}}})
imported = []
sys.addaudithook(lambda event, arguments: imported.append(arguments[0]) if event == "import" else None)
x = np.ones((2, 4), np.float32)
cancellation = onnxruntime.backend.Cancellation()
runs = {{
    "array": lambda: rep.run([x]),
    "list": lambda: rep.run([x.tolist()]),
    "time limit": lambda: rep.run([x], timeout=60),
    "cancellation": lambda: rep.run([x], cancellation=cancellation),
    "run config": lambda: rep.run([x], run_config={{"memory.enable_memory_arena_shrinkage": "cpu:0"}}),
    "attribute": lambda: rep.run([x], logid="a"),
    "shape": lambda: rep.run([x[0]]),
    "name of an input": lambda: rep.run({{"Z": x}}),
    "no input": lambda: rep.run([]),
    "key": lambda: rep.run([x], run_config={{"memory.enable_memory_arena_shrinkag": "cpu:0"}}),
    "value": lambda: rep.run([x], run_config={{"gpu_graph_id": "x"}}),
    "argument": lambda: rep.run([x], time_limit=5),
    "negative time limit": lambda: rep.run([x], timeout=-1),
    "name of a session": lambda: rep.get_inputs(),
    "lock": lambda: rep.device_lock(),
    "closed": lambda: (rep.close(), rep.run([x])),
}}
found = {{}}
for name, run in runs.items():
    try:
        run()
    except (RuntimeError, AttributeError):
        pass
    if imported:
        found[name] = imported[:]
    imported.clear()
print(json.dumps(found))
"""


class ImportTest(unittest.TestCase):
    def test_no_run_imports_a_module(self):
        for ep in EPS.intersection(onnxruntime.get_available_providers()):
            for own, configuration in ((False, "{}"), (True, "{}"), (False, '{"run_config": {}}')):
                environment = os.environ | {"ORT_ONNX_BACKEND_CONFIG": configuration}
                ran = run_code(PROGRAM.format(own=own, ep=ep), env=environment)
                if ep != CPU and ran.stdout.startswith("null"):
                    continue
                with self.subTest(ep, own=own, configuration=configuration):
                    self.assertEqual(ran.stdout, "{}\n", ran.stderr)


if __name__ == "__main__":
    unittest.main()
