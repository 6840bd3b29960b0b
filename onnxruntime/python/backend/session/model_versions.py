# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Models that are too new: opsets that ONNX has not released, IR versions and opsets that this ORT does not read."""

from __future__ import annotations

import re
from functools import cache

from onnx import ModelProto, helper

from onnxruntime import SessionOptions, __version__
from onnxruntime.capi import _pybind_state

_IR = r"Unsupported model IR version: (\d+), max supported IR version: (\d+)"
# Of onnxruntime-extensions: the one domain of such a name that is not ONNX's own.
_EXTENSIONS = "ai.onnx.contrib"
_OPSET = r"Opset (\d+) is under development .* support for domain (\S+) is till opset (\d+)"

_ALL_THE_SAME = "set the environment variable ALLOW_RELEASED_ONNX_OPSET_ONLY=0 to run it all the same"


def too_new(model: ModelProto, released_only: bool) -> str:
    """Tell why a model is too new.

    :param model: the model.
    :param released_only: whether opsets of ONNX's own domains must be released, as far as the installed onnx knows.
        What stands in other domains can come from anywhere.
    :return: the reason, or ``""`` when it is not.
    """
    for opset in model.opset_import[:] if released_only else ():
        domain = opset.domain or "ai.onnx"
        if (domain, opset.version) in helper.OP_SET_ID_VERSION_MAP:
            continue
        if domain != _EXTENSIONS and f"{domain}.".startswith("ai.onnx."):
            return (
                f"the model imports {domain} opset {opset.version}, which the installed onnx does not know as "
                f"released; {_ALL_THE_SAME}"
            )
    return new_ir(model)


def new_ir(model: ModelProto) -> str:
    """Tell that this ORT does not read a model's IR version; ``""`` when it does."""
    newest = _newest_ir()
    return _ir_reason(model.ir_version, newest) if newest is not None and model.ir_version > newest else ""


def explain(error: Exception) -> str | None:
    """Put into plain words what ORT raised for a model that is too new for it; ``None`` for any other error."""
    if match := re.search(_IR, str(error)):
        return _ir_reason(*match.groups())
    if match := re.search(_OPSET, str(error)):
        version, domain, newest = match.groups()
        return (
            f"the model imports {domain} opset {version}, and ONNX Runtime {__version__} supports opsets up to "
            f"{newest} of it; {_ALL_THE_SAME}"
        )
    return None


def _ir_reason(version: object, newest: object) -> str:
    return f"the model has IR version {version}, and ONNX Runtime {__version__} reads IR versions up to {newest}"


@cache
def _newest_ir() -> int | None:
    """The newest IR version that this ORT reads. No call tells, but ORT names it when it refuses a model."""
    model = helper.make_model(helper.make_graph([], "versions", [], []), ir_version=2**31 - 1).SerializeToString()
    options = SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    # Not for a session without threads of its own, which alone can be had once the application set a global pool.
    for options.use_per_session_threads in (True, False):
        try:
            # onnxruntime.InferenceSession would tell of a failure on stdout. ORT refuses before any EP is created.
            _pybind_state.InferenceSession(options, model, False, False)
        except Exception as refusal:
            if match := re.search(_IR, str(refusal)):
                return int(match[2])
    return None
