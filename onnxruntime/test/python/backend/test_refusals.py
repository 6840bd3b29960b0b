# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of refusals/: every name is reviewed, has one verdict, and is refused even if no reason is found."""

from __future__ import annotations

import importlib
import itertools
import pkgutil
import unittest
from collections.abc import Callable, Iterator
from unittest import mock

from helpers.allowlist import permit, run_attributes, run_config, session_attributes, session_config
from helpers.refused_names import REFUSED, REFUSED_VALUES

from onnxruntime import RunOptions, SessionOptions
from onnxruntime.backend import errors, refusals
from onnxruntime.backend.allowlist.attributes import RUN_ATTRIBUTES, SESSION_ATTRIBUTES
from onnxruntime.backend.allowlist.providers import PROVIDERS
from onnxruntime.backend.allowlist.run_config import RUN_CONFIG
from onnxruntime.backend.allowlist.session_config import SESSION_CONFIG


def refused_names() -> Iterator[tuple[Callable, str, refusals.Refused, tuple[str, str, str]]]:
    """Yield each refused name with the function that looks it up, its verdict, and its place in an error."""
    of_prefixes = {f"{prefix}x": verdict for prefix, verdict in refusals.SESSION_PREFIXES.items()}
    for find, keyword, table in (
        (session_attributes, "", refusals.SESSION_ATTRIBUTES),
        (run_attributes, "", refusals.RUN_ATTRIBUTES),
        (session_config, "session_config", refusals.SESSION_CONFIG | of_prefixes),
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


def find_in(title: str, name: str, value: object = "1") -> None:
    """Look up a name of a section of the frozen list."""
    of_callers = {
        "session attributes": session_attributes,
        "run attributes": run_attributes,
        "session_config": session_config,
        "session_config prefixes": lambda given: session_config({f"{name}x": value}),
        "run_config": run_config,
    }
    if title in of_callers:
        of_callers[title]({name: value})
    else:
        ep, kind = title.split(", ")
        permit(kind=kind, provider_options={ep: {name: value}})


class TestFrozenNames(unittest.TestCase):
    """No table of the product defends a refusal: it could lose the name together with its reason."""

    def test_each_name_is_refused_for_its_harm(self):
        self.assertGreater(sum(len(names.split()) for kinds in REFUSED.values() for names in kinds.values()), 400)
        for title, harms in REFUSED.items():
            titles = [title]
            if title == "every EP":
                titles = [f"{ep}, {kind}" for ep, kinds in PROVIDERS.items() for kind in kinds]
            for section, (harm, names) in itertools.product(titles, harms.items()):
                for name in names.split():
                    with self.subTest(section, name=name):
                        with self.assertRaises(errors.NotPermittedError) as raised:
                            find_in(section, name)
                        self.assertIn(errors.NOT_PERMITTED, str(raised.exception))
                        self.assertTrue(raised.exception.reason.startswith(f"{harm} ("), raised.exception.reason)

    def test_each_value_is_refused(self):
        for title, values in REFUSED_VALUES.items():
            for name, value in values.items():
                with self.subTest(title, name=name):
                    with self.assertRaises(errors.NotPermittedError) as raised:
                        find_in(title, name, value)
                    self.assertIn(f"{errors.NOT_PERMITTED}: with the value {value}, ", str(raised.exception))

    def test_each_refusal_is_in_the_list(self):
        tables = {
            "session attributes": refusals.SESSION_ATTRIBUTES,
            "run attributes": refusals.RUN_ATTRIBUTES,
            "session_config": refusals.SESSION_CONFIG,
            "session_config prefixes": refusals.SESSION_PREFIXES,
            "run_config": refusals.RUN_CONFIG,
            "every EP": refusals.EVERY_PROVIDER,
        }
        for ep, kinds in refusals.PROVIDERS.items():
            tables |= {f"{ep}, {kind}": table for kind, table in kinds.items() if table}
        self.assertEqual(tables.keys(), REFUSED.keys())
        for title, table in tables.items():
            listed = " ".join(REFUSED[title].values()).split()
            with self.subTest(title):
                self.assertEqual(sorted(table), sorted(listed), "add a new refusal to helpers/refused_names.py")

    def test_each_refused_value_is_in_the_list(self):
        tables = {"session attributes": SESSION_ATTRIBUTES, "run attributes": RUN_ATTRIBUTES}
        tables |= {"session_config": SESSION_CONFIG, "run_config": RUN_CONFIG}
        for ep, kinds in PROVIDERS.items():
            tables |= {f"{ep}, {kind}": table for kind, table in kinds.items()}
        for title, table in tables.items():
            with self.subTest(title):
                forbidding = {name for name, rule in table.items() if getattr(rule.kind, "forbidden", "")}
                self.assertEqual(forbidding, {*REFUSED_VALUES.get(title, ())})


class TestVerdicts(unittest.TestCase):
    def test_a_refusal_with_a_use_has_the_next_step(self):
        for find, name, verdict, place in refused_names():
            with self.subTest(place=place, name=name), self.assertRaises(errors.NotPermittedError) as raised:
                find({name: 1})
            step = raised.exception.reason.partition(". In a program that you trust, ")[2]
            useless = verdict.hazard in ("no effect", "no useful effect", "set by another argument", "wrong results")
            self.assertEqual(not step, useless)
            if step:
                of_run = find in (run_attributes, run_config)
                self.assertIn("rep.session.run" if of_run else "InferenceSession", step)

    def test_every_public_name_of_this_ort_is_reviewed(self):
        for owner, table in (
            (SessionOptions, SESSION_ATTRIBUTES | refusals.SESSION_ATTRIBUTES),
            (RunOptions, RUN_ATTRIBUTES | refusals.RUN_ATTRIBUTES),
        ):
            names = {name for name in dir(owner) if not name.startswith("_")}
            self.assertFalse(names - {*table}, f"{owner.__name__}: not reviewed")

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

    def test_without_a_reason_the_allowlist_refuses_the_same_names(self):
        names = [*refused_names()]
        with mock.patch.object(refusals, "find", return_value=None):
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
                    self.assertRegex(refusal.reason, "^(unknown|not reviewed|no options)")


if __name__ == "__main__":
    unittest.main()
