# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""``python -m onnxruntime.backend``: what can be configured here, to what, and whether it works."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import warnings

import onnxruntime
from onnxruntime.backend.command_line import check as command_check
from onnxruntime.backend.command_line import info as command_info
from onnxruntime.backend.command_line import options as command_options
from onnxruntime.backend.command_line import run as command_run
from onnxruntime.backend.command_line import schema as command_schema
from onnxruntime.backend.command_line.shared import (
    LOG_LEVELS,
    PROGRAM,
    SILENT,
    MistakeError,
    Page,
    Parser,
    columns,
    one_line,
    register,
    stdout_for_the_result,
)


def main(arguments: list[str] | None = None) -> int:
    """Run one command.

    :param arguments: those of the process, unless they are given.
    :return: the exit status: 0, 1 where the command failed or says no, 2 for mistaken arguments, 130 interrupted.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # file names and models may hold any character
    parser = _parser()
    chosen, unknown = parser.parse_known_args(arguments)
    if unknown:
        chosen.parser.refuse_unknown(unknown)
    if not hasattr(chosen, "command"):
        parser.print_help()
        return 0
    warnings.simplefilter("default", RuntimeWarning)
    warnings.showwarning = lambda message, *_, **__: print(f"warning: {one_line(message)}", file=sys.stderr)
    onnxruntime.set_default_logger_severity(LOG_LEVELS.index(chosen.log) if chosen.log else SILENT)
    page = Page(columns())  # asked before stdout is pointed elsewhere
    with stdout_for_the_result() as out:
        try:
            chosen.registered = register(chosen.plugin)
            result, status = chosen.command(chosen)
            if chosen.json:
                out.write(json.dumps(result, indent=2, allow_nan=False) + "\n")
            else:
                chosen.tell(result, page)
                out.write(str(page))
            out.flush()
            return status
        except OSError as error:  # such as a full disk
            if not isinstance(error, BrokenPipeError):  # such as `... | head`
                print(f"error: {one_line(error)}", file=sys.stderr)
            with contextlib.suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
            return 1
        except KeyboardInterrupt:
            print("error: interrupted", file=sys.stderr)
            return 130
        except MistakeError as mistake:
            print(f"error: {one_line(mistake)}", file=sys.stderr)
            if chosen.json:
                out.write(json.dumps({"error": one_line(mistake)}, indent=2) + "\n")
            return 1


def _parser() -> Parser:
    shared = Parser(add_help=False)
    shared.add_argument(
        "--plugin", metavar="PACKAGE|EP=LIBRARY", action="append", default=[],
        help="register a plugin EP first: its Python package, such as onnxruntime_ep_openvino, or its library",
    )  # fmt: skip
    shared.add_argument("--json", action="store_true", help="print one JSON object")
    shared.add_argument("--log", metavar="LEVEL", choices=LOG_LEVELS, help=f"show ORT's log: {', '.join(LOG_LEVELS)}")
    parser = Parser(
        prog=PROGRAM,
        usage="%(prog)s COMMAND ...",
        description="Which options may be set on this machine, to what, and did it work?",
        epilog="""EP stands for execution provider, such as CPUExecutionProvider; CPU is enough of its name. The
        environment variable ORT_ONNX_BACKEND_CONFIG holds a configuration, as JSON or as @FILE, for every use of
        onnxruntime.backend.""",
    )
    parser.add_argument("--version", action="version", version=command_info.version())
    parser.set_defaults(parser=parser)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", prog=PROGRAM)
    for module in (command_info, command_options, command_check, command_run, command_schema):
        module.add_to(commands, shared)
    return parser


if __name__ == "__main__":
    sys.exit(main())
