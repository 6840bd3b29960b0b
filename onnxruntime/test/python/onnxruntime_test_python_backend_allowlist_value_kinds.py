# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the value kinds: the accepted values, the rendered text, the JSON Schema, and hostile values."""

from __future__ import annotations

import json
import os
import pathlib
import re
import sys
import threading
import tracemalloc
import unittest
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import numpy as np
from backend_test_hostile_values import Float, Int, Loud, LoudType, NumpyInt, NumpyStr, Str
from backend_test_models import no_session_opens, two_nodes

import onnxruntime
import onnxruntime.backend
from onnxruntime import ExecutionMode, GraphOptimizationLevel
from onnxruntime.backend.allowlist import value_kinds
from onnxruntime.backend.allowlist.ort_options import RUN_CONFIG, SESSION_CONFIG
from onnxruntime.backend.allowlist.value_kinds import (
    Choice,
    Fixed,
    Flag,
    Integer,
    Kind,
    Member,
    Names,
    Text,
    Threads,
    plain,
)
from onnxruntime.backend.errors import NotPermittedError

# Values whose code must not run, or that a caller cannot mean.
_FOREIGN = [{}, "x" * 10**6, 10**400, np.bytes_(b"1"), Loud(), LoudType]


class TestValueKinds(unittest.TestCase):
    def assert_parses(self, kind: Kind, accepted: dict, refused: list) -> None:
        """``accepted`` maps a value to its text. The keys are tuples, because 1 and True are the same dict key."""
        for (value,), text in accepted.items():
            with self.subTest(value=value, type=type(value)):
                parsed = kind.parse(value)
                self.assertEqual(kind.render(parsed), text)
                self.assertIs(type(kind.render(parsed)), str)
                self.assertEqual(kind.parse(kind.render(parsed)), parsed)
                self.assertEqual(kind.read(text), parsed)
        for value in refused:
            with self.subTest(type=type.__repr__(type(value))), self.assertRaises(ValueError):
                kind.parse(value)

    def test_flag(self):
        for value in (True, 1, "1", np.True_, np.int8(1), np.uint64(1), np.str_("1")):
            self.assertEqual(Flag().render(Flag().parse(value)), "1")
            self.assertEqual(Flag("False", "True").render(Flag().parse(value)), "True")
        for value in (False, 0, "0", np.False_, np.int64(0), np.str_("0")):
            self.assertEqual(Flag().render(Flag().parse(value)), "0")
            self.assertEqual(Flag("off", "on").render(Flag().parse(value)), "off")
        wrong = ["true", "True", "on", "", " 1", "1 ", "01", "1\n", "\u0661", "\uff11", 2, -1, 1.0, 0.0, np.float32(1)]
        wrong += [None, b"1", [1], (1,), 1j, Str("1"), Int(1), Float(1), NumpyInt(1), NumpyStr("1")]
        wrong += [np.array(1), np.array([1]), *_FOREIGN]
        self.assert_parses(Flag(), {}, wrong)

    def test_a_flag_of_one_value(self):
        for on, accepted, schema, accepts in (
            (False, (False, 0, "0"), {"enum": [False, 0, "0"]}, "False, 0 or '0'"),
            (True, (True, 1, "1"), {"enum": [True, 1, "1"]}, "True, 1 or '1'"),
        ):
            kind = Fixed(on, "capture is not supported yet")
            self.assertEqual((kind.schema, kind.accepts), (schema, accepts))
            for value in accepted:
                self.assertEqual(kind.render(kind.parse(value)), str(int(on)))
            for value in (not on, int(not on), str(int(not on))):
                with self.assertRaisesRegex(ValueError, "capture is not supported yet"):
                    kind.parse(value)

    def test_a_flag_reads_the_spellings_that_ort_reports(self):
        for text, on in {"1": True, "true": True, "True": True, "0": False, "false": False, "False": False}.items():
            self.assertIs(Flag().read(text), on)
        with self.assertRaises(ValueError):
            Flag().read("yes")

    def test_integer(self):
        wrong = ["", "-", "--1", "+1", " 1", "1 ", "1\n", "1\0", "1_0", "0x1", "1e1", "1.0", "9" * 21, "65", "-2"]
        wrong += ["1" * 10_000, "\u0661", "\uff11", "\u00b2", "\ud800", -2, 65, 10**40, 1.0, np.float64(1), 1j]
        wrong += [True, np.True_, None, b"1", [1], np.array(1), Int(1), Str("1"), Float(1), NumpyInt(1), *_FOREIGN]
        accepted = {(number,): str(number) for number in (-1, 0, 64)}
        accepted |= {("64",): "64", ("-1",): "-1", ("007",): "7", (np.int16(5),): "5"}
        self.assert_parses(Integer(-1, 64), accepted, wrong)

    def test_an_integer_that_accepts_flags(self):
        kind = Integer(0, 64, flags=True)
        self.assert_parses(kind, {(True,): "1", (np.False_,): "0", (64,): "64"}, [65, -1, "True", 1.0, Int(1)])
        self.assertEqual(kind.accepts, "True/False or an integer from 0 to 64")
        self.assertEqual(Integer(among=(2, 4)).accepts, "one of 2, 4")
        self.assertEqual(Flag().accepts, "True/False, 0/1 or '0'/'1'")

    def test_integer_among(self):
        self.assert_parses(
            Integer(among=(-1, 0, 16, 32)), {(-1,): "-1", ("16",): "16"}, [-2, 1, 15, 17, 33, "2", True, 16.0]
        )

    def test_choice(self):
        self.assert_parses(
            Choice("", "apply"),
            {("",): "", ("apply",): "apply", (np.str_("apply"),): "apply"},
            ["Apply", "apply ", "apply\0", "save", None, 1, True, b"apply", Str("save"), NumpyStr("apply")],
        )

    def test_a_choice_with_another_spelling(self):
        kind = Choice("a", b="B")
        self.assert_parses(kind, {("a",): "a"}, ["B", "A"])
        self.assertEqual((kind.render(kind.parse("b")), kind.read("B"), kind.read("a")), ("B", "b", "a"))
        self.assertEqual(kind.accepts, "one of 'a', 'b'")

    def test_member(self):
        kind = Member(*ExecutionMode.__members__.values())
        parallel = ExecutionMode.ORT_PARALLEL
        self.assertIs(kind.parse("ORT_PARALLEL"), parallel)
        self.assertEqual(kind.parse(parallel), parallel)
        wrong = ["ort_parallel", "ORT_PARALLEL ", "__members__", "name", "mro", "", 1, True, None, b"ORT_PARALLEL"]
        wrong += [ExecutionMode(77)]  # ORT accepts it
        wrong += [Str("ORT_PARALLEL"), GraphOptimizationLevel.ORT_ENABLE_ALL, ExecutionMode]
        self.assert_parses(kind, {}, wrong)

    def test_threads(self):
        for cpus, high in ((1, 16), (4, 16), (5, 20), (64, 256)):
            with self.subTest(cpus), mock.patch.object(value_kinds, "CPUS", range(cpus)):
                values = {(2,): "2", ("2",): "2", (np.int64(high),): str(high), (str(high),): str(high)}
                self.assert_parses(Threads(2), values, [-1, 0, 1, high + 1, str(high + 1), 2**64, True, 2.0, None, ""])
        self.assertTrue(value_kinds.CPUS)

    def test_names(self):
        self.assert_parses(
            Names(lambda: ("A", "B1"), "names"),
            {("A",): "A", ("A;B1",): "A;B1", ("A;A",): "A;A"},
            ["", "A;", ";A", "A,B1", "A; B1", "a", "A;A;A", "C", "A\0", None, 1, True, Str("A"), b"A"],
        )

    def test_long_text_is_not_split(self):
        text = ";" * 10**6
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        with self.assertRaises(ValueError):
            Names(lambda: ("A", "B"), "names").parse(text)
        self.assertLess(tracemalloc.get_traced_memory()[1], 10**6)

    def test_names_that_can_be_empty(self):
        kind = Names(lambda: ("A", "B"), "names", ",", empty=True)
        self.assert_parses(kind, {("",): "", ("B,A",): "B,A"}, [",", "A,", "A;B", "C"])

    def test_parts_of_text_that_appear_once(self):
        kind = Text("[a-c0-9,]+", "parts", once="[a-c]")
        self.assert_parses(kind, {("a1,b1",): "a1,b1", ("1,1",): "1,1"}, ["a1,b,a2", "d"])

    def test_text(self):
        self.assert_parses(
            Text(r"\w+(,\w+)*", "words", max_bytes=8),
            {("a,b",): "a,b", ("x" * 8,): "x" * 8},
            ["", "a,", "a\n", "a\0", "x" * 9, "\u00e9", "\u0661", None, 1, True, Str("a"), b"a", NumpyStr("a")],
        )

    def test_plain_accepts_exact_types_only(self):
        for value, expected in ((np.int32(3), 3), (np.float64(0.5), 0.5), (np.str_("a"), "a"), (np.bool_(True), True)):
            self.assertEqual((type(plain(value)), plain(value)), (type(expected), expected))
        for value in (Int(3), Float(3), Str("a"), NumpyInt(3), NumpyStr("a"), None, b"a", np.bytes_(b"a"), 1j, []):
            with self.subTest(type=type(value)), self.assertRaises(ValueError):
                plain(value)
        for foreign in (np.longdouble(1), np.datetime64("2020"), np.complex64(1), np.void(b"1"), Loud()):
            with self.assertRaises(ValueError):
                plain(foreign)

    def test_each_default_in_the_tables_is_a_value_of_its_kind(self):
        for table in (SESSION_CONFIG, RUN_CONFIG):
            for key, rule in table.items():
                if rule.default == "not set" or ", " in rule.default:
                    continue
                # An empty default means no rules and no names. A caller leaves the key out instead.
                if rule.default == "" and type(rule.kind) in (Names, Text):
                    continue
                with self.subTest(key=key):
                    self.assertEqual(rule.kind.render(rule.kind.parse(rule.default)), rule.default)

    def test_each_kind_gives_a_schema_of_the_values_that_it_accepts(self) -> None:
        samples = [True, False, *range(-2, 20), 64, 65, 1.5, None, [], {}, "", *map(str, range(-2, 20)), "ORT_PARALLEL"]
        samples += ["A", "A;B", "a,b", "apply", "x\n"]
        for kind in (
            Flag(),
            Flag("False", "True"),
            Fixed(False, "a reason"),
            Integer(-1, 64),
            Integer(0, 64, flags=True),
            Integer(among=(-1, 0, 16)),
            Threads(2),
            Choice("", "apply", A="b"),
            Member(*ExecutionMode.__members__.values()),
            Names(lambda: ("A", "B"), "names"),
            Text(r"\w+(,\w+)*", "words", max_bytes=8),
        ):
            schema = json.loads(json.dumps(kind.schema))
            for value in samples:
                with self.subTest(type(kind).__name__, value=value):
                    if self.accepts(kind, value):
                        self.assertTrue(self.is_valid(schema, value), schema)
                    elif type(value) is not str and not (type(kind) is Threads and type(value) is int and value > 16):
                        self.assertFalse(self.is_valid(schema, value), schema)

    def accepts(self, kind: Kind, value: object) -> bool:
        try:
            kind.parse(value)
        except ValueError:
            return False
        return True

    def is_valid(self, schema: dict, value: object) -> bool:
        """Check the few keywords of JSON Schema that kinds use, without the package jsonschema."""
        self.assertLessEqual(
            {*schema}, {"anyOf", "enum", "type", "minimum", "maximum", "pattern", "maxLength", "$comment"}
        )
        if "anyOf" in schema:
            return any(self.is_valid(part, value) for part in schema["anyOf"])
        if "enum" in schema:
            # JSON distinguishes true from 1.
            return any(type(value) is type(member) and value == member for member in schema["enum"])
        if type(value) is not {"string": str, "integer": int}[schema["type"]]:
            return False
        if type(value) is int:
            return schema.get("minimum", value) <= value <= schema.get("maximum", value)
        return len(value) <= schema.get("maxLength", len(value)) and bool(re.search(schema.get("pattern", ""), value))


class TestThreadsOfTheProcess(unittest.TestCase):
    """The bound on threads and the trial start protect a worker from its caller."""

    def test_cpus_of_a_system_without_affinity(self) -> None:
        with mock.patch.object(value_kinds, "os") as system:
            del system.sched_getaffinity
            for count, usable in ((8, 8), (1, 1), (None, 1)):
                system.cpu_count.return_value = count
                self.assertEqual(len(value_kinds._cpus()), usable)

    @unittest.skipUnless(hasattr(os, "sched_setaffinity"), "requires a system that pins threads")
    def test_a_pinned_thread_counts_the_cpus_of_the_process(self) -> None:
        def pinned() -> tuple[int, int]:
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # of this thread, as OpenVINO does
            return len(value_kinds.CPUS), value_kinds.usable_cores()

        expected = len(value_kinds.CPUS), value_kinds.usable_cores()
        with ThreadPoolExecutor(1) as pool:
            self.assertEqual(pool.submit(pinned).result(), expected)

    def test_threads_that_cannot_start_are_refused(self) -> None:
        # ORT would wait for them indefinitely.
        for error in (RuntimeError("can't start"), MemoryError()):
            failing = mock.patch.object(value_kinds.threading.Thread, "start", side_effect=error)
            with failing, no_session_opens(), self.assertRaises(NotPermittedError) as refused:
                onnxruntime.backend.prepare(two_nodes(), intra_op_num_threads=2)
            self.assertEqual(refused.exception.keyword, "intra_op_num_threads")

    def test_threads_of_both_pools_are_started_together(self) -> None:
        parallel, cores = {"execution_mode": "ORT_PARALLEL"}, os.cpu_count()
        for attributes, most in (
            ({"intra_op_num_threads": 3, "inter_op_num_threads": 4, **parallel}, 7),
            ({"intra_op_num_threads": 3, **parallel}, 3 + cores),
            ({"inter_op_num_threads": 4, **parallel}, 4 + cores),
            ({"intra_op_num_threads": 3}, 3),
            ({"intra_op_num_threads": 3, "inter_op_num_threads": 1, **parallel}, 3),
        ):
            with self.subTest(attributes), mock.patch.object(value_kinds, "threads_start", return_value=True) as starts:
                onnxruntime.backend.prepare(two_nodes(), **attributes)
            self.assertEqual(max(call.args[0] for call in starts.call_args_list), most)

    def test_threads_that_started_end(self) -> None:
        before = threading.active_count()
        self.assertTrue(value_kinds.threads_start(8))
        self.assertEqual(threading.active_count(), before)

    @unittest.skipUnless(sys.platform == "linux", "requires Linux, whose description of the CPUs the test reads")
    def test_hyper_threads_of_one_core_count_once(self) -> None:
        def siblings(path: str, **_: object) -> object:
            cpu = int(pathlib.Path(path).parts[5].removeprefix("cpu"))
            return mock.mock_open(read_data=f"{cpu // 2 * 2}-{cpu // 2 * 2 + 1}\n")()

        for cpus, cores in (({0}, 1), ({0, 1}, 1), ({1, 2}, 2), ({0, 1, 2, 3}, 2)):
            with (
                self.subTest(cpus),
                mock.patch.object(value_kinds, "CPUS", cpus),
                mock.patch("builtins.open", siblings),
            ):
                self.assertEqual(value_kinds.usable_cores(), cores)
        for cpus, cores in (({0}, 1), ({0, 1}, 1), ({0, 1, 2}, 2)):  # if the system does not describe the CPUs
            with (
                self.subTest(cpus),
                mock.patch.object(value_kinds, "CPUS", cpus),
                mock.patch("builtins.open", side_effect=FileNotFoundError),
            ):
                self.assertEqual(value_kinds.usable_cores(), cores)


if __name__ == "__main__":
    unittest.main()
