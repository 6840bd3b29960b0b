# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Creates a session with its parts, and explains why it cannot be created."""

from __future__ import annotations

from collections.abc import Iterable

from onnxruntime import InferenceSession, SessionOptions
from onnxruntime.backend.allowlist.permit import Permit
from onnxruntime.backend.errors import NotPermittedError, reworded
from onnxruntime.backend.session import failures, free_dimensions, model_file, presence, selection
from onnxruntime.backend.session.construction import Construction
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidProtobuf


def create(
    model: str | bytes,
    permit: Permit,
    libraries: Iterable[str],
    options: SessionOptions,
    released_opsets: bool = True,
    session_class: type[InferenceSession] = InferenceSession,
) -> tuple[InferenceSession, Permit, tuple[str, ...]]:
    """Create a session, and return the permit of its settings and the names of the registered libraries, too.

    If EPs were specified, the session gets exactly these EPs in their order, then the CPU EP, without any fallback.
    Otherwise it gets all available EPs, as in ORT's own backend.

    :param released_opsets: whether ORT rejects a model that imports an opset that is not released.
    """
    presence.check_available(permit)
    parts = selection.for_permit(permit)
    wanted = Construction(model, permit, options, libraries, released_opsets, session_class, parts)
    registered, shapes = wanted.configure()
    try:
        session = wanted.create()
    except NotPermittedError:
        raise
    except Exception as error:
        failures.reject_setting(error, permit)
        reason = failures.explain(error)
        if not reason:
            problem = model_file.problem(model, isinstance(error, InvalidProtobuf))
            if not problem:
                raise
            reason = f"{problem}. ORT error: {error}"
        raise reworded(type(error), reason) from None
    if permit.sizes:
        free_dimensions.verify(session, shapes, permit.sizes)
    return session, wanted.permit, registered
