# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Creates the sessions that capture graphs, and keeps the captured graphs of each."""

from contextlib import suppress

from onnx import ModelProto

from onnxruntime import InferenceSession
from onnxruntime.backend.capture import eligibility
from onnxruntime.backend.capture.graphs import WITHOUT, Capture
from onnxruntime.backend.errors import Place, reject
from onnxruntime.backend.provider_names import CAPTURE_SWITCHES
from onnxruntime.backend.session import model_outline
from onnxruntime.backend.session.creation import Construction, Create, SessionPart
from onnxruntime.backend.session.state import generation_of, state_of

NOT_CAPTURED = "graph capture feature"  # in each message of ORT about a model that it does not capture
_REASON = "ORT captures a model only if it has no If, Loop or Scan, and if no node between others is on the CPU EP"
_ADVICE = (
    "Fix each shape of an input that is not fixed, with free_dimension_overrides or in the model, so that ORT computes "
    f"shapes when it loads the model. Otherwise, {WITHOUT}"
)
_NOT_OF_PREPARE = "graph capture needs a session that prepare creates. Prepare the model itself"


class CapturePart(SessionPart):
    """Creates a session only if ORT can replay its graph right, and runs it with :class:`.graphs.Capture`."""

    name = "capture"

    def __init__(self, eps: list[str]) -> None:
        self._eps = eps  # those of the session that capture

    def create(self, construction: Construction, create: Create) -> InferenceSession:
        ep = self._eps[0]
        place = Place("provider_options", ep, CAPTURE_SWITCHES[ep])
        model = ModelProto()
        with suppress(Exception):  # such as a model in ORT format
            model = model_outline.outline(construction.model, "node", "input", "output", "initializer")
        try:
            session = create()
        except Exception as error:
            if NOT_CAPTURED in str(error):
                reject(place, f"{_REASON}. {_ADVICE}. ORT error: {error}")
            raise
        problem = eligibility.problem(session, self._eps, model)
        if problem:
            reject(place, f"{problem}. Otherwise, {WITHOUT}")
        state_of(session).keep(self.name, lambda: Capture(session, ep))
        return session

    def route(self, session: InferenceSession) -> Capture:
        def refusing() -> Capture:
            return Capture(session, self._eps[0], _NOT_OF_PREPARE)

        capture = state_of(session).keep(self.name, refusing)
        if capture.generation is not generation_of(session):  # set_providers has replaced it
            return refusing()
        return capture
