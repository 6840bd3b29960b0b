# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Which sessions capture, and which may: on the WebGPU EP those of whose model every node is known to be replayed.

There, what decides is the graph that runs, after all optimizers, as ORT writes it once the session is ready
(``InferenceSession::Initialize`` in ``onnxruntime/core/session/inference_session.cc``). ORT's record of assigned nodes
would not do: it ends where the EPs have taken theirs, and what is fused afterwards is not in it. Which operators are
replayed stands in ``allowlist_captured_operators.py``.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import numpy as np
import onnx
from google.protobuf.message import DecodeError

import onnxruntime
from onnxruntime import InferenceSession, SessionOptions
from onnxruntime.backend.allowlist.permits import Setting
from onnxruntime.backend.capture.operators import OPERATORS, RELEASES, TYPES, Dispatches
from onnxruntime.backend.errors import reject, show
from onnxruntime.backend.provider_names import CAPTURE_SWITCHES, CUDA, TENSORRT, WEBGPU
from onnxruntime.backend.runs import tensors

# ORT warns of every graph that it writes after this optimizer, which changes nothing but convolutions on the CPU.
DISABLED_OPTIMIZERS = ("NchwcTransformer",)
# Nodes alone, without weights: a thousand take 100 KiB.
_MOST_BYTES = 64 * 2**20
_GRAPH, _WEIGHTS = "graph.onnx", "weights"


def open_session(
    model: str | bytes, options: SessionOptions, granted: Mapping[str, Mapping[str, Setting]], **arguments: object
) -> InferenceSession:
    """Open a session, and one that captures only where :func:`check` finds nothing against it.

    :param model: path or serialized model.
    :param options: session options that have their EPs.
    :param granted: EP name to its granted options.
    :param arguments: for :class:`onnxruntime.InferenceSession`.
    :raises NotPermittedError: for a model that cannot be captured.
    """
    # Not of TensorRT's: ORT writes no graph of which an EP has compiled a part.
    switches = ((ep, granted.get(ep, {}).get(CAPTURE_SWITCHES[ep])) for ep in (WEBGPU, CUDA))
    ep = next((ep for ep, grant in switches if grant is not None and grant.value), None)
    if ep is None:
        return InferenceSession(model, options, **arguments)
    # The argument takes the place of the entry.
    try:
        disabled = options.get_session_config_entry("optimization.disable_specified_optimizers").split(";")
    except RuntimeError:  # no such entry
        disabled = []
    with written(options) as path:
        session = InferenceSession(model, options, disabled_optimizers=[*disabled, *DISABLED_OPTIMIZERS], **arguments)
        check(session, ep, path)
    return session


@contextmanager
def written(options: SessionOptions) -> Iterator[Path]:
    """Have ORT write the final graph of the session that is opened meanwhile.

    It lies in a folder that nobody else may enter and that is gone afterwards. Weights are thrown away as ORT writes
    them, where the system can; elsewhere they lie in the same folder.

    :param options: the options that the session is opened with; what is added here writes nothing later. (The session's
        own copy, ``get_session_options()``, goes on naming the file.)
    :return: where :func:`check` reads it.
    :raises RuntimeError: when there can be no such folder.
    """
    try:
        made = tempfile.TemporaryDirectory(prefix="onnxruntime-captured-graph-", ignore_cleanup_errors=True)
    except OSError as error:
        raise RuntimeError(
            f"graph capture needs a temporary folder, for the graph that is looked at: {error}"
        ) from error
    with made as name:
        folder = Path(name)
        if os.name == "posix":
            (folder / _WEIGHTS).symlink_to(os.devnull)
        options.add_session_config_entry("session.optimized_model_external_initializers_file_name", _WEIGHTS)
        options.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", "0")
        options.optimized_model_filepath = str(folder / _GRAPH)
        try:
            yield folder / _GRAPH
        finally:
            options.optimized_model_filepath = ""


def check(session: InferenceSession, ep: str, path: Path) -> None:
    """Check that a replay of a session's graph computes all that an ordinary run does.

    :param session: a session that captures.
    :param ep: the EP that captures.
    :param path: the final graph, from :func:`written`.
    :raises NotPermittedError: naming the release, node, value or input that is not known to be replayed.
    """
    if ep == WEBGPU:
        _check_release()
    try:
        size = path.stat().st_size
        final = onnx.load_model(path, load_external_data=False) if size <= _MOST_BYTES else None
    except (OSError, DecodeError) as error:
        _refuse(ep, f"the final graph cannot be read: {show(str(error))}")
    if final is None:
        _refuse(ep, f"the final graph has {size} bytes, too many to look at")
    problem = _problem(final) if ep == WEBGPU else ""
    if problem:
        _refuse(ep, problem)
    session._unread_inputs = frozenset(_on_cpu(session) - _read(final))
    read = _read_on_cpu(session)
    if read:
        _refuse(ep, read)


def unread(session: InferenceSession) -> frozenset[str] | None:
    """The inputs on the CPU that no node of a checked session reads; ``None`` for one that :func:`check` never saw."""
    return getattr(session, "_unread_inputs", None)


def _on_cpu(session: InferenceSession) -> set[str]:
    memories = zip(session.get_inputs(), session.get_input_memory_infos(), strict=True)
    return {value.name for value, memory in memories if memory.name == "Cpu"}


def _read_on_cpu(session: InferenceSession) -> str:
    """Say which input a node on the CPU reads, or may read in a session that was never checked."""
    names = sorted(_on_cpu(session) - (unread(session) or set()))
    where = "is read on the CPU (as a shape or a slice is), where a replay does not look again"
    return f"input {show(names[0])} {where}. Make it a constant of the model" if names else ""


def switched_on(session: InferenceSession) -> list[str]:
    """The EPs of a session that were told to capture."""
    providers, options = session.get_providers(), session.get_provider_options()
    found = [ep for ep in (CUDA, TENSORRT) if ep in providers and _on(options[ep].get(CAPTURE_SWITCHES[ep]))]
    if WEBGPU in providers:
        # ORT's own Python layer asks the inner session too; a provider option would not show what took effect.
        captures = getattr(session._sess, "is_webgpu_graph_capture_enabled", None)
        if captures() if captures else _on(_entry(session, f"ep.{WEBGPU.lower()}.enableGraphCapture")):
            found.append(WEBGPU)
    return found


def _on(text: str | None) -> bool:
    return text in ("1", "true", "True")


def _entry(session: InferenceSession, key: str) -> str | None:
    try:
        return session.get_session_options().get_session_config_entry(key)
    except RuntimeError:  # no such entry
        return None


def problem(session: InferenceSession, eps: list[str]) -> str:
    """Say why runs of a session that captures cannot be made right here; nothing when they can.

    :param session: the session, which its caller may have opened.
    :param eps: what :func:`switched_on` found.
    """
    ep = eps[0]
    if len(eps) > 1:
        return f"{' and '.join(eps)} both capture, and ORT replays the graph of one: leave it to one of them"
    if ep == WEBGPU and not hasattr(session._sess, "is_webgpu_graph_capture_enabled"):
        return (
            f"graph capture on WebGPU needs ORT 1.30 or newer: ORT {onnxruntime.__version__} cannot allocate device "
            "memory for inputs and outputs, and returns zeros from captured runs without it"
        )
    if _on(_entry(session, "session.use_env_allocators")):
        return "graph capture needs device memory that no other session uses: leave out session.use_env_allocators"
    inputs, outputs = session.get_inputs(), session.get_outputs()
    both = {value.name for value in inputs} & {value.name for value in outputs}
    if both:
        return f"graph capture needs outputs that a node computes; {min(both)!a} is an input, which no replay hands on"
    for what, values in (("input", inputs), ("output", outputs)):
        for value in values:
            if dtype(value.type) is None:
                return f"graph capture needs tensors of numbers that numpy has; {what} {value.name!a} is {value.type}"
    if ep == WEBGPU and unread(session) is None:
        return "graph capture on WebGPU leaves out some operators, and only models that prepare opens are looked at"
    return _read_on_cpu(session)


def dtype(value_type: str) -> np.dtype | None:
    """The dtype of tensors that ORT copies between numpy and a device; ``None`` for all other types."""
    element = tensors.element_type(value_type)
    found = None if element is None else tensors.dtype_of(element)
    return found if found is not None and found.kind in "biuf" and tensors.numpy_has(found) else None


def _refuse(ep: str, reason: str) -> NoReturn:
    reject(f"{reason}. Prepare the model without graph capture", "provider_options", ep, CAPTURE_SWITCHES[ep])


def _check_release() -> None:
    ort = onnxruntime.__version__
    # A bundled EP has ORT's version; of a plugin's, all that are registered count.
    devices = [device.ep_metadata for device in onnxruntime.get_ep_devices() if device.ep_name == WEBGPU]
    for version in {metadata.get("version") if "library_path" in metadata else ort for metadata in devices} or {ort}:
        if (ort, version) not in RELEASES:
            known = ", ".join(f"{plugin} on ORT {release}" for release, plugin in sorted(RELEASES))
            _refuse(WEBGPU, f"version {version} of the EP on ORT {ort} was never looked at, only {known}")


def _read(final: onnx.ModelProto) -> set[str]:
    return {name for node in final.graph.node for name in node.input}


def _problem(final: onnx.ModelProto) -> str:
    """Say what of a graph is not known to be replayed on the WebGPU EP; nothing when all is."""
    graph, read = final.graph, _read(final)
    if final.functions or graph.sparse_initializer:
        return "the final graph holds functions or sparse constants"
    types = {value.name: value.type.tensor_type.elem_type for value in graph.input}
    types |= {tensor.name: tensor.data_type for tensor in graph.initializer}
    for name, kind in types.items():
        if name in read and kind not in TYPES:
            return f"{show(name)} is of a type ({_type(kind)}) of which no replay was seen"
    constants = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    outputs = {value.name for value in graph.output}
    for node in graph.node:
        rule = OPERATORS.get((node.domain, node.op_type))
        fault = "is not known to be replayed" if rule is None else _fault(node, rule, constants, outputs)
        if fault:
            operator = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
            makes = ", ".join(show(name) for name in node.output[:4])
            return f"node {show(node.name)} ({show(operator)[1:-1]}, which makes {makes}) {fault}"
    return ""


def _fault(node: onnx.NodeProto, rule: Dispatches, constants: Mapping[str, tuple[int, ...]], outputs: set[str]) -> str:
    """Say what a node lacks of what its operator's rule asks for."""
    attributes = {attribute.name: attribute for attribute in node.attribute}
    if sum(map(bool, node.input)) < rule.inputs:
        return f"copies its input, as it does with fewer than {rule.inputs}"
    if rule.outputs is not None and any(node.output[rule.outputs :]):
        return f"has more than {rule.outputs} outputs, of which some are copies"
    if rule.inside and not outputs.isdisjoint(node.output):
        return "makes an output of the model, which is a copy; inside of the model it is none"
    if rule.perm and ("perm" not in attributes or len(attributes["perm"].ints) < 2):
        return "may be of one dimension, which is a copy"
    if rule.axes:
        axes = constants.get(node.input[1], ()) if len(node.input) > 1 else ()
        if not (attributes["axes"].ints if "axes" in attributes else axes and 0 not in axes):
            return "names no axes, which may be a copy"
    if "to" in attributes and attributes["to"].i not in TYPES:
        return f"makes a type ({_type(attributes['to'].i)}) of which no replay was seen"
    return ""


def _type(kind: int) -> str:
    return onnx.TensorProto.DataType.Name(kind) if kind in onnx.TensorProto.DataType.values() else str(kind)
