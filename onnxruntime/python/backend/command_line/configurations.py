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

import onnxruntime
from onnxruntime.backend import configuration, request
from onnxruntime.backend.allowlist import look_up
from onnxruntime.backend.allowlist.providers import PROVIDERS, option_texts
from onnxruntime.backend.command_line.output import MistakeError, one_line
from onnxruntime.backend.configuration import KEYWORDS, LIBRARIES, PERMIT
from onnxruntime.backend.errors import InputError, NotPermittedError, name_of, show, warn
from onnxruntime.backend.session import extensions, plugins, presence


def read(text: str, convert: Callable[[str], dict] = configuration.parse) -> dict[str, object]:
    """Return the configuration in a text, in the file with that name, or, for ``-``, in stdin."""
    inline = text.lstrip()[:1] in ("{", "[")
    where = "the configuration" if inline else "stdin" if text == "-" else show(text)
    try:
        if text == "-":
            text = sys.stdin.read(configuration.MOST_CHARACTERS)
        elif not inline:
            text = configuration.text_of(text.removeprefix("@"))  # as in the environment variable
        return convert(text)
    except OSError as error:
        raise MistakeError(f"cannot read {where}: {error.strerror}") from None
    except ValueError as error:
        raise MistakeError(f"{where}: {error}") from None


def validate(text: str) -> tuple[dict[str, object], list[dict[str, object]]]:
    """Return the settings that ORT would receive for a configuration, by keyword, with warnings; and all problems.

    The environment's configuration does not count. Empty text is an empty configuration, as in the environment.
    """
    try:
        config = read(text or "{}", configuration.load)
    except MistakeError as mistake:
        return {}, [problem(mistake)]
    found = list(configuration.faults(config))
    problems = [_problem(text, config, keyword, provider) for keyword, provider, text in found]
    for keyword, provider, _ in found:
        (config.get(keyword, {}) if provider else config).pop(provider or keyword, None)
    for keyword, module in (("extensions", extensions), ("plugins", plugins)):
        for name in config.get(keyword, ()):
            problems += [_problem(text, config, keyword, key=name) for text in module.check([name])]
    specified = {keyword: config.get(keyword) for keyword in KEYWORDS}
    facts, permitted = presence.facts(onnxruntime.get_available_providers()), config.get(PERMIT, {})
    problems += [_problem(text, {}, PERMIT) for text in look_up.faults_of_permit(permitted, facts)]
    while True:
        try:
            requested = request.of_call(specified, environment=())
            permit = look_up.permit(requested, facts)
            break
        except NotPermittedError as refusal:
            problems.append(problem(refusal, specified))
            _remove(specified, refusal)
    if problems:
        return {}, problems
    warnings = [text for texts in permit.without_effect.values() for text in texts.values()]
    for keyword, ep, names in configuration.tables(permitted):
        defaults = (config.get(keyword) or {}).get(ep, {}) if ep else config.get(keyword) or {}
        for name in [name for name, values in names.items() if values is not True and name not in defaults]:
            warnings.append(
                f"{PERMIT}: a caller who omits {name_of(keyword, ep, name)} gets ORT's default. To choose another "
                f"default, specify the setting next to {PERMIT}"
            )
    for text in warnings:
        warn(text)
    providers, present = [], permit.kinds
    for name, settings in permit.providers.items() if permit.explicit else ():
        kind = present.get(name) or next(kind for kind, table in PROVIDERS[name].items() if settings.keys() <= {*table})
        providers.append(
            {"name": name, "kind": kind, "available": name in present, "options": option_texts(name, kind, settings)}
        )
    return {
        **{keyword: {} for keyword in KEYWORDS},
        **permit.configuration(),
        "provider_options": providers,
        **{keyword: config.get(keyword, []) for keyword in LIBRARIES},
        PERMIT: config.get(PERMIT),
        "warnings": warnings,
    }, []


def problem(error: object, specified: Mapping[str, object] | None = None) -> dict[str, object]:
    """Return an error as data, with the setting that it concerns and the setting's value in a configuration.

    The fields of a ``MistakeError`` are those of its cause. An ``InputError`` adds its own attributes.
    """
    found = {"message": one_line(error) or type(error).__name__}
    found |= {"keyword": "", "provider": "", "key": "", "value": None, "reason": ""}
    while isinstance(error, MistakeError):
        error = error.__cause__
    if isinstance(error, (InputError, NotPermittedError)):
        found |= vars(error)
    value: object = specified if found["keyword"] else None
    for name in filter(None, (found["keyword"], found["provider"], found["key"])):
        value = value.get(name) if isinstance(value, Mapping) else None
    return found | {"value": value}


def _problem(text: str, specified: Mapping[str, object], keyword: str, provider: str = "", key: str = "") -> dict:
    return problem(NotPermittedError(text, keyword=keyword, provider=provider, key=key, reason=text), specified)


def _remove(specified: dict[str, object], refusal: NotPermittedError) -> None:
    """Remove a refused setting, so that the next problem appears; with an empty name, also the settings next to it."""
    *outer, last = filter(None, (refusal.keyword, refusal.provider, refusal.key))
    for name in outer:
        specified = specified[name]
    del specified[last]


@contextlib.contextmanager
def environment(config: Mapping[str, object], keywords: Iterable[str] = KEYWORDS) -> Iterator[None]:
    """Add the libraries of a configuration to the environment, the only place that can specify them.

    The environment's ``permit`` does not narrow the settings of the command line, which are trusted.

    :param keywords: the other settings of the environment that count.
    """
    before, specified = os.environ.get(request.ENVIRONMENT, ""), request.of_environment()
    changed = {keyword: specified[keyword] for keyword in keywords if keyword in specified}
    for keyword in LIBRARIES:
        # On the command line, the path of a file can be relative.
        given = [os.path.abspath(name) if os.path.isfile(name) else name for name in config.get(keyword, ())]
        changed[keyword] = [*specified.get(keyword, ()), *given]
    os.environ[request.ENVIRONMENT] = json.dumps(changed)
    try:
        yield
    finally:
        os.environ[request.ENVIRONMENT] = before
