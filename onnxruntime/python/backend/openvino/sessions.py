# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Creates the sessions of the OpenVINO EP, and gives each an order of its runs.

After a failed run, the order (:mod:`.run_order`) lets the next run replace the inner session (:mod:`.replacement`).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial

from onnx import ModelProto

from onnxruntime import InferenceSession, IOBinding, SessionOptions
from onnxruntime.backend.allowlist.rules import texts_of, values_of
from onnxruntime.backend.allowlist.session_config import RECORD_ASSIGNMENT
from onnxruntime.backend.errors import Place, reject, warn
from onnxruntime.backend.openvino import fixed_shapes, known_defects
from onnxruntime.backend.openvino.replacement import Origin
from onnxruntime.backend.openvino.run_order import RELEASES_MEMORY, SHRINKAGE, RunOrder
from onnxruntime.backend.provider_names import OPENVINO
from onnxruntime.backend.runs.direct_route import Guard
from onnxruntime.backend.session import state
from onnxruntime.backend.session.construction import Construction, SessionPart, config_entry

_MOVES_MEMORY = (
    "with memory patterns, ORT moves the values between the parts of this graph, and OpenVINO writes into their old "
    "addresses. Leave the setting out, or specify CPUExecutionProvider"
)


class OpenVINOPart(SessionPart):
    """Creates a session whose inner session can be replaced, and gives it an order of its runs."""

    name = "openvino"

    def create(self, construction: Construction) -> InferenceSession:
        """Create a session, without OpenVINO's EP if it has a known defect with the model and was not specified."""
        permit = construction.permit
        _record_assignment(construction)
        has_patterns = values_of(permit.attributes).get("enable_mem_pattern")
        if has_patterns is None:
            construction.options.enable_mem_pattern = False
        if permit.kinds.get(OPENVINO) == "built-in":
            _keep_loaded()
        origin = Origin(construction.model, construction.create)  # before ORT reads the files
        outline = origin.outline()
        problem = known_defects.that_ends_the_process(outline)
        if not problem:
            session = construction.create()
            problem = known_defects.that_is_wrong(outline, session)
        if problem:
            if permit.explicit:
                raise RuntimeError(problem)
            _leave_out(construction, problem)
            return construction.create()
        if origin.has_changed():  # ORT may have read another model
            outline = ModelProto()
        origin.created = session._providers
        order = _order_of_new(session, origin, outline)
        if order.copies:
            if has_patterns:
                reject(permit.attributes["enable_mem_pattern"].place, _MOVES_MEMORY)
            if values_of(permit.attributes).get("enable_cpu_mem_arena") is False:
                reject(permit.attributes["enable_cpu_mem_arena"].place, RELEASES_MEMORY)
            if SHRINKAGE in permit.run_config:
                reject(permit.run_config[SHRINKAGE].place, RELEASES_MEMORY)
        state.of(session).keep(self.name, lambda: order)
        # A binding before ORT 1.31 does not keep the inner session, which a replacement releases.
        session.io_binding = partial(_io_binding, order.session)
        return session

    def guard(self, session: InferenceSession, inner: Guard | None) -> Guard | None:
        order = _order_of(session)
        return inner if order.not_for is session._providers else order.run

    def why_serial(self, session: InferenceSession) -> str:
        order = _order_of(session)
        if order.not_for is session._providers:
            return ""
        return order.why or "the application changed the session"


def _record_assignment(construction: Construction) -> None:
    """Let ORT record the EP of each node."""
    entries = texts_of(construction.permit.session_config)
    if entries.get(RECORD_ASSIGNMENT, "1") != "1":
        problem = f"{OPENVINO} needs this record for the check of the model. Omit the key, or use CPUExecutionProvider"
        reject(Place("session_config", key=RECORD_ASSIGNMENT), problem)
    if config_entry(construction.options, RECORD_ASSIGNMENT) != "1":  # ORT would log a warning
        construction.options.add_session_config_entry(RECORD_ASSIGNMENT, "1")


def _leave_out(construction: Construction, problem: str) -> None:
    """Leave OpenVINO's EP out of a session, and warn."""
    warning = f"{OPENVINO} is left out: {problem}"
    warn(warning)
    permit = construction.permit
    if "enable_mem_pattern" not in permit.attributes:
        construction.options.enable_mem_pattern = True
    providers = {ep: options for ep, options in permit.providers.items() if ep != OPENVINO}
    construction.permit = permit._replace(providers=providers, warnings=(*permit.warnings, warning))


def _order_of_new(session: InferenceSession, origin: Origin, outline: ModelProto) -> RunOrder:
    # An output that is an input has its memory.
    inputs = {node.name for node in session.get_inputs()}
    is_whole = fixed_shapes.is_whole(session)
    is_apart = is_whole and inputs.isdisjoint(node.name for node in session.get_outputs())
    is_known = len(outline.graph.node) > 0 and fixed_shapes.are_fixed(outline)
    why = fixed_shapes.why_serial(outline, session)
    order = RunOrder(weakref.ref(session), origin, why, copies=not is_apart, always_twice=not (is_whole or is_known))
    if not why:
        order.not_for = session._providers
    return order


@cache
def _keep_loaded() -> SessionOptions:
    """Keep OpenVINO's libraries until the process ends.

    Otherwise, they are released with the last session. If this happens in another thread, OpenVINO also releases the
    memory in which the thread that created the first session handles signals. The next signal terminates the process.
    """
    options = SessionOptions()
    with suppress(Exception):  # the error of the session itself is better
        options.add_provider(OPENVINO, {})
    return options


def _order_of(session: InferenceSession) -> RunOrder:
    def make() -> RunOrder:
        return RunOrder(weakref.ref(session), None, "the application created the session")

    return state.of(session).keep(OpenVINOPart.name, make)


def _io_binding(session: Callable[[], InferenceSession]) -> IOBinding:
    """Return an IO binding that keeps its inner session, as ORT's own bindings do from 1.31 on."""
    binding = IOBinding(session())
    binding._session = session()._sess
    return binding
