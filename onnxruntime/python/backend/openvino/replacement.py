# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""What the backend knows of the inner session of an OpenVINO session, and how it creates a new one."""

import os
from collections.abc import Callable
from contextlib import suppress

from onnx import ModelProto

from onnxruntime import InferenceSession
from onnxruntime.backend.errors import ORT_ERRORS
from onnxruntime.backend.openvino.input_memory import InputMemory
from onnxruntime.backend.provider_names import OPENVINO
from onnxruntime.backend.session import model_outline
from onnxruntime.backend.session.state import ATTRIBUTE, generation_of

# The errors of ORT's Python API, which raises its own and these two.
_OF_API: tuple[type[Exception], ...] = (*ORT_ERRORS, RuntimeError, ValueError)


class InnerSession:
    """The state of the runs of one inner session, until ORT or the backend replaces the inner session."""

    def __init__(self, generation: object) -> None:
        self.generation = generation
        self.inputs = InputMemory()
        #: The shapes of the inputs of the last run. ``None`` before the first run, and after a run that failed.
        self.shapes: dict | None = None
        #: Whether a run failed inside the EP. Then, a run can return values of earlier runs.
        self.has_failed = False


class Origin:
    """The model from which ``prepare`` created an inner session, and from which it can create another."""

    def __init__(self, model: str | bytes, create: Callable[[], InferenceSession]) -> None:
        """Initialize it before ORT reads the model."""
        self._model = model
        self._create = create
        self._stamp = _stamp(model)
        #: The generation of the session that the backend created last.
        self.created: object = None

    def outline(self) -> ModelProto:
        """Return the model without its weights, an empty one if it cannot be read or its file has changed."""
        with suppress(Exception):
            outline = model_outline.outline(self._model, "node", "input")
            if _stamp(self._model) == self._stamp:
                return outline
        return ModelProto()

    def renew(self, session: InferenceSession) -> None:
        """Replace the inner session of a session by a new one from the same file."""
        try:
            fresh = self._create()
            if _stamp(self._model) != self._stamp:
                raise RuntimeError("the model's file has changed")
            if fresh.get_providers() != session.get_providers():
                raise RuntimeError(f"ORT created it with {', '.join(fresh.get_providers())} only")
            attributes = vars(fresh).copy()
            attributes.pop(ATTRIBUTE, None)
            self.created = generation_of(fresh)
            vars(session).update(attributes)  # one operation of the dict: other threads read the session
        except _OF_API as error:  # and none of a signal handler
            problem = f"A run failed inside {OPENVINO}, and the session could not be replaced: {error}"
            raise RuntimeError(f"{problem}. Prepare the model again") from error


def _stamp(model: str | bytes) -> tuple | None:
    """Return a value that changes when the file of a model is replaced or written."""
    if not isinstance(model, bytes):
        with suppress(OSError, ValueError):  # ORT reports a file that Python cannot find
            status = os.stat(model)
            return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
    return None
