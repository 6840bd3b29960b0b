# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Replaces the inner session of the OpenVINO EP by a new one from the same files."""

from __future__ import annotations

import io
import mmap
import os
import re
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

import onnx

from onnxruntime import InferenceSession
from onnxruntime.backend.provider_names import OPENVINO
from onnxruntime.backend.runs.locks import while_opening
from onnxruntime.backend.session import parallel_models

# onnx parses the model once more, for the time of the check. External data does not count.
_MOST_BYTES = 2**28


def cannot_renew(_: InferenceSession) -> NoReturn:
    raise RuntimeError(
        f"A run failed inside {OPENVINO}, and the session may return values of earlier runs. The backend "
        "cannot replace a session that the caller created or changed. Create a new session and prepare it"
    )


class Origin:
    """The model from which ``prepare`` created an inner session, and from which a new one can be created."""

    def __init__(self, model: str | bytes, create: Callable[[], tuple[InferenceSession, object]]) -> None:
        self._model, self._create, self._files = model, create, _files_of(model)
        self.created: object = None  # the inner session that the backend created last

    def renew(self, session: InferenceSession) -> None:
        """Replace the inner session, if it is the one that the backend created, by a new one from the same files."""
        if self.created is not session._providers:
            cannot_renew(session)
        try:
            self._check_files()
            fresh, _ = while_opening(session.get_providers(), self._create)
            self._check_files()  # ORT may have read a file that was replaced meanwhile
            if fresh.get_providers() != session.get_providers():
                raise RuntimeError(f"ORT created it with {', '.join(fresh.get_providers())} only")
            self.created = fresh._providers
            vars(session).update(vars(fresh))  # one operation of the dict: other threads read the session
        except Exception as error:
            raise RuntimeError(
                f"A run failed inside {OPENVINO}, and the session could not be replaced: {error}. "
                "Prepare the model again"
            ) from error

    def only_shapes_decide(self, session: InferenceSession) -> bool:
        """Return whether only the shapes of inputs decide whether a run fails in a session of the model."""
        if not parallel_models.is_known(session):
            return False
        from_bytes = isinstance(self._model, bytes)
        try:
            if (len(self._model) if from_bytes else os.path.getsize(self._model)) > _MOST_BYTES:
                return False
            source = io.BytesIO(self._model) if from_bytes else self._model
            model = onnx.load_model(source, "protobuf", load_external_data=False)
            self._check_files()
        except Exception:  # such as a model in ORT's own format
            return False
        return parallel_models.only_shapes_decide(model)

    def _check_files(self) -> None:
        if _files_of(self._model) != self._files:
            raise RuntimeError("the model's file or its external data has changed")


# The entry of a tensor with external data that contains the file, serialized: key, then value with one or two bytes of
# length. A file without such a tensor costs a search, and no parser takes memory for the model a second time.
_LOCATION = rb"\n\x08location\x12(?:([\x00-\x7f])|([\x80-\xff])([\x00-\x7f]))"


def _files_of(model: str | bytes) -> dict[str, tuple | None]:
    """Return values for each file of a model that change when the file is replaced or written."""
    if isinstance(model, bytes):
        return {name: _stamp(name) for name in _locations(model)}  # ORT finds them in the current folder
    names = {model}
    with (
        suppress(OSError, ValueError),  # if Python cannot map the file, such as an empty one, ORT reports the problem
        open(model, "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        names |= {os.path.join(os.path.dirname(model), name) for name in _locations(content)}
    return {name: _stamp(name) for name in names}


def _locations(content: bytes | mmap.mmap) -> set[str]:
    names = set()
    for found in re.finditer(_LOCATION, content, re.DOTALL):
        short, low, high = found.groups()
        length = short[0] if short else low[0] - 128 + 128 * high[0]
        names.add(os.fsdecode(content[found.end() : found.end() + length]))
    return names


def _stamp(path: str) -> tuple | None:
    with suppress(OSError, ValueError):  # a weight can contain these bytes by chance
        status = os.stat(path)
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
    return None
