# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of requests: the keyword arguments of ``prepare`` and ``run``."""

import itertools
import os
import sys
import unittest
import warnings
from collections.abc import Callable
from functools import partial
from types import FrameType
from unittest import mock

from helpers.hostile_values import Loud
from helpers.inputs import X
from helpers.models import no_session_opens, open_session, two_nodes
from helpers.processes import process_with

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend.errors import NotPermittedError
from onnxruntime.backend.request import read_call

CPU = "CPUExecutionProvider"
PREPACKING = "session.disable_prepacking"
SPINNING = "session.intra_op.allow_spinning"


def prepare(**keywords):
    return onnxruntime.backend.prepare(two_nodes(), **keywords)


def calls() -> list[Callable]:
    """Return each function that accepts attributes as keyword arguments."""
    rep = prepare()
    return [
        prepare,
        partial(onnxruntime.backend.run, two_nodes(), [X]),
        partial(onnxruntime.backend.prepare, open_session()),
        partial(rep.run, [X]),
        rep.run_options,
    ]


class ReadTest(unittest.TestCase):
    def test_the_exception_of_a_signal_handler_is_no_refusal(self):
        def raise_as_a_handler(frame: FrameType, event: str, function: object) -> None:
            in_read = frame.f_code.co_name == "read_mapping"
            if in_read and event == "c_call" and function.__name__ == "items":
                sys.setprofile(None)
                raise TimeoutError("of the program's own handler")

        given = {PREPACKING: 1}
        self.addCleanup(sys.setprofile, None)
        with self.assertRaisesRegex(TimeoutError, "own handler"):
            sys.setprofile(raise_as_a_handler)
            read_call({"session_config": given}, {}, None)

    def test_caller_may_change_the_mapping_afterwards(self):
        session_config, run_config = {PREPACKING: 1}, {"gpu_graph_id": 1}
        rep = prepare(session_config=session_config, run_config=run_config)
        session_config[SPINNING] = run_config["gpu_graph_id"] = 0
        self.assertEqual((dict(rep.session_config), dict(rep.run_config)), ({PREPACKING: "1"}, {"gpu_graph_id": "1"}))


class OneShotTest(unittest.TestCase):
    def test_every_keyword_goes_to_its_place(self):
        sent = mock.patch.object(onnxruntime.InferenceSession, "run", autospec=True, return_value=[X])
        with process_with(), sent as run:
            onnxruntime.backend.run(
                two_nodes(),
                [X.tolist()],  # arrays go past this method
                "CPU",
                provider_options={CPU: {}},
                session_config={PREPACKING: 1},
                run_config={"gpu_graph_id": 3},
                intra_op_num_threads=1,
                only_execute_path_to_fetches=True,
                logid="both",
            )
        session, _names, _feeds, run_options = run.call_args.args
        options = session.get_session_options()
        self.assertEqual(session.get_providers(), [CPU])
        self.assertEqual(options.get_session_config_entry(PREPACKING), "1")
        self.assertEqual((options.intra_op_num_threads, options.logid), (1, "both"))
        self.assertEqual(run_options.get_run_config_entry("gpu_graph_id"), "3")
        self.assertEqual((run_options.only_execute_path_to_fetches, run_options.logid), (True, "both"))

    def test_everything_is_validated_before_anything_opens(self):
        for bad in (
            {"provider_options": {"NoSuchExecutionProvider": {}}},
            {"session_config": {"no.such": 1}},
            {"run_config": {"no.such": 1}},
            {"log_severity_level": 9},
            {"terminate": True},
            {"timeout": -1},
            {"cancellation": 5},
        ):
            with self.subTest(bad), no_session_opens(), self.assertRaises(NotPermittedError):
                onnxruntime.backend.run(two_nodes(), [X], **bad)


class Changing(dict):
    """A dict that returns other items when it is read again, and by key."""

    def __init__(self, first: list, later: list) -> None:
        super().__init__(later)
        self.reads, self._first = 0, first

    def items(self):
        self.reads += 1
        return self._first if self.reads == 1 else super().items()


class Liar(str):
    """A text that claims to be the name of a permitted key."""

    __slots__ = ()

    def __hash__(self):
        return hash(PREPACKING)

    def __eq__(self, other):
        return True


class BadInputTest(unittest.TestCase):
    """Each of these fails before any session exists."""

    def refuse(self, keyword: str, given: object, pattern: str, error: type = RuntimeError) -> None:
        with self.subTest(keyword=keyword, pattern=pattern), no_session_opens():
            with self.assertRaisesRegex(error, pattern) as caught:
                prepare(**{keyword: given})
            self.assertTrue(str(caught.exception).isascii())
            self.assertNotIn("from the environment variable", str(caught.exception))
            self.assertLess(len(str(caught.exception)), 4000)

    def test_no_mapping(self):
        others = (1, "text", [("a", 1)], {"a"}, False, iter({}), dict, Loud, Loud())
        for keyword in ("provider_options", "session_config", "run_config", "session_options"):
            for given in others:
                self.refuse(keyword, given, f"{keyword}.*must be a mapping", TypeError)
        for given in (None, 1, [("a", 1)]):
            self.refuse(
                "provider_options", {CPU: given}, r"provider_options\['CPUExecutionProvider'\].* must be a", TypeError
            )

    def test_keys(self):
        class Unhashable(dict):
            def items(self):
                return [([], "1")]

        for given in (Unhashable(x=1), {Liar("x"): 1}, {None: 1}, {b"session.x": 1}):
            self.refuse("session_config", given, "a key must be a str")

    def test_read_once(self):
        harmless, harmful = ([(PREPACKING, "1")], [("session.collect_node_memory_stats_to_file", "written")])
        given = Changing(harmless, harmful)
        self.assertEqual(dict(prepare(session_config=given).session_config), {PREPACKING: "1"})
        self.assertEqual(given.reads, 1)
        self.assertFalse(os.path.exists("written"))
        self.refuse("session_config", Changing(harmful, harmless), "not permitted")

    def test_many_keyword_arguments(self):
        """Each name takes time. Up to 256 unknown names are ignored with a few warnings, as in the stock backend."""
        few = dict.fromkeys((f"unknown{number}" for number in range(256)), 1)
        many = few | {"one_more": 1}
        for call in calls():
            with self.subTest(str(call)):
                with warnings.catch_warnings(record=True, action="always") as given:
                    call(**few)
                self.assertIn("248 further", str(given[-1].message))
                with self.assertRaisesRegex(NotPermittedError, "^keyword arguments: more than 256 entries$"):
                    call(**many)

    def test_name_of_a_keyword_argument(self):
        """A subclass of str could be looked up as one name, and set as another."""
        name = type("Name", (str,), {"__slots__": ()})("logid")
        for call in calls():
            with (
                self.subTest(str(call)),
                self.assertRaisesRegex(
                    NotPermittedError, "^keyword arguments: a key must be a str, not a value of type Name$"
                ),
            ):
                call(**{name: "a"})

    def test_parts_that_only_the_environment_may_contain(self):
        rep = prepare()
        for call in (prepare, partial(onnxruntime.backend.run, two_nodes(), [X]), partial(rep.run, [X])):
            for name in ("extensions", "plugins", "permit"):
                with (
                    self.subTest(name, call=str(call)),
                    self.assertRaisesRegex(NotPermittedError, f"^{name} is not permitted .*: only the environment"),
                ):
                    call(**{name: []})

    def test_endless_or_broken_mapping(self):
        for keyword in ("provider_options", "session_config", "run_config"):
            numbers = itertools.count()

            class Endless(dict):
                def items(self, numbers=numbers):
                    return ((str(number), 1) for number in numbers)

            self.refuse(keyword, Endless(), f"{keyword}: more than 256 entries")
            self.assertEqual(next(numbers), 257, "at most one entry too many is read")
            self.refuse(keyword, dict.fromkeys(range(100_000)), "more than")
            # With one entry less, each key is checked.
            self.refuse(keyword, dict.fromkeys(map(str, range(256)), "1"), rf"{keyword}\['0'\] ")

            class Broken(dict):
                def items(self):
                    raise KeyError("no")

            class NoPairs(dict):
                def items(self):
                    return [1, 2]

            for given in (Broken(), NoPairs()):
                self.refuse(keyword, given, f"{keyword} must be a mapping that can be read", TypeError)

    def test_open_session(self):
        rep = prepare()
        for open_model in (rep, rep._session):
            for keyword, given in (
                ("provider_options", {CPU: {}}),
                ("provider_options", {}),  # specifies no entry, but that the CPU EP is the only one
                ("session_config", {PREPACKING: 1}),
                ("session_options", {"logid": "a"}),
                ("free_dimension_overrides", {"N": 5}),
            ):
                for call in (
                    partial(onnxruntime.backend.prepare, open_model),
                    partial(onnxruntime.backend.run, open_model, [X]),
                    partial(rep.run, [X]),
                ):
                    with self.subTest(keyword), self.assertRaisesRegex(NotPermittedError, f"{keyword}: cannot be"):
                        call(**{keyword: given})
            onnxruntime.backend.prepare(open_model, session_config={}, session_options={}, free_dimension_overrides={})


if __name__ == "__main__":
    unittest.main()
