# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Starts the command line: ``python -m onnxruntime.backend``."""

import sys

from onnxruntime.backend import optional_parts

if __name__ == "__main__":
    absence = optional_parts.absence_of_part("command_line")
    if absence:
        sys.exit(f"error: {absence}")
    sys.exit(optional_parts.function("command_line.main:main")())
