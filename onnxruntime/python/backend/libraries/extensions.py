# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Registers custom operator libraries.

A library is code. Only the trusted environment can specify one: ``"extensions"`` in ``ORT_ONNX_BACKEND_CONFIG``, which
``python -m onnxruntime.backend --extension`` sets, too.
"""

import importlib.util
import os
import re
from collections.abc import Iterable
from importlib.machinery import PathFinder

from onnxruntime import SessionOptions
from onnxruntime.backend.errors import FROM_ENVIRONMENT, show


def check(names: Iterable[str]) -> dict[str, str]:
    """Return a sentence about each extension that cannot be registered, without importing or loading anything."""
    sentences = {}
    for name in names:
        text = problem(name)
        if text:
            sentences[name] = f"Extension {show(name)} cannot be registered: {text}"
    return sentences


def problem(name: str) -> str:
    """Return why a package is not installed, or a file does not exist, without importing or loading it, else ``""``."""
    try:
        if os.path.isabs(name):
            exists = os.path.isfile(name)
        else:
            exists = _is_installed(name)
    except Exception as error:  # Python's finders can raise anything
        return str(error) or type(error).__name__
    return "" if exists else "no Python package or file of this name exists"


def register(options: SessionOptions, names: Iterable[str]) -> tuple[str, ...]:
    """Register custom operator libraries with the options of a session, each library once.

    :param names: installed packages, such as ``onnxruntime_extensions``, and absolute paths of libraries.
    :return: the registered packages, and the file names of the registered paths.
    """
    registered: dict[str, str] = {}  # real path of a library to the name in the result
    for name in names:
        try:
            library = name if os.path.isabs(name) else _path_of_package(name)
            path = os.path.realpath(library)
            if path not in registered:
                options.register_custom_ops_library(path)
        except (Exception, SystemExit) as error:  # a package can raise anything
            problem = str(error) or type(error).__name__
            text = f"Extension {show(name)} cannot be registered: {problem}{FROM_ENVIRONMENT}"
            raise RuntimeError(text) from None
        registered.setdefault(path, os.path.basename(name))
    return tuple(registered.values())


def _path_of_package(name: str) -> str:
    """Import a package, and return the path of its library."""
    check_name(name)
    path = os.fsdecode(importlib.import_module(name).get_library_path())
    if not os.path.isabs(path):
        raise ValueError(f"get_library_path() of the package returned no absolute path, but {show(path)}")
    return path


def check_name(name: str, other: str = "an absolute path") -> None:
    """Raise ``ValueError`` if the text is not the name of a Python package."""
    if not re.fullmatch(r"\w+(\.\w+)*", name):
        raise ValueError(f"expected the name of a Python package, such as onnxruntime_extensions, or {other}")


def _is_installed(name: str) -> bool:
    """Return whether a module is installed. Unlike ``find_spec`` alone, do not import its parent packages."""
    check_name(name)
    first, *others = name.split(".")
    spec = importlib.util.find_spec(first)
    for part in others:
        if spec is None or not spec.submodule_search_locations:
            return False
        folders = list(spec.submodule_search_locations)
        spec = PathFinder.find_spec(f"{spec.name}.{part}", folders)
    return spec is not None
