# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""A structure of a model with which the OpenVINO EP is wrong, and the examined forms of the EP."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from onnxruntime.backend.openvino.model_graph import Graph, Parts

# The examined releases, which are those of parallel_models.py.
BUILT_IN, PLUGIN = "onnxruntime-openvino 1.24.1", "onnxruntime-ep-openvino 1.8.1"
FORMS = {"built-in": BUILT_IN, "plugin": PLUGIN}
BOTH = (BUILT_IN, PLUGIN)


class Structure(NamedTuple):
    """A structure of a model that is refused."""

    # Returns where a graph has it, such as "the output 'y'", or "".
    find: Callable[[Graph, Parts | None], str]
    forms: tuple[str, ...]  # the forms of the EP that have the defect, in their examined release
    effect: str
    step: str
    in_memory: bool = True  # whether the defect concerns memory. Then it is refused for other releases, too
