# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of plugin EPs from the environment: each is registered once per process, and a check imports nothing."""

import json
import os
import signal
import threading
import unittest
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from unittest import mock

import _above
from helpers.environment import environment
from helpers.locks import at_each_step
from helpers.models import no_session_opens, two_nodes
from test_extensions import modules

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend.errors import NotPermittedError
from onnxruntime.backend.libraries import plugins

CPU, NEW, CUDA = "CPUExecutionProvider", "FakedExecutionProvider", "CUDAExecutionProvider"
LIBRARY = os.path.realpath("libep.so")
PLUGIN = f"{NEW}={LIBRARY}"
PACKAGE = f"get_ep_name = lambda: {NEW!r}\nget_library_path = lambda: {LIBRARY!r}\n"


class RegistrationTest(unittest.TestCase):
    """ORT's own registration is a mock, which adds as many devices as ``self.devices`` has."""

    def setUp(self):
        self.found, self.devices = list(onnxruntime.get_ep_devices()), 1
        self.enterContext(mock.patch.dict(plugins._registered))
        self.enterContext(mock.patch.object(plugins, "without_device", set()))
        self.enterContext(mock.patch.object(onnxruntime, "get_ep_devices", lambda: self.found))
        self.register = self.enterContext(mock.patch.object(onnxruntime, "register_execution_provider_library"))
        device = partial(mock.Mock, ep_metadata={})
        self.register.side_effect = lambda ep, _: self.found.extend([device(ep_name=ep)] * self.devices)
        self.enterContext(warnings.catch_warnings(action="error"))

    def prepare(self, *names: str, **keywords: object):
        with environment({"plugins": names}):
            return onnxruntime.backend.prepare(two_nodes(), **{"provider_options": {CPU: {}}} | keywords)

    def fails(self, *names: str) -> str:
        with no_session_opens(), self.assertRaisesRegex(RuntimeError, "ORT_ONNX_BACKEND_CONFIG") as error:
            self.prepare(*names)
        self.assertNotIsInstance(error.exception, NotPermittedError)
        return str(error.exception)

    def test_a_library_is_registered_once(self):
        with modules(my_ep=PACKAGE):
            for _ in range(2):
                self.prepare("my_ep", PLUGIN, "my_ep")
            plugins.register(["my_ep"])
        self.prepare()
        self.register.assert_called_once_with(NEW, LIBRARY)

    def test_two_libraries_of_one_name(self):
        first, second = (f"{NEW}={os.path.realpath(name)}" for name in ("a.so", "b.so"))
        self.assertIn(ascii(first)[1:-1][:40], self.fails(first, second))
        self.register.assert_called_once()
        self.register.side_effect = RuntimeError("EP library is already registered")  # by the application
        self.assertIn("already", self.fails(f"Other={LIBRARY}"))

    def test_two_threads(self):
        start = threading.Barrier(4)
        self.register.side_effect = lambda *_: [threading.Event().wait(0.05), self.found.append(mock.Mock())]
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: [start.wait(), plugins.register([PLUGIN])], range(4)))
        self.register.assert_called_once()

    def test_an_interrupt_leaves_no_lock_taken(self):
        self.enterContext(mock.patch.object(plugins, "_register", lambda _: (NEW, LIBRARY)))
        for interrupter in at_each_step():
            plugins._registered.clear()
            with interrupter:
                plugins.register(["a_package", "another_package"])
            self.assertFalse(plugins._lock._is_owned())

    @unittest.skipUnless(hasattr(os, "fork"), "this system does not fork")
    def test_a_fork_while_another_thread_registers(self):
        with ThreadPoolExecutor(1) as other:
            other.submit(plugins._lock.acquire).result()
            child = os.fork()
            if not child:
                signal.alarm(10)
                plugins.register([PLUGIN])
                os._exit(0 if self.register.called else 1)
            other.submit(plugins._lock.release)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_a_plugin_without_a_device(self):
        """No built-in EP of its name replaces it."""
        self.devices = 0
        for name in (CUDA, CPU):
            plugin = f"{name}={LIBRARY}"
            with self.assertWarnsRegex(RuntimeWarning, name):
                self.prepare(plugin, provider_options={})
            self.prepare(plugin, provider_options={})  # each process registers once
            no_device = self.assertRaisesRegex(NotPermittedError, "found no device.*/sys/class/drm")
            with no_session_opens(), no_device as error:
                self.prepare(plugin, provider_options={name: {}})
            self.assertEqual((error.exception.keyword, error.exception.provider), ("provider_options", name))

    def test_plugins_that_cannot_be_registered(self):
        operators = "def get_library_path(): ...\n"
        relative = "get_ep_name = lambda: 'X'\nget_library_path = lambda: 'libep.so'\n"
        with modules(operators=operators, named="def get_ep_name(): ...\n", relative=relative, ends="raise SystemExit"):
            for plugin, reason in (
                ("no_such_package", "No module named"),
                ("named", "EP=LIBRARY"),
                ("operators", "extension"),
                ("relative", "absolute"),
                ("ends", "SystemExit"),
                (os.path.join(".", "libep.so"), "EP=LIBRARY|absolute"),
                ("X=libep.so", "absolute"),
                (f"={LIBRARY}", "EP=LIBRARY"),
            ):
                with self.subTest(plugin):
                    self.assertRegex(self.fails(plugin), reason)
        self.register.assert_not_called()

    def test_the_device_of_a_plugin_is_supported(self):
        config = {"plugins": [f"{CUDA}={LIBRARY}"]}
        metadata = {"library_path": LIBRARY}
        self.register.side_effect = lambda ep, _: self.found.append(mock.Mock(ep_name=ep, ep_metadata=metadata))
        for text, supported in ((json.dumps(config), True), ("{", False)):
            with self.subTest(text), environment(text):
                self.found = []
                plugins._registered.clear()
                if CUDA not in onnxruntime.get_available_providers():
                    self.assertEqual(onnxruntime.backend.supports_device("CUDA"), supported)


class CheckTest(unittest.TestCase):
    def test_problems(self):
        for name, reason in (
            ("none", "no Python package"),
            ("A=none.so", "absolute"),
            (f"={__file__}", "EP=LIBRARY"),
            (__file__, "EP=LIBRARY"),
            (f"A={LIBRARY}", "no Python package or file"),
        ):
            with self.subTest(name):
                self.assertRegex(plugins.check([name])[name], reason)


if __name__ == "__main__":
    unittest.main()
