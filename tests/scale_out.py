# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Runs the example for Dask alone, and with a scheduler and two workers as separate processes on 127.0.0.1."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "batch_dask.py"
_SECONDS = 120


def main() -> None:
    alone = example({})
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        scheduler_file = folder / "scheduler.json"
        common = ["--host", "127.0.0.1", "--scheduler-file", str(scheduler_file)]
        start(stack, folder, "dask_scheduler", *common, "--port", "0", "--no-dashboard")
        wait_for(scheduler_file)
        for _ in range(2):
            start(stack, folder, "dask_worker", *common, "--nthreads", "1", "--no-dashboard")
        address = json.loads(scheduler_file.read_text())["address"]
        if not address.startswith("tcp://127.0.0.1:"):
            sys.exit(f"The scheduler listens on {address}.")
        wait_for_workers(address)
        on_cluster = example({"DASK_SCHEDULER_ADDRESS": address})
    print(alone, on_cluster, sep="", end="")
    if alone != on_cluster or " on 2 workers: " not in alone or " python" not in alone:
        sys.exit("The cluster returned other labels than two local workers.")


def example(environment: dict[str, str]) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "DASK_SCHEDULER_ADDRESS"} | environment
    command = [sys.executable, str(EXAMPLE), str(ROOT / "tools")]
    ran = subprocess.run(command, env=environment, check=False, timeout=2 * _SECONDS, text=True, stdout=subprocess.PIPE)
    if ran.returncode:
        sys.exit(f"{EXAMPLE.name} exited with {ran.returncode}.")
    return ran.stdout


def start(stack: ExitStack, folder: Path, program: str, *arguments: str) -> None:
    command = [sys.executable, "-m", f"distributed.cli.{program}", *arguments]
    process = stack.enter_context(subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL))
    stack.callback(process.terminate)


def wait_for(file: Path) -> None:
    deadline = time.monotonic() + _SECONDS
    while not (file.exists() and file.read_text().strip().endswith("}")):
        if time.monotonic() > deadline:
            sys.exit("The scheduler did not start.")
        time.sleep(0.1)


def wait_for_workers(address: str) -> None:
    from dask.distributed import Client  # noqa: PLC0415

    with Client(address, timeout=_SECONDS) as client:
        client.wait_for_workers(2, timeout=_SECONDS)


if __name__ == "__main__":
    main()
