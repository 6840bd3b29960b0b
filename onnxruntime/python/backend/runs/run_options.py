# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The settings of a run: permitted run config entries and ``RunOptions`` attributes."""

from __future__ import annotations

from collections.abc import Mapping

from onnxruntime import RunOptions
from onnxruntime.backend import request
from onnxruntime.backend.allowlist import conditions, look_up, unknown_arguments
from onnxruntime.backend.allowlist.attributes import RUN_ATTRIBUTES
from onnxruntime.backend.allowlist.facts import SessionFacts
from onnxruntime.backend.allowlist.permit import values_of
from onnxruntime.backend.allowlist.rules import NOTHING, texts_of
from onnxruntime.backend.allowlist.tables import KEYWORDS
from onnxruntime.backend.errors import Place, reject, warn


class RunSettings:
    """The permitted settings of a run, and the ``RunOptions`` made from them."""

    def __init__(
        self,
        attributes: Mapping,
        entries: Mapping[str, str],
    ) -> None:
        self.attributes = attributes
        self.entries = entries
        #: Run options that any number of runs can share, because ORT only reads them.
        self.options = RunOptions()
        for name, value in attributes.items():
            setattr(self.options, name, value)
        for key, text in entries.items():
            self.options.add_run_config_entry(key, text)

    def overridden_by(
        self,
        facts: SessionFacts,
        run_config: Mapping | None,
        attributes: Mapping,
    ) -> tuple[RunSettings, dict[str, str]]:
        """Look up the settings of one run, which override these. Return a warning, too, for each key without effect."""
        attributes = dict(attributes)
        for keyword in KEYWORDS:
            if attributes.pop(keyword, None) is not None:
                reject(Place(keyword), "cannot be set for a run. Pass it to prepare")
        allowlist = look_up.Allowlist(facts.process)
        if attributes or run_config is not None:
            allowlist = request.of_environment().allowlist(facts.process)
        settings = allowlist.attributes(RUN_ATTRIBUTES, attributes)
        entries = NOTHING
        if run_config is not None:
            look_up.refuse_while_model_configures(["run_config"])
            requested = request.read(Place("run_config"), run_config)
            entries = allowlist.entries("run_config", requested)
        without_effect = conditions.check({"run_config": entries}, facts)["run_config"]

        unknown_arguments.warn_or_reject(attributes, RUN_ATTRIBUTES)
        for text in without_effect.values():
            warn(text)
        return RunSettings(values_of(settings), {**self.entries, **texts_of(entries)}), without_effect
