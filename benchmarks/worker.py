# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Measures one comparison in this process: ``python -m benchmarks.worker SUBJECT NUMBER ROUNDS`` prints the samples."""

import importlib
import json
import sys

from benchmarks.sampling import interleaved

if __name__ == "__main__":
    subject, number, rounds = sys.argv[1:]
    comparison = importlib.import_module(f"benchmarks.{subject}").COMPARISONS[int(number)]
    samples, busy = interleaved(comparison.sides(), int(rounds), comparison.seconds)
    json.dump({"samples": samples, "busy": busy}, sys.stdout)
