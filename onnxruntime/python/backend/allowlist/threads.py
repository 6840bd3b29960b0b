# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The threads of a session: their number and the CPUs of this process."""

import os

from onnxruntime.backend.allowlist.value_kinds import ForbiddenError, Kind, whole


class Threads(Kind):
    """A number of threads, from ``low`` to 16, or to four for each usable CPU if that is more.

    This bound protects a worker from its caller. More threads make no run faster, and they cost CPU time. On two CPUs,
    one run with 128 threads uses four CPU seconds. A session with 1024 threads takes over a minute to create.
    """

    def __init__(self, low: int = 0, forbidden: str = "") -> None:
        self.low = low
        self.forbidden = forbidden  # why 1 is not permitted, if so
        self.accepts = f"an integer from {low} to 16, or to 4 times the number of usable CPUs, if that is more"

    def parse(self, value: object) -> int:
        number = whole(value)
        if number == 1 and self.forbidden:
            raise ForbiddenError(self.forbidden)
        high = max(16, 4 * len(CPUS))
        if not self.low <= number <= high:
            raise ValueError(f"out of range, which is {self.low} to {high} on this machine")
        return number


def _cpus() -> frozenset[int]:
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


# The CPUs that this process may use. Asked before any session: OpenVINO pins threads, and children inherit this.
CPUS = _cpus()


def usable_cores() -> int:
    """Return the number of CPU cores that this process may use. The hyper-threads of one core count once."""
    cores = set()
    try:
        for cpu in CPUS:
            with open(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", encoding="ascii") as file:
                cores.add(file.read())
    except OSError:  # not Linux, or its list cannot be read
        return (len(CPUS) + 1) // 2  # the minimum, if each core has two hyper-threads
    return len(cores)
