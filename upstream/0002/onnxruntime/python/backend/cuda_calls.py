# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Keeps the CUDA calls of this package apart from captures of CUDA graphs.

ORT captures in CUDA's global mode: an allocation, a release or a synchronization in any thread of the process fails and
breaks the capture, and then all CUDA sessions of the process fail. So a thread captures alone. Other calls run side by
side. This package does not see the sessions that a program creates or runs without it.
"""

from __future__ import annotations

import os
import time
import traceback
import weakref
from collections import deque
from queue import SimpleQueue
from threading import Lock, get_ident

from onnxruntime import InferenceSession
from onnxruntime.backend.allowlist_tables import CUDA

_running: set[int] = set()  # the threads that create or run sessions
_capturing: set[int] = set()  # the thread that captures, or waits for the threads that run
_workers: set[int] = set()  # the threads of sessions that capture
_turn = Lock()  # only threads of this package take it, and no KeyboardInterrupt reaches them
_sessions = weakref.WeakSet()  # sessions on CUDA that no capture has seen


class _Kept(weakref.ref):
    """A session, with objects that are released only after it has ended, and while no thread captures."""

    __slots__ = ("held", "thread")
    __hash__ = object.__hash__
    __eq__ = object.__eq__


_kept: set[_Kept] = set()
_ended: deque[_Kept] = deque()
_IN_A_CALL = "A signal handler or a finalizer cannot run this session in the middle of a call of its thread"
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_capturing.clear)


def beside(function, *arguments, **keywords):
    """Call a function that can use CUDA, while no other thread captures."""
    thread = get_ident()
    if thread in _capturing:
        raise RuntimeError(_IN_A_CALL)
    if thread in _running:  # a signal handler, for whose end a capture waits
        return function(*arguments, **keywords)
    try:
        _running.add(thread)
        while _capturing:
            _running.discard(thread)
            time.sleep(0.0005)
            _running.add(thread)
        _release_ended()
        return function(*arguments, **keywords)
    finally:
        _running.discard(thread)


def alone(function, *arguments):
    """Call a function that captures, while no other thread uses CUDA."""
    with _turn:
        try:
            _capturing.add(get_ident())
            while _running:
                time.sleep(0.00002)
            _keep_sessions()
            return function(*arguments)
        finally:
            _capturing.clear()


def _keep_sessions() -> None:
    for session in list(_sessions):
        keep(session, [session._sess])
    _sessions.clear()


def keep(session: InferenceSession, held: list, thread: SimpleQueue | None = None) -> None:
    """Release objects only after the session has ended, and while no thread captures. Then end its thread."""
    kept = _Kept(session, _ended.append)  # no interrupt can prevent a callback in C
    kept.held = held
    kept.thread = thread
    _kept.add(kept)


def _release_ended() -> None:
    if not _ended:
        return
    _ended.clear()
    for kept in list(_kept):
        if kept() is None:
            kept.held.clear()
            if kept.thread is not None:
                kept.thread.put(None)
            _kept.discard(kept)


def call(thread: SimpleQueue, function, *arguments, **keywords):
    """Call a function in a thread. An interrupt ends only the wait, which takes no lock that it could leave taken."""
    if get_ident() in _workers | _running:
        raise RuntimeError(_IN_A_CALL)
    answers = SimpleQueue()
    thread.put((answers, function, arguments, keywords))
    result, error = answers.get()
    if error is not None:
        raise error
    return result


def serve(calls: SimpleQueue) -> None:
    """Execute the calls of a session until it ends."""
    _workers.add(get_ident())
    while item := calls.get():
        answers, function, arguments, keywords = item
        try:
            answers.put((function(*arguments, **keywords), None))
        except BaseException as error:
            answers.put((None, error))
        del item, answers, function, arguments, keywords  # they refer to the session
    _workers.discard(get_ident())


def create(session_class: type[InferenceSession], *arguments, **keywords) -> InferenceSession:
    """Create a session, while no other thread captures."""
    return beside(_create, session_class, *arguments, **keywords)


def _create(session_class: type[InferenceSession], *arguments, **keywords) -> InferenceSession:
    try:
        session = session_class(*arguments, **keywords)
    except BaseException as error:
        for failed in (error, error.__context__):
            if failed is not None:  # the frames of the constructor refer to an inner session, which this releases
                traceback.clear_frames(failed.__traceback__)
        raise
    if CUDA in session.get_providers():
        _sessions.add(session)
    return session
