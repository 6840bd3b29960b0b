# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Reads ORT's record of a session's nodes: the EP and the operator of each."""

from collections import Counter
from collections.abc import Iterable, Mapping

from onnxruntime import InferenceSession
from onnxruntime.backend.allowlist.permit import Permit
from onnxruntime.backend.provider_names import CPU

_MOST_OPERATORS = 5
NHWC = "com.ms.internal.nhwc"  # ORT's domain of the copies of operators in this layout, which some EPs get


class NodeAssignment(dict[str, int]):
    """The number of nodes of each EP, in the order of the session. Its text is a sentence."""

    def __repr__(self) -> str:
        text = ", ".join(f"{count} on {name}" for name, count in self.items())
        return text.replace(" on ", f" of {sum(self.values())} nodes on ", 1)


def node_assignment(session: InferenceSession) -> NodeAssignment | None:
    """Return the number of nodes that each EP of a session took, or ``None`` if ORT has no record.

    ORT records nothing for a model in ORT format, for example.
    """
    nodes = recorded_nodes(session)
    if any(nodes.values()):
        return NodeAssignment((name, len(of_ep)) for name, of_ep in nodes.items())
    return None


def recorded_nodes(session: InferenceSession) -> dict[str, list]:
    """Return the nodes of each EP, empty without a record. This takes time that grows with the model."""
    try:
        subgraphs = session.get_provider_graph_assignment_info()
    except Exception:  # ORT raises its own Fail if the record is off
        return {}
    nodes: dict[str, list] = {}
    for name in session.get_providers():
        nodes[name] = []
    for subgraph in subgraphs:
        of_ep = nodes.setdefault(subgraph.ep_name, [])
        of_ep.extend(subgraph.get_nodes())
    return nodes


def about_idle_providers(session: InferenceSession, permit: Permit) -> list[str]:
    """Return a warning for each specified EP without a node, which ORT permits silently."""
    others = [name for name in permit.providers if name != CPU]
    if not permit.explicit or not others:
        return []
    nodes = recorded_nodes(session)
    if not nodes:
        return []
    # ORT's record is partial for WebGPU in NHWC layout. An input or output in the EP's memory is proof, too.
    infos = session.get_input_memory_infos() + session.get_output_memory_infos()
    memories = " ".join(info.name for info in infos).lower()
    with_nodes = ", ".join(name for name, taken in nodes.items() if taken)
    warnings = []
    for name in others:
        device = name.removesuffix("ExecutionProvider").lower()
        if nodes.get(name) or device in memories:
            continue
        warnings.append(
            f"No node of this model is assigned to {name}, which provider_options specifies. The model runs on "
            f"{with_nodes or 'no EP'}. Check that {name} supports the model's operators, types and free dimensions. To "
            "make a node on the CPU EP an error, set session_config={'session.disable_cpu_ep_fallback': '1'}"
        )
    return warnings


def operator_of(node) -> str:
    """Return the operator of a node, with its domain if the operator is not ONNX's."""
    name = f"{node.domain}:{node.op_type}"
    for prefix in (NHWC, "ai.onnx:", ":"):
        name = name.removeprefix(prefix)
    return name


def count_operators(nodes: Iterable) -> dict[str, int]:
    """Return the number of nodes of each operator, most frequent first."""
    operators = Counter(map(operator_of, nodes))
    return dict(operators.most_common())


def most_frequent(operators: Mapping[str, int]) -> str:
    """Return the most frequent operators, which come first, with their numbers of nodes."""
    texts = []
    for name, count in operators.items():
        texts.append(f"{name[:60]} {count}")
    others = len(texts) - _MOST_OPERATORS
    if others > 0:
        plural = "s" if others > 1 else ""
        texts[_MOST_OPERATORS:] = [f"and {others} other operator{plural}"]
    return ", ".join(texts)
