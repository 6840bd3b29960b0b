#!/bin/sh
# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
# Runs a command on a machine without a GPU as if it had one: in a mount namespace of its own, /sys/class/drm shows one
# PCI display adapter, which is where ORT looks for devices, and Vulkan is SwiftShader, which computes on the CPU.
# Needs Linux, the right to unshare (root, or a user namespace) and SwiftShader, as in Debian's chromium-common.
#
#   with_software_gpu.sh python -m pytest capture/test_webgpu_graphs.py
set -eu

icd=${SWIFTSHADER_ICD:-/usr/lib/chromium/vk_swiftshader_icd.json}
if [ ! -r "$icd" ]; then
    echo "no SwiftShader at $icd: install chromium-common, or set SWIFTSHADER_ICD" >&2
    exit 2
fi
if [ -z "${ORT_TEST_SOFTWARE_GPU:-}" ]; then
    [ "$(id -u)" = 0 ] && user= || user=--map-root-user
    # shellcheck disable=SC2086
    ORT_TEST_SOFTWARE_GPU=1 exec unshare $user --mount --propagation private sh "$0" "$@"
fi

# The loader comes with SwiftShader where the system has none.
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$(dirname "$icd")"
export VK_ICD_FILENAMES="$icd" VK_DRIVER_FILES="$icd"
: "${XDG_RUNTIME_DIR:=${HOME:-/tmp}}"
export XDG_RUNTIME_DIR

adapter=/sys/class/drm/card0/0000:00:01.0
mount -t tmpfs -o size=64k tmpfs /sys/class
mkdir -p "$adapter"
ln -s 0000:00:01.0 /sys/class/drm/card0/device
echo 0x1af4 >"$adapter/vendor" # the numbers of a virtual machine's display adapter
echo 0x1050 >"$adapter/device"
exec "$@"
