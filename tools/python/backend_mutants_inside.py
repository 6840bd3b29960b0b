# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Runs in the copies of ``backend_mutants.py``: ``cover`` records the lines of tests, and ``work`` tries mutants."""

import contextlib
import importlib
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path


def cover(report: str, backend: str, *tests: str) -> None:
    """Run the tests, each as its own coverage context. Write durations, and the tests of each line, into the report."""
    import coverage  # only in the environment that is measured  # noqa: PLC0415
    import pytest  # noqa: PLC0415

    measured = coverage.Coverage.current()
    seconds = {}
    failed = set()

    class Watch:
        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_protocol(self, item):
            os.environ["BACKEND_TEST"] = item.nodeid  # for subprocesses
            measured.switch_context(item.nodeid)
            began = time.monotonic()
            try:
                return (yield)
            finally:
                seconds[item.nodeid] = time.monotonic() - began
                measured.switch_context("")

        def pytest_runtest_logreport(self, report):
            if report.failed:
                failed.add(report.nodeid)

    pytest.main(["-q", "-p", "no:cacheprovider", *tests], plugins=[Watch()])
    measured.stop()
    measured.save()
    measured.combine()
    for test in sorted(failed):
        seconds.pop(test, None)
        print(f"left out, because it fails without any mutant: {test}")
    lines = _lines(measured.get_data(), Path(backend), failed)
    Path(report).write_text(json.dumps({"seconds": seconds, "lines": lines}))


def _lines(data, backend: Path, failed: set[str]) -> dict[str, dict[int, list[str]]]:
    """Return the tests of each line of each module."""
    found = {}
    for file in data.measured_files():
        module = Path(file).relative_to(backend).with_suffix("").as_posix()
        found[module] = {}
        for line, tests in data.contexts_by_lineno(file).items():
            found[module][line] = [test for test in tests if test not in failed]
    return found


def work(backend: str) -> None:
    """Answer each request on stdin.

    A request contains ``module``, ``source``, and ``groups`` of tests with a limit in seconds. Each group runs in a
    fork of this process, until one detects the mutant. The answer contains ``killed_by``: a test, an error of the
    import, ``"time"``, or ``""``.
    """
    # All that takes long to import, except the backend itself.
    for name in ("numpy", "onnx", "onnxruntime", "pytest"):
        importlib.import_module(name)
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        request = json.loads(line)
        path = Path(backend, f"{request['module']}.py")
        kept = path.read_bytes()
        path.write_text(request["source"])
        killed_by = ""
        for limit, tests in request["groups"]:
            killed_by = killed_by or _killed_by(tests, limit)
        path.write_bytes(kept)
        print(json.dumps({"killed_by": killed_by}), file=answers, flush=True)


def _killed_by(tests: list[str], limit: float) -> str:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        failure = Path(folder, "failure")
        child = os.fork()
        if not child:
            os.setsid()
            os.environ["TMPDIR"] = tempfile.tempdir = folder
            try:
                _run(tests, failure)
            finally:
                os._exit(0)
        if not _ends(child, limit):
            return "time"
        if failure.exists():
            return failure.read_text()
    return ""


def _run(tests: list[str], failure: Path) -> None:
    """Run tests, and write the first that fails to a file. If the process dies, the file says so."""
    import pytest  # noqa: PLC0415

    silence = os.open(failure.with_name("output"), os.O_CREAT | os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    failure.write_text("the process died")

    class Watch:
        def pytest_runtest_logreport(self, report):
            if report.failed:
                failure.write_text(report.nodeid)

    code = pytest.main(["-q", "-x", "-p", "no:cacheprovider", *tests], plugins=[Watch()])
    if code == pytest.ExitCode.OK:
        failure.unlink()
    elif code != pytest.ExitCode.TESTS_FAILED:
        failure.write_text(f"pytest could not run them ({code.name})")  # such as an error of the import
    sys.stdout.flush()


def _ends(child: int, limit: float) -> bool:
    """Wait for a fork, and end all of its group. Return whether the fork ended itself."""
    until = time.monotonic() + limit
    ended = False
    while not ended and time.monotonic() < until:
        ended = os.waitpid(child, os.WNOHANG) != (0, 0)
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # with its remaining processes
    if not ended:
        os.waitpid(child, 0)
    return ended


if __name__ == "__main__":
    {"cover": cover, "work": work}[sys.argv[1]](*sys.argv[2:])
