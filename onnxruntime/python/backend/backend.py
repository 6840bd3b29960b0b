# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Implements ONNX's ``Backend``: prepares a model with its configuration."""

import os
from collections.abc import Mapping
from typing import Any

from onnx import ModelProto
from onnx.backend.base import Backend
from onnx.checker import ValidationError, check_model

# Callers of the stock backend patch these names in this module.
from onnxruntime import InferenceSession, SessionOptions, get_available_providers, get_device
from onnxruntime.backend import parts, request
from onnxruntime.backend.allowlist.attributes import RUN_ATTRIBUTES, SESSION_ATTRIBUTES
from onnxruntime.backend.allowlist.facts import Process
from onnxruntime.backend.allowlist.look_up import permit_of, warn_or_reject
from onnxruntime.backend.allowlist.tables import KEYWORDS, LIMITS, TRUSTED
from onnxruntime.backend.applied import settings
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep
from onnxruntime.backend.environment import trusted, variable
from onnxruntime.backend.errors import NotPermittedError, Place, reject, show, warn
from onnxruntime.backend.explanations import model_file
from onnxruntime.backend.libraries import plugins
from onnxruntime.backend.provider_names import CUDA_DEVICE, ON_ANY_DEVICE
from onnxruntime.backend.runs.limits import Limits
from onnxruntime.backend.session import creation, presence
from onnxruntime.backend.session.state import applied_in_prepare, is_of_ort, state_of


class OnnxRuntimeBackend(Backend):
    """
    `ONNX's backend API <https://github.com/onnx/onnx/blob/main/docs/ImplementingAnOnnxBackend.md>`_ on ONNX Runtime.

    Keyword arguments are untrusted. If a setting is not permitted, the call raises an error before ORT receives the
    setting. All other settings are applied and verified. Trusted code that needs other settings can create its own
    :class:`onnxruntime.InferenceSession` and pass it to :meth:`prepare`.
    """

    # ONNX's test runner and callers use this name. From ORT 1.32 on, it also decides for bytes and paths.
    allowReleasedOpsetsOnly = os.getenv("ALLOW_RELEASED_ONNX_OPSET_ONLY", "1") == "1"  # noqa: N815

    @classmethod
    def is_compatible(cls, model, device: str | None = None, **kwargs) -> bool:
        """Return whether this ORT build supports a device, by default its own. The result is the same for any model."""
        if device is None:
            device = get_device()
        return cls.supports_device(device)

    @classmethod
    def is_opset_supported(cls, model) -> tuple[bool, str]:
        """
        Return whether the installed onnx has released the opsets that a model imports, and the reason if not.

        Always ``(True, "")`` if ``allowReleasedOpsetsOnly`` is false. By default, it is false if the environment
        variable ``ALLOW_RELEASED_ONNX_OPSET_ONLY`` is set and not ``1``.
        """
        reason = ""
        if cls.allowReleasedOpsetsOnly:
            reason = model_file.unreleased(model)
        return not reason, reason

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """
        Return whether this ORT build supports a device.

        The build decides, not the machine: if a driver or a device is missing, :meth:`prepare` raises an error. On a
        build for CUDA, the result for ``'CPU'`` is ``False``, as in the stock backend.

        :param device: ``'CPU'``, ``'CUDA'`` or ``'GPU'``, with an index as in ``'CUDA:1'``, or another name from
            :func:`onnxruntime.get_device`.
        """
        return presence.supports_device(device, get_device())

    @classmethod
    def prepare(
        cls,
        model,
        device: str | None = None,
        *,
        provider_options: Mapping[str, Mapping[str, object]] | None = None,
        session_config: Mapping[str, object] | None = None,
        run_config: Mapping[str, object] | None = None,
        session_options: Mapping[str, object] | None = None,
        free_dimension_overrides: Mapping[str, int] | None = None,
        **kwargs,
    ) -> OnnxRuntimeBackendRep:
        """
        Load a model and prepare it for runs.

        A ``ModelProto`` becomes bytes, and bytes become a session. This method receives each form, because subclasses
        override it and expect each form. The session is created with the settings of the call with bytes or a path.
        In the call with the session, a subclass can add a ``run_config``, and must not add other settings.

        The environment variable ``ORT_ONNX_BACKEND_CONFIG`` adds settings that the caller does not specify, under the
        same allowlist.

        :param model: a path, a serialized model, an :class:`onnx.ModelProto`, an :class:`onnxruntime.InferenceSession`
            or a prepared model.
        :param device: the device, as for :meth:`supports_device`. The default is the device of the build. An index, as
            in ``'CUDA:1'``, sets the ``device_id`` of the CUDA EP.
        :param provider_options: ``{EP name: {option: value}}``, for exactly these EPs in this order, then the CPU EP,
            without any fallback. ``{}`` selects the CPU EP only, and ``None`` all available EPs.
        :param session_config: ``{key: value}`` of session config entries.
        :param run_config: ``{key: value}`` of run config entries for every run.
        :param session_options: ``{attribute: value}`` of :class:`onnxruntime.SessionOptions`.
        :param free_dimension_overrides: ``{name: size}`` of free dimensions of the model's inputs.
        :param kwargs: permitted attributes of :class:`onnxruntime.SessionOptions`, which override ``session_options``.
            Other names are ignored, with a ``RuntimeWarning``.
        :raises NotPermittedError: if a setting of the caller is not permitted or cannot be applied. The error is also
            a ``TypeError`` if a keyword argument is not a mapping.
        :raises RuntimeError: if ORT does not apply a permitted setting.
        :raises unittest.SkipTest: if a ``ModelProto`` imports an opset that the installed onnx has not released, or
            ORT lacks one of its operators. Not if ``allowReleasedOpsetsOnly`` is false: see :meth:`is_opset_supported`.
        """
        keywords = _specified(
            provider_options=provider_options,
            session_config=session_config,
            run_config=run_config,
            session_options=session_options,
            free_dimension_overrides=free_dimension_overrides,
        )
        if isinstance(model, (InferenceSession, OnnxRuntimeBackendRep)):
            return _prepare_open(model, device, keywords, kwargs)
        if hasattr(model, "SerializeToString") and hasattr(model, "graph"):
            return _prepare_proto(cls, model, device, keywords, kwargs)
        source = _source(model)
        return _prepare_source(cls, source, device, keywords, kwargs)

    @classmethod
    def run_model(  # type: ignore[override]  # a list, as from the stock backend
        cls, model, inputs, device: str | None = None, **kwargs
    ) -> list:
        """
        Prepare a model and run it once. Every keyword argument is validated before a session is created.

        :param inputs: as for :meth:`onnxruntime.backend.backend_rep.OnnxRuntimeBackendRep.run`.
        :param kwargs: ``provider_options``, ``session_config``, ``run_config``, ``session_options`` and
            ``free_dimension_overrides`` of :meth:`prepare`, ``timeout`` and ``cancellation`` of the run, and permitted
            attributes of :class:`onnxruntime.SessionOptions` (if a session is created), of
            :class:`onnxruntime.RunOptions`, or of both. Other names are ignored, with a ``RuntimeWarning``.
        :return: list of outputs.
        """
        # A subclass may not accept keyword arguments that are not specified.
        limits = _specified(**{name: kwargs.pop(name, None) for name in LIMITS})
        Limits(**limits)
        keywords = _specified(**{name: kwargs.pop(name, None) for name in KEYWORDS})
        allowlist = variable.allowlist(variable.read(), Process())
        run_attributes = allowlist.attributes(RUN_ATTRIBUTES, request.read_mapping(request.ARGUMENTS, kwargs)).parsed

        # prepare does not accept attributes that only RunOptions has.
        creates_session = not isinstance(model, (InferenceSession, OnnxRuntimeBackendRep))
        for name, value in kwargs.items():
            if name not in run_attributes or (creates_session and name in SESSION_ATTRIBUTES):
                keywords[name] = value
        rep = cls.prepare(model, device, **keywords)
        if not isinstance(rep, OnnxRuntimeBackendRep):  # of a subclass
            run_attributes = kwargs
        return rep.run(inputs, **run_attributes, **limits)

    @classmethod
    def run_node(cls, node, inputs, device=None, outputs_info=None, **kwargs):
        """Not implemented, because running a model node by node takes much longer than running the model."""
        raise NotImplementedError("Running single nodes is not implemented. Run a model that contains the node")


def _specified(**arguments: Any) -> dict[str, Any]:
    """Return the keyword arguments that are not ``None``."""
    return {name: value for name, value in arguments.items() if value is not None}


def _prepare_proto(
    backend: type[OnnxRuntimeBackend], model: ModelProto, device: str | None, keywords: dict, attributes: dict
) -> OnnxRuntimeBackendRep:
    """Prepare a ``ModelProto`` as bytes, or raise ``SkipTest`` if the model is newer than onnx or ORT."""
    serialized = _checked(model)
    supported, reason = backend.is_opset_supported(model)
    if supported:
        try:
            return backend.prepare(serialized, device, **keywords, **attributes)
        except NotPermittedError:
            raise  # its text contains names of the caller, which could read like ORT's error
        except Exception as error:
            # As the stock backend, which skips models of domains that are not ONNX's.
            if not backend.allowReleasedOpsetsOnly:
                raise
            reason = model_file.missing_operator(error)
            if not reason:
                raise
    from unittest import SkipTest  # long to import, and rarely needed  # noqa: PLC0415

    raise SkipTest(reason)


def _prepare_source(
    backend: type[OnnxRuntimeBackend], source: str | bytes, device: str | None, keywords: dict, attributes: dict
) -> OnnxRuntimeBackendRep:
    """Create a session from a path or bytes, verify it, and prepare it."""
    if device is not None:
        _check_device(backend, device)
    requested = request.read_call(keywords, attributes, device)
    if "plugins" in requested.environment:
        plugins.register(requested.environment["plugins"])
    try:
        process = presence.process(get_available_providers())
        permit = permit_of(requested, variable.allowlist(requested.environment, process))
        presence.check_available(permit)
        if TRUSTED in requested.environment:
            permit = trusted.add(permit, requested.environment[TRUSTED], process)
        session, construction = creation.create(
            source,
            permit,
            SessionOptions(),
            parts.for_permit(permit),
            libraries=requested.environment.get("extensions", ()),
            released_opsets=backend.allowReleasedOpsetsOnly,
            session_class=InferenceSession,
        )
    except NotPermittedError as refusal:
        raise requested.with_origin(refusal) from None
    state = state_of(session)
    state.trusted = permit.trusted
    # For prepare of the class, which receives the session.
    state.applied = settings.confirm(session, construction)
    rep = backend.prepare(session, device, **attributes)
    state.applied = None  # prepare of a subclass may not pass the session on
    return rep


def _check_device(backend: type[OnnxRuntimeBackend], device: str) -> None:
    if backend.supports_device(device):
        return
    known = ["CPU", *CUDA_DEVICE]
    known.extend(get_device().split("-"))
    supported = [name for name in dict.fromkeys(known) if backend.supports_device(name)]
    presence.reject_device(device, supported)


def _prepare_open(
    model: InferenceSession | OnnxRuntimeBackendRep, device: object, keywords: dict, attributes: dict
) -> OnnxRuntimeBackendRep:
    """Prepare a session or a prepared model, to which only a run config can apply."""
    environment: tuple[str, ...] = ()
    if isinstance(model, OnnxRuntimeBackendRep):
        rep = model  # it has the environment's entries already, and its caller's own entries win over them
    else:
        applied = applied_in_prepare(model)
        rep = OnnxRuntimeBackendRep(model, applied=applied or settings.NOTHING_APPLIED)
        if applied is None:
            environment = ("run_config",)
        elif keywords:
            device, attributes = None, {}  # of the call that created the session
        else:
            return rep
    requested = request.read_call(keywords, attributes, environment=environment)
    warn_or_reject(requested.attributes, ())

    # An empty mapping specifies nothing, except for provider_options: it specifies that the session has no EP.
    for keyword, entries in requested.settings.items():
        if keyword == "provider_options" or (keyword != "run_config" and entries):
            problem = "cannot be applied to an existing session. Pass the model, or create the session with it"
            reject(Place(keyword), problem)
    _warn_about_device(device, rep)
    run_config = requested.settings.get("run_config")
    if run_config is None:
        return rep
    try:
        return rep.with_run_config(run_config)
    except NotPermittedError as refusal:
        raise requested.with_origin(refusal) from None


def _warn_about_device(device: object, rep: OnnxRuntimeBackendRep) -> None:
    """Warn about a device on which an existing session does not run."""
    if type(device) is not str or device == "CPU":
        return
    if is_of_ort(rep.session) and ON_ANY_DEVICE.issuperset(rep.providers):
        providers = ", ".join(rep.providers)
        warn(f"device {show(device)} has no effect on an existing session, which runs on {providers}")


def _checked(model: ModelProto) -> bytes:
    """Serialize a model and check it with onnx's checker."""
    try:
        serialized = model.SerializeToString()
        check_model(serialized)
    except ValidationError as error:
        problem = model_file.missing_data(model)
        if not problem:
            raise
        raise ValidationError(f"{problem}. onnx error: {error}") from None
    except Exception as error:
        # protobuf raises its own EncodeError, and onnx's checker a ValueError.
        if type(error).__name__ != "EncodeError" and "(>2GB)" not in str(error):
            raise
        raise RuntimeError(
            "The model cannot be serialized, because it is larger than 2 GB. Save it with external data, "
            "onnx.save(model, path, save_as_external_data=True), and pass the path"
        ) from None
    return serialized


def _source(model) -> str | bytes:
    """Return the path or the bytes of a model."""
    if isinstance(model, bytes):
        return model
    if isinstance(model, (str, os.PathLike)):
        try:
            # The text itself, whatever the methods of a subclass of str return. ORT would cut it at a NUL.
            path = str.encode(os.fsdecode(model))
        except UnicodeEncodeError:
            problem = "the path is not UTF-8, which ORT's Python API requires. Pass the file's bytes"
            reject(Place("model"), problem)
        if not path or b"\0" in path:
            raise RuntimeError("model: the path is empty or contains a NUL character. Expected the path of a model")
        return path.decode()
    raise TypeError(f"model must be a path, bytes, ModelProto, InferenceSession or prepared model, not {show(model)}")


is_compatible = OnnxRuntimeBackend.is_compatible
prepare = OnnxRuntimeBackend.prepare
run = OnnxRuntimeBackend.run_model
supports_device = OnnxRuntimeBackend.supports_device
