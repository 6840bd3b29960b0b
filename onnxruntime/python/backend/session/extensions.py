# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Libraries of custom operators. Imported where the environment names any.

They are code, so only the trusted side may name them: ``"extensions"`` in ``ORT_ONNX_BACKEND_CONFIG``, which
``python -m onnxruntime.backend --extension`` fills in too. A caller's arguments never lead here.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Iterable, Iterator

from onnxruntime import SessionOptions
from onnxruntime.backend.errors import show


def register(options: SessionOptions, named: Iterable[str]) -> tuple[str, ...]:
    """Register libraries with a session's options.

    :param options: the options that the session will be opened with.
    :param named: installed packages that have a ``get_library_path``, such as ``onnxruntime_extensions``, and absolute
        paths of libraries.
    :return: what was registered: the packages, and of paths the file names.
    :raises RuntimeError: for a library that is not found, or that ORT does not take.
    """
    return tuple(_register(options, named))


def _register(options: SessionOptions, named: Iterable[str]) -> Iterator[str]:
    for name in dict.fromkeys(named):
        try:
            options.register_custom_ops_library(_path(name))
        except Exception as error:  # a package may raise anything, and so does ORT
            raise RuntimeError(f"the extension {show(name)} cannot be registered: {error}") from error
        yield os.path.basename(name)


def _path(name: str) -> str:
    """The library that a name stands for."""
    if os.path.isabs(name):
        if not os.path.isfile(name):
            raise FileNotFoundError("there is no such file")
        return name
    if not re.fullmatch(r"\w+(\.\w+)*", name):
        raise ValueError("it is neither the name of a Python package nor an absolute path")
    package = importlib.import_module(name)
    if not hasattr(package, "get_library_path"):
        raise ValueError("the package has no get_library_path to tell where its library is; name the library's path")
    return package.get_library_path()
