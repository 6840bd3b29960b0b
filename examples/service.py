# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Serve a model over HTTP. Clients send inputs and settings as JSON; they are not trusted.

``python examples/service.py model.onnx`` listens on 127.0.0.1:8080. A second argument specifies another port.
``docs/services-and-scale-out.md`` describes the requests and the status codes.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import logging
import math
import os
import re
import socket
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

import onnxruntime
import onnxruntime.backend
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, RuntimeException

# An upgrade of ONNX Runtime can replace the package with the stock backend. This check is in the service, because the
# upgrade removes the code of the package.
if not hasattr(onnxruntime.backend, "NotPermittedError"):
    raise ImportError(
        f"onnxruntime {onnxruntime.__version__} contains the stock backend, which ignores settings and restrictions of "
        "clients. An upgrade may have replaced the package that this service requires. Install the package again"
    )

LONGEST_BODY = 1 << 20
SECONDS = 5.0
MOST_MODELS = 4
MOST_PREPARES = 2
MOST_RUNS = 4
MOST_DIMENSIONS = 64  # of numpy
# Clients do not choose the device or the model, so the keyword arguments are listed.
KEYWORDS = {"session_options", "provider_options", "session_config", "run_config", "free_dimension_overrides"}
# ORT's errors of an operator that rejects values or shapes.
REJECTED = (Fail, InvalidArgument, RuntimeException)
OUT_OF_MEMORY = "failed to allocate|out of memory|bad_alloc|bad allocation|smaller than requested bytes"
AUDIT = logging.getLogger("service.audit")  # of refused settings
DTYPES = (
    "bool",
    "float16",
    "float32",
    "float64",
    "int16",
    "int32",
    "int64",
    "int8",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
)


class BadRequest(Exception):  # noqa: N818
    """An error of the client, with its HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Service:
    """Prepares a model for each configuration, and runs it.

    :param model: the path of the model.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._runs = threading.BoundedSemaphore(MOST_RUNS)
        self._prepares = threading.BoundedSemaphore(MOST_PREPARES)
        self._lock = threading.Lock()  # for the tables, never held while a model is prepared
        self._preparing: dict[bytes, threading.Lock] = {}  # for each digest that a thread prepares or waits for
        self._known: OrderedDict[bytes, str] = OrderedDict()  # digest of the settings to the permitted configuration
        self._prepared: OrderedDict[str, object] = OrderedDict()  # permitted configuration to prepared model

    def answer(self, body: bytes) -> tuple[int, dict]:
        """Return the HTTP status and the JSON object for a request's body."""
        try:
            request = parse(body)
            rep = self._rep(request.get("settings", {}))
            inputs = {name: decode(name, value) for name, value in request["inputs"].items()}
            with taken(self._runs):
                try:
                    outputs = rep.run(inputs, timeout=SECONDS)
                except onnxruntime.backend.InputError:  # can be a Fail or an InvalidArgument, too
                    raise
                except REJECTED as error:
                    if is_out_of_memory(error):
                        raise
                    print(type(error).__name__, error, file=sys.stderr)
                    return 422, {"error": "inputs: an operator of the model rejected the values"}
            names = [output.name for output in rep.session.get_outputs()]
            answer = {"outputs": {name: encode(value) for name, value in zip(names, outputs, strict=True)}}
            if rep.warnings:
                answer["warnings"] = rep.warnings
            return 200, answer
        except BadRequest as error:
            return error.status, {"error": str(error)}
        except onnxruntime.backend.NotPermittedError as error:
            place = {"keyword": error.keyword, "provider": error.provider, "key": error.key}
            AUDIT.warning(json.dumps({**place, "value": error.value}))
            return 400, {"error": str(error), **place}
        except onnxruntime.backend.InputError as error:
            return 422, {"error": str(error), "input": error.input}
        except TimeoutError:
            return 504, {"error": f"the run took longer than {SECONDS} s"}
        except Exception as error:
            print(type(error).__name__, error, file=sys.stderr)
            if is_out_of_memory(error):
                return 503, {"error": "the service is out of memory"}
            return 500, {"error": "internal error"}

    def _rep(self, settings: dict):
        """Return the prepared model for a client's settings."""
        digest = hashlib.sha256(key(settings).encode()).digest()
        with self._lock:
            if rep := self._find(digest):
                return rep
            preparing = self._preparing.setdefault(digest, threading.Lock())
        # Clients with the same settings wait for one model. Clients with other settings do not wait.
        with preparing:
            try:
                with self._lock:
                    if rep := self._find(digest):
                        return rep
                with taken(self._prepares):
                    rep = self._prepare(settings)
                # Clients write one configuration in several ways: False, 0, "0".
                permitted = key(rep.configuration())
                with self._lock:
                    self._known[digest] = permitted
                    self._prepared.setdefault(permitted, rep)
                    # A session is released when the last run that uses it has ended.
                    while len(self._prepared) > MOST_MODELS:
                        self._prepared.popitem(last=False)
                    while len(self._known) > 16 * MOST_MODELS:
                        self._known.popitem(last=False)
                    return self._find(digest) or rep
            finally:
                with self._lock:
                    self._preparing.pop(digest, None)

    def _prepare(self, settings: dict):
        try:
            return onnxruntime.backend.prepare(self._model, **settings)
        except REJECTED as error:
            if not settings.get("free_dimension_overrides") or is_out_of_memory(error):
                raise
            print(type(error).__name__, error, file=sys.stderr)
            raise BadRequest(
                400, "settings: free_dimension_overrides: the model does not load with these sizes"
            ) from None

    def _find(self, digest: bytes):
        """Return the prepared model for a digest of settings, if the service has it."""
        rep = self._prepared.get(self._known.get(digest, ""))
        if rep is not None:
            self._known.move_to_end(digest)
            self._prepared.move_to_end(self._known[digest])
        return rep


def is_out_of_memory(error: Exception) -> bool:
    """Return whether the machine or the device lacks memory, for which ONNX Runtime has no class of its own."""
    return isinstance(error, MemoryError) or bool(re.search(OUT_OF_MEMORY, str(error), re.IGNORECASE))


@contextmanager
def taken(semaphore: threading.Semaphore) -> Iterator[None]:
    """Hold a semaphore. If it is not free in time, the service is busy."""
    if not semaphore.acquire(timeout=SECONDS):
        raise BadRequest(503, "the service is busy")
    try:
        yield
    finally:
        semaphore.release()


def key(configuration: dict) -> str:
    """Return the same text for equal configurations. Only the order of EPs matters."""
    return json.dumps([configuration, list(configuration.get("provider_options", ()))], sort_keys=True)


def parse(body: bytes) -> dict:
    """Return the request that a body contains."""
    if len(body) > LONGEST_BODY:
        raise BadRequest(413, f"the body is longer than {LONGEST_BODY} bytes")
    try:
        request = json.loads(body, object_pairs_hook=unique, parse_constant=no_constant, parse_float=finite)
    except RecursionError:
        raise BadRequest(400, "the JSON is nested too deeply") from None
    except ValueError as error:
        raise BadRequest(400, f"not JSON: {error}") from None
    if is_deep(request):
        raise BadRequest(400, "the JSON is nested too deeply")
    if type(request) is not dict or not request.keys() <= {"settings", "inputs"}:
        raise BadRequest(400, 'expected an object with "inputs" and "settings"')
    settings = request.get("settings", {})
    if type(settings) is not dict or not settings.keys() <= KEYWORDS:
        expected = f"expected an object with any of {', '.join(sorted(KEYWORDS))}"
        raise BadRequest(400, f"settings: {expected}. Attributes belong in session_options")
    for keyword, part in settings.items():
        if type(part) is not dict:
            raise BadRequest(400, f"settings: {keyword}: expected an object")
    if type(request.get("inputs")) is not dict:
        raise BadRequest(422, "inputs: expected an object with a value for each input's name")
    return request


def is_deep(value: object) -> bool:
    """Return whether JSON is nested deeper than an input can be. This limits the recursion of other functions."""
    level = [value]
    for _ in range(MOST_DIMENSIONS + 4):  # the request, its inputs, an input
        below: list[object] = []
        for one in level:
            if type(one) is dict:
                below.extend(one.values())
            elif type(one) is list:
                below.extend(one)
        if not below:
            return False
        level = below
    return True


def unique(pairs: list[tuple[str, object]]) -> dict:
    """Return the object of some pairs. ``json.loads`` alone keeps the last value of a duplicated key."""
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("duplicate key")
    return made


def no_constant(name: str) -> None:
    """Reject NaN and Infinity, which are not JSON."""
    raise ValueError(f"{name} is not JSON. Send the array as base64")


def finite(text: str) -> float:
    """Return a number. ``json.loads`` alone reads a number that is too large, such as 1e999, as infinity."""
    number = float(text)
    if math.isinf(number):
        raise ValueError("a number is out of range")
    return number


def decode(name: str, value: object) -> object:
    """Return the value of an input. ``{"dtype": ..., "shape": [...], "base64": "..."}`` is an array."""
    if type(value) is not dict:
        if lacks_values(value):
            raise BadRequest(422, f"inputs: {name!a}: null and an empty list are not values")
        return value
    try:
        if value.keys() != {"dtype", "shape", "base64"} or value["dtype"] not in DTYPES:
            raise ValueError(f"expected dtype (one of {', '.join(DTYPES)}), shape, and base64")
        if type(value["shape"]) is not list or len(value["shape"]) > MOST_DIMENSIONS:
            raise ValueError(f"shape: expected a list of at most {MOST_DIMENSIONS} integers")
        # Without elements, some of ORT's operators return memory of earlier runs, which are of other clients.
        if any(type(size) is not int or not 1 <= size <= LONGEST_BODY for size in value["shape"]):
            raise ValueError(f"shape: expected integers from 1 to {LONGEST_BODY}")
        data = from_base64(value["base64"])
        dtype = np.dtype(value["dtype"]).newbyteorder("<")
        size = math.prod(value["shape"]) * dtype.itemsize
        if len(data) != size:
            raise ValueError(f"base64: expected {size} bytes for this dtype and shape, got {len(data)}")
        return np.frombuffer(data, dtype).reshape(value["shape"])
    except (TypeError, ValueError, OverflowError) as error:
        raise BadRequest(422, f"inputs: {name!a}: {error}") from None


def from_base64(text: object) -> bytes:
    """Return the bytes of a base64 text."""
    try:
        return base64.b64decode(text, validate=True)
    except (TypeError, ValueError):
        expected = "the bytes of the array in base64 (A-Z, a-z, 0-9, +, /, and = at the end)"
        raise ValueError(f"base64: expected {expected}") from None


def lacks_values(value: object) -> bool:
    """Return whether a list is empty or contains a null, which the backend and ORT read as the text 'None'."""
    return value is None or (type(value) is list and (not value or any(map(lacks_values, value))))


def encode(value: object) -> object:
    """Return an output as JSON. Infinities and NaN become text."""
    if isinstance(value, dict):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, list):
        return [encode(item) for item in value]
    if not isinstance(value, (float, np.ndarray, np.generic)):  # float: of a map
        return value
    if np.asarray(value).dtype.kind in "biuOSU":
        return value.tolist()
    numbers = np.asarray(value, np.float64)
    values = numbers.astype(object)
    for text, chosen in (("NaN", np.isnan), ("Infinity", np.isposinf), ("-Infinity", np.isneginf)):
        values[chosen(numbers)] = text
    return values.tolist()


class Deadline(io.RawIOBase):
    """Reads from a connection. The time for the whole request is limited, however slowly its bytes arrive."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._until = connection, time.monotonic() + SECONDS

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
        self._connection.settimeout(max(self._until - time.monotonic(), 0.001))
        try:
            return self._connection.recv_into(buffer)
        finally:
            self._connection.settimeout(SECONDS)  # for the answer


class Handler(BaseHTTPRequestHandler):
    """Reads one request, and sends the answer of the service."""

    service: Service

    def setup(self) -> None:
        super().setup()
        self.rfile = io.BufferedReader(Deadline(self.connection))

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdecimal()):
            self.send_error(411)
        elif len(length) > 9 or int(length) > LONGEST_BODY:
            self.send_error(413)
        else:
            try:
                body = self.rfile.read(int(length))
            except TimeoutError:
                self.send_error(408)
                return
            status, answer = self.service.answer(body)
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)


def listen(model: str, port: str = "8080") -> ThreadingHTTPServer:
    """Prepare the model without settings of a client, which checks the environment, and return the server."""
    Handler.service = Service(model)
    Handler.service._rep({})
    return ThreadingHTTPServer(("127.0.0.1", int(port)), Handler)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or not os.path.isfile(sys.argv[1]):
        sys.exit("usage: python examples/service.py MODEL [PORT] (an ONNX file, and by default 8080)")
    try:
        server = listen(*sys.argv[1:])
    except Exception as error:
        sys.exit(f"{type(error).__name__}: {error}")
    print(f"Listening on http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
