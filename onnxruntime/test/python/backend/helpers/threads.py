# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Shared by the tests: runs functions in threads, and acts at every moment of a call."""

import sys
import threading
import unittest
from collections.abc import Callable
from types import FrameType

FREE_THREADED = not getattr(sys, "_is_gil_enabled", lambda: True)()
needs_global_lock = unittest.skipIf(
    FREE_THREADED, "requires Python's global interpreter lock, as the locks of sessions do"
)
LATE = 60  # seconds after which a thread hangs


def in_threads(*functions: Callable) -> None:
    threads = [threading.Thread(target=function, daemon=True) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LATE)
        assert not thread.is_alive(), "the threads wait for each other"


def at_every_moment(
    act: Callable[[], None], call: Callable[[], object], check: Callable[[object], None], opcodes: bool = False
) -> None:
    """Call a function again and again, and act one moment later each time, until no moment of the call is left.

    At such a moment, Python calls signal handlers and lets other threads run. A new thread calls, because it can hang.

    :param check: a function of the result of each call, or of the class of its error.
    :param opcodes: whether each instruction counts as a moment. Python lets other threads run in loops, too.
    """
    left, moments = 0, []

    def watch(frame: FrameType, event: str, _: object) -> Callable:
        nonlocal left
        frame.f_trace_opcodes = opcodes
        if event in ("opcode", "call", "c_return"):  # a Python function begins, or a C function has returned
            left -= 1
            if left == 0:
                act()
        return watch

    def run() -> None:
        nonlocal left
        begin, before = (sys.settrace, sys.gettrace()) if opcodes else (sys.setprofile, None)
        # Python 3.12.1 delivers no opcode events if no frame requested them before settrace.
        sys._getframe().f_trace_opcodes = opcodes
        for moment in range(1, 2000):
            left = moment
            begin(watch)
            try:
                seen = call()
            except BaseException as error:
                seen = error.__class__
            inside, left = left <= 0, 0  # no moment of the call follows
            begin(before)  # a coverage tool may trace
            check(seen)
            if not inside:
                moments.append(moment)
                return

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(120)
    assert moments and moments[0] > 10, "the test hangs or failed"
