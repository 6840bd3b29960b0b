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
from onnxruntime.backend.allowlist.permit import Permit, values_of
from onnxruntime.backend.allowlist.session_config import RECORD_ASSIGNMENT
from onnxruntime.backend.errors import Place, reject, warn
from onnxruntime.backend.openvino import fixed_shapes, known_defects
from onnxruntime.backend.openvino.replacement import Origin, cannot_renew
from onnxruntime.backend.openvino.run_order import RELEASES_MEMORY, SHRINKAGE, RunOrder
from onnxruntime.backend.provider_names import OF_OPENVINO, OPENVINO
from onnxruntime.backend.session import parts, state

_PART = "openvino"


def create(
    create_session: Callable[[], InferenceSession], model: str | bytes, options: SessionOptions, permit: Permit
) -> InferenceSession:
    """Create a session whose inner session can be replaced, if the EP has no known defect with the model."""
    if RECORD_ASSIGNMENT not in permit.session_config:
        if parts.config_entry(options, RECORD_ASSIGNMENT) != "1":  # ORT would log a warning
            options.add_session_config_entry(RECORD_ASSIGNMENT, "1")
    elif permit.session_config[RECORD_ASSIGNMENT].text != "1":
        problem = f"{OPENVINO} needs this record for the check of the model. Omit the key, or use CPUExecutionProvider"
        reject(Place("session_config", key=RECORD_ASSIGNMENT), problem)
    if permit.kinds.get(OPENVINO) == "built-in":
        _keep_loaded()
    origin = Origin(model, create_session)  # before ORT reads the files
    outline = origin.outline()
    problem = known_defects.that_ends_the_process(outline)
    if not problem:
        session = create_session()
        problem = known_defects.that_is_wrong(outline, session)
    if problem:
        if permit.explicit:
            raise RuntimeError(problem)
        warning = f"{OPENVINO} is left out: {problem}"
        warn(warning)
        permit.warnings += (warning,)
        del permit.providers[OPENVINO]
        return create_session()
    if origin.has_changed():  # ORT may have read another model
        outline = ModelProto()
    origin.created = session._providers
    order = _order_of_new(session, origin, fixed_shapes.why_serial(outline, session))
    if order.copies:
        if values_of(permit.attributes).get("enable_cpu_mem_arena") is False:
            reject(Place("enable_cpu_mem_arena"), RELEASES_MEMORY)
        if SHRINKAGE in permit.run_config:
            reject(Place("run_config", key=SHRINKAGE), RELEASES_MEMORY)
    state.of(session).keep(_PART, lambda: order)
    # A binding before ORT 1.31 does not keep the inner session, which a replacement releases.
    session.io_binding = partial(_io_binding, order.session)
    return session


def _order_of_new(session: InferenceSession, origin: Origin, why: str) -> RunOrder:
    # An output that is an input has its memory.
    inputs = {node.name for node in session.get_inputs()}
    is_apart = fixed_shapes.is_whole(session) and inputs.isdisjoint(node.name for node in session.get_outputs())
    order = RunOrder(weakref.ref(session), origin.renew, why, copies=not is_apart)
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


def order_of(session: InferenceSession) -> RunOrder | None:
    """Return the order of the runs of a session, ``None`` if they need none."""

    def make() -> RunOrder:
        return RunOrder(weakref.ref(session), cannot_renew, "the application created the session")

    order = state.of(session).keep(_PART, make)
    return None if order.not_for is session._providers else order


def why_serial(session: InferenceSession) -> str:
    """Return why no runs of a session are parallel, ``""`` if runs may be. Always ``""`` on other EPs."""
    if OF_OPENVINO.isdisjoint(session.get_providers()):
        return ""
    order = order_of(session)
    if order is None:
        return ""
    return order.why or "the application changed the session"


def _io_binding(session: Callable[[], InferenceSession]) -> IOBinding:
    """Return an IO binding that keeps its inner session, as ORT's own bindings do from 1.31 on."""
    binding = IOBinding(session())
    binding._session = session()._sess
    return binding
