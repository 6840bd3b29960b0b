# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Shared by the tests: runs a program in a new process."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1]


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
    ran = subprocess.run(command, input=input, cwd=cwd, env=env, capture_output=True, check=False)
    out, err = (text.decode(errors="replace") for text in (ran.stdout, ran.stderr))
    return subprocess.CompletedProcess(command, ran.returncode, out, err)
