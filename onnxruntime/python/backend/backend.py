# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Implements ONNX's backend API: a model and its configuration become a session."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NoReturn

from onnx import ModelProto
from onnx.backend.base import Backend
from onnx.checker import check_model

from onnxruntime import InferenceSession, SessionOptions, get_available_providers, get_device  # noqa: F401
from onnxruntime.backend import request
from onnxruntime.backend.allowlist import circumstances, look_up
from onnxruntime.backend.allowlist.attributes import RUN_ATTRIBUTES, SESSION_ATTRIBUTES
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep
from onnxruntime.backend.configuration import KEYWORDS, LIMITS
from onnxruntime.backend.errors import reject, show
from onnxruntime.backend.session import model_versions, opening, presence, verification

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
        Return whether the installed onnx has released the ONNX opsets that a model imports, and why not.

        :param model: an :class:`onnx.ModelProto`, or any object with ``opset_import``.
        :return: ``(True, "")``, or ``False`` and the reason. Always ``(True, "")`` if the environment variable
            ``ALLOW_RELEASED_ONNX_OPSET_ONLY`` is set and not ``1``.
        """
        reason = model_versions.unreleased(model) if cls.allowReleasedOpsetsOnly else ""
        return not reason, reason

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """
        Tell whether this ORT can compute on a device.

        :param device: ``'CPU'``, ``'CUDA'`` or ``'GPU'``, with an index as in ``'CUDA:1'``, or another of the names
            in :func:`onnxruntime.get_device`.
        """
        return presence.supports_device(device)

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
        :raises unittest.SkipTest: if a ``ModelProto`` imports an opset that the installed onnx has not released, or
            ORT lacks one of its operators. Both are errors if ``ALLOW_RELEASED_ONNX_OPSET_ONLY`` is set and not ``1``.
        """
        keywords = _given(provider_options, session_config, run_config, session_options, free_dimension_overrides)
        if isinstance(model, (InferenceSession, OnnxRuntimeBackendRep)):
            return _prepare_open(model, keywords, kwargs)
        if hasattr(model, "SerializeToString"):
            serialized = _checked(model, cls.is_opset_supported)
            with _skipping_missing_operators(cls.allowReleasedOpsetsOnly):
                return cls.prepare(serialized, device, **keywords, **kwargs)
        source = _source(model)
        if device is not None and not cls.supports_device(device):
            look_up.reject_device(device, get_device())
        requested = request.of_call(keywords, kwargs, device)
        with requested.telling_apart():
            permit = look_up.permit(requested, circumstances.expected(presence.stock_list()), presence.kind_of)
            presence.check_available(permit)
            session, libraries = opening.create(source, permit, requested.extensions)
        vars(session)[_OPENED] = permit.run_config, verification.read_back(session, permit, libraries)
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
        run_attributes, _ = look_up.attributes(RUN_ATTRIBUTES, kwargs, circumstances.expected(()))
        given = _given(provider_options, session_config, run_config, session_options, free_dimension_overrides)
        # A name that acts on the run alone is not for prepare.
        is_open = isinstance(model, (InferenceSession, OnnxRuntimeBackendRep))
        of_session = () if is_open else SESSION_ATTRIBUTES
        given |= {name: value for name, value in kwargs.items() if name not in run_attributes or name in of_session}
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
    """Return the keywords that were passed: a subclass's prepare need not accept the others."""
    return {keyword: value for keyword, value in zip(KEYWORDS, values, strict=True) if value is not None}


def _prepare_open(
    model: InferenceSession | OnnxRuntimeBackendRep, keywords: dict[str, object], attributes: dict[str, object]
) -> OnnxRuntimeBackendRep:
    """Prepare an existing session: only a run config can still apply to it."""
    rep = None
    if isinstance(model, OnnxRuntimeBackendRep):
        rep = model
    elif _OPENED in vars(model):
        run_config, applied = vars(model).pop(_OPENED)
        rep, attributes = OnnxRuntimeBackendRep(model, run_config, applied=applied), {}
    look_up.warn_unknown(attributes, ())
    # A prepared model has the environment's entries already, and its caller's own entries win over them.
    requested = request.of_call(keywords, environment=("run_config",) if rep is None else ())
    # An empty mapping specifies nothing, except for provider_options: it specifies that the session has no EP.
    for keyword in KEYWORDS:
        stated = getattr(requested, keyword)
        if keyword != "run_config" and (stated or (keyword == "provider_options" and stated is not None)):
            problem = "cannot be applied to an existing session. Pass the model instead, or create the session with it"
            reject(problem, keyword)
    rep = rep or OnnxRuntimeBackendRep(model)
    if requested.run_config is None:
        return rep
    with requested.telling_apart():
        return rep.with_run_config(requested.run_config)


def _checked(model: ModelProto, is_opset_supported: Callable[[ModelProto], tuple[bool, str]]) -> bytes:
    """Serialize a model that onnx's checker finds right."""
    serialized = model.SerializeToString()
    check_model(serialized)
    supported, reason = is_opset_supported(model)
    if not supported:
        _skip(reason)
    return serialized


@contextmanager
def _skipping_missing_operators(released_only: bool) -> Iterator[None]:
    """Raise ``SkipTest`` if ORT lacks an operator: the stock backend skips models of domains that are not ONNX's."""
    try:
        yield
    except Exception as error:
        if released_only and (reason := model_versions.missing_operator(error)):
            _skip(reason)
        raise


def _skip(reason: str) -> NoReturn:
    from unittest import SkipTest  # long to import, and seldom needed  # noqa: PLC0415

    raise SkipTest(reason)


def _source(model) -> str | bytes:
    """Give what a session opens: a path or bytes."""
    if isinstance(model, bytes):
        return model
    if isinstance(model, (str, os.PathLike)):
        path = os.fsdecode(model)
        # The path's own text, whatever a subclass of str says of it: ORT opens what stands before a NUL.
        if not str.__len__(path) or str.__contains__(path, "\0"):
            reject("the path is empty or contains a NUL character", "model")
        try:
            str.encode(path)
        except UnicodeEncodeError:
            problem = f"the path {show(path)} is not UTF-8, which ORT's Python API requires. Pass the file's bytes"
            reject(problem, "model")
        return str.__str__(path)
    raise TypeError(
        "model must be a path, bytes, onnx.ModelProto, onnxruntime.InferenceSession or a prepared model, not "
        f"{show(model)}"
    )


is_compatible = OnnxRuntimeBackend.is_compatible
prepare = OnnxRuntimeBackend.prepare
run = OnnxRuntimeBackend.run_model
supports_device = OnnxRuntimeBackend.supports_device
