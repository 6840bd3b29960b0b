# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Creates a session with the execution providers (EPs) of a permit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from onnxruntime import InferenceSession, SessionOptions
from onnxruntime.backend import optional_parts
from onnxruntime.backend.allowlist.permit import Permit, values_of
from onnxruntime.backend.allowlist.rules import texts_of
from onnxruntime.backend.allowlist.session_config import RECORD_ASSIGNMENT
from onnxruntime.backend.errors import NotPermittedError, reworded
from onnxruntime.backend.keywords import FROM_ENVIRONMENT
from onnxruntime.backend.provider_names import TENSORRT
from onnxruntime.backend.session import (
    attaching,
    failures,
    missing_providers,
    model_file,
    parts,
    presence,
    reports,
    state,
    unwritten,
)
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidProtobuf

_RELEASED_OPSETS = "session.allow_released_opsets_only"  # ORT before 1.32 ignores it


def create(
    model: str | bytes,
    permit: Permit,
    libraries: Iterable[str],
    options: SessionOptions,
    released_opsets: bool = True,
) -> tuple[InferenceSession, tuple[str, ...]]:
    """Create a session from a permit, and return it with the names of the registered libraries of custom operators.

    If EPs were specified, the session gets exactly these EPs in their order, then the CPU EP, without any fallback.
    Otherwise it gets all available EPs, as in ORT's own backend.

    :param released_opsets: whether ORT rejects a model that imports an opset that is not released.
    """
    presence.check_available(permit)
    source = (model, libraries, released_opsets)
    registered, shapes = _configure(options, permit, *source)
    try:
        session = _open(model, options, permit)
    except NotPermittedError:
        raise
    except Exception as error:
        failures.reject_setting(error, permit.session_config)
        for part in parts.of_permit(permit):
            if part.explains:
                explain = optional_parts.function(part.explains)
                explain(error, permit, partial(_open_again, source))
        reason = failures.explain(error)
        if not reason:
            problem = model_file.problem(model, isinstance(error, InvalidProtobuf))
            if not problem:
                raise
            reason = f"{problem}. ORT error: {error}"
        raise reworded(type(error), reason) from None
    state.of(session).needs_elements = unwritten.check(model, session)
    if permit.sizes:
        free_dimensions = optional_parts.require("free_dimension_overrides", "free_dimension_overrides")
        free_dimensions.verify(session, shapes, permit.sizes)
    return session, registered


def _configure(
    options: SessionOptions,
    permit: Permit,
    model: str | bytes,
    libraries: Iterable[str],
    released_opsets: bool,
) -> tuple[tuple[str, ...], dict[str, list]]:
    """Set everything except the EPs. Return the registered libraries, and the shapes of inputs if sizes are set."""
    for name, value in values_of(permit.attributes).items():
        setattr(options, name, value)
    entries = {_RELEASED_OPSETS: "1" if released_opsets else "0"}
    if permit.explicit or reports.needs_of_operators(permit):
        entries[RECORD_ASSIGNMENT] = "1"
    entries.update(dict.fromkeys(permit.stops_spinning, "0"))
    entries.update(texts_of(permit.session_config))
    for key, text in entries.items():
        options.add_session_config_entry(key, text)
    registered = ()
    if libraries:
        extensions = optional_parts.require("extensions", f"Extensions cannot be registered{FROM_ENVIRONMENT}")
        registered = extensions.register(options, libraries)
    shapes = {}
    if permit.sizes:
        free_dimensions = optional_parts.require("free_dimension_overrides", "free_dimension_overrides")
        shapes = free_dimensions.apply(options, permit, model)
    return registered, shapes


def _open_again(source: tuple, permit: Permit) -> InferenceSession:
    """Create a session from the same model with another permit, to explain an error."""
    options = SessionOptions()
    options.log_severity_level = 4  # the log contains the error of the first session
    _configure(options, permit, *source)
    model = source[0]
    return _open(model, options, permit)


def _open(
    model: str | bytes,
    options: SessionOptions,
    permit: Permit,
) -> InferenceSession:
    """Create a session. The optional parts that it uses do this in their own way, one inside the other."""
    used = parts.of_permit(permit)
    construct = partial(_construct, model, options)
    for part in used:
        if part.constructs:
            construct = partial(optional_parts.function(part.constructs), construct, permit)
    if permit.explicit:
        providers = attaching.attach(options, permit)
        create_session = partial(_create_with_specified, construct, permit, providers)
    else:
        create_session = partial(_create_with_available, construct, permit)
    for part in used:
        if part.creates:
            create = optional_parts.function(part.creates)
            create_session = partial(create, create_session, model, options, permit)
    return create_session()


def _construct(*arguments: object, **keywords: object) -> InferenceSession:
    return InferenceSession(*arguments, **keywords)  # callers patch this name, also later


def _create_with_available(construct: Callable[..., InferenceSession], permit: Permit) -> InferenceSession:
    """Create a session with all available EPs, or with fewer if ORT cannot use them."""
    # A build with TensorRT's EP lists it on a machine without TensorRT, too.
    without_tensorrt = [name for name in permit.providers if name != TENSORRT]
    attempts = [list(permit.providers)]
    if TENSORRT in permit.providers:
        attempts.append(without_tensorrt)
    for providers in attempts:
        try:
            session = construct(providers=providers, enable_fallback=0)
            break
        except (RuntimeError, ValueError) as error:
            failures.reject_setting(error, permit.session_config)
    else:  # ORT's own fallback prints a banner
        session = construct(providers=without_tensorrt, enable_fallback=1)
    # A run that fails must fail, not run on another EP: the API's first use is testing.
    session.disable_fallback()
    return session


def _create_with_specified(
    construct: Callable[..., InferenceSession],
    permit: Permit,
    providers: list[tuple[str, dict]] | None,
    **arguments: object,
) -> InferenceSession:
    """Create a session with exactly the specified EPs, and with more arguments of its class."""
    specified = list(permit.providers)
    names = ", ".join(specified)
    try:
        session = construct(providers=providers, enable_fallback=0, **arguments)
    except Exception as error:
        # ORT's own exceptions are neither class, and describe a fault of the model, or from 1.32 on of a plugin EP.
        of_plugin = "PluginExecutionProviderFactory::CreateProvider" in str(error)
        if not of_plugin and not isinstance(error, (RuntimeError, ValueError)):
            raise
        for name, texts in providers or ():
            failures.reject_options(name, texts, error)
        advice = f"{missing_providers.advice(specified)} ORT error: {error}"
        raise RuntimeError(f"ORT could not create a session with {names or 'the CPU EP'}. {advice}") from None
    providers_of_session = session.get_providers()
    if [name for name in providers_of_session if name in specified] != specified:
        missing = [name for name in specified if name not in providers_of_session]
        advice = missing_providers.advice(missing)
        listed = ", ".join(providers_of_session)
        text = f"ORT created the session with {listed}, but provider_options specifies {names}, in this order"
        raise RuntimeError(f"{text}. {advice}")
    return session
