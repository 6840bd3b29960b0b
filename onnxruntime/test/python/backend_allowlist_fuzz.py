# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The property of the allowlist as a coverage-guided fuzz target. Requires the package ``atheris``.

Run: python backend_allowlist_fuzz.py [arguments of libFuzzer, such as -max_total_time=600]
"""

from __future__ import annotations

import sys

import atheris

import onnxruntime  # noqa: F401  (the fuzzer does not instrument ORT)

with atheris.instrument_imports(include=["onnxruntime.backend"]):
    import onnxruntime_test_python_backend_allowlist_properties as properties


def target(data: bytes) -> None:
    examples = properties.COUNTS["examples"]
    properties.only_what_is_permitted_reaches_ort.hypothesis.fuzz_one_input(data)
    if properties.COUNTS["examples"] > examples and properties.COUNTS["examples"] % 10000 == 0:
        print(f"property examples: {dict(properties.COUNTS)}", file=sys.stderr)


atheris.Setup(sys.argv, target)
atheris.Fuzz()
