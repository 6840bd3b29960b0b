# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Starts the command line: ``python -m onnxruntime.backend``."""

import sys

from onnxruntime.backend.command_line.main import main

if __name__ == "__main__":
    sys.exit(main())
