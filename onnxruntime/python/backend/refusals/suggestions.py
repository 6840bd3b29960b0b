# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Suggests the argument of this API that a caller probably means: a similar name, or the form of another API.

Only error messages and warnings use this module. It shows a caller's values as :func:`errors.show` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnxruntime
from onnxruntime import RunOptions, SessionOptions
from onnxruntime.backend import refusals
from onnxruntime.backend.allowlist.ort_options import BY_KEYWORD, RUN_ATTRIBUTES, SESSION_ATTRIBUTES
from onnxruntime.backend.allowlist.providers import PROVIDERS
from onnxruntime.backend.allowlist.rules import Place, Rule
from onnxruntime.backend.errors import name_of, nearest, show
from onnxruntime.backend.keywords import KEYWORDS, LIMITS
from onnxruntime.backend.provider_names import CUDA, CUDA_DEVICE
from onnxruntime.backend.refusals import packages

_LONGEST, _LONGEST_NAME = 400, 100
_MOST = 16  # far more than the EPs of a session
# A part of a name that is shorter than this is in too many names.
_SHORTEST_PART = 5
_MOST_SUGGESTED = 3
_SUFFIX = "executionprovider"
_FOR_SESSION_OPTIONS = (
    "Pass attributes as keyword arguments, such as intra_op_num_threads=2, and config entries in "
    "session_config={...}. Or create an InferenceSession with these options and pass it as the model"
)
_FOR_RUN_OPTIONS = "Pass attributes as keyword arguments, and config entries in run_config={...}"
_FOR_CONFIGURATION = "To pass a whole configuration, unpack it: prepare(model, **config)"
# What replaces a keyword argument of another API, by its type or name.
_INSTEAD = {
    **dict.fromkeys((SessionOptions, "sess_options", "session_options", "so"), _FOR_SESSION_OPTIONS),
    **dict.fromkeys((RunOptions, "run_options", "ro"), _FOR_RUN_OPTIONS),
    "disabled_optimizers": "Use session_config={'optimization.disable_specified_optimizers': 'NAME;NAME'}",
    "output_names": "run() returns all outputs, in the order of the model. Select some from the list that it returns",
}
# What replaces a name of InferenceSession. The other names are attributes of rep.session.
_OF_SESSION = {
    "get_providers": "rep.providers",
    "get_provider_options": "rep.provider_options",
    "get_session_options": "rep.session_options and rep.session_config",
    "run_async": "rep.run in a thread",
    "run_with_ort_values": "rep.run, which accepts OrtValue objects",
}


def provider_named(name: str, others: Iterable[str] = ()) -> str:
    """Return the EP with a short name such as ``"cuda"``, among those that ORT knows and others, or ``""``."""
    for known in (*PROVIDERS, *onnxruntime.get_all_providers(), *others) if len(name) <= _LONGEST_NAME else ():
        if name.lower() in (known.lower(), known.lower().removesuffix(_SUFFIX)):
            return known
    return ""


def of_session(name: str) -> str:
    """Return the sentence that suggests what replaces a name of ``InferenceSession`` in a prepared model."""
    return f". Use {_OF_SESSION.get(name, f'rep.session.{name}')}"


def device(given: object, supported: list[str]) -> str:
    """Return the sentence that suggests a supported device, such as ``'CUDA'`` for ``'cuda'``, or ``""``.

    The device is the second positional argument, as the session options of ``InferenceSession`` are.
    """
    if type(given) is str and len(given) <= _LONGEST_NAME:
        name = given.strip().upper()
        if name == "CPU" and "CPU" not in supported:  # ORT's own backend does not support it on a base with CUDA
            return "To use the CPU, omit the device and pass provider_options={'CPUExecutionProvider': {}}. "
        if name.endswith(_SUFFIX.upper()):
            return f"Use provider_options={{{show(provider_named(given) or given)}: {{}}}}. "
        known = name.partition(":")[0] in (*supported, *CUDA_DEVICE)
        return f"Did you mean {show(name)}? " if name != given and known else ""
    if type(given) is dict:
        return f"{_FOR_CONFIGURATION}. "
    form = provider_options(given)
    advice = f"Use {form}" if form else _INSTEAD.get(type(given))
    return f"{advice}. " if advice else ""


def provider_options(names: object, options: object = None) -> str:
    """Return ``provider_options={...}`` for the arguments of ``InferenceSession``, with known options, or ``""``."""
    if type(names) is str or (type(names) is tuple and tuple(map(type, names)) == (str, dict)):
        names = [names]
    if type(names) not in (list, tuple) or not 0 < len(names) <= _MOST:
        return ""
    given = list(options) if type(options) in (list, tuple) and len(options) == len(names) else [None] * len(names)
    found: dict[str, str] = {}
    for entry, of_entry in zip(names, given, strict=True):
        name, own = entry if type(entry) in (tuple, list) and len(entry) == 2 else (entry, of_entry)
        if type(name) is not str or len(name) > _LONGEST_NAME:
            return ""
        name = provider_named(name) or name
        tables = PROVIDERS.get(name, {}).values()
        if tables and type(own) is dict and len(own) <= _MOST:
            own = {key: value for key, value in own.items() if any(key in table for table in tables)}
        found[show(name)] = _mapping(own)
    text = "provider_options={" + ", ".join(f"{name}: {own}" for name, own in found.items()) + "}"
    return text if len(text) <= _LONGEST else ""


def _mapping(options: object) -> str:
    if type(options) is not dict or len(options) > _MOST:
        return "{}" if options is None else "{...}"
    return "{" + ", ".join(f"{show(key)}: {show(value)}" for key, value in options.items()) + "}"


def instead_of_container(keyword: str, given: object, others: Mapping[str, object]) -> str:
    """Return the sentence that suggests the form of a keyword argument that is not a mapping, or ``""``."""
    if keyword != "provider_options":
        return _INSTEAD.get(type(given), "")
    names = others.get("providers")
    form = provider_options(given) if names is None else provider_options(names, given)
    return f"Use {form}" if form else ""


def ignored_keyword(name: str, value: object) -> str:
    """Return the warning about a keyword argument that has no effect in this call."""
    keyword = f"Keyword argument {show(name)}"
    if name in SESSION_ATTRIBUTES:
        return f"{keyword} is ignored, because the session already exists. Pass it to prepare together with the model"
    if name in RUN_ATTRIBUTES or name in LIMITS:
        return f"{keyword} is ignored by prepare. Pass it to run"
    if advice := _instead_of_keyword(name, value):
        return f"{keyword} is ignored. {advice}"
    return f"{keyword} is unknown and is ignored{_similar_keyword(name, value)}"


def _instead_of_keyword(name: str, value: object) -> str:
    """Return the sentence that suggests the replacement of a keyword argument of another API, or ``""``."""
    if name in ("providers", "provider", "execution_providers", "eps"):
        return f"Use {provider_options(value) or 'provider_options={EP: {...}}'}"
    if advice := _INSTEAD.get(type(value)) or _INSTEAD.get(name):
        return advice
    if type(value) is dict and len(value) <= _MOST and value.keys() <= {*KEYWORDS}:
        return _FOR_CONFIGURATION
    if name == "device_id":
        return f"Use device='CUDA:{value if type(value) is int and 0 <= value < 64 else 0}'"
    if ep := provider_named(name):
        return f"Use provider_options={{'{ep}': {_mapping(value)}}}"
    for ep in (CUDA, *PROVIDERS):
        if any(name in table for table in PROVIDERS[ep].values()):
            return f"Use provider_options={{'{ep}': {{'{name}': {show(value)}}}}}"
    return ""


def _similar_keyword(name: str, value: object) -> str:
    """Return the sentence that suggests keyword arguments and config entries with a similar name, or ``""``."""
    known = (*KEYWORDS, *SESSION_ATTRIBUTES, *RUN_ATTRIBUTES, *LIMITS, "device")
    forms = [f"{other}={_mapping(value) if other in KEYWORDS else show(value)}" for other in _similar(name, known)]
    for keyword in ("session_config", "run_config") if not forms else ():
        keys = _similar(name, BY_KEYWORD[keyword], at_end=True)
        forms += [f"{keyword}={{{key!r}: {show(value)}}}" for key in keys]
    return _did_you_mean(forms)


def similar_provider(name: str) -> str:
    """Return the sentence that suggests an EP with a similar name, or that lists the known EPs."""
    names = {known.lower().removesuffix(_SUFFIX): known for known in PROVIDERS}
    meant = names.get(nearest(name.strip().lower().partition("exec")[0], names))
    return _did_you_mean([f"'{meant}'"]) if meant else f". Known: {', '.join(PROVIDERS)}"


def unknown_provider(name: str) -> str:
    """Return the sentences that suggest an EP with a similar name, or that list the known EPs and the next step."""
    similar = similar_provider(name)
    return similar if similar.endswith("?") else f"{similar}. {packages.REGISTER}"


def absent_provider(name: str) -> str:
    """Return the sentences about the next step for an EP that this process does not have."""
    return f". {packages.advice(name)}"


def why_unknown(known: Mapping[str, Rule], place: Place, kind: str) -> str:
    """Return the most specific reason for the refusal of a name that no table contains."""
    keyword, provider, key = place
    if reason := why_refused(*place, kind):
        return reason
    if provider and not (known and provider in PROVIDERS) and not of_other_tables(key):
        have = "are permitted" if provider in PROVIDERS else "have been reviewed"
        return f"no options of this execution provider {have}. Use provider_options={{'{provider}': {{}}}}"
    what = "option" if provider else "attribute" if keyword == "session_options" else "key"
    return f"unknown {what}{similar_name(*place, known)}"


def why_refused(*place: str) -> str:
    """Return the documented reason of a refusal, or ``""``."""
    found = refusals.find(*place)
    return f"{found.hazard} ({found.reason})" if found else ""


def why_attribute_refused(where: str, name: str, exists: bool) -> str:
    """Return the reason for the refusal of an attribute, or ``""`` if neither ORT nor a table has its name."""
    return why_refused(where, "", name) or ("not reviewed" if exists else "")


def of_other_tables(name: str) -> list[str]:
    """Return the arguments that accept a name."""
    tables = {**BY_KEYWORD, "the keyword arguments of run": RUN_ATTRIBUTES}
    return [place for place, table in tables.items() if name in table]


def similar_name(keyword: str, provider: str, name: str, known: Iterable[str]) -> str:
    """Return the sentence that suggests names for an unknown name: names of the same table, or of other tables."""
    if places := of_other_tables(name):
        return f". It belongs in {' or '.join(places)}"
    if found := _similar(name, known):
        return _did_you_mean([f"'{other}'" for other in found])
    forms = [
        name_of(other, "", key) for other, table in BY_KEYWORD.items() for key in _similar(name, table, at_end=True)
    ]
    if not forms and not provider:
        eps = [ep for ep, kinds in PROVIDERS.items() if any(name in table for table in kinds.values())]
        forms = [name_of("provider_options", ep, name) for ep in eps]
    if forms or keyword == "session_options":
        return _did_you_mean(forms)
    scope = provider or keyword.removesuffix("_config")
    return f". To list the permitted names, run `python -m onnxruntime.backend options {scope}`"


def _similar(name: str, known: Iterable[str], *, at_end: bool = False) -> list[str]:
    """Return the known name with the most similar spelling, or else the few that contain whole words of the name.

    :param at_end: whether these words must be the end of the known name.
    """
    if len(name) > _LONGEST_NAME:
        return []
    folded = name.strip().lower()
    by_form = {key.lower(): key for key in known}
    near = nearest(folded, by_form)
    # The last part is similar, too: `session.` alone says nothing.
    part = folded.replace("-", "_").rpartition(".")[2]
    if nearest(part, [near.rpartition(".")[2]]):
        return [by_form[near]]
    if len(part) < _SHORTEST_PART:
        return []
    forms = {f"_{form.replace('.', '_')}_": key for form, key in by_form.items()}
    found = [key for form, key in forms.items() if form.endswith(f"_{part}_")]
    found = found or [key for form, key in forms.items() if not at_end and f"_{part}_" in form]
    return found if len(found) <= _MOST_SUGGESTED else []


def _did_you_mean(forms: list[str]) -> str:
    *others, last = forms[:_MOST_SUGGESTED] or [""]
    return f". Did you mean {', '.join(others)}{' or ' if others else ''}{last}?" if last else ""
