# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Shared by the tests: runs a program in a new process, as ``python -c`` does, but without the time of the imports.

A new process needs a third of a second to import ORT and onnx. On Linux, this file, run as a program, imports them once
and forks for each request. The fork gets the arguments, files, folder, and environment of the request, and ends as any
process. Each program imports the backend itself. Use ``subprocess`` for tests of the import of ORT, of variables that
this import reads, and of command lines.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import types
from collections.abc import Mapping
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1]
_ALONE = threading.Lock()


def run_code(
    code: str, *arguments: str, input: bytes = b"", cwd: Path = FOLDER, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program in a new process, and return its status and output.

    :param code: Python. It can import the modules in ``cwd``.
    :param arguments: ``sys.argv[1:]``.
    :param input: the content of stdin.
    :param env: the environment; by default the environment of this process.
    """
    command = [sys.executable, "-c", code, *arguments]
    environment = dict(os.environ)
    if env is not None:
        environment = dict(env)
    if sys.platform != "linux":
        ran = subprocess.run(command, input=input, capture_output=True, cwd=cwd, env=environment, check=False)
        status, out, err = ran.returncode, ran.stdout, ran.stderr
    else:
        request = json.dumps([code, arguments, str(cwd), environment])
        status, out, err = _run_in_fork(request.encode(), input)
    return subprocess.CompletedProcess(command, status, out.decode(errors="replace"), err.decode(errors="replace"))


def _run_in_fork(request: bytes, stdin: bytes) -> tuple[int, bytes, bytes]:
    with contextlib.ExitStack() as stack:
        files = []
        for content in (request, stdin, b"", b""):
            file = stack.enter_context(tempfile.TemporaryFile())
            file.write(content)
            file.seek(0)
            files.append(file)
        with _ALONE:
            server = _server()
            socket.send_fds(server, [b"."], [file.fileno() for file in files])
            status = int(server.recv(16))
        _, _, out, err = files
        out.seek(0)
        err.seek(0)
        return status, out.read(), err.read()


@functools.cache
def _server() -> socket.socket:
    """Start the process that forks. It ends when this process closes the connection."""
    ours, theirs = socket.socketpair()
    with theirs:
        # A fork does not have the threads that OpenBLAS and ORT's telemetry start during the import.
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "ORT_DISABLE_TELEMETRY": "1"}
        process = subprocess.Popen([sys.executable, __file__], stdin=theirs, stdout=subprocess.DEVNULL, env=environment)
    ours.settimeout(300)
    atexit.register(process.wait)  # after the end of the connection
    atexit.register(ours.close)
    return ours


def _next_program() -> str:
    """Fork for each request, and return the program in the fork."""
    connection = socket.socket(fileno=os.dup(0))
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = [folder for folder in sys.path[1:] if folder not in known]
    while True:
        _, files, _, _ = socket.recv_fds(connection, 1, 4)
        if not files:
            os._exit(0)
        child = os.fork()
        if child:
            for file in files:
                os.close(file)
            _, status = os.waitpid(child, 0)
            connection.send(str(os.waitstatus_to_exitcode(status)).encode())
            continue
        connection.close()
        with open(files[0]) as request:
            code, arguments, folder, environment = json.load(request)
        for number, file in enumerate(files[1:]):
            os.dup2(file, number)
            os.close(file)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = ["-c", *arguments]
        sys.path[:] = [""]
        sys.path += filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
        sys.path += path
        return code


if __name__ == "__main__":
    # Each program imports the backend itself.
    import onnx  # noqa: F401

    import onnxruntime  # noqa: F401

    gc.freeze()  # The garbage collection of a fork would copy the memory of all imported modules.
    _program = _next_program()
    sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(_program, "<string>", "exec"), vars(sys.modules["__main__"]))
