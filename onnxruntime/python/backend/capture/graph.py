# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""A captured graph, with the buffers into which it replays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnxruntime import InferenceSession, OrtValue, RunOptions
from onnxruntime.backend.capture.graph_ids import GRAPH_ID
from onnxruntime.backend.runs.settings import RunSettings

Outputs = list[np.ndarray]
_ARRAY = np.ndarray  # an attribute or a zip takes a hundredth of the time of a replay


def with_id(call: RunSettings, graph_id: str) -> RunSettings:
    """Return the settings of a run with a graph id."""
    if call.entries.get(GRAPH_ID) == graph_id:
        return call
    entries = {**call.entries, GRAPH_ID: graph_id}
    return RunSettings(call.attributes, entries)


class Graph:
    """A captured graph. The lock of the session releases it. So it may not refer to the session."""

    def __init__(self, graph_id: str, session: InferenceSession) -> None:
        self._id = graph_id
        self.binding = session.io_binding()
        self.inner_binding = self.binding._iobinding
        # Of the inner session that captures the graph, which set_providers replaces.
        self._run = session._sess.run_with_iobinding
        self._copy_outputs = self.inner_binding.copy_outputs_to_cpu
        self.inputs: list[tuple[str, OrtValue]] = []
        # For each input, its index, the type, shape and strides of its array, and the function that copies the array.
        self._takes: list[tuple] = []
        self._last_options: tuple[RunSettings, RunOptions] | None = None

    def options(self, call: RunSettings) -> RunOptions:
        """Return the options of a run of this graph. They are those of the last run if the settings are."""
        last = self._last_options
        if last is not None and last[0] is call:
            return last[1]
        options = with_id(call, self._id).options
        self._last_options = call, options
        return options

    def add_input(self, name: str, array: np.ndarray, buffer: OrtValue) -> None:
        """Bind the buffer of the next input, of which :meth:`replay` takes arrays like this one."""
        self.inputs.append((name, buffer))
        self.binding.bind_ortvalue_input(name, buffer)
        like = np.empty_like(array, order="C")
        upload = buffer._ortvalue.update_inplace
        self._takes.append((len(self._takes), like.dtype, like.shape, like.strides, upload))

    def replay(self, inputs: Sequence[object], options: RunOptions) -> Outputs | None:
        """Return the outputs of a replay, or ``None`` if it does not take these inputs."""
        takes = self._takes
        if len(inputs) != len(takes):
            return None
        # Another thread that changes the shape of an array after this check gets wrong outputs of this run.
        for index, dtype, shape, strides, upload in takes:
            value = inputs[index]
            # numpy has one dtype object for each built-in type and byte order, so `is` compares both.
            if (
                type(value) is not _ARRAY
                or value.dtype is not dtype
                or value.shape != shape
                or value.strides != strides
            ):
                return None
            upload(value)
        self._run(self.inner_binding, options)
        return self._copy_outputs()
