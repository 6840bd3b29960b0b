# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Build an onnxruntime wheel whose ``onnxruntime.backend`` is the one in this tree.

The wheel is made from a stock wheel, its *base*. Distribution name, tags and files are the same, except the folder
``onnxruntime/backend/``. As a build frontend, pip calls this module (see pyproject.toml) and installs the base into the
isolated build environment. This module checks each file of the base against the base's RECORD before it copies the
file.

The only setting is the environment variable ``ORT_BACKEND_BASE``: a distribution in ``BASES``, alone or followed
by ``==`` and a version. A source distribution records this setting. Only the standard library is used.
"""

from __future__ import annotations

import base64
import csv
import gzip
import hashlib
import io
import itertools
import os
import re
import tarfile
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath

SETTING = "ORT_BACKEND_BASE"
# The possible bases, with their default versions. The first is the default base.
BASES = {
    "onnxruntime": "1.32.0",
    "onnxruntime-openvino": "1.24.1",
    "onnxruntime-webgpu": "1.27.0",
    "onnxruntime-gpu": "1.31.1",
}
SUPPORTED_MINORS = range(24, 33)  # of ORT 1.x

BACKEND_SOURCES = Path(__file__).parent / "onnxruntime" / "python" / "backend"
BACKEND_IN_WHEEL = "onnxruntime/backend/"
# The other files of a source distribution, which has no tests.
IN_SOURCE_DISTRIBUTION = ("setup.py", "pyproject.toml", "LICENSE", "*.md", "docs/*.md")
# The files of an installed base that are not part of the new wheel: caches, the stock backend, and the files that
# installers add to a .dist-info folder.
NOT_COPIED = (
    rf"(.*/)?__pycache__/.*|{BACKEND_IN_WHEEL}.*|[^/]+\.dist-info/(INSTALLER|RECORD|REQUESTED|direct_url\.json)"
)

# Windows reads such a name of a file or folder as a device.
DEVICE = r"(?i)(.*/)?(con|prn|aux|nul|(com|lpt)[0-9])([./].*)?"


def accepted_base(setting: str) -> tuple[str, str] | None:
    """Return the distribution name and version that ``NAME`` or ``NAME==VERSION`` specifies, if the value is valid."""
    name, separator, version = setting.partition("==")
    if name in BASES and not separator:
        return name, BASES[name]
    match = re.fullmatch(r"1\.(\d{1,3})\.\d{1,3}", version, re.ASCII)
    if name in BASES and match and int(match[1]) in SUPPORTED_MINORS:
        return name, version
    return None


def requested_base(setting: str) -> tuple[str, str]:
    """Return the distribution name and version that a value of ORT_BACKEND_BASE specifies; '' specifies the default."""
    base = accepted_base(setting or next(iter(BASES)))
    if base:
        return base
    accepted = ", ".join(f"{base}=={default}" for base, default in BASES.items())
    problem = f"{SETTING}={setting!a} is not a base."
    if setting.endswith(".whl") or re.search(r"[/\\]", setting):
        problem += (
            " A path or URL is not accepted. To build on a file, install it with pip install --no-deps, set "
            f"{SETTING} to the name and version of the file, and build with --no-build-isolation."
        )
    raise SystemExit(
        f"{problem} Accepted: {accepted}. A name without a version selects the version "
        f"shown. NAME==VERSION selects any other release from 1.{SUPPORTED_MINORS[0]}.0 to 1.{SUPPORTED_MINORS[-1]}.x."
    )


def selected_base() -> tuple[str, str]:
    """Return name and version of the base that the environment or a source distribution selects, or of the default."""
    setting = os.environ.get(SETTING, "")
    source_distribution = Path(__file__).with_name("PKG-INFO")
    if not setting and source_distribution.is_file():
        fields = dict(re.findall(r"^(Name|Version): ([^+\n]*)", source_distribution.read_text(), re.MULTILINE))
        setting = f"{fields['Name']}=={fields['Version']}"
    return requested_base(setting)


def backend_files() -> list[tuple[str, bytes]]:
    """Return path and content of each file of this tree's backend that the wheel contains."""
    sources = [*BACKEND_SOURCES.rglob("*.py"), *BACKEND_SOURCES.rglob("py.typed")]
    return sorted((source.relative_to(BACKEND_SOURCES).as_posix(), source.read_bytes()) for source in sources)


def labeled(version: str) -> str:
    """Return the version of a base with a local label: the version of the backend, and a digest of the code.

    PEP 440 gives local labels to downstream builds: `onnxruntime>=1.32` is still satisfied. pip does not replace an
    installed wheel by a wheel of the same version. Therefore, the digest changes with each file of the backend, and
    with this module.
    """
    files = backend_files()
    (of_backend,) = re.findall(rb'^__version__ = "([0-9.]+)"\r?$', dict(files)["__init__.py"], re.MULTILINE)
    digest = hashlib.sha256()
    for path, content in (*files, ("setup.py", Path(__file__).read_bytes())):
        lines = content.replace(b"\r\n", b"\n")  # git can write both
        digest.update(f"{path} {hashlib.sha256(lines).hexdigest()}\n".encode())
    # With a letter, because PEP 440 removes zeros at the start of a number.
    return f"{version}+backend.{of_backend.decode()}.x{digest.hexdigest()[:8]}"


def get_requires_for_build_wheel(config_settings: dict | None = None) -> list[str]:
    """PEP 517: return the requirements that pip installs into the build environment: the base."""
    # `===`, because `==` would take a wheel of ours, with its local label, if an index offers one.
    return ["{}==={}".format(*selected_base())]


def build_editable(
    wheel_directory: str, config_settings: dict | None = None, metadata_directory: str | None = None
) -> str:
    """PEP 660: refuse, because the stock files of the package are not in this tree."""
    raise SystemExit(
        "An editable installation is not available, because the package also contains the files of a stock wheel. "
        "Run pip install . after each edit. To run tests on edited files without an installation, run make try."
    )


def build_sdist(sdist_directory: str, config_settings: dict | None = None) -> str:
    """PEP 517: write the source distribution and return its file name."""
    name, version = selected_base()
    stem = f"{name.replace('-', '_')}-{labeled(version)}"
    # Of this version, because the metadata of the wheel contains more.
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {labeled(version)}\n"
    root = Path(__file__).parent
    folder = BACKEND_SOURCES.relative_to(root).as_posix()
    files = {f"{folder}/{path}": content for path, content in backend_files()}
    for pattern in IN_SOURCE_DISTRIBUTION:
        files |= {path.relative_to(root).as_posix(): path.read_bytes() for path in root.glob(pattern)}
    built = Path(sdist_directory, f"{stem}.tar.gz")
    with (
        built.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w") as archive,
    ):
        for path, content in sorted({**files, "PKG-INFO": metadata.encode()}.items()):
            entry = tarfile.TarInfo(f"{stem}/{path}")  # dated 1970-01-01
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return built.name


def build_wheel(
    wheel_directory: str, config_settings: dict | None = None, metadata_directory: str | None = None
) -> str:
    """PEP 517: write the wheel and return its file name."""
    name, version = selected_base()
    stock = f"pip install --no-deps {name}==={version}"
    try:
        base = distribution(name)
        if (normalized(base.name), base.version) != (name, version):
            installed = ascii(f"{base.name}=={base.version}")[1:-1]
            offer = f"To build on it, set {SETTING}={installed}. " if accepted_base(installed) else ""
            raise SystemExit(
                f"The base must be {name}=={version}, but {installed} is installed. {offer}"
                f"To build on {name}=={version}, run in a separate environment: {stock}"
            )
        return write_wheel(base, Path(wheel_directory))
    except PackageNotFoundError:
        raise SystemExit(
            f"The base {name}=={version} is not installed. To build without build isolation, first run: {stock}"
        ) from None
    except (ValueError, TypeError, KeyError, csv.Error) as error:  # the readers of RECORD and of metadata raise these
        raise SystemExit(
            f"{name}=={version}: RECORD or the metadata of the installed base is not valid "
            f"({ascii(str(error))[1:-1]}). Build on an official wheel."
        ) from error


def normalized(name: str) -> str:
    """Return the name of a distribution in the form of PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()


def problem_of(base: Distribution, path: str, recorded: str) -> str:
    """Return why a file of the base cannot be packed, or ``""``.

    :param path: relative to site-packages, as in RECORD
    :param recorded: the hash in RECORD
    """
    on_disk = Path(base.locate_file(path))
    if ".." in path.split("/") or path.startswith("/") or path.partition("/")[0].endswith(".data"):
        return "installed outside site-packages"
    # Windows reads some characters in a special way, and many file systems ignore the case of letters.
    is_portable = re.fullmatch(r"([\w+.-]*[\w+-]/)*[\w+.-]*[\w+-]", path, re.ASCII)
    if not is_portable or re.fullmatch(DEVICE, path) or re.fullmatch(f"(?i:{NOT_COPIED})(/.*)?", f"{path}/"):
        return "not a portable path"
    if not recorded.startswith("sha256="):
        return "recorded without a SHA-256"
    if not on_disk.is_file():
        return "missing"
    if on_disk.resolve() != Path(base.locate_file("")).resolve() / path:
        return "links, or in a folder that is one"
    if record_hash(on_disk.read_bytes()) != recorded:
        return "different from RECORD"
    return ""


def verified_files(base: Distribution) -> list[str]:
    """Return the files of the base wheel. Each has the SHA-256 that its RECORD contains.

    :param base: the installed base
    :return: paths relative to site-packages, with forward slashes, in RECORD's order
    """
    scripts = {entry.name for entry in base.entry_points if entry.group in ("console_scripts", "gui_scripts")}
    seen: set[str] = set()
    kept: list[str] = []
    problems: dict[str, list[str]] = {}
    for path, recorded, _ in csv.reader(io.StringIO(base.read_text("RECORD") or "")):
        is_script = path.startswith("../") and PurePosixPath(path).stem in scripts  # the installer writes it
        if is_script or re.fullmatch(NOT_COPIED, path):
            continue
        # The files of any .dist-info go into the wheel's own.
        folded = re.sub(r"^[^/]+\.dist-info/", ".dist-info/", path.lower())
        problem = "recorded twice" if folded in seen else problem_of(base, path, recorded)
        seen.add(folded)
        if problem:
            problems.setdefault(problem, []).append(ascii(path)[1:-1])
        else:
            kept.append(path)
    if not kept:
        problems["RECORD lists no files"] = ["onnxruntime/"]
    if problems:
        listed = "; ".join(f"{problem}: {', '.join(paths[:5])}" for problem, paths in problems.items())
        raise SystemExit(f"{base.name}=={base.version}: the installed base does not match its RECORD: {listed}")
    return kept


def write_wheel(base: Distribution, wheel_directory: Path) -> str:
    """Write the wheel made from an installed base and this tree's backend.

    :param base: the installed base
    :param wheel_directory: where to write
    :return: the wheel's file name
    """
    stock = verified_files(base)
    stem = f"{normalized(base.name).replace('-', '_')}-{labeled(base.version)}"
    info = f"{stem}.dist-info"
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    built = wheel_directory / f"{stem}-{compressed_tags(base.read_text('WHEEL') or '')}.whl"
    try:
        with zipfile.ZipFile(built, "w") as wheel:
            for path, content, executable in wheel_contents(base, stock, info):
                rows.writerow((path, record_hash(content), len(content)))
                add_file(wheel, path, content, executable)
            rows.writerow((f"{info}/RECORD", "", ""))
            add_file(wheel, f"{info}/RECORD", record.getvalue().encode())
    except BaseException:
        built.unlink(missing_ok=True)  # not half a wheel
        raise
    return built.name


def wheel_contents(base: Distribution, stock: list[str], info: str) -> Iterator[tuple[str, bytes, bool]]:
    """Yield path, content, and whether the file is executable: the backend, the stock files, then the metadata."""
    for path, content in backend_files():
        yield BACKEND_IN_WHEEL + path, content, False
    # A stable sort: .dist-info is last, as the wheel format recommends, and the other files keep RECORD's order.
    for path in sorted(stock, key=lambda path: ".dist-info/" in path):
        on_disk = Path(base.locate_file(path))
        content = on_disk.read_bytes()
        name = re.sub(r"^[^/]+\.dist-info/", f"{info}/", path)
        if name == f"{info}/METADATA":
            # onnxruntime.backend imports onnx, which is not a requirement of the stock wheel.
            content = replace_line(content, "Version", f"{labeled(base.version)}\nRequires-Dist: onnx")
        elif name == f"{info}/WHEEL":
            content = replace_line(content, "Generator", f"onnxruntime-backend ({labeled(base.version)})")
        yield name, content, bool(on_disk.stat().st_mode & 0o111)


def replace_line(content: bytes, header: str, value: str) -> bytes:
    """Return the content with another value in its only header line of that name."""
    head, blank, body = content.decode().partition("\n\n")
    head, count = re.subn(rf"^{header}: .*$", f"{header}: {value}", head, flags=re.MULTILINE)
    if count != 1:
        raise ValueError(f"{count} lines {header!r}, expected 1")
    return f"{head}{blank}{body}".encode()


def compressed_tags(wheel_metadata: str) -> str:
    """Return the tags of a WHEEL file in the form of a wheel's file name (PEP 425: three sets, joined by dots)."""
    tags = re.findall(r"^Tag: *(.*)$", wheel_metadata, re.MULTILINE)
    parts = [list(dict.fromkeys(part)) for part in zip(*(tag.split("-") for tag in tags), strict=True)]
    one_name = len(parts) == 3 and {"-".join(tag) for tag in itertools.product(*parts)} == set(tags)
    if not one_name or not re.fullmatch(r"[\w.-]+", "-".join(tags), re.ASCII):
        raise ValueError(f"the tags are not those of one wheel's file name: {tags}")
    return "-".join(".".join(part) for part in parts)


def record_hash(content: bytes) -> str:
    """Return the SHA-256 of the content, in the form of RECORD."""
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def add_file(wheel: zipfile.ZipFile, path: str, content: bytes, executable: bool = False) -> None:
    """Add a file whose entry does not depend on this machine: fixed time, fixed permissions."""
    entry = zipfile.ZipInfo(path)  # dated 1980-01-01
    entry.create_system = 3  # Unix, whose permissions follow
    entry.external_attr = (0o100755 if executable else 0o100644) << 16
    # The lowest level, because pip unpacks the wheel immediately. Higher levels triple the time and save a tenth.
    wheel.writestr(entry, content, zipfile.ZIP_DEFLATED, compresslevel=1)


if __name__ == "__main__":
    raise SystemExit("Build with 'pip install .' or 'pip wheel --no-deps .': see README.md.")
