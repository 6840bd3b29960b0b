# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Compares configurations of a model, or two models: their outputs and their latencies."""

from .comparing import compare as compare
