# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Keeps the result on stdout apart from the output of libraries."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TextIO


def replace_closed() -> None:
    """Open the null device in place of each standard stream that is closed.

    Otherwise, the next file that any library opens gets the number of the closed stream, and receives its output.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) < 3:
        pass
    os.close(number)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 (until the process ends)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # file names and models may contain any character


@contextlib.contextmanager
def result_stream() -> Iterator[TextIO]:
    """Return a stream to stdout that only the result uses.

    EP libraries print to file descriptor 1, some of them when the process ends. From here on, this descriptor is
    permanently a copy of stderr, and the returned stream writes to the former stdout.
    """
    out = sys.stdout
    out.flush()
    if out is sys.__stdout__:
        kept = os.dup(out.fileno())
        os.dup2(2, out.fileno())
        out = os.fdopen(kept, "w", encoding=out.encoding, errors="backslashreplace")
    with contextlib.redirect_stdout(sys.stderr):
        yield out
        out.flush()
