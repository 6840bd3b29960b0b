# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""``python -m onnxruntime.backend run``: run a model configured, and tell what ORT applied and what came of it."""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import textwrap
import threading
import time
import warnings
from pathlib import Path

import numpy as np

import onnxruntime
from onnxruntime.backend import backend, configuration, tensor_values
from onnxruntime.backend.allowlist_providers import PROVIDERS
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep

CPU = "CPUExecutionProvider"
RECORD_ASSIGNMENT = "session.record_ep_graph_assignment_info"


class MistakeError(Exception):
    """What a person did not mean: told in one line, without a traceback."""


def one_line(message: object) -> str:
    """A message without line breaks."""
    return " ".join(str(message).split())


def add_to(commands: argparse._SubParsersAction, parent: argparse.ArgumentParser) -> None:
    """Add the command to a parser.

    :param commands: the parser's commands.
    :param parent: a parser of the options that all commands share.
    """
    parser = commands.add_parser(
        "run", parents=[parent], help="run a model configured, and tell what ORT applied",
        description="Run a model with a configuration, and tell what ORT applied and what came of it.",
        epilog="""Inputs that are not given are random, the same at every run: numbers from 0 to 1, whole numbers 0 and
        1, texts 'text'. Entries given here win over those of --config, and both over ORT_ONNX_BACKEND_CONFIG.""",
    )  # fmt: skip
    add = parser.add_argument
    add("model", metavar="MODEL", help="an ONNX or ORT file")
    add("--device", metavar="D", help="such as CPU or CUDA:1")
    add(
        "--provider-option", metavar="EP.OPTION=VALUE", action="append", default=[],
        help="run on this EP with this option; EP alone names it without options",
    )  # fmt: skip
    add("--session-config", metavar="KEY=VALUE", action="append", default=[], help="a session config entry")
    add("--run-config", metavar="KEY=VALUE", action="append", default=[], help="a run config entry")
    add("--config", metavar="FILE|JSON", default="{}", help="the three configurations, as for check")
    add(
        "--input", metavar="NAME=VALUE", action="append", default=[],
        help="FILE.npy, random, or a number or list such as 16000 or [1,2]",
    )  # fmt: skip
    add(
        "--shape", metavar="NAME=1x3x224x224", action="append", default=[],
        help="the shape of a random input that the model leaves open",
    )  # fmt: skip
    add("--repeat", metavar="N", type=_count, default=10, help="runs to take the median of (10)")
    add("--compare", action="store_true", help="compare the outputs with those of the CPU EP, not configured")
    add("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(command=command)


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!a} is not a whole number from 1 to 1000000")
    return int(text)


def provider_named(text: str) -> str:
    """The EP that a short name such as ``cuda`` stands for; any other text as it is."""
    for name in (*PROVIDERS, *onnxruntime.get_available_providers()):
        if text.lower() in (name.lower(), name.lower().removesuffix("executionprovider")):
            return name
    return text


def _provider_and_option(text: str) -> tuple[str, str]:
    """The name of the EP in EP.OPTION=VALUE, and the rest, which may be empty."""
    dots = [index for index, character in enumerate(f"{text.partition('=')[0]}.") if character == "."]
    for dot in reversed(dots):  # an EP's name may hold a dot itself
        name = provider_named(text[:dot])
        if name in PROVIDERS:
            return name, text[dot + 1 :]
    return text[: dots[0]], text[dots[0] + 1 :]


def read_configuration(text: str) -> dict[str, object]:
    """The three configurations that a JSON text or the file of that name holds, ``None`` for those it lacks."""
    try:
        inline = text.lstrip().startswith("{")
        return dict.fromkeys(configuration.KEYWORDS) | (
            configuration.parse(text) if inline else configuration.parse_file(text)
        )
    except OSError as error:
        raise MistakeError(f"cannot read {text}: {error.strerror}") from None
    except ValueError as error:
        raise MistakeError(f"{'the configuration' if inline else text}: {error}") from None


def command(chosen: argparse.Namespace) -> int:
    """Run the command.

    :param chosen: its arguments.
    :return: the exit status.
    """
    given = _configured(chosen)
    if not Path(chosen.model).is_file():
        raise MistakeError(f"there is no file {chosen.model}")
    with _Progress() as progress:
        progress.doing = f"opening {chosen.model}"
        rep = _prepare(chosen, given)
        feeds = _inputs(rep._session.get_inputs(), chosen.input, chosen.shape)
        result, outputs = _measure(rep, feeds, chosen.repeat, progress)
        if chosen.compare:
            progress.doing = "comparing with the CPU execution provider"
            reference = _attempt(lambda: _unconfigured(chosen.model).run(feeds))
            for told, output, expected in zip(result["outputs"], outputs, reference, strict=True):
                told["difference"] = _difference(output, expected)
    session_config = dict(rep.session_config)
    if RECORD_ASSIGNMENT not in chosen.asked:
        session_config.pop(RECORD_ASSIGNMENT, None)
    result = {
        "model": chosen.model,
        "providers": list(rep.providers),
        "provider_options": {name: dict(options) for name, options in rep.provider_options.items()},
        "unconfirmed": {name: list(options) for name, options in rep.unconfirmed.items()},
        "session_config": session_config,
        "run_config": dict(rep.run_config),
        "nodes": None if rep.node_assignment is None else dict(rep.node_assignment),
        "inputs": [
            {"name": node.name, **_described(value)}
            for node, value in zip(rep._session.get_inputs(), feeds, strict=True)
        ],
        **result,
    }
    print(json.dumps(result, indent=2, allow_nan=False) if chosen.json else _told(result))
    return 0


def _configured(chosen: argparse.Namespace) -> dict[str, object]:
    """The three configurations, the single entries over those of --config."""
    given = read_configuration(chosen.config)
    for text in chosen.provider_option:
        name, option = _provider_and_option(text)
        if not name:
            raise MistakeError(f"--provider-option takes EP.OPTION=VALUE, not {text!a}")
        given["provider_options"] = given["provider_options"] or {}
        options = given["provider_options"].setdefault(name, {})
        if option:
            options.update([_entry("--provider-option", "EP.OPTION=VALUE", option, text)])
    for flag, keyword in (("--session-config", "session_config"), ("--run-config", "run_config")):
        for text in getattr(chosen, keyword):
            given[keyword] = {**(given[keyword] or {}), **dict([_entry(flag, "KEY=VALUE", text, text)])}
    # Node counts come of a session config entry, which is no more worth telling than that they were wanted.
    chosen.asked = frozenset(given["session_config"] or {})
    if hasattr(onnxruntime.InferenceSession, "get_provider_graph_assignment_info"):
        given["session_config"] = {RECORD_ASSIGNMENT: "1", **(given["session_config"] or {})}
    return given


def _entry(flag: str, form: str, text: str, whole: str) -> tuple[str, object]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise MistakeError(f"{flag} takes {form}, not {whole!a}")
    return key, {"true": True, "false": False}.get(value.lower(), value)


def _attempt(call):
    """Call the library or ORT, which has many types of errors with no common base of their own."""
    try:
        return call()
    except Exception as error:
        raise MistakeError(error) from error


def _prepare(chosen: argparse.Namespace, given: dict[str, object]) -> OnnxRuntimeBackendRep:
    return _attempt(lambda: backend.prepare(chosen.model, chosen.device, **given))


def _unconfigured(model: str) -> OnnxRuntimeBackendRep:
    # Not through prepare, which would ask the environment for a configuration.
    return OnnxRuntimeBackendRep(onnxruntime.InferenceSession(model, providers=[CPU]))


def _measure(
    rep: OnnxRuntimeBackendRep, feeds: list[object], repeat: int, progress: _Progress
) -> tuple[dict[str, object], list[object]]:
    """What the runs gave, and the outputs of the first one, which is not timed."""
    progress.doing = "first run"
    outputs = _attempt(lambda: rep.run(feeds))
    seconds = []
    for index in range(repeat):
        progress.doing = f"run {index + 1} of {repeat}"
        started = time.perf_counter()
        _attempt(lambda: rep.run(feeds))
        seconds.append(time.perf_counter() - started)
    described = [
        {"name": node.name, **_described(value)}
        for node, value in zip(rep._session.get_outputs(), outputs, strict=True)
    ]
    return {"outputs": described, "repeat": repeat, "median_ms": statistics.median(seconds) * 1000}, outputs


# --- inputs ---


def _inputs(nodes: list, given: list[str], shapes: list[str]) -> list[object]:
    """A value for every input, in the model's order."""
    values = _by_name("--input", "NAME=VALUE", given, nodes)
    dimensions = {
        name: _shape(name, text) for name, text in _by_name("--shape", "NAME=1x3x224x224", shapes, nodes).items()
    }
    random = [node for node in nodes if values.get(node.name, "random") == "random"]
    for name in dimensions:
        if name not in [node.name for node in random]:
            raise MistakeError(f"--shape {name}: only a random input takes a shape, and a value is given for this one")
    needed = [
        f"--shape {node.name}={'x'.join(str(size) if isinstance(size, int) else '1' for size in node.shape)}"
        for node in random
        if node.name not in dimensions and not all(isinstance(size, int) for size in node.shape)
    ]
    if needed:
        takes = "; ".join(
            f"{node.name}: {node.type}{[size if isinstance(size, int) else '?' for size in node.shape]}"
            for node in nodes
        ).replace("'", "")
        raise MistakeError(f"the model leaves shapes open ({takes}); give them, such as {' '.join(needed)}")
    return [
        _random(node, dimensions.get(node.name, node.shape), seed)
        if node in random
        else _value(node, values[node.name])
        for seed, node in enumerate(nodes)
    ]


def _by_name(flag: str, form: str, given: list[str], nodes: list) -> dict[str, str]:
    names = [node.name for node in nodes]
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise MistakeError(f"{flag} takes {form}, not {text!a}")
        if name not in names:
            raise MistakeError(f"{flag}: the model has no input {name!a}; it takes {', '.join(names)}")
        found[name] = value
    return found


def _shape(name: str, text: str) -> tuple[int, ...]:
    sizes = text.split("x") if text else []
    if not all(size.isdecimal() and len(size) < 12 for size in sizes):
        raise MistakeError(f"--shape {name}: {text!a} is no shape; write it as 1x3x224x224")
    return tuple(map(int, sizes))


def _random(node, shape: tuple[int, ...], seed: int) -> np.ndarray:
    element = tensor_values.element_type(node.type)
    if element is None:
        raise MistakeError(f"input {node.name} is a {node.type}, which this command cannot make")
    dtype = tensor_values.dtype_of(element)
    try:
        if dtype.kind == "O":
            return np.full(shape, "text", dtype)
        generator = np.random.default_rng(seed)
        if dtype.name.startswith(("int", "uint", "bool")):
            # The values that are most likely to mean something: indices, lengths, masks.
            return generator.integers(0, 2, shape).astype(dtype)
        return generator.random(shape).astype(dtype)
    except (MemoryError, ValueError) as error:
        raise MistakeError(f"--shape {node.name}: {error}") from None


def _value(node, text: str) -> object:
    if text.endswith(".npy"):
        try:
            value = np.load(text, allow_pickle=False)
        except OSError as error:
            raise MistakeError(f"--input {node.name}: cannot read {text}: {error.strerror or error}") from None
        except (ValueError, EOFError) as error:
            raise MistakeError(f"--input {node.name}: {text} is no array in a .npy file: {error}") from None
        if not isinstance(value, np.ndarray):
            raise MistakeError(f"--input {node.name}: {text} holds several arrays, or none")
        return value
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    element = tensor_values.element_type(node.type)
    if not isinstance(value, (int, float, list)) or element is None:
        raise MistakeError(
            f"--input {node.name}: {text!a} is neither a .npy file, random, nor a number or a list of them"
        )
    try:
        return tensor_values.as_array(value, tensor_values.dtype_of(element))
    except ValueError:
        raise MistakeError(f"--input {node.name}: {text!a} does not fit {node.type}") from None


# --- outputs ---


def _described(value: object) -> dict[str, object]:
    if isinstance(value, np.ndarray):
        return {"type": "string" if value.dtype.kind == "O" else value.dtype.name, "shape": list(value.shape)}
    return {"type": type(value).__name__, "shape": None}


def _difference(value: object, expected: object) -> float | str:
    """The largest absolute difference between numbers; a word where there is none."""
    if not isinstance(value, np.ndarray) or not isinstance(expected, np.ndarray):
        return "not compared"
    if value.shape != expected.shape:
        return f"shape {list(expected.shape)} on CPU"
    if value.dtype.kind in "Ob":
        return 0.0 if np.array_equal(value, expected) else "different"
    kind = np.complex128 if value.dtype.kind == "c" else np.float64
    ours, theirs = value.astype(kind), expected.astype(kind)
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))  # infinities less themselves are no numbers
    with np.errstate(invalid="ignore"), warnings.catch_warnings():
        largest = float(np.max(np.abs(ours - theirs), where=~same, initial=0.0))
    return largest if math.isfinite(largest) else "not finite"


def _told(result: dict) -> str:
    """The result for a person, in 79 columns."""
    lines: list[str] = []

    def tell(label: str, *texts: str) -> None:
        for index, text in enumerate(texts):
            first = f"{label if index == 0 else '':17} "
            lines.append(
                textwrap.fill(text, 79, initial_indent=first, subsequent_indent=" " * 20, break_on_hyphens=False)
            )

    def entries(values: dict) -> list[str]:
        return [f"{key} = {text}" for key, text in values.items()]

    tell("model", result["model"])
    tell("providers", ", ".join(result["providers"]))
    for name, options in result["provider_options"].items():
        tell("provider_options", *entries({f"{name}.{option}": text for option, text in options.items()}))
    for name, options in result["unconfirmed"].items():
        tell("unconfirmed", f"{name}: {', '.join(options)} (given to the EP, which has no way to report it)")
    tell("session_config", *entries(result["session_config"]))
    tell("run_config", *entries(result["run_config"]))
    if result["nodes"] is not None:
        named = result["provider_options"]
        counts = [f"{count} on {name}" for name, count in result["nodes"].items() if count or name in named]
        tell("nodes", ", ".join(counts))
    for label in ("input", "output"):
        for value in result[f"{label}s"]:
            shape = "" if value["shape"] is None else f" {value['shape']}"
            tell(label, f"{value['name']}: {value['type']}{shape}")
            if "difference" in value:
                found = value["difference"]
                tell("", f"  largest difference from CPU: {found if isinstance(found, str) else f'{found:.3g}'}")
    tell("latency", f"{result['median_ms']:.3g} ms, median of {result['repeat']} runs after a first one")
    return "\n".join(lines)


class _Progress:
    """Says on stderr what is going on, every two seconds."""

    doing = ""
    seconds = 2.0

    def __enter__(self) -> _Progress:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tell, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _tell(self) -> None:
        start, end = ("\r", "") if sys.stderr.isatty() else ("", "\n")
        told = False
        while not self._over.wait(self.seconds):
            text = self.doing if len(self.doing) < 80 else f"{self.doing[:76]}..."
            print(f"{start}{text:<79}" if start else text, end=end, file=sys.stderr, flush=True)
            told = True
        if told and start:
            print(f"{start}{'':79}{start}", end="", file=sys.stderr, flush=True)
