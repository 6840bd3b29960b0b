# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Calls a function in forked processes, which a model can terminate."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import TypeVar

_Item = TypeVar("_Item")
_BATCH = 50  # calls of one process
_SECONDS = 120  # for one call


def in_children(call: Callable[[_Item], object], items: Sequence[_Item]) -> Iterator[tuple[_Item, object]]:
    """Return each item with the result of its call, ``None`` if the call terminated the process or took too long."""
    left = list(items)
    while left:
        batch = min(_BATCH, len(left))
        with ProcessPoolExecutor(1, get_context("fork"), _without_stderr) as pool:
            try:
                for _ in range(batch):
                    item = left.pop(0)
                    yield item, pool.submit(_limited, call, item).result()
            except BrokenProcessPool:
                yield item, None


def _without_stderr() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _limited(call: Callable[[_Item], object], item: _Item) -> object:
    signal.alarm(_SECONDS)
    result = call(item)
    signal.alarm(0)
    return result
