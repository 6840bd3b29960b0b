# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Compare the backend's allowlist with the option and key names in ORT's native libraries.

    python backend_option_drift.py [WHEEL, FOLDER or NAME==VERSION ...] [--pip=OPTION ...]

Without an argument, reads the installed distributions whose names begin with onnxruntime. NAME==VERSION specifies a
wheel that pip downloads, with further options such as --pip=--platform=win_amd64. Lists the names in the libraries that
the allowlist does not contain, which is a failure. Lists the names of the allowlist that the libraries should contain
and do not contain.

A name counts as a key if it begins like a key (session., ep., mlas. and so on). It counts as an option of an execution
provider if the same function, or the same table of pointers, uses known options of that provider, or one known option
and the name of the provider. It counts as a prefix of keys or as an optimizer if known keys or optimizers stand next to
it. This is so in each library of ORT, whether or not the wheel has the execution provider.

The check does not report an option that is used apart from all others, among names of values, or alone in a new
library. It does not report an option that does not begin with a lower-case letter. It reports a key with another prefix
only if the code compares names with this prefix, next to other keys. It does not report a piece of code that looks like
the middle of a known name. Names that code for AVX composes are not found, but no parser of a wheel composes names so.
On macOS and on Arm, only keys are found.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from backend_option_evidence import evidence_of, title_of
from backend_option_images import load
from backend_option_names import Use, data_texts, is_glued, uses
from backend_option_noise import NOISE

from onnxruntime.backend import refusals
from onnxruntime.backend.allowlist import optimizers, run_config, session_config
from onnxruntime.backend.allowlist.rules import Rule

# Permitted and refused entries together.
SESSION_CONFIG = session_config.SESSION_CONFIG | refusals.SESSION_CONFIG
RUN_CONFIG = run_config.RUN_CONFIG | refusals.RUN_CONFIG
PROVIDERS = refusals.provider_tables()
OPTIMIZERS = {*optimizers.OPTIMIZERS}

_LIBRARY = re.compile(r"(lib)?onnxruntime.*\.(so(\.[0-9.]+)?|dylib|dll|pyd)")
_KEY = re.compile(r"(session|ep|mlas|optimization|memory|qnn|test|arena)\.[A-Za-z0-9_.]*[A-Za-z0-9_]")
_OPTION = re.compile(r"[a-z][A-Za-z0-9_.]*[A-Za-z0-9]")
# Of keys that the code compares with a prefix.
_PREFIX = re.compile(r"([a-z][a-z0-9_]*\.)+")
_OPTIMIZER = re.compile(r"[A-Z][A-Za-z0-9_]{5,}")
# A text is among the options of an EP when this many of its neighbours, of so many to each side, are such options.
_NEIGHBOURS, _KNOWN = 8, 3
# Keys that not every build has.
_ONLY_IN = {"mlas.enable_gemm_fastmath_arm64_bfloat16": "Arm on Linux", "session.x64quantprecision": "x86-64"}


class _Group(NamedTuple):
    """Known names that are used together: the options of an EP, the keys, or the optimizers."""

    what: str
    names: set[str]
    form: re.Pattern[str]  # of another such name
    ep: str = ""

    def count(self, texts: set[str]) -> int:
        """Return how many of the texts are known names. Next to the name of its EP, one option counts as enough."""
        known = len(texts & self.names)
        return known + _KNOWN if known and self.ep in texts else known

    def has_prefix(self, text: str) -> bool:
        """Return whether known names begin with this text."""
        return text.endswith(".") and any(name.startswith(text) for name in self.names)


class Library(NamedTuple):
    """The names in a native library.

    :param kind: ``"built-in"`` for a library of ORT, ``"plugin"`` for that of a plugin EP.
    :param texts: every text that can be a name, and whether it is certainly complete.
    :param places: the texts by the function or table that uses them, in order.
    """

    name: str
    kind: str
    texts: dict[str, bool]
    places: list[list[Use]]


class Distribution(NamedTuple):
    """An unpacked wheel: its name and release as its metadata gives them, and its libraries."""

    name: str
    version: str
    libraries: list[Library]


def read_folder(folder: Path) -> Distribution:
    """Read an unpacked wheel.

    :raises ValueError: if the folder contains no metadata of a distribution, or no native library of ORT.
    """
    for info in folder.glob("*.dist-info"):
        files = [path for path in folder.rglob("*") if path.is_file()]
        return _read(metadata.PathDistribution(info), files)
    raise ValueError(f"{folder}: no *.dist-info. Expected an unpacked wheel")


def read_wheel(wheel: Path) -> Distribution:
    """Read a wheel, as :func:`read_folder`."""
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(wheel) as archive:
            members = [
                name for name in archive.namelist() if ".dist-info/" in name or _LIBRARY.fullmatch(Path(name).name)
            ]
            archive.extractall(folder, members)
        return read_folder(Path(folder))


def read_installed() -> list[Distribution]:
    """Read every installed distribution of ORT and its plugins."""
    found = {}
    for distribution in metadata.distributions():
        name = distribution.metadata["Name"]
        # onnxruntime-extensions contains custom operators, and has no options.
        if name.startswith("onnxruntime") and "extensions" not in name and name not in found:
            found[name] = _read(distribution, [Path(file.locate()) for file in distribution.files or ()])
    return list(found.values())


def _read(distribution: metadata.Distribution, files: Iterable[Path]) -> Distribution:
    libraries, seen = [], set()
    for path in sorted(files):
        if not _LIBRARY.fullmatch(path.name) or not path.is_file():
            continue
        content = path.read_bytes()
        if content in seen:  # a wheel has no symbolic links, only copies
            continue
        seen.add(content)
        libraries.append(read_library(path))
    name, version = distribution.metadata["Name"], distribution.version.partition("+")[0]
    if not libraries:
        raise ValueError(f"{name} {version}: no native library of ORT")
    return Distribution(name, version, libraries)


def read_library(path: Path) -> Library:
    """Read one native library."""
    image = load(path)
    places = uses(image)
    texts = {use.text: False for place in places for use in place}
    texts |= {use.text: True for place in places for use in place if use.whole}
    # Constants of 16 bytes, the pieces of longer texts, stand between others of their size.
    texts |= {text: len(text) % 16 != 0 or texts.get(text, False) for text in data_texts(image)}
    return Library(path.name, "built-in" if path.parent.name == "capi" else "plugin", texts, places)


def unjudged(distribution: Distribution) -> dict[str, str]:
    """Return the names in a distribution's libraries that the allowlist does not contain, and that are not noise.

    :return: for each name, its library and its kind.
    """
    found: dict[str, str] = {}
    for library in distribution.libraries:
        for text, what in (*_keys(library).items(), *_among_known(library).items()):
            if text not in NOISE:
                found.setdefault(text, f"{what}, {library.name}")
    return dict(sorted(found.items()))


def _keys(library: Library) -> dict[str, str]:
    # Some options are named like keys. In a plugin's library they count for the EP that most of its options belong to;
    # ORT itself has many EPs, and what plugins' memory arenas are made of.
    tables = [(ep, kind, table) for ep, kinds in PROVIDERS.items() for kind, table in kinds.items()]
    own = [{*table} for _, kind, table in tables if library.kind in ("built-in", kind)]
    if library.kind == "plugin":
        own = [max(own, key=lambda table: len(library.texts.keys() & table))]
    options = {f"ep.{ep.lower()}.{option}" for ep, kind, table in tables for option in table if kind == library.kind}
    judged = {*SESSION_CONFIG, *RUN_CONFIG, *options}.union(*own)
    suspects = {text: whole for text, whole in library.texts.items() if _KEY.fullmatch(text) and text not in judged}
    others = {*library.texts, *judged}
    return {text: "looks like a key" for text, whole in suspects.items() if whole or not _is_part(text, others, judged)}


def _is_part(text: str, others: Iterable[str], judged: Iterable[str]) -> bool:
    """Whether a text is a piece of another one, or consists of pieces of names that are judged."""
    return any(text in other and text != other for other in others) or is_glued(text, {*judged, *PROVIDERS})


def _among_known(library: Library) -> dict[str, str]:
    """Return the names that stand among known options of an EP, known keys, or known optimizers."""
    # ORT's own library passes options to plugin EPs, too.
    kinds = ("built-in", "plugin") if library.kind == "built-in" else ("plugin",)
    tables = {ep: {name for kind in kinds for name in provider.get(kind, {})} for ep, provider in PROVIDERS.items()}
    groups = [_Group(f"options of {ep}", options, _OPTION, ep) for ep, options in tables.items() if options]
    keys = {*SESSION_CONFIG, *RUN_CONFIG, *filter(_KEY.fullmatch, library.texts)}
    groups += [_Group("keys", keys, _PREFIX), _Group("optimizers", OPTIMIZERS, _OPTIMIZER)]
    known = set().union(*tables.values(), OPTIMIZERS, refusals.SESSION_FAMILIES)
    judged = {
        *SESSION_CONFIG,
        *RUN_CONFIG,
        *OPTIMIZERS,
        *refusals.SESSION_FAMILIES,
        *refusals.EVERY_PROVIDER,
        *PROVIDERS,
    }
    found: dict[str, str] = {}
    for place in library.places:
        texts = list(dict.fromkeys(use.text for use in place))
        others = known | {*texts}
        texts = [text for text in texts if text in known or library.texts[text] or not _is_part(text, others, known)]
        for index, text in enumerate(texts):
            near = {*texts[max(index - _NEIGHBOURS, 0) : index + _NEIGHBOURS + 1]} - {text}
            counts = [group.count(near) for group in groups]
            # EPs share names: it is an option of the one that most of its neighbours belong to.
            most = max(*counts, _KNOWN)
            among = [group for group, count in zip(groups, counts, strict=True) if count == most]
            if text in judged or any(text in group.names or group.has_prefix(text) for group in among):
                continue
            if among := [group.what for group in among if group.form.fullmatch(text)]:
                found[text] = f"stands among {', '.join(among)}"
    return found


def expected(distribution: Distribution) -> set[str]:
    """Return the names that a distribution should contain: its evidence names it, or its release reads the key.

    The fields ``since`` and ``until`` of an entry are releases of ORT, and the release of a plugin's distribution is
    the plugin's.
    """
    release = tuple(map(int, distribution.version.split(".")[:2]))
    is_ort = any("pybind11" in library.name for library in distribution.libraries)

    def known(rule: object) -> bool:
        if type(rule) is not Rule or not is_ort:
            return True
        return rule.since <= release and (rule.until is None or release < rule.until)

    names = {
        option
        for ep, kinds in PROVIDERS.items()
        for kind, rules in kinds.items()
        for option, rule in rules.items()
        if f"run: {distribution.name} " in evidence_of(title_of(ep, kind), option, is_refused=type(rule) is not Rule)
        and known(rule)
    }
    if is_ort:
        keys = SESSION_CONFIG | RUN_CONFIG
        names |= {key for key, rule in keys.items() if type(rule) is Rule and known(rule)}
    return names


def gone(distribution: Distribution) -> set[str]:
    """Return the expected names that a distribution's libraries do not contain."""
    there = {text for library in distribution.libraries for text in library.texts}
    there |= {text.rpartition(".")[2] for text in there if text.startswith("ep.")}
    return expected(distribution) - there - _ONLY_IN.keys()


def download(requirement: str, options: Iterable[str]) -> Distribution:
    """Read the wheel that pip finds for a requirement such as ``onnxruntime==1.30.0``."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        subprocess.run([*command, "--dest", folder, *options, requirement], check=True)
        return read_wheel(next(Path(folder).glob("*.whl")))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", nargs="*", help="a wheel, the folder that one was unpacked to, or a NAME==VERSION")
    parser.add_argument("--pip", action="append", default=[], metavar="OPTION", help="an option for pip download")
    arguments = parser.parse_args()

    def read(source: str) -> Distribution:
        path = Path(source)
        if not path.exists() and "==" in source:
            return download(source, arguments.pip)
        return read_folder(path) if path.is_dir() else read_wheel(path)

    failed = False
    for distribution in map(read, arguments.source) if arguments.source else read_installed():
        new, missing = unjudged(distribution), gone(distribution)
        recovered = len(expected(distribution)) - len(missing)
        print(f"{distribution.name} {distribution.version}: {', '.join(lib.name for lib in distribution.libraries)}")
        print(f"  {recovered} of {len(expected(distribution))} expected names are there, {len(new)} are unjudged")
        for name in sorted(missing):
            print(f"  gone: {name}")
        for name, where in new.items():
            print(f"  unjudged: {name} ({where})")
        failed |= bool(new)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
