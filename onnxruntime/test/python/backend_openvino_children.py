# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Shared by the programs for OpenVINO: calls of a function in forked processes, which a model can terminate."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

_Item = TypeVar("_Item")
_BATCH = 50  # calls of one process
_SECONDS = 120  # for one call


def in_children(call: Callable[[_Item], object], items: Sequence[_Item]) -> Iterator[tuple[_Item, object]]:
    """Return each item with the result of its call, ``None`` if the call terminated the process or took too long."""
    left = list(items)
    while left:
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            try:
                for item in left[:_BATCH]:
                    signal.alarm(_SECONDS)
                    os.write(writer, f"{json.dumps(call(item))}\n".encode())
                os._exit(0)
            finally:
                os._exit(1)
        os.close(writer)
        called = 0
        with os.fdopen(reader) as lines:
            for called, line in enumerate(lines, 1):
                yield left[called - 1], json.loads(line)
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) > 0:
            raise RuntimeError(f"{left[called]}: the call raised an exception")
        if called < min(_BATCH, len(left)):
            yield left[called], None
            called += 1
        del left[:called]
