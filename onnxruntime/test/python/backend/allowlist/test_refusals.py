# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Each refused name and value of the frozen lists is refused, and each name of the tables is in a list."""

import unittest
from collections.abc import Iterator
from unittest import mock

import _above
from helpers.allowlist import TABLES, permit, run_attributes, run_config, session_attributes, session_config
from helpers.refused import BOUNDS, CHOICES, REFUSED, REFUSED_VALUES

from onnxruntime import RunOptions, SessionOptions
from onnxruntime.backend import errors
from onnxruntime.backend.allowlist import threads
from onnxruntime.backend.allowlist.attributes import RUN_ATTRIBUTES, SESSION_ATTRIBUTES
from onnxruntime.backend.allowlist.rules import Table
from onnxruntime.backend.allowlist.session_config import SESSION_CONFIG
from onnxruntime.backend.allowlist.tables import EVERY_EP, PROVIDERS
from onnxruntime.backend.allowlist.value_kinds import Fixed, Flag, Integer

# The kinds of harm from which a trusted program needs no protection, either.
USELESS = ("no effect", "no useful effect", "set by another argument", "wrong results")


def find_in(title: str, name: str, value: object = "1") -> None:
    """Look up a name of a place of the frozen lists."""
    if title == "session attributes":
        session_attributes({name: value})
    elif title == "run attributes":
        run_attributes({name: value})
    elif title == "session_config prefixes":
        session_config({f"{name}x": value})
    elif title == "session_config":
        session_config({name: value})
    elif title == "run_config":
        run_config({name: value})
    elif title == "free_dimension_overrides":
        permit(free_dimension_overrides={name: value})
    else:
        ep, kind = title.split(", ")
        permit(kind=kind, provider_options={ep: {name: value}})


def refused_names() -> Iterator[tuple[str, str, str]]:
    """Yield the place, the hazard and the name of each refused name."""
    for title, harms in REFUSED.items():
        titles = [title]
        if title == "every EP":
            titles = [f"{ep}, {kind}" for ep, kinds in PROVIDERS.items() for kind in kinds]
        for place in titles:
            for harm, names in harms.items():
                for name in names.split():
                    yield place, harm, name


class FrozenNamesTest(unittest.TestCase):
    """No table of the product defends a refusal: it could lose the name together with its reason."""

    def test_each_name_is_refused_for_its_harm(self):
        self.assertGreater(len([*refused_names()]), 400)
        for title, harm, name in refused_names():
            with self.subTest(title, name=name), self.assertRaises(errors.NotPermittedError) as raised:
                find_in(title, name)
            refusal = raised.exception
            self.assertIn(errors.NOT_PERMITTED, str(refusal))
            self.assertRegex(refusal.reason, rf"^{harm} \([^\n]{{10,}}[^.\n]\)")
            step = refusal.reason.partition(". In a program that you trust, ")[2]
            self.assertEqual(not step, harm in USELESS)
            if step:
                self.assertIn("rep.session.run" if title.startswith("run") else "InferenceSession", step)

    def test_each_refused_name_is_in_the_list(self):
        listed = {(title, name) for title, _, name in refused_names()}
        for title, table in TABLES.items():
            for name in table.refused:
                place = f"{title} prefixes" if name.endswith(".") else title
                self.assertIn((place, name), listed, "add it to helpers/refused.py")
        self.assertEqual({*EVERY_EP.refused}, {*" ".join(REFUSED["every EP"].values()).split()})

    def test_without_a_reason_the_same_names_are_refused(self):
        with mock.patch.object(Table, "why_refused", return_value=None):
            for title, _, name in refused_names():
                owner = {"session attributes": SessionOptions, "run attributes": RunOptions}.get(title)
                with self.subTest(title, name=name):
                    if owner and not hasattr(owner, name):  # not in every release, and one only in training builds
                        find_in(title, name)
                        continue
                    with self.assertRaises(errors.NotPermittedError) as raised:
                        find_in(title, name)
                    self.assertRegex(raised.exception.reason, "^(unknown|not reviewed|no options)")

    def test_every_public_name_of_this_ort_is_reviewed(self):
        for owner, table in ((SessionOptions, SESSION_ATTRIBUTES), (RunOptions, RUN_ATTRIBUTES)):
            names = {name for name in dir(owner) if not name.startswith("_")}
            self.assertFalse(names - {*table, *table.refused}, f"{owner.__name__}: not reviewed")

    def test_no_name_is_permitted_and_refused(self):
        for title, table in TABLES.items():
            self.assertEqual(table.keys() & table.refused.keys(), set(), title)

    def test_a_key_that_belongs_in_provider_options_is_an_option(self):
        options = {option for kinds in PROVIDERS.values() for table in kinds.values() for option in table}
        belong = {key for key, one in SESSION_CONFIG.refused.items() if "Pass it in provider_options" in one.reason}
        self.assertTrue(belong)
        self.assertLessEqual(belong, options)


class FrozenValuesTest(unittest.TestCase):
    """The values of permitted names: whoever widens a bound or a choice edits a frozen list."""

    def setUp(self):
        self.enterContext(mock.patch.object(threads, "CPUS", range(2)))

    def test_each_refused_value_is_refused(self):
        for frozen in (BOUNDS, CHOICES):
            for title, names in frozen.items():
                for name, values in names.items():
                    for value in values:
                        with self.subTest(title, name=name, value=value):
                            with self.assertRaises(errors.NotPermittedError) as raised:
                                find_in(title, name, value)
                            # The reason is the value, and not a condition.
                            self.assertRegex(raised.exception.reason, "^invalid value")

    def test_the_next_value_is_permitted(self):
        """Otherwise, a value of the list could be any, and a bound would be defended by nothing."""
        for title, names in BOUNDS.items():
            for name, (low, high) in names.items():
                for value in (low + 1, high - 1):
                    with self.subTest(title, name=name, value=value):
                        try:
                            find_in(title, name, value)
                        except errors.NotPermittedError as refusal:  # by a condition
                            self.assertRegex(refusal.reason, "^it requires|^with the value")

    def test_each_value_with_a_reason_is_refused(self):
        for title, values in REFUSED_VALUES.items():
            for name, value in values.items():
                with self.subTest(title, name=name), self.assertRaises(errors.NotPermittedError) as raised:
                    find_in(title, name, value)
                self.assertIn(f"{errors.NOT_PERMITTED}: with the value {value}, ", str(raised.exception))

    def test_each_permitted_name_is_in_a_list(self):
        self.assertLessEqual({"session_config prefixes", "free_dimension_overrides"}, {*BOUNDS})
        for title, table in TABLES.items():
            for name, rule in table.items():
                frozen = CHOICES
                if isinstance(rule.kind, Fixed):
                    frozen = REFUSED_VALUES
                elif isinstance(rule.kind, Flag):
                    continue
                elif isinstance(rule.kind, (Integer, threads.Threads)):
                    frozen = BOUNDS
                self.assertIn(name, frozen.get(title, {}), f"{title}: add it to helpers/refused.py")
                if getattr(rule.kind, "forbidden", ""):
                    self.assertIn(name, REFUSED_VALUES[title])


if __name__ == "__main__":
    unittest.main()
