# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Assigns an id to each graph: ORT keeps the graphs of a session by id, and on CUDA by thread, too."""

from __future__ import annotations

from collections.abc import Mapping

from onnxruntime.backend.errors import warn
from onnxruntime.backend.provider_names import TENSORRT

# The run config entry that selects the graph of a run. Without it, ORT uses graph 0.
GRAPH_ID = "gpu_graph_id"
# The graph id of a run without capture.
ORDINARY = "-1"
# The id that ORT uses if the run config has none, and the id of TensorRT's only graph.
DEFAULT_ID = "0"
# The allowlist permits ids up to 1023.
FIRST_AUTOMATIC_ID = 1024
# ORT keeps every graph as long as the session. 32 graphs of 50 nodes on tensors of 256 KiB take 26 MiB.
MOST_GRAPHS = 32

ONE_GRAPH = (
    f"{TENSORRT} keeps one graph for a session, of one set of input shapes, and {GRAPH_ID} has no effect. Prepare the "
    "model once more for other runs"
)
_OVERWRITTEN = (
    f"run_options({{'{GRAPH_ID}': {ORDINARY}}}) and captures exclude each other: on CUDA, a replay overwrites outputs "
    "that ORT allocated for runs with your own binding. Bind allocated values and use a graph id that rep.run does not "
    "use, or prepare the model without graph capture for such runs"
)


class GraphIds:
    """Assigns graph ids to runs of prepared models and to callers' own bindings. Threads may share an object.

    Only runs that are alone call :meth:`check` and :meth:`begin`.
    """

    def __init__(self, once: bool, on_webgpu: bool) -> None:
        """If ``once``, the EP captures one graph for a session, whatever the id, as TensorRT does."""
        self._once, self._on_webgpu = once, on_webgpu
        # The number of graphs that were ever begun. ORT may have captured each, and keeps it as long as the session.
        self._begun = 0
        # Why graphs of an id and input shapes are not captured.
        self.refused: dict[tuple, str] = {}
        # The input shapes of each id of a caller's run config.
        self._shapes: dict[str, list] = {}
        # For each id in use, whether runs of prepared models use it, and not a caller's binding. One operation of the
        # dict, setdefault, decides between threads. On CUDA, a capture also reserves ORDINARY.
        self._is_for_runs: dict[str, bool] = {}

    def reserve_for_runs(self, entries: Mapping[str, str]) -> None:
        """Reserve the graph id of a run config, if any, unless a caller's binding has it."""
        graph_id = entries.get(GRAPH_ID, ORDINARY)
        if graph_id != ORDINARY and not self._is_for_runs.setdefault(graph_id, True):
            raise RuntimeError(f"{GRAPH_ID}={graph_id} is used by run_options() of this session. Choose another id")

    def reserve_for_binding(self, entries: Mapping[str, str]) -> None:
        """Reserve the graph id of a run config, 0 without one, for a caller who runs the session with a binding."""
        graph_id = entries.get(GRAPH_ID, DEFAULT_ID)
        if graph_id == ORDINARY:
            if self._is_for_runs.setdefault(ORDINARY, False):
                raise RuntimeError(_OVERWRITTEN)
            return
        reserved = DEFAULT_ID if self._once else graph_id
        if self._is_for_runs.setdefault(reserved, False):
            raise RuntimeError(
                f"{GRAPH_ID}={graph_id} is used by run() of this session. For runs with your own binding, choose "
                f"another id, as in run_options({{'{GRAPH_ID}': 7}}), or {ORDINARY} for runs without capture"
            )

    def check(self, key: tuple) -> None:
        """Check that the graph of a caller's id (or ``None``) and input shapes may be captured."""
        graph_id, *shapes = key
        if self._once and (self._begun or graph_id is not None):
            raise RuntimeError(ONE_GRAPH)
        captured = self._shapes.get(graph_id, shapes)
        if captured != shapes:
            raise RuntimeError(
                f"{GRAPH_ID}={graph_id} was captured with inputs of shapes {captured}, but this run has {shapes}. "
                "Choose another id. Without an id, the backend selects one for each set of shapes"
            )
        if key in self.refused:
            raise RuntimeError(self.refused[key])

    def begin(self, key: tuple) -> str | None:
        """Return the id of a new graph. If the session has ``MOST_GRAPHS``, return ``None``, and warn once."""
        if self._begun >= MOST_GRAPHS:
            if self._begun == MOST_GRAPHS:
                self._begun += 1
                warn(
                    f"This session has captured {MOST_GRAPHS} graphs, one for each thread, set of input shapes and id, "
                    "and ORT never frees a graph. Other runs of this session do not capture"
                )
            return None

        graph_id, *shapes = key
        chosen = graph_id
        if graph_id is None:
            chosen = DEFAULT_ID if self._once else str(FIRST_AUTOMATIC_ID + self._begun)
        self.reserve_for_runs({GRAPH_ID: chosen})
        if not self._on_webgpu and not self._is_for_runs.setdefault(ORDINARY, True):
            raise RuntimeError(_OVERWRITTEN)
        self._begun += 1
        if graph_id is not None:
            # If the run fails, ORT may have captured a graph under this id. Automatic ids are never used again.
            self.refused[key] = f"the first run with {GRAPH_ID}={graph_id} failed. Choose another id or none"
            self._shapes[graph_id] = shapes
        return chosen
