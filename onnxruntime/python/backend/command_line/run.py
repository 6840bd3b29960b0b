# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Run a model with a configuration, and show the applied settings, the outputs and the latency.

With several --config options, their runs alternate, and each latency is compared with the first. Inputs without --input
get random values, which are the same for each --seed. Floats are from 0 to 1, integers 0 or 1, strings 'text'. Options
on the command line override --config, and both override ORT_ONNX_BACKEND_CONFIG. The exit status is 1 if a
configuration fails or outputs differ with --compare.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import time
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import onnxruntime
from onnxruntime.backend import __version__, backend
from onnxruntime.backend.allowlist.session_config import RECORD_ASSIGNMENT
from onnxruntime.backend.allowlist.suggestions import provider_named
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep
from onnxruntime.backend.command_line import configurations, inputs, measure, run_page, run_results, run_tables, tables
from onnxruntime.backend.command_line.output import INTERRUPTED, MistakeError, progress
from onnxruntime.backend.command_line.run_results import WARM_UP, Tried
from onnxruntime.backend.command_line.run_tables import show  # noqa: F401 (of each command)
from onnxruntime.backend.environment.configuration import KEYWORDS, LIBRARIES
from onnxruntime.backend.errors import FROM_ENVIRONMENT
from onnxruntime.backend.packages import REGISTER
from onnxruntime.backend.provider_names import CPU
from onnxruntime.backend.session import presence

# The default number of measured runs: as many as fit into this time, within these bounds.
_SECONDS = 2.0
_FEWEST = 10
_MOST = 1000
_TOLERANCES = {"rtol": 1e-3, "atol": 1e-5}  # the defaults
_BOOLS = {"true": True, "false": False}
# By the option of a form: a function that returns the text of the form, and the help for the option.
FORMS = {
    "html": (run_page.html, "write an HTML page with the latencies as a picture, the nodes, and the outputs"),
    "csv": (run_tables.csv_text, "write a CSV file with one row for each configuration"),
    "markdown": (run_tables.markdown, "write a Markdown table with one column for each configuration"),
}
# Keyword argument to flag, metavariable, and help.
_FLAGS = {
    "provider_options": ("--provider-option", "EP.OPTION=VALUE", "use EP with this option, or EP with the defaults"),
    "session_config": ("--session-config", "KEY=VALUE", "set a session config entry"),
    "run_config": ("--run-config", "KEY=VALUE", "set a run config entry"),
    "session_options": ("--session-option", "NAME=VALUE", "set a SessionOptions attribute"),
    "free_dimension_overrides": ("--free-dimension", "NAME=SIZE", "set the size of a named free dimension"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    several: dict[str, Any] = {"action": "append", "default": []}
    add("model", metavar="MODEL", help="an ONNX or ORT file")
    use = "request DEVICE, such as CPU or CUDA:1 (default: the device of the wheel)"
    add("--device", metavar="DEVICE", help=use)
    for keyword in _FLAGS:
        add_setting(parser, keyword)
    add_extension(parser)
    use = "use a configuration, in a form that check accepts; repeat the option to compare configurations"
    add("--config", metavar="FILE|JSON|-", help=use, **several)
    use = "set an input to VALUE: FILE.npy, JSON such as 16000, [1,2] or '[\"text\"]', or random (default: random)"
    add("--input", metavar="NAME=VALUE|FILE.npy", help=use, **several)
    use = "set the shape of a random input with free dimensions"
    add("--shape", metavar="NAME=1x3x224x224", help=use, **several)
    use = "set the seed of random values (default: 0)"
    add("--seed", metavar="N", type=_integer_to(2**32 - 1), default=0, help=use)
    use = f"measure N runs after {WARM_UP} warm-up runs; 0 only creates the session (default: 10 to 1000, for 2 s)"
    add("--repeat", metavar="N", type=_integer_to(10**6), help=use)
    use = "compare the outputs with the CPU EP in its default configuration, and with the first configuration"
    add("--compare", action="store_true", help=use)
    use = "write the outputs of the last run to a NumPy file"
    add("--save", metavar="FILE.npz", help=use)
    use = f"set the relative tolerance of --compare (default: {_TOLERANCES['rtol']})"
    add("--rtol", metavar="X", type=_tolerance, help=use)
    use = f"set the absolute tolerance of --compare (default: {_TOLERANCES['atol']})"
    add("--atol", metavar="X", type=_tolerance, help=use)
    tables.add_arguments(parser, FORMS)


def add_setting(parser: argparse.ArgumentParser, keyword: str) -> None:
    flag, form, use = _FLAGS[keyword]
    parser.add_argument(flag, metavar=form, dest=keyword, help=use, action="append", default=[])


def add_extension(parser: argparse.ArgumentParser) -> None:
    use = "register a custom operator library: PACKAGE, such as onnxruntime_extensions, or LIBRARY"
    parser.add_argument("--extension", metavar="PACKAGE|LIBRARY", action="append", default=[], help=use)


def _tolerance(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 <= float(text) < math.inf:
            return float(text)
    raise argparse.ArgumentTypeError(f"invalid value {text!a}. Expected a number, 0 or more")


def _integer_to(most: int) -> Callable[[str], int]:
    def integer(text: str) -> int:
        with contextlib.suppress(ValueError):
            if 0 <= int(text) <= most:
                return int(text)
        raise argparse.ArgumentTypeError(f"invalid value {text!a}. Expected an integer from 0 to {most}")

    return integer


def execute(chosen: argparse.Namespace) -> tuple[dict, int]:
    _check_arguments(chosen)
    tried = []
    for text in chosen.config or [""]:
        one = _configured(chosen, text or "{}")  # as in the environment
        tried.append(one)
    described_inputs: list[dict] = []
    interrupted = False
    try:
        _try(chosen, tried, described_inputs)
    except KeyboardInterrupt:
        interrupted = True
        if not any(one.seconds for one in tried):
            raise

    first = tried[0]
    if len(tried) == 1 and first.error:
        raise MistakeError(str(first.error)) from first.error
    if chosen.save:
        _save(chosen.save, tried)

    status = 0
    results = []
    for one in tried:
        results.append(run_results.of(one, first))
        if one.is_failure():
            status = 1
    tolerance = None
    if interrupted:
        status = INTERRUPTED
    elif chosen.compare:
        tolerance = {"relative": chosen.rtol, "absolute": chosen.atol}
    result = {
        "model": chosen.model,
        "onnxruntime": onnxruntime.__version__,
        "backend": __version__,
        "inputs": described_inputs,
        "tolerance": tolerance,
        "interrupted": interrupted,
        "configurations": results,
    }
    tables.write(chosen, FORMS, result)
    return result, status


def _try(chosen: argparse.Namespace, tried: list[Tried], described_inputs: list[dict]) -> None:
    """Prepare, run and compare the configurations. Keep the results of each step, because an interrupt can end this."""
    for number, one in enumerate(tried, 1):
        progress.show(f"preparing configuration {number} of {len(tried)}")
        one.rep = one.attempt(prepare, chosen.model, one.specified, chosen.device)
    opened = [one for one in tried if one.error is None]
    if not opened:
        return

    nodes = opened[0].rep.session.get_inputs()
    if chosen.repeat == 0:
        inputs.specified(nodes, chosen.input, chosen.shape)
        return
    feeds = inputs.values(nodes, chosen.input, chosen.shape, chosen.seed)
    described_inputs.extend(map(inputs.described, nodes, feeds))
    _measure(chosen.repeat, opened, feeds)
    if chosen.compare:
        progress.show("comparing the outputs")
        _compare(chosen, tried, opened, feeds)


def _check_arguments(chosen: argparse.Namespace) -> None:
    for flag in ("compare", "save"):
        if getattr(chosen, flag) and chosen.repeat == 0:
            advice = "Omit one of the two options"
            raise MistakeError(f"--{flag} requires outputs, and --repeat 0 computes none. {advice}")
    for flag, default in _TOLERANCES.items():
        if getattr(chosen, flag) is None:
            setattr(chosen, flag, default)
        elif not chosen.compare:
            raise MistakeError(f"--{flag} has no effect without --compare. Add --compare, or omit --{flag}")
    tables.check_paths(chosen, ["save", *FORMS])  # before the runs


def _configured(chosen: argparse.Namespace, config: str) -> Tried:
    """Return a configuration with the options of the command line."""
    specified = configurations.read(config)
    extensions = specified.get("extensions", [])
    specified["extensions"] = chosen.extension + extensions
    for keyword in _FLAGS:
        texts = getattr(chosen, keyword)
        if texts:
            settings = specified.setdefault(keyword, {})
            add_settings(settings, keyword, texts)
    return Tried(config, specified)


def add_settings(settings: dict, keyword: str, texts: list[str]) -> dict:
    """Add settings of the command line to the settings of their keyword argument, and return all of them."""
    flag, form, _ = _FLAGS[keyword]
    for text in texts:
        invalid = MistakeError(f"{flag}: invalid value {text!a}. Expected {form}")
        entry = text
        container = settings
        if keyword == "provider_options":
            name, entry = _provider_and_option(text)
            if not name:
                raise invalid
            container = settings.setdefault(name, {})
            if not entry:
                continue

        key, equals, value = entry.partition("=")
        if not (key and equals):
            raise invalid
        container[key] = _BOOLS.get(value.lower(), value)
    return settings


def _provider_and_option(text: str) -> tuple[str, str]:
    """Split EP.OPTION=VALUE into the EP and the rest, which may be empty."""
    name = text.partition("=")[0]
    while name:  # the name of an EP can contain a dot
        known = provider_named(name, presence.kinds())
        if known:
            return known, text[len(name) + 1 :]
        name = name.rpartition(".")[0]
    first, _, rest = text.partition(".")
    return first, rest


def prepare(
    model: str, config: dict, device: str | None = None, inherited: Iterable[str] = KEYWORDS
) -> OnnxRuntimeBackendRep:
    """Prepare a model, with a record of node assignments and the best reason if that fails."""
    if not Path(model).exists():
        raise MistakeError(f"no such file: {model}")
    specified = dict(config)
    for keyword in LIBRARIES:
        specified.pop(keyword, None)
    if hasattr(onnxruntime.InferenceSession, "get_provider_graph_assignment_info"):
        entries = specified.get("session_config", {})
        specified["session_config"] = {RECORD_ASSIGNMENT: "1"} | entries
    try:
        with configurations.environment(config, inherited):
            return backend.prepare(model, device, **specified)
    except Exception as error:
        text = str(error)
        if config.get("extensions") and text.startswith("Extension "):
            # The command puts its own libraries into the environment's configuration.
            text = text.removesuffix(FROM_ENVIRONMENT)
        if "is not a registered function/op" in text:
            text += ". Use --extension to register custom operators"
        if REGISTER in text:
            text += ". On the command line, use --plugin PACKAGE"
        raise MistakeError(text) from error


def _measure(repeat: int | None, opened: list[Tried], feeds: list) -> None:
    """Run the configurations in turns. The default is two seconds for each, but not fewer or more runs than allowed."""
    if repeat is None:
        most = _MOST
        enough = _SECONDS * len(opened)
    else:
        most = repeat
        enough = math.inf

    for index in range(-WARM_UP, most):
        if index <= 0:
            begun = time.perf_counter()
        elif index >= _FEWEST and time.perf_counter() - begun > enough:
            break
        number = f"{index + 1} of at most {most}" if index >= 0 else "to warm up"
        progress.show(f"run {number}")
        for one in opened:
            started = time.perf_counter()
            one.outputs = one.attempt(one.rep.run, feeds) or []
            if index >= 0:
                one.seconds.append(time.perf_counter() - started)


def _compare(chosen: argparse.Namespace, tried: list[Tried], opened: list[Tried], feeds: list) -> None:
    """Compare the outputs with those of the CPU EP, and with those of the first configuration."""
    # The CPU EP has the custom operator libraries and no other setting.
    default = {"provider_options": {CPU: {}}, "extensions": opened[0].specified["extensions"]}
    try:
        rep = prepare(chosen.model, default, inherited=())
        reference = rep.run(feeds)
    except Exception as error:
        raise MistakeError(f"--compare: the CPU EP in its default configuration fails: {error}") from error

    first = tried[0]
    for one in tried:
        if one.error is not None:
            continue
        references = {"difference": reference}
        if one is not first and first.error is None:
            references["difference_to_first"] = first.outputs
        for kind, outputs in references.items():
            one.differences[kind] = [
                measure.difference(output, expected, chosen.rtol, chosen.atol)
                for output, expected in zip(one.outputs, outputs, strict=True)
            ]


def _save(path: str, tried: list[Tried]) -> None:
    """Write the outputs, each under its name, or ``2/NAME`` for the second of several configurations."""
    with zipfile.ZipFile(path, "w") as archive:
        for number, one in enumerate(tried, 1):
            if one.error is not None or not one.seconds:
                continue
            prefix = f"{number}/" if len(tried) > 1 else ""
            nodes = one.rep.session.get_outputs()
            for node, output in zip(nodes, one.outputs, strict=True):
                _write(archive, prefix + node.name, output)


def _write(archive: zipfile.ZipFile, name: str, output: object) -> None:
    """Write the arrays of an output. ``numpy.savez`` would not accept the name ``file``."""
    for place, array in measure.leaves(output):
        file = name
        for key in place:
            file += f"[{key!r}]"
        plain = inputs.writable(array)
        with archive.open(f"{file}.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array(member, plain, allow_pickle=False)
