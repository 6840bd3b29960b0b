# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Creates a session with its parts, and explains why it cannot be created."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from onnxruntime import SessionOptions
from onnxruntime.backend.allowlist.permit import Permit
from onnxruntime.backend.errors import NotPermittedError, reworded
from onnxruntime.backend.session import construction, failures, model_file, presence, selection, state, unwritten
from onnxruntime.backend.session.construction import Construction, Created
from onnxruntime.backend.session.part import CreateSession
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidProtobuf


def create(
    model: str | bytes,
    permit: Permit,
    libraries: Iterable[str],
    options: SessionOptions,
    released_opsets: bool = True,
) -> tuple[Created, tuple[str, ...]]:
    """Create a session from a permit, and return it with the names of the registered libraries of custom operators.

    If EPs were specified, the session gets exactly these EPs in their order, then the CPU EP, without any fallback.
    Otherwise it gets all available EPs, as in ORT's own backend.

    :param released_opsets: whether ORT rejects a model that imports an opset that is not released.
    """
    presence.check_available(permit)
    wanted = Construction(model, permit, options, libraries, released_opsets)
    registered, shapes = wanted.configure()
    try:
        created = _create(wanted.attach())
    except NotPermittedError:
        raise
    except Exception as error:
        failures.reject_setting(error, permit.session_config)
        reason = failures.explain(error)
        if not reason:
            problem = model_file.problem(model, isinstance(error, InvalidProtobuf))
            if not problem:
                raise
            reason = f"{problem}. ORT error: {error}"
        raise reworded(type(error), reason) from None
    kept = state.of(created.session)
    kept.needs_elements, kept.has_concat = unwritten.check(model, created.session)
    if permit.sizes:
        construction.free_dimensions().verify(created.session, shapes, permit.sizes)
    return created, registered


def _create(wanted: Construction) -> Created:
    """Create a session. Its parts do this in their own way, one inside the other."""
    create_session: CreateSession = Construction.create
    for part in selection.for_permit(wanted.permit):
        create_session = partial(part.create, create_session)
    return create_session(wanted)
