# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Starts the command line: ``python -m onnxruntime.backend``."""

import sys
from importlib import metadata

import onnxruntime.backend

try:
    from onnxruntime.backend.command_line.main import main
except ImportError:
    if hasattr(onnxruntime.backend, "__version__"):
        raise
    # The installer of another distribution has written the files of ORT's own backend over these.
    names = set(metadata.packages_distributions().get("onnxruntime", ()))
    installed = ", ".join(sorted(f"{name} {metadata.version(name)}" for name in names))
    sys.exit(
        "error: ONNX Runtime's own backend has replaced files of this backend, and ignores ORT_ONNX_BACKEND_CONFIG. "
        f"Installed: {installed}. Uninstall all of them, install one, and keep it with a constraint"
    )

if __name__ == "__main__":
    sys.exit(main())
