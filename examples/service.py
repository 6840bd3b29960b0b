# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Serve a model over HTTP to clients that are not trusted. docs/services.md describes the requests."""

import json
import logging
import os
import re
import signal
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import onnxruntime.backend
from onnxruntime.backend import InputError, NotPermittedError  # an ImportError: this is the stock backend
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, RuntimeException

LONGEST_BODY, MOST_MODELS, MOST_RUNS = 1 << 20, 4, 4
SECONDS = 5.0  # for a run, for a wait, and for a read
# Clients do not choose the model and the device, so the keyword arguments are listed.
KEYWORDS = {"session_options", "provider_options", "session_config", "run_config", "free_dimension_overrides"}
CONFIGURATION = "ORT_ONNX_BACKEND_CONFIG"


class RejectedError(Exception):
    """A request that the service rejects: the HTTP status and the message."""


class Service:
    """A WSGI application, which runs a model with the settings of each client. A process has one service."""

    def __init__(self, model: str) -> None:
        variable = os.environ.get(CONFIGURATION, "")
        self._model, self._file = model, Path(variable[1:]) if variable.startswith("@") else None
        self._prepared: dict[str, object] = {}  # by the settings
        self._preparing, self._runs = threading.Semaphore(1), threading.Semaphore(MOST_RUNS)
        self.reload()

    def reload(self) -> None:
        """Load the configuration of the environment. If it is not valid, keep the last one, and raise an error."""
        with taken(self._preparing):  # no other thread reads the variable
            last = os.environ.get(CONFIGURATION, "")
            if self._file:
                os.environ[CONFIGURATION] = self._file.read_text(encoding="utf-8")
            try:
                self._prepared = {json.dumps({}): onnxruntime.backend.prepare(self._model)}
            except BaseException:
                if self._file:
                    os.environ[CONFIGURATION] = last
                raise

    def __call__(self, environ: dict, start_response) -> list[bytes]:
        length = re.fullmatch("[0-9]{1,18}", environ.get("CONTENT_LENGTH") or "0")  # otherwise, the body is empty
        status, answer = self.answer(environ["wsgi.input"].read(min(int(length[0]) if length else 0, LONGEST_BODY + 1)))
        start_response(f"{status} ", [("Content-Type", "application/json")])
        return [json.dumps(answer).encode()]

    def answer(self, body: bytes) -> tuple[int, dict]:
        """Return the HTTP status and the JSON object for the body of a request."""
        try:
            status, answer = 200, self._answer_to(*parse(body))
        except NotPermittedError as error:
            status, answer = 400, {"error": str(error), **vars(error)}
        except InputError as error:
            status, answer = 422, {"error": str(error), "input": error.input}
        except RejectedError as error:
            status, answer = error.args[0], {"error": error.args[1]}
        except TimeoutError:
            status, answer = 504, {"error": f"the run took longer than {SECONDS} s"}
        except Exception as error:
            logging.getLogger("service").exception("a request failed")
            status, answer = 500, {"error": "internal error"}
            if re.search("(?i)memoryerror|allocate .*memory|out of memory|bad.alloc|than requested", repr(error)):
                status, answer = 503, {"error": "the service is out of memory"}
            elif isinstance(error, (Fail, InvalidArgument, RuntimeException)):  # the model alone was prepared
                status, answer = 422, {"error": "the model does not run with these inputs and settings"}
        if status == 400:
            logging.getLogger("service.audit").warning(json.dumps(answer))
        return status, answer

    def _answer_to(self, settings: dict, inputs: dict) -> dict:
        rep = self._rep(settings)
        with taken(self._runs):
            outputs = rep.run(inputs, timeout=SECONDS)
        named = {output.name: value for output, value in zip(rep.session.get_outputs(), outputs, strict=True)}
        text = json.dumps(named, default=lambda value: value.tolist())
        return {"outputs": json.loads(text, parse_constant=str), "warnings": rep.warnings}  # NaN becomes "NaN"

    def _rep(self, settings: dict):
        """Return the prepared model for a client's settings. Only requests with new settings wait for each other."""
        key = json.dumps(settings)
        if rep := self._prepared.get(key):
            return rep
        with taken(self._preparing):
            if key not in self._prepared:
                reps = {**self._prepared, key: onnxruntime.backend.prepare(self._model, **settings)}
                self._prepared = dict(list(reps.items())[-MOST_MODELS:])  # a session ends after its last run
            return self._prepared[key]


@contextmanager
def taken(semaphore: threading.Semaphore):
    if not semaphore.acquire(timeout=SECONDS):
        raise RejectedError(503, "the service is busy")
    try:
        yield
    finally:
        semaphore.release()


def parse(body: bytes) -> tuple[dict, dict]:
    """Return the settings and the inputs of a request."""
    if len(body) > LONGEST_BODY:
        raise RejectedError(413, f"the body is longer than {LONGEST_BODY} bytes")
    try:
        request = json.loads(body)
        settings, inputs = request.pop("settings", {}), request.pop("inputs")
        if request or not settings.keys() <= KEYWORDS or not all(type(part) is dict for part in settings.values()):
            raise ValueError(f"the settings are objects, named {', '.join(sorted(KEYWORDS))}")
        empty = [name for name, value in inputs.items() if lacks_elements(value)]
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise RejectedError(400, f'expected a JSON object with "settings" and "inputs": {error}') from None
    if empty:  # some of ONNX Runtime's operators would return memory of earlier runs, which can be of other clients
        raise RejectedError(422, f"inputs: {empty[0]!a}: an empty list is not a value")
    return settings, inputs


def lacks_elements(value: object) -> bool:
    return type(value) is list and (not value or any(map(lacks_elements, value)))


class Server(ThreadingMixIn, WSGIServer):
    """Answers each request in a thread."""


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or not os.path.isfile(sys.argv[1]):
        sys.exit("usage: python examples/service.py MODEL [PORT] (an ONNX file, and by default 8080)")
    WSGIRequestHandler.timeout = SECONDS
    service = Service(sys.argv[1])
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, lambda *_: threading.Thread(target=service.reload).start())
    server = make_server("127.0.0.1", int(sys.argv[2] if len(sys.argv) == 3 else 8080), service, Server)
    print(f"Listening on http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
