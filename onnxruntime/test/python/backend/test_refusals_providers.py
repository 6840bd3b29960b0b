# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The reasons for refused options of EPs have the same form."""

from __future__ import annotations

import unittest
from collections.abc import Iterator

from onnxruntime.backend import refusals
from onnxruntime.backend.refusals import EVERY_PROVIDER, Refused, verdicts

HAZARDS = {value for name, value in vars(verdicts).items() if name.isupper() and type(value) is str}


def options() -> Iterator[tuple[str, str, str, Refused]]:
    """Every refused option, as (EP, kind, option, reason)."""
    for name, provider in refusals.PROVIDERS.items():
        for kind, table in provider.items():
            for option, refused in table.items():
                yield name, kind, option, refused
    for option, refused in EVERY_PROVIDER.items():
        yield "SomeExecutionProvider", "plugin", option, refused


class TableTest(unittest.TestCase):
    def test_each_option_has_a_hazard_and_a_reason(self):
        for name, kind, option, refused in options():
            with self.subTest(f"{name} {kind} {option}"):
                self.assertIn(refused.hazard, HAZARDS)
                self.assertRegex(refused.reason, r"\A[^\n]{10,}[^.\n]\Z")


if __name__ == "__main__":
    unittest.main()
