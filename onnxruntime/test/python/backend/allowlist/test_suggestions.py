# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of allowlist/suggestions.py: similar names, the argument of a name, and the forms of InferenceSession."""

import unittest
import warnings

import _above
import numpy as np
from helpers.models import open_session, two_nodes
from helpers.processes import process_with

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend.allowlist import suggestions
from onnxruntime.backend.allowlist.rules import Table
from onnxruntime.backend.allowlist.tables import BY_KEYWORD, NO_OPTIONS, PROVIDERS
from onnxruntime.backend.errors import Place

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"
OPENVINO = "OpenVINOExecutionProvider"
MIGRAPHX = "MIGraphXExecutionProvider"
X = np.ones((2, 3), np.float32)


def why_unknown(keyword: str, name: str, table: Table | None = None) -> str:
    return suggestions.why_unknown(BY_KEYWORD[keyword] if table is None else table, Place(keyword, key=name))


class UnknownNamesTest(unittest.TestCase):
    def test_similar_names(self):
        spinning = "session.intra_op.allow_spinning"
        for keyword, name, expected in (
            ("session_config", "SESSION.DISABLE_PREPACKIN", "'session.disable_prepacking'?"),
            ("run_config", "gpu_graph_ids".rjust(100), "'gpu_graph_id'?"),
            (
                "session_config",
                "session.intra_op.spin_duration_ms",
                "'session.intra_op.spin_duration_us'?",
            ),  # of a prefix
            # The words at the end of a name.
            ("session_config", "allow-spinning", f"'{spinning}' or 'session.inter_op.allow_spinning'?"),
            ("session_options", "optimization-level", "'graph_optimization_level'?"),
            ("session_config", "device_id", "provider_options['CUDAExecutionProvider']['device_id']"),
            # Too long, a prefix alone, and a part of many names.
            ("run_config", "gpu_graph_id".rjust(101), None),
            *(("session_config", name, None) for name in ("session.", "session.foo", "op", "", "\0", "x" * 10**6)),
            # The place of a name.
            ("session_config", "gpu_graph_id", "It belongs in run_config"),
            ("run_config", "log_severity_level", "It belongs in session_options or the keyword arguments of run"),
            ("session_options", "provider_options", "It belongs in the keyword arguments of prepare"),
            ("run_config", "zzzzzzz", "run `python -m onnxruntime.backend options run`"),
        ):
            with self.subTest(keyword, name=name[:40]):
                why = why_unknown(keyword, name)
                self.assertEqual("Did you mean" in why, "[" in (expected or "") or (expected or "").endswith("?"))
                self.assertIn(expected or "unknown key", why)

    def test_options(self):
        why = suggestions.why_unknown(PROVIDERS[CUDA]["built-in"], Place("provider_options", CUDA, "cuda_mem_limit"))
        self.assertEqual(why, "unknown option. Did you mean 'gpu_mem_limit'?")

    def test_at_most_three_names(self):
        known = ["first_level", "second_level", "third_level", "fourth_level"]
        for count in (1, 3, 4):
            table = Table(dict.fromkeys(known[:count], BY_KEYWORD["run_config"]["gpu_graph_id"]))
            listed = why_unknown("session_config", "level", table).count("first_level")
            self.assertEqual(listed, int(count <= 3))
        self.assertEqual(why_unknown("session_config", "device_id", NO_OPTIONS).count("['device_id']"), 3)

    def test_providers(self):
        for name, meant in (("cuda", CUDA), ("CUDAExecutionProvidr", CUDA), ("OpenVIN", OPENVINO), ("ROCM", MIGRAPHX)):
            self.assertIn(f"Did you mean '{meant}'?", suggestions.similar_provider(name))
        for name in ("Foo", "ExecutionProvider", "", "x" * 10**6):
            with self.subTest(name[:30]):
                self.assertIn(f"Known: {CPU}", suggestions.similar_provider(name))
                self.assertEqual(suggestions.provider_named(name), "")
        with process_with(plugins=("OwnEP",)):
            self.assertIn(", OwnEP. ", suggestions.similar_provider("zzz"))


class FormsOfInferenceSessionTest(unittest.TestCase):
    def test_lists(self):
        for names, form in (
            (["cuda", "CPU"], f"{{'{CUDA}': {{}}, '{CPU}': {{}}}}"),
            ([["A", {"x": [1]}], ("B", {})], "{'A': {...}, 'B': {...}}"),
            (("cuda", {"device_id": 1}), f"{{'{CUDA}': {{...}}}}"),
        ):
            with self.subTest(names):
                self.assertEqual(suggestions.provider_options(names), f"provider_options={form}")
        for names in ([f"E{number}" for number in range(17)], ["x" * 101], [7]):
            self.assertEqual(suggestions.provider_options(names), "")

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
            call(*arguments, **keywords)
        self.assertTrue(all(one.filename == __file__ for one in given))
        return [str(one.message) for one in given if one.category is RuntimeWarning]

    def test_in_prepare(self):
        for name, value, advice in (
            ("providers", 3, "ignored. Use provider_options={EP: {...}}"),
            ("use_tf32", 1 << 200, f"ignored. Use provider_options={{'{CUDA}': {{'use_tf32': ...}}}}"),
            ("run_options", None, "run_config={...}"),
            ("output_names", ["Y"], "rep.session.run("),
            ("return_ortvalues", True, "rep.session.run_with_ort_values("),
            ("terminate", False, "ignored by prepare. Pass it to run"),
            # No guess.
            *((name, 2, "unknown and is ignored") for name in ("something_else", "intra_op_num_thread", "x" * 200)),
        ):
            with self.subTest(name, value=str(value)):
                (message,) = self.warned(onnxruntime.backend.prepare, two_nodes(), **{name: value})
                self.assertIn(advice, message)

    def test_keywords_with_an_effect_cause_no_warning(self):
        session = open_session()
        of_run = {"log_severity_level": 3, "only_execute_path_to_fetches": True, "timeout": 60}
        for model in (two_nodes(), session, onnxruntime.backend.prepare(session)):
            self.assertEqual(self.warned(onnxruntime.backend.run, model, [X], **of_run), [])
        self.assertEqual(self.warned(onnxruntime.backend.run, two_nodes(), [X], intra_op_num_threads=1), [])


if __name__ == "__main__":
    unittest.main()
