# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Values of inputs that programs pass to ``onnxruntime.backend``, each with its model."""

import decimal

import numpy as np
from helpers.models import parsed, three_inputs, two_nodes

import onnxruntime

X = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
V = np.array([1, 2, 3, 4], np.float32)


def _identity(of: str) -> bytes:
    """Return a model that returns its input."""
    return parsed(f"({of} X) => ({of} Y) {{ Y = Identity (X) }}").SerializeToString()


class _Array:
    def __array__(self, dtype=None, copy=None):
        return X


FLOAT, INT64, STRING, BOOL = map(_identity, ("float[]", "int64[]", "string[]", "bool[]"))
SEQUENCE, OPTIONAL = map(_identity, ("seq(float[])", "optional(float[])"))
CAST_MAP = parsed(
    '(map(int64, float[]) X) => (float[] Y) { Y = ai.onnx.ml.CastMap <map_form = "DENSE"> (X) }', "ai.onnx.ml"
).SerializeToString()

VALUES = {
    "an array": (two_nodes(), X),
    "a list of one": (two_nodes(), [X]),
    "three in a list": (three_inputs(), [V, V, V]),
    "one array for three inputs": (three_inputs(), V),
    "a tuple": (two_nodes(), (X,)),
    "a mapping": (two_nodes(), {"X": X}),
    "a mapping of another name": (two_nodes(), {"Z": X}),
    "an iterator": (two_nodes(), iter([X])),
    "too few": (three_inputs(), [V, V]),
    "none": (two_nodes(), []),
    "None": (two_nodes(), None),
    "None in a list": (two_nodes(), [None]),
    "surplus": (two_nodes(), [X, X]),
    "float64 for float": (two_nodes(), [X.astype(np.float64)]),
    "float for text": (STRING, [X]),
    "another shape": (two_nodes(), [X[:1]]),
    "a lower rank": (two_nodes(), [X[0]]),
    "a higher rank": (two_nodes(), [X[None]]),
    "nested lists": (two_nodes(), [X.tolist()]),
    "list of ints": (INT64, [[1, 2]]),
    "list of bools": (BOOL, [[True, False]]),
    "list of texts": (STRING, [["a", "b"]]),
    "texts and numbers": (STRING, [["a", 1]]),
    "numbers for text": (STRING, [[1]]),
    "objects for text": (STRING, [np.array(["a", 1, None, 1.5], object)]),
    "bytes for text": (STRING, [np.array([b"a"], object)]),
    "array of fixed texts": (STRING, [np.array(["a", "bcd"])]),
    "a ragged list": (FLOAT, [[[1], [2, 3]]]),
    "a Python float": (FLOAT, [1.5]),
    "a Python int": (INT64, [3]),
    "a text for a number": (FLOAT, ["a"]),
    "an object": (FLOAT, [object()]),
    "np.void for text": (STRING, np.void(b"ab\0")),
    "an array of np.void for text": (STRING, [np.array([b"a", b"bc"], "V2")]),
    "np.void that is not UTF-8 for text": (STRING, [np.void(b"\xff")]),
    "np.void of fields for text": (STRING, [np.void((1, 2), "i4,i4")]),
    "with __array__": (FLOAT, [_Array()]),
    "memoryview": (FLOAT, [memoryview(X)]),
    "foreign byte order": (FLOAT, [X.astype(">f4")]),
    "not contiguous": (FLOAT, [X.T]),
    "OrtValue": (two_nodes(), [onnxruntime.OrtValue.ortvalue_from_numpy(X)]),
    "OrtValue alone": (two_nodes(), onnxruntime.OrtValue.ortvalue_from_numpy(X)),
    "sequence": (SEQUENCE, [[X, X[0]]]),
    "an array for a sequence": (SEQUENCE, [X]),
    "another type in a sequence": (SEQUENCE, [[X.astype(np.float64)]]),
    "optional": (OPTIONAL, [X]),
    "optional without a value": (OPTIONAL, [None]),
    "map": (CAST_MAP, {0: 1.5, 1: 2.0}),
    "map in a list": (CAST_MAP, [{0: 1.5, 1: 2.0}]),
}  # fmt: skip
SCALARS = (
    (FLOAT, (np.float32(2), np.float64(2), np.int64(2), np.bool_(True), np.str_("2"), np.timedelta64(2, "s"))),
    (INT64, (np.int64(2), np.int32(2), np.uint64(2), np.float64(2))),
    (BOOL, (np.bool_(True), np.int64(1))),
    (STRING, (np.str_("a"), np.float32(2))),  # not np.bytes_, beyond whose end ORT reads
)
LISTS = (
    (FLOAT, [1, 2.5], [True], ["1.5", b"2"], [1, "2"], ["x"], [1e300], [None], [decimal.Decimal(1)], [np.array(1)]),
    (INT64, [1.0, 2.0], [1.5], [np.float32(3)], ["7", b" 8 "], ["7.0"], [2**63], [2.0**63], [np.nan], [[1], [2.0]]),
    (BOOL, [1, 0], [1.0, 0.0], [2], ["0"], [None], [np.int8(1)]),
    (STRING, [np.array(1)], [np.array("a")], [1, 2.5, None], [np.void(b"a")], [np.void(b"a"), "b"]),
)  # fmt: skip
NAMES = {FLOAT: "float", INT64: "int64", BOOL: "bool", STRING: "text"}
