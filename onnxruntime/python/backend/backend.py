# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Implements ONNX's backend API: a model and its configuration become a session."""

from __future__ import annotations

import os
from collections.abc import Mapping

from onnx.backend.base import Backend
from onnx.checker import check_model

from onnxruntime import InferenceSession, SessionOptions, get_device
from onnxruntime.backend import (
    allowlist,
    configuration,
    execution_providers,
    free_dimensions,
    model_versions,
    webgpu_lock,
)
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep
from onnxruntime.backend.messages import NOT_PERMITTED, show


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
        return True if device is None else cls.supports_device(device)

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
        free_dimension_overrides: Mapping[str, int] | None = None,
        **kwargs,
    ) -> OnnxRuntimeBackendRep:
        """
        Load a model and make it ready to run.

        The environment variable ``ORT_ONNX_BACKEND_CONFIG`` adds to the three configurations, through the same
        allowlist: see :func:`onnxruntime.backend.configuration.with_environment`.

        :param model: path, serialized model, :class:`onnx.ModelProto`, :class:`onnxruntime.InferenceSession` or
            :class:`onnxruntime.backend.backend_rep.OnnxRuntimeBackendRep`.
        :param device: device to compute on, as for :meth:`supports_device`; ``None`` for the build's own. An index,
            as in ``'CUDA:1'``, becomes the CUDA EP's ``device_id``.
        :param provider_options: ``{EP name: {option: value}}``. The session gets exactly these EPs in this order, then
            the CPU EP, and no fallback; ``{}`` names none, which leaves the CPU EP. ``None``: every available EP.
        :param session_config: ``{key: value}`` of session config entries.
        :param run_config: ``{key: value}`` of run config entries, which every run of the result carries.
        :param free_dimension_overrides: ``{name: size}`` of named dimensions that the model's inputs leave open.
        :param kwargs: permitted attributes of :class:`onnxruntime.SessionOptions`. Other names are ignored.
        :return: the prepared model.
        :raises RuntimeError: for anything that is not permitted, not available or, once applied, not so.
        :raises TypeError: when a configuration is not a mapping.
        :raises unittest.SkipTest: for a ``ModelProto`` that is too new for this ORT, see :meth:`is_opset_supported`.
        """
        configuration.warn_misspelt(kwargs)
        configurations = {
            "provider_options": provider_options,
            "session_config": session_config,
            "run_config": run_config,
        }
        if isinstance(model, (InferenceSession, OnnxRuntimeBackendRep)):
            return _prepare_open(model, configurations, free_dimension_overrides)

        sizes = {} if free_dimension_overrides is None else free_dimensions.look_up(free_dimension_overrides)
        options = SessionOptions()
        for name, value in allowlist.session_attributes(kwargs).items():
            setattr(options, name, value)
        if device is not None and not cls.supports_device(device):
            raise RuntimeError(f"device {show(device)} is not supported: this ORT computes on {get_device()}")
        providers = execution_providers.stock_list()
        # Before the environment is asked: a device of the caller's own is a keyword argument too.
        configurations["provider_options"] = execution_providers.merge_device(device, provider_options)
        given = configuration.with_environment(configurations)
        granted, entries, run_entries = None, {}, {}
        if given.anything:
            circumstances = configuration.circumstances(options, providers)
            with given.naming_the_environment():
                granted, entries, run_entries = configuration.look_up(
                    given.configurations, execution_providers.flavour, circumstances
                )
            if granted is not None:
                granted = execution_providers.settle_device(device, granted, circumstances)
                providers = list(granted)
        for key, text in entries.items():
            options.add_session_config_entry(key, text)

        source = _source(model, cls.is_opset_supported)
        shapes = free_dimensions.apply(options, sizes, source) if sizes else {}
        try:
            with webgpu_lock.while_opening(providers):
                if granted is None:
                    session = InferenceSession(source, options, providers=providers)
                else:
                    session = execution_providers.open_session(source, options, granted, entries)
                webgpu_lock.of(session)
        except Exception as error:
            from onnxruntime.backend import graph_capture  # noqa: PLC0415 # costs import time, and rarely needed

            reason = model_versions.explain(error) or graph_capture.explain(error)
            if reason:
                raise RuntimeError(reason) from error
            raise
        execution_providers.check_device(device, session)
        free_dimensions.verify(session, shapes)
        if granted is None:
            # A run that fails must fail, not run elsewhere: the API's first use is testing.
            session.disable_fallback()
            return OnnxRuntimeBackendRep(session, run_entries, session_config=entries)
        applied = execution_providers.read_back(session, granted)
        execution_providers.warn_idle(session, list(granted))
        return OnnxRuntimeBackendRep(session, run_entries, session_config=entries, applied=applied)

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
        free_dimension_overrides: Mapping[str, int] | None = None,
        **kwargs,
    ):
        """
        Prepare a model and run it once.

        Every keyword is validated before anything is opened.

        :param model: as for :meth:`prepare`.
        :param inputs: as for :meth:`onnxruntime.backend.backend_rep.OnnxRuntimeBackendRep.run`.
        :param device: as for :meth:`prepare`.
        :param provider_options: as for :meth:`prepare`.
        :param session_config: as for :meth:`prepare`.
        :param run_config: as for :meth:`prepare`.
        :param free_dimension_overrides: as for :meth:`prepare`.
        :param kwargs: permitted attributes of :class:`onnxruntime.SessionOptions` (where a session is opened) and of
            :class:`onnxruntime.RunOptions`; a name that both have is set on both. Other names are ignored.
        :return: list of outputs.
        """
        run_attributes = allowlist.run_attributes(kwargs)
        rep = cls.prepare(
            model,
            device,
            provider_options=provider_options,
            session_config=session_config,
            run_config=run_config,
            free_dimension_overrides=free_dimension_overrides,
            **kwargs,
        )
        return rep.run(inputs, **run_attributes)

    @classmethod
    def run_node(cls, node, inputs, device=None, outputs_info=None, **kwargs):
        """
        Not implemented: a session for every node would cost far more than one for the model.

        :raises NotImplementedError: always.
        """
        raise NotImplementedError("Running single nodes is not implemented: run a model that holds the node.")


def _prepare_open(
    model: InferenceSession | OnnxRuntimeBackendRep, configurations: dict[str, object], free_dimension_overrides: object
) -> OnnxRuntimeBackendRep:
    """Prepare a session that is open already: only a run config can still apply to it."""
    # An empty mapping states nothing, except that {} names no EP, which says what the session's EPs are to be.
    for keyword, given, states in (
        ("provider_options", configurations["provider_options"], True),
        ("session_config", configurations["session_config"], False),
        (free_dimensions.KEYWORD, free_dimension_overrides, False),
    ):
        if given is not None and (states or allowlist.read(keyword, given)):
            raise RuntimeError(
                f"{keyword} {NOT_PERMITTED} for a session that is open already, where it could not "
                "apply: pass the model instead, or open the session with it"
            )
    is_rep = isinstance(model, OnnxRuntimeBackendRep)
    # What the environment names is in a prepared model already, beneath what its caller named.
    given = configuration.with_environment(configurations, () if is_rep else ("run_config",))
    rep = model if is_rep else OnnxRuntimeBackendRep(model)
    run_config = given.configurations["run_config"]
    with given.naming_the_environment():
        return rep if run_config is None else rep.with_run_config(run_config)


def _source(model, is_opset_supported) -> str | bytes:
    """Turn a model into what a session opens: a path or bytes."""
    if isinstance(model, bytes):
        return model
    if not hasattr(model, "SerializeToString"):
        return _path(model)
    serialized = model.SerializeToString()
    check_model(serialized)
    supported, reason = is_opset_supported(model)
    if not supported:
        from unittest import SkipTest  # noqa: PLC0415 # long to import, and seldom needed

        raise SkipTest(reason)
    return serialized


def _path(model) -> str:
    if isinstance(model, (str, os.PathLike)):
        path = os.fsdecode(model)
        # The path's own text, whatever a subclass of str says of it: ORT opens what stands before a NUL.
        if not str.__len__(path) or str.__contains__(path, "\0"):
            raise RuntimeError(f"model path {NOT_PERMITTED}: it is empty or holds a NUL")
        return str.__str__(path)
    raise TypeError(
        "model must be a path, bytes, onnx.ModelProto, onnxruntime.InferenceSession or a prepared model, not "
        f"{show(model)}"
    )


is_compatible = OnnxRuntimeBackend.is_compatible
prepare = OnnxRuntimeBackend.prepare
run = OnnxRuntimeBackend.run_model
supports_device = OnnxRuntimeBackend.supports_device
