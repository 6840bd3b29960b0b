# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The tables of provider options: what each entry says, the texts that an EP receives, and options that need others."""

import json
import re
import unittest

import _above
from helpers.allowlist import NEWEST, TABLES, listed_values, permit

import onnxruntime
from onnxruntime.backend import provider_names
from onnxruntime.backend.allowlist.facts import RELEASE
from onnxruntime.backend.allowlist.tables import PROVIDERS
from onnxruntime.backend.allowlist.value_kinds import Flag
from onnxruntime.backend.errors import NotPermittedError
from onnxruntime.backend.provider_names import CANN, CUDA, MIGRAPHX, OPENVINO, OPENVINO_AUTO, TENSORRT, WEBGPU
from onnxruntime.backend.provider_names import NV_TENSORRT_RTX as TENSORRT_RTX
from onnxruntime.backend.session.attaching import option_texts

# Each rule with the place of its table and its name.
RULES = [(place, name, rule) for place, table in TABLES.items() if ", " in place for name, rule in table.items()]
# Permitted although the name sounds of files, libraries or addresses. The first is only on, the second only off.
HARMLESS_NAMES = """
    do_copy_in_default_stream dump_om_model num_streams nv_persistent_context_memory nv_use_sync_gpu_allocator
    nv_weight_streaming_budget qnn_context_priority trt_auxiliary_streams trt_context_memory_sharing_enable
    use_ep_level_unified_stream
"""
AMD, TUNING, LIMIT = (
    {"migraphx_fp16_enable": 1},
    {"tunable_op_tuning_enable": 1},
    {"tunable_op_max_tuning_duration_ms": 9},
)
# Options of an EP, and the option that is refused because of another one, if any.
COMBINATIONS = (
    (OPENVINO, "built-in", "", {"num_of_threads": 2, "num_streams": 2, "precision": "FP32"}),
    (OPENVINO, "built-in", "", {"device_type": "GPU", "precision": "FP16", "model_priority": "LOW"}),
    (OPENVINO, "built-in", "", {"device_type": "HETERO:GPU,CPU", "num_of_threads": 2, "precision": "ACCURACY"}),
    *((OPENVINO, "built-in", "", {"device_type": text}) for text in ("NPU", "GPU.1", "MULTI:CPU", "AUTO:GPU.0,GPU.1")),
    (OPENVINO, "built-in", "precision", {"precision": "FP16"}),
    (OPENVINO, "built-in", "num_streams", {"device_type": "AUTO:CPU", "num_streams": 2}),
    (OPENVINO, "built-in", "num_of_threads", {"device_type": "GPU", "num_of_threads": 2}),
    (OPENVINO, "built-in", "model_priority", {"device_type": "AUTO:GPU,CPU", "model_priority": "LOW"}),
    (CUDA, "built-in", "", {"tunable_op_enable": 1, **TUNING, **LIMIT}),
    (CUDA, "built-in", "tunable_op_tuning_enable", {"tunable_op_enable": 1, **TUNING}),
    (CUDA, "built-in", "tunable_op_tuning_enable", {**TUNING, **LIMIT}),
    (CUDA, "built-in", "tunable_op_max_tuning_duration_ms", LIMIT),
    (TENSORRT, "built-in", "", {"trt_dla_enable": True, "trt_dla_core": 1}),
    (TENSORRT, "built-in", "trt_dla_core", {"trt_dla_core": 1}),
    (TENSORRT, "built-in", "", {"trt_tactic_sources": "+CUBLAS,-CUBLAS_LT", "trt_op_types_to_exclude": "Conv,MatMul"}),
    (MIGRAPHX, "built-in", "", {**AMD, "migraphx_bf16_enable": 0}),
    (MIGRAPHX, "built-in", "migraphx_fp16_enable", {**AMD, "migraphx_bf16_enable": 1}),
    # Int64 off in a captured graph
    (WEBGPU, "plugin", "enableInt64", {"enableInt64": 0, "enableGraphCapture": 1}),
    (WEBGPU, "plugin", "", {"enableInt64": 1, "enableGraphCapture": 1}),
    (WEBGPU, "plugin", "", {"enableInt64": 0, "enableGraphCapture": 0}),
)


def texts(name: str, options: dict, kind: str = "built-in") -> dict[str, str]:
    """Return the texts that ORT would receive."""
    return option_texts(name, kind, permit(NEWEST, kind, provider_options={name: options}).providers[name])


class TableTest(unittest.TestCase):
    def test_what_each_entry_says(self):
        for place, option, rule in RULES:
            with self.subTest(place, option=option):
                self.assertRegex(rule.effect, r"\A[A-Z][^\n]{10,}\.\Z")
                self.assertTrue(rule.default)
                # Reports list settings without effect by keyword argument, and not by EP.
                self.assertFalse(any(need.only_warns for need in rule.needs))
                if isinstance(rule.kind, Flag):  # in the spelling that its EP parses
                    self.assertEqual(rule.kind.texts, ("False", "True") if TENSORRT in place else ("0", "1"))

    def test_no_dangerous_name_is_permitted_unseen(self):
        suspicious = re.compile("path|lib|file|dump|dir|stream|alloc|cache|context|config|plugin|pointer")
        found = {option for _, option, _ in RULES if suspicious.search(option.lower())}
        self.assertEqual(found, {*HARMLESS_NAMES.split()})

    def test_graph_capture_where_runs_are_made_for_it(self):
        permitted = {  # each option that captures graphs, with whether it can be on
            (place, option): True in listed_values(rule.kind)
            for place, option, rule in RULES
            if re.search("cuda_graph|hip_graph|capture", option.lower())
        }
        expected = {
            (f"{TENSORRT}, built-in", "trt_cuda_graph_enable"): True,
            (f"{CUDA}, built-in", "enable_cuda_graph"): True,
            (f"{WEBGPU}, plugin", "enableGraphCapture"): True,
            (f"{WEBGPU}, built-in", "enableGraphCapture"): False,
            # TensorRT-RTX captures inside itself, where nothing can be compared.
            (f"{TENSORRT_RTX}, plugin", "enable_cuda_graph"): False,
        }
        self.assertEqual(permitted, expected)

    def test_what_ort_does_not_report(self):
        silent = (f"{OPENVINO}, built-in", f"{WEBGPU}, built-in")
        for place, option, rule in RULES:
            reported = not place.endswith("plugin") and place not in silent
            reported = reported and option != "enable_skip_layer_norm_strict_mode"
            self.assertEqual(rule.reported, reported, f"{place} {option}")

    def test_ort_knows_every_ep_but_that_of_a_plugin(self):
        names = {name for name in vars(provider_names).values() if type(name) is str and "ExecutionProvider" in name}
        plugins = {OPENVINO_AUTO} | ({TENSORRT_RTX} if RELEASE >= (1, 32) else set())
        self.assertEqual(names - set(onnxruntime.get_all_providers()), plugins)


class TextsTest(unittest.TestCase):
    """Options of a caller are converted to texts, or refused because of another option."""

    def test_options_that_depend_on_each_other(self):
        for name, kind, refused, options in COMBINATIONS:
            with self.subTest(name, kind=kind, options=options):
                if not refused:
                    self.assertEqual(texts(name, options, kind), {key: str(value) for key, value in options.items()})
                    continue
                with self.assertRaises(NotPermittedError) as raised:
                    texts(name, options, kind)
                self.assertEqual((raised.exception.provider, raised.exception.key), (name, refused))
                self.assertTrue(raised.exception.reason.startswith("it requires "))

    def test_options_that_are_always_sent(self):
        """TensorRT-RTX would capture graphs that nobody can compare, and CANN would write files."""
        for name, kind, option in ((TENSORRT_RTX, "plugin", "enable_cuda_graph"), (CANN, "built-in", "dump_om_model")):
            for options in ({}, {option: False}, {option: "0"}, {"device_id": 0}):
                self.assertEqual(texts(name, options, kind), {option: "0", **dict.fromkeys(options, "0")})

    def test_openvino_plugin(self):
        options = {"num_of_threads": 2, "num_streams": 1, "precision": "FP32"}
        properties = {"INFERENCE_NUM_THREADS": "2", "NUM_STREAMS": "1", "INFERENCE_PRECISION_HINT": "f32"}
        for name, section in ((OPENVINO, "CPU"), (OPENVINO_AUTO, "AUTO")):
            self.assertEqual({*PROVIDERS[name]["plugin"]}, {"device_id", *options})  # it ignores others
            sent = texts(name, options, "plugin")
            self.assertEqual(list(sent), ["load_config"])
            self.assertEqual(json.loads(sent["load_config"]), {section: properties})


if __name__ == "__main__":
    unittest.main()
