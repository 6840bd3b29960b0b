# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Warns about keyword arguments that have no effect in a call, and rejects limits, which a call must not ignore."""

from __future__ import annotations

import re
from collections.abc import Container
from itertools import islice

from onnxruntime.backend.allowlist import suggestions
from onnxruntime.backend.allowlist.rules import Values
from onnxruntime.backend.allowlist.tables import LIMITS
from onnxruntime.backend.errors import Place, nearest, reject, show, warn

_MOST_WARNINGS = 8  # about the keyword arguments of a call: each one searches for similar names
_LONGEST_NAME = 100  # of a limit
# Other names that a caller can take for a limit, in lower case. A limit is never ignored.
_LIKE_A_LIMIT = "[a-z_]*(time_?out|deadline|time_?(limit|budget)|max_?(run_?)?(time|duration|seconds))[a-z_]*"


def warn_or_reject(keyword_arguments: Values, acting: Container[str]) -> tuple[str, ...]:
    """Warn about keyword arguments that are not ``acting`` in this call, and return the warnings.

    A keyword argument that is a limit of a run, or looks like one, is an error.
    """
    ignored = {name: value for name, value in keyword_arguments.items() if name not in acting}
    for name, value in ignored.items():
        if value is not None and len(name) <= _LONGEST_NAME:
            _reject_limit(name, value)

    warnings = []
    for name, value in islice(ignored.items(), _MOST_WARNINGS):
        if value is not None:
            _reject_similar(name, value)
        warnings.append(suggestions.ignored_keyword(name, value))
    further = len(ignored) - len(warnings)
    if further:
        warnings.append(f"{further} further keyword arguments are ignored")

    for warning in warnings:
        warn(warning)
    return tuple(warnings)


def _reject_limit(name: str, value: object) -> None:
    if name in LIMITS:
        reject(Place(name), "only rep.run and run have limits. Pass it to one of them", show(value))
    if re.fullmatch(_LIKE_A_LIMIT, name.lower()):
        seconds = suggestions.seconds(name, value) or "SECONDS"
        problem = f"only timeout limits a run, in seconds. Pass timeout={seconds} to rep.run or run"
        reject(Place(name), problem, show(value))


def _reject_similar(name: str, value: object) -> None:
    limit = nearest(name, LIMITS)
    if limit:
        keyword = show(name)[1:-1]  # as ASCII text
        reject(Place(keyword), f"unknown keyword argument. Did you mean {limit}?", show(value))
