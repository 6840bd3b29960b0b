# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Suggests the argument of this API that a caller probably means: a similar name, or the form of another API.

Only error messages and warnings use this module. It shows a caller's values as :func:`errors.show` does.
"""

from __future__ import annotations

import difflib  # noqa: F401 - errors.py uses it, and no run imports a module
import re
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

import onnxruntime
from onnxruntime import RunOptions, SessionOptions
from onnxruntime.backend import refusals
from onnxruntime.backend.allowlist.attributes import RUN_ATTRIBUTES, SESSION_ATTRIBUTES
from onnxruntime.backend.allowlist.providers import PROVIDERS
from onnxruntime.backend.allowlist.rules import Table
from onnxruntime.backend.allowlist.tables import BY_KEYWORD, KEYWORDS
from onnxruntime.backend.errors import Place, nearest, show
from onnxruntime.backend.provider_names import CUDA, CUDA_DEVICE, MIGRAPHX, OPENVINO, OPENVINO_AUTO
from onnxruntime.backend.refusals import openvino_names, packages

_LONGEST = 400
_LONGEST_NAME = 100
_MOST = 16  # far more than the EPs of a session
# A part of a name that is shorter than this is in too many names.
_SHORTEST_PART = 5
_MOST_SUGGESTED = 3
_SUFFIX = "executionprovider"
# The end of the name of a limit, and how many of its units are a second.
_UNITS = {
    "(ms|msecs?|millis|milliseconds?)$": 1e3,
    "(us|usecs?|micros|microseconds?)$": 1e6,
    "(ns|nanos|nanoseconds?)$": 1e9,
    "min(ute)?s?$": 1 / 60,
}
_LONGEST_LIMIT = 1e12
_LIKE_MEMORY = "(mem|arena).*(limit|max|size|extend)|(limit|max).*(mem|arena)"
_PROCESS_MEMORY = 'the memory of the process: see "Threads and memory" in docs/services-and-scale-out.md'
_FOR_SESSION_OPTIONS = (
    "Pass attributes as keyword arguments, such as intra_op_num_threads=2, and config entries in "
    "session_config={...}. Or create an InferenceSession with these options and pass it as the model"
)
_FOR_RUN_OPTIONS = "Pass attributes as keyword arguments, and config entries in run_config={...}"
_FOR_CONFIGURATION = "To pass a whole configuration, unpack it: prepare(model, **config)"
# What replaces a keyword argument of another API, by its type or name.
_INSTEAD = {
    SessionOptions: _FOR_SESSION_OPTIONS,
    "sess_options": _FOR_SESSION_OPTIONS,
    "session_options": _FOR_SESSION_OPTIONS,
    "so": _FOR_SESSION_OPTIONS,
    RunOptions: _FOR_RUN_OPTIONS,
    "run_options": _FOR_RUN_OPTIONS,
    "ro": _FOR_RUN_OPTIONS,
    "disabled_optimizers": "Use session_config={'optimization.disable_specified_optimizers': 'NAME;NAME'}",
    "output_names": "run() returns all outputs, in the order of the model. Select some from the list that it returns",
}


def provider_named(name: str, others: Iterable[str] = ()) -> str:
    """Return the EP with a short name such as ``"cuda"``, among those that ORT knows and others, or ``""``."""
    if len(name) > _LONGEST_NAME:
        return ""
    name = name.lower()
    for known in chain(PROVIDERS, onnxruntime.get_all_providers(), others):
        if name in (known.lower(), _short_name(known)):
            return known
    return ""


def _short_name(provider: str) -> str:
    return provider.lower().removesuffix(_SUFFIX)


def device(requested: object, supported: list[str]) -> str:
    """Return the sentence that suggests a supported device, such as ``'CUDA'`` for ``'cuda'``, or ``""``.

    The device is the second positional argument, as the session options of ``InferenceSession`` are.
    """
    if type(requested) is str and len(requested) <= _LONGEST_NAME:
        return _device_named(requested, supported)
    if type(requested) is dict:
        return f"{_FOR_CONFIGURATION}. "
    form = provider_options(requested)
    if form:
        return f"Use {form}. "
    advice = _INSTEAD.get(type(requested))
    if advice:
        return f"{advice}. "
    return ""


def _device_named(requested: str, supported: list[str]) -> str:
    name = requested.strip().upper()
    # ORT's own backend does not support it on a base with CUDA.
    if name == "CPU" and "CPU" not in supported:
        return "To use the CPU, omit the device and pass provider_options={'CPUExecutionProvider': {}}. "
    if name.endswith(_SUFFIX.upper()):
        provider = provider_named(requested) or requested
        return f"Use provider_options={{{show(provider)}: {{}}}}. "
    without_index, colon, _ = name.partition(":")
    if name != requested and (without_index in supported or without_index in CUDA_DEVICE):
        return f"Did you mean {show(name)}? "
    if colon and without_index in supported and without_index not in CUDA_DEVICE:
        return f"The only index of {without_index} is 0. "
    return ""


def provider_options(names: Any, options: Any = None) -> str:
    """Return ``provider_options={...}`` for the arguments of ``InferenceSession``, with known options, or ``""``."""
    if type(names) is str or _is_name_with_options(names):
        names = [names]
    if type(names) not in (list, tuple) or not 0 < len(names) <= _MOST:
        return ""
    if type(options) not in (list, tuple) or len(options) != len(names):
        options = [None] * len(names)

    forms: dict[str, str] = {}
    for entry, separate_options in zip(names, options, strict=True):
        name, own_options = entry, separate_options
        if type(entry) in (tuple, list) and len(entry) == 2:
            name, own_options = entry
        if type(name) is not str or len(name) > _LONGEST_NAME:
            return ""
        name = provider_named(name) or name
        forms[show(name)] = _mapping(own_options, name)

    parts = [f"{name}: {form}" for name, form in forms.items()]
    return _form(parts)


def _is_name_with_options(names: object) -> bool:
    return type(names) is tuple and tuple(map(type, names)) == (str, dict)


def _mapping(options: object, provider: str = "") -> str:
    """Return options as text, without those that a provider with a table does not have."""
    if options is None:
        return "{}"
    if type(options) is not dict or len(options) > _MOST:
        return "{...}"
    parts = []
    for key, value in options.items():
        if provider not in PROVIDERS or _has_option(provider, key):
            parts.append(f"{show(key)}: {_code(value)}")
    return f"{{{', '.join(parts)}}}"


def _code(value: object) -> str:
    """Return a value as Python code: ``...`` for an object that :func:`show` describes in words."""
    text = show(value)
    if text.startswith(("a value ", "an integer ")):
        return "..."
    return text


def instead_of_container(keyword: str, container: object, others: Mapping[str, object]) -> str:
    """Return the sentence that suggests the form of a keyword argument that is not a mapping, or ``""``."""
    if keyword != "provider_options":
        return _INSTEAD.get(type(container), "")
    names = others.get("providers")
    if names is None:
        form = provider_options(container) or _named_options(container)
    else:
        form = provider_options(names, container)
    if form:
        return f"Use {form}"
    return ""


def _named_options(options: Any) -> str:
    """Return ``provider_options={...}`` for one mapping of options in a list, without the name of their EP."""
    if type(options) not in (list, tuple) or len(options) != 1:
        return ""
    (of_an_ep,) = options
    if type(of_an_ep) is not dict or len(of_an_ep) > _MOST:
        return ""
    names = []
    for ep in PROVIDERS:
        if all(type(key) is str and _has_option(ep, key) for key in of_an_ep):
            names.append(show(ep))
    name = names[0] if len(names) == 1 else "EP"
    return _form([f"{name}: {_mapping(of_an_ep)}"])


def _form(parts: list[str]) -> str:
    """Return ``provider_options={...}``, or ``""`` if it is long."""
    text = f"provider_options={{{', '.join(parts)}}}"
    if len(text) > _LONGEST:
        return ""
    return text


def ignored_keyword(name: str, value: object) -> str:
    """Return the warning about a keyword argument that has no effect in this call."""
    keyword = f"Keyword argument {show(name)}"
    if name in SESSION_ATTRIBUTES:
        return f"{keyword} is ignored, because the session already exists. Pass it to prepare together with the model"
    if name in RUN_ATTRIBUTES:
        return f"{keyword} is ignored by prepare. Pass it to run"
    advice = _instead_of_keyword(name, value)
    if advice:
        return f"{keyword} is ignored. {advice}"
    advice = _similar_keyword(name, value) or _limit_of_memory("", name)
    return f"{keyword} is unknown and is ignored{advice}"


def seconds(name: str, value: Any) -> str:
    """Return the seconds of a limit such as ``timeout_ms=100``, or ``""`` if the value is not a positive number."""
    if type(value) not in (int, float) or not 0 < value < _LONGEST_LIMIT:
        return ""
    for ending, of_a_second in _UNITS.items():
        if re.search(ending, name.lower()):
            value /= of_a_second
    return f"{value:g}"


def _instead_of_keyword(name: str, value: Any) -> str:
    """Return the sentence that suggests the replacement of a keyword argument of another API, or ``""``."""
    if name in ("providers", "provider", "execution_providers", "eps"):
        return f"Use {provider_options(value) or 'provider_options={EP: {...}}'}"
    advice = _INSTEAD.get(type(value)) or _INSTEAD.get(name)
    if advice:
        return advice
    is_short = type(value) is dict and len(value) <= _MOST
    if is_short and value.keys() <= set(KEYWORDS):
        return _FOR_CONFIGURATION
    provider = provider_named(name)
    if provider:
        return f"Use provider_options={{'{provider}': {_mapping(value)}}}"
    for provider in chain([CUDA], PROVIDERS):
        if _has_option(provider, name):
            return f"Use provider_options={{'{provider}': {{'{name}': {_code(value)}}}}}"
    return ""


def _has_option(provider: str, name: str) -> bool:
    return any(name in table for table in PROVIDERS[provider].values())


def _similar_keyword(name: str, value: object) -> str:
    """Return the sentence that suggests keyword arguments and config entries with a similar name, or ``""``."""
    forms = []
    known = chain(KEYWORDS, SESSION_ATTRIBUTES, RUN_ATTRIBUTES, ["device"])
    for keyword in _similar(name, known):
        if keyword in KEYWORDS:
            text = _mapping(value)
        else:
            text = _code(value)
        forms.append(f"{keyword}={text}")
    if forms:
        return _did_you_mean(forms)
    for keyword in ("session_config", "run_config"):
        for key in _similar(name, BY_KEYWORD[keyword], at_end=True):
            forms.append(f"{keyword}={{{key!r}: {_code(value)}}}")
    return _did_you_mean(forms)


def similar_provider(name: str) -> str:
    """Return the sentence that suggests an EP with a similar name, or that lists the known EPs."""
    by_short_name = {_short_name(provider): provider for provider in PROVIDERS}
    by_short_name["rocm"] = MIGRAPHX  # ORT 1.23 removed the ROCm EP
    short_name = name.strip().lower().partition("exec")[0]
    similar = nearest(short_name, by_short_name)
    if similar in by_short_name:
        return _did_you_mean([f"'{by_short_name[similar]}'"])
    return f". Known: {', '.join(PROVIDERS)}"


def unknown_provider(name: str) -> str:
    """Return sentences that suggest an EP with a similar name, or that list the known EPs."""
    sentence = similar_provider(name)
    if sentence.endswith("?"):
        return sentence
    return f"{sentence}. {packages.REGISTER}"


def absent_provider(name: str) -> str:
    """Return the sentences about the next step for an EP that this process does not have."""
    return f". {packages.advice(name)}"


def why_unknown(known: Table, place: Place, kind: str) -> str:
    """Return the most specific reason for the refusal of a name that no table contains."""
    keyword = place.keyword
    provider = place.provider
    key = place.key or ""
    reason = why_refused(keyword, provider, key, kind)
    if reason:
        return reason
    if not provider:
        what = "attribute" if keyword == "session_options" else "key"
        return f"unknown {what}{similar_name(keyword, provider, key, known)}"

    if provider in (OPENVINO, OPENVINO_AUTO):
        refused = refusals.PROVIDERS[provider].get(kind, {})
        advice = openvino_names.instead(key, known, refused)
        if advice:
            return f"unknown option{advice}"
    is_reviewed = provider in PROVIDERS
    if (is_reviewed and known) or _other_places(key):
        return f"unknown option{similar_name(keyword, provider, key, known)}"
    have = "are permitted" if is_reviewed else "have been reviewed"
    advice = _limit_of_memory(provider, key) or f". Use provider_options={{'{provider}': {{}}}}"
    return f"no options of this execution provider {have}{advice}"


def why_refused(where: str, provider: str, name: str, kind: str = "") -> str:
    """Return the documented reason of a refusal, or ``""``."""
    verdict = refusals.find(where, provider, name, kind)
    if verdict is None:
        return ""
    return verdict.text(of_run=where.startswith("run"))


def similar_name(keyword: str, provider: str, name: str, known: Iterable[str]) -> str:
    """Return the sentence that suggests names for an unknown name: names of the same table, or of other tables."""
    places = _other_places(name)
    if places:
        return f". It belongs in {' or '.join(places)}"
    similar = _similar(name, known)
    if similar:
        return _did_you_mean([f"'{other}'" for other in similar])

    forms = []
    for other_keyword, table in BY_KEYWORD.items():
        for key in _similar(name, table, at_end=True):
            forms.append(str(Place(other_keyword, key=key)))
    if not forms and not provider:
        for ep in PROVIDERS:
            if _has_option(ep, name):
                forms.append(str(Place("provider_options", ep, name)))
    advice = _limit_of_memory(provider, name)
    if advice and not forms:
        return advice
    if forms or keyword == "session_options":
        return _did_you_mean(forms)
    scope = provider or keyword.removesuffix("_config")
    return f". To list the permitted names, run `python -m onnxruntime.backend options {scope}`"


def _limit_of_memory(provider: str, name: str) -> str:
    """Return the sentences about the option that limits the memory of an EP, for a name that looks like one."""
    if len(name) > _LONGEST_NAME or not re.search(_LIKE_MEMORY, name.lower()):
        return ""
    ep = provider or CUDA
    option = _memory_option(ep)
    if not option:
        return f". No option limits the memory of {ep}. Limit {_PROCESS_MEMORY}"
    advice = f". {Place('provider_options', ep, option)} limits the memory of this EP"
    if not provider:
        advice += f". For the CPU EP, limit {_PROCESS_MEMORY}"
    return advice


def _memory_option(ep: str) -> str:
    for table in PROVIDERS.get(ep, {}).values():
        for option in table:
            if option.endswith("mem_limit"):
                return option
    return ""


def _other_places(name: str) -> list[str]:
    """Return the arguments that accept a name."""
    places = [keyword for keyword, table in BY_KEYWORD.items() if name in table]
    if name in KEYWORDS:
        places.append("the keyword arguments of prepare")
    if name in RUN_ATTRIBUTES:
        places.append("the keyword arguments of run")
    return places


def _similar(name: str, known: Iterable[str], *, at_end: bool = False) -> list[str]:
    """Return the known name with the most similar spelling, or else the few that contain whole words of the name.

    :param at_end: whether these words must be the end of the known name.
    """
    if len(name) > _LONGEST_NAME:
        return []
    folded = name.strip().lower()
    by_folded = {key.lower(): key for key in known}
    near = nearest(folded, by_folded)
    # The last part is similar, too: `session.` alone says nothing.
    part = folded.replace("-", "_").rpartition(".")[2]
    part_of_near = near.rpartition(".")[2]
    if nearest(part, [part_of_near]):
        return [by_folded[near]]
    if len(part) < _SHORTEST_PART:
        return []

    by_words = {f"_{form.replace('.', '_')}_": key for form, key in by_folded.items()}
    words = f"_{part}_"
    similar = [key for form, key in by_words.items() if form.endswith(words)]
    if not similar and not at_end:
        similar = [key for form, key in by_words.items() if words in form]
    if len(similar) > _MOST_SUGGESTED:
        return []
    return similar


def _did_you_mean(forms: list[str]) -> str:
    if not forms:
        return ""
    forms = forms[:_MOST_SUGGESTED]
    text = ", ".join(forms[:-1])
    if text:
        text += " or "
    return f". Did you mean {text}{forms[-1]}?"
