# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""``python -m onnxruntime.backend``: what can be configured here, to what, and whether it works."""

from __future__ import annotations

import argparse
import difflib
import importlib
import importlib.metadata
import os
import platform
import sys
import textwrap
import warnings
from collections.abc import Iterator, Mapping
from typing import NoReturn

import onnxruntime
from onnxruntime.backend import allowlist, command_run, configuration, execution_providers
from onnxruntime.backend.allowlist_config_keys import RUN_ATTRIBUTES, RUN_CONFIG, SESSION_ATTRIBUTES, SESSION_CONFIG
from onnxruntime.backend.allowlist_providers import EVERY_PROVIDER, PROVIDERS
from onnxruntime.backend.allowlist_rules import Permitted, Refused, Rule
from onnxruntime.backend.messages import NotPermittedError, show

WIDTH = 79
_OPTIONS_OF = "provider_options of "
PROGRAM = "python -m onnxruntime.backend"


class _Parser(argparse.ArgumentParser):
    """Tells of a mistake in one line, where argparse would print the usage as well."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {command_run.one_line(message)} (see {self.prog} --help)\n")


def main(arguments: list[str] | None = None) -> int:
    """Run one command.

    :param arguments: those of the process, unless they are given.
    :return: the exit status.
    """
    parser = _parser()
    chosen = parser.parse_args(arguments)
    if not hasattr(chosen, "command"):
        parser.print_help()
        return 0
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # file names and models may hold any character
    warnings.simplefilter("default", RuntimeWarning)
    warnings.showwarning = lambda message, *_, **__: print(f"warning: {command_run.one_line(message)}", file=sys.stderr)
    # What goes wrong comes as an exception; ORT would log it as well.
    onnxruntime.set_default_logger_severity(4)
    try:
        for plugin in chosen.plugin:
            _register(plugin)
        status = chosen.command(chosen)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # such as `... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        return 130
    except command_run.MistakeError as mistake:
        print(f"error: {command_run.one_line(mistake)}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    plugin = _Parser(add_help=False)
    plugin.add_argument(
        "--plugin",
        metavar="PACKAGE|EP=LIBRARY",
        action="append",
        default=[],
        help="register a plugin EP first: its Python package, such as onnxruntime_ep_openvino, or its library",
    )
    parser = _Parser(
        prog=PROGRAM,
        description="Which options may be set on this machine, to what, and did it work?",
        epilog="""
        EP stands for execution provider, such as CPUExecutionProvider; CPU is enough of its name. The environment
        variable ORT_ONNX_BACKEND_CONFIG holds a configuration, as JSON or as @FILE, for every use of
        onnxruntime.backend.""",
    )
    parser.set_defaults(plugin=[])
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    info = commands.add_parser("info", parents=[plugin], help="versions, and the EPs of this process")
    info.set_defaults(command=_info)

    options = commands.add_parser(
        "options", parents=[plugin], help="what may be set, to which values, and what is refused",
        description="What may be set, to which values, with its default and its effect."
    )  # fmt: skip
    options.add_argument(
        "scope", nargs="?", metavar="EP|session|run", help="whose options; without it, how many there are of each"
    )
    options.add_argument("--refused", action="store_true", help="what is refused instead, with the reason")
    options.add_argument("--search", metavar="TEXT", default="", help="only those whose name or description holds TEXT")
    options.set_defaults(command=_options)

    check = commands.add_parser(
        "check", parents=[plugin], help="validate a configuration, without a model",
        description="""Validate a configuration without a model, for this ORT and this machine; its EPs need not be
        there. Every problem is told, one a line, and then the exit status is 1.""",
    )  # fmt: skip
    check.add_argument(
        "configuration",
        metavar="FILE|JSON",
        help="""an object such as '{"session_config": {"session.intra_op.allow_spinning": false}}', which may have
        provider_options, session_config and run_config; or a file that holds one""",
    )
    check.set_defaults(command=_check)

    command_run.add_to(commands, plugin)
    return parser


def _register(plugin: str) -> None:
    name, _, library = plugin.partition("=")
    try:
        if not library:
            package = importlib.import_module(name)
            # Not any name will do: QNN takes it for its own, and OpenVINO has devices under its own name only.
            name, library = package.get_ep_name(), package.get_library_path()
        onnxruntime.register_execution_provider_library(name, os.path.abspath(library))
    except Exception as error:  # ORT has many types of them, with no common base of their own
        raise command_run.MistakeError(f"--plugin {plugin}: {error}") from None


# --- info ---


def _info(_: argparse.Namespace) -> int:
    print(f"onnxruntime  {onnxruntime.__version__} ({', '.join(_wheels()) or 'not from a wheel'})")
    for name in ("onnx", "numpy"):
        print(f"{name:12} {importlib.metadata.version(name)}")
    print(f"{'Python':12} {platform.python_version()} on {platform.system()}, {platform.machine()}")
    print(f"{'device':12} {onnxruntime.get_device()}")
    for name in (
        configuration.ENVIRONMENT,
        "ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS",
        "ORT_LOAD_CONFIG_FROM_MODEL",
        "ALLOW_RELEASED_ONNX_OPSET_ONLY",
    ):
        if name in os.environ:
            _paragraph(f"{name}={ascii(os.environ[name])[1:-1]}", " " * 13, "environment  ")

    print("\nExecution providers of this process, and how many of their options may be set")
    here = _flavours_here()
    for name, flavour in here.items():
        rules = PROVIDERS.get(name, {}).get(flavour, {})
        count = sum(type(rule) is Permitted for rule in rules.values())
        print(f"  {name:34} {flavour:8} {count or 'none'}")
        for index, device in enumerate(execution_providers.plugin_devices(name)):
            _paragraph(f"device {index}: {device.device.type.name} of {device.device.vendor or 'unnamed vendor'}")
    if not any(flavour == "plugin" for flavour in here.values()):
        print("  no plugin, which --plugin would add")
    absent = ", ".join(name.removesuffix("ExecutionProvider") for name in PROVIDERS if name not in here)
    print("\nKnown, but not in this process")
    _paragraph(absent, "  ")
    print(f"\nNext: {PROGRAM} options")
    return 0


def _wheels() -> list[str]:
    names = set(importlib.metadata.packages_distributions().get("onnxruntime", ()))
    return sorted(f"{name} {importlib.metadata.version(name)}" for name in names)


def _flavours_here() -> dict[str, str]:
    """The EPs of this process, each bundled or a plugin."""
    names = onnxruntime.get_available_providers()
    if hasattr(onnxruntime, "get_ep_devices"):
        names += [device.ep_name for device in onnxruntime.get_ep_devices()]
    return {name: "plugin" if execution_providers.plugin_devices(name) else "bundled" for name in dict.fromkeys(names)}


# --- options ---


def _options(chosen: argparse.Namespace) -> int:
    scopes = dict(_scopes(chosen.scope))
    wanted = Refused if chosen.refused else Permitted
    if not chosen.scope and not chosen.search and not chosen.refused:
        print(f"{'':46} permitted  refused")
        bare = []
        for title, rules in scopes.items():
            counts = [sum(type(rule) is kind for rule in rules.values()) for kind in (Permitted, Refused)]
            if counts[0]:
                print(f"{title.removeprefix(_OPTIONS_OF):46} {counts[0]:9} {counts[1]:8}")
            else:
                bare.append(title.removeprefix(_OPTIONS_OF))
        print("\nEPs without a permitted option, to be named alone")
        _paragraph(", ".join(bare), "  ")
        print(f"\nNext: {PROGRAM} options session")
        print(f"      {PROGRAM} options CUDA --refused")
        print(f"      {PROGRAM} options --search thread")
        return 0
    text = chosen.search.lower()
    missed = 0
    found = False
    for title, rules in scopes.items():
        matching = {name: rule for name, rule in rules.items() if text in " ".join((name, *_describe(rule))).lower()}
        shown = {name: rule for name, rule in matching.items() if type(rule) is wanted}
        missed += len(matching) - len(shown)
        if shown:
            print(f"{chr(10) if found else ''}{title}: {'refused' if chosen.refused else 'permitted'}")
            found = True
        for name, rule in sorted(shown.items()):
            print(f"  {name}")
            for line in _describe(rule):
                _paragraph(line)
    if not found:
        what = f"holds {chosen.search!a}" if text else "is there"
        print(f"Nothing {'refused' if chosen.refused else 'permitted'} {what}.")
    if missed:
        other = "permitted (without --refused)" if chosen.refused else "refused (see --refused)"
        print(f"\nFurther matches: {missed} {other}.")
    return 0


def _scopes(scope: str | None) -> Iterator[tuple[str, Mapping[str, Rule]]]:
    """Title and rules of every table that a scope stands for: all of them for ``None``."""
    if scope in (None, "session"):
        yield "session_config", SESSION_CONFIG
        yield "keyword arguments of prepare, for the session", SESSION_ATTRIBUTES
    if scope in (None, "run"):
        yield "run_config", RUN_CONFIG
        yield "keyword arguments of run, for one run", RUN_ATTRIBUTES
    if scope in ("session", "run"):
        return
    name = scope and command_run.provider_named(scope)
    if name and name not in PROVIDERS:
        if name not in _flavours_here():
            known = [known.removesuffix("ExecutionProvider") for known in PROVIDERS]
            near = difflib.get_close_matches(scope.lower(), {*map(str.lower, known), "session", "run"}, 1)
            hint = f"; did you mean {near[0]}?" if near else f": {', '.join(known)}"
            raise command_run.MistakeError(f"{scope!a} is neither session, run nor a known EP{hint}")
        yield name, {}
    for known, provider in PROVIDERS.items():
        for flavour in ("bundled", "plugin"):
            if name in (None, known) and flavour in provider:
                rules = provider[flavour]
                yield f"{_OPTIONS_OF}{known} ({flavour})", {**EVERY_PROVIDER, **rules} if scope else rules


def _describe(rule: Rule) -> Iterator[str]:
    """What a person wants to know of a rule, line by line."""
    if type(rule) is Refused:
        yield f"{rule.hazard}: {rule.reason}"
        return
    yield rule.effect
    yield f"{rule.kind.accepts}; default {rule.default or 'empty'}"
    needs = [need.what for need in rule.needs]
    if rule.since > (1, 24):
        needs.insert(0, "ORT {}.{}".format(*rule.since))
    if needs:
        yield f"needs {'; and '.join(needs)}"


def _paragraph(text: str, indent: str = " " * 6, first: str | None = None) -> None:
    first = indent if first is None else first
    print(textwrap.fill(text, WIDTH, initial_indent=first, subsequent_indent=indent, break_on_hyphens=False))


# --- check ---


def _check(chosen: argparse.Namespace) -> int:
    given = command_run.read_configuration(chosen.configuration)
    judged: dict[str, str] = {}

    def flavour_of(name: str) -> str:
        """As the EP is here; else the bundled one, or the plugin where no bundled one is known."""
        here = _flavours_here()
        if name not in here and name not in PROVIDERS:
            raise LookupError
        flavour = here.get(name) or ("bundled" if "bundled" in PROVIDERS[name] else "plugin")
        judged[name] = flavour if name in here else f"{flavour}, not in this process"
        return flavour

    circumstances = configuration.circumstances(onnxruntime.SessionOptions(), execution_providers.stock_list())
    problems: list[str] = []
    while True:
        try:
            granted, of_session, of_runs = configuration.look_up(given, flavour_of, circumstances)
            break
        except NotPermittedError as refusal:
            problems.append(str(refusal))
            _remove(given, refusal.place)
        except RuntimeError as error:
            problems.append(str(error))
            break
    if problems:
        for problem in problems:
            print(f"error: {command_run.one_line(problem)}", file=sys.stderr)
        return 1
    print(f"Permitted with ORT {onnxruntime.__version__} on {platform.machine()}. ORT would be given")
    for name, flavour in judged.items():
        print(f"  {name} ({flavour})")
        _entries(allowlist.sent(granted[name]))
    for title, entries in (("session_config", of_session), ("run_config", of_runs)):
        if entries:
            print(f"  {title}")
            _entries(entries)
    return 0


def _entries(entries: Mapping[str, str]) -> None:
    for key, text in entries.items():
        _paragraph(f"{key} = {text}")


def _remove(given: dict[str, object], place: str) -> None:
    """Take the entry of a place out, so that the next problem shows."""
    for keyword, entries in given.items():
        for key in list(entries or ()):
            here = f"{keyword}[{show(key)}]"
            if here == place:
                del entries[key]
                return
            if keyword == "provider_options":
                for option in entries[key]:
                    if f"{here}[{show(option)}]" == place:
                        del entries[key][option]
                        return
    raise AssertionError(place)


if __name__ == "__main__":
    sys.exit(main())
