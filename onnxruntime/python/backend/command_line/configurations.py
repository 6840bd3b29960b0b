# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Reads configurations from arguments and files, validates them, and reports problems as data."""

from collections.abc import Callable, Iterator

import onnxruntime
from onnxruntime.backend import request
from onnxruntime.backend.allowlist.facts import Process
from onnxruntime.backend.allowlist.look_up import Allowlist, permit_of
from onnxruntime.backend.allowlist.permit import Permit
from onnxruntime.backend.allowlist.tables import KEYWORDS, LIBRARIES, PERMIT, PROVIDERS, TRUSTED
from onnxruntime.backend.applied.settings import configuration_of
from onnxruntime.backend.comparison.results import problem
from onnxruntime.backend.environment import configuration, narrowing, trusted
from onnxruntime.backend.errors import NotPermittedError, show, warn
from onnxruntime.backend.libraries import extensions, plugins
from onnxruntime.backend.session import presence
from onnxruntime.backend.session.attaching import option_texts

_MOST_PROBLEMS = 20  # the search for similar names takes time for each


def read(text: str, convert: Callable[[str], dict] = configuration.parse) -> dict:
    """Return the configuration in a text, or in the file with that name."""
    is_inline = text.lstrip()[:1] in ("", "{", "[")
    try:
        # As in the environment variable, a path can follow @.
        return convert(text if is_inline else configuration.text_of(text.removeprefix("@")))
    except (OSError, ValueError) as error:
        place = "the configuration" if is_inline else show(text)
        raise RuntimeError(f"{place}: {getattr(error, 'strerror', None) or error}") from None


def validate(text: str) -> tuple[dict, list[dict]]:
    """Return the settings that ORT would receive for a configuration, by keyword, and the problems.

    The environment's configuration does not count.
    """
    try:
        config = read(text, configuration.load)
    except RuntimeError as mistake:
        return {}, [problem(mistake)]

    problems = [*_wrong_forms(config)]
    process = presence.process(onnxruntime.get_available_providers())
    if config.get("plugins"):  # they are not loaded, and their EPs can have any names
        named = config.get("provider_options", {}).keys() - PROVIDERS
        process = process._replace(kinds={**dict.fromkeys(named, "plugin"), **process.kinds})
    problems += _faults(config, process)
    specified = {keyword: config.get(keyword) for keyword in KEYWORDS}
    permit = None
    while permit is None and len(problems) < _MOST_PROBLEMS:
        try:
            permit = permit_of(request.read_call(specified, environment=()), Allowlist(process))
        except NotPermittedError as refusal:
            problems.append(problem(refusal))
            _remove(specified, refusal)
    if problems or permit is None:
        return {}, problems[:_MOST_PROBLEMS]

    warnings = [text for texts in (permit.stops_spinning, *permit.without_effect.values()) for text in texts.values()]
    for warning in warnings:
        warn(warning)
    result = {
        **{keyword: {} for keyword in KEYWORDS},
        **configuration_of(permit),
        **{keyword: config.get(keyword, []) for keyword in LIBRARIES},
        "provider_options": _providers(permit),
        TRUSTED: [str(place) for place, _ in configuration.places(config.get(TRUSTED, {}))],
        PERMIT: config.get(PERMIT),
        "warnings": warnings,
    }
    return result, []


def _wrong_forms(config: dict) -> Iterator[dict]:
    """Remove settings of a wrong form, and yield them as problems."""
    for keyword, provider, text in list(configuration.faults(config)):
        yield problem(text, keyword=keyword, provider=provider, reason=text)
        container = config.get(keyword, {}) if provider else config
        container.pop(provider or keyword, None)


def _faults(config: dict, process: Process) -> Iterator[dict]:
    """Yield absent libraries, and the faults of the parts PERMIT and TRUSTED, as problems."""
    for keyword, module in (("extensions", extensions), ("plugins", plugins)):
        for name, text in module.check(config.get(keyword, ())).items():
            yield problem(text, keyword=keyword, key=name, reason=text)
    for part, faults in ((PERMIT, narrowing.faults), (TRUSTED, trusted.faults)):
        for text in faults(config.get(part, {}), process):
            yield problem(text, keyword=part, reason=text)


def _providers(permit: Permit) -> list[dict]:
    """Return the specified EPs, each with its options as ORT would receive them."""
    providers = []
    for name, settings in permit.providers.items() if permit.explicit else ():
        kind = permit.kinds.get(name)
        if not kind:  # the first kind that has all of these options
            kind = next(kind for kind, table in PROVIDERS[name].items() if settings.keys() <= table.keys())
        options = option_texts(name, kind, settings)
        providers.append({"name": name, "kind": kind, "available": name in permit.kinds, "options": options})
    return providers


def _remove(specified: dict, refusal: NotPermittedError) -> None:
    """Remove a refused setting, so that the next problem appears. Its name can be empty."""
    *outer, last = filter(None, (refusal.keyword, refusal.provider, refusal.key))
    for name in outer:
        specified = specified[name]
    if refusal.key or specified[last].pop("", None) is None:
        del specified[last]
