# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The settings of one session in two forms: as a call requests them, and as the allowlist permits them."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from onnxruntime.backend.allowlist.rules import NO_SETTINGS, NOTHING, Settings, Texts, Values
from onnxruntime.backend.errors import FROM_ENVIRONMENT, NotPermittedError, Place, show


class Request(NamedTuple):
    """The settings that a call requests, with exact ``str`` as names."""

    settings: dict[str, dict[str, Any]]  # by keyword
    attributes: Values  # all other keyword arguments of the call
    device: str  # ONNX's name of the device, or ""
    device_index: int | None
    environment: Values  # the configuration in the environment variable, if it counts
    from_environment: set[Place]  # the settings that only the environment specifies

    def with_origin(self, refusal: NotPermittedError) -> RuntimeError:
        """Return a refusal with its value, or a plain error if the caller did not specify the refused setting."""
        if not refusal.value:
            refusal.value = self._value_of(refusal)
        places = {Place(refusal.keyword, refusal.provider, refusal.key or None)}
        if refusal.keyword == "device":
            places.add(Place("provider_options"))  # the EPs contradict the device
        if places.isdisjoint(self.from_environment):
            return refusal
        return RuntimeError(f"{refusal}{FROM_ENVIRONMENT}")

    def _value_of(self, refusal: NotPermittedError) -> str:
        values: Values = self.settings.get(refusal.keyword, NOTHING)
        name = refusal.key
        if refusal.provider:
            values = values.get(refusal.provider, NOTHING)
        elif not name:
            name, values = refusal.keyword, self.attributes
        return show(values[name]) if name in values else ""


class Permit(NamedTuple):
    """The permitted settings of one session, by name. Only :mod:`allowlist.look_up` creates one."""

    device: str  # ONNX's name of the requested device, or ""
    explicit: bool  # whether the EPs were specified. Otherwise, they are all available EPs, and ORT may fall back
    providers: Mapping[str, Settings]  # the options of each EP, in order
    kinds: Texts = NOTHING  # of the EPs of the process
    attributes: Settings = NO_SETTINGS
    session_config: Settings = NO_SETTINGS
    run_config: Settings = NO_SETTINGS
    sizes: Mapping[str, int] = NOTHING
    # The keys of the session config entries that the backend adds with the text 0, each with a sentence about it.
    stops_spinning: Texts = NOTHING
    # By keyword argument, each key that has no effect in this session, with a sentence about it.
    without_effect: Mapping[str, Texts] = NOTHING
    warnings: tuple[str, ...] = ()  # those given while the settings were looked up
    trusted: Mapping[str, Mapping] = NOTHING  # the settings of the operator, by keyword
