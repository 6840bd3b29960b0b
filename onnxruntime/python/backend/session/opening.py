# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Creates a session with the execution providers (EPs) of a permit.

ORT has three APIs that attach an EP from Python, and each silently loses options of some EP. The argument
``providers=`` ignores a plugin EP. The method ``add_provider`` drops options that built-in OpenVINO reads only from
session config entries. Built-in WebGPU reads only such entries. So :func:`_attach` chooses an API for each EP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial

from onnxruntime import InferenceSession, SessionOptions, get_device
from onnxruntime.backend.allowlist.rules import Permit, Setting, sent
from onnxruntime.backend.errors import NotPermittedError, reject, reject_value, reworded
from onnxruntime.backend.provider_names import ON_ANY_DEVICE, TENSORRT
from onnxruntime.backend.session import extensions, failures, free_dimensions, presence, replacement
from onnxruntime.capi import _pybind_state

_RECORD_ASSIGNMENT = "session.record_ep_graph_assignment_info"


def create(
    model: str | bytes, permit: Permit, libraries: Iterable[str], options: SessionOptions
) -> tuple[InferenceSession, tuple[str, ...]]:
    """Create a session from a permit.

    If EPs were specified, the session gets exactly these EPs in their order, then the CPU EP, without any fallback.
    Otherwise it gets all available EPs, as in ORT's own backend.

    :param libraries: libraries of custom operators, from the trusted environment.
    :return: the session, and the names of the registered libraries.
    """
    for name, value in permit.attributes.items():
        setattr(options, name, value)
    for key, text in permit.session_config.items():
        options.add_session_config_entry(key, text)
    registered = extensions.register(options, libraries)
    shapes = free_dimensions.apply(options, permit, model)
    try:
        session = _open_for_any_device(model, options, permit)
    except Exception as error:
        failures.refuse_rejected_entry(error, permit.session_config)
        failures.refuse_missing_thread_pools(error)
        if reason := failures.explain(error):
            raise reworded(type(error), reason) from error
        raise
    free_dimensions.verify(session, shapes)
    return session, registered


def _open_for_any_device(model: str | bytes, options: SessionOptions, permit: Permit) -> InferenceSession:
    create_session = _creator(model, options, permit)
    if ON_ANY_DEVICE.issuperset(permit.providers):
        session = create_session()
    else:
        from onnxruntime.backend.capture import graphs, locks  # only for EPs on a device  # noqa: PLC0415

        lock = partial(locks.while_opening, permit.providers)
        with lock():
            session = create_session()
            locks.of(session)
        graphs.require(session)
        replacement.watch(session, model, create_session, lock)
    if permit.device not in ("", "CPU"):
        got = session.get_providers()
        # ORT falls back to the CPU silently.
        if ON_ANY_DEVICE.issuperset(got) and presence.supports_device(permit.device, get_device()):
            excluded = ON_ANY_DEVICE.issuperset(permit.providers)
            raise RuntimeError(
                f"device {permit.device!r}: ORT created the session with {', '.join(got)} only. "
                f"{presence.EXCLUDED if excluded else failures.missing(permit.providers)}"
            )
    return session


def _creator(model: str | bytes, options: SessionOptions, permit: Permit) -> Callable[[], InferenceSession]:
    """Attach the EPs to the options, and return a function that creates a session with them."""
    if permit.explicit:
        return _creator_with_specified(model, options, permit)
    providers = list(permit.providers)
    if TENSORRT in providers and not _tensorrt_loads():
        providers.remove(TENSORRT)

    def create_session() -> InferenceSession:
        # Without fallback, ORT prints no banner about EPs if the process lacks global thread pools.
        first = {} if options.use_per_session_threads else {"enable_fallback": 0}
        try:
            session = InferenceSession(model, options, providers=providers, **first)
        except RuntimeError as error:
            failures.refuse_missing_thread_pools(error)
            if not first:
                raise
            session = InferenceSession(model, options, providers=providers)
        # A run that fails must fail, not run on another EP: the API's first use is testing.
        session.disable_fallback()
        return session

    return create_session


@cache
def _tensorrt_loads() -> bool:
    """Return whether TensorRT's libraries are on this machine.

    A build with TensorRT's EP has the EP on every machine. Without the libraries, ``InferenceSession`` prints an error
    of five lines and continues. That error is of no use to a caller who did not specify the EP.
    """
    load = getattr(_pybind_state, "register_tensorrt_plugins_as_custom_ops", None)
    try:
        if load is not None:
            load(SessionOptions(), {})
    except RuntimeError:
        return False
    return True


def _creator_with_specified(
    model: str | bytes, options: SessionOptions, permit: Permit
) -> Callable[[], InferenceSession]:
    # Have ORT record which nodes each EP takes, unless the caller specified the entry.
    if _RECORD_ASSIGNMENT not in permit.session_config and hasattr(
        InferenceSession, "get_provider_graph_assignment_info"
    ):
        options.add_session_config_entry(_RECORD_ASSIGNMENT, "1")
    specified = list(permit.providers)
    arguments = {"providers": _attach(options, permit), "enable_fallback": 0}

    def create_session() -> InferenceSession:
        try:
            if ON_ANY_DEVICE.issuperset(specified):
                session = InferenceSession(model, options, **arguments)
            else:
                from onnxruntime.backend.capture import eligibility  # only for EPs on a device  # noqa: PLC0415

                session = eligibility.open_session(model, options, permit.providers, **arguments)
        except NotPermittedError:
            raise
        except (RuntimeError, ValueError) as error:
            # ORT's own exceptions describe a fault of the model and are neither class: this is an EP's error.
            raise RuntimeError(
                f"ORT could not create a session with {', '.join(specified) or 'the CPU EP'}. "
                f"{failures.missing(specified)} ORT error: {error}"
            ) from error
        _verify_order(session, specified)
        return session

    return create_session


def _attach(options: SessionOptions, permit: Permit) -> list[tuple[str, dict]] | None:
    """Attach each EP through the API that preserves its options, and return the ``providers=`` argument.

    With this argument, ORT ignores every EP that is attached to the session options.
    """
    granted = permit.providers
    plugins = [name for name in granted if permit.kinds[name] == "plugin"]
    # ORT registers TensorRT's plugin operators only for EPs in this argument. The argument preserves the options of
    # CUDA and CPU as well.
    if TENSORRT in granted and TENSORRT not in plugins:
        if plugins:
            reject(
                f"it cannot be combined with {', '.join(plugins)}: ORT ignores plugin EPs if TensorRT is attached. "
                "Specify only one of them",
                "provider_options",
                TENSORRT,
            )
        return [(name, sent(settings)) for name, settings in granted.items()]
    for name, settings in granted.items():
        texts = sent(settings)
        chosen = _choose_device(name, presence.plugin_devices(name), settings, texts) if name in plugins else None
        try:
            if chosen:
                options.add_provider_for_devices([chosen], texts)
            else:
                # Either API alone loses options: add_provider those of OpenVINO that its factory parses again from the
                # entries, and the entries those that other EPs read from the call. The entries come first.
                for option, text in texts.items():
                    options.add_session_config_entry(f"ep.{name.lower()}.{option}", text)
                options.add_provider(name, texts)
        except Exception as error:
            failures.reject_absent_device(name, texts, error)
            raise RuntimeError(
                f"{name} could not be attached. {failures.missing([name])} ORT error: {error}"
            ) from error
    return None


def _choose_device(name: str, devices: list, settings: Mapping[str, Setting], texts: dict[str, str]) -> object:
    """Return a plugin EP's device: the one with the index ``device_id``, else the first. The WebGPU EP rejects two.

    :param texts: the texts to send. ``device_id`` is removed: the EP would ignore or reject it.
    """
    index = int(texts.pop("device_id", 0))
    if index >= len(devices):
        expected = f"an integer below {len(devices)}, the number of the EP's devices on this machine"
        reject_value(index, expected, "provider_options", name, "device_id")
    hardware = devices[index].device.type.name
    for option, setting in settings.items():
        if setting.rule.hardware not in ("", hardware):
            problem = f"has no effect on device {index} of the EP, a {hardware}. It requires a {setting.rule.hardware}"
            reject(problem, "provider_options", name, option)
    return devices[index]


def _verify_order(session: InferenceSession, specified: list[str]) -> None:
    """Check that a session has the specified EPs, in their order."""
    got = session.get_providers()
    missing = [name for name in specified if name not in got]
    if missing:
        raise RuntimeError(
            f"ORT created the session with {', '.join(got)} only, without {', '.join(missing)}. "
            f"{failures.missing(missing)}"
        )
    if [name for name in got if name in specified] != specified:
        raise RuntimeError(
            f"provider_options specifies {', '.join(specified)} in this order, but ORT attached {', '.join(got)}"
        )
