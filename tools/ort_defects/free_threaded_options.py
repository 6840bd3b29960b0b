# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Without a global interpreter lock, threads that change the same `SessionOptions` terminate the process.

onnxruntime 1.32.0 on free-threaded Python 3.14. With the global lock, no other thread runs in the middle of a call of
``SessionOptions``. Without it, nothing protects the map of config entries.

In this backend: each call of ``prepare`` and each run with settings has options of its own, which no thread changes
after they are complete.
"""

import subprocess
import sys
import sysconfig
import threading

import onnxruntime


def change() -> None:
    options = onnxruntime.SessionOptions()

    def add(thread: int) -> None:
        for number in range(3_000):
            options.add_session_config_entry(f"key {thread} {number}", "value")

    threads = [threading.Thread(target=add, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for thread in range(4):
        for number in range(3_000):
            options.get_session_config_entry(f"key {thread} {number}")  # an error if it is missing


if sys.argv[1:]:
    for _ in range(100):
        change()
    raise SystemExit
if not sysconfig.get_config_var("Py_GIL_DISABLED"):
    print("this Python has a global interpreter lock")
    raise SystemExit
command = [sys.executable, __file__, "child"]
ended = [subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode for _ in range(5)]
print("exit statuses of five processes:", *ended)
raise SystemExit(any(ended))
