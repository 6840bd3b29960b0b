# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Parses the arguments, executes one command, and prints its result or its error."""

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
from onnxruntime.backend.command_line import check, info, inspect, options, output, run
from onnxruntime.backend.command_line.output import one_line
from onnxruntime.backend.comparison.results import problem
from onnxruntime.backend.environment import variable
from onnxruntime.backend.libraries import plugins
from onnxruntime.backend.provider_names import CUDA

_COMMANDS = {"info": info, "options": options, "check": check, "inspect": inspect, "run": run}


class _Parser(argparse.ArgumentParser):
    """Reports a mistake in one line."""

    def parse_known_args(self, args=None, namespace=None):
        """Reject unknown arguments of a command. The parser of the program would refer to its own help."""
        namespace, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return namespace, unknown

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {one_line(message)} (see {self.prog} --help)\n")


def main(arguments: list[str] | None = None) -> int:
    """Execute one command. Return 0, 1 if it fails or its answer is no, 2 for wrong arguments, 130 if interrupted."""
    chosen = _parser().parse_args(arguments)
    warnings.simplefilter("default", RuntimeWarning)
    warnings.showwarning = lambda message, *_, **__: print(f"warning: {one_line(message)}", file=sys.stderr)
    onnxruntime.set_default_logger_severity(2 if chosen.log else 4)  # ORT raises its errors, too
    with output.result_stream() as out:
        try:
            return _execute(chosen, out)
        except OSError as error:  # such as a full disk
            if not isinstance(error, BrokenPipeError):  # such as `... | head`
                print(f"error: {one_line(error)}", file=sys.stderr)
            os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
            return 1
        except KeyboardInterrupt:
            print("error: interrupted", file=sys.stderr)
            return output.INTERRUPTED
        except RuntimeError as mistake:  # the class of all errors of the backend
            print(f"error: {one_line(mistake)}", file=sys.stderr)
            if chosen.json:
                out.write(json.dumps({"error": problem(mistake)}, indent=2) + "\n")
            return 1


def _execute(chosen: argparse.Namespace, out: TextIO) -> int:
    """Execute a command, print its result, and return the exit status."""
    if hasattr(chosen, "plugin"):
        _load(chosen.plugin)
    result, status = chosen.command.execute(chosen)
    if chosen.json:
        text = json.dumps(result, indent=2, allow_nan=False) + "\n"
    else:
        colors = out.isatty() and os.name == "posix" and not os.environ.get("NO_COLOR")
        # Some terminals break a line at the last column.
        text = output.text(chosen.command.tables(result), shutil.get_terminal_size().columns - 1, colors)
    out.write(text)
    out.flush()
    if status == output.INTERRUPTED:
        raise KeyboardInterrupt
    return status


def _parser() -> _Parser:
    parser = _Parser(
        prog="python -m onnxruntime.backend",
        allow_abbrev=False,
        description="List the options that callers may set, validate configurations, and run models with them.",
        epilog="""EP means execution provider. Except in JSON, you can shorten its name: CPU means
        CPUExecutionProvider. The environment variable ORT_ONNX_BACKEND_CONFIG sets a configuration, as JSON or as
        @FILE, for every use of onnxruntime.backend.""",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, module in _COMMANDS.items():
        description = module.__doc__ or ""  # none with python -OO
        purpose = description[:1].lower() + description[1:].partition(".")[0]
        command = commands.add_parser(name, help=purpose, description=description, allow_abbrev=False)
        module.add_arguments(command)
        command.set_defaults(command=module)
        command.add_argument("--log", action="store_true", help="print the warnings and errors in ORT's log")
        command.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def _load(specified: list[str]) -> None:
    """Load the CUDA libraries of NVIDIA's packages, and register plugins, also those of the environment."""
    if CUDA in onnxruntime.get_available_providers():
        # If a library is missing, the EP's own error is more specific than the function's output.
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception):
            onnxruntime.preload_dlls()
    plugins.register(specified, origin="")
    plugins.register(variable.read().get("plugins", ()))
