# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Runs the example for Dask alone, and on a cluster of other processes: a scheduler and two workers on 127.0.0.1."""

import os
import subprocess
import sys
from pathlib import Path

from dask.distributed import LocalCluster

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "batch_dask.py"
ADDRESS = "DASK_SCHEDULER_ADDRESS"


def main() -> None:
    alone = example({name: value for name, value in os.environ.items() if name != ADDRESS})
    with LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as cluster:
        if not cluster.scheduler_address.startswith("tcp://127.0.0.1:"):
            sys.exit(f"The scheduler listens on {cluster.scheduler_address}.")
        on_cluster = example({**os.environ, ADDRESS: cluster.scheduler_address})
    print(alone, on_cluster, sep="", end="")
    if alone != on_cluster or " on 2 workers: " not in alone or " python" not in alone:
        sys.exit("The cluster returned other labels than two local workers.")


def example(environment: dict[str, str]) -> str:
    command = [sys.executable, str(EXAMPLE), str(ROOT / "tools")]
    ran = subprocess.run(command, env=environment, check=True, timeout=240, text=True, stdout=subprocess.PIPE)
    return ran.stdout


if __name__ == "__main__":
    main()
