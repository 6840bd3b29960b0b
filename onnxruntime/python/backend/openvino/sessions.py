# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Creates the sessions of the OpenVINO EP, and gives each an order of its runs.

After a failed run, the order (:mod:`.run_order`) lets the next run replace the inner session (:mod:`.replacement`).
"""

import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial

from onnxruntime import InferenceSession, IOBinding, SessionOptions
from onnxruntime.backend.allowlist import threads
from onnxruntime.backend.allowlist.permit import Permit
from onnxruntime.backend.allowlist.rules import NO_SETTINGS
from onnxruntime.backend.allowlist.run_config import SHRINKAGE
from onnxruntime.backend.allowlist.session_config import RECORD_ASSIGNMENT
from onnxruntime.backend.errors import Place, reject, warn
from onnxruntime.backend.openvino import fixed_shapes, structures
from onnxruntime.backend.openvino.replacement import Origin
from onnxruntime.backend.openvino.run_order import RELEASES_MEMORY, RunOrder
from onnxruntime.backend.provider_names import OF_OPENVINO, OPENVINO
from onnxruntime.backend.session.creation import Construction, Create, Guard, SessionPart
from onnxruntime.backend.session.state import generation_of, state_of

_MOVES_MEMORY = (
    "with memory patterns, ORT moves the values between the parts of this graph, and OpenVINO writes into their old "
    "addresses. Leave the setting out, or specify CPUExecutionProvider"
)
# On one core, OpenVINO uses one thread for any value of num_of_threads. This is so for onnxruntime-openvino 1.24.1 and
# onnxruntime-ep-openvino 1.8.1, on one CPU and on two CPUs of one core.
_ONE_CORE = (
    "on one CPU core, a model must have fixed shapes, and no operator that checks values, such as GatherElements. "
    "Otherwise, a run that must fail returns the outputs of the previous run, and sessions crash the process. Use two "
    "CPU cores, free_dimension_overrides, or device_type 'AUTO:CPU' (plugin: OpenVINOExecutionProvider.AUTO)"
)
_RIGHT_ON_ONE_CORE = ("AUTO:", "MULTI:", "GPU", "NPU")  # devices


class OpenVINOPart(SessionPart):
    """Creates a session whose inner session can be replaced, and gives it an order of its runs."""

    name = "openvino"

    def create(self, construction: Construction, create: Create) -> InferenceSession:
        """Create a session. If OpenVINO's EP is not right with the model and was not specified, leave it out."""
        permit = construction.permit
        _record_assignment(construction)
        has_patterns = "enable_mem_pattern" in permit.attributes
        if not has_patterns:
            construction.options.enable_mem_pattern = False
        if permit.kinds.get(OPENVINO) == "built-in":
            _keep_loaded()
        origin = Origin(construction.model, create)  # before ORT reads the model
        session = create()
        origin.created = generation_of(session)
        order, problem = _examined(session, origin, permit)
        if problem:
            if permit.explicit:
                reject(Place("provider_options", OPENVINO), problem)
            _leave_out(construction, problem)
            return create()
        if order.copies:
            _check_memory(permit)
        state_of(session).keep(self.name, lambda: order)
        # A binding before ORT 1.31 does not keep the inner session, which a replacement releases.
        session.io_binding = partial(_io_binding, order.session)
        return session

    def guard(self, session: InferenceSession, inner: Guard | None) -> Guard | None:
        order = _order_of(session)
        return order.run if order.is_needed() else inner

    def why_serial(self, session: InferenceSession) -> str:
        order = _order_of(session)
        if order.is_needed():
            return order.why or "the application changed the session"
        return ""


def _examined(session: InferenceSession, origin: Origin, permit: Permit) -> tuple[RunOrder, str]:
    """Return the order of the runs of a new session, and a sentence if OpenVINO's EP is not right with its model."""
    assigned = session.get_provider_graph_assignment_info()
    on_openvino: set[str] = set()  # operators
    on_others: set[str] = set()
    for part in assigned:
        operators = on_openvino if part.ep_name in OF_OPENVINO else on_others
        operators.update(node.op_type for node in part.get_nodes())
    is_whole = len(assigned) == 1 and not on_others
    outline = origin.outline()
    device = permit.providers.get(OPENVINO, NO_SETTINGS).texts.get("device_type", "CPU")
    why = ""
    if on_openvino or not assigned:  # ORT has no record of a model in its own format
        why = fixed_shapes.why_serial(outline, session, is_whole, device)

    problem = ""
    if permit.kinds.get(OPENVINO) == "built-in":
        problem = structures.that_leaks(outline, session, on_openvino - on_others, is_whole, permit.sizes)
    can_fail = why != "" or not fixed_shapes.CHECKING.isdisjoint(on_openvino)
    is_right = OPENVINO not in permit.providers or device.startswith(_RIGHT_ON_ONE_CORE)
    if can_fail and not is_right and threads.usable_cores() < 2:
        problem = problem or _ONE_CORE
    # An output that is an input has its memory.
    inputs = {node.name for node in session.get_inputs()}
    copies = not is_whole or not inputs.isdisjoint(node.name for node in session.get_outputs())
    always_twice = not is_whole and not fixed_shapes.are_fixed(outline, session)
    return RunOrder(weakref.ref(session), origin, why, copies, always_twice), problem


def _check_memory(permit: Permit) -> None:
    """Reject settings that make ORT move or release memory that several parts of a graph write into."""
    attributes = permit.attributes.parsed
    if attributes.get("enable_mem_pattern"):
        reject(permit.attributes["enable_mem_pattern"].place, _MOVES_MEMORY)
    if attributes.get("enable_cpu_mem_arena") is False:
        reject(permit.attributes["enable_cpu_mem_arena"].place, RELEASES_MEMORY)
    if SHRINKAGE in permit.run_config:
        reject(permit.run_config[SHRINKAGE].place, RELEASES_MEMORY)


def _record_assignment(construction: Construction) -> None:
    """Let ORT record the EP of each node."""
    permit = construction.permit
    setting = permit.session_config.get(RECORD_ASSIGNMENT)
    if setting is None and not permit.explicit:  # otherwise, the options have this entry
        construction.options.add_session_config_entry(RECORD_ASSIGNMENT, "1")
    elif setting is not None and not setting.value:
        problem = f"{OPENVINO} needs this record for the check of the model. Omit the key, or use CPUExecutionProvider"
        reject(setting.place, problem)


def _leave_out(construction: Construction, problem: str) -> None:
    """Leave OpenVINO's EP out of a session, and warn."""
    warning = f"{OPENVINO} is left out: {problem}"
    warn(warning)
    permit = construction.permit
    if "enable_mem_pattern" not in permit.attributes:
        construction.options.enable_mem_pattern = True
    providers = {ep: options for ep, options in permit.providers.items() if ep != OPENVINO}
    construction.permit = permit._replace(providers=providers, warnings=(*permit.warnings, warning))


@cache
def _keep_loaded() -> SessionOptions:
    """Keep OpenVINO's libraries until the process ends.

    Otherwise, they are released with the last session. If this happens in another thread, OpenVINO also releases the
    memory in which the thread that created the first session handles signals. The next signal terminates the process.
    """
    options = SessionOptions()
    with suppress(Exception):  # the error of the session itself is better
        options.add_provider(OPENVINO, {})
    return options


def _order_of(session: InferenceSession) -> RunOrder:
    def make() -> RunOrder:
        return RunOrder(weakref.ref(session), None, "the application created the session")

    return state_of(session).keep(OpenVINOPart.name, make)


def _io_binding(session: Callable[[], InferenceSession]) -> IOBinding:
    """Return an IO binding that keeps its inner session, as ORT's own bindings do from 1.31 on."""
    binding = IOBinding(session())
    binding._session = session()._sess
    return binding
