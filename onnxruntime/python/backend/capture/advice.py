# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Explains why a model cannot be captured, and which step helps.

In a model with free dimensions, nodes on the CPU EP compute shapes, and ORT does not capture some of these models. If
the sizes are fixed, ORT computes the shapes when it loads the model. The module tries fixed sizes before it proposes
them. This takes time only after a refusal.
"""

from __future__ import annotations

from collections.abc import Callable

from onnxruntime import InferenceSession
from onnxruntime.backend.allowlist.permit import Permit
from onnxruntime.backend.errors import NotPermittedError, Place, reject
from onnxruntime.backend.provider_names import CAPTURE_SWITCHES, CPU
from onnxruntime.backend.session import capturing, nodes, reports

OF_ORT = "graph capture feature"  # in each message of ORT about a model that it does not capture
WITHOUT = "Prepare the model without graph capture"
_OTHERWISE = "Otherwise, prepare the model without graph capture"
_KEYWORD = "provider_options"
_Open = Callable[[Permit], InferenceSession]


def explain(error: Exception, permit: Permit, open_again: _Open) -> None:
    """Raise a clearer error if ORT does not capture the model. Return if the error has another cause.

    :param open_again: opens the model with another permit.
    """
    if OF_ORT not in str(error):
        return
    ep = capturing.of_permit(permit)[0]
    reason, advice = _reason_and_advice(error, ep, permit, open_again)
    problem = f"{reason}. {advice}. ORT error: {error}"
    key = CAPTURE_SWITCHES[ep]
    reject(Place(_KEYWORD, ep, key), problem)


def _reason_and_advice(error: Exception, ep: str, permit: Permit, open_again: _Open) -> tuple[str, str]:
    without = _without_capture(permit, ep)
    ordinary = _opened(open_again, without)
    names = reports.free_dimensions(ordinary) if ordinary else []
    reason = _reason(error, ordinary)
    if not any(names):
        if names:
            return reason, f"Give the inputs of the model fixed shapes. {_OTHERWISE}"
        return reason, WITHOUT

    sizes = {**permit.sizes, **dict.fromkeys(filter(None, names), 1)}
    setting = f"free_dimension_overrides={sizes!a}"[:500]
    try:
        open_again(permit._replace(sizes=sizes))
    except Exception as failure:  # ORT raises classes without a common base
        same = f"The same applies with {setting}. {WITHOUT}"
        if OF_ORT in str(failure):
            fixed = _opened(open_again, without._replace(sizes=sizes))
            return _reason(failure, fixed), same
        # A refusal of eligibility.open_session.
        if isinstance(failure, NotPermittedError) and failure.key == CAPTURE_SWITCHES[ep]:
            return failure.reason, same
        # Such as a size that the model does not have.
        return reason, f"Fix the sizes of the free dimensions, as in {setting}. {_OTHERWISE}"
    return reason, f"With {setting}, the model can be captured. For several sizes, prepare the model once for each"


def _without_capture(permit: Permit, ep: str) -> Permit:
    settings = dict(permit.providers[ep])
    del settings[CAPTURE_SWITCHES[ep]]
    return permit._replace(providers={**permit.providers, ep: settings})


def _opened(open_again: _Open, permit: Permit) -> InferenceSession | None:
    try:
        return open_again(permit)
    except Exception:  # the refusal is raised in any case, with less information
        return None


def _reason(error: Exception, session: InferenceSession | None) -> str:
    """Return why ORT does not capture a model, with the operators that a session without capture has on the CPU EP."""
    reason = "ORT does not capture this model"
    if "control flow" in str(error):
        return f"{reason}, because it contains If, Loop, or Scan"
    on_cpu: list | None = None
    if session is not None:
        on_cpu = nodes.recorded_nodes(session).get(CPU)
    if not on_cpu:
        return f"{reason}, because not all nodes are on the EP"
    operators = nodes.count_operators(on_cpu)
    most = ascii(nodes.most_frequent(operators))[1:-1]
    return f"{reason}, because nodes are on the CPU EP ({most})"
