# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Refuses runs of a caller on a session that captures CUDA graphs, if these runs would return wrong values.

A replay uses the addresses of the captured run. The methods without an IO binding use new addresses in each run.
``run_with_iobinding`` must use the binding of the captured run. ORT refuses both for WebGPU.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from weakref import proxy, ref

from onnxruntime import InferenceSession, IOBinding, RunOptions
from onnxruntime.backend.capture.graph_ids import DEFAULT_ID, GRAPH_ID, ORDINARY
from onnxruntime.backend.session import capturing

_BINDING_METHOD = "run_with_iobinding"
_METHODS = ("run", "run_async", "run_with_ort_values", _BINDING_METHOD)
_REFUSED = (
    "{}: the session captures graphs, and a replay would write to memory that ORT has released. Call rep.run, which "
    "returns all outputs, or use an IO binding"
)
_OTHER_BINDING = (
    "run_with_iobinding: the graph of this gpu_graph_id was captured with another IO binding, so a replay would ignore "
    "this one. Use the first binding and change its inputs with update_inplace, or choose another id"
)


class _Refusal(partial):
    """A replaced method of a session. The session refers to it, so it may not refer to the session."""


def refuse_wrong(session: InferenceSession) -> threading.local:
    """Replace the methods that run a session, except those that a program has replaced.

    Return an object whose attributes are the graph ids that the calling thread has run with a binding.
    """
    # Its attributes are the bindings by graph id. Each thread has others, as ORT keeps the graphs of a CUDA session.
    bindings = threading.local()
    for name in _METHODS:
        if not is_replaced(session, name):
            method = getattr(type(session), name)
            setattr(session, name, _Refusal(_run, method, name, proxy(session), bindings))
    return bindings


def is_replaced(session: InferenceSession, name: str) -> bool:
    """Return whether a program has replaced a method of a session."""
    method = vars(session).get(name)
    return method is not None and type(method) is not _Refusal


def _run(
    method: Callable,
    name: str,
    session: InferenceSession,
    bindings: threading.local,
    *arguments: object,
    **keywords: object,
) -> object:
    """Run a session, unless it captures graphs and the run would return wrong values."""
    graph_id = _graph_id((*arguments, *keywords.values()))
    if graph_id != ORDINARY and capturing.of_session(session):
        if name != _BINDING_METHOD:
            raise RuntimeError(_REFUSED.format(name))
        binding = keywords.get("iobinding") or arguments[0]
        first: ref[IOBinding] = vars(bindings).setdefault(graph_id, ref(binding))
        if first() is not binding:  # a dead reference, too, is the binding of a captured run
            raise RuntimeError(_OTHER_BINDING)
    return method(session, *arguments, **keywords)


def _graph_id(arguments: tuple[object, ...]) -> str:
    """Return the graph id in the run options among the arguments."""
    for argument in arguments:
        if isinstance(argument, RunOptions):
            try:
                return argument.get_run_config_entry(GRAPH_ID)
            except RuntimeError:  # no such entry
                return DEFAULT_ID
    return DEFAULT_ID
