# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""What was asked: the keywords of a call, each read once, with what the environment adds and the device's index."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Container, Iterable, Mapping
from functools import cache
from itertools import islice

import onnxruntime
from onnxruntime import InferenceSession, RunOptions
from onnxruntime.backend.allowlist_rules import NOTHING, Circumstances
from onnxruntime.backend.messages import MOST_ENTRIES, NotPermittedError, WrongTypeError, late, refuse, show
from onnxruntime.backend.provider_names import CUDA, ON_CUDA_DEVICE

# What JSON text can hold, besides "extensions".
KEYWORDS = ("provider_options", "session_config", "run_config", "session_options", "free_dimension_overrides")
ENVIRONMENT = "ORT_ONNX_BACKEND_CONFIG"
_LONGEST_DEVICE = 64
# The types that names may have: a subclass of str could be found as one name and mean another.
_NAMES = frozenset({str})
_WITHOUT_INDEX = ("CPU", "CUDA", "GPU")


class Request:
    """What a call asks of a session. ``None`` for what neither the caller nor the environment names.

    Names are exact ``str``; values are as the caller gave them.
    """

    #: EP to option to value.
    provider_options: dict[str, dict[str, object]] | None = None
    #: Key to value.
    session_config: dict[str, object] | None = None
    run_config: dict[str, object] | None = None
    #: Attribute of SessionOptions to value.
    session_options: dict[str, object] | None = None
    #: Dimension name to size.
    free_dimension_overrides: dict[str, object] | None = None
    #: Libraries of custom operators, which only the environment names.
    extensions: Iterable[str] = ()
    #: What only the environment names, as ``(keyword, provider, key)``.
    from_environment: Container[tuple[str, str, str]] = frozenset()

    def __init__(
        self,
        device: object = None,
        *,
        attributes: Mapping[str, object] = NOTHING,
        environment: Iterable[str] = KEYWORDS,
        **keywords: object,
    ) -> None:
        """
        :param device: ONNX's name of the device, perhaps with an index, which becomes the named EPs' ``device_id``.
        :param attributes: all other keyword arguments of the call.
        :param environment: those of ``KEYWORDS`` that the environment may add to.
        :param keywords: what the caller gave for those of ``KEYWORDS``.
        :raises NotPermittedError: when a keyword cannot be read, or contradicts another one.
        :raises RuntimeError: when the environment's configuration cannot be understood.
        """
        self.device, index = split_device(device)
        self.attributes = attributes
        if "extensions" in attributes:
            refuse(f'only the environment variable {ENVIRONMENT} names them, as {{"extensions": [...]}}', "extensions")
        for keyword, given in keywords.items():
            if given is not None:
                setattr(self, keyword, read(keyword, given, beside=attributes))
        if self.provider_options is not None:
            for name, options in self.provider_options.items():
                self.provider_options[name] = read("provider_options", options, name)
        elif self.device in ("CUDA", "GPU") and index is not None:
            self.provider_options = {CUDA: {}}
        text = os.environ.get(ENVIRONMENT)
        if text:
            self._add(text, environment)
        if self.provider_options is not None and self.device in ("CUDA", "GPU"):
            self._settle_device(device, index)

    def _add(self, text: str, keywords: Iterable[str]) -> None:
        """Add what the environment names and the caller does not: key by key, and option by option inside an EP."""
        from onnxruntime.backend import configuration_json  # for whom the variable is set  # noqa: PLC0415

        try:
            named = configuration_json.of_environment(text)
        except (OSError, ValueError) as error:
            raise RuntimeError(f"the environment variable {ENVIRONMENT} cannot be used: {error}") from None
        self.extensions = named.get("extensions", ())
        self.from_environment = set()
        for keyword in keywords:
            if keyword not in named:
                continue
            given = getattr(self, keyword)
            if given is None:
                given = {}
                setattr(self, keyword, given)
                self.from_environment.add((keyword, "", ""))
            if keyword != "provider_options":
                self._merge(given, named[keyword], keyword, "")
                continue
            for name, options in named[keyword].items():
                if name not in given:
                    self.from_environment.add((keyword, name, ""))
                self._merge(given.setdefault(name, {}), options, keyword, name)

    def _merge(self, given: dict[str, object], entries: Mapping[str, object], keyword: str, provider: str) -> None:
        for key, value in entries.items():
            if key not in given:
                given[key] = value
                self.from_environment.add((keyword, provider, key))

    def _settle_device(self, device: object, index: int | None) -> None:
        """Give the device's index to the named EPs that run there."""
        from onnxruntime.backend.value_kinds import whole  # long to import, and seldom needed  # noqa: PLC0415

        there = [name for name in self.provider_options if name in ON_CUDA_DEVICE]
        if not there:
            refuse("it contradicts provider_options, which names no EP of that device", "device", value=device)
        for name in there if index is not None else ():
            options = self.provider_options[name]
            try:
                same = whole(options.setdefault("device_id", index)) == index
            except ValueError:
                continue  # the allowlist says what is wrong with it
            if not same:
                refuse(
                    f"it contradicts provider_options['{name}'], whose device_id is {show(options['device_id'])}",
                    "device",
                    value=device,
                )

    @property
    def named(self) -> list[str]:
        """The keywords that anything was given for."""
        return list(filter(vars(self).__contains__, KEYWORDS))

    def told_apart(self, refusal: NotPermittedError) -> RuntimeError:
        """The error to raise for a refusal: of what the environment names it is not the caller's, and says so."""
        if (refusal.keyword, refusal.provider, refusal.key) in self.from_environment:
            return RuntimeError(f"{refusal} (from the environment variable {ENVIRONMENT})")
        return refusal


def refuse_while_model_configures(named: Iterable[str]) -> None:
    """Refuse what is named while ORT would replace all session options by what the model's metadata says.

    :param named: keyword arguments.
    """
    for keyword in named if os.environ.get("ORT_LOAD_CONFIG_FROM_MODEL") == "1" else ():
        refuse(
            "the environment variable ORT_LOAD_CONFIG_FROM_MODEL is 1, with which ORT replaces the session's options "
            "by the model's metadata",
            keyword,
        )


def read(keyword: str, given: object, provider: str = "", beside: Mapping[str, object] = NOTHING) -> dict[str, object]:
    """Read a caller's mapping once.

    :param keyword: the keyword argument, for messages.
    :param given: what the caller passed for it.
    :param provider: the EP, where it is the options of one.
    :param beside: the call's other keyword arguments, for messages.
    :return: a copy whose keys are exact ``str``.
    :raises WrongTypeError: when it is not a mapping.
    :raises NotPermittedError: when it has more entries than any configuration, or a name that is no ``str``.
    """
    if type(given) is dict and len(given) <= MOST_ENTRIES:
        given = given.copy()  # another thread may change the caller's
        if len(given) <= MOST_ENTRIES and _NAMES.issuperset(map(type, given)):
            return given
    try:
        if isinstance(given, Mapping):
            pairs = [(key, value) for key, value in islice(given.items(), MOST_ENTRIES + 1)]
        else:
            pairs = None
    except Exception:
        refuse("it could not be read as a mapping", keyword, provider, error=WrongTypeError)
    if pairs is None:
        idioms = None if provider else late("idioms")
        advice = idioms.instead_of_container(keyword, given, beside) if idioms else ""
        reason = f"it must be a mapping such as a dict, not {show(given)}{advice}"
        refuse(reason, keyword, provider, error=WrongTypeError)
    if len(pairs) > MOST_ENTRIES:
        refuse(f"it has more than {MOST_ENTRIES} entries", keyword, provider)
    for key, _ in pairs:
        if type(key) is not str:
            refuse("a name must be a str", keyword, provider, show(key))
    return dict(pairs)


def split_device(device: object) -> tuple[str, int | None]:
    """Divide a device such as ``'CUDA:1'``, the syntax of :class:`onnx.backend.base.Device`.

    :return: its name and index; ``""`` for what is no device, ``None`` where there is no index.
    """
    if type(device) is not str or len(device) > _LONGEST_DEVICE:
        return "", None
    if device in _WITHOUT_INDEX:  # as most are
        return device, None
    match = re.fullmatch(r"([A-Z0-9_]+)(?::([0-9]{1,2}))?", device, re.ASCII)
    if match is None:
        return "", None
    return match[1], None if match[2] is None else int(match[2])


def circumstances(providers: Iterable[str]) -> Circumstances:
    """Describe a session with these EPs, of which nothing else is known yet, on this machine."""
    return _here().replace(providers=tuple(providers))


def circumstances_of(session: InferenceSession, attributes: Iterable[str]) -> Circumstances:
    """Describe an open session.

    :param attributes: the names of the SessionOptions attributes to describe it by.
    """
    options = session.get_session_options()
    return circumstances(session.get_providers()).replace(
        attributes={name: getattr(options, name) for name in attributes}, options=session.get_provider_options()
    )


@cache
def _here() -> Circumstances:
    major, minor = onnxruntime.__version__.split(".")[:2]
    return Circumstances((int(major), int(minor)), platform.machine(), system=platform.system())


def run_options(attributes: Mapping[str, object], entries: Mapping[str, str]) -> RunOptions:
    """Fresh run options with these attributes and run config entries."""
    options = RunOptions()
    for name, value in attributes.items():
        setattr(options, name, value)
    for key, text in entries.items():
        options.add_run_config_entry(key, text)
    return options
