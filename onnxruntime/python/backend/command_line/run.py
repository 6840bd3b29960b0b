# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Run a model with a configuration, and show the applied settings, the outputs and the latency.

With several --config options, or with --reference, the sessions run in turns, and each is compared with the first. A
ratio of latencies has a 95 % interval, and is called faster, slower or equal only if the interval permits this.

Inputs without --input get random values: floats from 0 to 1, integers 0 or 1, strings 'text'. Options on the command
line override --config, and both override ORT_ONNX_BACKEND_CONFIG. The exit status is 1 if a configuration fails or
outputs differ.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import re
from collections.abc import Iterator
from typing import Any

import onnxruntime
from onnxruntime.backend import __version__
from onnxruntime.backend.allowlist.suggestions import provider_named
from onnxruntime.backend.applied.nodes import most_frequent
from onnxruntime.backend.command_line import configurations, input_texts
from onnxruntime.backend.command_line.configurations import entries
from onnxruntime.backend.command_line.output import INTERRUPTED, Cell, MistakeError, Table, pairs, progress
from onnxruntime.backend.comparison import comparing, inputs
from onnxruntime.backend.comparison.results import APPLIED, described
from onnxruntime.backend.comparison.side import Side
from onnxruntime.backend.provider_names import CPU
from onnxruntime.backend.session import presence

_BOOLS = {"true": True, "false": False}
_BAR = 10  # characters, at most: the table fits into 80 columns
# Keyword argument to flags, metavariable, and help.
_SETTINGS = {
    "provider_options": (
        ["--ep", "--provider-option", "--device"],
        "EP[.OPTION=VALUE]",
        "use EP with this option, or EP with the defaults; EP:1 sets its device_id",
    ),
    "session_config": (["--session-config"], "KEY=VALUE", "set a session config entry"),
    "run_config": (["--run-config"], "KEY=VALUE", "set a run config entry"),
    "session_options": (["--session-option"], "NAME=VALUE", "set a SessionOptions attribute"),
    "free_dimension_overrides": (["--free-dimension"], "NAME=SIZE", "set the size of a named free dimension"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    several: dict[str, Any] = {"action": "append", "default": []}
    add("model", metavar="MODEL", help="an ONNX or ORT file")
    for keyword, (flags, form, use) in _SETTINGS.items():
        add(*flags, metavar=form, dest=keyword, help=use, **several)
    add_libraries(parser)
    use = "use a configuration, in a form that check accepts; repeat the option to compare configurations"
    add("--config", metavar="FILE|JSON|-", help=use, **several)
    use = "set an input to VALUE: FILE.npy, JSON such as 16000, [1,2] or '[\"text\"]', or random (default: random)"
    add("--input", metavar="NAME=VALUE|FILE.npy", help=use, **several)
    use = "set the shape of a random input (default: as in the model; free dimensions 1, or 32 or 224 if 1 fails)"
    add("--shape", metavar="NAME=1x3x224x224", help=use, **several)
    use = "measure N runs; 0 only creates the session (default: for 2 s, and in 10 turns or more)"
    add("-n", "--repeat", metavar="N", type=_number_of_runs, help=use)
    use = "compare with another model, such as the one before quantization, which has the first configuration"
    add("--reference", metavar="MODEL", help=use)
    use = "compare the outputs with the first configuration, or a single configuration with the CPU EP"
    add("--compare", action="store_true", help=use)
    for name, default in (("rtol", 1e-3), ("atol", 1e-5)):
        use = f"set the {name} of numpy.testing.assert_allclose for outputs (default: {default})"
        add(f"--{name}", metavar="X", type=float, default=default, help=use)


def add_libraries(parser: argparse.ArgumentParser) -> None:
    use = "register a custom operator library: PACKAGE, such as onnxruntime_extensions, or LIBRARY"
    parser.add_argument("--extension", metavar="PACKAGE|LIBRARY", action="append", default=[], help=use)
    use = "register a plugin EP: PACKAGE, such as onnxruntime_ep_openvino, or LIBRARY under the name EP"
    parser.add_argument("--plugin", metavar="PACKAGE|EP=LIBRARY", action="append", default=[], help=use)


def _number_of_runs(text: str) -> int:
    with contextlib.suppress(ValueError):
        if 0 <= int(text) <= 10**6:
            return int(text)
    raise argparse.ArgumentTypeError(f"invalid value {text!a}. Expected an integer from 0 to 1000000")


def execute(chosen: argparse.Namespace) -> tuple[dict, int]:
    sides = _sides(chosen)
    described_inputs: list[dict] = []

    def feeds_of(side: Side) -> list | None:
        nodes = side.rep.session.get_inputs()
        given = input_texts.read(nodes, chosen.input, chosen.shape)
        if chosen.repeat == 0:
            return None
        feeds = inputs.feeds(side, *given)
        described_inputs.extend(map(inputs.described, nodes, feeds))
        return feeds

    tolerance = (chosen.rtol, chosen.atol) if chosen.compare or chosen.reference else None
    interrupted = False
    try:
        comparing.try_all(sides, feeds_of, chosen.repeat, tolerance, progress)
    except KeyboardInterrupt:
        interrupted = True
        if not any(side.blocks for side in sides):
            raise
    results = [described(side, sides[0]) for side in sides]
    if len(chosen.config) < 2 and results[-1]["error"]:
        raise MistakeError(results[-1]["error"]["message"]) from sides[-1].error
    result = {
        "model": chosen.model,
        "onnxruntime": onnxruntime.__version__,
        "backend": __version__,
        "inputs": described_inputs,
        "interrupted": interrupted,
        "configurations": results,
    }
    return result, INTERRUPTED if interrupted else int(any(_outputs(one).kind == "bad" for one in results))


def _sides(chosen: argparse.Namespace) -> list[Side]:
    sides = []
    for text in chosen.config or ["{}"]:
        config: dict = configurations.read(text or "{}")
        config["extensions"] = chosen.extension + config.get("extensions", [])
        for keyword in _SETTINGS:
            _add(config.setdefault(keyword, {}) if getattr(chosen, keyword) else {}, keyword, getattr(chosen, keyword))
        sides.append(Side(chosen.model, text or "{}", config))
    if chosen.reference:
        sides.insert(0, Side(chosen.reference, f"{chosen.reference} {sides[0].label}", sides[0].config))
    elif chosen.compare and len(sides) == 1:
        default = {"provider_options": {CPU: {}}, "extensions": sides[0].config["extensions"]}
        sides.insert(0, Side(chosen.model, "the CPU EP", default, inherits=False))
    return sides


def _add(settings: dict, keyword: str, texts: list[str]) -> None:
    """Add settings of the command line to the settings of their keyword argument."""
    flags, form, _ = _SETTINGS[keyword]
    for text in texts:
        container, entry = settings, text
        if keyword == "provider_options":
            ep, entry = _ep_and_option(text)
            container = settings.setdefault(ep, {})
            if ep and not entry:
                continue
        key, equals, value = entry.partition("=")
        if not (key and equals) or "" in settings:
            raise MistakeError(f"{flags[0]}: invalid value {text!a}. Expected {form}")
        container[key] = _BOOLS.get(value.lower(), value)


def _ep_and_option(text: str) -> tuple[str, str]:
    """Split EP.OPTION=VALUE into the EP and the rest, which may be empty."""
    text = re.sub(r":(\d+)$", r".device_id=\1", text)
    name = text.partition("=")[0]
    while name:  # the name of an EP can contain a dot
        known = provider_named("cuda" if name.lower() == "gpu" else name, presence.kinds())
        if known:
            return known, text[len(name) + 1 :]
        name = name.rpartition(".")[0]
    first, _, rest = text.partition(".")
    return first, rest


def tables(result: dict) -> Iterator[Table]:
    """Yield the inputs, what is particular to each configuration, and a table that compares them."""
    found = result["configurations"]
    yield pairs({"model": result["model"], "inputs": list(map(inputs.declaration, result["inputs"]))})
    rows = []
    for number, (one, bar) in enumerate(zip(found, _bars(found), strict=True), 1):
        label = f"{number}: {one['configuration']}"
        yield pairs(_facts(one), label)
        rows.append([label, *_figures(one["latency_ms"], number == 1), Cell(bar, "note"), _outputs(one)])
    if any(one["latency_ms"] for one in found):
        yield Table(rows, ("configuration", "p50 ms", "p99 ms", "runs", "ratio to 1", "", "outputs"))


def _facts(one: dict) -> dict[str, object]:
    """Return what is particular to a configuration: its error, or its nodes, its settings and outputs that differ."""
    if one["error"]:
        return {"error": one["error"]["message"]}
    counts = one["nodes"] or {}
    taken = [f"{ep.removesuffix('ExecutionProvider')} {count}" for ep, count in counts.items() if count]
    facts: dict[str, object] = {"nodes": ", ".join(taken) or "unknown"}
    if one["operators_on_cpu"]:
        facts["on the CPU EP"] = most_frequent(one["operators_on_cpu"])
    for name in APPLIED:
        facts[name] = list(entries(one[name]) if isinstance(one[name], dict) else one[name])
    for output in one["outputs"]:
        note = output.get("difference", {}).get("note")
        if note:
            facts[f"output {output['name']}"] = note
    return facts


def _bars(found: list[dict]) -> list[str]:
    """Return a bar for each ratio to the first configuration. The light part is the interval of the ratio."""
    intervals = [(one["latency_ms"] or {}).get("ratio_interval") or (0, 0) for one in found]
    scale = _BAR / max(1, *(high for _, high in intervals))
    bars = []
    for low, high in intervals:
        dark = round(scale * low)
        bars.append("\N{FULL BLOCK}" * dark + "\N{LIGHT SHADE}" * (round(scale * high) - dark))
    return bars if len(found) > 1 else [""]


def _figures(latency: dict | None, is_first: bool) -> Iterator[Cell | str]:
    """Yield the percentiles in milliseconds with three digits or more, the number of runs, and the ratio."""
    if latency is None:
        yield from [""] * 4
        return
    for name in ("p50", "p99"):
        yield f"{latency[name]:,.{max(0, 2 - math.floor(math.log10(latency[name])))}f}"
    yield str(latency["runs"])
    verdict = latency["verdict"]
    if is_first or verdict is None:
        yield ""
        return
    ratio = "{:.2f} ({:.2f} to {:.2f}) ".format(latency["ratio_to_first"], *latency["ratio_interval"])
    yield Cell(ratio + verdict, {"faster": "good", "slower": "bad"}.get(verdict, ""))


def _outputs(one: dict) -> Cell:
    if one["error"]:
        return Cell("FAILED", "bad")
    differences = [output["difference"] for output in one["outputs"] if "difference" in output]
    if not differences:
        return Cell("")
    largest = max(difference["absolute"] or 0 for difference in differences)
    if all(difference["within"] for difference in differences):
        return Cell(f"match ({largest:.1g})", "good")
    return Cell(f"DIFFER ({largest:.1g})", "bad")
