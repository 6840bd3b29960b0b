#!/bin/sh
# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
# Runs a Python whose onnxruntime is onnxruntime-gpu's: on the GPU where the driver sees one, else on the software CUDA,
# which it builds first. Says which. Needs gcc, nm, make and flock, Linux, and ORT's CUDA 13 build.
#
#   with_software_cuda.sh python -m pytest test_cuda.py
set -eu

[ -n "${ORT_TEST_SOFTWARE_CUDA:-}" ] && exec "$@" # within another of these
here=$(cd "$(dirname "$0")" && pwd)
if "$1" -I -c '
import ctypes
try:
    driver, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
except OSError:
    raise SystemExit(1)
raise SystemExit(driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or not count.value)'; then
    if env | grep -q '^SOFTCUDA_'; then
        echo "CUDA: nothing to do, as settings of the software CUDA change no GPU" >&2
        exit 0
    fi
    echo "CUDA: on the GPU of this machine" >&2
    exec "$@"
fi
for tool in gcc nm make flock; do
    if ! command -v $tool >/dev/null; then
        echo "CUDA: no GPU on this machine, and $tool, which the software CUDA is built with, is missing" >&2
        exit 2
    fi
done

provider=$("$1" -I -c '
import importlib.util, os
path = importlib.util.find_spec("onnxruntime").submodule_search_locations[0]
print(os.path.join(path, "capi", "libonnxruntime_providers_cuda.so"))')
python=$("$1" -I -c 'import sys; print(sys.executable)')
out=${ORT_TEST_SOFTWARE_CUDA_BUILD:-$here/../../../../build/software-cuda}
mkdir -p "$(dirname "$out")"
exec 9>"$out.lock"
flock 9 # sessions of CI run at the same time
built_for=$(ls -l "$provider")
[ "$(cat "$out/provider" 2>/dev/null)" = "$built_for" ] || rm -rf "$out"
make --silent --directory "$here/software_cuda" PYTHON="$python" PROVIDER="$provider" \
    OUT="$(realpath -m "$out")"
echo "$built_for" >"$out/provider"
exec 9>&-
echo "CUDA: no GPU on this machine, on the software CUDA" >&2
export LD_LIBRARY_PATH="$(realpath "$out")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" ORT_TEST_SOFTWARE_CUDA=1
exec "$@"
