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

from onnxruntime import InferenceSession, IOBinding, SessionOptions
from onnxruntime.backend.allowlist.rules import Permit
from onnxruntime.backend.allowlist.session_config import RECORD_ASSIGNMENT
from onnxruntime.backend.errors import reject, warn
from onnxruntime.backend.openvino import parallel_models, unsafe_models
from onnxruntime.backend.openvino.model_graph import Parts
from onnxruntime.backend.openvino.replacement import Origin, cannot_renew
from onnxruntime.backend.openvino.run_order import RunOrder
from onnxruntime.backend.openvino.structures import FORMS
from onnxruntime.backend.provider_names import OF_OPENVINO, OPENVINO
from onnxruntime.backend.session import parts, state

_PART = "openvino"


def create(
    create_session: Callable[[], InferenceSession], model: str | bytes, options: SessionOptions, permit: Permit
) -> InferenceSession:
    """Create a session whose inner session can be replaced, if the EP is right for the model."""
    if RECORD_ASSIGNMENT not in permit.session_config:
        if parts.config_entry(options, RECORD_ASSIGNMENT) != "1":  # ORT would log a warning
            options.add_session_config_entry(RECORD_ASSIGNMENT, "1")
    elif permit.session_config[RECORD_ASSIGNMENT] != "1":
        problem = f"{OPENVINO} needs this record for the check of the model. Omit the key, or use CPUExecutionProvider"
        reject(problem, "session_config", "", RECORD_ASSIGNMENT)
    if permit.kinds.get(OPENVINO) == "built-in":
        _keep_loaded()
    origin = Origin(model, create_session, permit.sizes)  # before ORT reads the files
    session, problem = _create_checked(create_session, origin, permit)
    if problem:
        problem = f"would return wrong results for this model: {problem}, or use CPUExecutionProvider"
        if permit.explicit:
            raise RuntimeError(f"{OPENVINO} {problem}")
        warning = f"{OPENVINO} is left out, because it {problem}"
        warn(warning)
        permit.warnings += (warning,)
        del permit.providers[OPENVINO]
        return create_session()
    origin.created = session._providers
    reference = weakref.ref(session)
    order = RunOrder(reference, origin.renew, origin.parallel_runs)
    state.of(session).keep(_PART, lambda: order)
    # A binding before ORT 1.31 does not keep the inner session, which a replacement releases.
    session.io_binding = partial(_io_binding, reference)
    return session


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


def _create_checked(
    create_session: Callable[[], InferenceSession], origin: Origin, permit: Permit
) -> tuple[InferenceSession | None, str]:
    """Create a session, and return it with the reason why the EP is not right for the model, ``""`` if it is right."""
    names = OF_OPENVINO.intersection(permit.providers)
    kind = permit.kinds[min(names)]
    form = FORMS[kind]
    try:
        graph = origin.graph()
        problem = unsafe_models.problem(unsafe_models.OF_MODELS, form, True, graph)
    except Exception:
        session = create_session()  # ORT's error is better if the model is not valid
        return session, f"the backend cannot check a model that is not in ONNX format ({form}). Pass one that is"
    if problem:
        return None, problem
    session = create_session()
    compiled = Parts(graph, session)
    if compiled.are_none:
        return session, ""
    is_known = parallel_models.is_known(session)
    return session, unsafe_models.problem(unsafe_models.OF_PARTS, form, is_known, graph, compiled)


def order_of(session: InferenceSession) -> RunOrder:
    """Return the order of the runs of a session. A session of the caller is not replaced."""

    def make() -> RunOrder:
        return RunOrder(weakref.ref(session), cannot_renew, _of_the_caller)

    return state.of(session).keep(_PART, make)


def why_serial(session: InferenceSession) -> str:
    """Return why no runs of a session are parallel, ``""`` if runs may be. Always ``""`` on other EPs."""
    if OF_OPENVINO.isdisjoint(session.get_providers()):
        return ""
    _, why = order_of(session).parallel_runs(session)
    return why


def _of_the_caller(_: InferenceSession) -> tuple[int, str]:
    return 1, "the application created the session"


def _io_binding(session: weakref.ref[InferenceSession]) -> IOBinding:
    """Return an IO binding that keeps its inner session, as ORT's own bindings do from 1.31 on."""
    binding = IOBinding(session())
    binding._session = session()._sess
    return binding
