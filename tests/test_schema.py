# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The JSON Schema of configurations accepts all settings that the allowlist permits, and its file is current."""

import importlib.util
import json
import unittest

import _paths
import backend_configuration_schema as document
from helpers.allowlist import parses

from onnxruntime.backend.allowlist.attributes import SESSION_ATTRIBUTES
from onnxruntime.backend.allowlist.run_config import RUN_CONFIG
from onnxruntime.backend.allowlist.session_config import SESSION_CONFIG
from onnxruntime.backend.allowlist.tables import PROVIDERS

HAS_JSONSCHEMA = importlib.util.find_spec("jsonschema") is not None


@unittest.skipUnless(HAS_JSONSCHEMA, "requires the package jsonschema, which validates with the schema")
class SchemaTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import jsonschema  # not a requirement  # noqa: PLC0415

        made = document.schema()
        jsonschema.Draft202012Validator.check_schema(made)
        cls.judge = jsonschema.Draft202012Validator(made)

    def takes(self, config: object) -> bool:
        return self.judge.is_valid(json.loads(json.dumps(config)))

    def entries(self):
        """Keyword, EP, name, and the kinds of value that it may have: of an EP in two kinds those of both."""
        for keyword, rules in (
            ("session_options", SESSION_ATTRIBUTES),
            ("session_config", SESSION_CONFIG),
            ("run_config", RUN_CONFIG),
        ):
            yield from ((keyword, "", name, [rule.kind]) for name, rule in rules.items())
        for provider, kinds in PROVIDERS.items():
            for name in {name for rules in kinds.values() for name in rules}:
                yield ("provider_options", provider, name, [of[name].kind for of in kinds.values() if name in of])

    def test_what_a_kind_takes_the_schema_takes(self):
        samples = [True, False, *range(-2, 20), 64, 1024, 4096, 2**20, 2**31, 2**40, 2**63, 1.5, None, [], {}, ""]
        samples += list(map(str, samples[2:27]))
        samples += ["ORT_PARALLEL", "DEFAULT", "FP32", "FP16", "EXHAUSTIVE", "cpu:0", "cpu:0;gpu:1", "x\n", "NCHW", "a"]

        judged = 0
        for keyword, provider, name, kinds in self.entries():
            for value in samples:
                expected = any(parses(kind, value) for kind in kinds)
                judged += expected
                # Of the numbers and texts that the allowlist refuses, the schema may accept some.
                if expected or type(value) in (bool, list, dict, type(None), float):
                    entry = {name: value}
                    config = {keyword: {provider: entry} if provider else entry}
                    self.assertEqual(self.takes(config), expected, (keyword, provider, name, value))
        self.assertGreater(judged, 500)

    def test_what_no_table_has_it_refuses(self):
        many = dict.fromkeys(map(str, range(257)), 1)
        for config in (
            {"session": {}},
            {"session_options": {"no_such": 1}},
            {"session_config": {"session.collect_node_memory_stats_to_file": "x"}},
            {"session_config": [1]},
            {"provider_options": {"CUDAExecutionProvider": {"user_compute_stream": 1}}},
            {"provider_options": {"CPUExecutionProvider": 1}},
            {"free_dimension_overrides": {"N": 0}},
            {"free_dimension_overrides": many},
            {"extensions": [""]},
            {"permit": {"run_config": True}},
            {"trusted": {"plugins": ["x"]}},
            [],
        ):
            with self.subTest(config):
                self.assertFalse(self.takes(config))
        parts = {"session_options": {"execution_mode": "ORT_PARALLEL"}, "permit": {"session_options": {"logid": True}}}
        parts |= {"provider_options": {"SomeExecutionProvider": {}}, "extensions": ["x"], "$schema": "a.json"}
        parts |= {"trusted": {"session_config": {"x": "1"}}}
        self.assertTrue(self.takes(parts) and self.takes({}))


class FileTest(unittest.TestCase):
    def test_it_is_current(self):
        written = document.FILE.read_text(encoding="utf-8")
        self.assertTrue(written == document.text(), "docs/configuration.schema.json is not current. Run: make document")


if __name__ == "__main__":
    unittest.main()
