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
from functools import partial

from onnxruntime import InferenceSession, IOBinding
from onnxruntime.backend.openvino.replacement import Origin, cannot_renew
from onnxruntime.backend.openvino.run_order import RunOrder
from onnxruntime.backend.provider_names import OF_OPENVINO
from onnxruntime.backend.session import state

_PART = "openvino"


def create(
    create_session: Callable[[], InferenceSession], model: str | bytes, options: object, permit: object
) -> InferenceSession:
    """Create a session whose inner session can be replaced."""
    origin = Origin(model, create_session)  # before ORT reads the files
    session = create_session()
    origin.created = session._providers
    reference = weakref.ref(session)
    order = RunOrder(reference, origin.renew, origin.why_serial)
    state.of(session).keep(_PART, lambda: order)
    # A binding before ORT 1.31 does not keep the inner session, which a replacement releases.
    session.io_binding = partial(_io_binding, reference)
    return session


def order_of(session: InferenceSession) -> RunOrder:
    """Return the order of the runs of a session. A session of the caller is not replaced."""

    def make() -> RunOrder:
        return RunOrder(weakref.ref(session), cannot_renew, _of_the_caller)

    return state.of(session).keep(_PART, make)


def why_serial(session: InferenceSession) -> str:
    """Return why no runs of a session are parallel, ``""`` if runs may be. Always ``""`` on other EPs."""
    if OF_OPENVINO.isdisjoint(session.get_providers()):
        return ""
    return order_of(session).why_serial(session)


def _of_the_caller(_: InferenceSession) -> str:
    return "the application created the session"


def _io_binding(session: weakref.ref[InferenceSession]) -> IOBinding:
    """Return an IO binding that keeps its inner session, as ORT's own bindings do from 1.31 on."""
    binding = IOBinding(session())
    binding._session = session()._sess
    return binding
