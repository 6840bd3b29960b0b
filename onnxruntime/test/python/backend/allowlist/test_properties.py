# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""ORT receives only permitted settings, for any arguments of a call.

Each example is a call of ``prepare`` or ``run`` with spies instead of ORT's classes: an entry of the tables, most often
with one change. Either the call raises a ``RuntimeError`` or ``TypeError``, or the spies receive only permitted names
with texts that their kinds allow. This file checks the texts without the parsers of the kinds. ``ORT_BACKEND_EXAMPLES``
is the number of examples (default: 2500). The examples are the same in each run.
"""

import contextlib
import copy
import json
import os
import random
import re
import unittest
import warnings
from collections import Counter
from types import SimpleNamespace
from unittest import mock

import _above
import numpy as np
from helpers.allowlist import TABLES, bounds, listed_values
from helpers.hostile_values import Int, Str
from helpers.models import open_session, two_nodes

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend import backend
from onnxruntime.backend.allowlist import threads
from onnxruntime.backend.allowlist.rules import Table
from onnxruntime.backend.allowlist.session_config import OF_PREFIX
from onnxruntime.backend.allowlist.tables import EVERY_EP, PROVIDERS
from onnxruntime.backend.allowlist.value_kinds import Choice, Flag, Integer, Kind, Member, Names
from onnxruntime.backend.applied.settings import configuration_of
from onnxruntime.backend.runs import settings

EXAMPLES = int(os.environ.get("ORT_BACKEND_EXAMPLES", "2500"))
MODEL = two_nodes().SerializeToString()
INPUT = np.ones((2, 3), np.float32)
# OpenVINO's properties inside load_config, and the options that they come from.
OF_OPENVINO = {
    "INFERENCE_NUM_THREADS": "num_of_threads",
    "INFERENCE_PRECISION_HINT": "precision",
    "NUM_STREAMS": "num_streams",
}
# What the backend sets itself: on OpenVINO, for its record of nodes, and for allowReleasedOpsetsOnly.
OWN = {
    "enable_mem_pattern": False,
    "session.record_ep_graph_assignment_info": "1",
    "session.allow_released_opsets_only": "1",
}


class Reached(BaseException):
    """A session would be created now. The class derives from no class that the backend handles."""


class Recorder:
    """Options of ORT that record the settings."""

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "record", {"attributes": {}, "entries": {}, "providers": {}})
        type(self).last = self.record

    def __setattr__(self, name: str, value: object) -> None:
        self.record["attributes"][name] = value
        super().__setattr__(name, value)


class Options(Recorder, onnxruntime.SessionOptions):
    def add_session_config_entry(self, key: str, value: str) -> None:
        self.record["entries"][key] = value
        super().add_session_config_entry(key, value)

    def add_provider(self, name: str, options: dict[str, str]) -> None:
        """Record the options. The EPs that read entries also have theirs."""
        prefix = f"ep.{name.lower()}."
        entries = self.record["entries"]
        again = {key.removeprefix(prefix): entries.pop(key) for key in [*entries] if key.startswith(prefix)}
        if any(again.get(option, text) != text for option, text in options.items()):
            raise AssertionError(f"{options} and {again}")
        self.record["providers"][name] = {**options, **again}

    def add_provider_for_devices(self, devices: list, options: dict[str, str]) -> None:
        self.record["providers"][devices[0].ep_name] = options


class RunOptions(Recorder, onnxruntime.RunOptions):
    def add_run_config_entry(self, key: str, value: str) -> None:
        self.record["entries"][key] = value
        super().add_run_config_entry(key, value)


class Session:
    def __init__(self, model: object, sess_options: Options, providers: list | None = None, **_: object) -> None:
        sess_options.record["providers"].update(one for one in providers or () if type(one) is tuple)
        raise Reached(copy.deepcopy(sess_options.record))


def spied(plugins: bool) -> contextlib.ExitStack:
    """Have a build with every EP. With ``plugins``, each EP that can be a plugin is one."""
    kinded = [name for name, kinds in PROVIDERS.items() if plugins and "plugin" in kinds]
    cpu = SimpleNamespace(type=onnxruntime.OrtHardwareDeviceType.CPU)
    devices = [SimpleNamespace(ep_name=name, ep_metadata={"library_path": "x"}, device=cpu) for name in kinded]
    stack = contextlib.ExitStack()
    stack.enter_context(warnings.catch_warnings(action="ignore"))
    stack.enter_context(mock.patch.object(backend, "SessionOptions", Options))
    stack.enter_context(mock.patch.object(backend, "InferenceSession", Session))
    stack.enter_context(mock.patch.object(settings, "RunOptions", RunOptions))
    stack.enter_context(mock.patch.object(onnxruntime, "get_available_providers", lambda: [*PROVIDERS]))
    stack.enter_context(mock.patch.object(onnxruntime, "get_ep_devices", lambda: devices, create=True))
    return stack


def allowed(kind: Kind, text: str) -> bool:
    """Return whether a kind allows a text, according to the arguments of the kind."""
    if isinstance(kind, Flag):
        return text in kind.texts and getattr(kind, "value", text == kind.texts[1]) is (text == kind.texts[1])
    if isinstance(kind, (Integer, threads.Threads)):
        low, high = bounds(kind, max(16, 4 * len(threads.CPUS)))
        return re.fullmatch(r"0|-?[1-9][0-9]*", text) is not None and low <= int(text) <= high
    if type(kind) is Choice:
        return text in [kind.texts.get(value, str(value)) for value in kind.values]
    if type(kind) is Names:
        return (kind.empty and not text) or all(name in kind.known() for name in text.split(kind.separator))
    return len(text) <= kind.max_bytes and re.fullmatch(kind.pattern, text) is not None


# --- Examples: names and values of the tables, and their changes ---

ARABIC = {code: code + 0x630 for code in range(0x30, 0x3A)}
CYRILLIC = str.maketrans("aeiops", "\u0430\u0435\u0456\u043e\u0440\u0455")
ENDS = ("\0", "\0x", " ", "\n", "x", "_", ".", "\u200b", "\ud800", ",", ";", "=1", ";a", " a")
BEGINNINGS = ("ep.", "ep.cuda.", "session.", "session.intra_op.", " ", "\0", "+", "-", "0x", "1_", "1")
VALUES = (None, [1], b"1", "", object, Int(1), Str("1"), 1.0, float("nan"), np.int64(1), np.array([1]), 2**64, -1, {},
          10**400, "1" * 5000, "../a.so", "true", True, "1", 0, np.bool_(True), np.str_("1"))  # fmt: skip


def changed(draw: random.Random, text: str) -> object:
    """Return a text with a change that keeps it similar."""
    return draw.choice(
        (
            text.upper(), text.lower(), text.swapcase(), text[:-1], text[1:], text * 40, text.replace("i", "\u0131"),
            text.translate(ARABIC), text.translate(CYRILLIC), text.encode(errors="replace"), Str(text), np.str_(text),
            text + draw.choice(ENDS), draw.choice(BEGINNINGS) + text, None,
        )
    )  # fmt: skip


def samples(kind: Kind) -> list[object]:
    """Return values that a kind accepts, and values near them."""
    found = listed_values(kind)
    if isinstance(kind, Member):
        return [*found, *kind.by_name.values()]
    of_kind = bounds(kind, 16)
    if of_kind:
        low, high = of_kind
        return [low, high, low - 1, high + 1, str(low), str(high), (low + high) // 2]
    if type(kind) is Names:
        known = sorted(kind.known())
        return [known[0], kind.separator.join(known[:3])]
    return found or ["a", "CPU", "AUTO:GPU,CPU", "cpu:0", "cpu:0;gpu:0", "cpu(a,b);gpu(c)", "50%", "1 2", "a b", ""]


def example(draw: random.Random) -> tuple[str, dict]:
    """Return the place of a table, and the keyword arguments of a call."""
    place = draw.choice([*TABLES][:4] * 3 + [place for place, table in TABLES.items() if table or table.refused])
    table = TABLES[place]
    refused = [*table.refused, *(EVERY_EP.refused if ", " in place else ())]
    mapping = {}
    for _ in range(draw.choice((1, 1, 1, 2))):
        if table and draw.random() < 0.85:
            name = draw.choice([*table])
            value = draw.choice(samples(table[name].kind))
        else:
            name, value = draw.choice(refused or ["no_such"]), draw.choice(VALUES)
        if place == "session_config" and draw.random() < 0.1:
            name, value = (
                draw.choice(("session.intra_op.new", "session.inter_op." + "a" * 41)),
                draw.choice((1, 64, 65)),
            )
        change = draw.random()
        if change < 0.2:
            name = changed(draw, name)
        elif change < 0.45:
            value = changed(draw, str(value))
        elif change < 0.55:
            value = draw.choice(VALUES)
        mapping[name] = value
    if place.endswith("attributes"):
        return place, {name: value for name, value in mapping.items() if type(name) is str}
    if ", " not in place:
        return place, {place: mapping}
    ep = place.partition(", ")[0]
    ep = changed(draw, ep) if draw.random() < 0.05 else ep
    return place, {"provider_options": {ep: mapping}}


class PropertiesTest(unittest.TestCase):
    def test_only_what_is_permitted_reaches_ort(self):
        draw = random.Random(1)
        self.rep = onnxruntime.backend.prepare(open_session())
        counts: Counter[str] = Counter()
        for number in range(EXAMPLES):
            place, call = example(draw)
            with self.subTest(number=number, call=ascii(call)[:200]):
                counts[self.outcome_of(place, call)] += 1
        self.assertGreater(min(counts["permitted"], counts["refused"]), EXAMPLES / 10, counts)

    def outcome_of(self, place: str, call: dict) -> str:
        """Make a call, and check the settings that ORT would receive."""
        plugins = place.endswith("plugin")
        with spied(plugins), mock.patch.object(backend, "permit_of", wraps=backend.permit_of) as permit_of:
            try:
                if place.startswith("run"):
                    RunOptions()
                    self.rep.run([INPUT], **call)
                    record = RunOptions.last
                else:
                    onnxruntime.backend.prepare(MODEL, **call)
            except Reached as reached:
                (record,) = reached.args
                (arguments, _) = permit_of.call_args
                configuration = json.loads(json.dumps(configuration_of(backend.permit_of._mock_wraps(*arguments))))
                with self.assertRaises(Reached) as again:
                    onnxruntime.backend.prepare(MODEL, **configuration)
                self.assertEqual(again.exception.args[0], record, "the configuration of the permit")
            except (RuntimeError, TypeError) as error:
                self.assertTrue(str(error).isprintable(), "a message contains control characters")
                return "refused"
        self.check(record, call, place, plugins)
        return "permitted" if any(call.values()) and any(record.values()) else "ignored"

    def check(self, record: dict, call: dict, place: str, plugins: bool) -> None:
        """Compare the settings that the spies received with the tables and the call."""
        of_run = place.startswith("run")
        for name, value in record["attributes"].items():
            if name in OWN and name not in call:
                self.assertEqual(value, OWN[name])
            else:
                self.check_attribute(TABLES["run attributes" if of_run else "session attributes"], name, value)
        for ep, texts in record["providers"].items():
            kinds = PROVIDERS[ep]
            table = kinds.get("plugin" if plugins and "plugin" in kinds else "built-in", Table({}))
            for option, text in texts.items():
                if option != "load_config":
                    self.check_text(table, option, text)
                    continue
                ((_, properties),) = json.loads(text).items()  # written by the backend
                for name, value in properties.items():
                    self.check_text(table, OF_OPENVINO[name], value)
        keyword = "run_config" if of_run else "session_config"
        for key, text in record["entries"].items():
            if key in (call.get(keyword) or {}):
                self.check_text(TABLES[keyword], key, text)
            elif key.endswith(".allow_spinning"):
                pool = key.split(".")[1]
                self.assertEqual(text, "0")
                self.assertGreater(record["attributes"][f"{pool}_num_threads"], len(threads.CPUS))
            else:
                self.assertEqual(text, OWN[key])

    def check_text(self, table: Table, name: object, text: object) -> None:
        self.assertEqual((type(name), type(text)), (str, str))
        self.assertRegex(text, r"\A[ -~]{0,4096}\Z")
        if re.fullmatch(r"session\.int(er|ra)_op\.[a-z_]{1,40}", name) and name not in table:
            rule = OF_PREFIX
        else:
            self.assertIn(name, table)
            rule = table[name]
        self.assertTrue(allowed(rule.kind, text), f"{name!r} was sent as {text!r}")
        if rule.reported:
            self.assertEqual(rule.kind.render(rule.kind.read(text)), text)

    def check_attribute(self, table: Table, name: str, value: object) -> None:
        self.assertIn(name, table)
        kind = table[name].kind
        if type(kind) is Member:
            self.assertIn(value, [*kind.by_name.values()])
            return
        self.assertIn(type(value), (bool, int, str))
        self.assertTrue(allowed(kind, kind.render(value)))


if __name__ == "__main__":
    unittest.main()
