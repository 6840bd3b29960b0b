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

import argparse
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from backend_option_images import load
from backend_option_names import Use, data_texts, is_glued, uses
from backend_option_noise import NOISE

from onnxruntime.backend import provider_names as eps
from onnxruntime.backend.allowlist.rules import Rule, Table
from onnxruntime.backend.allowlist.run_config import RUN_CONFIG
from onnxruntime.backend.allowlist.session_config import OPTIMIZERS, SESSION_CONFIG
from onnxruntime.backend.allowlist.tables import EVERY_EP, PROVIDERS


def reviewed(table: Table) -> set[str]:
    """Return the permitted and the refused names of a table. A refused name that ends with a dot is a prefix."""
    return {*table, *table.refused}


# Of each EP, the options of both kinds.
OPTIONS = {ep: EVERY_EP.refused.keys() | set().union(*map(reviewed, kinds.values())) for ep, kinds in PROVIDERS.items()}
KEYS = reviewed(SESSION_CONFIG) | reviewed(RUN_CONFIG)
# The EPs in the distributions that have options, with their kind.
IN_DISTRIBUTION = {
    "onnxruntime-gpu": [(eps.CUDA, "built-in"), (eps.TENSORRT, "built-in")],
    "onnxruntime-openvino": [(eps.OPENVINO, "built-in")],
    "onnxruntime-webgpu": [(eps.WEBGPU, "built-in")],
    "onnxruntime-migraphx": [(eps.MIGRAPHX, "built-in")],
    "onnxruntime-cann": [(eps.CANN, "built-in")],
    "onnxruntime-ep-openvino": [(eps.OPENVINO, "plugin")],
    "onnxruntime-ep-webgpu": [(eps.WEBGPU, "plugin")],
    "onnxruntime-ep-nv-tensorrt-rtx-cu13": [(eps.NV_TENSORRT_RTX, "plugin")],
    "onnxruntime-qnn": [(eps.QNN, "plugin")],
}

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
        if known and self.ep in texts:
            return known + _KNOWN
        return known

    def contains(self, text: str) -> bool:
        """Return whether this text is a known name, or the prefix of one."""
        if text in self.names:
            return True
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
            for name in archive.namelist():
                if ".dist-info/" in name or _LIBRARY.fullmatch(Path(name).name):
                    archive.extract(name, folder)
        return read_folder(Path(folder))


def read_installed() -> list[Distribution]:
    """Read every installed distribution of ORT and its plugins."""
    found = {}
    for distribution in metadata.distributions():
        name = distribution.metadata["Name"]
        # onnxruntime-extensions contains custom operators, and has no options.
        if name.startswith("onnxruntime") and "extensions" not in name and name not in found:
            files = [Path(file.locate()) for file in distribution.files or ()]
            found[name] = _read(distribution, files)
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
    name = distribution.metadata["Name"]
    version = distribution.version.partition("+")[0]
    if not libraries:
        raise ValueError(f"{name} {version}: no native library of ORT")
    return Distribution(name, version, libraries)


def read_library(path: Path) -> Library:
    """Read one native library."""
    image = load(path)
    places = uses(image)
    texts: dict[str, bool] = {}
    for place in places:
        for use in place:
            texts[use.text] = use.whole or texts.get(use.text, False)
    for text in data_texts(image):
        # Constants of 16 bytes, the pieces of longer texts, stand between others of their size.
        is_whole = len(text) % 16 != 0
        texts[text] = is_whole or texts.get(text, False)
    kind = "plugin"
    if path.parent.name == "capi":
        kind = "built-in"
    return Library(path.name, kind, texts, places)


def unjudged(distribution: Distribution) -> dict[str, str]:
    """Return the names in a distribution's libraries that the allowlist does not contain, and that are not noise.

    :return: for each name, its library and its kind.
    """
    found: dict[str, str] = {}
    for library in distribution.libraries:
        for names in (_keys(library), _among_known(library)):
            for text, what in names.items():
                if text not in NOISE:
                    found.setdefault(text, f"{what}, {library.name}")
    return dict(sorted(found.items()))


def _keys(library: Library) -> dict[str, str]:
    judged = set(KEYS)
    own = _options_named_like_keys(library)
    judged |= own
    for ep, kinds in PROVIDERS.items():
        if library.kind in kinds:
            judged |= {f"ep.{ep.lower()}.{option}" for option in reviewed(kinds[library.kind])}
    others = judged | library.texts.keys()
    found = {}
    for text, is_whole in library.texts.items():
        if _KEY.fullmatch(text) and text not in judged:
            if is_whole or not _is_part(text, others, judged):
                found[text] = "looks like a key"
    return found


def _options_named_like_keys(library: Library) -> set[str]:
    """Return the options of the EPs in a library: some of them are named like keys."""
    if library.kind == "built-in":  # ORT has many EPs, and what plugins' memory arenas are made of
        return set().union(*OPTIONS.values())
    most: set[str] = set()
    for kinds in PROVIDERS.values():
        options = reviewed(kinds["plugin"]) if "plugin" in kinds else set()
        # A plugin is the EP that most options in its library belong to.
        if len(library.texts.keys() & options) > len(library.texts.keys() & most):
            most = options
    return most


def _is_part(text: str, others: Iterable[str], judged: set[str]) -> bool:
    """Whether a text is a piece of another one, or consists of pieces of names that are judged."""
    for other in others:
        if text in other and text != other:
            return True
    return is_glued(text, judged | PROVIDERS.keys())


def _among_known(library: Library) -> dict[str, str]:
    """Return the names that stand among known options of an EP, known keys, or known optimizers."""
    groups = _groups(library)
    known = {*OPTIMIZERS, *(key for key in KEYS if key.endswith("."))}
    for group in groups:
        if group.ep:
            known |= group.names
    judged = KEYS | OPTIMIZERS.keys() | EVERY_EP.refused.keys() | PROVIDERS.keys()
    found: dict[str, str] = {}
    for place in library.places:
        used = dict.fromkeys(use.text for use in place)
        others = known | used.keys()
        texts = []
        for text in used:
            if text in known or library.texts[text] or not _is_part(text, others, known):
                texts.append(text)
        for index, text in enumerate(texts):
            near = set(texts[max(index - _NEIGHBOURS, 0) : index + _NEIGHBOURS + 1])
            near.discard(text)
            among = _most_frequent(groups, near)
            if text in judged or any(group.contains(text) for group in among):
                continue
            whats = [group.what for group in among if group.form.fullmatch(text)]
            if whats:
                found[text] = f"stands among {', '.join(whats)}"
    return found


def _groups(library: Library) -> list[_Group]:
    groups = []
    for ep, kinds in PROVIDERS.items():
        options = reviewed(kinds["plugin"]) if "plugin" in kinds else set()
        if library.kind == "built-in":  # ORT's own library passes options to plugin EPs, too
            options = OPTIONS[ep]
        if options:
            groups.append(_Group(f"options of {ep}", options, _OPTION, ep))
    keys = KEYS.union(filter(_KEY.fullmatch, library.texts))
    groups.append(_Group("keys", keys, _PREFIX))
    groups.append(_Group("optimizers", set(OPTIMIZERS), _OPTIMIZER))
    return groups


def _most_frequent(groups: list[_Group], near: set[str]) -> list[_Group]:
    """Return the groups that most of some neighbours belong to. EPs share names."""
    most = _KNOWN
    found: list[_Group] = []
    for group in groups:
        count = group.count(near)
        if count > most:
            most = count
            found.clear()
        if count == most:
            found.append(group)
    return found


def expected(distribution: Distribution) -> set[str]:
    """Return the permitted names that a distribution should contain: the options of its EPs, and the keys of ORT.

    The fields ``since`` and ``until`` of an entry are releases of ORT, and the release of a plugin's distribution is
    the plugin's.
    """
    release = tuple(map(int, distribution.version.split(".")[:2]))
    is_ort = any("pybind11" in library.name for library in distribution.libraries)

    def known(rule: Rule) -> bool:
        return not is_ort or (rule.since <= release and (rule.until is None or release < rule.until))

    tables = [PROVIDERS[ep][kind] for ep, kind in IN_DISTRIBUTION.get(distribution.name, ())]
    if is_ort:
        tables += [SESSION_CONFIG, RUN_CONFIG]
    names = {name for table in tables for name, rule in table.items() if known(rule)}
    return names if is_ort else names - {"device_id"}  # the backend selects the device of a plugin EP


def gone(distribution: Distribution) -> set[str]:
    """Return the expected names that a distribution's libraries do not contain."""
    there = set(_ONLY_IN)
    for library in distribution.libraries:
        for text in library.texts:
            there.add(text)
            if text.startswith("ep."):
                there.add(text.rpartition(".")[2])
    return expected(distribution) - there


def download(requirement: str, options: Iterable[str]) -> Distribution:
    """Read the wheel that pip finds for a requirement such as ``onnxruntime==1.30.0``."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        command += ["--dest", folder]
        command += options
        command.append(requirement)
        subprocess.run(command, check=True)
        return read_wheel(next(Path(folder).glob("*.whl")))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", nargs="*", help="a wheel, the folder that one was unpacked to, or a NAME==VERSION")
    parser.add_argument("--pip", action="append", default=[], metavar="OPTION", help="an option for pip download")
    arguments = parser.parse_args()
    failed = False
    for distribution in _distributions(arguments.source, arguments.pip):
        new = unjudged(distribution)
        names = expected(distribution)
        missing = gone(distribution)
        libraries = ", ".join(library.name for library in distribution.libraries)
        print(f"{distribution.name} {distribution.version}: {libraries}")
        print(f"  {len(names - missing)} of {len(names)} expected names are there, {len(new)} are unjudged")
        for name in sorted(missing):
            print(f"  gone: {name}")
        for name, where in new.items():
            print(f"  unjudged: {name} ({where})")
        failed |= bool(new)
    return int(failed)


def _distributions(sources: list[str], pip_options: list[str]) -> Iterator[Distribution]:
    if not sources:
        yield from read_installed()
    for source in sources:
        path = Path(source)
        if path.is_dir():
            yield read_folder(path)
        elif path.exists() or "==" not in source:
            yield read_wheel(path)
        else:
            yield download(source, pip_options)


if __name__ == "__main__":
    sys.exit(main())
