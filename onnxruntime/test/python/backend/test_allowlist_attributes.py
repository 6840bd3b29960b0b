# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the permitted attributes: values that act outside the session, or that ORT rejects, are refused."""

from __future__ import annotations

import unittest
from unittest import mock

import numpy as np
from helpers.allowlist import run_attributes, session_attributes
from helpers.hostile_values import Int, Str
from helpers.models import no_session_opens, two_nodes

import onnxruntime
import onnxruntime.backend
from onnxruntime import ExecutionMode, ExecutionOrder, GraphOptimizationLevel, RunOptions, SessionOptions
from onnxruntime.backend import NotPermittedError
from onnxruntime.backend.allowlist import threads
from onnxruntime.backend.allowlist.attributes import RUN_ATTRIBUTES, SESSION_ATTRIBUTES

X = np.ones((2, 3), np.float32)
_MOST = max(16, 4 * len(threads.CPUS))
_NO_NUMBERS = (None, [], "x", "", "1 ", "\u0663", True, 2.0, Int(2))
_THREADS = (
    {0: (0,), 1: (1, "1"), 2: ("2", np.int64(2)), _MOST: (_MOST, str(_MOST))},
    (-1, "-1", _MOST + 1, str(_MOST + 1), *_NO_NUMBERS),
)
_FLAG = ({True: (True, 1, np.True_), False: (False, "0", np.int8(0))}, (2, "True", "", None, 1.0, [], Int(1), Str("1")))
_ONLY_OFF = ({False: (False, 0, "0", np.False_)}, (True, 1, "1", "written", None))
_TEXTS = ("", "a.b-c_1", "tenant-7/run_2@host+x.y", "request 7 of tenant a", "x" * 256)
# They would end a field of a log line, begin another line, or reach a terminal.
_NO_FIELD = ("a  b", " a", "a ", "a]", "[a", "a:b", "a,b", "a\n", "a\nb", "a\rb", "a\t", "a\0", "a\0b", "\x1b[31m")
_NO_TEXT = ("\u2028", "\u202eb", "\u00e9", "\ud800", "x" * 257, b"a", 1, None, Str("a"))
_PARALLEL, _ALL = ExecutionMode.ORT_PARALLEL, GraphOptimizationLevel.ORT_ENABLE_ALL
_PRIORITY, _TRAINING = ExecutionOrder.PRIORITY_BASED, ExecutionOrder.MEMORY_EFFICIENT

# Attribute to its permitted values with their spellings, and to values that are not permitted.
VALUES = {
    "intra_op_num_threads": _THREADS,
    "inter_op_num_threads": _THREADS,
    # A caller cannot make the log of the process longer.
    "log_severity_level": ({-1: (-1,), 2: (2,), 4: (4, "4")}, (-2, 0, 1, "0", 5, *_NO_NUMBERS)),
    "log_verbosity_level": ({0: (0, "0")}, (1, -1, *_NO_NUMBERS)),
    "logid": ({text: (text,) for text in _TEXTS}, (*_NO_FIELD, *_NO_TEXT)),
    "enable_profiling": _ONLY_OFF,
    "terminate": _ONLY_OFF,
    "enable_cpu_mem_arena": _FLAG,
    "enable_mem_pattern": _FLAG,
    "enable_mem_reuse": _FLAG,
    "only_execute_path_to_fetches": _FLAG,
    "use_deterministic_compute": _FLAG,
    "use_per_session_threads": _FLAG,
    # ORT accepts numbers without a name. Only training builds have MEMORY_EFFICIENT.
    "execution_mode": ({_PARALLEL: ("ORT_PARALLEL", _PARALLEL)}, (ExecutionMode(77), 1, "parallel")),
    "graph_optimization_level": ({_ALL: ("ORT_ENABLE_ALL", _ALL)}, (GraphOptimizationLevel(77), 99, _PARALLEL)),
    "execution_order": ({_PRIORITY: ("PRIORITY_BASED",)}, (ExecutionOrder(77), _TRAINING, "MEMORY_EFFICIENT")),
}


class AttributesTest(unittest.TestCase):
    def test_permitted_values(self):
        self.assertEqual({*VALUES}, {*SESSION_ATTRIBUTES, *RUN_ATTRIBUTES})
        for owner, table, find in (
            (SessionOptions, SESSION_ATTRIBUTES, session_attributes),
            (RunOptions, RUN_ATTRIBUTES, run_attributes),
        ):
            for name, rule in table.items():
                options = owner()
                default = getattr(options, name)
                self.assertEqual(getattr(default, "name", str(default)), rule.default)
                for value, spellings in VALUES[name][0].items():
                    for given in spellings:
                        with self.subTest(name, given=given):
                            found = find({name: given})[name]
                            self.assertEqual((type(found), found), (type(value), value))
                            setattr(options, name, found)
                            self.assertEqual(getattr(options, name), value)
        for text in _TEXTS:
            self.assertEqual(onnxruntime.backend.prepare(two_nodes(), logid=text).session_options["logid"], text)

    def test_all_attributes_are_set(self):
        last = {name: [*permitted][-1] for name, (permitted, _) in VALUES.items()}
        # The process has no global thread pools, and many threads cost time.
        last |= {"use_per_session_threads": True, "intra_op_num_threads": 1, "inter_op_num_threads": 2}
        given = {name: last[name] for name in SESSION_ATTRIBUTES}
        for keywords in (given, {"session_options": given}):
            rep = onnxruntime.backend.prepare(two_nodes(), **keywords)
            options = rep.session.get_session_options()
            self.assertEqual({name: getattr(options, name) for name in given}, given)
            reported = {name: getattr(value, "name", value) for name, value in given.items()}
            self.assertEqual((rep.session_options, rep.warnings), (reported, ()))
        for name in RUN_ATTRIBUTES:
            value = True if name == "only_execute_path_to_fetches" else last[name]
            with self.subTest(name), mock.patch.object(rep.session, "_sess", wraps=rep.session._sess) as inner:
                rep.run([X], **{name: value})
                self.assertEqual(getattr(inner.run.call_args.args[2], name), value)

    def test_refused_values(self):
        rep = onnxruntime.backend.prepare(two_nodes())
        calls = (
            (SESSION_ATTRIBUTES, lambda **keywords: onnxruntime.backend.prepare(two_nodes(), **keywords)),
            (RUN_ATTRIBUTES, lambda **keywords: rep.run([X], **keywords)),
        )
        for table, call in calls:
            for name in VALUES.keys() & table.keys():
                for value in VALUES[name][1]:
                    with self.subTest(name, value=ascii(value)[:30]), no_session_opens():
                        with self.assertRaises(NotPermittedError) as refused:
                            call(**{name: value})
                        self.assertEqual(refused.exception.keyword, name)


if __name__ == "__main__":
    unittest.main()
