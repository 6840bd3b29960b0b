# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of allowlist/refusals: every name is reviewed, has one verdict, and is refused even if no reason is found."""

from __future__ import annotations

import importlib
import pkgutil
import unittest
from collections.abc import Callable
from unittest import mock

from backend_test_allowlist import permit, run_attributes, run_config, session_attributes, session_config

from onnxruntime import RunOptions, SessionOptions
from onnxruntime.backend import errors
from onnxruntime.backend.allowlist import refusals
from onnxruntime.backend.allowlist.ort_options import RUN_ATTRIBUTES, RUN_CONFIG, SESSION_ATTRIBUTES, SESSION_CONFIG
from onnxruntime.backend.allowlist.providers import PROVIDERS


class TestVerdicts(unittest.TestCase):
    def test_every_public_name_of_this_ort_is_reviewed(self):
        for owner, table in (
            (SessionOptions, SESSION_ATTRIBUTES | refusals.SESSION_ATTRIBUTES),
            (RunOptions, RUN_ATTRIBUTES | refusals.RUN_ATTRIBUTES),
        ):
            names = {name for name in dir(owner) if not name.startswith("_")}
            self.assertFalse(names - {*table}, f"{owner.__name__}: not reviewed")

    def test_every_refused_name_is_refused_with_its_reason(self):
        for keyword, table, find in (
            ("", refusals.SESSION_ATTRIBUTES, session_attributes),
            ("", refusals.RUN_ATTRIBUTES, run_attributes),
            ("session_config", refusals.SESSION_CONFIG, session_config),
            ("run_config", refusals.RUN_CONFIG, run_config),
        ):
            for name, verdict in table.items():
                with self.subTest(name=name), self.assertRaises(errors.NotPermittedError) as raised:
                    find({name: True})
                refusal = raised.exception
                self.assertEqual((refusal.keyword, refusal.key), (keyword, name) if keyword else (name, ""))
                self.assertIn(verdict.hazard, refusal.reason)
                self.assertIn(verdict.reason, refusal.reason)

    def test_every_refused_option_is_refused_with_its_reason(self):
        for name, kinds in refusals.provider_tables().items():
            for kind, table in kinds.items():
                for option, verdict in table.items():
                    if type(verdict) is refusals.Refused:
                        with self.subTest(f"{name} {kind} {option}"):
                            with self.assertRaises(errors.NotPermittedError) as raised:
                                permit(kind=kind, provider_options={name: {option: "0"}})
                            self.assertIn("not permitted via the backend API", str(raised.exception))
                            self.assertEqual(raised.exception.key, option)
                            self.assertIn(f"{verdict.hazard} ({verdict.reason})", raised.exception.reason)

    def test_every_module_is_part_of_the_tables(self):
        """A module of an EP that the package does not import would document nothing."""
        listed = [table for kinds in refusals.PROVIDERS.values() for table in kinds.values()]
        for module in pkgutil.iter_modules(refusals.__path__):
            tables = vars(importlib.import_module(f"{refusals.__name__}.{module.name}"))
            for name in ("BUILT_IN", "PLUGIN"):
                if name in tables and module.name != "others":
                    with self.subTest(module.name, table=name):
                        self.assertTrue(any(tables[name] is table for table in listed))

    def test_a_key_that_belongs_in_provider_options_is_an_option(self):
        options = {option for kinds in PROVIDERS.values() for table in kinds.values() for option in table}
        belong = {key for key, verdict in refusals.SESSION_CONFIG.items() if "provider_options" in verdict.reason}
        self.assertTrue(belong)
        self.assertLessEqual(belong, options)

    def test_no_key_is_both_permitted_and_refused(self):
        for permitted, refused in (
            (SESSION_CONFIG, refusals.SESSION_CONFIG),
            (RUN_CONFIG, refusals.RUN_CONFIG),
            (SESSION_ATTRIBUTES, refusals.SESSION_ATTRIBUTES),
            (RUN_ATTRIBUTES, refusals.RUN_ATTRIBUTES),
        ):
            self.assertEqual(permitted.keys() & refused.keys(), set(), "delete the verdict in allowlist/refusals")


class TestWithoutReasons(unittest.TestCase):
    """Without the reasons, the allowlist refuses the same names."""

    def setUp(self):
        self.judged = refusals.provider_tables()
        patch = mock.patch.object(refusals, "find", return_value=None)
        patch.start()
        self.addCleanup(patch.stop)

    def assert_refused(self, find: Callable[[dict], object], given: dict) -> None:
        with self.subTest(given):
            with self.assertRaises(errors.NotPermittedError) as raised:
                find(given)
            self.assertNotIn("writes files", str(raised.exception))  # the reason is not available

    def test_attributes(self):
        for owner, table, find in (
            (SessionOptions, refusals.SESSION_ATTRIBUTES, session_attributes),
            (RunOptions, refusals.RUN_ATTRIBUTES, run_attributes),
        ):
            for name in table:
                if hasattr(owner, name):  # not in every release, and one only in training builds
                    self.assert_refused(find, {name: 1})
                else:
                    self.assertEqual(find({name: 1}), {})

    def test_keys(self):
        for key in (*refusals.SESSION_CONFIG, *(f"{prefix}x" for prefix in refusals.SESSION_FAMILIES)):
            self.assert_refused(session_config, {key: 1})
        for key in refusals.RUN_CONFIG:
            self.assert_refused(run_config, {key: 1})

    def test_options(self):
        for name, kinds in self.judged.items():
            for kind, table in kinds.items():
                for option in (*refusals.EVERY_PROVIDER, *refusals.PROVIDERS.get(name, {}).get(kind, {})):
                    self.assertIs(type(table.get(option)), refusals.Refused if option in table else type(None))
                    self.assert_refused(
                        lambda given, kind=kind: permit(kind=kind, provider_options=given), {name: {option: 1}}
                    )


if __name__ == "__main__":
    unittest.main()
