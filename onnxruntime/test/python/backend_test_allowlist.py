# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The circumstances in which the tests of the allowlist look up settings.

The release is pinned nowhere: it is the newest one that an entry of the tables requires.
"""

from __future__ import annotations

from onnxruntime.backend.allowlist.ort_options import RUN_ATTRIBUTES, RUN_CONFIG, SESSION_ATTRIBUTES, SESSION_CONFIG
from onnxruntime.backend.allowlist.providers import PROVIDERS
from onnxruntime.backend.allowlist.rules import Circumstances

_TABLES = [table for kinds in PROVIDERS.values() for table in kinds.values()]
_TABLES += [SESSION_ATTRIBUTES, RUN_ATTRIBUTES, SESSION_CONFIG, RUN_CONFIG]

NEWEST = Circumstances(
    max(rule.since for table in _TABLES for rule in table.values()), "x86_64", providers=("CPUExecutionProvider",)
)
