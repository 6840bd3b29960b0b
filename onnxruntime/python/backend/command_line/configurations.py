# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Reads configurations from arguments, files and stdin, validates them, and reports problems as data."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import onnxruntime
from onnxruntime.backend import request
from onnxruntime.backend.allowlist.facts import Process
from onnxruntime.backend.allowlist.look_up import Allowlist
from onnxruntime.backend.allowlist.permit import Permit, permit_of
from onnxruntime.backend.allowlist.providers import PROVIDERS
from onnxruntime.backend.allowlist.tables import KEYWORDS, LIBRARIES, PERMIT
from onnxruntime.backend.command_line.output import MistakeError, one_line
from onnxruntime.backend.environment import configuration, narrowing
from onnxruntime.backend.errors import ENVIRONMENT, NotPermittedError, Place, show, warn
from onnxruntime.backend.libraries import extensions, plugins
from onnxruntime.backend.runs.errors import InputError
from onnxruntime.backend.session import presence
from onnxruntime.backend.session.attaching import option_texts

_MOST_PROBLEMS = 20  # the search for similar names takes time for each


def read(text: str, convert: Callable[[str], dict] = configuration.parse) -> dict:
    """Return the configuration in a text, in the file with that name, or, for ``-``, in stdin."""
    inline = text.lstrip()[:1] in ("{", "[")
    if inline:
        place = "the configuration"
    elif text == "-":
        place = "stdin"
    else:
        place = show(text)

    try:
        if text == "-":
            text = sys.stdin.read(configuration.MOST_CHARACTERS)
        elif not inline:
            # As in the environment variable.
            text = configuration.text_of(text.removeprefix("@"))
        return convert(text)
    except OSError as error:
        raise MistakeError(f"cannot read {place}: {error.strerror}") from None
    except ValueError as error:
        raise MistakeError(f"{place}: {error}") from None


def validate(text: str) -> tuple[dict, list[dict]]:
    """Return the settings that ORT would receive for a configuration, by keyword, with warnings; and problems.

    The environment's configuration does not count. Empty text is an empty configuration, as in the environment.
    """
    try:
        config = read(text or "{}", configuration.load)
    except MistakeError as mistake:
        return {}, [problem(mistake)]

    process = presence.process(onnxruntime.get_available_providers())
    problems = list(islice(_faults(config, process), _MOST_PROBLEMS + 1))
    specified = {keyword: config.get(keyword) for keyword in KEYWORDS}
    permit = None
    while permit is None and len(problems) <= _MOST_PROBLEMS:
        try:
            requested = request.of_call(specified, environment=())
            permit = permit_of(requested, Allowlist(process))
        except NotPermittedError as refusal:
            problems.append(problem(refusal, specified))
            _remove(specified, refusal)
    if len(problems) > _MOST_PROBLEMS:
        problems[_MOST_PROBLEMS:] = [problem("There are further problems")]
    if problems or permit is None:
        return {}, problems

    warnings: list[str] = []
    for texts in (permit.stops_spinning, *permit.without_effect.values()):
        warnings += texts.values()
    warnings += _missing_defaults(config)
    for warning in warnings:
        warn(warning)

    result: dict[str, object] = {keyword: {} for keyword in KEYWORDS}
    result |= permit.configuration()
    result["provider_options"] = _providers(permit)
    for keyword in LIBRARIES:
        result[keyword] = config.get(keyword, [])
    result[PERMIT] = config.get(PERMIT)
    result["warnings"] = warnings
    return result, []


def _faults(config: dict, process: Process) -> Iterator[dict]:
    """Remove settings of a wrong form. Yield them, absent libraries, and the faults of the part PERMIT as problems."""
    problems = []
    for keyword, provider, text in list(configuration.faults(config)):
        found = problem(text, config, keyword=keyword, provider=provider, reason=text)
        problems.append(found)
        if provider:
            config.get(keyword, {}).pop(provider, None)
        else:
            config.pop(keyword, None)
    yield from problems
    for keyword, module in (("extensions", extensions), ("plugins", plugins)):
        for name in config.get(keyword, ()):
            for text in module.check([name]):
                yield problem(text, config, keyword=keyword, key=name, reason=text)
    for text in narrowing.faults(config.get(PERMIT, {}), process):
        yield problem(text, keyword=PERMIT, reason=text)


def _missing_defaults(config: Mapping) -> Iterator[str]:
    """Return a warning for each setting that callers may choose from a list without a default in it."""
    for keyword, ep, names in configuration.tables(config.get(PERMIT, {})):
        defaults = config.get(keyword) or {}
        if ep:
            defaults = defaults.get(ep, {})
        for name, values in names.items():
            if values is True or name in defaults:
                continue
            setting = Place(keyword, ep, name)
            yield (
                f"{PERMIT}: a caller who omits {setting} gets ORT's default. To choose another "
                f"default, specify the setting next to {PERMIT}"
            )


def _providers(permit: Permit) -> list[dict]:
    """Return the specified EPs, each with its options as ORT would receive them."""
    providers = []
    for name, settings in permit.providers.items():
        if not permit.explicit:
            break
        kind = permit.kinds.get(name) or _kind_with(name, settings)
        provider = {
            "name": name,
            "kind": kind,
            "available": name in permit.kinds,
            "options": option_texts(name, kind, settings),
        }
        providers.append(provider)
    return providers


def _kind_with(name: str, settings: Mapping) -> str:
    """Return the first kind of an EP that has all of these options."""
    for kind, table in PROVIDERS[name].items():
        if settings.keys() <= table.keys():
            return kind
    raise KeyError(name)


def problem(error: object, specified: Mapping | None = None, **fields: object) -> dict:
    """Return an error as data, with the setting that it concerns and the setting's value in a configuration.

    The fields of a ``MistakeError`` are those of its cause. An ``InputError`` adds its own attributes.
    """
    message = one_line(error) or type(error).__name__
    while isinstance(error, MistakeError):
        error = error.__cause__
    if isinstance(error, (InputError, NotPermittedError)):
        fields = vars(error)
    result: dict[str, Any] = {"message": message, "keyword": "", "provider": "", "key": "", "value": None, "reason": ""}
    result |= fields
    value: object = specified
    if not result["keyword"]:
        value = None
    for name in ("keyword", "provider", "key"):
        if result[name]:
            of_name = value if isinstance(value, Mapping) else {}
            value = of_name.get(result[name])
    result["value"] = value  # the error's own value is a text
    return result


def _remove(specified: dict, refusal: NotPermittedError) -> None:
    """Remove a refused setting, so that the next problem appears. Its name can be empty."""
    *outer, last = filter(None, (refusal.keyword, refusal.provider, refusal.key))
    for name in outer:
        specified = specified[name]
    if not refusal.key and "" in specified[last]:
        specified = specified[last]
        last = ""
    del specified[last]


@contextlib.contextmanager
def environment(config: Mapping, keywords: Iterable[str]) -> Iterator[None]:
    """Add the libraries of a configuration to the environment, the only place that can specify them.

    The environment's ``permit`` does not narrow the settings of the command line, which are trusted.

    :param keywords: the other settings of the environment that count.
    """
    before = os.environ.get(ENVIRONMENT, "")
    specified = request.of_environment()
    changed = {}
    for keyword in keywords:
        if keyword in specified:
            changed[keyword] = specified[keyword]
    for keyword in LIBRARIES:
        names = list(specified.get(keyword, ()))
        for name in config.get(keyword, ()):
            if os.path.isfile(name):  # on the command line, the path of a file can be relative
                name = os.path.abspath(name)  # noqa: PLW2901
            names.append(name)
        changed[keyword] = names
    os.environ[ENVIRONMENT] = json.dumps(changed)
    try:
        yield
    finally:
        os.environ[ENVIRONMENT] = before
