# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The three configurations as a whole: which keywords they are, what the environment adds to them, how they are looked
up together, and what the look-ups must know of their session.
"""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import onnxruntime
from onnxruntime import ExecutionMode, RunOptions, SessionOptions
from onnxruntime.backend import allowlist
from onnxruntime.backend.allowlist_rules import Circumstances
from onnxruntime.backend.messages import NOT_PERMITTED, NotPermittedError, nearest, show, warn

KEYWORDS = ("provider_options", "session_config", "run_config")
ENVIRONMENT = "ORT_ONNX_BACKEND_CONFIG"
# Of a file: more than a hundred times what every permitted key with its longest value takes.
_MOST_CHARACTERS = 1 << 24


def look_up(
    given: Mapping[str, object], flavour_of: Callable[[str], str], circumstances: Circumstances
) -> tuple[dict[str, dict[str, allowlist.Grant]] | None, dict[str, str], dict[str, str]]:
    """Look all three configurations up.

    :param given: each of ``KEYWORDS`` with what was given for it, ``None`` for nothing.
    :param flavour_of: as for :func:`allowlist.provider_options`.
    :param circumstances: of a session without any EPs named.
    :return: the options granted to each named EP (``None`` where no EPs were named), the session config entries and
        the run config entries.
    """
    granted = None
    if given["provider_options"] is not None:
        granted = allowlist.provider_options(given["provider_options"], flavour_of, circumstances)
        circumstances = circumstances._replace(providers=tuple(granted))
    session_config, run_config = ({} if given[name] is None else given[name] for name in KEYWORDS[1:])
    return (
        granted,
        allowlist.session_config(session_config, circumstances),
        allowlist.run_config(run_config, circumstances),
    )


def parse(text: str) -> dict[str, dict]:
    """Read configurations from JSON text: an object with any of ``KEYWORDS``.

    :raises ValueError: for anything else, a key that stands twice and numbers that are not finite.
    """

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if len(found) < len(pairs):
            twice = next(name for name, _ in pairs if sum(name == other for other, _ in pairs) > 1)
            raise ValueError(f"the key {show(twice)} stands twice in one object")
        return found

    def finite(number: str) -> float:
        if not math.isfinite(float(number)):
            raise ValueError(f"{show(number)} is not a finite number")
        return float(number)

    try:
        config = json.loads(text, object_pairs_hook=unique, parse_float=finite, parse_constant=finite)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    objects = {"the whole": config}
    if type(config) is dict:
        for name in config:
            if name not in KEYWORDS:
                near = nearest(name, KEYWORDS, 0.6)
                raise ValueError(
                    f"{show(name)} is not a configuration"
                    + (f"; did you mean {near}?" if near else f": those are {', '.join(KEYWORDS)}")
                )
        objects |= config
        providers = config.get("provider_options")
        if type(providers) is dict:
            objects |= {f"provider_options[{show(name)}]": options for name, options in providers.items()}
    for name, value in objects.items():
        if type(value) is not dict:
            raise ValueError(f"{name} must be an object, as in {{...}}, not {show(value)}")
    return config


def parse_file(path: str) -> dict[str, dict]:
    """Read configurations from a JSON file, as :func:`parse` does from text.

    :raises OSError: when it cannot be read.
    """
    with Path(path).open(encoding="utf-8-sig") as file:
        text = file.read(_MOST_CHARACTERS + 1)
    if len(text) > _MOST_CHARACTERS:
        raise ValueError("the file is too long for a configuration")
    return parse(text)


class Given:
    """The three configurations of a call, and the places of the entries that the environment added to them."""

    def __init__(self, configurations: Mapping[str, object], added: Container[str] = ()) -> None:
        self.configurations = configurations
        self._added = added

    @property
    def anything(self) -> bool:
        """Whether any of the three was given."""
        return any(given is not None for given in self.configurations.values())

    @contextmanager
    def naming_the_environment(self) -> Iterator[None]:
        """Let the refusal of an entry that the environment added say where it comes from."""
        try:
            yield
        except NotPermittedError as refusal:
            if refusal.place not in self._added:
                raise
            message = f"{refusal} (from the environment variable {ENVIRONMENT})"
            raise NotPermittedError(message, refusal.place) from None


def with_environment(given: Mapping[str, object], apply: Iterable[str] = KEYWORDS) -> Given:
    """Add what the environment variable ``ORT_ONNX_BACKEND_CONFIG`` names and the caller does not.

    It holds JSON text for :func:`parse`, or ``@`` and the path of a file of it. The caller's entries win key by key,
    and option by option inside an EP; the caller's EPs come first.

    :param given: each of ``KEYWORDS`` with what the caller gave for it, ``None`` for nothing.
    :param apply: those of ``KEYWORDS`` that can apply; what the environment names for the others does not count.
    :raises RuntimeError: when the variable cannot be understood, or the model's metadata would win.
    """
    refuse_while_model_configures(given)
    text = os.environ.get(ENVIRONMENT)
    if not text:
        return Given(given)
    try:
        named = parse_file(text[1:]) if text.startswith("@") else parse(text)
        named = {keyword: entries for keyword, entries in named.items() if keyword in apply}
        refuse_while_model_configures(named)
    except (OSError, ValueError, RuntimeError) as error:
        raise RuntimeError(f"the environment variable {ENVIRONMENT} cannot be used: {error}") from None
    added: set[str] = set()
    merged = dict(given)
    for keyword, entries in named.items():
        merged[keyword] = _merge(keyword, given[keyword], entries, added)
    return Given(merged, added)


def _merge(where: str, given: object, entries: Mapping[str, object], added: set[str]) -> dict[str, object]:
    """The caller's mapping, read once, and the entries it lacks, whose places are noted in ``added``."""
    merged: dict[str, object] = {}
    for key, value in () if given is None else allowlist.read(where, given):
        if type(key) is not str:
            raise NotPermittedError(f"{where}[{show(key)}] {NOT_PERMITTED}: a name must be a str")
        merged[key] = value
    for key, value in entries.items():
        place = f"{where}[{show(key)}]"
        if where == "provider_options" and key in merged:
            merged[key] = _merge(place, merged[key], value, added)
        elif where == "provider_options":
            merged[key] = _merge(place, None, value, added)
            added.add(place)
        elif key not in merged:
            merged[key] = value
            added.add(place)
    return merged


def warn_misspelt(given: Mapping[str, object]) -> None:
    """Warn of a keyword that is nearly one of ours: unknown keywords are ignored, so the typing error would be too."""
    for name in given:
        if name in allowlist.SESSION_ATTRIBUTES or name in allowlist.RUN_ATTRIBUTES:
            continue
        near = nearest(name, (*KEYWORDS, "free_dimension_overrides"), 0.85) if type(name) is str else ""
        if near:
            warn(f"keyword argument {show(name)} is ignored; did you mean {near}?")


def refuse_while_model_configures(configurations: Mapping[str, object]) -> None:
    """Refuse every configuration while ORT would replace session options by what the model's metadata says.

    :param configurations: some of ``KEYWORDS`` with what was given for each, ``None`` for nothing.
    """
    named = [keyword for keyword, given in configurations.items() if given is not None]
    if named and os.environ.get("ORT_LOAD_CONFIG_FROM_MODEL") == "1":
        raise RuntimeError(
            f"{named[0]} {NOT_PERMITTED} while the environment variable "
            "ORT_LOAD_CONFIG_FROM_MODEL is 1: ORT would replace the session's options by the model's metadata"
        )


def circumstances(options: SessionOptions, providers: Iterable[str]) -> Circumstances:
    """Describe a session for the rules that depend on it.

    :param options: its session options.
    :param providers: the names of its EPs.
    """
    release, machine = _here()
    return Circumstances(
        release=release,
        machine=machine,
        providers=tuple(providers),
        parallel=options.execution_mode == ExecutionMode.ORT_PARALLEL,
        cpu_arena=options.enable_cpu_mem_arena,
    )


@cache
def _here() -> tuple[tuple[int, int], str]:
    """ORT's release and the CPU family."""
    major, minor = onnxruntime.__version__.split(".")[:2]
    return (int(major), int(minor)), platform.machine()


def run_options(attributes: Mapping[str, object], entries: Mapping[str, str]) -> RunOptions:
    """Fresh run options with these attributes and run config entries."""
    options = RunOptions()
    for name, value in attributes.items():
        setattr(options, name, value)
    for key, text in entries.items():
        options.add_run_config_entry(key, text)
    return options
