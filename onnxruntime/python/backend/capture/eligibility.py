# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Decides which sessions may capture: by the operators, inputs and outputs of the graph that runs.

When a session is ready, ORT writes its graph after all optimizers (``InferenceSession::Initialize`` in
``onnxruntime/core/session/inference_session.cc``), and ``prepare`` checks this graph. ORT's record of assigned nodes is
not enough: it contains no node that is fused after partitioning. If the caller created the session, or if TensorRT
captures, the model itself is checked: ORT cannot write nodes that TensorRT compiled.

On WebGPU, every operator must be in the table of :mod:`.operators`. On other EPs, no operator may draw random numbers:
ORT's kernels take the seed on the host, which a replay repeats. No output may be an initializer that nodes read: ORT
copies the initializer while it captures, which CUDA does not permit.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import onnx
from google.protobuf.message import DecodeError
from onnx import numpy_helper

import onnxruntime
from onnxruntime import InferenceSession, SessionOptions
from onnxruntime.backend.allowlist.rules import Setting
from onnxruntime.backend.capture.operators import DROPOUTS, OPERATORS, RANDOM, RELEASES, TYPES, Dispatches
from onnxruntime.backend.errors import reject, show
from onnxruntime.backend.provider_names import CAPTURE_SWITCHES, CUDA, TENSORRT, WEBGPU
from onnxruntime.backend.runs import fast_path, tensors

# ORT warns of every graph that it writes after this optimizer, which changes only convolutions on the CPU.
DISABLED_OPTIMIZERS = ("NchwcTransformer",)
# A thousand nodes take 100 KiB without their weights.
_MOST_BYTES = 64 * 2**20
# Larger initializers are written apart. A flag such as Dropout's training_mode stays in the graph.
_SMALL = "16"
_GRAPH, _WEIGHTS = "graph.onnx", "weights"


def open_session(
    model: str | bytes, options: SessionOptions, granted: Mapping[str, Mapping[str, Setting]], **arguments: object
) -> InferenceSession:
    """Create a session. If it captures, check its final graph."""
    # Skip TensorRT: ORT cannot save a graph that contains nodes compiled by an EP.
    switches = ((ep, granted.get(ep, {}).get(CAPTURE_SWITCHES[ep])) for ep in (WEBGPU, CUDA))
    ep = next((ep for ep, grant in switches if grant is not None and grant.value), None)
    if ep is None:
        return InferenceSession(model, options, **arguments)
    entry = _entry(options, "optimization.disable_specified_optimizers")  # the argument replaces the entry
    disabled = [*(entry.split(";") if entry else ()), *DISABLED_OPTIMIZERS]
    with written(options) as path:
        session = InferenceSession(model, options, disabled_optimizers=disabled, **arguments)
        check(session, ep, path)
    return session


@contextmanager
def written(options: SessionOptions) -> Iterator[Path]:
    """Make ORT write the final graph of the session that is created in this context.

    The folder is the user's alone and is removed afterwards. On POSIX systems, weights are written to the null device.
    On other systems, they are written to the same folder.

    Afterwards, the options write no graph. The session's own copy, ``get_session_options()``, still contains the path.
    """
    try:
        made = tempfile.TemporaryDirectory(prefix="onnxruntime-captured-graph-", ignore_cleanup_errors=True)
    except OSError as error:
        raise RuntimeError(f"graph capture needs a temporary folder, for the graph that is checked: {error}") from error
    with made as name:
        folder = Path(name)
        if os.name == "posix":
            (folder / _WEIGHTS).symlink_to(os.devnull)
        options.add_session_config_entry("session.optimized_model_external_initializers_file_name", _WEIGHTS)
        options.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", _SMALL)
        options.optimized_model_filepath = str(folder / _GRAPH)
        try:
            yield folder / _GRAPH
        finally:
            options.optimized_model_filepath = ""


def check(session: InferenceSession, ep: str, path: Path) -> None:
    """Check that a replay of the final graph at ``path`` is known to compute the same as a run without capture."""
    if ep == WEBGPU:
        _check_release()
    try:
        size = path.stat().st_size
        if size > _MOST_BYTES:
            _refuse(ep, f"the final graph has {size} bytes, too many to check")
        final = onnx.load_model(path, load_external_data=False)
    except (OSError, DecodeError) as error:
        _refuse(ep, f"the final graph cannot be read: {show(str(error))}")
    problem = (_unknown(final) if ep == WEBGPU else "") or _not_repeatable(final)
    if not problem:
        session._unread_inputs = (fast_path.inner_of(session), frozenset(_on_cpu(session) - _read(final)))
        problem = _read_on_cpu(session)
    if problem:
        _refuse(ep, problem)


def unread(session: InferenceSession) -> frozenset[str] | None:
    """Return the inputs on the CPU that no node of a checked session reads; ``None`` for a session without a check."""
    inner, names = getattr(session, "_unread_inputs", (None, None))
    return names if inner is fast_path.inner_of(session) else None


def _on_cpu(session: InferenceSession) -> set[str]:
    memories = zip(session.get_inputs(), session.get_input_memory_infos(), strict=True)
    return {value.name for value, memory in memories if memory.name == "Cpu"}


def _read_on_cpu(session: InferenceSession) -> str:
    """Return which input a node on the CPU reads, or may read in a session without a check; empty if none."""
    names = sorted(_on_cpu(session) - (unread(session) or set()))
    where = "is read on the CPU (as a shape or a slice is), which a replay does not repeat"
    return f"input {show(names[0])} {where}. Make it a constant of the model" if names else ""


def switched_on(session: InferenceSession) -> list[str]:
    """Return the EPs of a session that capture."""
    providers, options = session.get_providers(), session.get_provider_options()
    found = [ep for ep in (CUDA, TENSORRT) if ep in providers and _on(options[ep].get(CAPTURE_SWITCHES[ep]))]
    if WEBGPU in providers:
        # As ORT's own Python layer does: a provider option does not show whether it took effect.
        captures = getattr(session._sess, "is_webgpu_graph_capture_enabled", None)
        key = f"ep.{WEBGPU.lower()}.enableGraphCapture"
        if captures() if captures else _on(_entry(session.get_session_options(), key)):
            found.append(WEBGPU)
    return found


def _on(text: str | None) -> bool:
    return text in ("1", "true", "True")


def _entry(options: SessionOptions, key: str) -> str | None:
    try:
        return options.get_session_config_entry(key)
    except RuntimeError:  # no such entry
        return None


def problem(session: InferenceSession, eps: list[str]) -> str:
    """Return why a session, which a caller may have created, cannot capture on these EPs; empty if it can."""
    ep = eps[0]
    if len(eps) > 1:
        return f"{' and '.join(eps)} both capture, and ORT replays the graph of one: leave it to one of them"
    if ep == WEBGPU and not hasattr(session._sess, "is_webgpu_graph_capture_enabled"):
        return (
            f"graph capture on WebGPU needs ORT 1.30 or newer: ORT {onnxruntime.__version__} cannot allocate device "
            "memory for inputs and outputs, and returns zeros from captured runs without it"
        )
    if _on(_entry(session.get_session_options(), "session.use_env_allocators")):
        return "graph capture needs device memory that no other session uses: leave out session.use_env_allocators"
    inputs, outputs = session.get_inputs(), session.get_outputs()
    both = {value.name for value in inputs} & {value.name for value in outputs}
    if both:
        return f"graph capture needs outputs that a node computes; {min(both)!a} is an input, which no replay copies"
    names = [value.name for value in outputs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        return f"graph capture needs outputs of different names; {twice!a} is listed twice"
    for what, values in (("input", inputs), ("output", outputs)):
        for value in values:
            if tensors.number_dtype(value.type) is None:
                return f"graph capture needs tensors of numbers that numpy has; {what} {value.name!a} is {value.type}"
    if unread(session) is None:
        if ep == WEBGPU:
            return "graph capture on WebGPU leaves out some operators, and only models that prepare opens are checked"
        opened = _as_opened(session)
        if opened is not None and (found := _not_repeatable(opened)):
            return found
    return _read_on_cpu(session)


def _as_opened(session: InferenceSession) -> onnx.ModelProto | None:
    """Return the model of a session before any optimizer, or ``None`` if the model cannot be read."""
    content, path = getattr(session, "_model_bytes", None), getattr(session, "_model_path", None)
    try:
        if content is not None:
            return onnx.load_model_from_string(content)
        return onnx.load_model(path, load_external_data=False) if path else None
    except (OSError, DecodeError):
        return None


def _refuse(ep: str, reason: str) -> NoReturn:
    reject(f"{reason}. Prepare the model without graph capture", "provider_options", ep, CAPTURE_SWITCHES[ep])


def _check_release() -> None:
    ort = onnxruntime.__version__
    # A built-in EP has ORT's version. Of a plugin EP, every registered library counts.
    devices = [device.ep_metadata for device in onnxruntime.get_ep_devices() if device.ep_name == WEBGPU]
    for version in {metadata.get("version") if "library_path" in metadata else ort for metadata in devices} or {ort}:
        if (ort, version) not in RELEASES:
            known = ", ".join(f"{plugin} on ORT {release}" for release, plugin in sorted(RELEASES))
            _refuse(WEBGPU, f"version {version} of the EP on ORT {ort} was never checked, only {known}")


def _read(final: onnx.ModelProto) -> set[str]:
    return {name for node in final.graph.node for name in node.input}


def _not_repeatable(model: onnx.ModelProto) -> str:
    """Return why a replay of a model is wrong on every EP; empty if it can be right."""
    graph = model.graph
    for nodes, initializers in ((graph.node, graph.initializer), *((f.node, ()) for f in model.functions)):
        node = next(_random(nodes, initializers), None)
        if node is not None:
            return f"{_shown(node)} draws random numbers, which a replay repeats"
    copied = {tensor.name for tensor in graph.initializer} & _read(model)
    output = next((value.name for value in graph.output if value.name in copied), None)
    if output is None:
        return ""
    return f"output {show(output)} is a constant that nodes read, which ORT copies while it captures"


def _random(nodes: Iterable, initializers: Iterable, outer: frozenset[str] = frozenset()) -> Iterator[onnx.NodeProto]:
    """Yield the nodes that draw random numbers, in subgraphs too. The flags ``outer`` are off around these nodes."""
    values = [(tensor.name, tensor) for tensor in initializers]
    values += [
        (node.output[0], attribute.t)
        for node in nodes
        for attribute in node.attribute
        if node.op_type == "Constant" and attribute.name == "value"
    ]
    off = outer | {name for name, tensor in values if _is_off(tensor)}
    for node in nodes:
        operator = (node.domain.replace("ai.onnx", ""), node.op_type)
        flag = (*node.input, "", "", "", "", "")[DROPOUTS.get(operator, -1)]
        if operator in RANDOM or (flag and flag not in off):
            yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _random(graph.node, graph.initializer, off)


def _is_off(tensor: onnx.TensorProto) -> bool:
    inline = tensor.data_type == onnx.TensorProto.BOOL and tensor.data_location == onnx.TensorProto.DEFAULT
    return inline and not numpy_helper.to_array(tensor).any()


def _unknown(final: onnx.ModelProto) -> str:
    """Return the first part of a graph that the WebGPU EP is not known to replay; empty if there is none."""
    graph, read = final.graph, _read(final)
    if final.functions or graph.sparse_initializer:
        return "the final graph holds functions or sparse constants"
    types = {value.name: value.type.tensor_type.elem_type for value in graph.input}
    types |= {tensor.name: tensor.data_type for tensor in graph.initializer}
    for name, kind in types.items():
        if name in read and kind not in TYPES:
            return f"{show(name)} is of a type ({_type(kind)}) whose replay was never checked"
    constants = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    outputs = {value.name for value in graph.output}
    for node in graph.node:
        rule = OPERATORS.get((node.domain, node.op_type))
        fault = "is not known to be replayed" if rule is None else _fault(node, rule, constants, outputs)
        if fault:
            return f"{_shown(node)} {fault}"
    return ""


def _shown(node: onnx.NodeProto) -> str:
    operator = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
    makes = ", ".join(show(name) for name in node.output[:4])
    return f"node {show(node.name)} ({show(operator)[1:-1]}, which makes {makes})"


def _fault(node: onnx.NodeProto, rule: Dispatches, constants: Mapping[str, tuple[int, ...]], outputs: set[str]) -> str:
    """Return which condition of its operator's rule a node does not meet; empty if it meets all."""
    attributes = {attribute.name: attribute for attribute in node.attribute}
    if sum(map(bool, node.input)) < rule.inputs:
        return f"copies its input, as it does with fewer than {rule.inputs}"
    if rule.outputs is not None and any(node.output[rule.outputs :]):
        return f"has more than {rule.outputs} outputs, of which some are copies"
    if rule.inside and not outputs.isdisjoint(node.output):
        return "makes an output of the model, which is a copy"
    if rule.perm and ("perm" not in attributes or len(attributes["perm"].ints) < 2):
        return "may be of one dimension, which is a copy"
    if rule.axes:
        axes = constants.get(node.input[1], ()) if len(node.input) > 1 else ()
        if not (attributes["axes"].ints if "axes" in attributes else axes and 0 not in axes):
            return "specifies no axes, which may be a copy"
    if "to" in attributes and attributes["to"].i not in TYPES:
        return f"makes a type ({_type(attributes['to'].i)}) whose replay was never checked"
    return ""


def _type(kind: int) -> str:
    return onnx.TensorProto.DataType.Name(kind) if kind in onnx.TensorProto.DataType.values() else str(kind)
