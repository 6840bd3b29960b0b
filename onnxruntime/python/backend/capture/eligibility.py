# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Decides which sessions may capture: by the operators, inputs and outputs of the graph that runs.

When a session is ready, ORT writes its graph after all optimizers (``InferenceSession::Initialize`` in
``onnxruntime/core/session/inference_session.cc``), and ``prepare`` checks this graph: ORT's record of assigned nodes
contains no node that is fused after partitioning. If the caller created the session, or if TensorRT captures, the model
itself is checked: ORT cannot write nodes that TensorRT compiled.

On WebGPU, every operator must be in the table of :mod:`.operators`. On other EPs, no operator may draw random numbers:
ORT's kernels take the seed on the host, which a replay repeats. No output may be an initializer that nodes read: ORT
copies the initializer while it captures, which CUDA does not permit.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import numpy_helper

import onnxruntime
from onnxruntime import InferenceSession, NodeArg, SessionOptions
from onnxruntime.backend.allowlist.value_kinds import is_on
from onnxruntime.backend.capture import operators
from onnxruntime.backend.capture.operators import Condition
from onnxruntime.backend.errors import Place, reject, show
from onnxruntime.backend.provider_names import CAPTURE_SWITCHES, OF_OPENVINO, TENSORRT, THROUGH_CUDA, WEBGPU
from onnxruntime.backend.runs import tensors
from onnxruntime.backend.session import capturing
from onnxruntime.backend.session.construction import Construction, config_entry

_DISABLED = "optimization.disable_specified_optimizers"
# A thousand nodes take 100 KiB without their weights.
_MOST_BYTES = 64 * 2**20


def open_session(construction: Construction) -> tuple[InferenceSession, bool]:
    """Create a session. Return it and whether its final graph was checked."""
    # ORT cannot save a graph of TensorRT, which compiles nodes.
    eps = [ep for ep in capturing.of_permit(construction.permit) if ep != TENSORRT]
    if not eps:
        return construction.create(), False
    ep = eps[0]
    with written(construction.options) as path:
        session = construction.create()
        reason = check(session, ep, path)
    if reason:
        reject(Place("provider_options", ep, CAPTURE_SWITCHES[ep]), reason)
    return session, True


@contextmanager
def written(options: SessionOptions) -> Iterator[Path]:
    """Make ORT write the final graph of the session that is created in this context. Afterwards, remove the graph."""
    try:
        made = tempfile.TemporaryDirectory(prefix="onnxruntime-captured-graph-", ignore_cleanup_errors=True)
    except OSError as error:
        raise RuntimeError(f"graph capture needs a temporary folder, for the graph that is checked: {error}") from None
    with made as folder:
        path, weights = Path(folder, "graph.onnx"), Path(folder, "weights")
        # Without this link, ORT writes all weights to the folder: 200 MB take 2 s. Other systems have no such file.
        if os.name == "posix":
            weights.symlink_to(os.devnull)
        options.add_session_config_entry("session.optimized_model_external_initializers_file_name", weights.name)
        # A flag such as Dropout's training_mode is smaller, and stays in the graph.
        options.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", "16")
        try:
            options.get_session_config_entry(_DISABLED)  # of a caller: the session must report it unchanged
        except RuntimeError:  # no such entry
            # ORT warns of every graph that it writes after this optimizer, which changes only convolutions on the CPU.
            options.add_session_config_entry(_DISABLED, "NchwcTransformer")
        options.optimized_model_filepath = str(path)
        try:
            yield path
        finally:
            options.optimized_model_filepath = ""  # the session's own copy still contains the path


def check(session: InferenceSession, ep: str, path: Path) -> str:
    """Return why a replay of the final graph at ``path`` may differ from a run without capture. Empty if it cannot."""
    try:
        size = path.stat().st_size
        if size > _MOST_BYTES:
            return f"the final graph has {size} bytes, too many to check"
        final = onnx.load_model(path, load_external_data=False)
    except (OSError, DecodeError) as error:
        return f"the final graph cannot be read ({type(error).__name__})"  # its text contains a path
    unknown = ""
    if ep == WEBGPU:
        unknown = _unknown_release() or _unknown(final)
    return unknown or _not_repeatable(final) or _read_on_cpu(session, final)


def on_cpu(values: Iterable[NodeArg], memories: Iterable) -> set[str]:
    """Return the names of the inputs or outputs that are on the CPU."""
    return {value.name for value, memory in zip(values, memories, strict=True) if memory.name == "Cpu"}


def _read_on_cpu(session: InferenceSession, final: onnx.ModelProto | None = None) -> str:
    """Return which input on the CPU a node of the final graph reads, or ``""``. Without a graph, it may be any."""
    names = on_cpu(session.get_inputs(), session.get_input_memory_infos())
    if final is not None:
        names &= _read(final)
    if not names:
        return ""
    where = "is read on the CPU (as a shape or a slice is), which a replay does not repeat"
    return f"input {show(min(names))} {where}. Make it a constant of the model"


def problem(session: InferenceSession, eps: list[str], checked: bool) -> str:
    """Return why a session cannot capture on these EPs, or ``""``. A caller's session was not checked."""
    if len(eps) > 1:
        return f"{' and '.join(eps)} both capture, and ORT replays the graph of one: leave it to one of them"
    providers = session.get_providers()
    devices = 0
    for of_device in (WEBGPU,), THROUGH_CUDA, OF_OPENVINO:
        devices += any(ep in of_device for ep in providers)
    if devices > 1:
        return f"graph capture needs a session on one device, not on {', '.join(providers)}"
    if is_on(config_entry(session.get_session_options(), "session.use_env_allocators")):
        return "graph capture needs device memory that no other session uses: leave out session.use_env_allocators"
    unsuitable = _unsuitable_value(session.get_inputs() + session.get_outputs())
    if unsuitable or checked:
        return unsuitable
    if WEBGPU in eps:
        return "graph capture on WebGPU leaves out some operators, and only models that prepare opens are checked"

    content = getattr(session, "_model_bytes", None)
    path = getattr(session, "_model_path", None)
    source = BytesIO(content) if content else path or ""
    not_repeatable = ""
    # The model before any optimizer, unless it cannot be read.
    with suppress(OSError, DecodeError):
        model = onnx.load_model(source, "protobuf", load_external_data=False)
        not_repeatable = _not_repeatable(model)
    return not_repeatable or _read_on_cpu(session)


def _unsuitable_value(values: list[NodeArg]) -> str:
    """Return which input or output of a session cannot be in a fixed buffer of a graph. Empty if all can."""
    names = Counter(value.name for value in values)
    for value in values:
        if names[value.name] > 1:
            return f"graph capture needs outputs that a node computes. {value.name!a} is an input, or is listed twice"
        if tensors.number_dtype(value.type) is None:
            return f"graph capture needs tensors of numbers that numpy has. {value.name!a} is {value.type}"
    return ""


def _unknown_release() -> str:
    """Return which release of the WebGPU EP the table does not describe, or ``""``."""
    ort = onnxruntime.__version__
    devices = onnxruntime.get_ep_devices()
    # Of a plugin EP, every registered library counts. A built-in EP has ORT's version.
    versions = [device.ep_metadata.get("version") for device in devices if device.ep_name == WEBGPU]
    for version in versions or [ort]:
        if (ort, version) not in operators.RELEASES:
            pairs = sorted(operators.RELEASES)
            known = ", ".join(f"{plugin} on ORT {release}" for release, plugin in pairs)
            return f"version {version} of the EP on ORT {ort} was never checked, only {known}"
    return ""


def _read(final: onnx.ModelProto) -> set[str]:
    return {name for node in final.graph.node for name in node.input}


def _not_repeatable(model: onnx.ModelProto) -> str:
    """Return why a replay of a model is wrong on every EP, or ``""``."""
    graph = model.graph
    random = list(_random(graph))
    for function in model.functions:
        body = onnx.GraphProto(node=function.node)
        random += _random(body)
    if random:
        return f"{_shown(random[0])} draws random numbers, which a replay repeats"

    read = _read(model)
    copied = read.intersection(tensor.name for tensor in graph.initializer)
    for value in graph.output:
        if value.name in copied:
            return f"output {show(value.name)} is a constant that nodes read, which ORT copies while it captures"
    return ""


def _random(graph: onnx.GraphProto, outer: frozenset[str] = frozenset({""})) -> Iterator[onnx.NodeProto]:
    """Yield the nodes that draw random numbers, in subgraphs too. The flags ``outer`` are off around these nodes.

    A dropout draws random numbers unless its flag is off, or absent.
    """
    off = outer.union(_flags_off(graph))
    for node in graph.node:
        domain = node.domain.replace("ai.onnx", "")
        operator = (domain, node.op_type)
        position = operators.DROPOUTS.get(operator, len(node.input))
        flag = node.input[position : position + 1]
        if operator in operators.RANDOM or not off.issuperset(flag):
            yield node
        for attribute in node.attribute:
            for subgraph in (attribute.g, *attribute.graphs):
                yield from _random(subgraph, off)


def _flags_off(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield the names of the constants that are false."""
    values = [(tensor.name, tensor) for tensor in graph.initializer]
    for node in graph.node:
        if node.op_type == "Constant":
            for attribute in node.attribute:
                values.append((node.output[0], attribute.t))
    for name, tensor in values:
        if tensor.data_type == onnx.TensorProto.BOOL and not tensor.data_location:
            if not numpy_helper.to_array(tensor).any():
                yield name


def _unknown(final: onnx.ModelProto) -> str:
    """Return the first part of a graph that the WebGPU EP is not known to replay. Empty if it replays all."""
    graph = final.graph
    if final.functions or graph.sparse_initializer:
        return "the final graph holds functions or sparse constants"
    return _unknown_type(graph, _read(final)) or _unknown_node(graph)


def _unknown_type(graph: onnx.GraphProto, read: set[str]) -> str:
    types = [(value.name, value.type.tensor_type.elem_type) for value in graph.input if value.name in read]
    types += [(tensor.name, tensor.data_type) for tensor in graph.initializer if tensor.name in read]
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name == "to":
                types.append((node.output[0], attribute.i))

    names = onnx.TensorProto.DataType
    for value, kind in types:
        if kind not in operators.TYPES:
            if kind in names.values():
                kind = names.Name(kind)  # noqa: PLW2901
            return f"{show(value)} is of a type ({kind}) whose replay was never checked"
    return ""


def _unknown_node(graph: onnx.GraphProto) -> str:
    axes = {tensor.name for tensor in graph.initializer if tensor.dims and 0 not in tensor.dims}
    outputs = {value.name for value in graph.output}
    for node in graph.node:
        condition = operators.OPERATORS.get((node.domain, node.op_type))
        if condition is None:
            return f"{_shown(node)} is not known to be replayed"
        if not _meets(condition, node, axes, outputs):
            return f"{_shown(node)} {condition.value}"
    return ""


def _meets(condition: Condition, node: onnx.NodeProto, axes: set[str], outputs: set[str]) -> bool:
    """Return whether a node meets the condition of its operator.

    :param axes: the constants that are not empty.
    :param outputs: the outputs of the model.
    """
    match condition:
        case Condition.TWO_INPUTS:
            return len(list(filter(None, node.input))) > 1
        case Condition.THREE_OUTPUTS:
            return not any(node.output[3:])
        case Condition.AXES:
            return _length(node, "axes") > 0 or not axes.isdisjoint(node.input[1:2])
        case Condition.TWO_DIMENSIONS:
            return _length(node, "perm") > 1
        case Condition.INSIDE:
            return outputs.isdisjoint(node.output)
        case _:
            return True


def _length(node: onnx.NodeProto, name: str) -> int:
    """Return the length of a list of integers, an attribute of a node."""
    for attribute in node.attribute:
        if attribute.name == name:
            return len(attribute.ints)
    return 0


def _shown(node: onnx.NodeProto) -> str:
    operator = node.op_type
    if node.domain:
        operator = f"{node.domain}::{operator}"
    makes = ", ".join(map(show, node.output[:4]))
    return f"node {show(node.name)} ({show(operator)[1:-1]}, which makes {makes})"
