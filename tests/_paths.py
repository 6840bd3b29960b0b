# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The root of this repository. The import of this module makes the modules of the tools and of the backend's tests
importable. Its name precedes theirs, so that isort keeps it first."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
for folder in ("", "tools/python", "onnxruntime/test/python/backend"):
    sys.path.insert(0, str(ROOT / folder))
