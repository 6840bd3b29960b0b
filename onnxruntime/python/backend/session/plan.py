# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Plans the runs of a session, once for all of them."""

from __future__ import annotations

from onnxruntime import InferenceSession
from onnxruntime.backend.allowlist.rules import Texts
from onnxruntime.backend.limits import Limits
from onnxruntime.backend.runs.direct_route import DirectRoute, generation_of, is_ort
from onnxruntime.backend.runs.inputs import ModelInputs
from onnxruntime.backend.runs.settings import Overrides, RunSettings
from onnxruntime.backend.session import selection, state
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument


class Plan:
    """All that the runs of one session with one run config need. It does not change: another session needs another."""

    def __init__(self, session: InferenceSession, run_config: Texts) -> None:
        """Use a session, or another object with ``get_inputs`` and ``run``."""
        self.session = session
        self.inner = generation_of(session)  # first: another thread can replace it
        self.is_of_ort = is_ort(session)
        if self.is_of_ort:
            self.inputs = ModelInputs(session)
            self.route = _route_of(session, self.inputs)
            self.overrides = Overrides(session, run_config)
        else:  # it may have no get_outputs, which the stock backend does not need
            self.inputs = ModelInputs(session)
            self.route = DirectRoute(session, self.inputs, [], None)
            self.overrides = Overrides(None, run_config)
        self.settings = self.overrides.prepared
        self.fast_run = self.route.fast_run(self.settings)

    def run(self, inputs: object, settings: RunSettings) -> list:
        """Run without the fast path."""
        feeds = self.inputs.feeds(inputs)
        try:
            return self.route.run(feeds, settings)
        except Exception as error:
            # A session of the caller can pass its run to ORT. Its own errors are not replaced.
            if self.is_of_ort or isinstance(error, InvalidArgument):
                self.inputs.check(feeds, error)
            raise

    def run_limited(self, inputs: object, settings: RunSettings, limits: Limits) -> list:
        """Run within limits, with separate run options and without the fast path."""
        separate = RunSettings(settings.attributes, settings.entries)
        return limits.run(separate.options, self.run, inputs, separate)


def _route_of(session: InferenceSession, inputs: ModelInputs) -> DirectRoute:
    """Return the route of the first part of a session that has one, or the direct route with all guards."""
    parts = selection.for_session(session)
    # set_providers can have changed the EPs of the session.
    names = [part.name for part in parts]
    state.of(session).keep_only(names)
    route = guard = None
    for part in parts:
        route = route or part.route(session)
        guard = part.guard(session, guard)
    return route or DirectRoute(session, inputs, session.get_outputs(), guard)
