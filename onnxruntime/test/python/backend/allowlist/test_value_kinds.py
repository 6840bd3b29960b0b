# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the value kinds: the accepted values, the rendered text, and hostile values."""

import os
import pathlib
import sys
import tracemalloc
import unittest
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import _above
import numpy as np
from helpers.allowlist import parses
from helpers.hostile_values import Float, Int, Loud, LoudType, NumpyInt, NumpyStr, Str

from onnxruntime import ExecutionMode, GraphOptimizationLevel
from onnxruntime.backend.allowlist import threads, value_kinds
from onnxruntime.backend.allowlist.run_config import RUN_CONFIG
from onnxruntime.backend.allowlist.session_config import SESSION_CONFIG
from onnxruntime.backend.allowlist.threads import Threads
from onnxruntime.backend.allowlist.value_kinds import Choice, Fixed, Flag, ForbiddenError, Integer, Member, Names, Text

# Values whose code must not run, or that a caller cannot mean. Each kind refuses them.
_FOREIGN = (None, {}, [1], 1j, "x" * 10**6, "1" * 10**4, 10**400, np.bytes_(b"1"), Loud(), LoudType, "\ud800")
_ON, _OFF = ((True, 1, "1", np.True_, np.int8(1), np.uint64(1), np.str_("1")), (False, 0, "0", np.False_, np.int64(0)))
_DIGITS = ("\u0661", "\uff11", "\u00b2")  # that are not ASCII
_NO_FLAGS = ("true", "True", "on", "", "01", *_DIGITS, 2, -1, np.float32(1))
_NO_INTEGERS = ("", "-", "--1", "+1", "1_0", "0x1", "1e1", "1.0", "9" * 21, *_DIGITS, True, np.True_)
_MODES = (*ExecutionMode.__members__.values(),)
# ORT accepts the last one.
_NO_MODES = ("ort_parallel", "__members__", "name", 1, GraphOptimizationLevel.ORT_ENABLE_ALL, ExecutionMode(77))
_NO_NAMES = ("", "A;", ";A", "A,B1", "A; B1", "a", "A;A;A", "C", 1, True)
_SPELLED = {str(mode): (mode, mode.name) for mode in _MODES}


# Kinds, each with its texts and the values that are sent so, and with values that it refuses.
KINDS = (
    (Flag("False", "True"), {"True": _ON, "False": _OFF}, _NO_FLAGS),
    (Fixed(False, "a reason"), {"0": _OFF}, _ON),
    (Integer(-1, 64), {"-1": (-1,), "64": (64, "64"), "7": ("007", np.int16(7))}, (*_NO_INTEGERS, -2, "65")),
    (Integer(0, 64, or_flag=True), {"1": (True,), "0": (np.False_,), "64": (64,)}, (65, -1, "True", 1.5)),
    (Choice(-1, 0, 16), {"-1": (-1,), "16": ("16",)}, (-2, 1, 15, 17, "2", True)),
    (Threads(2), {"2": (2, "2"), "16": (np.int64(16), "16")}, (-1, 0, 1, 10**6, str(10**6), 2**64, True, "")),
    (Choice("", "apply", texts={"apply": "A"}), {"": ("",), "A": ("apply",)}, ("Apply", "A", "save", 1, True)),
    (Member(*_MODES), _SPELLED, _NO_MODES),
    (Names(lambda: ("A", "B1"), "names"), {"A": ("A",), "A;B1": ("A;B1",), "A;A": ("A;A",)}, _NO_NAMES),
    (Names(lambda: ("A", "B"), "names", ",", empty=True), {"": ("",), "B,A": ("B,A",)}, (",", "A,", "A;B")),
    (
        Text("[a-c0-9,]+", "parts", 6, "[a-c]"),
        {"a1,b1": ("a1,b1",), "1,1": ("1,1",)},
        ("a1,a2", "d", "a" * 7, *_DIGITS),
    ),
)


def _plain(accepted: dict) -> list[bool | int | str]:
    return [value for values in accepted.values() for value in values if type(value) in (bool, int, str)]


class TestValueKinds(unittest.TestCase):
    def test_accepted_values(self):
        for kind, accepted, _ in KINDS:
            for text, value in ((text, value) for text, values in accepted.items() for value in values):
                with self.subTest(kind.accepts, value=value, type=type(value)):
                    parsed = kind.parse(value)
                    rendered = kind.render(parsed)
                    self.assertEqual((type(rendered), rendered), (str, text))
                    if type(kind) is Member:
                        self.assertIs(type(parsed), ExecutionMode)
                    elif not (type(kind) is Choice and kind.texts):  # ORT reports no other spelling of a name
                        self.assertEqual(kind.read(text), parsed)

    def test_refused_values(self):
        for kind, accepted, refused in KINDS:
            others = [*refused, *_FOREIGN]
            for value in _plain(accepted):
                if type(value) is str:
                    others += [Str(value), NumpyStr(value), value.encode()]
                    others += [f" {value}", *(value + end for end in (" ", "\n", "\0"))]
                else:
                    others += [Int(value), Float(value), NumpyInt(value), float(value), np.array(value)]
            for value in others:
                with (
                    self.subTest(kind.accepts, type=type.__repr__(type(value))),
                    self.assertRaises(ValueError) as raised,
                ):
                    kind.parse(value)
                if type(value) is bool and isinstance(kind, Fixed):
                    self.assertIsInstance(raised.exception, ForbiddenError)
                    self.assertEqual(str(raised.exception), kind.forbidden)

    def test_a_flag_reads_the_spellings_that_ort_reports(self):
        self.assertEqual(
            [Flag().read(text) for text in ("1", "true", "True", "0", "false", "False")], [True] * 3 + [False] * 3
        )
        self.assertRaises(ValueError, Flag().read, "yes")

    def test_threads(self):
        for cpus, high in ((1, 16), (4, 16), (5, 20), (64, 256)):
            with self.subTest(cpus), mock.patch.object(threads, "CPUS", range(cpus)):
                self.assertEqual([parses(Threads(2), number) for number in (high, high + 1)], [True, False])
        self.assertTrue(threads.CPUS)

    def test_long_text_is_not_split(self):
        text = ";" * 10**6
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        with self.assertRaises(ValueError):
            Names(lambda: ("A", "B"), "names").parse(text)
        self.assertLess(tracemalloc.get_traced_memory()[1], 10**6)

    def test_plain_accepts_exact_types_only(self):
        for value, expected in ((np.float64(0.5), 0.5), (np.str_("a"), "a"), (np.bool_(True), True)):
            self.assertEqual((type(value_kinds.plain(value)), value_kinds.plain(value)), (type(expected), expected))
        for value in (np.longdouble(1), np.datetime64("2020"), np.complex64(1), np.void(b"1"), NumpyStr("a"), b"a"):
            with self.subTest(type=type(value)), self.assertRaises(ValueError):
                value_kinds.plain(value)

    def test_each_default_in_the_tables_is_a_value_of_its_kind(self):
        for key, rule in (SESSION_CONFIG | RUN_CONFIG).items():
            # An empty default means no rules and no names. A caller leaves the key out instead.
            nothing = rule.default == "" and isinstance(rule.kind, (Names, Text))
            if not nothing and rule.default != "not set" and ", " not in rule.default:
                with self.subTest(key=key):
                    self.assertEqual(rule.kind.render(rule.kind.parse(rule.default)), rule.default)


class TestThreadsOfTheProcess(unittest.TestCase):
    """The bound on threads protects a worker from its caller."""

    def test_cpus_of_a_system_without_affinity(self):
        with mock.patch.object(threads, "os") as system:
            del system.sched_getaffinity
            for count, usable in ((8, 8), (1, 1), (None, 1)):
                system.cpu_count.return_value = count
                self.assertEqual(len(threads._cpus()), usable)

    @unittest.skipUnless(hasattr(os, "sched_setaffinity"), "requires a system that pins threads")
    def test_a_pinned_thread_counts_the_cpus_of_the_process(self):
        def pinned() -> tuple[int, int]:
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # of this thread, as OpenVINO does
            return len(threads.CPUS), threads.usable_cores()

        expected = len(threads.CPUS), threads.usable_cores()
        with ThreadPoolExecutor(1) as pool:
            self.assertEqual(pool.submit(pinned).result(), expected)

    @unittest.skipUnless(sys.platform == "linux", "requires Linux, whose description of the CPUs the test reads")
    def test_hyper_threads_of_one_core_count_once(self):
        def siblings(path: str, **_: object) -> object:
            cpu = int(pathlib.Path(path).parts[5].removeprefix("cpu"))
            return mock.mock_open(read_data=f"{cpu // 2 * 2}-{cpu // 2 * 2 + 1}\n")()

        unreadable = mock.Mock(side_effect=FileNotFoundError)  # if the system does not describe the CPUs
        for cpus, cores, opened in (
            *(({*cpus}, cores, siblings) for cpus, cores in (((0,), 1), ((0, 1), 1), ((1, 2), 2), ((0, 1, 2, 3), 2))),
            *(({*cpus}, cores, unreadable) for cpus, cores in (((0,), 1), ((0, 1), 1), ((0, 1, 2), 2))),
        ):
            cpus_here = mock.patch.object(threads, "CPUS", cpus)
            with self.subTest(cpus), cpus_here, mock.patch("builtins.open", opened):
                self.assertEqual(threads.usable_cores(), cores)


if __name__ == "__main__":
    unittest.main()
