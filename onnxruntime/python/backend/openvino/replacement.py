# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Replaces the inner session of the OpenVINO EP by a new one from the same files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress

from google.protobuf.message import DecodeError
from onnx import ModelProto

from onnxruntime import InferenceSession
from onnxruntime.backend.provider_names import OPENVINO
from onnxruntime.backend.runs.errors import API_ERRORS
from onnxruntime.backend.session import model_file, model_outline, state


class Origin:
    """The model from which ``prepare`` created an inner session, and from which a new one can be created."""

    def __init__(self, model: str | bytes, create: Callable[[], InferenceSession]) -> None:
        """Initialize it with a model, and a function that creates a session."""
        self._model = model
        self._create = create
        self._files = _files_of(model)
        self.created: object = None  # the inner session that the backend created last

    def renew(self, session: InferenceSession) -> None:
        """Replace the inner session by a new one from the same files."""
        try:
            self._check_files()
            fresh = self._create()
            self._check_files()  # ORT may have read a file that was replaced meanwhile
            if fresh.get_providers() != session.get_providers():
                raise RuntimeError(f"ORT created it with {', '.join(fresh.get_providers())} only")
            attributes = vars(fresh).copy()
            attributes.pop(state.ATTRIBUTE, None)
            session_attributes = vars(session)
            # Python calls no signal handler between these two steps, because an interrupt would prevent replacements.
            self.created = fresh._providers
            session_attributes.update(attributes)  # one operation of the dict: other threads read the session
        except API_ERRORS as error:  # and none of a signal handler
            problem = f"A run failed inside {OPENVINO}, and the session could not be replaced: {error}"
            raise RuntimeError(f"{problem}. Prepare the model again") from error

    def outline(self) -> ModelProto:
        """Return the model without its weights, an empty one if it cannot be read, such as one in ORT's own format."""
        with suppress(DecodeError, IndexError, OSError, ValueError):
            return model_outline.outline(self._model)
        return ModelProto()

    def has_changed(self) -> bool:
        """Return whether a file of the model has changed."""
        return _files_of(self._model) != self._files

    def _check_files(self) -> None:
        if self.has_changed():
            raise RuntimeError("the model's file or its external data has changed")


def renew(session: InferenceSession, origin: Origin | None) -> None:
    """Replace the inner session by a new one, if the backend created it, and so knows its origin."""
    if origin is None or origin.created is not session._providers:
        raise RuntimeError(
            f"A run failed inside {OPENVINO}, and the session may return values of earlier runs. The backend "
            "cannot replace a session that the caller created or changed. Create a new session and prepare it"
        )
    origin.renew(session)


# The entry of a tensor with external data that contains the file, serialized: key, then value with one or two bytes of
# length. A file without such a tensor costs a search, and no parser takes memory for the model a second time.
_LOCATION = rb"\n\x08location\x12([\x80-\xff]?[\x00-\x7f])"


def _files_of(model: str | bytes) -> dict[str, tuple | None]:
    """Return values for each file of a model that change when the file is replaced or written."""
    stamps: dict[str, tuple | None] = {}
    folder = ""  # for a model from bytes, ORT looks in the current folder
    if not isinstance(model, bytes):
        stamps[model] = None
        folder = os.path.dirname(model)
    # ORT reports a file that Python cannot map.
    with suppress(OSError, ValueError), model_file.content_of(model) as content:
        for location in re.finditer(_LOCATION, content, re.DOTALL):
            start = location.end()
            length, _ = model_outline.integer(location[1], 0)
            name = os.fsdecode(content[start : start + length])
            stamps[os.path.join(folder, name)] = None
    for path in stamps:
        with suppress(OSError, ValueError):  # a weight can contain these bytes by chance
            status = os.stat(path)
            stamps[path] = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    return stamps
