# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Implements ONNX's backend API: a model and its configuration become a session."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache

from onnx import ModelProto
from onnx.backend.base import Backend
from onnx.checker import check_model

from onnxruntime import InferenceSession, SessionOptions, get_device
from onnxruntime.backend import execution_providers, model_versions, request
from onnxruntime.backend.allowlist_rules import Permit
from onnxruntime.backend.backend_rep import LIMITS, OnnxRuntimeBackendRep
from onnxruntime.backend.messages import NotPermittedError, refuse, show
from onnxruntime.backend.provider_names import ON_ANY_DEVICE
from onnxruntime.backend.request import KEYWORDS, Request

# Where a session that was just opened keeps what its rep is made of, on its way through prepare: see there.
_OPENED = "_opened_by_backend"


class OnnxRuntimeBackend(Backend):
    """
    `ONNX's backend API <https://github.com/onnx/onnx/blob/main/docs/ImplementingAnOnnxBackend.md>`_ on ONNX Runtime.

    Keyword arguments are untrusted: what they name is permitted, applied and verified, or refused with a reason before
    ORT sees it. Code that may use more opens its own :class:`onnxruntime.InferenceSession` and passes that to
    :meth:`prepare`.
    """

    # ONNX's test runner and callers reach for this name.
    allowReleasedOpsetsOnly = os.getenv("ALLOW_RELEASED_ONNX_OPSET_ONLY", "1") == "1"  # noqa: N815

    @classmethod
    def is_compatible(cls, model, device: str | None = None, **kwargs) -> bool:
        """
        Tell whether a model can be run on a device.

        :param model: not looked at.
        :param device: as for :meth:`supports_device`; ``None`` for the build's own.
        """
        return cls.supports_device(get_device() if device is None else device)

    @classmethod
    def is_opset_supported(cls, model) -> tuple[bool, str]:
        """
        Tell whether this ORT reads a model's IR version and supports the ONNX opsets that it imports, and why not.

        :param model: an :class:`onnx.ModelProto`.
        :return: ``(True, "")``, or ``False`` with the reason. Opsets do not matter when the environment variable
            ``ALLOW_RELEASED_ONNX_OPSET_ONLY`` is not ``1``.
        """
        reason = model_versions.too_new(model, cls.allowReleasedOpsetsOnly)
        return not reason, reason

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """
        Tell whether this ORT can compute on a device.

        :param device: ``'CPU'``, ``'CUDA'`` or ``'GPU'``, with an index as in ``'CUDA:1'``, or another of the names
            in :func:`onnxruntime.get_device`.
        """
        return execution_providers.supports_device(device)

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
        Load a model and make it ready to run.

        A ``ModelProto`` is prepared as bytes, and those as a session, each through ``cls.prepare`` again, where a
        subclass can step in.

        The environment variable ``ORT_ONNX_BACKEND_CONFIG`` adds to these configurations, through the same
        allowlist: see :class:`onnxruntime.backend.request.Request`.

        :param model: path, serialized model, :class:`onnx.ModelProto`, :class:`onnxruntime.InferenceSession` or
            :class:`onnxruntime.backend.backend_rep.OnnxRuntimeBackendRep`.
        :param device: device to compute on, as for :meth:`supports_device`; ``None`` for the build's own. An index,
            as in ``'CUDA:1'``, becomes the CUDA EP's ``device_id``.
        :param provider_options: ``{EP name: {option: value}}``. The session gets exactly these EPs in this order, then
            the CPU EP, and no fallback; ``{}`` names none, which leaves the CPU EP. ``None``: every available EP.
        :param session_config: ``{key: value}`` of session config entries.
        :param run_config: ``{key: value}`` of run config entries, which every run of the result carries.
        :param session_options: ``{attribute: value}`` of :class:`onnxruntime.SessionOptions`, as JSON has them; in
            Python they may be keyword arguments of their own, which win.
        :param free_dimension_overrides: ``{name: size}`` of named dimensions that the model's inputs leave open.
        :param kwargs: permitted attributes of :class:`onnxruntime.SessionOptions`. Other names are ignored, with a
            ``RuntimeWarning``.
        :return: the prepared model.
        :raises NotPermittedError: a ``RuntimeError``, for what the caller named and cannot have; a ``TypeError`` too
            when a configuration is not a mapping.
        :raises RuntimeError: for what was permitted and, once applied, is not so.
        :raises unittest.SkipTest: for a ``ModelProto`` of an opset that the installed onnx has not released; what this
            ORT does not read otherwise is an error.
        """
        keywords = _given(provider_options, session_config, run_config, session_options, free_dimension_overrides)
        if isinstance(model, (InferenceSession, OnnxRuntimeBackendRep)):
            return _prepare_open(model, keywords, kwargs)
        if hasattr(model, "SerializeToString"):
            model = _checked(model, cls.is_opset_supported)
            if cls is not OnnxRuntimeBackend:  # a subclass's prepare sees each form of the model, as with ORT's own
                return cls.prepare(model, device, **keywords, **kwargs)
        source = _source(model)
        if device is not None and not cls.supports_device(device):
            refuse(f"it is not supported: this ORT computes on {get_device()}", "device", value=device)
        asked = Request(device, attributes=kwargs, **keywords)
        providers = execution_providers.stock_list() if asked.provider_options is None else asked.provider_options
        if kwargs or asked.named or not ON_ANY_DEVICE.issuperset(providers):
            try:
                permit = _allowlist().permit(asked, request.circumstances(providers), execution_providers.flavour)
                execution_providers.check_available(permit)
            except NotPermittedError as refusal:
                raise asked.told_apart(refusal) from None
        else:
            permit = Permit(providers, asked.device)

        warned = _allowlist().warn_unknown(kwargs, _allowlist().SESSION_ATTRIBUTES) if kwargs else ()
        options = SessionOptions()
        for name, value in permit.attributes.items():
            setattr(options, name, value)
        registered = ()
        if asked.extensions:
            from onnxruntime.backend import extensions  # few programs have any  # noqa: PLC0415

            registered = extensions.register(options, asked.extensions)
        shapes = {}
        if permit.sizes:
            from onnxruntime.backend import free_dimensions  # few calls name any  # noqa: PLC0415

            try:
                shapes = free_dimensions.apply(options, permit.sizes, source)
            except NotPermittedError as refusal:
                raise asked.told_apart(refusal) from None
        try:
            session = execution_providers.open_session(source, options, permit)
        except Exception as error:
            reason = model_versions.explain(error) or execution_providers.explain(error)
            if reason:
                from onnxruntime.backend import errors  # most calls raise none  # noqa: PLC0415

                raise errors.reworded(type(error), reason) from error
            raise
        if shapes:
            free_dimensions.verify(session, shapes)
        applied = execution_providers.read_back(session, permit)
        if registered or warned:
            applied = applied.and_more(registered, warned)
        if cls is OnnxRuntimeBackend:
            return OnnxRuntimeBackendRep(session, permit.run_config, applied=applied)
        vars(session)[_OPENED] = permit.run_config, applied
        return cls.prepare(session, device, **kwargs)

    @classmethod
    def run_model(
        cls,
        model,
        inputs,
        device: str | None = None,
        *,
        provider_options: Mapping[str, Mapping[str, object]] | None = None,
        session_config: Mapping[str, object] | None = None,
        run_config: Mapping[str, object] | None = None,
        session_options: Mapping[str, object] | None = None,
        free_dimension_overrides: Mapping[str, int] | None = None,
        **kwargs,
    ):
        """
        Prepare a model and run it once: :meth:`prepare`, whose parameters these are, and
        :meth:`onnxruntime.backend.backend_rep.OnnxRuntimeBackendRep.run`.

        Every keyword is validated before anything is opened.

        :param inputs: as for the run.
        :param kwargs: permitted attributes of :class:`onnxruntime.SessionOptions` (where a session is opened) and of
            :class:`onnxruntime.RunOptions`, a name that both have being set on both; ``timeout`` and ``cancellation``
            of the run. Other names are ignored, with a ``RuntimeWarning``.
        :return: list of outputs.
        """
        limits = {name: kwargs.pop(name) for name in LIMITS if name in kwargs}
        run_attributes = {}
        if kwargs:
            here = request.circumstances(())
            run_attributes, _ = _allowlist().attributes(_allowlist().RUN_ATTRIBUTES, kwargs, here)
        given = _given(provider_options, session_config, run_config, session_options, free_dimension_overrides)
        if run_attributes:  # those that act on the run alone are not for prepare
            is_open = isinstance(model, (InferenceSession, OnnxRuntimeBackendRep))
            of_session = () if is_open else _allowlist().SESSION_ATTRIBUTES
            given |= {name: value for name, value in kwargs.items() if name not in run_attributes or name in of_session}
        else:
            given |= kwargs
        rep = cls.prepare(model, device, **given)
        own = isinstance(rep, OnnxRuntimeBackendRep)
        return rep.run(inputs, **(run_attributes if own else kwargs), **limits)

    @classmethod
    def run_node(cls, node, inputs, device=None, outputs_info=None, **kwargs):
        """
        Not implemented: a session for every node would cost far more than one for the model.

        :raises NotImplementedError: always.
        """
        raise NotImplementedError("Running single nodes is not implemented: run a model that holds the node.")


def _given(*values: object) -> dict[str, object]:
    """Those of the keywords that were given: a subclass's prepare need not know the rest."""
    given = {}
    for index, value in enumerate(values):  # in every call: a comprehension is a function of its own
        if value is not None:
            given[KEYWORDS[index]] = value
    return given


@cache
def _allowlist():
    """The look-ups with their tables, which take long to load, and of which a call that names nothing needs none."""
    from onnxruntime.backend import allowlist  # noqa: PLC0415

    return allowlist


def _prepare_open(
    model: InferenceSession | OnnxRuntimeBackendRep, keywords: dict[str, object], attributes: dict[str, object]
) -> OnnxRuntimeBackendRep:
    """Prepare a session that is open already: only a run config can still apply to it."""
    rep = None
    if isinstance(model, OnnxRuntimeBackendRep):
        rep = model
        if attributes:
            _allowlist().warn_unknown(attributes, ())
    elif _OPENED in vars(model):
        run_config, applied = vars(model).pop(_OPENED)
        rep = OnnxRuntimeBackendRep(model, run_config, applied=applied)
        if not keywords:
            return rep
    elif attributes:
        _allowlist().warn_unknown(attributes, ())
    # What the environment names is in a prepared model already, where the caller's own entries win over it.
    asked = Request(environment=("run_config",) if rep is None else (), **keywords)
    # An empty mapping states nothing, except that {} names no EP, which says what the session's EPs are to be.
    for keyword, stated in (
        ("provider_options", asked.provider_options is not None),
        ("session_config", bool(asked.session_config)),
        ("session_options", bool(asked.session_options)),
        ("free_dimension_overrides", bool(asked.free_dimension_overrides)),
    ):
        if stated:
            refuse("the session is open already: pass the model instead, or open the session with it", keyword)
    rep = rep or OnnxRuntimeBackendRep(model)
    if asked.run_config is None:
        return rep
    try:
        return rep.with_run_config(asked.run_config)
    except NotPermittedError as refusal:
        raise asked.told_apart(refusal) from None


def _checked(model: ModelProto, is_opset_supported: Callable[[ModelProto], tuple[bool, str]]) -> bytes:
    """Serialize a model that onnx's checker finds right."""
    serialized = model.SerializeToString()
    check_model(serialized)
    supported, reason = is_opset_supported(model)
    # An IR version that ORT does not read is ORT's to refuse: a skip would hide a failure in a caller's own test.
    if not supported and reason != model_versions.new_ir(model):
        from unittest import SkipTest  # long to import, and seldom needed  # noqa: PLC0415

        raise SkipTest(reason)
    return serialized


def _source(model) -> str | bytes:
    """Give what a session opens: a path or bytes."""
    if isinstance(model, bytes):
        return model
    if isinstance(model, (str, os.PathLike)):
        path = os.fsdecode(model)
        # The path's own text, whatever a subclass of str says of it: ORT opens what stands before a NUL.
        if not str.__len__(path) or str.__contains__(path, "\0"):
            refuse("its path is empty or holds a NUL", "model")
        try:
            str.encode(path)
        except UnicodeEncodeError:
            refuse("ORT's Python API takes no path that is not UTF-8: pass the file's bytes", "model", value=path)
        return str.__str__(path)
    raise TypeError(
        "model must be a path, bytes, onnx.ModelProto, onnxruntime.InferenceSession or a prepared model, not "
        f"{show(model)}"
    )


is_compatible = OnnxRuntimeBackend.is_compatible
prepare = OnnxRuntimeBackend.prepare
run = OnnxRuntimeBackend.run_model
supports_device = OnnxRuntimeBackend.supports_device
