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

import argparse
import os
from collections.abc import Iterator
from typing import Any

import onnxruntime
from onnxruntime.backend import __version__
from onnxruntime.backend.allowlist.suggestions import provider_named
from onnxruntime.backend.applied.nodes import most_frequent
from onnxruntime.backend.command_line import configurations, input_texts
from onnxruntime.backend.command_line.output import INTERRUPTED, Cell, Table, pairs
from onnxruntime.backend.comparison import comparing, inputs, latency, outputs
from onnxruntime.backend.comparison.results import APPLIED, described
from onnxruntime.backend.comparison.side import Side
from onnxruntime.backend.provider_names import CPU
from onnxruntime.backend.session import presence

_BOOLS = {"true": True, "false": False}
_BAR = 8  # characters, at most: the table fits into 80 columns
# Keyword argument to flag, metavariable, and help.
_SETTINGS = {
    "provider_options": ("--ep", "EP[.OPTION=VALUE]", "use EP with this option, or EP with the defaults"),
    "session_config": ("--session-config", "KEY=VALUE", "set a session config entry"),
    "run_config": ("--run-config", "KEY=VALUE", "set a run config entry"),
    "session_options": ("--session-option", "NAME=VALUE", "set a SessionOptions attribute"),
    "free_dimension_overrides": ("--free-dimension", "NAME=SIZE", "set the size of a named free dimension"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    several: dict[str, Any] = {"action": "append", "default": []}
    add("model", metavar="MODEL", help="an ONNX or ORT file")
    for keyword, (flag, form, use) in _SETTINGS.items():
        add(flag, metavar=form, dest=keyword, help=use, **several)
    add_libraries(parser)
    use = "use a configuration, in a form that check accepts. Repeat the option to compare configurations"
    add("--config", metavar="FILE|JSON", help=use, **several)
    use = "set an input to VALUE: FILE.npy, or JSON such as 16000, [1,2] or '[\"text\"]' (default: random)"
    add("--input", metavar="NAME=VALUE", help=use, **several)
    use = "set the shape of a random input (default: as in the model; free dimensions 1, or 32 or 224 if 1 fails)"
    add("--shape", metavar="NAME=1x3x224x224", help=use, **several)
    use = "measure N runs, or with 0 only create the session (default: for 2 s, and in 10 turns or more)"
    add("-n", "--repeat", metavar="N", type=_number_of_runs, help=use)
    use = "compare with another model, such as the one before quantization, which has the first configuration"
    add("--reference", metavar="MODEL", help=use)
    use = "compare the outputs with the first configuration, or a single configuration with the CPU EP"
    add("--compare", action="store_true", help=use)
    for name, default in zip(("rtol", "atol"), outputs.TOLERANCE, strict=True):
        use = f"set the {name} of numpy.testing.assert_allclose for outputs (default: {default})"
        add(f"--{name}", metavar="X", type=float, default=default, help=use)


def add_libraries(parser: argparse.ArgumentParser) -> None:
    several: dict[str, Any] = {"action": "append", "default": [], "type": _with_absolute_path}
    use = "register a custom operator library: PACKAGE, such as onnxruntime_extensions, or LIBRARY"
    parser.add_argument("--extension", metavar="PACKAGE|LIBRARY", help=use, **several)
    use = "register a plugin EP: PACKAGE, such as onnxruntime_ep_openvino, or LIBRARY under the name EP"
    parser.add_argument("--plugin", metavar="PACKAGE|EP=LIBRARY", help=use, **several)


def _with_absolute_path(text: str) -> str:
    name, equals, library = text.rpartition("=")
    return f"{name}{equals}{os.path.abspath(library)}" if equals or os.path.isfile(library) else text


def _number_of_runs(text: str) -> int:
    if text.isdecimal():
        return int(text)
    raise argparse.ArgumentTypeError(f"invalid value {text!a}. Expected 0 or a number of runs")


def execute(chosen: argparse.Namespace) -> tuple[dict, int]:
    sides = _sides(chosen)
    working = [side for side in sides if side.prepare()]
    tried: list[dict] = []
    interrupted = False
    if working:
        nodes = feeds = working[0].rep.session.get_inputs()
        given = input_texts.read(nodes, chosen.input, chosen.shape)
        if chosen.repeat != 0:
            feeds = inputs.feeds(working[0], *given)
            interrupted = _measure(working, feeds, chosen.repeat)
        tried = list(map(inputs.described, nodes, feeds))
    tolerance = (chosen.rtol, chosen.atol) if chosen.compare or chosen.reference else None
    results = [described(side, sides[0], tolerance) for side in sides]
    if len(chosen.config) < 2 and results[-1]["error"]:
        raise RuntimeError(results[-1]["error"]["message"]) from sides[-1].error
    result = {
        "model": chosen.model,
        "onnxruntime": onnxruntime.__version__,
        "backend": __version__,
        "inputs": tried,
        "interrupted": interrupted,
        "configurations": results,
    }
    return result, INTERRUPTED if interrupted else int(any(_outputs(one).kind == "bad" for one in results))


def _measure(sides: list[Side], feeds: list, repeat: int | None) -> bool:
    """Measure sides. Return whether an interrupt has left partial results."""
    try:
        latency.measure(sides, feeds, repeat)
    except KeyboardInterrupt:
        if sides[0].blocks:
            return True
        raise
    return False


def _sides(chosen: argparse.Namespace) -> list[Side]:
    sides = []
    for text in chosen.config or ["{}"]:
        config: dict = configurations.read(text)
        config["extensions"] = chosen.extension + config.get("extensions", [])
        for keyword in _SETTINGS:
            for setting in getattr(chosen, keyword):
                _add(config.setdefault(keyword, {}), keyword, setting)
                text += f" {setting}"  # noqa: PLW2901
        sides.append(Side(chosen.model, text, config))
    if chosen.reference:
        comparing.add_reference(sides, chosen.reference)
    elif chosen.compare and len(sides) == 1:
        default = {"provider_options": {CPU: {}}, "extensions": sides[0].config["extensions"]}
        sides.insert(0, Side(chosen.model, "the CPU EP", default, inherits=False))
    return sides


def _add(settings: dict, keyword: str, text: str) -> None:
    """Add a setting of the command line to the settings of its keyword argument."""
    entry = text
    if keyword == "provider_options":
        name, entry = _ep_and_option(text)
        settings = settings.setdefault(name, {})
        if not entry:
            return
    key, equals, value = entry.partition("=")
    if not (key and equals):
        flag, form, _ = _SETTINGS[keyword]
        raise RuntimeError(f"{flag}: invalid value {text!a}. Expected {form}")
    settings[key] = _BOOLS.get(value.lower(), value)


def _ep_and_option(text: str) -> tuple[str, str]:
    """Split EP.OPTION=VALUE into the EP, whose name can contain a dot, and the rest, which may be empty."""
    name = text.partition("=")[0]
    kinds = presence.kinds()
    while "." in name and not provider_named(name, kinds):
        name = name.rpartition(".")[0]
    return provider_named(name, kinds) or name, text[len(name) + 1 :]


def tables(result: dict) -> Iterator[Table]:
    """Yield the inputs, what is particular to each configuration, and a table that compares them."""
    found = result["configurations"]
    yield pairs({"model": result["model"], "inputs": list(map(inputs.declaration, result["inputs"]))})
    intervals = [one["latency_ms"]["ratio_interval"] or [0] for one in found if one["latency_ms"]]
    scale = _BAR / max(1, *map(max, intervals)) if len(found) > 1 else 0
    rows = []
    for number, one in enumerate(found, 1):
        label = f"{number}: {one['configuration']}"
        yield pairs(_facts(one), label)
        rows.append([label, *_figures(one["latency_ms"], number == 1, scale), _outputs(one)])
    if intervals:
        yield Table(rows, ("configuration", "p50 ms", "p99 ms", "runs", "ratio to 1", "", "outputs"))


def _facts(one: dict) -> dict[str, object]:
    """Return what is particular to a configuration: its error, or its nodes, its settings and outputs that differ."""
    if one["error"]:
        return {"error": one["error"]["message"]}
    counts = one["nodes"] or {}
    taken = [f"{ep.removesuffix('ExecutionProvider')} {count}" for ep, count in counts.items() if count]
    facts: dict[str, object] = {"nodes": ", ".join(taken) or "unknown"}
    facts["on the CPU EP"] = most_frequent(one["operators_on_cpu"])
    facts |= {name: one[name] for name in APPLIED}
    for output in one["outputs"]:
        facts[f"output {output['name']}"] = output.get("difference", {"note": ""})["note"].splitlines()
    return facts


def _figures(latency: dict | None, is_first: bool, scale: float) -> list[Cell | str]:
    """Return the percentiles in milliseconds, the number of runs, the ratio, and its bar with the interval in gray."""
    if latency is None:
        return [""] * 5
    low, high = latency["ratio_interval"] or (0, 0)
    ratio = f"{latency['ratio_to_first']:.2f} ({low:.2f} to {high:.2f}) {latency['verdict']}" if high else ""
    dark = round(scale * low)
    bar = "\N{FULL BLOCK}" * dark + "\N{LIGHT SHADE}" * (round(scale * high) - dark)
    kind = {"faster": "good", "slower": "bad"}.get(latency["verdict"], "")
    times = [f"{float(f'{latency[name]:.3g}'):g}" for name in ("p50", "p99")]  # three digits, without an exponent
    return [*times, str(latency["runs"]), Cell("" if is_first else ratio, kind), Cell(bar, "note")]


def _outputs(one: dict) -> Cell:
    if one["error"]:
        return Cell("FAILED", "bad")
    differences = [output["difference"] for output in one["outputs"] if "difference" in output]
    if not differences:
        return Cell("")
    largest = max(difference["absolute"] for difference in differences)
    if all(difference["within"] for difference in differences):
        return Cell(f"match ({largest:.1g})", "good")
    return Cell(f"DIFFER ({largest:.1g})", "bad")
