# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Detects models that are too new or need operators that this ORT lacks.

Examples are unreleased ONNX opsets, and IR versions, opsets and domains that this ORT does not support.
"""

from __future__ import annotations

import re

from onnx import ModelProto, helper

from onnxruntime import __version__

_IR = r"Unsupported model IR version: (\d+), max supported IR version: (\d+)"
_OPSET = r"Opset (\d+) is under development .* support for domain (\S+) is till opset (\d+)"
_OPERATOR = r"(\S+):(\S+)\(-?\d+\) is not a registered function/op"
# The domain of onnxruntime-extensions: the only domain with the prefix "ai.onnx." that is not ONNX's own.
_EXTENSIONS = "ai.onnx.contrib"
_ANYWAY = "To run it anyway, set the environment variable ALLOW_RELEASED_ONNX_OPSET_ONLY=0"


def unreleased(model: ModelProto) -> str:
    """Return a sentence about an opset of ONNX's own domains that the installed onnx has not released, or ``""``."""
    for opset in model.opset_import[:]:
        domain = opset.domain or "ai.onnx"
        if (domain, opset.version) in helper.OP_SET_ID_VERSION_MAP:
            continue
        if _is_onnx(domain):
            return (
                f"The model imports {domain} opset {opset.version}, which is not released according to the installed "
                f"onnx. {_ANYWAY}"
            )
    return ""


def _is_onnx(domain: str) -> bool:
    return domain != _EXTENSIONS and f"{domain}.".startswith("ai.onnx.")


def missing_operator(error: Exception) -> str:
    """Return a sentence about an operator of another domain that ORT lacks according to its error, or ``""``."""
    match = re.search(_OPERATOR, str(error))
    if not match or _is_onnx(match[1]):
        return ""
    return f"ONNX Runtime {__version__} lacks the operator {match[2]} of domain {match[1]}"


def explain(error: Exception) -> str | None:
    """Return a clearer message for ORT's error about a model that is too new, or ``None`` for any other error."""
    if match := re.search(_IR, str(error)):
        version, newest = match.groups()
        return (
            f"The model has IR version {version}, but ONNX Runtime {__version__} supports IR versions up to {newest}. "
            f"If the model does not use features of newer versions, set model.ir_version = {newest}"
        )
    if match := re.search(_OPSET, str(error)):
        version, domain, newest = match.groups()
        return (
            f"The model imports {domain} opset {version}, but ONNX Runtime {__version__} supports opsets up to "
            f"{newest} of this domain. {_ANYWAY}"
        )
    return None
