# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Describes opsets and operators of a model that the installed onnx or ORT lacks."""

import re

from onnx import ModelProto, helper

import onnxruntime

ANYWAY = "To run it anyway, set the environment variable ALLOW_RELEASED_ONNX_OPSET_ONLY=0"


def unreleased(model: ModelProto) -> str:
    """Return a sentence about an opset of ONNX's own domains that the installed onnx has not released, or ``""``."""
    for opset in model.opset_import[:]:
        domain = opset.domain or "ai.onnx"
        if _is_onnx(domain) and (domain, opset.version) not in helper.OP_SET_ID_VERSION_MAP:
            imported = f"{domain} opset {opset.version}"
            return f"The model imports {imported}, which is not released according to the installed onnx. {ANYWAY}"
    return ""


def missing_operator(error: Exception) -> str:
    """Return a sentence about an operator of another domain that ORT lacks according to its error, or ``""``."""
    match = re.search(r"(\S+):(\S+)\(-?\d+\) is not a registered function/op", str(error))
    if not match or _is_onnx(match[1]):
        return ""
    return f"ONNX Runtime {onnxruntime.__version__} lacks the operator {match[2]} of domain {match[1]}"


def _is_onnx(domain: str) -> bool:
    # All domains with this prefix are ONNX's own, except for the domain of onnxruntime-extensions.
    return f"{domain}.".startswith("ai.onnx.") and domain != "ai.onnx.contrib"
