# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Merges the settings that a call requests: its keywords, the index of its device, and the environment."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from onnxruntime.backend.allowlist.permit import Request
from onnxruntime.backend.allowlist.rules import NOTHING, Values
from onnxruntime.backend.allowlist.tables import KEYWORDS, MOST_ENTRIES
from onnxruntime.backend.environment import configuration, variable
from onnxruntime.backend.errors import Place, reject, reject_type, show
from onnxruntime.backend.provider_names import CUDA, CUDA_DEVICE, ON_CUDA_DEVICE

ARGUMENTS = Place("keyword arguments")
_LONGEST_DEVICE = 100  # characters
_MOST_DIGITS = 2  # of the index of a device


def read_call(
    keywords: Values, attributes: Values = NOTHING, device: object = None, *, environment: Sequence[str] = KEYWORDS
) -> Request:
    """Read a call's arguments once, and add the environment's settings of the keywords in ``environment``."""
    attributes = read_mapping(ARGUMENTS, attributes)
    settings: dict[str, dict[str, Any]] = {}
    for keyword, mapping in keywords.items():
        if mapping is not None:
            settings[keyword] = read_mapping(Place(keyword), mapping)
    providers = settings.get("provider_options", {})
    for ep, options in providers.items():
        providers[ep] = read_mapping(Place("provider_options", ep), options)

    name, index = split_device(device)
    of_cuda = name in CUDA_DEVICE and index is not None
    if of_cuda:
        settings.setdefault("provider_options", {CUDA: {}})
    config = variable.read() if environment else NOTHING
    request = Request(settings, attributes, name, index, config, from_environment=set())
    for keyword in environment:
        if keyword in config:
            _add_defaults(request, keyword, config[keyword])
    if of_cuda:
        _add_index(settings["provider_options"], index)
    return request


def _add_index(providers: dict[str, dict[str, Any]], index: int | None) -> None:
    """Add the index of the device to the options of each EP on this device."""
    for ep, options in providers.items():
        if ep in ON_CUDA_DEVICE:
            options.setdefault("device_id", index)


def _add_defaults(request: Request, keyword: str, defaults: Values) -> None:
    """Add settings that the caller does not specify: key by key, and option by option inside an EP."""
    settings = _set_default(request, request.settings, keyword, {}, Place(keyword))
    for place, of_place in configuration.tables({keyword: defaults}):
        found = settings
        if place.provider:
            found = _set_default(request, settings, place.provider, {}, place)
        for name, value in of_place.items():
            _set_default(request, found, name, value, place._replace(key=name))


def _set_default(request: Request, settings: dict, name: str, value: object, place: Place) -> Any:
    """Return the value of the caller, or add and return this value of the environment."""
    if name not in settings:
        settings[name] = value
        request.from_environment.add(place._replace(key=place.key or None))  # as an error contains it
    return settings[name]


def read_mapping(place: Place, mapping: Any) -> dict[str, object]:
    """Return a copy of a caller's mapping. Refuse a value that is not a short mapping with exact ``str`` as keys."""
    if type(mapping) is not dict and not issubclass(type(mapping), Mapping):
        advice = "Use provider_options={EP: {option: value}}" if place == Place("provider_options") else ""
        reject_type(place, mapping, "a mapping such as a dict", advice)
    if type(mapping) is dict and len(mapping) <= MOST_ENTRIES:
        pairs = list(mapping.copy().items())  # another thread may change it
    else:
        try:
            pairs = [(key, value) for key, value in islice(mapping.items(), MOST_ENTRIES + 1)]
        except Exception:  # of the caller's class
            reject_type(place, mapping, "a mapping that can be read")
    if len(pairs) > MOST_ENTRIES:
        reject(place, f"more than {MOST_ENTRIES} entries")
    for key, _ in pairs:
        if type(key) is not str:  # a subclass could be found as one name and set another
            reject(place, f"a key must be a str, not {show(key)}")
    return dict(pairs)


def split_device(device: object) -> tuple[str, int | None]:
    """Return the name and the index of a device such as ``'CUDA:1'``. All other values have the name ``""``."""
    if not issubclass(type(device), str):
        return "", None
    # Not a pattern: the first match after ORT's work takes longer than the look-up of all settings.
    name, colon, digits = str.__str__(device)[:_LONGEST_DEVICE].partition(":")
    is_index = digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_DIGITS
    if not name.isidentifier() or (colon and not is_index):  # such as CPU-OPENVINO_CPU, the name of a build of ORT
        return "", None
    return name, int(digits) if colon else None
