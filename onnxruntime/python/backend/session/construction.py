# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Creates a session by its parts and ORT: sets its options, attaches its EPs, and calls its constructor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from operator import call
from typing import Any, ClassVar

from onnxruntime import InferenceSession, SessionOptions
from onnxruntime.backend.allowlist.permit import Permit
from onnxruntime.backend.allowlist.rules import NOTHING
from onnxruntime.backend.allowlist.session_config import RECORD_ASSIGNMENT
from onnxruntime.backend.libraries import extensions
from onnxruntime.backend.provider_names import TENSORRT
from onnxruntime.backend.runs.direct_route import Guard
from onnxruntime.backend.session import attaching, failures, free_dimensions, missing_providers

_RELEASED_OPSETS = "session.allow_released_opsets_only"  # ORT before 1.32 ignores it


class SessionPart:
    """A part of some sessions, which their EPs need in addition to ORT. A subclass overrides the methods it needs."""

    #: The name under which the state of a session keeps the object of this part.
    name: ClassVar[str]

    def create(self, construction: Construction) -> InferenceSession:
        """Create a session. The method ``create`` of the construction does so by the other parts and ORT."""
        return construction.create()

    def guard(self, session: InferenceSession, inner: Guard | None) -> Guard | None:
        """Return a function that decides when a run of a session may begin, ``None`` if it may at any time.

        :param inner: the guard of the inner parts.
        """
        return inner

    def route(self, session: InferenceSession) -> Any | None:
        """Return an object with the methods of ``DirectRoute`` that runs a session, ``None`` if that class does."""

    def why_serial(self, session: InferenceSession) -> str:
        """Return why no runs of a session are parallel, ``""`` if runs can be."""
        return ""


@dataclass
class Construction:
    """The arguments of the constructor of a session, which the parts of the session can change."""

    model: str | bytes
    permit: Permit
    options: SessionOptions
    libraries: Iterable[str] = ()  # of custom operators
    released_opsets: bool = True  # whether ORT rejects a model that imports an opset that is not released
    session_class: Callable[..., InferenceSession] = InferenceSession
    parts: list[SessionPart] = field(default_factory=list)  # that have not begun, the outermost last
    providers: list[tuple[str, dict]] | None = None  # the argument of the constructor
    call: Callable[[Callable[[], InferenceSession]], InferenceSession] = call  # calls the constructor

    def configure(self) -> tuple[tuple[str, ...], Mapping[str, list]]:
        """Set the options of the session, and attach its EPs if they are specified.

        Return the registered libraries, and the shapes of inputs if sizes are set.
        """
        permit, options = self.permit, self.options
        for name, setting in permit.attributes.items():
            setattr(options, name, setting.value)
        entries = {_RELEASED_OPSETS: "1" if self.released_opsets else "0"}
        if permit.explicit:
            entries[RECORD_ASSIGNMENT] = "1"
        entries.update(dict.fromkeys(permit.stops_spinning, "0"))
        for key, setting in permit.session_config.items():
            entries[key] = setting.text
        for key, text in entries.items():
            options.add_session_config_entry(key, text)
        registered: tuple[str, ...] = ()
        if self.libraries:
            registered = extensions.register(options, self.libraries)
        shapes = NOTHING
        if permit.sizes:
            shapes = free_dimensions.apply(options, permit, self.model)
        if permit.explicit:
            self.providers = attaching.attach(options, permit)
        return registered, shapes

    def again(self, permit: Permit) -> Construction:
        """Return the construction of a session from the same model with another permit, to explain an error."""
        options = SessionOptions()
        options.log_severity_level = 4  # the log contains the error of the first session
        other = replace(self, permit=permit, options=options)
        other.configure()
        return other

    def create(self) -> InferenceSession:
        """Create a session by the next part that has not begun, or else by ORT.

        ORT creates it with exactly the specified EPs. If none are specified, with all that are available.
        """
        if self.parts:
            return self.parts.pop().create(self)
        if self.permit.explicit:
            return self._with_specified()
        return self._with_available()

    def _construct(self, providers: list | None, enable_fallback: int) -> InferenceSession:
        constructor = partial(
            self.session_class,
            self.model,
            sess_options=self.options,
            providers=providers,
            enable_fallback=enable_fallback,
        )
        return self.call(constructor)

    def _with_available(self) -> InferenceSession:
        """Create a session with all available EPs, or with fewer if ORT cannot use them."""
        permit = self.permit
        # A build with TensorRT's EP lists it on a machine without TensorRT, too.
        without_tensorrt = [name for name in permit.providers if name != TENSORRT]
        attempts = [list(permit.providers)]
        if TENSORRT in permit.providers:
            attempts.append(without_tensorrt)
        for providers in attempts:
            try:
                session = self._construct(providers, 0)
                break
            except (RuntimeError, ValueError) as error:
                failures.reject_setting(error, permit)
        else:  # ORT's own fallback prints a banner
            session = self._construct(without_tensorrt, 1)
        # A run that fails must fail, not run on another EP: the API's first use is testing.
        session.disable_fallback()
        return session

    def _with_specified(self) -> InferenceSession:
        specified = list(self.permit.providers)
        names = ", ".join(specified)
        try:
            session = self._construct(self.providers, 0)
        except Exception as error:
            # ORT's own exceptions are neither class, and describe a fault of the model, or from 1.32 on of a plugin EP.
            of_plugin = "PluginExecutionProviderFactory::CreateProvider" in str(error)
            if not of_plugin and not isinstance(error, (RuntimeError, ValueError)):
                raise
            for name, texts in self.providers or ():
                failures.reject_options(name, texts, error)
            advice = f"{missing_providers.advice(specified)} ORT error: {error}"
            raise RuntimeError(f"ORT could not create a session with {names or 'the CPU EP'}. {advice}") from None
        providers_of_session = session.get_providers()
        if [name for name in providers_of_session if name in specified] != specified:
            missing = [name for name in specified if name not in providers_of_session]
            advice = missing_providers.advice(missing)
            listed = ", ".join(providers_of_session)
            text = f"ORT created the session with {listed}, but provider_options specifies {names}, in this order"
            raise RuntimeError(f"{text}. {advice}")
        return session


def config_entry(options: SessionOptions, key: str) -> str:
    """Return a session config entry, ``""`` if the options do not have it."""
    try:
        return options.get_session_config_entry(key)
    except RuntimeError:  # no such entry
        return ""
