# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Without a global interpreter lock, `get_ep_devices` fails while another thread registers the library of an EP.

onnxruntime 1.32.0 on free-threaded Python 3.14, with onnxruntime-ep-webgpu 0.4.0 and a GPU, or a software GPU. The call
reads the list of devices while the registration changes it. It raises ``MemoryError``, or terminates the process.

In this backend: ``prepare`` registers the plugins of the environment before it reads the devices, under a lock.
Register other libraries before you prepare models in several threads.
"""

import sysconfig
import threading
import time

import onnxruntime_ep_webgpu

import onnxruntime

if not sysconfig.get_config_var("Py_GIL_DISABLED"):
    print("this Python has a global interpreter lock")
    raise SystemExit
errors = []
end = time.monotonic() + 10


def read() -> None:
    while time.monotonic() < end:
        try:
            for device in onnxruntime.get_ep_devices():
                assert device.ep_name
        except Exception as error:
            errors.append(error)


threads = [threading.Thread(target=read) for _ in range(3)]
for thread in threads:
    thread.start()
while time.monotonic() < end:
    onnxruntime.register_execution_provider_library("webgpu", onnxruntime_ep_webgpu.get_library_path())
    onnxruntime.unregister_execution_provider_library("webgpu")
for thread in threads:
    thread.join()
print(f"{len(errors)} errors", *errors[:1], sep=": ")
raise SystemExit(bool(errors))
