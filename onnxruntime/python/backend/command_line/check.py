# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""``python -m onnxruntime.backend check``: is a configuration permitted, without a model?"""

from __future__ import annotations

import argparse
import platform
import sys

import onnxruntime
from onnxruntime.backend.command_line.shared import Page, judge, one_line, read_configuration


def add_to(commands: argparse._SubParsersAction, shared: argparse.ArgumentParser) -> None:
    """Add the command to a parser.

    :param commands: the parser's commands.
    :param shared: a parser of the options that all commands have.
    """
    parser = commands.add_parser(
        "check", parents=[shared], help="validate a configuration, without a model",
        description="""Validate a configuration without a model, for this ORT and this machine; its EPs need not be
        there. Every problem is told, one a line, and then the exit status is 1. ORT_ONNX_BACKEND_CONFIG is not looked
        at; check "$ORT_ONNX_BACKEND_CONFIG" does that.""",
        usage="%(prog)s FILE|JSON|- ...",
    )  # fmt: skip
    parser.add_argument(
        "configuration",
        metavar="FILE|JSON|-",
        help="""an object such as '{"session_config": {"session.intra_op.allow_spinning": false}}', which may have
        provider_options, session_config, run_config, session_options, free_dimension_overrides and extensions; or a
        file that holds one, or - for stdin""",
    )
    parser.set_defaults(command=command, tell=tell, parser=parser)


def command(chosen: argparse.Namespace) -> tuple[dict[str, object], int]:
    """Run the command.

    :return: the result and the exit status.
    """
    sent, problems = judge(read_configuration(chosen.configuration))
    result = {
        "permitted": not problems,
        "problems": [one_line(problem) for problem in problems],
        "onnxruntime": onnxruntime.__version__,
        "machine": platform.machine(),
        **sent,
    }
    return result, 1 if problems else 0


def tell(result: dict, page: Page) -> None:
    """Write the result for a person: what is permitted on stdout, problems on stderr."""
    if result["problems"]:
        for problem in result["problems"]:
            print(f"error: {problem}", file=sys.stderr)
        return
    titles = ("session_config", "run_config", "session_options", "free_dimension_overrides")
    some = any(result[title] for title in (*titles, "provider_options", "extensions"))
    given = "ORT would be given" if some else "It configures nothing."
    page.line(f"Permitted with ORT {result['onnxruntime']} on {result['machine']}. {given}")
    for name, provider in result["provider_options"].items():
        page.line(f"  {name} ({provider['kind']}{'' if provider['here'] else ', not in this process'})")
        page.entries(provider["options"], " " * 6)
    for title in titles:
        if result[title]:
            page.line(f"  {title}")
            page.entries(result[title], " " * 6)
    if result["extensions"]:
        page.line("  extensions")
        page.paragraph(", ".join(result["extensions"]), " " * 6)
