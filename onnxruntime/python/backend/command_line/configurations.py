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
from collections.abc import Iterable, Iterator, Mapping

import onnxruntime
from onnxruntime.backend import configuration, request
from onnxruntime.backend.allowlist import look_up
from onnxruntime.backend.allowlist.providers import PROVIDERS, option_texts
from onnxruntime.backend.allowlist.refusals.suggestions import provider_named
from onnxruntime.backend.command_line.output import MistakeError, one_line
from onnxruntime.backend.configuration import KEYWORDS, LIBRARIES, PERMIT
from onnxruntime.backend.errors import InputError, NotPermittedError, name_of, show, warn
from onnxruntime.backend.session import extensions, plugins, presence

HELP = """an object such as '{"session_config": {"session.intra_op.allow_spinning": false}}', which can contain
provider_options, session_config, run_config, session_options, free_dimension_overrides, extensions, plugins and permit;
or a file that contains one, or - for stdin"""


def full_name(text: str) -> str:
    """Return the EP with a short name such as ``cuda``; the text itself if there is none."""
    return provider_named(text, presence.kinds()) or text


def load(text: str) -> dict[str, object]:
    """Return the JSON object in a text, in the file with that name, or, for ``-``, in stdin."""
    inline = text.lstrip()[:1] in ("{", "[")
    where = "the configuration" if inline else "stdin" if text == "-" else show(text)
    try:
        if text == "-":
            text = sys.stdin.read(configuration.MOST_CHARACTERS)
        elif not inline:
            text = configuration.text_of(text.removeprefix("@"))  # as in the environment variable
        return configuration.load(text)
    except OSError as error:
        raise MistakeError(f"cannot read {where}: {error.strerror}") from None
    except ValueError as error:
        raise MistakeError(f"{where}: {error}") from None


def read(text: str) -> dict[str, object]:
    """Return a configuration in which the lists of libraries are complete; see :func:`load`."""
    config = load(text)
    for _, _, fault in configuration.faults(config):
        raise MistakeError(fault)
    return {**{keyword: [] for keyword in LIBRARIES}, **config}


def validate(text: str) -> tuple[dict[str, object], list[dict[str, object]]]:
    """Return the settings that ORT would receive for a configuration, by keyword, with warnings; and all problems.

    The environment's configuration does not count. Empty text is an empty configuration, as in the environment.
    """
    try:
        config = load(text or "{}")
    except MistakeError as mistake:
        return {}, [problem(mistake)]
    problems = []
    for keyword, provider, text in list(configuration.faults(config)):
        parts = config[keyword] if provider else config
        value = parts.pop(provider or keyword)
        problems.append(_problem(text, keyword, provider, value=value, reason=text))
    for keyword, module in (("extensions", extensions), ("plugins", plugins)):
        for name in config.get(keyword, ()):
            problems += [_problem(text, keyword, key=name, reason=text) for text in module.check([name])]
    specified = {keyword: config.get(keyword) for keyword in KEYWORDS}
    facts, permitted = presence.facts(onnxruntime.get_available_providers()), config.get(PERMIT, {})
    for text in look_up.faults_of_permit(permitted, facts):
        problems.append(_problem(text, PERMIT, reason=text))
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
    if permit.attributes.get("use_per_session_threads") is False:
        warnings.append(
            "use_per_session_threads=False requires onnxruntime.set_global_thread_pool_sizes in the process"
        )
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
        "provider_options": providers,
        "session_config": dict(permit.session_config),
        "run_config": dict(permit.run_config),
        "session_options": {name: getattr(value, "name", value) for name, value in permit.attributes.items()},
        "free_dimension_overrides": dict(permit.sizes),
        **{keyword: config.get(keyword, []) for keyword in LIBRARIES},
        PERMIT: config.get(PERMIT),
        "warnings": warnings,
    }, []


def problem(error: object, specified: Mapping[str, object] | None = None) -> dict[str, object]:
    """Return an error as data, with the setting that it concerns and the setting's value in a configuration.

    The fields of a ``MistakeError`` are those of its cause. An ``InputError`` adds its own attributes.
    """
    message = error
    while isinstance(error, MistakeError):
        error = error.__cause__
    if isinstance(error, InputError):
        return _problem(message) | {"input": error.input, "expected": error.expected, "got": error.got}
    if not isinstance(error, NotPermittedError):
        return _problem(message)
    value = (specified or {}).get(error.keyword)
    for name in (error.provider, error.key):
        if name and isinstance(value, Mapping):
            value = value.get(name)
    return _problem(message, error.keyword, error.provider, error.key, value, error.reason)


def _problem(
    message: object, keyword: str = "", provider: str = "", key: str = "", value: object = None, reason: str = ""
) -> dict[str, object]:
    setting = {"keyword": keyword, "provider": provider, "key": key, "value": value, "reason": reason}
    return {"message": one_line(message) or type(message).__name__, **setting}


def _remove(specified: dict[str, object], refusal: NotPermittedError) -> None:
    """Remove a refused setting, so that the next problem appears. An empty name is a name, too."""
    entries = specified[refusal.keyword]
    if refusal.provider and (refusal.key or "" in entries[refusal.provider]):
        entries = entries[refusal.provider]
        del entries[refusal.key]
    elif refusal.provider or refusal.key or "" in entries:
        del entries[refusal.provider or refusal.key]
    else:
        specified[refusal.keyword] = None


@contextlib.contextmanager
def environment(config: Mapping[str, object], keywords: Iterable[str] = KEYWORDS) -> Iterator[None]:
    """Add the libraries of a configuration to the environment, the only place that can specify them.

    The environment's ``permit`` does not narrow the settings of the command line, which are trusted.

    :param keywords: the other settings of the environment that count.
    """
    before, specified = os.environ.get(request.ENVIRONMENT), request.of_environment()
    changed = {keyword: specified[keyword] for keyword in keywords if keyword in specified}
    for keyword in LIBRARIES:
        # On the command line, the path of a file can be relative.
        given = [os.path.abspath(name) if os.path.isfile(name) else name for name in config.get(keyword, ())]
        changed[keyword] = [*specified.get(keyword, ()), *given]
    os.environ[request.ENVIRONMENT] = json.dumps(changed)
    try:
        yield
    finally:
        del os.environ[request.ENVIRONMENT]
        if before is not None:
            os.environ[request.ENVIRONMENT] = before
