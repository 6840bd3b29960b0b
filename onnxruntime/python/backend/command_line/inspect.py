# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Show a model's inputs and outputs, and the number of its nodes that each execution provider takes."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from onnxruntime.backend.command_line import each_provider
from onnxruntime.backend.command_line.output import MistakeError, Table, pairs
from onnxruntime.backend.command_line.run import add_libraries
from onnxruntime.backend.comparison.inputs import declaration, declared
from onnxruntime.backend.comparison.side import Side
from onnxruntime.backend.provider_names import CPU


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="an ONNX or ORT file")
    add_libraries(parser)


def execute(chosen: argparse.Namespace) -> tuple[dict, int]:
    config = {"provider_options": {CPU: {}}, "extensions": chosen.extension}
    side = Side(chosen.model, "", config, inherits=False)
    side.prepare()
    if side.error:
        raise MistakeError(side.error) from side.error
    session = side.rep.session
    return {
        "model": chosen.model,
        "inputs": list(map(declared, session.get_inputs())),
        "outputs": list(map(declared, session.get_outputs())),
        "providers": each_provider.try_each(chosen.model, 0, chosen),
    }, 0


def tables(result: dict) -> Iterator[Table]:
    facts = {name: list(map(declaration, result[name])) for name in ("inputs", "outputs")}
    yield pairs({"model": result["model"], **facts})
    yield each_provider.table(result["providers"])
