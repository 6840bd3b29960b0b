# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The allowlist of provider options: every execution provider, every option, permitted with its values or refused."""

from __future__ import annotations

from typing import NamedTuple

from onnxruntime.backend.allowlist_rules import Permitted, Rule
from onnxruntime.backend.value_kinds import Flag, Integer


class Provider(NamedTuple):
    """The options of one EP, by the door it comes through; ``None`` where no such EP exists or none was judged."""

    bundled: dict[str, Rule] | None = None
    plugin: dict[str, Rule] | None = None

    def rules(self, flavour: str) -> dict[str, Rule]:
        return (self.plugin if flavour == "plugin" else self.bundled) or {}


PROVIDERS: dict[str, Provider] = {
    "CPUExecutionProvider": Provider(bundled={}),
    "CUDAExecutionProvider": Provider(
        bundled={
            "device_id": Permitted(Integer(0, 63), "0", "Which CUDA device; ORT checks it against the device count."),
            "use_tf32": Permitted(Flag(), "1", "Lets float matmul and convolution use TF32."),
        }
    ),
}
