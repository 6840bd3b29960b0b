# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Label the files of a folder with Google's Magika model on Dask.

``python examples/batch_dask.py FOLDER`` starts two workers on this machine. If the environment variable
``DASK_SCHEDULER_ADDRESS`` is set, it uses the workers of that cluster. They need the packages onnxruntime and magika,
and the folder under the same path. For local workers, magika can also be in the folder ``models``.
"""

import os
import sys
from collections import Counter
from pathlib import Path

from dask.distributed import Client, LocalCluster, get_worker

# Plain data: each worker prepares its own model with it. The processes are the parallelism, so each has one thread.
CONFIGURATION = {"session_options": {"intra_op_num_threads": 1}, "provider_options": {"CPUExecutionProvider": {}}}
FILES_PER_TASK = 16


def labels(paths: list[str], configuration: dict) -> list[str]:
    """Return the labels of some files. Runs on a worker, which keeps its prepared model."""
    import magika_demo  # uploaded to the workers  # noqa: PLC0415

    worker = get_worker()
    if not hasattr(worker, "magika"):
        worker.magika = magika_demo.prepare_magika(**configuration)
    contents = [Path(path).read_bytes() for path in paths]
    return magika_demo.classify(worker.magika, contents)


def main(folder: str) -> None:
    paths = []
    for path in sorted(Path(folder).resolve().rglob("*")):
        if path.is_file():
            paths.append(str(path))
    if not paths:
        sys.exit(f"{folder}: no such folder, or no files in it")
    tasks = []
    for start in range(0, len(paths), FILES_PER_TASK):
        tasks.append(paths[start : start + FILES_PER_TASK])
    address = os.environ.get("DASK_SCHEDULER_ADDRESS")
    if not address:
        import magika_demo  # noqa: F401, PLC0415 - an error here is clearer than in a worker
    cluster = address or LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None)
    with Client(cluster) as client:
        client.upload_file(str(Path(__file__).with_name("magika_demo.py")))
        found = client.gather(client.map(labels, tasks, configuration=CONFIGURATION))
        workers = len(client.scheduler_info()["workers"])
    if not address:
        cluster.close()
    counts = Counter()
    for task in found:
        counts.update(task)
    texts = [f"{count} {label}" for label, count in sorted(counts.items())]
    print(f"{len(paths)} files on {workers} workers:", ", ".join(texts))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python examples/batch_dask.py FOLDER")
    main(sys.argv[1])
