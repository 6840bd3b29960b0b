# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Why an EP of ORT's own wheel does not come up: what the system's loader says of its library.

ORT writes that into its log and not into the exception (``onnxruntime/core/session/provider_bridge_ort.cc``,
``ProviderLibrary::Get``). Imported once an EP has failed.
"""

from __future__ import annotations

import ctypes
import os
import sys

import onnxruntime
from onnxruntime.capi import build_and_package_info


def explain(name: str) -> str:
    """What is missing for an EP.

    The library that ORT has just tried to load is loaded once more, in the same way.

    :param name: the EP.
    :return: a sentence; ``""`` where the library is not ORT's, or loads.
    """
    stem = f"onnxruntime_providers_{name.removesuffix('ExecutionProvider').lower()}"
    file = {"win32": f"{stem}.dll", "darwin": f"lib{stem}.dylib"}.get(sys.platform, f"lib{stem}.so")
    path = os.path.join(os.path.dirname(onnxruntime.__file__), "capi", file)
    if not os.path.isfile(path):
        return ""
    try:
        ctypes.CDLL(path)
    except OSError as error:
        built_for = getattr(build_and_package_info, "cuda_version", None)
        return f"The system says: {error}." + (f" This wheel is built for CUDA {built_for}." if built_for else "")
    return ""
