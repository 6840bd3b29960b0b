# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Show versions, the execution providers of this process, and whether a small model runs with each of them."""

import argparse
import os
import platform
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from onnx import parser

import onnxruntime
from onnxruntime.backend import __version__
from onnxruntime.backend.command_line import inspect
from onnxruntime.backend.command_line.output import Table, pairs
from onnxruntime.backend.command_line.run import add_libraries
from onnxruntime.backend.environment import configuration
from onnxruntime.backend.errors import ENVIRONMENT, warn

_VARIABLES = (
    ENVIRONMENT,
    "ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS",
    "ORT_LOAD_CONFIG_FROM_MODEL",
    "ALLOW_RELEASED_ONNX_OPSET_ONLY",
)
# A model that every EP can run.
_TWO_NODES = """<ir_version: 7, opset_import: ["": 13]>
two_nodes (float[1, 4] X) => (float[1, 4] Y) { Z = Neg(X) Y = Abs(Z) }"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_libraries(parser)


def execute(chosen: argparse.Namespace) -> tuple[dict, int]:
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder, "model.onnx")
        model.write_bytes(parser.parse_model(_TWO_NODES).SerializeToString())
        providers, _ = inspect.try_each(str(model), 1, chosen)
    # The distributions that contain ORT.
    names = set(metadata.packages_distributions().get("onnxruntime", ()))
    wheels = sorted(f"{name} {metadata.version(name)}" for name in names)
    if len(wheels) > 1:
        warn(f"Several bases in one environment overwrite each other: {', '.join(wheels)}. Uninstall all, install one")
    return {
        "onnxruntime": onnxruntime.__version__,
        "backend": __version__,
        "wheels": wheels,
        "onnx": metadata.version("onnx"),
        "numpy": metadata.version("numpy"),
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
        "device": onnxruntime.get_device(),
        "environment": {name: configuration.shown(os.environ[name]) for name in _VARIABLES if name in os.environ},
        "providers": providers,
    }, 0


def tables(result: dict) -> Iterator[Table]:
    yield pairs({**result, "providers": []})
    yield inspect.table(result["providers"])
