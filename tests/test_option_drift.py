# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The allowlist keeps step with the installed ORT: every option and key name in its native libraries is judged.

Tests also show that the check reports a new name. While the libraries are read, new names replace known names in ORT's
main library, in the forms that a compiler gives to names.
"""

import re
import unittest
from importlib import metadata
from pathlib import Path
from unittest import mock

import _paths
import backend_option_drift as drift
from backend_option_names import Use, is_glued

from onnxruntime.backend.allowlist.rules import Rule, Table


def _planted(key: str) -> str:
    """Return a name that no library contains: the key, with a letter changed that no other piece of a key repeats."""
    return re.sub(r"(?<=\.)\w", "z", key, count=1)


class TestInstalledOrt(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """Read the installed libraries once, because this takes seconds: the main library with planted names."""
        main_library = next(
            Path(file.locate())
            for distribution in metadata.distributions()
            if distribution.metadata["Name"].startswith("onnxruntime")
            for file in distribution.files or ()
            if file.name.startswith("libonnxruntime.so")
        )
        read, content = Path.read_bytes, main_library.read_bytes()
        # Keys that the compiler split. The first piece, 16 characters, stands once in the main library.
        cls.split = [
            key
            for key in drift.reviewed(drift.SESSION_CONFIG)
            if not key.endswith(".")
            and key.encode() not in content
            and content.count(key[:16].encode()) == 1
            and len(key) - 16 > key.index(".") + 1
        ]
        content = content.replace(b"\0session.disable_quant_qdq\0", b"\0session.planted_in_rodata\0")
        content = content.replace(b"cache_di", b"plantedx")  # in the data, or eight characters in code
        for key in cls.split:
            content = content.replace(key[:16].encode(), _planted(key)[:16].encode())
        with mock.patch.object(Path, "read_bytes", lambda path: content if path == main_library else read(path)):
            cls.installed = drift.read_installed()
        cls.unjudged = {distribution.name: drift.unjudged(distribution) for distribution in cls.installed}
        cls.found = {text: where for found in cls.unjudged.values() for text, where in found.items()}

    def test_every_name_is_judged(self):
        planted = {"session.planted_in_rodata", *map(_planted, drift.reviewed(drift.SESSION_CONFIG))}
        for name, found in self.unjudged.items():
            with self.subTest(name):
                self.assertEqual([text for text in found if text not in planted and "plantedxr" not in text], [])

    def test_the_expected_names_are_found(self):
        for distribution in self.installed:
            with self.subTest(distribution.name):
                self.assertGreater(len(drift.expected(distribution)), 2)
                self.assertEqual(drift.gone(distribution), set())

    def test_planted_key_in_the_data_and_option_of_at_most_nine_characters(self):
        self.assertIn("session.planted_in_rodata", self.found)
        self.assertIn("OpenVINOExecutionProvider", self.found["plantedxr"])

    def test_planted_key_that_the_compiler_split(self):
        unchanged = {text for at in self.installed for library in at.libraries for text in library.texts}
        split = [key for key in self.split if key in unchanged]
        if not split:
            self.skipTest("the compiler split no key of this release")
        for key in split:
            self.assertIn(_planted(key), self.found)


class TestAmongKnownNames(unittest.TestCase):
    """A name that does not begin like a key is found by the known names around it."""

    def test_places(self):
        arena = ("arena.max_mem", "arena.max_dead_bytes_per_chunk", "arena.extend_strategy")
        for what, texts, new in (
            ("options of a plugin EP, which ORT's library passes on", (*arena, "planted_limit"), "planted_limit"),
            ("the EP and one option", ("CUDAExecutionProvider", "use_tf32", "planted_limit"), "planted_limit"),
            ("one option", ("use_tf32", "planted_limit"), None),
            ("optimizers", ("GeluFusionL1", "QuickGeluFusion", "ReshapeFusion", "PlantedFusion"), "PlantedFusion"),
            ("two optimizers", ("GeluFusionL1", "ReshapeFusion", "PlantedFusion"), None),
            ("keys", ("session.log_id", "ep.context_enable", "use_tf32", "planted.offload."), "planted.offload."),
            ("a prefix of keys", ("session.log_id", "ep.context_enable", "use_tf32", "session."), None),
        ):
            with self.subTest(what):
                library = drift.Library("x.so", "built-in", dict.fromkeys(texts, True), [[Use(t, True) for t in texts]])
                found = drift.unjudged(drift.Distribution("planted", "0.0", [library]))
                self.assertEqual([*found], [new] if new else [])


class TestExpectedNames(unittest.TestCase):
    def test_releases_of_options_and_keys(self):
        kind = Rule(kind=None, default="", effect="")
        rules = {"always": kind, "from_1_30": kind._replace(since=(1, 30)), "before_1_30": kind._replace(until=(1, 30))}
        keys = Table({f"session.{name}": rule for name, rule in rules.items()})
        ort = drift.Library("onnxruntime_pybind11_state.so", "built-in", {}, [])
        plugin = drift.Library("libonnxruntime_x.so", "plugin", {}, [])
        eps = {"onnxruntime": [("X", "plugin")], "onnxruntime-ep-x": [("X", "plugin")]}
        with (
            mock.patch.multiple(drift, SESSION_CONFIG=keys, RUN_CONFIG={}, IN_DISTRIBUTION=eps),
            mock.patch.object(drift, "PROVIDERS", {"X": {"plugin": Table({**rules, "device_id": kind})}}),
        ):
            for name, version, library, names in (
                ("onnxruntime", "1.29.0", ort, {"always", "before_1_30"}),
                ("onnxruntime", "1.30.0", ort, {"always", "from_1_30"}),
                ("onnxruntime-ep-x", "0.4.0", plugin, {"always", "from_1_30", "before_1_30"}),
                ("onnxruntime-ep-y", "0.4.0", plugin, set()),
            ):
                with self.subTest(name=name, version=version):
                    found = drift.expected(drift.Distribution(name, version, [library]))
                    of_keys = {f"session.{one}" for one in names} | {"device_id"} if library is ort else set()
                    self.assertEqual(found, names | of_keys)


class TestGluedTexts(unittest.TestCase):
    def test_texts(self):
        keys = ("session.use_ort_model_bytes_directly", "session.load_model_format")
        for text, glued in (
            ("session.use_ort_model_bytes_diresession.load_mod", True),  # constants of 16 bytes, side by side
            ("session.load_modoad_model_format", True),  # the last constant overlaps the one before
            ("load_conams", True),  # from the code: load_con and the end of num_streams
            ("session.load_model_format", False),
            ("session.use_ort_model_bytes_planted", False),
            ("session.use_ort_plantedx", False),
            ("load_conx", False),
            ("layout", False),
            ("planted", False),
        ):
            self.assertEqual(is_glued(text, (*keys, "load_config", "num_streams", "layout")), glued, text)


if __name__ == "__main__":
    unittest.main()
