# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""``python -m onnxruntime.backend run``: run a model configured, and tell what ORT applied and what came of it."""

from __future__ import annotations

import argparse
import math
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import onnxruntime
from onnxruntime.backend import backend
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep
from onnxruntime.backend.command_line import inputs as command_inputs
from onnxruntime.backend.command_line import measure as command_measure
from onnxruntime.backend.command_line.shared import (
    MistakeError,
    Page,
    extensions_of_environment,
    kinds_here,
    one_line,
    ort_log,
    provider_named,
    providers_known,
    read_configuration,
    use_extensions,
)
from onnxruntime.backend.errors import NotPermittedError
from onnxruntime.backend.session import extensions

if TYPE_CHECKING:
    from typing import Self  # since Python 3.11

CPU = "CPUExecutionProvider"
RECORD_ASSIGNMENT = "session.record_ep_graph_assignment_info"
_T = TypeVar("_T")


def add_to(commands: argparse._SubParsersAction, shared: argparse.ArgumentParser) -> None:
    """Add the command to a parser.

    :param commands: the parser's commands.
    :param shared: a parser of the options that all commands have.
    """
    parser = commands.add_parser(
        "run", parents=[shared], help="run a model configured, and tell what ORT applied",
        description="""Run a model with a configuration, and tell what ORT applied and what came of it. Several
        --config are compared: their runs take turns, and each is held against the first.""",
        usage="%(prog)s MODEL ...",
        epilog="""Inputs that are not given are random, the same at every run: numbers from 0 to 1, whole numbers 0 and
        1, texts 'text'. Entries given here win over those of --config, and both over ORT_ONNX_BACKEND_CONFIG. The exit
        status is 1 where a configuration fails, or differs with --compare.""",
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
    add(
        "--session-option", metavar="NAME=VALUE", action="append", default=[], dest="session_options",
        help="an attribute of SessionOptions, such as intra_op_num_threads=2",
    )  # fmt: skip
    add(
        "--free-dimension", metavar="NAME=SIZE", action="append", default=[], dest="free_dimension_overrides",
        help="the size of a named dimension that the model leaves open",
    )  # fmt: skip
    add(
        "--extension", metavar="PACKAGE|LIBRARY", action="append", default=[],
        help="register custom operators first: a Python package, such as onnxruntime_extensions, or a library",
    )  # fmt: skip
    add(
        "--config", metavar="FILE|JSON|-", action="append", default=[],
        help="a configuration, as for check; given again, one more to compare with the first",
    )  # fmt: skip
    add(
        "--input", metavar="NAME=VALUE", action="append", default=[],
        help="FILE.npy, random, or a number or list such as 16000 or [1,2]",
    )  # fmt: skip
    add(
        "--shape", metavar="NAME=1x3x224x224", action="append", default=[],
        help="the shape of a random input that the model leaves open",
    )  # fmt: skip
    add("--repeat", metavar="N", type=_count, help="runs to measure (as many as take 2 s, 10 to 1000)")
    add("--warm-up", metavar="N", type=_count, default=3, help="runs before those, which are not measured (3)")
    add(
        "--compare", action="store_true",
        help="compare the outputs with those of the CPU EP, not configured, and fail beyond the tolerance",
    )  # fmt: skip
    add("--rtol", metavar="X", type=_tolerance, default=1e-3, help="relative tolerance of --compare (0.001)")
    add("--atol", metavar="X", type=_tolerance, default=1e-5, help="absolute tolerance of --compare (0.00001)")
    add("--save", metavar="DIR", type=Path, help="write the outputs there, each as NAME.npy")
    parser.set_defaults(command=command, tell=tell, parser=parser)


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!a} is not a whole number from 1 to 1000000")
    return int(text)


def _tolerance(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!a} is not a number from 0 on")
    return value


class _Tried:
    """One of the configurations that are run: what became of it."""

    def __init__(self, label: str, given: dict[str, object], asked: frozenset[str]) -> None:
        """
        :param label: what a person calls it.
        :param given: the configurations.
        :param asked: the session config keys among them that the person named.
        """
        self.label = label
        self.given = given
        self.asked = asked
        self.rep: OnnxRuntimeBackendRep | None = None
        self.outputs: list[object] = []
        self.seconds: list[float] = []
        self.differences: list[dict[str, object]] = []
        self.saved: list[str] = []
        self.error = ""

    def attempt(self, call: Callable[[], _T]) -> _T | None:
        """Call the library or ORT, unless something failed before.

        :return: what the call returned; ``None`` where it failed, which ``error`` tells.
        """
        if self.error:
            return None
        try:
            return call()
        except Exception as error:  # ORT has many types of them, with no common base of their own
            self.error = one_line(error) or type(error).__name__
            return None


def command(chosen: argparse.Namespace) -> tuple[dict[str, object], int]:
    """Run the command.

    :return: the result and the exit status.
    """
    tried = _configurations(chosen)
    if chosen.extension:
        # A path that is typed may be a relative one.
        use_extensions([os.path.abspath(name) if os.path.isfile(name) else name for name in chosen.extension])
    if not Path(chosen.model).is_file():
        raise MistakeError(f"there is no file {chosen.model}")
    with _Progress() as progress:
        for one in tried:
            progress.doing = f"opening {chosen.model}"
            one.rep = one.attempt(lambda one=one: _prepare(chosen, one.given))
        opened = [one for one in tried if one.rep is not None]
        feeds: list[object] = []
        if opened:
            nodes = opened[0].rep.session.get_inputs()
            feeds = command_inputs.values(nodes, chosen.input, chosen.shape)
            _measure(chosen, opened, feeds, progress)
            if chosen.compare:
                progress.doing = "comparing with the CPU execution provider"
                _compare(chosen, opened, feeds)
        if len(tried) == 1 and tried[0].error:
            raise MistakeError(tried[0].error)
        if chosen.save:
            for index, one in enumerate(tried):
                if not one.error:
                    names = [node.name for node in one.rep.session.get_outputs()]
                    folder = chosen.save / str(index + 1) if len(tried) > 1 else chosen.save
                    one.saved = command_inputs.save(folder, names, one.outputs)
    result = {
        "model": chosen.model,
        "inputs": [
            {"name": node.name, **command_inputs.described(value)}
            for node, value in zip(opened[0].rep.session.get_inputs() if opened else (), feeds, strict=True)
        ],
        "tolerance": {"relative": chosen.rtol, "absolute": chosen.atol} if chosen.compare else None,
        "configurations": [_result(one, tried[0], chosen) for one in tried],
    }
    failed = any(one.error or not all(found["within"] for found in one.differences) for one in tried)
    return result, 1 if failed else 0


def _configurations(chosen: argparse.Namespace) -> list[_Tried]:
    """The configurations to run, in each the single entries over those of --config."""
    if chosen.config.count("-") > 1:
        raise MistakeError("--config - reads stdin, which can be read once")
    return [_configured(chosen, text) for text in chosen.config or ["{}"]]


def _configured(chosen: argparse.Namespace, config: str) -> _Tried:
    given = read_configuration(config)
    for text in chosen.provider_option:
        name, option = _provider_and_option(text)
        if not name:
            raise MistakeError(f"--provider-option takes EP.OPTION=VALUE, not {text!a}")
        given["provider_options"] = given["provider_options"] or {}
        options = given["provider_options"].setdefault(name, {})
        if option:
            options.update([_entry("--provider-option", "EP.OPTION=VALUE", option, text)])
    for flag, form, keyword in (
        ("--session-config", "KEY=VALUE", "session_config"),
        ("--run-config", "KEY=VALUE", "run_config"),
        ("--session-option", "NAME=VALUE", "session_options"),
        ("--free-dimension", "NAME=SIZE", "free_dimension_overrides"),
    ):
        for text in getattr(chosen, keyword):
            given[keyword] = {**(given[keyword] or {}), **dict([_entry(flag, form, text, text)])}
    chosen.extension += given.pop("extensions", [])
    # Node counts come of a session config entry, which is no more worth telling than that they were wanted.
    asked = frozenset(given["session_config"] or {})
    if hasattr(onnxruntime.InferenceSession, "get_provider_graph_assignment_info"):
        given["session_config"] = {RECORD_ASSIGNMENT: "1", **(given["session_config"] or {})}
    return _Tried(config, given, asked)


def _provider_and_option(text: str) -> tuple[str, str]:
    """The name of the EP in EP.OPTION=VALUE, and the rest, which may be empty."""
    known = {*providers_known(), *kinds_here()}
    dots = [index for index, character in enumerate(f"{text.partition('=')[0]}.") if character == "."]
    for dot in reversed(dots):  # an EP's name may hold a dot itself
        name = provider_named(text[:dot])
        if name in known:
            return name, text[dot + 1 :]
    return text[: dots[0]], text[dots[0] + 1 :]


def _entry(flag: str, form: str, text: str, whole: str) -> tuple[str, object]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise MistakeError(f"{flag} takes {form}, not {whole!a}")
    return key, {"true": True, "false": False}.get(value.lower(), value)


def _prepare(chosen: argparse.Namespace, given: dict[str, object]) -> OnnxRuntimeBackendRep:
    try:
        return backend.prepare(chosen.model, chosen.device, **given)
    except NotPermittedError as refusal:
        if chosen.registered.get(refusal.provider) is False:
            raise MistakeError(
                f"{refusal.provider} is registered, and found no device here that it supports"
            ) from refusal
        raise
    except Exception as error:
        reason = error
    if chosen.log:
        raise reason
    # ORT says in its log what it could not do, such as to load a library. It is asked again, and listened to.
    with ort_log() as lines:
        try:
            return backend.prepare(chosen.model, chosen.device, **given)
        except Exception as error:
            reason = error
    # Without what the error says itself, such as which library is missing.
    said = [line for line in dict.fromkeys(lines) if line.rpartition("with error: ")[2] not in one_line(reason)]
    hint = ["--extension registers custom operators"] if "is not a registered function/op" in str(reason) else []
    raise MistakeError(
        "; ".join([str(reason).rstrip(". "), *(f"ORT logs: {line}" for line in said), *hint])
    ) from reason


def _unconfigured(model: str) -> OnnxRuntimeBackendRep:
    # Not through prepare, which would ask the environment for a configuration. Of that only the extensions count,
    # without which some models do not open.
    options = onnxruntime.SessionOptions()
    extensions.register(options, extensions_of_environment())
    return OnnxRuntimeBackendRep(onnxruntime.InferenceSession(model, options, providers=[CPU]))


def _measure(chosen: argparse.Namespace, opened: list[_Tried], feeds: list[object], progress: _Progress) -> None:
    for one in opened:
        for index in range(chosen.warm_up):
            progress.doing = f"run {index + 1} of {chosen.warm_up} to warm up"
            one.outputs = one.attempt(lambda one=one: one.rep.run(feeds))
    for index in command_measure.rounds(chosen.repeat, len(opened)):
        progress.doing = f"run {index + 1}"
        for one in opened:
            took = one.attempt(lambda one=one: command_measure.seconds(lambda: one.rep.run(feeds)))
            if took is not None:
                one.seconds.append(took)


def _compare(chosen: argparse.Namespace, opened: list[_Tried], feeds: list[object]) -> None:
    try:
        reference = _unconfigured(chosen.model).run(feeds)
    except Exception as error:
        raise MistakeError(f"--compare: the CPU EP, not configured, fails: {error}") from error
    for one in opened:
        if not one.error:
            one.differences = [
                command_measure.difference(output, expected, chosen.rtol, chosen.atol)
                for output, expected in zip(one.outputs, reference, strict=True)
            ]


def _result(one: _Tried, first: _Tried, chosen: argparse.Namespace) -> dict[str, object]:
    if one.error:
        return {"configuration": one.label, "error": one.error}
    rep = one.rep
    session_config = dict(rep.session_config)
    if RECORD_ASSIGNMENT not in one.asked:
        session_config.pop(RECORD_ASSIGNMENT, None)
    outputs = [
        {"name": node.name, **command_inputs.described(value)}
        for node, value in zip(rep.session.get_outputs(), one.outputs, strict=True)
    ]
    for output, found in zip(outputs, one.differences, strict=False):
        output["difference"] = found
    latency = command_measure.percentiles(one.seconds)
    ratio = None if first.error else latency["p50"] / command_measure.percentiles(first.seconds)["p50"]
    return {
        "configuration": one.label,
        "error": "",
        "providers": list(rep.providers),
        "provider_options": {name: dict(options) for name, options in rep.provider_options.items()},
        "unconfirmed": {name: dict(settings) for name, settings in rep.unconfirmed.items()},
        "session_options": {name: getattr(value, "name", value) for name, value in rep.session_options.items()},
        "session_config": session_config,
        "run_config": dict(rep.run_config),
        "extensions": list(rep.extensions),
        "warnings": list(rep.warnings),
        "nodes": None if rep.node_assignment is None else dict(rep.node_assignment),
        "outputs": outputs,
        "latency_ms": {**latency, "runs": len(one.seconds), "warm_up": chosen.warm_up, "ratio_to_first": ratio},
        "saved": one.saved,
    }


# --- for people ---


def tell(result: dict, page: Page) -> None:
    """Write the result for a person."""
    _row(page, "model", result["model"])
    for value in result["inputs"]:
        _row(page, "input", f"{value['name']}: {value['type']} {value['shape']}")
    several = len(result["configurations"]) > 1
    for index, configuration in enumerate(result["configurations"]):
        if several:
            page.line()
            page.paragraph(configuration["configuration"], " " * 4, f"{index + 1}   ")
        if configuration["error"]:
            _row(page, "error", configuration["error"])
        else:
            _tell_configuration(configuration, several, page)
    if several:
        page.line()
        _tell_table(result, page)


def _row(page: Page, label: str, *texts: str) -> None:
    for index, text in enumerate(texts):
        page.paragraph(text, " " * 20, f"{'' if index else label:17} ")


def _tell_configuration(told: dict, several: bool, page: Page) -> None:
    def entries(values: dict) -> list[str]:
        return [f"{key} = {text}" for key, text in values.items()]

    named = told["provider_options"]
    _row(page, "providers", ", ".join(told["providers"]))
    for name, options in named.items():
        _row(page, "provider_options", *entries({f"{name}.{option}": text for option, text in options.items()}))
    for name, options in told["unconfirmed"].items():
        _row(page, "unconfirmed", f"{name}: {', '.join(options)} (given to the EP, which has no way to report it)")
    _row(page, "session_options", *entries(told["session_options"]))
    _row(page, "session_config", *entries(told["session_config"]))
    _row(page, "run_config", *entries(told["run_config"]))
    if told["extensions"]:
        _row(page, "extensions", ", ".join(told["extensions"]))
    if told["nodes"] is not None:
        counts = [f"{count} on {name}" for name, count in told["nodes"].items() if count or name in named]
        _row(page, "nodes", ", ".join(counts))
    for output in told["outputs"]:
        shape = "" if output["shape"] is None else f" {output['shape']}"
        _row(page, "output", f"{output['name']}: {output['type']}{shape}")
        if "difference" in output:
            _row(page, "", f"  {_verdict(output['difference'])}")
    if told["saved"]:
        _row(page, "saved", *told["saved"])
    if not several:
        latency = told["latency_ms"]
        figures = ", ".join(f"{name} {latency[name]:.3g}" for name in ("p50", "p90", "p99"))
        runs = f"{latency['runs']} run{'s' if latency['runs'] > 1 else ''}"
        _row(page, "latency", f"{figures} ms ({runs} after {latency['warm_up']})")


def _verdict(found: dict) -> str:
    start = "like the CPU EP" if found["within"] else "DIFFERS from the CPU EP"
    if found["note"]:
        return f"{start}: {found['note']}"
    relative = "no number" if found["relative"] is None else f"{found['relative']:.2g}"
    return f"{start}: largest difference {found['absolute']:.2g}, relative {relative}"


def _tell_table(result: dict, page: Page) -> None:
    """One line for each configuration, in columns, with their names where the page is wide enough for all of them."""
    rows = []
    compared = result["tolerance"] is not None
    page.line(f"{'':3} {'p50 ms':>8} {'p90 ms':>8} {'p99 ms':>8} {'ratio':>6}{'  outputs' if compared else ''}")
    for index, told in enumerate(result["configurations"]):
        if told["error"]:
            row = f"{index + 1:<3} {'failed':>8} {'-':>8} {'-':>8} {'-':>6}{f'  {chr(45):7}' if compared else ''}"
        else:
            latency = told["latency_ms"]
            ratio = "-" if latency["ratio_to_first"] is None else f"{latency['ratio_to_first']:.2f}"
            figures = " ".join(f"{latency[name]:>8.3g}" for name in ("p50", "p90", "p99"))
            row = f"{index + 1:<3} {figures} {ratio:>6}"
            if compared:
                within = all(output["difference"]["within"] for output in told["outputs"])
                row += f"  {'alike' if within else 'DIFFER':7}"
        rows.append((row, f"{row}  {one_line(told['configuration'])}"))
    fits = all(len(row) <= page.width for _, row in rows)
    for row in rows:
        page.line(row[fits])


class _Progress:
    """Says on a terminal what is going on, every two seconds; a pipe or a file is told nothing."""

    doing = ""
    seconds = 2.0

    def __enter__(self) -> Self:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tell, daemon=True)
        if sys.stderr.isatty():
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _tell(self) -> None:
        told = False
        while not self._over.wait(self.seconds):
            text = one_line(self.doing)
            text = text if len(text) < 60 else f"{text[:56]}..."
            print(f"\r{text:<59}", end="", file=sys.stderr, flush=True)
            told = True
        if told:
            print(f"\r{'':59}\r", end="", file=sys.stderr, flush=True)
