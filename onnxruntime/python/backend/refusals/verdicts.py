# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The verdict on a refused option or key: a hazard and a reason."""

from __future__ import annotations

from typing import NamedTuple

# Hazards: why an option or key is refused, in a few words.
RAW_POINTER = "raw pointer"
LOADS_LIBRARY = "loads a library"
WRITES_FILES = "writes files"
READS_FILES = "reads files"
UNSAFE_MEMORY = "unsafe memory access"
NEEDS_REFUSED = "requires another refused option"
OUTSIDE_SESSION = "acts outside the caller's session"
UNBOUNDED = "unbounded use of resources"
WRONG_RESULTS = "wrong results"
MODEL_TRUST = "extends the trust in the model"
DISCLOSES = "discloses data"
NO_EFFECT = "no effect"
NO_USE = "no useful effect"
OTHER_ARGUMENT = "set by another argument"
NOT_VERIFIED = "not verified"

# A program that is trusted needs no such setting either.
_USELESS = (WRONG_RESULTS, NO_EFFECT, NO_USE, OTHER_ARGUMENT)
_OWN_SESSION = "create the InferenceSession with it and pass the session to prepare"
_OWN_RUN = "call rep.session.run with RunOptions that contain it"

# Reasons that several EPs share.
ARENA = (
    "not documented. The memory arena that it configures makes the session or its runs fail, or takes unlimited memory"
)
ARENA_OPTIONS = (
    "arena.extend_strategy",
    "arena.initial_chunk_size_bytes",
    "arena.initial_growth_chunk_size_bytes",
    "arena.max_dead_bytes_per_chunk",
    "arena.max_mem",
    "arena.max_power_of_two_extend_bytes",
)
NOT_RUN = "neither the EP nor its parser was run"


class Refused(NamedTuple):
    """A refused option or key."""

    hazard: str
    """One of the hazards above."""
    reason: str
    """The effect if ORT received it."""

    def text(self, *, of_run: bool = False) -> str:
        """Return the hazard, the reason, and the next step of a trusted program."""
        text = f"{self.hazard} ({self.reason})"
        if self.hazard in _USELESS:
            return text
        step = _OWN_RUN if of_run else _OWN_SESSION
        return f"{text}. In a program that you trust, {step}"


def refused(hazard: str, reason: str, *options: str) -> dict[str, Refused]:
    """Return one verdict for several options."""
    return dict.fromkeys(options, Refused(hazard, reason))
