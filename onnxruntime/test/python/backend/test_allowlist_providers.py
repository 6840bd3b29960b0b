# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The tables of provider options hold together, and looking an option up follows them. No EP is needed here."""

from __future__ import annotations

import json
import re
import unittest
from collections.abc import Iterator

from helpers.allowlist import NEWEST, listed_values, permit

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend import provider_names
from onnxruntime.backend.allowlist.facts import RELEASE, Process
from onnxruntime.backend.allowlist.providers import PROVIDERS
from onnxruntime.backend.allowlist.rules import Rule, Setting
from onnxruntime.backend.allowlist.value_kinds import Choice, Flag
from onnxruntime.backend.errors import NotPermittedError, Place
from onnxruntime.backend.provider_names import CANN, CPU, CUDA, MIGRAPHX, OPENVINO, OPENVINO_AUTO, QNN, TENSORRT, WEBGPU
from onnxruntime.backend.provider_names import NV_TENSORRT_RTX as TENSORRT_RTX
from onnxruntime.backend.session.attaching import option_texts

HERE = NEWEST._replace(providers=())

# Permitted although the name sounds of files, libraries or addresses. The first is only on, the second only off.
HARMLESS_NAMES = """
    do_copy_in_default_stream dump_om_model num_streams nv_persistent_context_memory nv_use_sync_gpu_allocator
    nv_weight_streaming_budget qnn_context_priority trt_auxiliary_streams trt_context_memory_sharing_enable
    use_ep_level_unified_stream
"""

# Values that the kinds with their own grammar accept, and values that they reject.
EXAMPLES = {
    (OPENVINO, "device_type"): (
        ["CPU", "GPU", "GPU.1", "NPU", "AUTO:GPU,CPU", "HETERO:GPU.0,NPU", "MULTI:CPU", "AUTO:GPU.0,GPU.1"],
        [
            *("", "cpu", "AUTO", "AUTO:", "NOPE", "CPU.0", "GPU.10", "BATCH:CPU", "CPU,GPU", "AUTO:CPU,", "CPU\n"),
            *("AUTO:CPU,CPU", "MULTI:GPU,CPU,GPU", "HETERO:GPU.1,GPU.1", "AUTO:GPU,GPU.0", "AUTO:NPU,CPU,NPU", "CPU "),
        ],
    ),
    (TENSORRT, "trt_tactic_sources"): (["-CUDNN", "+CUBLAS,-CUBLAS_LT"], ["", "CUDNN", "-CUDNN,", "-cudnn", "-X"]),
    (TENSORRT, "trt_op_types_to_exclude"): (["Conv", "Conv,MatMul"], ["", "conv", "Conv, MatMul", "Conv;MatMul"]),
    (TENSORRT_RTX, "nv_op_types_to_exclude"): (["Gemm"], ["NoSuchOperator", "Gemm,"]),
    (TENSORRT_RTX, "nv_weight_streaming_budget"): (
        ["0", "-1", "512M", "100%", "7%"],
        ["", "-2", "101%", "1e9", "5X", "5MB", "٣", "9" * 16],
    ),
}


def rules() -> Iterator[tuple[str, str, str, Rule]]:
    """Every rule, as (EP, kind, option, rule)."""
    for name, provider in PROVIDERS.items():
        for kind, table in provider.items():
            for option, rule in table.items():
                yield name, kind, option, rule


def texts(name: str, options: dict, kind: str = "built-in", at: Process = HERE) -> dict[str, str]:
    """Return the texts that ORT would receive."""
    return option_texts(name, kind, permit(at, kind, provider_options={name: options}).providers[name])


class TableTest(unittest.TestCase):
    """What every entry must say."""

    def test_permissions_say_what(self):
        for name, kind, option, rule in rules():
            with self.subTest(f"{name} {kind} {option}"):
                self.assertRegex(rule.effect, r"\A[A-Z][^\n]{10,}\.\Z")
                self.assertTrue(rule.default)

    def test_no_dangerous_name_is_permitted_unseen(self):
        suspicious = re.compile("path|lib|file|dump|dir|stream|alloc|cache|context|config|plugin|pointer")
        found = {option for *_, option, _ in rules() if suspicious.search(option.lower())}
        self.assertEqual(found, {*HARMLESS_NAMES.split()})

    def test_graph_capture_where_runs_are_made_for_it(self):
        permitted = {  # each option that captures graphs, with whether it can be on
            (name, kind, option): True in listed_values(rule.kind)
            for name, kind, option, rule in rules()
            if re.search("cuda_graph|hip_graph|capture", option.lower())
        }
        expected = {
            (TENSORRT, "built-in", "trt_cuda_graph_enable"): True,
            (CUDA, "built-in", "enable_cuda_graph"): True,
            (WEBGPU, "plugin", "enableGraphCapture"): True,
            (WEBGPU, "built-in", "enableGraphCapture"): False,
            # TensorRT-RTX captures inside itself, where nothing can be compared.
            (TENSORRT_RTX, "plugin", "enable_cuda_graph"): False,
        }
        self.assertEqual(permitted, expected)

    def test_options_that_are_always_sent(self):
        """TensorRT-RTX would capture graphs that nobody can compare, and CANN would write files."""
        for name, kind, option in ((TENSORRT_RTX, "plugin", "enable_cuda_graph"), (CANN, "built-in", "dump_om_model")):
            for options in ({}, {option: False}, {option: "0"}, {"device_id": 0}):
                self.assertEqual(texts(name, options, kind), {option: "0", **dict.fromkeys(options, "0")})
            with self.assertRaisesRegex(RuntimeError, f"{option}'.*with the value True"):
                texts(name, {option: True}, kind)

    def test_an_option_with_a_condition_is_refused_and_does_not_only_warn(self):
        """Reports list settings without effect by keyword argument, and not by EP."""
        for name, kinds in PROVIDERS.items():
            for table in kinds.values():
                for option, rule in table.items():
                    for need in rule.needs:
                        self.assertFalse(need.only_warns, f"{option} of {name}")

    def test_what_ort_does_not_report(self):
        silent = {(name, kind) for name, kind, _, rule in rules() if kind == "plugin"}
        silent |= {(OPENVINO, "built-in"), (WEBGPU, "built-in")}
        for name, kind, option, rule in rules():
            reported = (name, kind) not in silent and option != "enable_skip_layer_norm_strict_mode"
            self.assertEqual(rule.reported, reported, f"{name} {kind} {option}")


class NamesTest(unittest.TestCase):
    def test_ort_knows_every_ep_but_that_of_a_plugin(self):
        names = {
            name for name in vars(provider_names).values() if isinstance(name, str) and "ExecutionProvider" in name
        }
        plugins = {provider_names.OPENVINO_AUTO}  # their EPs exist only as plugins
        if RELEASE >= (1, 32):
            plugins.add(provider_names.NV_TENSORRT_RTX)
        self.assertEqual(names - set(onnxruntime.get_all_providers()), plugins)


class SpellingTest(unittest.TestCase):
    """Every value is sent in a spelling that its EP parses, and read back as the requested value."""

    def test_values(self):
        for (name, option), (accepted, refused) in EXAMPLES.items():
            rule = next(kinds[option] for kinds in PROVIDERS[name].values() if option in kinds)
            kind = rule.kind
            for value in accepted:
                with self.subTest(f"{name} {option}", value=value):
                    self.assertEqual(kind.render(kind.parse(value)), value)
                    self.assertEqual(kind.read(value), kind.parse(value))
                    plain = Setting(Place("provider_options", name, option), rule, kind.parse(value), value).plain
                    self.assertEqual(kind.parse(plain), kind.parse(value))
            for value in (*refused, 0, None, b"CPU", f"{accepted[0]}\0"):
                with self.subTest(f"{name} {option}", value=value), self.assertRaises(ValueError):
                    kind.parse(value)

    def test_switches(self):
        for name, kind, option, rule in rules():
            if isinstance(rule.kind, Flag):
                spelling = ("False", "True") if name == TENSORRT else ("0", "1")
                self.assertEqual([*map(rule.kind.render, (False, True))], [*spelling], f"{name} {kind} {option}")

    def test_default_is_no_value_that_ep_would_refuse(self):
        for name, kind, option, rule in rules():
            if type(rule.kind) is Choice and " " not in rule.default:
                self.assertEqual(rule.kind.parse(rule.default), rule.default, f"{name} {kind} {option}")


class LookUpTest(unittest.TestCase):
    """Options of a caller are converted to settings."""

    def test_options_that_depend_on_each_other(self):
        amd = {"migraphx_fp16_enable": 1}
        tuning, limit = ({"tunable_op_tuning_enable": 1}, {"tunable_op_max_tuning_duration_ms": 9})
        for name, kind, refused, options in (
            (OPENVINO, "built-in", "", {"num_of_threads": 2, "num_streams": 2, "precision": "FP32"}),
            (OPENVINO, "built-in", "", {"device_type": "GPU", "precision": "FP16", "model_priority": "LOW"}),
            (OPENVINO, "built-in", "", {"device_type": "HETERO:GPU,CPU", "num_of_threads": 2, "precision": "ACCURACY"}),
            (OPENVINO, "built-in", "precision", {"precision": "FP16"}),
            (OPENVINO, "built-in", "num_streams", {"device_type": "AUTO:CPU", "num_streams": 2}),
            (OPENVINO, "built-in", "num_of_threads", {"device_type": "GPU", "num_of_threads": 2}),
            (OPENVINO, "built-in", "model_priority", {"device_type": "AUTO:GPU,CPU", "model_priority": "LOW"}),
            (OPENVINO, "built-in", "num_of_threads", {"num_of_threads": 1}),
            (OPENVINO, "plugin", "device_type", {"device_type": "CPU"}),
            (OPENVINO, "plugin", "num_of_threads", {"num_of_threads": 1}),
            *((QNN, "plugin", "backend_type", {"backend_type": value}) for value in ("saver", "ir", "genie")),
            (CUDA, "plugin", "use_tf32", {"use_tf32": 1}),
            *((name, "plugin", "", {}) for name in (CPU, CUDA, "AzureExecutionProvider", "SomeExecutionProvider")),
            ("SomeExecutionProvider", "plugin", "", {"device_id": 1}),
            ("SomeExecutionProvider", "plugin", "anything", {"anything": 1}),
            (CUDA, "built-in", "", {"tunable_op_enable": 1, **tuning, **limit}),
            (CUDA, "built-in", "tunable_op_tuning_enable", {"tunable_op_enable": 1, **tuning}),
            (CUDA, "built-in", "tunable_op_tuning_enable", {**tuning, **limit}),
            (CUDA, "built-in", "tunable_op_max_tuning_duration_ms", limit),
            (TENSORRT, "built-in", "", {"trt_dla_enable": True, "trt_dla_core": 1}),
            (TENSORRT, "built-in", "trt_dla_core", {"trt_dla_core": 1}),
            (MIGRAPHX, "built-in", "", amd | {"migraphx_bf16_enable": 0}),
            (MIGRAPHX, "built-in", "migraphx_fp16_enable", amd | {"migraphx_bf16_enable": 1}),
            # Copies on another stream are a race.
            (CUDA, "built-in", "do_copy_in_default_stream", {"do_copy_in_default_stream": False}),
            # Int64 off in a captured graph
            (WEBGPU, "plugin", "enableInt64", {"enableInt64": 0, "enableGraphCapture": 1}),
            (WEBGPU, "plugin", "", {"enableInt64": 1, "enableGraphCapture": 1}),
            (WEBGPU, "plugin", "", {"enableInt64": 0, "enableGraphCapture": 0}),
        ):
            with self.subTest(name, kind=kind, options=options):
                if not refused:
                    self.assertEqual(texts(name, options, kind), {key: str(value) for key, value in options.items()})
                    continue
                with self.assertRaises(NotPermittedError) as raised:
                    texts(name, options, kind)
                self.assertEqual((raised.exception.provider, raised.exception.key), (name, refused))

    def test_openvino_plugin(self):
        options = {"num_of_threads": 2, "num_streams": 1, "precision": "FP32"}
        properties = {"INFERENCE_NUM_THREADS": "2", "NUM_STREAMS": "1", "INFERENCE_PRECISION_HINT": "f32"}
        for name, section in ((OPENVINO, "CPU"), (OPENVINO_AUTO, "AUTO")):
            self.assertEqual({*PROVIDERS[name]["plugin"]}, {"device_id", *options})  # it ignores others
            sent = texts(name, options, "plugin")
            self.assertEqual(list(sent), ["load_config"])
            self.assertEqual(json.loads(sent["load_config"]), {section: properties})

    def test_options_of_some_releases(self):
        for option, permitted, refused, reason in (
            ("enable_skip_layer_norm_strict_mode", [(1, 27)], [(1, 28), NEWEST.release], "ignores it, as all releases"),
            ("enable_cudnn", [(1, 31)], [(1, 30)], r"it requires ORT 1\.31"),
        ):
            for release in permitted:
                texts(CUDA, {option: 1}, at=HERE._replace(release=release))
            for release in refused:
                with self.assertRaisesRegex(NotPermittedError, reason) as raised:
                    texts(CUDA, {option: 1}, at=HERE._replace(release=release))
                self.assertEqual((raised.exception.provider, raised.exception.key), (CUDA, option))


if __name__ == "__main__":
    unittest.main()
