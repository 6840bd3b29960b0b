# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the permitted attributes: each value is set, and each default of the tables is ORT's."""

import unittest
from unittest import mock

import _above
import numpy as np
from helpers.allowlist import run_attributes, session_attributes
from helpers.models import no_session_opens, two_nodes

import onnxruntime
import onnxruntime.backend
from onnxruntime import ExecutionMode, ExecutionOrder, GraphOptimizationLevel, RunOptions, SessionOptions
from onnxruntime.backend import NotPermittedError
from onnxruntime.backend.allowlist import threads
from onnxruntime.backend.allowlist.attributes import RUN_ATTRIBUTES, SESSION_ATTRIBUTES

X = np.ones((2, 3), np.float32)
MOST = max(16, 4 * len(threads.CPUS))
THREADS = {0: (0,), 1: (1, "1"), 2: ("2", np.int64(2)), MOST: (MOST, str(MOST))}
FLAG = {True: (True, 1, np.True_), False: (False, "0", np.int8(0))}
ONLY_OFF = {False: (False, 0, "0", np.False_)}
TEXTS = {text: (text,) for text in ("", "a.b-c_1", "tenant-7/run_2@host+x.y", "request 7 of tenant a", "x" * 256)}
PARALLEL, ALL = ExecutionMode.ORT_PARALLEL, GraphOptimizationLevel.ORT_ENABLE_ALL
# Attribute to its permitted values with their spellings. helpers/refused.py lists refused values.
VALUES = {
    "intra_op_num_threads": THREADS,
    "inter_op_num_threads": THREADS,
    "log_severity_level": {-1: (-1,), 2: (2,), 4: (4, "4")},
    "log_verbosity_level": {0: (0, "0")},
    "logid": TEXTS,
    "enable_profiling": ONLY_OFF,
    "terminate": ONLY_OFF,
    "enable_cpu_mem_arena": FLAG,
    "enable_mem_pattern": FLAG,
    "enable_mem_reuse": FLAG,
    "only_execute_path_to_fetches": FLAG,
    "use_deterministic_compute": FLAG,
    "use_per_session_threads": FLAG,
    "execution_mode": {PARALLEL: ("ORT_PARALLEL", PARALLEL)},
    "graph_optimization_level": {ALL: ("ORT_ENABLE_ALL", ALL)},
    "execution_order": {ExecutionOrder.PRIORITY_BASED: ("PRIORITY_BASED",)},
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
                for value, spellings in VALUES[name].items():
                    for given in spellings:
                        with self.subTest(name, given=given):
                            found = find({name: given})[name]
                            self.assertEqual((type(found), found), (type(value), value))
                            setattr(options, name, found)
                            self.assertEqual(getattr(options, name), value)

    def test_all_attributes_are_set(self):
        last = {name: [*permitted][-1] for name, permitted in VALUES.items()}
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
        for name in VALUES:
            with self.subTest(name), no_session_opens(), self.assertRaises(NotPermittedError) as refused:
                if name in SESSION_ATTRIBUTES:
                    onnxruntime.backend.prepare(two_nodes(), **{name: [1]})
                rep.run([X], **{name: [1]})
            self.assertEqual(refused.exception.keyword, name)


if __name__ == "__main__":
    unittest.main()
