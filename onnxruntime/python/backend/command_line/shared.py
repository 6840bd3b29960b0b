# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""What the commands of ``python -m onnxruntime.backend`` share: streams, pages of text, names, configurations.

A command is a module with a function ``add_to``, which adds its arguments, and two more that those lead to: ``command``
computes the result, a dict that ``--json`` prints, with the exit status; ``tell`` writes the same on a page for people.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import importlib
import json
import os
import re
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NoReturn, TextIO

import onnxruntime
from onnxruntime.backend import configuration, request
from onnxruntime.backend.allowlist import attributes, circumstances, config_keys, look_up, refusals
from onnxruntime.backend.allowlist.permits import sent
from onnxruntime.backend.allowlist.providers import PROVIDERS
from onnxruntime.backend.allowlist.rules import Rule
from onnxruntime.backend.errors import NotPermittedError, warn
from onnxruntime.backend.session import extensions, presence

PROGRAM = "python -m onnxruntime.backend"
LOG_LEVELS = ("verbose", "info", "warning", "error", "fatal")
# What goes wrong comes as an exception; ORT would log it as well.
SILENT = 4


class MistakeError(Exception):
    """What a person did not mean: told in one line, without a traceback."""


class Parser(argparse.ArgumentParser):
    """Tells of a mistake in one line, where argparse would print the usage as well."""

    def __init__(self, **keywords: object) -> None:
        # Abbreviated flags would change their meaning when a flag is added.
        super().__init__(**keywords, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {one_line(message)} (see {self.prog} --help)\n")

    def refuse_unknown(self, arguments: list[str]) -> NoReturn:
        """Tell of arguments that this command does not have."""
        flags = [flag for flag in self._option_string_actions if flag.startswith("--")]
        near = difflib.get_close_matches(arguments[0].partition("=")[0], flags, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        self.error(f"unrecognized arguments: {' '.join(arguments)}{hint}")


# --- text ---


def printable(text: str) -> str:
    """Text without the characters that act on a terminal: control, format and unassigned ones, surrogates.

    :return: the text with each of those, line breaks excepted, as an escape sequence of Python's.
    """
    if text.isprintable():
        return text
    return "".join(
        character if character == "\n" or character.isprintable() else ascii(character)[1:-1] for character in text
    )


def one_line(message: object) -> str:
    """A message without line breaks and control characters."""
    return printable(" ".join(str(message).split()))


def columns() -> int:
    """The width to write in: the environment variable COLUMNS, else the terminal's, else 80."""
    # At the right edge some terminals break the line by themselves.
    return max(shutil.get_terminal_size().columns - 1, 20)


class Page:
    """Lines of text for a person, no longer than the page is wide but for words that are."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._lines: list[str] = []

    def line(self, text: str = "") -> None:
        """Add a line as it is."""
        self._lines.append(_kept(text))

    def paragraph(self, text: str, indent: str = "", first: str | None = None) -> None:
        """Add text that is broken between words, where it is too long for a line.

        :param indent: before each line.
        :param first: before the first line instead.
        """
        lines = textwrap.wrap(
            one_line(text),
            self.width,
            initial_indent=indent if first is None else first,
            subsequent_indent=indent,
            break_long_words=False,  # a path that was cut cannot be copied
            break_on_hyphens=False,
        )
        self._lines += lines or [(indent if first is None else first).rstrip()]

    def entries(self, entries: Mapping[str, object], indent: str) -> None:
        """Add ``key = value`` lines."""
        for key, text in entries.items():
            self.paragraph(f"{key} = {text}", f"{indent}  ", indent)

    def __str__(self) -> str:
        return "".join(f"{line}\n" for line in self._lines)


def _kept(text: str) -> str:
    """Text with its spaces as they are, and no line break."""
    return printable(text.replace("\n", "\\n")).rstrip()


# --- streams ---


@contextlib.contextmanager
def stdout_for_the_result() -> Iterator[TextIO]:
    """Give the result a way to stdout that nothing else has.

    Libraries print there, some of them natively, and some only when the process ends. So file descriptor 1 points at
    stderr from here on, to the end of the process; the result goes to a copy of what it was.
    """
    out = sys.stdout
    out.flush()
    if out is sys.__stdout__:
        kept = os.dup(out.fileno())
        os.dup2(sys.__stderr__.fileno(), out.fileno())
        out = os.fdopen(kept, "w", encoding=out.encoding, errors="backslashreplace")
    with contextlib.redirect_stdout(sys.stderr):
        yield out
        out.flush()


@contextlib.contextmanager
def ort_log() -> Iterator[list[str]]:
    """Collect the errors that ORT logs, which go past Python to file descriptor 2.

    :return: a list that holds them, once the context was left, each without what ORT writes before it. What else was
        written there meanwhile is written then.
    """
    lines: list[str] = []
    sys.stderr.flush()
    said = b""
    with tempfile.TemporaryFile() as file:
        kept = os.dup(2)
        stream = sys.stderr
        if stream is sys.__stderr__:  # what Python writes is not held up
            sys.stderr = os.fdopen(os.dup(kept), "w", encoding=stream.encoding, errors="backslashreplace", buffering=1)
        os.dup2(file.fileno(), 2)
        onnxruntime.set_default_logger_severity(LOG_LEVELS.index("error"))
        try:
            yield lines
        finally:
            onnxruntime.set_default_logger_severity(SILENT)
            os.dup2(kept, 2)
            os.close(kept)
            if sys.stderr is not stream:
                sys.stderr.close()
                sys.stderr = stream
            file.seek(0)
            said = file.read()
    # ORT colours what it logs.
    for line in re.sub(r"\x1b\[[\d;]*m", "", said.decode(errors="backslashreplace")).splitlines():
        found = re.match(r"\S+ \S+ \[[EF]:onnxruntime:[^]]*\] (.*)", line)
        if found:
            # Without the place in ORT's sources, where it says that as well.
            lines.append(one_line(re.sub(r"^.*?\[ONNXRuntimeError\] : \d+ : \w+ : ", "", found[1])))
        elif line.strip():
            print(printable(line), file=sys.stderr)


# --- names ---


def provider_named(text: str) -> str:
    """The EP that a short name such as ``cuda`` stands for; any other text as it is."""
    for name in (*PROVIDERS, *kinds_here()):
        if text.lower() in (name.lower(), name.lower().removesuffix("executionprovider")):
            return name
    return text


def kinds_here() -> dict[str, str]:
    """The EPs of this process, each bundled or a plugin."""
    names = onnxruntime.get_available_providers()
    if hasattr(onnxruntime, "get_ep_devices"):
        names += [device.ep_name for device in onnxruntime.get_ep_devices()]
    return {name: "plugin" if presence.plugin_devices(name) else "built-in" for name in dict.fromkeys(names)}


def tables(scope: str | None) -> Iterator[tuple[str, str, Mapping[str, Rule | refusals.Refused]]]:
    """Title, EP (or ``""``) and rules of every table that a scope stands for: all of them for ``None``.

    :param scope: ``session``, ``run``, the name of an EP or a short form of it.
    """
    if scope in (None, "session"):
        yield "session_config", "", config_keys.SESSION_CONFIG | refusals.SESSION_CONFIG
        yield "keyword arguments of prepare", "", attributes.SESSION_ATTRIBUTES | refusals.SESSION_ATTRIBUTES
    if scope in (None, "run"):
        yield "run_config", "", config_keys.RUN_CONFIG | refusals.RUN_CONFIG
        yield "keyword arguments of run", "", attributes.RUN_ATTRIBUTES | refusals.RUN_ATTRIBUTES
    if scope in ("session", "run"):
        return
    name = scope and provider_named(scope)
    if name and name not in PROVIDERS:
        if name not in kinds_here():
            known = [known.removesuffix("ExecutionProvider") for known in PROVIDERS]
            near = difflib.get_close_matches(scope.lower(), {*map(str.lower, known), "session", "run"}, 1)
            hint = f"; did you mean {near[0]}?" if near else f": {', '.join(known)}"
            raise MistakeError(f"{scope!a} is neither session, run nor a known EP{hint}")
        yield name, name, {}
    for known, provider in refusals.provider_tables().items():
        for kind in ("built-in", "plugin"):
            if name in (None, known) and kind in provider:
                rules = provider[kind]
                yield f"{known} ({kind})", known, {**refusals.EVERY_PROVIDER, **rules} if scope else rules


def providers_known() -> list[str]:
    """The EPs that the allowlist knows."""
    return list(PROVIDERS)


def permitted_of(name: str, kind: str) -> int:
    """How many options of an EP are permitted."""
    return len(PROVIDERS.get(name, {}).get(kind, {}))


# --- configurations ---


def read_configuration(text: str) -> dict[str, object]:
    """The configurations that a JSON text, the file of that name, or stdin for ``-`` holds.

    :return: each of ``KEYWORDS``, with ``None`` for those it lacks, and ``"extensions"`` where it has them.
    """
    inline = text.lstrip().startswith("{")
    where = "the configuration" if inline else "stdin" if text == "-" else text
    try:
        if inline:
            found = configuration.parse(text)
        elif text == "-":
            found = configuration.parse(sys.stdin.read(configuration.MOST_CHARACTERS))
        else:
            found = configuration.parse_file(text.removeprefix("@"))  # as in the environment variable
    except OSError as error:
        raise MistakeError(f"cannot read {text}: {error.strerror}") from None
    except ValueError as error:
        raise MistakeError(f"{where}: {error}") from None
    return dict.fromkeys(configuration.KEYWORDS) | found


def judge(given: dict[str, object]) -> tuple[dict[str, dict], list[str]]:
    """Look a configuration up for this ORT and this machine, whether its EPs are here or not.

    :param given: what :func:`read_configuration` returned.
    :return: what ORT would be given, by keyword, and every problem that there is.
    """
    here = kinds_here()
    problems: list[str] = []
    libraries = given.pop("extensions", [])
    if libraries:
        try:
            extensions.register(onnxruntime.SessionOptions(), libraries)
        except RuntimeError as error:
            problems.append(str(error))
    while True:
        try:
            asked = request.of_call(given, environment=())
            at = circumstances.expected(presence.stock_list())
            permit = look_up.permit(asked, at, lambda name: here.get(name, ""))
            break
        except NotPermittedError as refusal:
            problems.append(str(refusal))
            _remove(given, refusal)
    if problems:
        return {keyword: {} for keyword in configuration.KEYWORDS}, problems
    for sentence in (text for idle in permit.without_effect.values() for text in idle.values()):
        warn(sentence)
    providers = {
        name: {
            "kind": here.get(name) or next(iter(PROVIDERS[name])),
            "here": name in here,
            "options": sent(settings),
        }
        for name, settings in (permit.providers if permit.explicit else {}).items()
    }
    return {
        "provider_options": providers,
        "session_config": dict(permit.session_config),
        "run_config": dict(permit.run_config),
        "session_options": {name: getattr(value, "name", value) for name, value in permit.attributes.items()},
        "free_dimension_overrides": dict(permit.sizes),
        "extensions": libraries,
    }, problems


def extensions_of_environment() -> list[str]:
    """The extensions that the environment variable names."""
    return of_environment().get("extensions", [])


def use_extensions(libraries: list[str]) -> None:
    """Have every session of this process register these libraries, besides those that the environment names.

    They go the way on which a program has them: through the environment variable.

    :param libraries: packages and paths.
    """
    config = of_environment()
    config["extensions"] = [*config.get("extensions", []), *libraries]
    os.environ[request.ENVIRONMENT] = json.dumps(config)


def of_environment() -> dict[str, object]:
    """What the environment variable holds."""
    text = os.environ.get(request.ENVIRONMENT)
    try:
        return configuration.of_environment(text) if text else {}
    except (OSError, ValueError) as error:
        raise MistakeError(f"the environment variable {request.ENVIRONMENT} cannot be used: {error}") from None


def _remove(given: dict[str, object], refusal: NotPermittedError) -> None:
    """Take what was refused out, so that the next problem shows."""
    entries = given[refusal.keyword]
    if not refusal.provider and not refusal.key:
        given[refusal.keyword] = None
    elif refusal.provider and refusal.key:
        del entries[refusal.provider][refusal.key]
    else:
        del entries[refusal.provider or refusal.key]


# --- plugins ---


def register(plugins: Iterable[str]) -> dict[str, bool]:
    """Register plugin EPs' libraries.

    :param plugins: each a Python package, or ``EP=LIBRARY``.
    :return: the name that each was registered under, and whether it found a device.
    """
    return dict(map(_register, plugins))


def _register(plugin: str) -> tuple[str, bool]:
    name, _, library = plugin.partition("=")
    try:
        if not library:
            if not re.fullmatch(r"\w+(\.\w+)*", name):
                hint = " or EP=LIBRARY" if os.sep in name else f", such as {re.sub('[-.]+', '_', name)}, or EP=LIBRARY"
                raise MistakeError(f"--plugin {plugin}: it takes the name of a Python package{hint}")
            package = importlib.import_module(name)
            if not hasattr(package, "get_ep_name") or not hasattr(package, "get_library_path"):
                files = [file for folder in getattr(package, "__path__", ()) for file in Path(folder).rglob("*")]
                libraries = [str(file) for file in files if file.suffix in (".so", ".dll", ".dylib")]
                if hasattr(package, "get_library_path"):
                    raise MistakeError(f"--plugin {plugin}: it has custom operators, and no EP: run --extension {name}")
                raise MistakeError(
                    f"--plugin {plugin}: the package has no get_ep_name and get_library_path to tell its EP's name and "
                    f"library; say them as --plugin EP={libraries[0] if len(libraries) == 1 else 'LIBRARY'}"
                )
            # Not any name will do: QNN takes it for its own, and OpenVINO has devices under its own name only.
            name, library = package.get_ep_name(), package.get_library_path()
        before = len(onnxruntime.get_ep_devices())
        onnxruntime.register_execution_provider_library(name, os.path.abspath(library))
    except MistakeError:
        raise
    except Exception as error:  # ORT has many types of them, with no common base of their own
        raise MistakeError(f"--plugin {plugin}: {error}") from None
    return name, len(onnxruntime.get_ep_devices()) > before
