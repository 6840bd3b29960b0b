# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Checks the settings of runs: run config entries and attributes of ``RunOptions``."""

from __future__ import annotations

import collections
import contextlib
import gc
import sys
import tracemalloc
import unittest
import warnings
import weakref
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import ClassVar
from unittest import mock

import numpy as np
from backend_test_children import run_code
from backend_test_hostile_values import Str
from backend_test_models import no_session_opens, parsed, reads_linux, sent_run_config, two_nodes

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend import NotPermittedError, request
from onnxruntime.backend.runs import run_options

X = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
CPU = "CPUExecutionProvider"
SHRINKAGE = "memory.enable_memory_arena_shrinkage"


def prepare(**keywords):
    return onnxruntime.backend.prepare(two_nodes(), **keywords)


@contextlib.contextmanager
def counted_run_options() -> Iterator[tuple[object, type]]:
    """Return a prepared model, and the class of its later run options: it counts the created and the kept ones."""

    class Counted(onnxruntime.RunOptions):
        created = 0
        alive: ClassVar = weakref.WeakSet()

        def __init__(self) -> None:
            super().__init__()
            Counted.created += 1
            Counted.alive.add(self)

    rep = prepare()
    rep.run([X])  # creates the run options of runs without settings
    with mock.patch.object(run_options, "RunOptions", Counted):
        yield rep, Counted


class RunConfigTest(unittest.TestCase):
    def test_a_run_adds_and_wins(self) -> None:
        rep = prepare(run_config={"gpu_graph_id": 3})
        self.assertEqual(
            sent_run_config(rep, run_config={SHRINKAGE: "cpu:0"}), {"gpu_graph_id": "3", SHRINKAGE: "cpu:0"}
        )
        self.assertEqual(sent_run_config(rep, run_config={"gpu_graph_id": -1}), {"gpu_graph_id": "-1"})
        self.assertEqual(sent_run_config(rep), {"gpu_graph_id": "3"}, "the next run has the prepared entries only")
        self.assertEqual(sent_run_config(rep, log_severity_level=3), {"gpu_graph_id": "3"})
        # These settings are not looked up among those of earlier runs.
        for given, keywords in (
            ({"gpu_graph_id": -1}, {"log_severity_level": 3}),
            (collections.UserDict(gpu_graph_id=-1), {}),
            ({"gpu_graph_id": np.int64(-1)}, {}),
        ):
            self.assertEqual(sent_run_config(rep, run_config=given, **keywords), {"gpu_graph_id": "-1"})

    def test_preparing_a_rep_again(self) -> None:
        first = prepare(run_config={"gpu_graph_id": 3})
        second = onnxruntime.backend.prepare(first, run_config={SHRINKAGE: "cpu:0"})
        third = onnxruntime.backend.prepare(first, run_config={"gpu_graph_id": 4})
        self.assertIsNot(first, second)
        self.assertIs(first._session, second._session)
        self.assertEqual(dict(first.run_config), {"gpu_graph_id": "3"})
        self.assertEqual(dict(second.run_config), {"gpu_graph_id": "3", SHRINKAGE: "cpu:0"})
        self.assertEqual(dict(third.run_config), {"gpu_graph_id": "4"})
        self.assertEqual(sent_run_config(first), {"gpu_graph_id": "3"})

    def test_an_existing_session(self) -> None:
        session = prepare()._session
        rep = onnxruntime.backend.prepare(session, run_config={"gpu_graph_id": 3})
        self.assertEqual(sent_run_config(rep), {"gpu_graph_id": "3"})
        np.testing.assert_array_equal(onnxruntime.backend.run(session, [X], run_config={"gpu_graph_id": 3})[0], abs(X))

    @reads_linux
    def test_it_acts_on_each_run(self) -> None:
        # A run that leaves 64 MiB in the arena releases them at its end, as the resident memory shows.
        code = f"""
import numpy as np, os, sys
import onnxruntime.backend
def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20
rep = onnxruntime.backend.prepare(sys.stdin.buffer.read(), provider_options={{"{CPU}": {{}}}})
x = np.ones((16 << 20,), np.float32)
rep.run([x[:1]])  # small, because the arena never releases its first region
rep.run([x])
kept = resident()
shrink = {{"{SHRINKAGE}": "cpu:0"}}
shrinking = onnxruntime.backend.prepare(rep, run_config=shrink)
for prepared, run_config in ((shrinking, None), (shrinking, None), (rep, shrink)):
    prepared.run([x], run_config=run_config)
    print(kept - resident())
    rep.run([x])
    assert kept - resident() < 32, "a run without it keeps the arena"
"""
        big = parsed("(float[N] X) => (float[1] Y) { Z = Neg (X) Y = ReduceMax <keepdims = 1> (Z) }")
        done = run_code(code, input=big.SerializeToString())
        done.check_returncode()
        released = [int(line) for line in done.stdout.split()]
        self.assertEqual(len(released), 3)
        self.assertGreater(min(released), 48)

    def test_shrinkage_needs_its_arena(self) -> None:
        for keywords, value in (({"enable_cpu_mem_arena": False}, "cpu:0"), ({}, "gpu:0"), ({}, "cpu:0;gpu:0")):
            with no_session_opens(), self.assertRaises(NotPermittedError) as caught:
                prepare(run_config={SHRINKAGE: value}, **keywords)
            self.assertEqual((caught.exception.keyword, caught.exception.key), ("run_config", SHRINKAGE))
        rep = prepare(enable_cpu_mem_arena=False)
        with self.assertRaises(NotPermittedError):
            rep.run([X], run_config={SHRINKAGE: "cpu:0"})

    def at_every_moment(self, function: str, act: Callable[[], None], call: Callable[[], None]) -> None:
        """Call, and act between two instructions of a function of the package, once for each instruction."""
        moment, left = 0, -1
        while left < 0:
            moment += 1
            left = moment

            def trace(frame, event, _):
                nonlocal left
                if frame.f_code.co_name == function:
                    frame.f_trace_opcodes = True
                    left -= event == "opcode"
                    if left == 0:
                        left = -1
                        act()
                return trace

            before = sys.gettrace()
            # Python 3.12.1 delivers no opcode events if no frame requested them before settrace.
            sys._getframe().f_trace_opcodes = True
            sys.settrace(trace)
            try:
                call()
            finally:
                sys.settrace(before)  # a coverage tool may use it
        self.assertGreater(moment, 10)

    def test_another_thread_changes_it_in_a_run(self) -> None:
        rep, config = prepare(), {}

        def run() -> None:
            config.clear()
            config[SHRINKAGE] = "cpu:0"
            np.testing.assert_array_equal(rep.run([X], run_config=config)[0], abs(X))

        self.at_every_moment("settings_of", lambda: config.update({"gpu_graph_id": -1}), run)

    def test_another_thread_adds_entries_while_it_is_read(self) -> None:
        for added in (1, 300):
            config = {}

            def read(config=config, added=added) -> None:
                config.clear()
                config["a"] = 1
                try:
                    found = request.read("session_config", config)
                    self.assertLessEqual(len(found), 256)
                    self.assertEqual(found["a"], 1)
                except NotPermittedError as refusal:
                    self.assertEqual((refusal.keyword, added), ("session_config", 300))

            more = {str(number): 1 for number in range(added)}
            self.at_every_moment("read", lambda config=config, more=more: config.update(more), read)

    def test_a_run_accepts_mappings_only(self) -> None:
        rep = prepare()
        for given in (7, "gpu_graph_id", ["gpu_graph_id"], [("gpu_graph_id", 1)], object()):
            for keywords in ({}, {"log_severity_level": 3}):
                with self.assertRaises(TypeError) as caught:
                    rep.run([X], run_config=given, **keywords)
                self.assertEqual(caught.exception.keyword, "run_config")

    def test_a_run_refuses_settings_of_the_session(self) -> None:
        rep = prepare()
        keywords = ("provider_options", "session_config", "session_options", "free_dimension_overrides")
        for i, keyword in enumerate(keywords):
            with self.assertRaises(NotPermittedError) as caught:
                rep.run([X], **{late: {} for late in reversed(keywords[i:])})
            self.assertEqual(caught.exception.keyword, keyword, "the first in the documented order")
            rep.run([X], **{keyword: None})

    def test_a_refused_run_config_changes_nothing(self) -> None:
        rep = prepare(run_config={"gpu_graph_id": 3})
        for bad in (
            {"gpu_graph_id": 1024},
            {"gpu_graph_id": "-2"},
            {"no.such": 1},
            {"session.disable_prepacking": 1},
            {None: 1},
        ):
            with self.assertRaises(NotPermittedError):
                rep.run([X], run_config=bad)
        self.assertEqual(sent_run_config(rep), {"gpu_graph_id": "3"})

    def test_equal_values_of_other_types_are_refused(self) -> None:
        rep = prepare()
        for _ in range(2):
            rep.run([X], run_config={"gpu_graph_id": 1})
            rep.run([X], run_config={SHRINKAGE: "cpu:0"}, log_severity_level=3, only_execute_path_to_fetches=True)
        for _ in range(2):
            for keywords in (
                *({"run_config": {"gpu_graph_id": equal}} for equal in (True, 1.0, 1 + 0j, Str("1"))),
                *({"run_config": {key: 1}} for key in (Str("gpu_graph_id"), Str("profile"))),
                {"run_config": {SHRINKAGE: Str("cpu:0")}},
                {"run_config": {Str(SHRINKAGE): "cpu:0"}},
                {"log_severity_level": 3.0},
                {"log_severity_level": True},
                {"only_execute_path_to_fetches": 1.0},
            ):
                with self.subTest(keywords=repr(keywords)), self.assertRaises(NotPermittedError):
                    rep.run([X], **keywords)
        self.assertEqual(sent_run_config(rep, run_config={"gpu_graph_id": 1}), {"gpu_graph_id": "1"})

    def test_large_arguments_of_a_run_are_not_copied(self) -> None:
        rep, many, long = prepare(), {str(number): 1 for number in range(10**6)}, "x" * 10**6
        run_configs = ({"run_config": given} for given in (many, {long: 1}, {SHRINKAGE: long}))
        for keywords in (*run_configs, {"logid": long}, {long: 1}):
            refuses = contextlib.suppress if long in keywords else self.assertRaises  # an unknown name is ignored
            tracemalloc.start()
            with warnings.catch_warnings(), refuses(NotPermittedError):
                warnings.simplefilter("ignore")
                rep.run([X], **keywords)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            self.assertLess(peak, 10**6)

    def test_values_without_an_end_are_refused(self) -> None:
        doubled: list = []
        for _ in range(100):
            doubled = [doubled, doubled]
        rep = prepare()
        for keywords in ({"run_config": {"gpu_graph_id": doubled}}, {"run_config": doubled}, {"logid": doubled}):
            with self.subTest(keyword=next(iter(keywords))), self.assertRaises(NotPermittedError):
                rep.run([X], **keywords)
        for empty in ({}, MappingProxyType({}), collections.UserDict()):
            self.assertEqual(sent_run_config(rep, run_config=empty), {})
        self.assertEqual(sent_run_config(rep, run_config={"gpu_graph_id": np.int64(2)}), {"gpu_graph_id": "2"})

    def test_settings_of_an_earlier_run_are_used_again(self) -> None:
        with counted_run_options() as (rep, options):
            for logid in ("worker", "".join(["work", "er"])):  # marshal distinguishes an interned text from others
                rep.run([X], run_config={SHRINKAGE: "cpu:0"}, log_severity_level=3, logid=logid)
            self.assertEqual(options.created, 1)

    def test_few_settings_of_earlier_runs_are_kept(self) -> None:
        most = 0
        with counted_run_options() as (rep, options):
            for number in range(1000):
                rep.run([X], logid=f"run {number}")
                most = max(most, len(options.alive))
        self.assertIn(most, range(2, 65))

    def test_no_text_of_a_caller_is_kept(self) -> None:
        marker = "of the caller"
        with counted_run_options() as (rep, options):
            for keywords in (
                {marker: 1},
                {"unknown": marker},
                {"unknown": 1 << 9999},
                {"logid": marker * 1000},
                {"logid": 1 << 9999},
                {"only_execute_path_to_fetches": "1"},
                {"run_config": {marker: "1"}},
                {"run_config": {SHRINKAGE: marker}},
                {"run_config": {SHRINKAGE: f"cpu:0{' ' * 99}"}},
                {"run_config": {"gpu_graph_id": f"{'0' * 99}1"}},
                {"run_config": {"gpu_graph_id": 1 << 9999}},
            ):
                for more in ({}, {"log_severity_level": 3}):
                    with contextlib.suppress(NotPermittedError):
                        rep.run([X], **keywords, **more)
                    self.assertEqual(len(options.alive), 0, keywords)

    def test_kept_settings_do_not_keep_the_session(self) -> None:
        rep = prepare()
        rep.run([X], run_config={SHRINKAGE: "cpu:0"})
        session = weakref.ref(rep._session)
        gc.disable()
        self.addCleanup(gc.enable)
        del rep
        self.assertIsNone(session())


class UnknownKeywordTest(unittest.TestCase):
    def test_a_warning_on_every_use(self) -> None:
        rep = prepare()
        for call in (rep.run, lambda inputs, **keywords: onnxruntime.backend.run(rep, inputs, **keywords)):
            for keywords in ({"output_names": None}, {"intra_op_num_threads": 2}, {"log_severity": 3}, {"mine": 1}):
                for _ in range(2):
                    with self.subTest(keywords=keywords), warnings.catch_warnings(record=True) as given:
                        warnings.simplefilter("always")
                        call([X], **keywords)
                    self.assertEqual([(each.category, each.filename) for each in given], [(RuntimeWarning, __file__)])
                    self.assertIn(next(iter(keywords)), str(given[0].message))


if __name__ == "__main__":
    unittest.main()
