# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The import of this module makes the folder above importable, which contains ``helpers``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
