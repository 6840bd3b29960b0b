# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""What to write instead of a name, a device or an argument that is not accepted: sentences for errors and warnings.

The sentences show a caller's values as :func:`errors.show` does.
"""

from collections.abc import Iterable
from itertools import chain
from typing import Any

import onnxruntime
from onnxruntime.backend.allowlist.attributes import RUN_ATTRIBUTES, SESSION_ATTRIBUTES
from onnxruntime.backend.allowlist.rules import Table
from onnxruntime.backend.allowlist.tables import BY_KEYWORD, KEYWORDS, PROVIDERS
from onnxruntime.backend.errors import Place, nearest, show
from onnxruntime.backend.packages import REGISTER
from onnxruntime.backend.provider_names import CUDA, MIGRAPHX

LONGEST_NAME = 100  # of a name that is compared with others
_MOST = 16  # far more than the EPs of a session
_SHORTEST_PART = 5  # shorter parts are in too many names
_MOST_SUGGESTED = 3
_SUFFIX = "executionprovider"
# What replaces keyword arguments of InferenceSession.
_INSTEAD = {
    "sess_options": "Pass attributes as keyword arguments, such as intra_op_num_threads=2, and config entries in "
    "session_config={...}. Or create an InferenceSession with these options and pass it as the model",
    "run_options": "Pass attributes as keyword arguments, and config entries in run_config={...}",
    "output_names": "run() computes all outputs. For some, call rep.session.run(names, feeds, rep.run_options())",
    "return_ortvalues": "run() returns arrays. For OrtValues, call rep.session.run_with_ort_values(names, feeds)",
}


def provider_named(name: str, others: Iterable[str] = ()) -> str:
    """Return the EP with a short name such as ``"cuda"``, among those that ORT knows and others, or ``""``."""
    if len(name) <= LONGEST_NAME:
        for known in chain(PROVIDERS, onnxruntime.get_all_providers(), others):
            if name.lower() in (known.lower(), _short_name(known)):
                return known
    return ""


def _short_name(provider: str) -> str:
    return provider.lower().removesuffix(_SUFFIX)


def similar_provider(name: str) -> str:
    """Return the sentence that suggests an EP with a similar name, or sentences that list the known EPs."""
    known = dict.fromkeys([*PROVIDERS, *onnxruntime.get_available_providers()])
    by_short_name = {_short_name(provider): provider for provider in known}
    by_short_name["rocm"] = MIGRAPHX  # ORT 1.23 removed the ROCm EP
    similar = nearest(name[:LONGEST_NAME].strip().lower().partition("exec")[0], by_short_name)
    if similar:
        return f". Did you mean '{by_short_name[similar]}'?"
    return f". Known: {', '.join(known)}. {REGISTER}"


def provider_options(names: Any) -> str:
    """Return ``provider_options={...}`` for the argument ``providers`` of ``InferenceSession``, or ``""``."""
    if type(names) is str or (type(names) is tuple and list(map(type, names)) == [str, dict]):
        names = [names]
    if type(names) not in (list, tuple) or not 0 < len(names) <= _MOST:
        return ""
    parts = []
    for entry in names:
        name, options = entry if type(entry) in (tuple, list) and len(entry) == 2 else (entry, None)
        if type(name) is not str or len(name) > LONGEST_NAME:
            return ""
        parts.append(f"{show(provider_named(name) or name)}: {'{}' if options is None else '{...}'}")
    return f"provider_options={{{', '.join(parts)}}}"


def ignored_keyword(name: str, value: object) -> str:
    """Return the warning about a keyword argument that has no effect in this call."""
    keyword = f"Keyword argument {show(name)}"
    if name in SESSION_ATTRIBUTES:
        return f"{keyword} is ignored, because the session already exists. Pass it to prepare together with the model"
    if name in RUN_ATTRIBUTES:
        return f"{keyword} is ignored by prepare. Pass it to run"
    if name == "providers":
        return f"{keyword} is ignored. Use {provider_options(value) or 'provider_options={EP: {...}}'}"
    if name in _INSTEAD:
        return f"{keyword} is ignored. {_INSTEAD[name]}"
    for ep in with_option(name):
        return f"{keyword} is ignored. Use provider_options={{'{ep}': {{'{name}': ...}}}}"
    return f"{keyword} is unknown and is ignored"


def with_option(name: str) -> list[str]:
    """Return the EPs that permit an option, CUDA first."""
    eps = [ep for ep, kinds in PROVIDERS.items() if any(name in table for table in kinds.values())]
    return sorted(eps, key=lambda ep: ep != CUDA)


def why_unknown(table: Table, place: Place) -> str:
    """Return the reason for the refusal of a name that no table contains, with the name that the caller may mean."""
    name = place.key or ""
    places = _other_places(name)
    if place.provider and not places and not (table and place.provider in PROVIDERS):
        return f"no options of this execution provider are permitted. Use provider_options={{'{place.provider}': {{}}}}"

    what = {"provider_options": "option", "session_options": "attribute"}.get(place.keyword, "key")
    if places:
        return f"unknown {what}. It belongs in {' or '.join(places)}"
    forms = _similar_forms(name, table, place)
    if forms:
        return f"unknown {what}. Did you mean {' or '.join(forms[:_MOST_SUGGESTED])}?"
    scope = place.provider or place.keyword.split("_")[0]  # session or run
    return f"unknown {what}. To list the permitted names, run `python -m onnxruntime.backend options {scope}`"


def _other_places(name: str) -> list[str]:
    """Return the arguments that accept a name."""
    places = [keyword for keyword, table in BY_KEYWORD.items() if name in table]
    if name in KEYWORDS:
        places.append("the keyword arguments of prepare")
    if name in RUN_ATTRIBUTES:
        places.append("the keyword arguments of run")
    return places


def _similar_forms(name: str, table: Table, place: Place) -> list[str]:
    """Return similar names of the same table, or else the EPs that permit an option of this name."""
    similar = _similar(name, table)
    if similar or place.provider:
        return [f"'{one}'" for one in similar]
    return [str(Place("provider_options", ep, name)) for ep in with_option(name)]


def _similar(name: str, known: Iterable[str]) -> list[str]:
    """Return the known name with the most similar spelling, or else the few that end with the words of the name."""
    if len(name) > LONGEST_NAME:
        return []
    folded = name.strip().lower()
    by_folded = {key.lower(): key for key in known}
    near = nearest(folded, by_folded)
    # The last part is similar, too: `session.` alone says nothing.
    part = folded.replace("-", "_").rpartition(".")[2]
    if nearest(part, [near.rpartition(".")[2]]):
        return [by_folded[near]]
    if len(part) < _SHORTEST_PART:
        return []
    ending = f"_{part}"
    similar = [key for form, key in by_folded.items() if f"_{form.replace('.', '_')}".endswith(ending)]
    return similar if len(similar) <= _MOST_SUGGESTED else []
