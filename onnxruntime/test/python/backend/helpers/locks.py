# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Calls that take the locks of sessions, and exceptions at any step of a call."""

import dis
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import Self
from unittest import SkipTest

from onnxruntime import RunOptions
from onnxruntime.backend.locks import SessionLock

SOON, LATE = 0.2, 30


def in_run(lock: SessionLock, options: RunOptions | None = None) -> Callable:
    """Return a function that calls another as a run of a session."""
    return partial(lock.run, options)


def in_alone(lock: SessionLock, options: RunOptions | None = None) -> Callable:
    """Return a function that calls another as a run that is alone."""
    return partial(lock.run_alone, options)


def in_block(lock: SessionLock) -> Callable:
    """Return a function that calls another in a block of ``device_lock``."""

    def call(function: Callable) -> object:
        with lock.alone():
            return function()

    return call


def nothing() -> None:
    pass


class Held:
    """Holds a lock in another thread. A ``with`` block begins when the lock is held, and its end lets go."""

    def __init__(self, call: Callable) -> None:
        self.entered, self._go_on = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=call, args=(self._hold,), daemon=True)
        self.thread.start()

    def _hold(self) -> None:
        self.entered.set()
        self._go_on.wait(LATE)

    def let_go(self) -> None:
        self._go_on.set()
        self.thread.join(LATE)

    def __enter__(self) -> Self:
        assert self.entered.wait(LATE), "a lock is left taken"
        return self

    def __exit__(self, *_: object) -> None:
        self.let_go()


def check_free(*calls: Callable) -> None:
    for call in calls:
        with Held(call):
            pass


def check(first: Callable, second: Callable, waits: bool) -> None:
    """Check whether the second call waits for the end of the first."""
    with Held(first):
        other = Held(second)
        assert other.entered.wait(SOON if waits else LATE) is not waits
    with other:
        pass


class Interrupter:
    """Raises ``KeyboardInterrupt`` at one of the steps after which Python calls a signal handler.

    These are the start of a Python function, a jump to the start of a loop, and the end of a call of a C function.
    """

    # In Python 3.11, jumps with a condition, too.
    JUMPS = frozenset(code for name, code in dis.opmap.items() if "JUMP_BACKWARD" in name and "_NO_" not in name)

    def __init__(self, moment: int, again: bool = False) -> None:
        """If ``again``, also raise it at each later step."""
        self._moment, self._again, self._steps = moment, again, 0
        self.interrupted = self.reached_the_program = False

    def __enter__(self) -> Self:
        if sys.gettrace() is not None:
            raise SkipTest("a tracer such as a coverage tool is in use")
        sys.settrace(self._trace)
        sys.setprofile(self._profile)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        sys.setprofile(None)
        sys.settrace(None)
        self.reached_the_program = kind is KeyboardInterrupt
        return self.reached_the_program

    def _step(self) -> None:
        if self.interrupted and not self._again:
            return
        self._steps += 1
        if self._steps > self._moment:
            self.interrupted = True
            raise KeyboardInterrupt

    def _trace(self, frame: FrameType, event: str, _: object) -> Callable | None:
        if frame.f_code.co_filename == __file__:
            return None
        # In this order: Python 3.14 ignores f_trace_opcodes of a frame without f_trace, and if nothing changes.
        frame.f_trace, frame.f_trace_lines = self._trace, False
        if event == "call":
            frame.f_trace_opcodes = False
            frame.f_trace_opcodes = True
        if event == "call" or (event == "opcode" and frame.f_code.co_code[frame.f_lasti] in self.JUMPS):
            self._step()
        return self._trace

    def _profile(self, frame: FrameType, event: str, _: object) -> None:
        if event == "c_return" and frame.f_code.co_filename != __file__:
            self._step()


def at_each_step(again: bool = False) -> Iterator[Interrupter]:
    """Yield an interrupter for each step of a call, up to the first one that does not interrupt the call."""
    for moment in range(1000):
        interrupter = Interrupter(moment, again)
        yield interrupter
        if not interrupter.interrupted:
            break
    assert not interrupter.interrupted, "the call has many steps"
    assert moment > 2, "the call has no steps"
