# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Looks up the settings of runs: permitted run config entries and ``RunOptions`` attributes."""

from collections.abc import Mapping

from onnxruntime import InferenceSession, RunOptions
from onnxruntime.backend import request
from onnxruntime.backend.allowlist.attributes import SESSION_ATTRIBUTES
from onnxruntime.backend.allowlist.facts import Process, SessionFacts
from onnxruntime.backend.allowlist.look_up import Allowlist, of_run
from onnxruntime.backend.allowlist.rules import NOTHING, Texts
from onnxruntime.backend.allowlist.tables import KEYWORDS, MOST_ENTRIES
from onnxruntime.backend.environment import variable
from onnxruntime.backend.errors import Place, reject
from onnxruntime.backend.session.state import state_of

_MOST_KEPT = 64  # settings of earlier runs. Each takes a few kilobytes, because permitted texts are short
_TYPES_OF_KEYS = (bool, int, str)


class RunSettings:
    """The permitted settings of a run, and the ``RunOptions`` made from them."""

    def __init__(self, attributes: Mapping, entries: Texts, trusted: Texts = NOTHING) -> None:
        self.attributes = attributes
        self.entries = entries
        self.trusted = trusted  # the entries of the operator, which no report contains
        #: Run options that any number of runs can share, because ORT only reads them.
        self.options = RunOptions()
        for name, value in attributes.items():
            setattr(self.options, name, value)
        for key, text in {**entries, **trusted}.items():
            self.options.add_run_config_entry(key, text)


class Overrides:
    """The settings of single runs of one session, which override prepared run config entries."""

    def __init__(self, session: InferenceSession | None, prepared: Texts) -> None:
        self._session = session  # if it is ORT's
        trusted = NOTHING if session is None else state_of(session).trusted
        self.prepared = RunSettings({}, prepared, trusted.get("run_config", NOTHING))
        self._kept: dict[tuple | None, RunSettings] = {}  # by the arguments of the run
        self._allowlist: Allowlist | None = None  # of the environment, which a run with settings reads

    def of_run(self, run_config: Mapping | None, attributes: Mapping) -> RunSettings:
        """Return the settings of a run, or those of an earlier run with the same arguments."""
        if type(run_config) is dict and len(run_config) <= MOST_ENTRIES:
            run_config = run_config.copy()  # another thread may change the caller's
        key = _key(run_config, attributes)
        settings = self._kept.get(key)
        if settings is not None:
            return settings
        settings, without_effect = self.look_up(run_config, attributes)
        # A setting that is ignored or has no effect is warned about in each run.
        if key is None or without_effect or len(settings.attributes) < len(attributes):
            return settings
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        self._kept[key] = settings
        return settings

    def look_up(self, run_config: Mapping | None, attributes: Mapping) -> tuple[RunSettings, Texts]:
        """Look up the settings of one run. Return a warning, too, for each key without effect."""
        attributes = request.read_mapping(request.ARGUMENTS, attributes)
        for keyword in KEYWORDS:
            if attributes.pop(keyword, None) is not None:
                reject(Place(keyword), "cannot be set for a run. Pass it to prepare")
        facts = _facts_about(self._session)
        allowlist = self._allowlist
        if allowlist is None:
            allowlist = self._allowlist = variable.allowlist(variable.read(), facts.process)
        entries = None
        if run_config is not None:
            entries = request.read_mapping(Place("run_config"), run_config)
        settings, found, without_effect = of_run(attributes, entries, facts, allowlist)
        texts = {**self.prepared.entries, **found.texts}
        return RunSettings(settings.parsed, texts, self.prepared.trusted), without_effect


def _facts_about(session: InferenceSession | None) -> SessionFacts:
    """Describe a session of ORT by its EPs, their options and its ``SessionOptions`` attributes."""
    if session is None:
        return SessionFacts(Process())
    options = session.get_session_options()
    return SessionFacts(
        Process(),
        providers=tuple(session.get_providers()),
        options=session.get_provider_options(),
        attributes={name: getattr(options, name) for name in SESSION_ATTRIBUTES},
    )


def _key(run_config: object, attributes: Mapping) -> tuple | None:
    """Return a key that is equal for equal arguments with values of the same plain types, ``None`` for others.

    A comparison of the keys calls no code of a caller's class.
    """
    key: list[object] = [len(attributes)]
    for arguments in (attributes, run_config):
        if arguments is None:
            continue
        if type(arguments) is not dict or len(arguments) > MOST_ENTRIES:
            return None
        for name, value in arguments.items():
            value_type = type(value)
            if type(name) is not str or value_type not in _TYPES_OF_KEYS:
                return None
            key.append((name, value_type, value))
    return tuple(key)
