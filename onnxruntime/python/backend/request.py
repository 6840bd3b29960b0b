# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Merges the settings that a call requests: its keywords, the index of its device, and the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from onnxruntime.backend import optional_parts
from onnxruntime.backend.allowlist.rules import NOTHING, Narrowing
from onnxruntime.backend.errors import NotPermittedError, from_refusals, reject, reject_key, reject_type
from onnxruntime.backend.keywords import ENVIRONMENT, FROM_ENVIRONMENT, KEYWORDS
from onnxruntime.backend.provider_names import CUDA, CUDA_DEVICE, ON_CUDA_DEVICE

MOST_ENTRIES = 256  # more than ORT has keys


@dataclass(eq=False, repr=False)
class Request:
    """The settings that a call requests, with exact ``str`` as names."""

    settings: dict[str, dict[str, object]] = field(default_factory=dict)  # by keyword, of those that are specified
    attributes: Mapping[str, object] = field(default_factory=dict)  # all other keyword arguments of the call
    device: str = ""  # ONNX's name of the device
    device_index: int | None = None
    # Libraries of custom operators and of plugin EPs, which only the environment may specify.
    extensions: Iterable[str] = ()
    plugins: Iterable[str] = ()
    narrowing: Narrowing = field(default_factory=Narrowing)  # the settings that callers may set
    # The settings that only the environment specifies, as (keyword, provider, key).
    from_environment: set[tuple[str, str, str]] = field(default_factory=set)

    def add_origin(self, sentences: Mapping[str, dict[str, str]]) -> None:
        """Add the name of the environment variable to the sentences about its settings, by keyword and key."""
        for keyword, texts in sentences.items():
            for key in texts:
                if (keyword, "", key) in self.from_environment and key not in self.attributes:
                    texts[key] += FROM_ENVIRONMENT

    def with_origin(self, refusal: NotPermittedError) -> RuntimeError:
        """Return a refusal, or a plain error in its place if the caller did not specify the refused setting."""
        # The keyword argument of an attribute is its name, even if session_options specifies the attribute.
        attribute = refusal.keyword not in self.attributes and ("session_options", "", refusal.keyword)
        eps = refusal.keyword == "device" and ("provider_options", "", "")  # which contradict the device
        if {(refusal.keyword, refusal.provider, refusal.key), attribute, eps}.isdisjoint(self.from_environment):
            return refusal
        return RuntimeError(f"{refusal}{FROM_ENVIRONMENT}")


def of_call(
    keywords: Mapping[str, object],
    attributes: Mapping[str, object] = NOTHING,
    device: object = None,
    *,
    environment: Sequence[str] = KEYWORDS,
) -> Request:
    """Read a call's arguments once, and add the environment's settings of the keywords in ``environment``."""
    name, index = split_device(device)
    of_cuda = name in CUDA_DEVICE and index is not None
    settings = {word: read(word, given, beside=attributes) for word, given in keywords.items() if given is not None}
    for ep, options in settings.get("provider_options", NOTHING).items():
        settings["provider_options"][ep] = read("provider_options", options, ep)
    if of_cuda:
        settings.setdefault("provider_options", {CUDA: {}})
    request = Request(settings, attributes, name, index)
    if environment:
        specified, request.narrowing = of_environment()
        add(request, specified, environment)
    for ep, options in settings["provider_options"].items() if of_cuda else ():
        if ep in ON_CUDA_DEVICE:
            options.setdefault("device_id", index)
    return request


class Environment(NamedTuple):
    """The configuration in the environment variable."""

    settings: Mapping[str, object] = NOTHING  # by keyword, and the names of libraries
    narrowing: Narrowing = Narrowing()  # the settings that callers may set


def of_environment() -> Environment:
    """Return the configuration in the environment variable, which only environment/ can read."""
    text = os.environ.get(ENVIRONMENT)
    if not text:
        return Environment()
    variable = optional_parts.require("environment.variable", f"the environment variable {ENVIRONMENT} cannot be used")
    return Environment(*variable.read(text))


def add(request: Request, specified: Mapping[str, object], keywords: Iterable[str]) -> None:
    """Add settings that the caller does not specify: key by key, and option by option inside an EP."""
    request.extensions, request.plugins = specified.get("extensions", ()), specified.get("plugins", ())
    added = request.from_environment
    for keyword in (word for word in keywords if word in specified):
        if keyword not in request.settings:
            request.settings[keyword] = {}
            added.add((keyword, "", ""))
        given, entries = request.settings[keyword], specified[keyword]
        levels = {"": (given, entries)}
        if keyword == "provider_options":
            added.update((keyword, ep, "") for ep in entries.keys() - given.keys())
            levels = {ep: (given.setdefault(ep, {}), options) for ep, options in entries.items()}
        for ep, (own, more) in levels.items():
            added.update((keyword, ep, key) for key in more.keys() - own.keys())
            own.update({**more, **own})


def read(keyword: str, given: object, provider: str = "", beside: Mapping[str, object] = NOTHING) -> dict[str, object]:
    """Return a copy of a caller's mapping, or refuse a value that is not a short mapping with exact ``str`` as keys."""
    if not issubclass(type(given), Mapping):
        advice = "" if provider else from_refusals("instead_of_container", keyword, given, beside)
        reject_type(given, "a mapping such as a dict", keyword, provider, advice=advice)
    try:
        if type(given) is dict and len(given) <= MOST_ENTRIES:
            given = given.copy()  # another thread may change it
        pairs = [(key, value) for key, value in islice(given.items(), MOST_ENTRIES + 1)]
    except Exception:
        reject_type(given, "a mapping that can be read", keyword, provider)
    if len(pairs) > MOST_ENTRIES:
        reject(f"more than {MOST_ENTRIES} entries", keyword, provider)
    for key, _ in pairs:
        if type(key) is not str:  # a subclass could be found as one name and set another
            reject_key(key, keyword, provider)
    return dict(pairs)


def split_device(device: object) -> tuple[str, int | None]:
    """Return the name (``""`` for a value that is not a device) and the index of a device such as ``'CUDA:1'``."""
    text = str.__str__(device) if issubclass(type(device), str) else ""
    match = re.fullmatch(r"([A-Z0-9_]{1,60})(?::([0-9]{1,2}))?", text, re.ASCII)
    return (match[1], match[2] and int(match[2])) if match else ("", None)
