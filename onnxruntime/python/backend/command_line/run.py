# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Run a model with a configuration, and show the applied settings, the outputs and the latency.

With several --config options, their runs alternate, and each latency is compared with the first. Inputs without --input
get random values that are the same in every invocation: floats from 0 to 1, integers 0 or 1, strings 'text'. Options on
the command line override --config, and both override ORT_ONNX_BACKEND_CONFIG. The exit status is 1 if a configuration
fails or outputs differ with --compare.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import onnxruntime
from onnxruntime.backend import backend
from onnxruntime.backend.allowlist.ort_options import RECORD_ASSIGNMENT
from onnxruntime.backend.allowlist.refusals.suggestions import provider_named
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep
from onnxruntime.backend.command_line import configurations, inputs, measure
from onnxruntime.backend.command_line.output import MistakeError, Page
from onnxruntime.backend.configuration import KEYWORDS, LIBRARIES
from onnxruntime.backend.provider_names import CPU
from onnxruntime.backend.request import FROM_ENVIRONMENT
from onnxruntime.backend.session import presence

_WARM_UP = 3
# The default number of measured runs: as many as fit into this time, within these bounds.
_SECONDS, _FEWEST, _MOST = 2.0, 10, 1000
# Keyword argument to flag, metavariable, and help.
_FLAGS = {
    "provider_options": ("--provider-option", "EP.OPTION=VALUE", "use EP with this option, or EP with the defaults"),
    "session_config": ("--session-config", "KEY=VALUE", "set a session config entry"),
    "run_config": ("--run-config", "KEY=VALUE", "set a run config entry"),
    "session_options": ("--session-option", "NAME=VALUE", "set a SessionOptions attribute"),
    "free_dimension_overrides": ("--free-dimension", "NAME=SIZE", "set the size of a named free dimension"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add, several = parser.add_argument, {"action": "append", "default": []}
    add("model", metavar="MODEL", help="an ONNX or ORT file")
    add("--device", metavar="DEVICE", help="request DEVICE, such as CPU or CUDA:1 (default: the device of the wheel)")
    for keyword, (flag, form, use) in _FLAGS.items():
        add(flag, metavar=form, dest=keyword, help=use, **several)
    add_extension(parser)
    use = "use a configuration, in a form that check accepts; repeat the option to compare configurations"
    add("--config", metavar="FILE|JSON|-", help=use, **several)
    use = "set an input to VALUE: FILE.npy, JSON such as 16000, [1,2] or '[\"text\"]', or random (default: random)"
    add("--input", metavar="NAME=VALUE", help=use, **several)
    add("--shape", metavar="NAME=1x3x224x224", help="set the shape of a random input with free dimensions", **several)
    use = f"measure N runs after {_WARM_UP} warm-up runs; 0 only creates the session (default: 10 to 1000, for 2 s)"
    add("--repeat", metavar="N", type=int, help=use)
    use = "compare the outputs with the CPU EP in its default configuration; exit with 1 if they differ"
    add("--compare", action="store_true", help=use)
    add("--rtol", metavar="X", type=_tolerance, default=1e-3, help="set the relative tolerance (default: 0.001)")
    add("--atol", metavar="X", type=_tolerance, default=1e-5, help="set the absolute tolerance (default: 1e-05)")


def add_extension(parser: argparse.ArgumentParser) -> None:
    use = "register a custom operator library: PACKAGE, such as onnxruntime_extensions, or LIBRARY"
    parser.add_argument("--extension", metavar="PACKAGE|LIBRARY", action="append", default=[], help=use)


def _tolerance(text: str) -> float:
    if not 0 <= float(text) < math.inf:
        raise argparse.ArgumentTypeError(f"invalid value {text!a}. Expected a number, 0 or more")
    return float(text)


@dataclass
class _Tried:
    """A configuration, and the results of its runs."""

    label: str
    specified: dict[str, object]
    rep: OnnxRuntimeBackendRep | None = None
    outputs: list[object] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    differences: list[dict[str, object]] = field(default_factory=list)
    error: Exception | None = None

    def attempt(self, call: Callable[[], object]) -> object:
        """Call a function that uses ORT, and keep its error. After an error, do nothing."""
        if self.error is None:
            try:
                return call()
            except Exception as error:  # ORT raises classes without a common base
                self.error = error
        return None


def execute(chosen: argparse.Namespace) -> tuple[dict[str, object], int]:
    if chosen.repeat is not None and not 0 <= chosen.repeat <= 10**6:
        raise MistakeError(f"--repeat {chosen.repeat}: expected an integer from 0 to 1000000")
    if chosen.compare and chosen.repeat == 0:
        raise MistakeError("--compare requires outputs, and --repeat 0 computes none. Omit one of the two options")
    tried = [_configured(chosen, text) for text in chosen.config or ["{}"]]
    for one in tried:
        one.rep = one.attempt(lambda one=one: prepare(chosen.model, one.specified, chosen.device))
    opened = [one for one in tried if one.rep is not None]
    feeds: list[object] = []
    if opened and chosen.repeat != 0:
        feeds = inputs.values(opened[0].rep.session.get_inputs(), chosen.input, chosen.shape)
        _measure(chosen.repeat, opened, feeds)
        if chosen.compare:
            _compare(chosen, opened, feeds)
    if len(tried) == 1 and tried[0].error:
        raise MistakeError(str(tried[0].error)) from tried[0].error
    nodes = opened[0].rep.session.get_inputs() if feeds else []
    result = {
        "model": chosen.model,
        "inputs": [{"name": node.name, **inputs.described(value)} for node, value in zip(nodes, feeds, strict=True)],
        "tolerance": {"relative": chosen.rtol, "absolute": chosen.atol} if chosen.compare else None,
        "configurations": [_result(one, tried[0]) for one in tried],
    }
    failed = any(one.error or not all(found["within"] for found in one.differences) for one in tried)
    return result, 1 if failed else 0


def _configured(chosen: argparse.Namespace, config: str) -> _Tried:
    """Return a configuration with the options of the command line."""
    specified = configurations.read(config)
    specified["extensions"] = [*chosen.extension, *specified.get("extensions", [])]
    for keyword, (flag, form, _) in _FLAGS.items():
        for text in getattr(chosen, keyword):
            settings, name, entry = specified.setdefault(keyword, {}), keyword, text
            if keyword == "provider_options":
                name, entry = _provider_and_option(text)
                settings = settings.setdefault(name, {})
            key, equals, value = entry.partition("=")
            if name and key and equals:
                settings[key] = {"true": True, "false": False}.get(value.lower(), value)
            elif entry or not name or keyword != "provider_options":
                raise MistakeError(f"{flag}: invalid value {text!a}. Expected {form}")
    return _Tried(config, specified)


def _provider_and_option(text: str) -> tuple[str, str]:
    """Split EP.OPTION=VALUE into the EP and the rest, which may be empty."""
    dots = [index for index, character in enumerate(f"{text.partition('=')[0]}.") if character == "."]
    for dot in reversed(dots):  # the name of an EP can contain a dot
        if name := provider_named(text[:dot], presence.kinds()):
            return name, text[dot + 1 :]
    return text[: dots[0]], text[dots[0] + 1 :]


def prepare(
    model: str, config: dict[str, object], device: str | None = None, inherited: Iterable[str] = KEYWORDS
) -> OnnxRuntimeBackendRep:
    """Prepare a model, with a record of node assignments and the best reason if that fails."""
    if not Path(model).is_file():
        raise MistakeError(f"no such file: {model}")
    specified = {keyword: value for keyword, value in config.items() if keyword not in LIBRARIES}
    if hasattr(onnxruntime.InferenceSession, "get_provider_graph_assignment_info"):
        specified["session_config"] = {RECORD_ASSIGNMENT: "1", **specified.get("session_config", {})}
    try:
        with configurations.environment(config, inherited):
            return backend.prepare(model, device, **specified)
    except Exception as error:
        custom = "is not a registered function/op" in str(error)
        hint = ". Use --extension to register custom operators" if custom else ""
        # The command puts its own libraries into the environment's configuration.
        of_command = config.get("extensions") and str(error).startswith("Extension ")
        text = str(error).removesuffix(FROM_ENVIRONMENT) if of_command else error
        raise MistakeError(f"{text}{hint}") from error


def _measure(repeat: int | None, opened: list[_Tried], feeds: list[object]) -> None:
    """Run the configurations in turns. The default is two seconds for each, but not fewer or more runs than allowed."""
    most, enough = (_MOST, _SECONDS * len(opened)) if repeat is None else (repeat, math.inf)
    for index in range(-_WARM_UP, most):
        if index <= 0:
            begun = time.perf_counter()
        elif index >= _FEWEST and time.perf_counter() - begun > enough:
            break
        for one in opened:
            started = time.perf_counter()
            one.outputs = one.attempt(lambda one=one: one.rep.run(feeds))
            if index >= 0:
                one.seconds.append(time.perf_counter() - started)


def _compare(chosen: argparse.Namespace, opened: list[_Tried], feeds: list[object]) -> None:
    """Compare the outputs with those of the CPU EP, with custom operator libraries and no other setting."""
    default = {"provider_options": {CPU: {}}, "extensions": opened[0].specified["extensions"]}
    try:
        reference = prepare(chosen.model, default, inherited=()).run(feeds)
    except Exception as error:
        raise MistakeError(f"--compare: the CPU EP in its default configuration fails: {error}") from error
    for one in opened:
        if one.error is None:
            one.differences = [
                measure.difference(output, expected, chosen.rtol, chosen.atol)
                for output, expected in zip(one.outputs, reference, strict=True)
            ]


def _result(one: _Tried, first: _Tried) -> dict[str, object]:
    if one.error is not None:
        return {"configuration": one.label, "error": configurations.problem(one.error, one.specified)}
    rep = one.rep
    session_config = dict(rep.session_config)
    if RECORD_ASSIGNMENT not in one.specified.get("session_config", {}):
        session_config.pop(RECORD_ASSIGNMENT, None)
    outputs, latency = [], None
    if one.seconds:
        pairs = zip(rep.session.get_outputs(), one.outputs, strict=True)
        outputs = [{"name": node.name, **inputs.described(value)} for node, value in pairs]
        figures = measure.percentiles(one.seconds)
        ratio = None if first.error else figures["p50"] / measure.percentiles(first.seconds)["p50"]
        latency = {**figures, "runs": len(one.seconds), "warm_up": _WARM_UP, "ratio_to_first": ratio}
    for output, found in zip(outputs, one.differences, strict=False):
        output["difference"] = found
    return {
        "configuration": one.label,
        "error": None,
        "providers": [{"name": name, "kind": presence.kinds().get(name, "")} for name in rep.providers],
        "provider_options": {name: dict(options) for name, options in rep.provider_options.items()},
        "unconfirmed": {name: dict(settings) for name, settings in rep.unconfirmed.items()},
        "session_options": {name: getattr(value, "name", value) for name, value in rep.session_options.items()},
        "session_config": session_config,
        "run_config": dict(rep.run_config),
        "extensions": list(rep.extensions),
        "warnings": list(rep.warnings),
        "nodes": None if rep.node_assignment is None else dict(rep.node_assignment),
        "outputs": outputs,
        "latency_ms": latency,
    }


def show(result: dict, page: Page) -> None:
    page.add(result["model"], 18, "model")
    page.rows("input", [inputs.declaration(value) for value in result["inputs"]], 18)
    several = len(result["configurations"]) > 1
    for index, configuration in enumerate(result["configurations"], 1):
        if several:
            page.add()
            page.add(configuration["configuration"], 4, str(index))
        if configuration["error"]:
            page.add(configuration["error"]["message"], 18, "error")
        else:
            _show_configuration(configuration, several, page)
    if several:
        page.add()
        _show_table(result, page)


def _show_configuration(found: dict, several: bool, page: Page) -> None:
    specified, nodes = found["provider_options"], found["nodes"]
    page.add(", ".join(f"{one['name']} ({one['kind']})" for one in found["providers"]), 18, "providers")
    for name, options in specified.items():
        page.rows("provider_options", [f"{name}.{option} = {text}" for option, text in options.items()], 18)
    for name, options in found["unconfirmed"].items():
        page.add(f"{name}: {', '.join(options)} (not reported, or without effect in this session)", 18, "unconfirmed")
    for keyword in ("session_options", "session_config", "run_config"):
        page.rows(keyword, [f"{key} = {text}" for key, text in found[keyword].items()], 18)
    page.rows("extensions", found["extensions"], 18)
    if nodes is not None:
        counts = [f"{count} on {name}" for name, count in nodes.items() if count or name in specified]
        page.add(", ".join(counts), 18, "nodes")
    for output in found["outputs"]:
        page.add(inputs.declaration(output), 18, "output")
        if "difference" in output:
            page.add(_verdict(output["difference"]), 18)
    if found["latency_ms"] and not several:
        latency = found["latency_ms"]
        figures = ", ".join(f"{name} {latency[name]:.3g}" for name in ("p50", "p90", "p99"))
        runs = f"{latency['runs']} run{'s' if latency['runs'] > 1 else ''}, after {latency['warm_up']} warm-up runs"
        page.add(f"{figures} ms ({runs})", 18, "latency")


def _verdict(found: dict) -> str:
    start = "matches the CPU EP" if found["within"] else "DIFFERS from the CPU EP"
    if found["note"]:
        return f"{start} ({found['note']})"
    return f"{start} (max absolute difference {found['absolute']:.2g}, max relative difference {found['relative']:.2g})"


def _show_table(result: dict, page: Page) -> None:
    """Add one row for each configuration."""
    titles = ["p50 ms", "p90 ms", "p99 ms", "ratio", *(["outputs"] if result["tolerance"] else [])]
    rows = [["", *titles]]
    for index, found in enumerate(result["configurations"], 1):
        cells = ["failed" if found["error"] else "-", *"-" * (len(titles) - 1)]
        if latency := found.get("latency_ms"):
            ratio = "-" if latency["ratio_to_first"] is None else f"{latency['ratio_to_first']:.2f}"
            cells = [*(f"{latency[name]:.3g}" for name in ("p50", "p90", "p99")), ratio]
            if result["tolerance"]:
                cells.append("match" if all(one["difference"]["within"] for one in found["outputs"]) else "DIFFER")
        rows.append([str(index), *cells])
    page.table(rows)
