# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of refusals/suggestions.py: similar names, the argument of a name, and the forms of other APIs."""

from __future__ import annotations

import unittest
import warnings
from unittest import mock

import numpy as np
from helpers.models import no_session_opens, open_session, two_nodes

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend import refusals
from onnxruntime.backend.allowlist.providers import PROVIDERS
from onnxruntime.backend.allowlist.tables import BY_KEYWORD
from onnxruntime.backend.errors import NotPermittedError
from onnxruntime.backend.refusals import openvino_names, suggestions

CPU = "CPUExecutionProvider"
OPENVINO = "OpenVINOExecutionProvider"
VARIABLE = "ORT_ONNX_BACKEND_CONFIG"
X = np.ones((2, 3), np.float32)


class OpenVinoNamesTest(unittest.TestCase):
    def test_each_listed_name_leads_somewhere(self):
        for kind, refused in refusals.PROVIDERS[OPENVINO].items():
            known = PROVIDERS[OPENVINO][kind]
            for name in (*openvino_names._OPTIONS, *openvino_names._PROPERTIES, *openvino_names._REMOVED):
                for spelled in (name, name.upper()):
                    with self.subTest(spelled, kind=kind):
                        advice = openvino_names.instead(spelled, known, refused)
                        self.assertRegex(advice, "instead|load_config|no option replaces it")
                        self.assertNotIn(name, [*known, *refused])
            self.assertEqual(openvino_names.instead("no_such_name", known, refused), "")


class CostTest(unittest.TestCase):
    def test_many_or_long_keywords(self):
        many = {f"unknown_{number}": 1 for number in range(200)}
        with (
            warnings.catch_warnings(action="ignore"),
            mock.patch.object(suggestions, "ignored_keyword", wraps=suggestions.ignored_keyword) as searched,
        ):
            onnxruntime.backend.prepare(two_nodes(), **many)
        self.assertEqual(searched.call_count, 8)
        with mock.patch.object(onnxruntime, "get_all_providers", side_effect=AssertionError):
            suggestions.ignored_keyword("x" * 101, 1)


class SimilarNamesTest(unittest.TestCase):
    def test_names(self):
        prepacking = "'session.disable_prepacking'"
        spinning = "'session.intra_op.allow_spinning'"
        optimization = "'graph_optimization_level'"
        for keyword, name, expected in (
            ("session_config", "session.disable_prepackin", prepacking),
            ("session_config", "SESSION.DISABLE_PREPACKING", prepacking),
            ("session_config", " session.disable_prepacking\n", prepacking),
            ("run_config", "gpu_graph_ids", "'gpu_graph_id'"),
            ("run_config", "gpu_graph_id ".rjust(100), "'gpu_graph_id'"),
            # Keys with a prefix
            ("session_config", "session.intra_op.allow_spining", spinning),
            ("session_config", "session.inter_op.allow_spin", "'session.inter_op.allow_spinning'"),
            ("session_config", "session.intra_op.spin_duration_ms", "'session.intra_op.spin_duration_us'"),
            ("session_config", "session.intra_op.spin_backof_max", "'session.intra_op.spin_backoff_max'"),
            # A part of a name
            ("session_config", "allow-spinning", spinning),
            ("session_options", "num_threads", "'intra_op_num_threads'"),
            ("session_options", "num_threads", "'inter_op_num_threads'"),
            ("session_options", "optimization-level", optimization),
            ("session_options", "optimization", optimization),
            ("session_options", "level", optimization),
            ("session_options", "level", "'log_severity_level'"),
            # Names of other keyword arguments
            ("run_config", "allow_spinning", "session_config['session.intra_op.allow_spinning']"),
            ("session_config", "graph_id", "run_config['gpu_graph_id']"),
            ("session_config", "cudnn_conv1d_pad_to_nc1d", "provider_options['CUDAExecutionProvider']"),
        ):
            with self.subTest(keyword, name=name):
                suggested = self.similar(keyword, name)
                self.assertIn("Did you mean", suggested)
                self.assertIn(expected, suggested)

    def test_names_without_a_similar_one(self):
        # Too long, a prefix alone, and a part of many names.
        self.assertNotIn("Did you mean", self.similar("run_config", "gpu_graph_id ".rjust(101)))
        for name in (
            "session.",
            "session.foo",
            "session.intra_op.",
            "session",
            "op",
            "ses",
            "",
            "\0",
            "x" * 10**6,
            "_",
        ):
            with self.subTest(name[:30]):
                self.assertNotIn("Did you mean", self.similar("session_config", name))

    def similar(self, keyword: str, name: str) -> str:
        return suggestions.similar_name(keyword, "", name, BY_KEYWORD[keyword])

    def test_providers(self):
        for name, meant in (
            ("cuda", "CUDA"),
            ("CudaExecutionProvider", "CUDA"),
            ("CUDAExecutionProvidr", "CUDA"),
            ("OpenVinoExecutionProvider", "OpenVINO"),
            ("OpenVIN", "OpenVINO"),
            ("TensorRT", "Tensorrt"),
        ):
            with self.subTest(name):
                suggested = suggestions.similar_provider(name)
                self.assertIn(f"Did you mean '{meant}ExecutionProvider'?", suggested)
        for name in ("Foo", "XExecutionProvider", "MyOwnExecutionProvider", "ExecutionProvider", "", "x" * 10**6):
            with self.subTest(name[:30]):
                self.assertNotIn("Did you mean", suggestions.similar_provider(name))
                self.assertEqual(suggestions.provider_named(name), "")

    def test_devices(self):
        for given, meant in (("cuda", "CUDA"), ("cuda:1", "CUDA:1"), ("Cpu", "CPU"), (" CUDA", "CUDA")):
            self.assertIn(f"'{meant}'", suggestions.device(given, ["CPU", "CUDA", "GPU"]))
        for given in ("CUDA", "CUDA:100", "TPU", "TPU:1", "tpu", None, 1, "cuda" * 100):
            self.assertEqual(suggestions.device(given, ["CPU", "CUDA", "GPU"]), "")
        self.assertIn("'CUDA'", suggestions.device("cuda", ["CPU"]))
        self.assertIn("'CUDA'", suggestions.device("cuda".rjust(100), ["CPU"]))
        self.assertEqual(suggestions.device("cuda".rjust(101), ["CPU"]), "")
        for given in ("CPU", "cpu"):  # as on a base with CUDA
            self.assertIn("provider_options={'CPUExecutionProvider': {}}", suggestions.device(given, ["CUDA", "GPU"]))


class FormsOfOtherApisTest(unittest.TestCase):
    def test_values_that_are_no_mapping(self):
        cuda = {"providers": ("CUDAExecutionProvider", CPU)}
        advice = f". Use provider_options={{'CUDAExecutionProvider': {{'device_id': 1}}, '{CPU}': {{}}}}"
        for given, others, end in (
            ([{"device_id": 1}, {}], cuda, f"list{advice}"),
            ([], {}, "list"),
            ([1], {}, "list"),
            ([[1, 2, 3]], {}, "list"),
            ([CPU] * 99, {}, "list"),
            (7, {}, "int"),
            ([("x" * 500, {})], {}, "list"),
        ):
            with self.subTest(str(given)[:50]), no_session_opens(), self.assertRaises(NotPermittedError) as refused:
                onnxruntime.backend.prepare(two_nodes(), provider_options=given, **others)
            self.assertEqual(refused.exception.reason, f"must be a mapping such as a dict, not {end}")

    def test_forms_of_lists(self):
        few = {str(number): number for number in range(16)}
        many = few | {"16": 16}
        sixteen = [f"E{number}" for number in range(16)]
        for names, options, form in (
            (("cuda", "CPU"), None, f"{{'CUDAExecutionProvider': {{}}, '{CPU}': {{}}}}"),
            (["cuda"], [{"device_id": 1}, {}], "{'CUDAExecutionProvider': {}}"),
            (["cuda"], ({"device_id": 1, "x": 1},), "{'CUDAExecutionProvider': {'device_id': 1}}"),
            ([["A", {"x": 1}], ("B", many), ("C", 7)], [{"y": 2}] * 3, "{'A': {'x': 1}, 'B': {...}, 'C': {...}}"),
            ([("A", few)], None, f"{{'A': {few}}}"),
            ([("cuda", many | {"use_tf32": 0})], None, "{'CUDAExecutionProvider': {...}}"),
            ("CPU", None, f"{{'{CPU}': {{}}}}"),
            (("cuda", {"device_id": 1}), None, "{'CUDAExecutionProvider': {'device_id': 1}}"),
            (sixteen, None, str({name: {} for name in sixteen})),
        ):
            with self.subTest(names):
                self.assertEqual(suggestions.provider_options(names, options), f"provider_options={form}")
        for names in ([*sixteen, "E16"], ["x" * 101]):
            self.assertEqual(suggestions.provider_options(names), "")
        self.assertIn("xxx", suggestions.provider_options(["x" * 100]))
        texts = {str(number): "y" * 70 for number in range(6)}
        self.assertEqual(suggestions.provider_options([("A", texts)]), "")

    def test_at_most_three_names(self):
        known = ["first_level", "second_level", "third_level", "fourth_level"]
        for count, listed in (
            (1, ". Did you mean 'first_level'?"),
            (2, ". Did you mean 'first_level' or 'second_level'?"),
            (3, ". Did you mean 'first_level', 'second_level' or 'third_level'?"),
        ):
            self.assertEqual(suggestions.similar_name("session_options", "", "level", known[:count]), listed)
        self.assertEqual(suggestions.similar_name("session_config", "", "device_id", ()).count("['device_id']"), 3)

    def test_the_place_of_a_name(self):
        to_list = ". To list the permitted names, run `python -m onnxruntime.backend options {}`"
        for keyword, provider, name, expected in (
            ("run_config", "", "zzzzzzz", to_list.format("run")),
            ("provider_options", "EP", "zzzzzzz", to_list.format("EP")),
            ("session_options", "", "zzzzzzz", ""),
        ):
            self.assertEqual(suggestions.similar_name(keyword, provider, name, ()), expected)

    def test_no_code_of_the_caller_runs(self):
        class Liar(dict):
            def __eq__(self, other: object) -> bool:
                raise AssertionError("code of the caller ran")

            __hash__ = None
            __repr__ = __str__ = __len__ = __iter__ = items = __eq__

        class Name(str):
            __slots__ = ()
            lower = __eq__ = Liar.__eq__
            __hash__ = str.__hash__

        self.assertIn("{...}", suggestions.provider_options([(CPU, Liar())]))
        self.assertEqual(suggestions.provider_options([Name("a")]), "")


class IgnoredKeywordTest(unittest.TestCase):
    """Keyword arguments that the stock backend ignores silently cause a warning."""

    def warned(self, call, *arguments: object, **keywords: object) -> list[str]:
        with warnings.catch_warnings(record=True, action="always") as given:
            self.result = call(*arguments, **keywords)
        self.assertTrue(all(one.filename == __file__ for one in given))
        return [str(one.message) for one in given if one.category is RuntimeWarning]

    def test_in_prepare(self):
        for name, value, advice in (
            ("providers", 3, "provider_options={EP: {...}}"),
            ("device_id", 63, "provider_options={'CUDAExecutionProvider': {'device_id': 63}}"),
            *((name, "cuda", "{'CUDAExecutionProvider': {}}") for name in ("provider", "execution_providers", "eps")),
            ("so", None, "intra_op_num_threads=2"),
            ("ro", None, "run_config={...}"),
            ("x", onnxruntime.RunOptions(), "run_config={...}"),
            ("devic", "CPU", "Did you mean device='CPU'?"),
            ("provider_option", {"A": 1}, "Did you mean provider_options={'A': 1}?"),
            ("provider_option", {"A": {}}, "Did you mean provider_options={'A': ...}?"),
            ("intra_op_num_thread", [1], "Did you mean intra_op_num_threads=...?"),
            ("use_tf32", 1 << 200, "Use provider_options={'CUDAExecutionProvider': {'use_tf32': ...}}\n"),
            ("allow_spinning", True, "allow_spinning': True}"),
            ("OpenVINO", {"precision": "FP32"}, "{'OpenVINOExecutionProvider': {'precision': 'FP32'}}"),
            ("session", 2, "' is unknown and is ignored. Did you mean session_config={...}, "),
            # The last name is a part of one key that does not end the key.
            *((name, 2, "' is unknown and is ignored\n") for name in ("something_else", "memory_arena")),
        ):
            with self.subTest(name, value=str(value)):
                (message,) = self.warned(onnxruntime.backend.prepare, two_nodes(), **{name: value})
                self.assertRegex(message, f"^Keyword argument '{name}' is (unknown and is )?ignored")
                self.assertIn(advice, f"{message}\n")
                self.assertEqual(self.result.warnings, (message,))

    def test_keywords_with_an_effect_cause_no_warning(self):
        session = open_session()
        for model in (two_nodes(), session, onnxruntime.backend.prepare(session)):
            message = self.warned(
                onnxruntime.backend.run, model, [X], log_severity_level=3, only_execute_path_to_fetches=True
            )
            self.assertEqual(message, [])
        self.assertEqual(self.warned(onnxruntime.backend.prepare, two_nodes(), intra_op_num_threads=1), [])
        message = self.warned(onnxruntime.backend.run, two_nodes(), [X], intra_op_num_threads=1, timeout=60)
        self.assertEqual(message, [])


if __name__ == "__main__":
    unittest.main()
