# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""One comparison in this process: ``python -m benchmarks.worker SUBJECT NUMBER ROUNDS`` prints what was measured."""

from __future__ import annotations

import importlib
import json
import sys

from benchmarks.sampling import interleaved

if __name__ == "__main__":
    subject, number, rounds = sys.argv[1:]
    comparison = importlib.import_module(f"benchmarks.{subject}").COMPARISONS[int(number)]
    samples, disturbance = interleaved(comparison.sides(), int(rounds))
    # Neighbours take time, not this process's memory.
    json.dump({"samples": samples, "disturbance": disturbance if comparison.unit == "s" else ""}, sys.stdout)
