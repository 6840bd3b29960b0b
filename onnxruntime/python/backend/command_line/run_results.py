# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The configurations that the ``run`` command tries, and their results as data."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from onnxruntime.backend.allowlist.session_config import RECORD_ASSIGNMENT
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep
from onnxruntime.backend.command_line import configurations, inputs, measure
from onnxruntime.backend.provider_names import CPU, OF_OPENVINO
from onnxruntime.backend.runs.errors import InputError
from onnxruntime.backend.session import nodes, presence

WARM_UP = 3  # runs
_FOR_PYTHON = ". To pass a list as the only input"  # the advice in an error that ends it


@dataclass(eq=False, repr=False)
class Tried:
    """A configuration, and the results of its runs."""

    label: str
    specified: dict
    rep: OnnxRuntimeBackendRep = field(init=False)  # without an error
    outputs: list = field(default_factory=list)
    seconds: list = field(default_factory=list)
    # By field of an output: its comparison with the CPU EP, and with the first configuration.
    differences: dict = field(default_factory=dict)
    error: Exception | None = None

    def attempt(self, call: Callable, *arguments: object) -> Any:
        """Call a function that uses ORT, and keep its error. After an error, do nothing."""
        if self.error is None:
            try:
                return call(*arguments)
            except Exception as error:  # ORT raises classes without a common base
                self.error = error
                if isinstance(error, InputError):
                    text = str(error).partition(_FOR_PYTHON)[0]
                    error.args = (text,)
        return None

    def is_failure(self) -> bool:
        if self.error:
            return True
        differences = itertools.chain(*self.differences.values())
        return not all(difference["within"] for difference in differences)


def of(one: Tried, first: Tried) -> dict:
    if one.error is not None:
        return {"configuration": one.label, "error": configurations.problem(one.error, one.specified)}

    rep = one.rep
    session_config = rep.session_config
    specified = one.specified.get("session_config", {})
    if RECORD_ASSIGNMENT not in specified:
        session_config.pop(RECORD_ASSIGNMENT, None)
    kinds = presence.kinds()
    providers = []
    for name in rep.providers:
        kind = kinds.get(name, "")
        providers.append({"name": name, "kind": kind})
    why_serial = None
    if not OF_OPENVINO.isdisjoint(rep.providers):
        why_serial = rep.why_serial
    return {
        "configuration": one.label,
        "error": None,
        "providers": providers,
        "provider_options": rep.provider_options,
        "unconfirmed": rep.unconfirmed,
        "session_options": rep.session_options,
        "session_config": session_config,
        "run_config": rep.run_config,
        "extensions": rep.extensions,
        "warnings": rep.warnings,
        "nodes": rep.node_assignment,
        "operators_on_cpu": operators_on_cpu(rep),
        "runs_alone": why_serial,
        "outputs": _outputs(one),
        "latency_ms": _latency(one, first),
    }


def operators_on_cpu(rep: OnnxRuntimeBackendRep) -> dict[str, int]:
    """Return the number of nodes of each operator on the CPU EP next to another EP, most frequent first."""
    recorded = nodes.recorded_nodes(rep.session)
    on_cpu = recorded.pop(CPU, [])
    other_eps = rep.provider_options.keys() - {CPU}
    if not other_eps and not any(recorded.values()):
        return {}
    return nodes.count_operators(on_cpu)


def _outputs(one: Tried) -> list[dict]:
    if not one.seconds:
        return []
    nodes = one.rep.session.get_outputs()
    outputs = list(map(inputs.described, nodes, one.outputs))
    for kind, differences in one.differences.items():
        for output, difference in zip(outputs, differences, strict=True):
            output[kind] = difference
    return outputs


def _latency(one: Tried, first: Tried) -> dict | None:
    if not one.seconds:
        return None
    latency = measure.percentiles(one.seconds)
    ratio = None
    if first.error is None:
        of_first = measure.percentiles(first.seconds)
        ratio = latency["p50"] / of_first["p50"]
    return latency | {"runs": len(one.seconds), "warm_up": WARM_UP, "ratio_to_first": ratio}
