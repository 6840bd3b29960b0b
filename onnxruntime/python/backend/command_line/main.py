# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Parses the arguments, executes one command, and prints its result or its error."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import shutil
import sys
import warnings
from typing import NoReturn, TextIO

import onnxruntime
from onnxruntime.backend import __version__
from onnxruntime.backend.command_line import check, info, inspect, options, output, run
from onnxruntime.backend.command_line.output import MistakeError, one_line
from onnxruntime.backend.comparison.results import problem
from onnxruntime.backend.environment import variable
from onnxruntime.backend.errors import InputError
from onnxruntime.backend.libraries import plugins
from onnxruntime.backend.provider_names import CUDA

PROGRAM = "python -m onnxruntime.backend"
_COMMANDS = {"info": info, "options": options, "check": check, "inspect": inspect, "run": run}


class _Parser(argparse.ArgumentParser):
    """Reports a mistake in one line."""

    def error(self, message: str) -> NoReturn:
        if "--json" in sys.argv:  # a script reads errors from stdout
            with contextlib.suppress(BrokenPipeError):
                print(json.dumps({"error": problem(message)}, indent=2))
        self.exit(2, f"error: {one_line(message)} (see {self.prog} --help)\n")


def main(arguments: list[str] | None = None) -> int:
    """Execute one command. Return 0, 1 if it fails or its answer is no, 2 for wrong arguments, 130 if interrupted."""
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (a closed one)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # file names and models may contain any character
    arguments = sys.argv[1:] if arguments is None else arguments
    chosen = _parser().parse_args(arguments or ["--help"])
    warnings.simplefilter("default", RuntimeWarning)
    warnings.showwarning = _show_warning
    onnxruntime.set_default_logger_severity(2 if chosen.log else 4)  # ORT raises its errors, too
    colors = output.obeys_escapes(sys.stdout) and not os.environ.get("NO_COLOR")
    with output.result_stream() as out:
        try:
            return _execute(chosen, out, colors)
        except OSError as error:  # such as a full disk
            if not isinstance(error, BrokenPipeError):  # such as `... | head`
                print(f"error: {one_line(error)}", file=sys.stderr)
            with contextlib.suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
            return 1
        except KeyboardInterrupt:
            output.progress()
            print("error: interrupted", file=sys.stderr)
            return output.INTERRUPTED
        except (MistakeError, InputError) as mistake:
            output.progress()
            print(f"error: {one_line(mistake)}", file=sys.stderr)
            if chosen.json:
                out.write(json.dumps({"error": problem(mistake)}, indent=2) + "\n")
            return 1


def _execute(chosen: argparse.Namespace, out: TextIO, colors: bool) -> int:
    """Execute a command, print its result, and return the exit status."""
    _preload()
    if hasattr(chosen, "plugin"):
        chosen.plugin = _register(chosen.plugin)
    result, status = chosen.command.execute(chosen)
    output.progress()
    if chosen.json:
        text = json.dumps(result, indent=2, allow_nan=False) + "\n"
    else:
        # Some terminals break a line at the last column.
        text = output.text(chosen.command.tables(result), shutil.get_terminal_size().columns - 1, colors)
    out.write(text)
    out.flush()
    if status == output.INTERRUPTED:
        raise KeyboardInterrupt
    return status


def _show_warning(message: object, *_: object, **__: object) -> None:
    output.progress()
    print(f"warning: {one_line(message)}", file=sys.stderr)


def _parser() -> _Parser:
    parser = _Parser(
        prog=PROGRAM,
        allow_abbrev=False,
        description="List the options that callers may set, validate configurations, and run models with them.",
        epilog="""EP means execution provider. Except in JSON, you can shorten its name: CPU means
        CPUExecutionProvider. The environment variable ORT_ONNX_BACKEND_CONFIG sets a configuration, as JSON or as
        @FILE, for every use of onnxruntime.backend.""",
    )
    version = f"onnxruntime {onnxruntime.__version__}, onnxruntime.backend {__version__}"
    use = "print the versions of ORT and of the backend, and exit"
    parser.add_argument("--version", action="version", version=version, help=use)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", prog=PROGRAM, required=True)
    for name, module in _COMMANDS.items():
        description = (module.__doc__ or "").strip()  # none with python -OO
        purpose = description[:1].lower() + description[1:].partition(".")[0]
        command = commands.add_parser(name, help=purpose, description=description, allow_abbrev=False)
        module.add_arguments(command)
        command.set_defaults(command=module)
        command.add_argument("--log", action="store_true", help="print the warnings and errors in ORT's log")
        command.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def _preload() -> None:
    """Load the CUDA libraries of NVIDIA's packages, as ``onnxruntime.preload_dlls`` does, if the build has CUDA."""
    if CUDA in onnxruntime.get_available_providers():
        # If a library is missing, the EP's own error is more specific than the function's output.
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception):
            onnxruntime.preload_dlls()


def _register(specified: list[str]) -> list[str]:
    """Register plugins, and those of the environment. Return the specified ones with absolute paths."""
    names = []
    for plugin in specified:
        ep, _, library = plugin.partition("=")
        names.append(f"{ep}={os.path.abspath(library)}" if library else ep)
    try:
        plugins.register(names, origin="")
    except RuntimeError as error:
        raise MistakeError(error) from None
    with contextlib.suppress(RuntimeError):  # prepare raises it
        plugins.register(variable.read().get("plugins", ()))
    return names
