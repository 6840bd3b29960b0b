# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""A model with a configuration, and the results of its runs."""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

import onnxruntime
from onnxruntime.backend import backend
from onnxruntime.backend.allowlist.session_config import RECORD_ASSIGNMENT
from onnxruntime.backend.allowlist.tables import LIBRARIES, PERMIT, TRUSTED
from onnxruntime.backend.environment import configuration, variable
from onnxruntime.backend.errors import ENVIRONMENT

Blocks = list[list[float]]  # the seconds of the runs of each round


class Side:
    """One side of a comparison, with its results until an error.

    :param label: the configuration as text.
    :param config: the settings and libraries of a configuration.
    :param inherits: whether the configuration of the environment applies, too.
    """

    def __init__(self, model: str, label: str, config: Mapping, inherits: bool = True) -> None:
        self.model = model
        self.label = configuration.shown(label)
        self.config = config
        self._inherits = inherits
        self.rep: Any = None
        self.outputs: list = []
        self.blocks: Blocks = []
        self.error: Exception | None = None

    def prepare(self) -> bool:
        """Prepare the model, with a record of node assignments. Return whether it succeeded."""
        settings = {keyword: value for keyword, value in self.config.items() if keyword not in (*LIBRARIES, TRUSTED)}
        if hasattr(onnxruntime.InferenceSession, "get_provider_graph_assignment_info"):
            settings["session_config"] = {RECORD_ASSIGNMENT: "1"} | settings.get("session_config", {})
        try:
            with self._environment():
                self.rep = backend.prepare(self.model, **settings)
        except Exception as error:  # ORT raises classes without a common base
            self.error = error
        return self.error is None

    def run(self, feeds: list) -> bool:
        """Run the model, and return whether it succeeded."""
        try:
            self.outputs = self.rep.run(feeds)
        except Exception as error:
            self.outputs, self.blocks, self.error = [], [], error
        return self.error is None

    @contextlib.contextmanager
    def _environment(self) -> Iterator[None]:
        """Add the libraries and the part TRUSTED of the configuration to the environment, which alone can contain them.

        The environment's ``permit`` does not narrow the settings of a comparison, which are trusted.
        """
        before = os.environ.get(ENVIRONMENT)
        specified = variable.read()
        changed = {**specified} if self._inherits else {}
        changed.pop(PERMIT, None)
        if TRUSTED in self.config:
            changed[TRUSTED] = self.config[TRUSTED]
        for keyword in LIBRARIES:
            changed[keyword] = [*specified.get(keyword, ()), *self.config.get(keyword, ())]
        os.environ[ENVIRONMENT] = json.dumps(changed)
        try:
            yield
        finally:
            if before is None:
                del os.environ[ENVIRONMENT]
            else:
                os.environ[ENVIRONMENT] = before
