# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Describes the problems of a model that ORT could not load: of its file, its opsets and its operators."""

import codecs
import os
import re
from collections.abc import Iterator

from onnx import GraphProto, ModelProto, TensorProto, helper

import onnxruntime
from onnxruntime.backend.errors import show

ANYWAY = "To run it anyway, set the environment variable ALLOW_RELEASED_ONNX_OPSET_ONLY=0"
_AGAIN = "Download or copy the file again"
_EXPORT = "Export the model to ONNX"
_EXTRACT = "Extract the ONNX model from it"
_PAGE = "Download the file itself. A server can send a page or an error in its place"
_POINTER = b"version https://git-lfs"
_OF_POINTER = "a Git LFS pointer. Run `git lfs pull` in its repository"
# The first bytes of other files, from an offset on, and the end of the sentence "The model is ...".
_FORMATS = (
    (0, _POINTER, _OF_POINTER),
    (0, b"<!doctype html", f"an HTML page. {_PAGE}"),
    (0, b"<html", f"an HTML page. {_PAGE}"),
    (0, b"<?xml", "XML, such as a model of OpenVINO. Pass the ONNX model"),
    (0, b"{", f"JSON. {_PAGE}"),
    (0, b"ftrt", "a TensorRT engine. Pass the ONNX model from which it was built"),
    (4, b"tfl3", f"a TensorFlow Lite model. {_EXPORT}"),
    (0, b"\x89hdf", f"an HDF5 file, such as a Keras model. {_EXPORT}"),
    (8, b'{"', f"a safetensors file. {_EXPORT}"),
    (0, b"gguf", f"a GGUF file. {_EXPORT}"),
    (0, b"\x80", f"a Python pickle, such as a PyTorch model. {_EXPORT}"),
    (0, b"pk\x03\x04", f"a zip archive, such as a PyTorch or Keras model. {_EXPORT}, or extract the archive"),
    (0, b"\x1f\x8b", f"a gzip archive. {_EXTRACT}"),
    (0, b"\xfd7zxz", f"an xz archive. {_EXTRACT}"),
    (257, b"ustar", f"a tar archive. {_EXTRACT}"),
)
_HEAD = 512  # bytes
_IR_VERSION = 8  # the first byte of a model: the tag of its first field
_LARGEST = 2**31 - 1  # of a protobuf
_LARGEST_TO_PARSE = 2**28  # a model with external data is smaller


def problem(model: str | bytes, unreadable: bool) -> str:
    """Return the problem of a model that ORT could not load, and the next step. Return ``""`` if nothing is known.

    :param unreadable: whether ORT could not parse the model as a protobuf.
    """
    if isinstance(model, bytes):
        return _of_content(model, len(model), "", unreadable)
    if os.path.isdir(model):
        return "The model is a folder. Pass the path of an ONNX file"
    if not os.path.isfile(model):  # opening a pipe can wait indefinitely
        return ""
    try:
        with open(model, "rb") as stream:
            content = stream.read(_HEAD if unreadable else _LARGEST_TO_PARSE)
        return _of_content(content, os.path.getsize(model), model, unreadable)
    except OSError as error:
        return f"The model cannot be read: {error.strerror}"


def _of_content(content: bytes, size: int, path: str, unreadable: bool) -> str:
    head = content[:_HEAD]
    if not head.strip(b"\0"):  # an interrupted download can leave zeros
        return f"The model is empty. {_AGAIN}"
    description = _format(head)
    if description:
        return f"The model is {description}"
    of_ort = head.startswith(b"ORTM", 4)
    if path and of_ort != path.endswith(".ort"):
        return "ORT expects its own format in a file that ends with .ort, and ONNX in other files. Rename the file"
    if of_ort:
        return ""
    if size > _LARGEST:
        return f"The model has {size:,} bytes, and a protobuf at most {_LARGEST:,}. Save it with external data"
    if unreadable and head[0] == _IR_VERSION:
        return f"The model is truncated or damaged: it has {size:,} bytes. {_AGAIN}"
    if unreadable:
        return "The model is not in ONNX's binary format. Pass the path or the bytes of an ONNX model"
    if size > _LARGEST_TO_PARSE:
        return ""
    parsed = ModelProto.FromString(content)
    if not parsed.HasField("graph"):
        return f"The model contains no graph. It may be of another kind, such as a Core ML model. {_EXPORT}"
    return missing_data(parsed, path)


def _format(head: bytes) -> str:
    """Return a description of a format that is neither ONNX's nor ORT's, and the next step."""
    text = head.removeprefix(codecs.BOM_UTF8).lstrip()
    for offset, beginning, description in _FORMATS:
        if head[offset:].lower().startswith(beginning) or text.lower().startswith(beginning):
            return description
    return ""


def missing_data(model: ModelProto, path: str = "") -> str:
    """Return a sentence about the first tensor whose data is in another file without them, and the next step."""
    folder = os.path.dirname(os.path.abspath(path or "model"))
    for tensor in _tensors(model.graph):
        locations = [entry.value for entry in tensor.external_data if entry.key == "location"]
        for location in locations:
            data = f"The data of the tensor {show(tensor.name)} is in the file {show(location)}"
            file = os.path.join(folder, location)
            if not os.path.isfile(file) and path:
                return f"{data}, which is missing in the folder of the model, {folder}. Copy it to this folder"
            if not os.path.isfile(file):
                return f"{data}. Pass the path of the model: for bytes, ORT searches the current folder, {folder}"
            with open(file, "rb") as stream:
                if stream.read(len(_POINTER)) == _POINTER:
                    return f"{data}, which is {_OF_POINTER}"
    return ""


def _tensors(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            yield attribute.t
            yield from attribute.tensors
            yield from _tensors(attribute.g)


def unreleased(model: ModelProto) -> str:
    """Return a sentence about an opset of ONNX's own domains that the installed onnx has not released, or ``""``."""
    for opset in model.opset_import[:]:
        domain = opset.domain or "ai.onnx"
        if _is_onnx(domain) and (domain, opset.version) not in helper.OP_SET_ID_VERSION_MAP:
            imported = f"{domain} opset {opset.version}"
            return f"The model imports {imported}, which is not released according to the installed onnx. {ANYWAY}"
    return ""


def missing_operator(error: Exception) -> str:
    """Return a sentence about an operator of another domain that ORT lacks according to its error, or ``""``."""
    match = re.search(r"(\S+):(\S+)\(-?\d+\) is not a registered function/op", str(error))
    if not match or _is_onnx(match[1]):
        return ""
    return f"ONNX Runtime {onnxruntime.__version__} lacks the operator {match[2]} of domain {match[1]}"


def _is_onnx(domain: str) -> bool:
    # All domains with this prefix are ONNX's own, except for the domain of onnxruntime-extensions.
    return f"{domain}.".startswith("ai.onnx.") and domain != "ai.onnx.contrib"
