# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Finds the ``run`` command that the ``inspect`` command proposes. Each command is tried in another process."""

from __future__ import annotations

import argparse
import itertools
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass

from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep
from onnxruntime.backend.command_line import info, inputs, run
from onnxruntime.backend.command_line.output import MistakeError, one_line
from onnxruntime.backend.provider_names import CPU

# Sizes to try for free dimensions, and the time for all tries in seconds.
_SIZES = (1, 2, 16, 32, 64, 128, 224, 256, 512, 640, 1024)
_SECONDS = 20.0


@dataclass
class Proposal:
    """A command that was tried, and the first command if that one fails."""

    shapes: list[str]
    options: list[str]  # provider options
    sizes: dict[str, int]  # of free dimensions
    error: str = ""
    first: Proposal | None = None

    @property
    def flags(self) -> list[str]:
        """The arguments that specify EPs and sizes."""
        words = info.repeated("--provider-option", self.options)
        for name, size in self.sizes.items():
            words += ["--free-dimension", f"{name}={size}"]
        return words

    def arguments(self, chosen: argparse.Namespace) -> list[str]:
        words = ["run", chosen.model]
        words += info.repeated("--shape", self.shapes)
        words += info.repeated("--extension", chosen.extension)
        words += self.flags
        words += info.repeated("--plugin", chosen.plugin)
        return words

    def as_data(self, chosen: argparse.Namespace) -> dict:
        command = shlex.join(self.arguments(chosen))
        first = self.first or Proposal([], [], {})
        return {
            "command": f"python -m onnxruntime.backend {command}",
            "free_dimensions": self.sizes,
            "error": self.error,
            "first_flags": shlex.join(first.flags),
            "first_error": first.error,
        }


def find(chosen: argparse.Namespace, rep: OnnxRuntimeBackendRep) -> Proposal:
    """Return the first command that works on the EPs that it uses. If none works, return the last, and its error.

    :param rep: the model on the CPU EP.
    """
    shapes, error = _working_shapes(rep)
    if error:
        return Proposal(shapes, [], {}, error)
    nodes = rep.session.get_inputs()
    first = None
    for proposal in _choices(chosen.provider_options, nodes, shapes):
        words = [*proposal.arguments(chosen), "--repeat", "1"]
        _, proposal.error = info.in_child(words, configured=True)
        proposal.first = first
        first = first or proposal
        if not proposal.error:
            break
    return proposal


def _choices(options: list[str], nodes: list, shapes: list[str]) -> Iterator[Proposal]:
    """Yield commands: on the requested EPs, also with fixed sizes and without their options, then on the CPU EP."""
    yield Proposal(shapes, options, {})
    if options:
        sizes, others = _fixed(nodes, shapes)
        if sizes:
            yield Proposal(others, options, sizes)
        names = list(run.add_settings({}, "provider_options", options))
        if names != options:
            yield Proposal(shapes, names, {})
    yield Proposal(shapes, [CPU], {})


def _fixed(nodes: list, shapes: list[str]) -> tuple[dict[str, int], list[str]]:
    """Return the sizes of named free dimensions, and the shapes of inputs with other free dimensions."""
    texts = {}
    for text in shapes:
        name = text.rpartition("=")[0]
        texts[name] = text
    sizes = {}
    others = []
    for node in nodes:
        if node.name not in texts:  # its shape is fixed
            continue
        shape = texts[node.name].rpartition("=")[2]
        for dimension, size in zip(node.shape, shape.split("x"), strict=True):
            if type(dimension) is str:
                sizes[dimension] = int(size)
        if None in node.shape:
            others.append(texts[node.name])
    return sizes, others


def _working_shapes(rep: OnnxRuntimeBackendRep) -> tuple[list[str], str]:
    """Return the first shapes that work. If none work, return the first shapes, and the error of their run."""
    nodes = rep.session.get_inputs()
    until = time.monotonic() + _SECONDS
    tries = []
    for size, only_last in itertools.product(_SIZES, (True, False)):
        shapes = inputs.free_shapes(nodes, size, only_last=only_last)
        if shapes not in tries:
            tries.append(shapes)

    error = ""
    for shapes in tries:
        try:
            values = inputs.values(nodes, [], shapes)
            left = until - time.monotonic()
            rep.run(values, timeout=max(left, 0.1))
            return shapes, ""
        except Exception as failed:  # ORT raises classes without a common base
            error = error or one_line(failed) or type(failed).__name__
            if isinstance(failed, MistakeError) or time.monotonic() > until:
                break
    return tries[0], error
