# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Compares ONNX's backend tests on this backend, on the stock backend and on bare sessions, with causes.

The exit status is 1 if a test fails on this backend, and passes on the stock backend or, with onnx 1.19 or newer, on a
bare session. The bare session gets values made by onnx's helpers and ``OrtValue``. The exit status is also 1 if a test
is skipped on this backend only.
"""

from __future__ import annotations

import argparse
import collections
import ctypes
import re
import sys

import numpy as np
import onnx
import onnx_series as series
from onnx import TensorProto, numpy_helper
from onnx.backend.base import Backend, BackendRep

import onnxruntime
from onnxruntime import InferenceSession, OrtValue
from onnxruntime.backend.backend import OnnxRuntimeBackend

# Types that numpy lacks: bfloat16, float8e5m2, float4e2m1, int4, uint2 and others.
_NUMPY_LACKS = re.compile(r"tensor\((bfloat16|float8\w+|float4\w+|u?int[24])\)")


class BareBackend(Backend):
    """ORT without a backend, to find the cause of a failure. It shares no code with the backend under test."""

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"

    @classmethod
    def prepare(cls, model, device="CPU", **kwargs) -> BareRep:
        return BareRep(InferenceSession(model.SerializeToString(), providers=onnxruntime.get_available_providers()))


class BareRep(BackendRep):
    """A session with the input and output values of ONNX's test runner."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session

    def run(self, inputs, **kwargs) -> list:
        feeds = {node.name: _to_ort(value) for node, value in zip(self._session.get_inputs(), inputs, strict=False)}
        outputs = self._session.get_outputs()
        names = [node.name for node in outputs]
        if any(_NUMPY_LACKS.search(node.type) for node in outputs):
            return [_from_ort(value) for value in self._session.run_with_ort_values(names, feeds)]
        return self._session.run(names, feeds)


def _to_ort(value: object) -> object:
    if value is None or isinstance(value, list):
        return value
    tensor = numpy_helper.from_array(np.asarray(value))
    if tensor.data_type == TensorProto.STRING:
        return value
    result = OrtValue.ortvalue_from_shape_and_type(list(tensor.dims), tensor.data_type)
    ctypes.memmove(result.data_ptr(), tensor.raw_data, len(tensor.raw_data))
    return result


def _from_ort(value: OrtValue) -> np.ndarray:
    data = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return numpy_helper.to_array(TensorProto(data_type=value.element_type(), dims=value.shape(), raw_data=data))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("stock", help="the Python of an environment with the stock wheel and the same onnx")
    arguments = parser.parse_args()
    onnxruntime.set_default_logger_severity(4)
    columns = {
        "stock": series.outcomes_of(arguments.stock, {}),
        "ours": series.outcomes(series.configured(OnnxRuntimeBackend, {})),
        "bare": series.outcomes(series.configured(BareBackend, {})),
    }
    ours = columns["ours"]
    if any(column.keys() != ours.keys() for column in columns.values()):
        raise SystemExit("The environments do not have the same tests: they must have the same onnx.")
    print(f"\nonnxruntime {onnxruntime.__version__}, onnx {onnx.__version__}: {len(ours)} tests")
    print(f"{'':8}{'passed':>8}{'failed':>8}{'skipped':>8}")
    for title, column in columns.items():
        counts = collections.Counter(outcome.result for outcome in column.values())
        print(f"{title:8}{counts['passed']:8}{counts['failed']:8}{counts['skipped']:8}")

    failed = {name: outcome.reason for name, outcome in ours.items() if outcome.result == "failed"}
    print("\nFailures by cause:", dict(collections.Counter(reason.partition(": ")[0] for reason in failed.values())))
    here_only = {
        "fail here, and pass on a bare session": [name for name in failed if columns["bare"][name].result == "passed"],
        "fail here, and pass on the stock backend": [
            name for name in failed if columns["stock"][name].result == "passed"
        ],
        "are skipped here, and not on the stock backend": [
            name for name in ours if ours[name].result == "skipped" != columns["stock"][name].result
        ],
    }
    for meaning, names in here_only.items():
        print(f"\n{len(names)} {meaning}", *(f"  {name}: {ours[name].reason}" for name in names), sep="\n")
    # With an older onnx, the backend does not support the types that numpy lacks.
    bare, *others = here_only.values()
    answers_for_bare = tuple(map(int, onnx.__version__.split(".")[:2])) >= (1, 19)
    return 1 if any(others) or (bare and answers_for_bare) else 0


if __name__ == "__main__":
    sys.exit(main())
