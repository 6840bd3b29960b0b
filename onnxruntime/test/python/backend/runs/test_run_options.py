# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Checks the settings of runs: run config entries and attributes of ``RunOptions``."""

import collections
import contextlib
import gc
import reprlib
import tracemalloc
import unittest
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import ClassVar
from unittest import mock

import _above
import numpy as np
from helpers.children import run_code
from helpers.hostile_values import Str
from helpers.inputs import X
from helpers.models import no_session_opens, parsed, reads_linux, sent_run_config, two_nodes
from helpers.threads import at_every_moment

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend import InputError, NotPermittedError, request
from onnxruntime.backend.errors import Place
from onnxruntime.backend.runs import settings

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
    with mock.patch.object(settings, "RunOptions", Counted):
        yield rep, Counted


class RunConfigTest(unittest.TestCase):
    def test_a_run_adds_and_wins(self):
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

    def test_preparing_again(self):
        first = prepare(run_config={"gpu_graph_id": 3})
        for source, before in ((first, {"gpu_graph_id": "3"}), (first.session, {})):
            for added in ({SHRINKAGE: "cpu:0"}, {"gpu_graph_id": "4"}):
                again = onnxruntime.backend.prepare(source, run_config=added)
                self.assertIs(again.session, first.session)
                self.assertEqual((dict(again.run_config), sent_run_config(again)), ({**before, **added},) * 2)
        self.assertEqual((dict(first.run_config), sent_run_config(first)), ({"gpu_graph_id": "3"},) * 2)

    @reads_linux
    def test_it_acts_on_each_run(self):
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

    def test_another_thread_changes_it_in_a_run(self):
        rep, config = prepare(), {}

        def run() -> list:
            config.clear()
            config[SHRINKAGE] = "cpu:0"
            return rep.run([X], run_config=config)

        def check(seen: object) -> None:
            np.testing.assert_array_equal(seen[0], abs(X))

        at_every_moment(lambda: config.update({"gpu_graph_id": -1}), run, check)

    def test_another_thread_adds_entries_while_it_is_read(self):
        for added in (1, 300):
            config, more = {}, {str(number): 1 for number in range(added)}

            def read(config=config) -> dict:
                config.clear()
                config["a"] = 1
                return request.read_mapping(Place("session_config"), config)

            def check(seen: object, added=added) -> None:
                if (seen, added) != (NotPermittedError, 300):
                    self.assertLessEqual(len(seen), 256)
                    self.assertEqual(seen["a"], 1)

            at_every_moment(lambda config=config, more=more: config.update(more), read, check, opcodes=True)

    def test_refused_settings(self):
        """Also if an equal value was permitted for an earlier run."""
        rep = prepare(provider_options={}, run_config={"gpu_graph_id": 3})
        rep.run([X], run_config={"gpu_graph_id": 1})
        for _ in range(2):
            rep.run([X], run_config={SHRINKAGE: "cpu:0"}, log_severity_level=3)
            rep.run([X], log_severity_level=3, logid="mine", only_execute_path_to_fetches=True)
        doubled: list = []
        for _ in range(100):
            doubled = [doubled, doubled]
        refused = [
            *(("run_config", given) for given in (7, "gpu_graph_id", [("gpu_graph_id", 1)], object(), doubled)),
            *(("run_config", {"gpu_graph_id": value}) for value in (1024, "-2", doubled, True, 1.0, 1 + 0j, Str("1"))),
            *(("run_config", {key: 1}) for key in ("no.such", "session.disable_prepacking", None, Str("profile"))),
            *(("run_config", {SHRINKAGE: value}) for value in (Str("cpu:0"), "gpu:0", "cpu:0;gpu:0")),
            ("run_config", {Str(SHRINKAGE): "cpu:0"}),
            ("run_config", {"log_severity_level": 3}),
            ("run_config", MappingProxyType({SHRINKAGE: "gpu:0"})),
            ("logid", Str("mine")),
            ("logid", doubled),
            *(("log_severity_level", equal) for equal in (3.0, True)),
            ("only_execute_path_to_fetches", 1.0),
        ]
        for keyword, value in refused:
            kind = NotPermittedError if keyword != "run_config" or isinstance(value, Mapping) else TypeError
            for more in ({}, {"log_verbosity_level": 0}):
                with self.subTest(keyword, value=reprlib.repr(value)), self.assertRaises(kind) as caught:
                    rep.run([X], **{keyword: value}, **more)
                self.assertEqual(caught.exception.keyword, keyword)
        self.assertEqual(sent_run_config(rep), {"gpu_graph_id": "3"})
        from_model = mock.patch.dict("os.environ", {"ORT_LOAD_CONFIG_FROM_MODEL": "1"})
        with from_model, self.assertRaisesRegex(NotPermittedError, "ORT_LOAD_CONFIG_FROM_MODEL"):
            rep.run([X], run_config={"gpu_graph_id": 1})
        no_arena = prepare(enable_cpu_mem_arena=False)
        with self.assertRaises(NotPermittedError):
            no_arena.run([X], run_config={SHRINKAGE: "cpu:0"})
        with no_session_opens(), self.assertRaises(NotPermittedError):
            prepare(run_config={SHRINKAGE: "cpu:0"}, enable_cpu_mem_arena=False)

    def test_large_arguments_of_a_run_are_not_copied(self):
        rep, many, long = (prepare(), {str(number): 1 for number in range(10**6)}, "x" * 10**6)
        run_configs = ({"run_config": given} for given in (many, {long: 1}, {SHRINKAGE: long}))
        for keywords in (*run_configs, {"logid": long}, {long: 1}):
            refuses = contextlib.suppress if long in keywords else self.assertRaises  # an unknown name is ignored
            tracemalloc.start()
            with warnings.catch_warnings(action="ignore"), refuses(NotPermittedError):
                rep.run([X], **keywords)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            self.assertLess(peak, 10**6)

    def test_settings_of_an_earlier_run_are_used_again(self):
        with counted_run_options() as (rep, options):
            for logid in ("worker", "".join(["work", "er"])):  # marshal distinguishes an interned text from others
                rep.run([X], run_config={SHRINKAGE: "cpu:0"}, log_severity_level=3, logid=logid)
            self.assertEqual(options.created, 1)

    def test_each_run_warns_about_a_setting_without_effect(self):
        rep = prepare(provider_options={})
        for _ in range(2):
            with self.assertWarnsRegex(RuntimeWarning, "gpu_graph_id"):
                rep.run([X], run_config={"gpu_graph_id": 5})

    def test_options_for_the_session_have_the_attributes_of_a_run(self):
        rep = prepare(run_config={SHRINKAGE: "cpu:0"})
        options = rep.run_options(log_severity_level=3, logid="mine")
        self.assertEqual((options.log_severity_level, options.logid), (3, "mine"))
        self.assertEqual(options.get_run_config_entry(SHRINKAGE), "cpu:0")
        self.assertNotEqual(rep.run_options().log_severity_level, 3)
        for refused in ({"log_severity_level": 0}, {"terminate": True}):
            with self.subTest(refused), self.assertRaises(NotPermittedError):
                rep.run_options(**refused)
        with self.assertWarnsRegex(RuntimeWarning, "'unknown' .*is ignored"):
            rep.run_options(unknown=1)

    def test_few_settings_of_earlier_runs_are_kept(self):
        most = 0
        with counted_run_options() as (rep, options):
            for number in range(1000):
                rep.run([X], logid=f"run {number}")
                most = max(most, len(options.alive))
        self.assertIn(most, range(2, 65))

    def test_only_permitted_settings_are_kept(self):
        marker = "of the caller"
        with counted_run_options() as (rep, options):
            for keywords in (
                {marker: 1},
                {"logid": marker * 1000},
                {"run_config": {marker: "1"}},
                {"run_config": {SHRINKAGE: f"cpu:0{' ' * 99}"}},
                {"run_config": {"gpu_graph_id": f"{'0' * 99}1"}},
                {"run_config": {"gpu_graph_id": 1 << 9999}},
            ):
                for more in ({}, {"log_severity_level": 3}):
                    with contextlib.suppress(NotPermittedError):
                        rep.run([X], **keywords, **more)
                    self.assertEqual(len(options.alive), 0, keywords)

    def test_neither_settings_nor_errors_keep_the_session(self):
        self.check_not_kept(lambda rep: rep.run([X], run_config={SHRINKAGE: "cpu:0"}))
        for inputs in ([], [X[0]], ["text"], {"unknown": X}):

            def fail(rep: object, inputs: object = inputs) -> None:
                for limits in ({}, {"timeout": 60}):
                    try:  # assertRaises would clear the frames of the error
                        rep.run(inputs, **limits)
                    except InputError:
                        continue
                    self.fail(inputs)

            with self.subTest(inputs):
                self.check_not_kept(fail)

    def check_not_kept(self, use: Callable) -> None:
        """Check that the session ends with its prepared model, and not in the garbage collector."""
        gc.disable()
        self.addCleanup(gc.enable)
        rep = prepare()
        session = weakref.ref(rep._session)
        use(rep)
        del rep
        self.assertIsNone(session())


if __name__ == "__main__":
    unittest.main()
