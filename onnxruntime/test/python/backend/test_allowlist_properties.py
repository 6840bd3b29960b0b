# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""ORT receives only permitted settings, for any arguments of a call.

Each example is a call of ``prepare`` or ``run`` with spies instead of ORT's classes. Either the call raises a
``RuntimeError`` or ``TypeError``, or the spies receive only permitted names with texts that their kinds allow. This
file checks the texts without the parsers of the kinds. Most examples are entries of the tables with one change.
``ORT_BACKEND_EXAMPLES`` is the number of examples (default: 2500). Up to 2500, they are the same in each run.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import string
import sys
import unittest
import warnings
from collections import Counter
from unittest import mock

import numpy as np
from helpers.allowlist import bounds, listed_values
from helpers.hostile_values import Int, Str
from helpers.models import open_session, skip_file, two_nodes
from helpers.spies import Reached, RunOptions, spied

try:
    from hypothesis import HealthCheck, given, settings
    from hypothesis import strategies as st
except ImportError:
    skip_file("needs hypothesis")

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend import backend
from onnxruntime.backend.allowlist import attributes, run_config, session_config, threads
from onnxruntime.backend.allowlist.permit import Permit
from onnxruntime.backend.allowlist.providers import EVERY_EP, PROVIDERS
from onnxruntime.backend.allowlist.rules import Refused, Rule, Table
from onnxruntime.backend.allowlist.session_config import PREFIXES as PERMITTED_PREFIXES
from onnxruntime.backend.allowlist.threads import Threads
from onnxruntime.backend.allowlist.value_kinds import Choice, Fixed, Flag, Integer, Kind, Member, Names, Text
from onnxruntime.backend.applied.settings import configuration_of

Verdict = Rule | Refused


def reviewed(table: Table) -> dict[str, Verdict]:
    """Return the permitted and the refused entries of a table."""
    return {**table.refused, **table}


SESSION_ATTRIBUTES = reviewed(attributes.SESSION_ATTRIBUTES)
RUN_ATTRIBUTES = reviewed(attributes.RUN_ATTRIBUTES)
SESSION_CONFIG = reviewed(session_config.SESSION_CONFIG)
RUN_CONFIG = reviewed(run_config.RUN_CONFIG)
# OpenVINO's properties inside load_config, and the options that they come from.
OF_OPENVINO = {
    "INFERENCE_NUM_THREADS": "num_of_threads",
    "INFERENCE_PRECISION_HINT": "precision",
    "NUM_STREAMS": "num_streams",
}

EXAMPLES = int(os.environ.get("ORT_BACKEND_EXAMPLES", "0"))
MODEL = two_nodes().SerializeToString()
INPUT = np.ones((2, 3), np.float32)
PATTERNS = "enable_mem_pattern"  # the backend sets it on OpenVINO
RECORD = "session.record_ep_graph_assignment_info"  # the backend sets it for its own use
OPSETS = "session.allow_released_opsets_only"  # the backend sets it from OnnxRuntimeBackend.allowReleasedOpsetsOnly

# --- The texts that a kind allows, independent of its parser ---


def allowed(kind: Kind, text: object) -> bool:
    """Return whether a kind allows a text, according to the arguments of the kind."""
    if type(text) is not str or len(text.encode()) > 4096:
        return False
    if not re.fullmatch(r"[ -~]*", text, re.ASCII):
        return False
    if isinstance(kind, Fixed):
        return text == str(int(kind.value))
    if type(kind) is Flag:
        return text in kind.texts
    if isinstance(kind, Integer):
        return re.fullmatch(r"0|-?[1-9][0-9]*", text) is not None and int(text) in kind.values
    if type(kind) is Threads:
        return re.fullmatch("[0-9]+", text) is not None and kind.low <= int(text) <= max(16, 4 * os.cpu_count())
    if type(kind) is Choice:
        return text in [kind.texts.get(value, str(value)) for value in kind.values]
    if type(kind) is Names:
        return (kind.empty and not text) or all(name in kind.known() for name in text.split(kind.separator))
    if isinstance(kind, Text):
        return len(text) <= kind.max_bytes and re.fullmatch(kind.pattern, text) is not None
    raise AssertionError(f"this test does not support the kind {kind}")


CASE = unittest.TestCase()


def check_text(rules: dict[str, Verdict], name: object, text: object, given: dict) -> None:
    CASE.assertIs(type(name), str)
    rule = rules.get(name)
    if rule is None:
        CASE.assertIs(rules, SESSION_CONFIG, f"{name!r} is not in a table")
        rule = session_config.OF_PREFIX
        CASE.assertRegex(name, r"\Asession\.int(er|ra)_op\.[a-z_]{1,40}\Z")
    else:
        CASE.assertIs(type(rule), Rule, name)
    CASE.assertTrue(allowed(rule.kind, text), f"{name!r} was sent as {text!r}")
    if rule.reported:
        CASE.assertEqual(rule.kind.render(rule.kind.read(text)), text)
    check_given(rule.kind, given[name])


def check_given(kind: Kind, value: object) -> None:
    """Check that an accepted value has an exact type, and that its text is printable ASCII."""
    if type(kind) is Member and type(value) is kind.enum:
        return
    CASE.assertTrue(type(value) in (bool, int, float, str) or type(value).__module__ == "numpy", type(value))
    if isinstance(value, str):
        CASE.assertRegex(value, r"\A[ -~]*\Z")


def check_attribute(rules: dict[str, Verdict], name: str, value: object, given: dict) -> None:
    CASE.assertIs(type(rules.get(name)), Rule, name)
    kind = rules[name].kind
    check_given(kind, given[name])
    if type(kind) is Member:
        CASE.assertIs(type(value), kind.enum)
    else:
        CASE.assertIn(type(value), (bool, int, str))
        CASE.assertTrue(allowed(kind, kind.render(value)))


def check_options(rules: dict[str, Verdict], texts: dict[str, str], given: dict) -> None:
    for option, text in texts.items():
        if option == "load_config":  # written by the backend
            ((_, properties),) = json.loads(text).items()
            for name, value in properties.items():
                check_text(rules, OF_OPENVINO[name], value, given)
        else:
            check_text(rules, option, text, given)


def check(record: dict, call: dict, plugins: bool, tables: tuple) -> None:
    """Compare the settings that the spies received with the tables and the call."""
    attributes, entries, keyword = tables
    for name, value in record["attributes"].items():
        if name == PATTERNS and name not in call:
            CASE.assertIs(value, False)
        else:
            check_attribute(attributes, name, value, call)
    for name, texts in record["providers"].items():
        kind = "plugin" if plugins and "plugin" in PROVIDERS[name] else "built-in"
        rules = PROVIDERS[name].get(kind, {})
        sent = dict(call["provider_options"][name])
        for option, rule in rules.items():
            if rule.always_off:
                sent.setdefault(option, rule.kind.value)
        check_options(rules, texts, sent)
    again = {}  # the options that some EPs read from entries
    for name, texts in record["providers"].items():
        for option, text in texts.items():
            again[f"ep.{name.lower()}.{option}"] = text
    for key, text in record["entries"].items():
        if key in again:
            CASE.assertEqual(text, again[key])
        elif key == OPSETS or (key == RECORD and key not in (call.get(keyword) or {})):
            CASE.assertEqual(text, "1")
        elif key.endswith(".allow_spinning") and key not in (call.get(keyword) or {}):
            pool = key.split(".")[1]
            CASE.assertEqual(text, "0")
            CASE.assertGreater(record["attributes"][f"{pool}_num_threads"], len(threads.CPUS))
        else:
            check_text(entries, key, text, call[keyword])


# --- Examples ---


ARABIC = {code: code + 0x630 for code in range(0x30, 0x3A)}
FULL_WIDTH = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}
CYRILLIC = str.maketrans("aeiops", "\u0430\u0435\u0456\u043e\u0440\u0455")

AFFIXES = ("\0", "\0x", " ", "\n", "\t", "x", "_", ".", "\u200b", "\ud800", "\u0301", ",", ";", "=1")
PREFIXES = ("ep.", "ep.cuda.", "session.", "trt_", " ", "\0", "\ufeff")
NAME_CHANGES = [
    str.upper, str.lower, str.swapcase, str.title, Str, str.encode, lambda name: name[:-1], lambda name: name[1:],
    lambda name: name.translate(CYRILLIC), lambda name: name.translate(FULL_WIDTH), lambda name: None,
    lambda name: name.replace("i", "\u0131"), lambda name: name * 40,
]  # fmt: skip
VALUE_CHANGES = [
    lambda value: None, lambda value: [value], lambda value: str(value).encode(errors="replace"), Str,
    lambda value: str(value).translate(ARABIC), lambda value: str(value).translate(FULL_WIDTH), lambda value: "",
    lambda value: str(value).upper(), lambda value: str(value).lower(), lambda value: str(value).swapcase(),
    lambda value: f"+{value}", lambda value: f"-{value}", lambda value: f"0x{value}", lambda value: f"{value}.0",
    lambda value: f"1_{value}", lambda value: f"{value}{value}", lambda value: value == "1", lambda value: object,
    lambda value: Int(1), lambda value: 1.0, lambda value: float("nan"), lambda value: np.int64(1),
    lambda value: np.array([1]), lambda value: 2**64, lambda value: f"{value};{value}", np.str_,
]  # fmt: skip
for affix in AFFIXES:
    NAME_CHANGES.append(lambda name, affix=affix: name + affix)
    VALUE_CHANGES.append(lambda value, affix=affix: f"{value}{affix}")
for prefix in PREFIXES:
    NAME_CHANGES.append(lambda name, prefix=prefix: prefix + name)
    VALUE_CHANGES.append(lambda value, prefix=prefix: f"{prefix}{value}")

HOSTILE = st.sampled_from(["1", "0", "true", "a.so", "a.json", "../a", "1" * 5000, "cpu:0", str(2**64)])


def texts(pattern: str) -> st.SearchStrategy:
    """Return texts that match a pattern, and long lists of such texts.

    Hypothesis draws each character. Therefore, the drawn texts are short, and a list repeats one text.
    """
    few = re.sub(r"(?<=[])])[*+]", lambda repeat: {"*": "{0,2}", "+": "{1,4}"}[repeat[0]], pattern)
    drawn = st.from_regex(re.compile(few, re.ASCII), fullmatch=True, alphabet=string.printable)
    return drawn | st.builds(
        lambda text, by, count: by.join([text] * count), drawn, st.sampled_from(" ,;"), st.integers(2, 100)
    )


def values(rule: Verdict) -> st.SearchStrategy:
    """Return values that a rule accepts, and values just outside its range."""
    if type(rule) is not Rule:
        return HOSTILE
    kind = rule.kind
    listed = listed_values(kind)
    if listed:
        listed += kind.texts.values() if type(kind) is Choice else []
        listed += getattr(kind, "by_name", {}).values()
        for value in getattr(kind, "values", ()):
            listed += [value - 1, value + 1] if type(value) is int else []
        if isinstance(kind, Flag):
            listed += [True, False, 0, 1, "0", "1", "True", "False", np.bool_(True), np.int8(0)]
        return st.sampled_from(listed)
    of_kind = bounds(kind, 20)
    if of_kind:
        low, high = of_kind
        near = [low, high, low - 1, high + 1, 2, 16, 1024, 2**31]
        return st.sampled_from(near) | st.sampled_from(near).map(str) | st.integers(low - 1, high)
    if type(kind) is Names:
        known = st.lists(st.sampled_from(sorted(kind.known())), min_size=1, max_size=3)
        return known.map(kind.separator.join)
    return texts(kind.pattern)


# The default alphabet. Hypothesis needs 3 s to compute the default itself.
NO_SURROGATES = st.characters(exclude_categories=["Cs"])
_SHORT = st.text(NO_SURROGATES, max_size=20) | st.binary(max_size=5)
ANYTHING = st.one_of(_SHORT, st.integers(), st.floats(), st.none(), st.booleans(), HOSTILE)
SCOPES = {
    "session attribute": SESSION_ATTRIBUTES,
    "run attribute": RUN_ATTRIBUTES,
    "session_config": SESSION_CONFIG,
    "run_config": RUN_CONFIG,
    "built-in": {},
    "plugin": {},
}
for ep, kinds in PROVIDERS.items():
    for kind in ("built-in", "plugin"):
        for name, rule in (EVERY_EP.refused | reviewed(kinds.get(kind, EVERY_EP))).items():
            SCOPES[kind][ep, name] = rule
VALUES: dict[str, dict] = {}
NAMED = {}  # the permitted and the refused names
for scope, rules in SCOPES.items():
    VALUES[scope] = {name: values(rule) for name, rule in rules.items()}
    permitted = [name for name, rule in rules.items() if type(rule) is Rule]
    refused = [name for name, rule in rules.items() if type(rule) is not Rule]
    NAMED[scope] = [st.sampled_from(permitted), st.sampled_from(refused)]
SCOPE = st.sampled_from(list(SCOPES))
WHAT = st.sampled_from(["changed"] * 14 + ["nothing"] * 5 + ["made up"])
CHANGED_NAME, CHANGED_VALUE = st.sampled_from(NAME_CHANGES), st.sampled_from(VALUE_CHANGES)
KEY_WITH_PREFIX = st.tuples(
    st.sampled_from(PERMITTED_PREFIXES), st.sampled_from(["new_key", "a" * 40, "a" * 41, "B", "a.b"])
).map("".join)


@st.composite
def calls(draw) -> tuple[str, str, dict]:
    """Return a scope, the change of a table's entry if there is one, and keyword arguments."""
    scope, what = draw(SCOPE), draw(WHAT)
    name = draw(NAMED[scope][draw(st.integers(0, 5)) == 0])
    value = draw(VALUES[scope][name])
    provider = ""
    if type(name) is tuple:
        provider, name = name
    if scope == "session_config" and draw(st.integers(0, 5)) == 0:
        name, value = draw(KEY_WITH_PREFIX), draw(st.sampled_from([1, 64, True, 65]))
    if what == "changed":
        if draw(st.booleans()):
            name = draw(CHANGED_NAME)(name)
        else:
            value = draw(CHANGED_VALUE)(value)
    elif what == "made up":
        name, value = draw(ANYTHING), draw(ANYTHING)
    mapping = {name: value}
    if what == "nothing" and draw(st.integers(0, 3)) == 0:
        more = draw(NAMED[scope][0])
        if not provider:
            mapping[more] = draw(VALUES[scope][more])
        elif more[0] == provider:
            mapping[more[1]] = draw(VALUES[scope][more])
    if scope.endswith("attribute"):
        return scope, what, mapping
    if not provider:
        return scope, what, {scope: mapping}
    options = {provider: mapping}
    if what == "made up" and draw(st.booleans()):
        options = draw(st.one_of(ANYTHING, st.just({name: mapping})))
    return scope, what, {"provider_options": options}


COUNTS: Counter[str] = Counter()
PERMIT = backend.permit_of
REP = onnxruntime.backend.prepare(open_session())


def outcome_of(scope: str, keywords: dict) -> str:
    """Make a call, and check the settings that ORT would receive."""
    plugins = scope == "plugin"
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings(action="ignore"))
        for patch in spied(plugins):
            stack.enter_context(patch)
        permits: list[Permit] = []
        noted = mock.patch.object(backend, "permit_of", lambda *asked: permits.append(PERMIT(*asked)) or permits[-1])
        stack.enter_context(noted)
        try:
            if scope in ("run attribute", "run_config"):
                RunOptions()
                REP.run([INPUT], **keywords)
                record, tables = RunOptions.last, (RUN_ATTRIBUTES, RUN_CONFIG, "run_config")
            else:
                onnxruntime.backend.prepare(MODEL, **keywords)
        except Reached as reached:
            (record,) = reached.args
            tables = (SESSION_ATTRIBUTES, SESSION_CONFIG, "session_config")
        except (RuntimeError, TypeError) as error:
            CASE.assertTrue(str(error).isprintable(), "a message contains control characters")
            return "refused"
        if permits:
            configuration = json.loads(json.dumps(configuration_of(permits[0])))
            with CASE.assertRaises(Reached) as again:
                onnxruntime.backend.prepare(MODEL, **configuration)
            CASE.assertEqual(again.exception.args[0], record, "the configuration of the permit")
    check(record, keywords, plugins, tables)
    if record["attributes"].keys() - {PATTERNS} or record["providers"] or record["entries"].keys() - {RECORD, OPSETS}:
        return "permitted"
    return "ignored"


@settings(
    max_examples=EXAMPLES or 2500,
    derandomize=EXAMPLES <= 2500,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(calls())
def only_what_is_permitted_reaches_ort(example: tuple[str, str, dict]) -> None:
    scope, what, call = example
    outcome = outcome_of(scope, {name: value for name, value in call.items() if type(name) is str})
    COUNTS.update(("examples", what, outcome))


class TestProperties(unittest.TestCase):
    def test_only_what_is_permitted_reaches_ort(self):
        COUNTS.clear()
        only_what_is_permitted_reaches_ort()
        print(f"\nproperty examples: {dict(COUNTS)}", file=sys.stderr)
        self.assertGreaterEqual(COUNTS["changed"], COUNTS["examples"] / 2)
        self.assertGreater(min(COUNTS["permitted"], COUNTS["refused"]), COUNTS["examples"] / 12)


if __name__ == "__main__":
    unittest.main()
