# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Which IR and opset versions this ORT reads.

ORT has no call that tells, and each release reads newer ones. So it is asked: it names its newest when it refuses one.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

from onnx import ModelProto, TensorProto, helper

from onnxruntime import InferenceSession, SessionOptions, __version__

_IR = r"Unsupported model IR version: (\d+), max supported IR version: (\d+)"
_OPSET = r"Opset (\d+) is under development .* support for domain (\S+) is till opset (\d+)"
_FAR_AHEAD = 2**31 - 1


def too_new(model: ModelProto, released_only: bool) -> str:
    """Tell why this ORT cannot read a model.

    :param model: the model.
    :param released_only: whether opsets matter that are newer than ORT supports as released: it may still run them.
        Only ONNX's own domains are looked at; what stands in others can come from anywhere.
    :return: the reason, or ``""`` when it can.
    """
    opsets = [(opset.domain, opset.version) for opset in model.opset_import[:]] if released_only else ()
    return _reason(model.ir_version, tuple(opsets))


@lru_cache
def _reason(ir_version: int, opsets: tuple[tuple[str, int], ...]) -> str:
    newest = _newest_ir()
    if newest is not None and ir_version > newest:
        return _ir_reason(ir_version, newest)
    for name, version in opsets:
        domain = name or "ai.onnx"
        if domain == "ai.onnx" or domain.startswith("ai.onnx."):
            newest = _newest_opset(domain)
            if newest is not None and version > newest:
                return _opset_reason(version, domain, newest)
    return ""


def explain(error: Exception) -> str | None:
    """Put into plain words what ORT raised for a model that is too new for it; ``None`` for any other error."""
    if match := re.search(_IR, str(error)):
        return _ir_reason(*match.groups())
    if match := re.search(_OPSET, str(error)):
        return _opset_reason(*match.groups())
    return None


def _ir_reason(version: object, newest: object) -> str:
    return f"the model has IR version {version}, and ONNX Runtime {__version__} reads IR versions up to {newest}"


def _opset_reason(version: object, domain: object, newest: object) -> str:
    return (
        f"the model imports {domain} opset {version}, and ONNX Runtime {__version__} supports opsets up to {newest} of "
        "it; set the environment variable ALLOW_RELEASED_ONNX_OPSET_ONLY=0 to run it all the same"
    )


@cache
def _newest_ir() -> int | None:
    match = re.search(_IR, _refusal(_FAR_AHEAD, "", 1))
    return int(match[2]) if match else None


@cache
def _newest_opset(domain: str) -> int | None:
    match = re.search(_OPSET, _refusal(10, "" if domain == "ai.onnx" else domain, _FAR_AHEAD))
    return int(match[3]) if match else None


def _refusal(ir_version: int, domain: str, version: int) -> str:
    """What ORT says to a model of these versions; ``""`` if it takes it."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "versions",
        [value("x", TensorProto.FLOAT, [])],
        [value("y", TensorProto.FLOAT, [])],
    )
    opsets = {"": 13, domain: version}
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid(*opset) for opset in opsets.items()], ir_version=ir_version
    )
    options = SessionOptions()
    options.log_severity_level = 4
    try:
        InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as refusal:
        return str(refusal)
    return ""
