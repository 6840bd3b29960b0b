# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Models with one input of any type, and the check of an ``InputError``."""

import functools
import unittest

import numpy as np

from helpers.models import on_cpu
from onnxruntime.backend import InputError
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep

# The keyword arguments of a run: without a time limit, and with one if this build contains the optional part.
LIMITS = ({}, {"timeout": 60})
X = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)


@functools.cache
def identity(of: str) -> OnnxRuntimeBackendRep:
    """Prepare a model that returns its input, of a type such as ``float[2]``; of any shape without dimensions."""
    of = of if of.endswith((")", "]")) else f"{of}[]"
    return on_cpu(f"({of} X) => ({of} Y) {{ Y = Identity (X) }}")


@functools.cache
def cast(source: str) -> OnnxRuntimeBackendRep:
    return on_cpu(f"({source}[] X) => (float[] Y) {{ Y = Cast <to = 1> (X) }}")


def vectorizer(key: str, vocabulary: str) -> OnnxRuntimeBackendRep:
    made = f"Y = ai.onnx.ml.DictVectorizer <{key}_vocabulary = [{vocabulary}]> (X)"
    return on_cpu(f"(map({key}, float[]) X) => (float[] Y) {{ {made} }}")


class InputTestCase(unittest.TestCase):
    def refused(
        self,
        rep: OnnxRuntimeBackendRep,
        inputs: object,
        got: str,
        name: str | None = "X",
        expected: str | None = None,
        **keywords: object,
    ) -> InputError:
        """Check that a run raises an ``InputError`` for this input, with this description of its value."""
        with self.assertRaises(InputError) as caught:
            rep.run(inputs, **keywords)
        error = caught.exception
        self.assertEqual((error.input, error.got), (name, got))
        if expected is not None:
            self.assertEqual(error.expected, expected)
        return error
