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
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import helper, numpy_helper

import onnxruntime
from onnxruntime import InferenceSession, SessionOptions
from onnxruntime.backend.allowlist.rules import Setting
from onnxruntime.backend.allowlist.value_kinds import is_on
from onnxruntime.backend.capture import operators
from onnxruntime.backend.errors import reject, show
from onnxruntime.backend.provider_names import CAPTURE_SWITCHES, CUDA, WEBGPU
from onnxruntime.backend.runs import tensors
from onnxruntime.backend.session.parts import config_entry

# ORT warns of every graph that it writes after this optimizer, which changes only convolutions on the CPU.
DISABLED_OPTIMIZERS = ("NchwcTransformer",)
# A thousand nodes take 100 KiB without their weights.
_MOST_BYTES = 64 * 2**20


def open_session(
    create_session: Callable[..., InferenceSession],
    options: SessionOptions,
    granted: Mapping[str, Mapping[str, Setting]],
) -> tuple[InferenceSession, bool]:
    """Create a session with these options. Return the session and whether its final graph was checked."""
    # Skip TensorRT: ORT cannot save a graph that contains nodes compiled by an EP.
    switches = {ep: granted.get(ep, {}).get(CAPTURE_SWITCHES[ep]) for ep in (WEBGPU, CUDA)}
    ep = next((ep for ep, switch in switches.items() if switch is not None and switch.value), None)
    if ep is None:
        return create_session(), False
    entry = config_entry(options, "optimization.disable_specified_optimizers")  # the argument replaces the entry
    disabled = [*filter(None, entry.split(";")), *DISABLED_OPTIMIZERS]
    with written(options) as path:
        session = create_session(disabled_optimizers=disabled)
        if reason := check(session, ep, path):
            reject(f"{reason}. Prepare the model without graph capture", "provider_options", ep, CAPTURE_SWITCHES[ep])
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
        options.optimized_model_filepath = str(path)
        try:
            yield path
        finally:
            options.optimized_model_filepath = ""  # the session's own copy still contains the path


def check(session: InferenceSession, ep: str, path: Path) -> str:
    """Return why a replay of the final graph at ``path`` may differ from a run without capture; empty if it cannot."""
    try:
        size = path.stat().st_size
        if size > _MOST_BYTES:
            return f"the final graph has {size} bytes, too many to check"
        final = onnx.load_model(path, load_external_data=False)
    except (OSError, DecodeError) as error:
        return f"the final graph cannot be read: {show(str(error))}"
    unknown = _unknown_release() or _unknown(final) if ep == WEBGPU else ""
    return unknown or _not_repeatable(final) or _read_on_cpu(session, final)


def _read_on_cpu(session: InferenceSession, final: onnx.ModelProto | None = None) -> str:
    """Return which input on the CPU a node of the final graph reads; empty if none. Without a graph, it may be any."""
    memories = zip(session.get_inputs(), session.get_input_memory_infos(), strict=True)
    on_cpu = {value.name for value, memory in memories if memory.name == "Cpu"}
    names = sorted(on_cpu if final is None else on_cpu & _read(final))
    where = "is read on the CPU (as a shape or a slice is), which a replay does not repeat"
    return f"input {show(names[0])} {where}. Make it a constant of the model" if names else ""


def problem(session: InferenceSession, eps: list[str], checked: bool) -> str:
    """Return why a session cannot capture on these EPs; empty if it can. A caller's session was not checked."""
    if len(eps) > 1:
        return f"{' and '.join(eps)} both capture, and ORT replays the graph of one: leave it to one of them"
    if is_on(config_entry(session.get_session_options(), "session.use_env_allocators")):
        return "graph capture needs device memory that no other session uses: leave out session.use_env_allocators"
    values = [*session.get_inputs(), *session.get_outputs()]
    names = Counter(value.name for value in values)
    for value in values:
        if names[value.name] > 1:
            return f"graph capture needs outputs that a node computes; {value.name!a} is an input, or is listed twice"
        if tensors.number_dtype(value.type) is None:
            return f"graph capture needs tensors of numbers that numpy has; {value.name!a} is {value.type}"
    if checked:
        return ""
    if WEBGPU in eps:
        return "graph capture on WebGPU leaves out some operators, and only models that prepare opens are checked"
    # The model before any optimizer, unless it cannot be read.
    content, path = getattr(session, "_model_bytes", None), getattr(session, "_model_path", None) or ""
    with suppress(OSError, DecodeError):
        opened = onnx.load_model(BytesIO(content) if content else path, "protobuf", load_external_data=False)
        if found := _not_repeatable(opened):
            return found
    return _read_on_cpu(session)


def _unknown_release() -> str:
    """Return which release of the WebGPU EP the table does not describe; empty if there is none."""
    ort = onnxruntime.__version__
    # A built-in EP has ORT's version. Of a plugin EP, every registered library counts.
    devices = [device.ep_metadata for device in onnxruntime.get_ep_devices() if device.ep_name == WEBGPU]
    versions = {metadata.get("version") if "library_path" in metadata else ort for metadata in devices} or {ort}
    unknown = [version for version in versions if (ort, version) not in operators.RELEASES]
    known = ", ".join(f"{plugin} on ORT {release}" for release, plugin in sorted(operators.RELEASES))
    return f"version {unknown[0]} of the EP on ORT {ort} was never checked, only {known}" if unknown else ""


def _read(final: onnx.ModelProto) -> set[str]:
    return {name for node in final.graph.node for name in node.input}


def _not_repeatable(model: onnx.ModelProto) -> str:
    """Return why a replay of a model is wrong on every EP; empty if it can be right."""
    graph = model.graph
    for nodes, initializers in ((graph.node, graph.initializer), *((f.node, ()) for f in model.functions)):
        for node in _random(nodes, initializers):
            return f"{_shown(node)} draws random numbers, which a replay repeats"
    copied = {tensor.name for tensor in graph.initializer} & _read(model)
    for value in graph.output:
        if value.name in copied:
            return f"output {show(value.name)} is a constant that nodes read, which ORT copies while it captures"
    return ""


def _random(nodes: Iterable, initializers: Iterable, outer: frozenset[str] = frozenset()) -> Iterator[onnx.NodeProto]:
    """Yield the nodes that draw random numbers, in subgraphs too. The flags ``outer`` are off around these nodes."""
    values = [(tensor.name, tensor) for tensor in initializers]
    for node in nodes:
        if node.op_type == "Constant":
            values += [(node.output[0], attribute.t) for attribute in node.attribute if attribute.name == "value"]
    flags = [(name, tensor) for name, tensor in values if tensor.data_type == onnx.TensorProto.BOOL]
    off = outer | {name for name, tensor in flags if not (tensor.data_location or numpy_helper.to_array(tensor).any())}
    for node in nodes:
        operator = (node.domain.replace("ai.onnx", ""), node.op_type)
        flag = (*node.input, "", "", "", "", "")[operators.DROPOUTS.get(operator, -1)]
        if operator in operators.RANDOM or (flag and flag not in off):
            yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _random(graph.node, graph.initializer, off)


def _unknown(final: onnx.ModelProto) -> str:
    """Return the first part of a graph that the WebGPU EP is not known to replay; empty if there is none."""
    graph, read, kinds = final.graph, _read(final), onnx.TensorProto.DataType
    if final.functions or graph.sparse_initializer:
        return "the final graph holds functions or sparse constants"
    attributes = [{one.name: helper.get_attribute_value(one) for one in node.attribute} for node in graph.node]
    types = [(value.name, value.type.tensor_type.elem_type) for value in graph.input if value.name in read]
    types += [(tensor.name, tensor.data_type) for tensor in graph.initializer if tensor.name in read]
    types += [(node.output[0], one["to"]) for node, one in zip(graph.node, attributes, strict=True) if "to" in one]
    for name, kind in types:
        if kind not in operators.TYPES:
            shown = kinds.Name(kind) if kind in kinds.values() else kind
            return f"{show(name)} is of a type ({shown}) whose replay was never checked"
    axes = {tensor.name for tensor in graph.initializer if tensor.dims and 0 not in tensor.dims}
    outputs = {value.name for value in graph.output}
    for node, given in zip(graph.node, attributes, strict=True):
        meets = {
            operators.ALWAYS: True,
            operators.TWO_INPUTS: len([*filter(None, node.input)]) > 1,
            operators.THREE_OUTPUTS: not any(node.output[3:]),
            operators.AXES: given.get("axes") or not axes.isdisjoint(node.input[1:2]),
            operators.TWO_DIMENSIONS: len(given.get("perm", ())) > 1,
            operators.INSIDE: outputs.isdisjoint(node.output),
        }
        condition = operators.OPERATORS.get((node.domain, node.op_type), "is not known to be replayed")
        if not meets.get(condition):
            return f"{_shown(node)} {condition}"
    return ""


def _shown(node: onnx.NodeProto) -> str:
    operator = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
    makes = ", ".join(show(name) for name in node.output[:4])
    return f"node {show(node.name)} ({show(operator)[1:-1]}, which makes {makes})"
