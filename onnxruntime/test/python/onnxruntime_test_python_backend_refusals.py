# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of refusals/: every name is reviewed, has one verdict, and is refused even if no reason is found."""

from __future__ import annotations

import importlib
import pkgutil
import unittest
from collections.abc import Callable, Iterator
from unittest import mock

from backend_test_allowlist import permit, run_attributes, run_config, session_attributes, session_config

from onnxruntime import RunOptions, SessionOptions
from onnxruntime.backend import errors, optional_parts, refusals
from onnxruntime.backend.allowlist.attributes import RUN_ATTRIBUTES, SESSION_ATTRIBUTES
from onnxruntime.backend.allowlist.providers import PROVIDERS


def refused_names() -> Iterator[tuple[Callable, str, refusals.Refused, tuple[str, str, str]]]:
    """Yield each refused name with the function that looks it up, its verdict, and its place in an error."""
    families = {f"{prefix}x": verdict for prefix, verdict in refusals.SESSION_FAMILIES.items()}
    for find, keyword, table in (
        (session_attributes, "", refusals.SESSION_ATTRIBUTES),
        (run_attributes, "", refusals.RUN_ATTRIBUTES),
        (session_config, "session_config", refusals.SESSION_CONFIG | families),
        (run_config, "run_config", refusals.RUN_CONFIG),
    ):
        for name, verdict in table.items():
            yield find, name, verdict, (keyword, "", name) if keyword else (name, "", "")
    for ep, kinds in PROVIDERS.items():
        for kind in kinds:

            def find(given: dict, ep: str = ep, kind: str = kind) -> None:
                permit(kind=kind, provider_options={ep: given})

            table = refusals.EVERY_PROVIDER | refusals.PROVIDERS.get(ep, {}).get(kind, {})
            yield from ((find, name, verdict, ("provider_options", ep, name)) for name, verdict in table.items())


class TestVerdicts(unittest.TestCase):
    def test_every_public_name_of_this_ort_is_reviewed(self):
        for owner, table in (
            (SessionOptions, SESSION_ATTRIBUTES | refusals.SESSION_ATTRIBUTES),
            (RunOptions, RUN_ATTRIBUTES | refusals.RUN_ATTRIBUTES),
        ):
            names = {name for name in dir(owner) if not name.startswith("_")}
            self.assertFalse(names - {*table}, f"{owner.__name__}: not reviewed")

    def test_every_refused_name_is_refused_with_its_reason(self):
        for find, name, verdict, place in refused_names():
            with self.subTest(place=place, name=name):
                with self.assertRaises(errors.NotPermittedError) as raised:
                    find({name: "0"})
                refusal = raised.exception
                self.assertEqual((refusal.keyword, refusal.provider, refusal.key), place)
                self.assertIn(f"{verdict.hazard} ({verdict.reason})", refusal.reason)
                self.assertIn("not permitted via the backend API", str(refusal))

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

    def test_without_this_part_the_allowlist_refuses_the_same_names(self):
        names = [*refused_names()]
        with mock.patch.object(optional_parts, "load", return_value=None):
            for find, name, _verdict, place in names:
                owner = {session_attributes: SessionOptions, run_attributes: RunOptions}.get(find)
                with self.subTest(place=place, name=name):
                    if owner and not hasattr(owner, name):  # not in every release, and one only in training builds
                        self.assertEqual(find({name: 1}), {})
                        continue
                    with self.assertRaises(errors.NotPermittedError) as raised:
                        find({name: 1})
                    refusal = raised.exception
                    self.assertEqual((refusal.keyword, refusal.provider, refusal.key), place)
                    self.assertRegex(refusal.reason, "^unknown or not permitted(. Permitted attributes: [a-z_, ]*)?$")


if __name__ == "__main__":
    unittest.main()
