# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""How ``InferenceSession`` and others take what this package takes, answered in the form it has here.

Imported only to word a refusal or a warning. A caller's values are repeated as :func:`messages.show` shows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from onnxruntime import RunOptions, SessionOptions, get_all_providers
from onnxruntime.backend.allowlist.attributes import RUN_ATTRIBUTES, SESSION_ATTRIBUTES
from onnxruntime.backend.allowlist.config_keys import RUN_CONFIG, SESSION_CONFIG
from onnxruntime.backend.allowlist.providers import PROVIDERS
from onnxruntime.backend.configuration import KEYWORDS
from onnxruntime.backend.errors import nearest, show
from onnxruntime.backend.provider_names import CUDA

_LONGEST, _LONGEST_NAME = 400, 64
# Far more than a session has EPs.
_MOST = 16


def provider_named(name: str) -> str:
    """The EP that a short name such as ``"cuda"`` stands for; ``""`` for none."""
    for known in (*PROVIDERS, *get_all_providers()):
        if name.lower() in (known.lower(), known.lower().removesuffix("executionprovider")):
            return known
    return ""


def provider_options(names: object, options: object = None) -> str:
    """The keyword argument that says what two arguments of ``InferenceSession`` do.

    :param names: its ``providers``: a list of names, or of pairs of a name and options.
    :param options: its ``provider_options``: a list of the options of each, in that order.
    :return: ``provider_options={...}``, or ``""`` where that cannot be told.
    """
    lone_pair = type(names) is tuple and tuple(map(type, names)) == (str, dict)
    if type(names) is str or lone_pair:
        names = [names]
    if type(names) not in (list, tuple) or not names or len(names) > _MOST:
        return ""
    given = list(options) if type(options) in (list, tuple) and len(options) == len(names) else [None] * len(names)
    found: dict[str, str] = {}
    for entry, of_entry in zip(names, given, strict=True):
        name, own = entry, of_entry
        if type(entry) in (tuple, list) and len(entry) == 2:
            name, own = entry
        if type(name) is not str or len(name) > _LONGEST_NAME:
            return ""
        found[show(provider_named(name) or name)] = _mapping(own)
    text = "provider_options={" + ", ".join(f"{name}: {own}" for name, own in found.items()) + "}"
    return text if len(text) <= _LONGEST else ""


def _mapping(options: object) -> str:
    if type(options) is not dict or len(options) > _MOST:
        return "{}" if options is None else "{...}"
    return "{" + ", ".join(f"{show(key)}: {show(value)}" for key, value in options.items()) + "}"


def instead_of_container(keyword: str, given: object, others: Mapping[str, object]) -> str:
    """What to write in place of a keyword argument that should be a mapping and is not.

    :param others: the other keyword arguments of the call.
    :return: the end of a sentence, ``""`` where nothing comes near.
    """
    if keyword != "provider_options":
        return unknown_keyword(keyword, given) if type(given) in (SessionOptions, RunOptions) else ""
    names = others.get("providers")
    form = provider_options(given) if names is None else provider_options(names, given)
    return f"; write {form}" if form else ""


def unknown_keyword(name: str, value: object, others: Mapping[str, object] = MappingProxyType({})) -> str:
    """What to write in place of a keyword argument that nobody knows.

    :param name: the keyword.
    :param value: what was given for it.
    :param others: all keyword arguments of the call.
    :return: the end of a sentence, ``""`` where nothing comes near.
    """
    if name in SESSION_ATTRIBUTES:
        return "; the session is open already: pass it to prepare together with the model"
    if name in RUN_ATTRIBUTES or name in ("timeout", "cancellation"):
        return "; pass it to run"
    if name in ("providers", "provider", "execution_providers", "eps"):
        return f"; write {provider_options(value, others.get('provider_options')) or 'provider_options={EP: {...}}'}"
    if name in ("sess_options", "session_options", "so") or type(value) is SessionOptions:
        return (
            "; write each attribute as a keyword of its own, such as intra_op_num_threads=2, and each config entry "
            "into session_config={...}, or open the session with them and pass that as the model"
        )
    if name in ("run_options", "ro") or type(value) is RunOptions:
        return "; write each attribute as a keyword of its own, and each config entry into run_config={...}"
    if name == "device_id":
        return f"; write device='CUDA:{value if type(value) is int and 0 <= value < 64 else 0}'"
    if name == "output_names":
        return "; all outputs are computed: take those you want from the list"
    for keyword, table in (("session_config", SESSION_CONFIG), ("run_config", RUN_CONFIG)):
        for key in table:
            if name in (key, key.replace(".", "_"), key.rpartition(".")[2]):
                return f"; write {keyword}={{{key!r}: {show(value)}}}"
    if provider_named(name):
        return f"; write provider_options={{'{provider_named(name)}': {_mapping(value)}}}"
    for ep in (CUDA, *PROVIDERS):
        if any(name in table for table in PROVIDERS.get(ep, {}).values()):
            return f"; write provider_options={{'{ep}': {{'{name}': {show(value)}}}}}"
    near = nearest(name, (*KEYWORDS, *SESSION_ATTRIBUTES, *RUN_ATTRIBUTES, "timeout", "cancellation", "device"), 0.75)
    return f"; did you mean {near}={_mapping(value) if near in KEYWORDS else show(value)}?" if near else ""
