# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Creates a session by its parts and ORT: sets its options, attaches its EPs, and calls its constructor."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from operator import call
from typing import Any, ClassVar

from onnxruntime import InferenceSession, RunOptions, SessionOptions
from onnxruntime.backend.allowlist.permit import Permit
from onnxruntime.backend.allowlist.rules import NOTHING, Texts
from onnxruntime.backend.allowlist.session_config import RECORD_ASSIGNMENT
from onnxruntime.backend.errors import NotPermittedError
from onnxruntime.backend.explanations import failures, missing_providers
from onnxruntime.backend.libraries import extensions
from onnxruntime.backend.provider_names import TENSORRT
from onnxruntime.backend.session import attaching, free_dimensions

_RELEASED_OPSETS = "session.allow_released_opsets_only"  # ORT before 1.32 ignores it
Create = Callable[[], InferenceSession]
# Calls a function with the feeds and the run options when the run may begin. The first options can end the wait.
Guard = Callable[[RunOptions | None, Callable, dict, RunOptions], list]


class Construction:
    """The arguments of the constructor of a session, which the parts of the session can change."""

    def __init__(
        self,
        model: str | bytes,
        permit: Permit,
        options: SessionOptions,
        libraries: Iterable[str] = (),
        released_opsets: bool = True,
        session_class: Callable[..., InferenceSession] = InferenceSession,
    ) -> None:
        self.model = model
        self.permit = permit
        self.options = options
        self.libraries = libraries  # of custom operators
        self.released_opsets = released_opsets  # whether ORT rejects a model that imports an opset that is not released
        self.session_class = session_class
        self.providers: list[tuple[str, dict]] | None = None  # the argument of the constructor
        self.call: Callable[[Create], InferenceSession] = call  # calls the constructor
        self.registered: tuple[str, ...] = ()  # the names of the registered libraries
        self.texts: Mapping[str, Texts] = {}  # of the specified EPs' options, as ORT receives them

    def configure(self) -> Mapping[str, list]:
        """Set the options of the session, and attach its EPs if they are specified.

        Return the shapes of the model's inputs if sizes are set.
        """
        permit, options = self.permit, self.options
        attributes = {**permit.trusted.get("session_options", NOTHING), **permit.attributes.parsed}
        for name, value in attributes.items():
            setattr(options, name, value)
        entries = {
            _RELEASED_OPSETS: "1" if self.released_opsets else "0",
            **dict.fromkeys(permit.stops_spinning, "0"),
            **permit.session_config.texts,
            **permit.trusted.get("session_config", NOTHING),
        }
        if permit.explicit:
            entries.setdefault(RECORD_ASSIGNMENT, "1")
        for key, text in entries.items():
            options.add_session_config_entry(key, text)
        if self.libraries:
            self.registered = extensions.register(options, self.libraries)
        shapes = NOTHING
        if permit.sizes:
            shapes = free_dimensions.apply(options, permit, self.model)
        if permit.explicit:
            self.texts, self.providers = attaching.attach(options, permit)
        return shapes

    def construct(self) -> InferenceSession:
        """Create a session by ORT alone: with exactly the specified EPs in their order, then the CPU EP.

        If none are specified, with all that are available, as in ORT's own backend.
        """
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
        # A build with TensorRT's EP lists it on a machine without TensorRT, too.
        without_tensorrt = [name for name in self.permit.providers if name != TENSORRT]
        attempts = [list(self.permit.providers)]
        if TENSORRT in self.permit.providers:
            attempts.append(without_tensorrt)
        for providers in attempts:
            try:
                session = self._construct(providers, 0)
                break
            except (RuntimeError, ValueError) as error:
                failures.reject_setting(error, self.permit)
        else:  # ORT's own fallback prints a banner
            session = self._construct(without_tensorrt, 1)
        # A run that fails must fail, not run on another EP: the API's first use is testing.
        session.disable_fallback()
        return session

    def _with_specified(self) -> InferenceSession:
        specified = list(self.permit.providers)
        try:
            session = self._construct(self.providers, 0)
        except Exception as error:
            # The options of the operator can be at fault, and ORT's error can contain them.
            options = () if self.permit.trusted else self.providers or ()
            failures.explain_providers(error, specified, options)
            raise
        attached = session.get_providers()
        if [name for name in attached if name in specified] != specified:
            missing = [name for name in specified if name not in attached]
            text = f"ORT created the session with {', '.join(attached)}, but provider_options specifies"
            advice = missing_providers.advice(missing)
            raise RuntimeError(f"{text} {', '.join(specified)}, in this order. {advice}")
        return session


class SessionPart:
    """What the sessions of some EPs need in addition to ORT. A subclass overrides the methods it needs."""

    #: The name under which the state of a session keeps the object of this part.
    name: ClassVar[str]

    def create(self, construction: Construction, create: Create) -> InferenceSession:
        """Create a session. The function ``create`` does so with the inner parts and ORT."""
        return create()

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


def create(
    model: str | bytes, permit: Permit, options: SessionOptions, parts: Iterable[SessionPart], **others: Any
) -> tuple[InferenceSession, Construction]:
    """Create a session, or raise an error about the setting, the EP or the file that is at fault.

    :param parts: from the innermost to the outermost.
    :param others: other arguments of :class:`Construction`.
    """
    construction = Construction(model, permit, options, **others)
    shapes = construction.configure()
    create_session: Create = construction.construct
    for part in parts:
        create_session = partial(part.create, construction, create_session)
    try:
        session = create_session()
    except NotPermittedError:
        raise
    except Exception as error:
        failures.explain(error, permit, model)
        raise
    if permit.sizes:
        free_dimensions.verify(session, shapes, permit.sizes)
    return session, construction
