# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Test this tree on a release of ORT, and print everything that must be reviewed before the release is accepted.

    python backend_new_release.py onnxruntime==1.33.0

The work is done in a copy of this tree in build/new-release, with environments of its own. In the copy, setup.py
accepts the release. No file of this tree changes. A later call for the same release uses the environments again.

The exit status is 0 if nothing is to be done.
"""

import argparse
import difflib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import setup

ROOT = Path(setup.__file__).parent
TESTS = "onnxruntime/test/python/backend"
WORK = ROOT / "build" / "new-release"


class Base(NamedTuple):
    """How noxfile.py tests a base.

    :param environments: the names of its environments. The first is also that of the other checks
    :param ep: the EP whose list of expected failures belongs to it; "" if ONNX's tests do not run on it
    :param under: a command that runs programs
    """

    environments: tuple[str, ...]
    ep: str = ""
    under: str = ""


BASES = {
    "onnxruntime": Base(("cpu", "plugins", "webgpu-plugin"), "CPUExecutionProvider"),
    "onnxruntime-openvino": Base(("openvino",), "OpenVINOExecutionProvider"),
    "onnxruntime-webgpu": Base(("webgpu",), "WebGpuExecutionProvider", f"{TESTS}/with_software_gpu.sh"),
    "onnxruntime-gpu": Base(("cuda",), under=f"{TESTS}/with_software_cuda.sh"),
}
# The cause of a failed test, by a pattern of its name. The first match counts.
CAUSES = {
    "names": "option_drift",
    "optimizers": "^config_keys.*optimizer",
    "execution providers": "^providers",
    "messages of ORT": "ort_messages|model_versions",
    "plugin EPs": "^plugin_eps|webgpu",
    "the stock wheel behaves differently": "stock_comparison",
    "the release is not accepted yet": "^installed|^packaging",
    "other": "",
}
# Texts of the tables that can be untrue for the release after 1.{0}.
ABOUT_RELEASES = r"\b(?:to|after|since|until|in|of) 1\.{0}\b(?!\.\d+:)|[Ll]ater (?:releases|ORT)"
# Seconds for a program that may hang.
PATIENCE = 60
# The page contains so many lines of a list.
LINES = 60

Finding = tuple[str, list[str]]


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def copy_tree(source: Path, copy: Path) -> None:
    """Copy the files that git tracks or would add. The environments and the wheels of an earlier copy remain."""
    copy.mkdir(parents=True, exist_ok=True)
    for path in copy.iterdir():
        if path.name in (".nox", ".venv-nox", "build"):
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=source, check=True, capture_output=True, text=True)
    for name in listed.stdout.split("\0"):
        if (source / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, copy / name)
    # Some tests list the files with git.
    subprocess.run(["git", "init", "--quiet"], cwd=copy, check=True)
    subprocess.run(["git", "add", "--all"], cwd=copy, check=True)


def stock_backend(requirement: str) -> dict[str, str]:
    """Return the files of the stock backend in the wheel that pip downloads."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        command += ["--dest", folder, requirement]
        subprocess.run(command, check=True)
        (path,) = Path(folder).glob("*.whl")
        found = {}
        with zipfile.ZipFile(path) as wheel:
            for name in wheel.namelist():
                if name.startswith("onnxruntime/backend/") and name.endswith(".py"):
                    found[name] = wheel.read(name).decode()
        return found


def difference(known: dict[str, str], new: dict[str, str], labels: tuple[str, str]) -> list[str]:
    """Return the lines of a diff between the files of two stock backends."""
    found: list[str] = []
    for name in sorted(known.keys() | new.keys()):
        found += difflib.unified_diff(
            known.get(name, "").splitlines(),
            new.get(name, "").splitlines(),
            f"{name} of {labels[0]}",
            f"{name} of {labels[1]}",
            lineterm="",
        )
    return found


def texts_about_releases(tables: Path, known: str) -> list[str]:
    """Return the lines of the allowlist that can be untrue after the newest known release."""
    pattern = re.compile(ABOUT_RELEASES.format(numbers(known)[1]))
    found = []
    for path in sorted(tables.rglob("*.py")):
        lines = path.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines, 1):
            if pattern.search(line):
                found.append(f"{path.relative_to(tables)}:{number}: {line.strip()}")
    return found


def failed_tests(report: Path) -> list[tuple[str, str]]:
    """Return the names of the failed tests in pytest's XML, and the beginning of each error."""
    found = []
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        file = case.get("classname", "").rpartition(".test_")[2]
        for problem in case:
            if problem.tag in ("failure", "error"):
                message = problem.get("message") or problem.text or ""
                found.append((f"{file}.{case.get('name')}", " ".join(message.split())[:200]))
    return found


def by_cause(failed: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return a line for each failed test, by cause."""
    found: dict[str, list[str]] = {cause: [] for cause in CAUSES}
    for name, message in failed:
        line = f"{name}: {message}"
        for cause, pattern in CAUSES.items():
            if re.search(pattern, name):
                if line not in found[cause]:
                    found[cause].append(line)
                break
    return found


def listed_defects(document: str, base: str, known: str) -> list[str]:
    """Return the programs of the defects that the newest known release of a base shows, as the document lists them."""
    releases = re.compile(rf"{base} (1\.[\d.]*\d(?:(?:, and|,| and| to) 1\.[\d.]*\d)*)")
    least = numbers(known)[:2]
    found = []
    for row, program in re.findall(r"^\|[^|]*\|([^|]*)\| \[\w+\]\((\w+\.py)\)", document, re.MULTILINE):
        shown: list[str] = []
        for versions in releases.findall(row):
            shown += re.findall(r"1\.[\d.]*\d", versions)
        if any(numbers(version)[:2] >= least for version in shown):
            found.append(f"tools/ort_defects/{program}")
    return found


class Trial:
    """The tests of one release, in the copy."""

    def __init__(self, name: str, version: str, known: str) -> None:
        self.name = name
        self.version = version
        self.known = known
        self.base = BASES[name]
        self.folder = WORK / f"{name}-{version}"
        self.copy = self.folder / "tree"
        self.python = [str(self.copy / ".nox" / self.base.environments[0] / "bin" / "python")]
        if self.base.under:
            self.python[:0] = ["sh", str(self.copy / self.base.under)]

    def run(self, log: str, *command: str, timeout: float | None = None, **variables: str) -> tuple[int, str]:
        """Run a command in the copy, write its output into a log, and return its exit status and output."""
        print(f"{log} ...", file=sys.stderr, flush=True)
        environment = os.environ | {"ORT_DISABLE_TELEMETRY": "1"} | variables
        # make would pass the variables and options of the outer call on.
        environment.pop("MAKEFLAGS", None)
        environment.pop("MAKEOVERRIDES", None)
        path = self.folder / f"{log}.log"
        with open(path, "wb") as output:
            try:
                done = subprocess.run(
                    command,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    check=False,
                    timeout=timeout,
                    cwd=self.copy,
                    env=environment,
                )
                status = done.returncode
            except subprocess.TimeoutExpired:
                status = -1
        return status, path.read_text(encoding="utf-8", errors="replace")

    def run_python(self, log: str, *arguments: str, timeout: float | None = None) -> tuple[int, str]:
        """Run the Python of the first environment, as :meth:`run`."""
        return self.run(log, *self.python, *arguments, timeout=timeout)

    def tests(self) -> Iterator[Finding]:
        failed: list[tuple[str, str]] = []
        missing = []
        for environment in self.base.environments:
            log = f"test-{environment}"
            report = self.folder / f"{log}.xml"
            report.unlink(missing_ok=True)
            base = f"BASE_{environment.replace('-', '_')}={self.name}=={self.version}"
            status, _ = self.run(log, "make", log, base, PYTEST_ADDOPTS=f"--junitxml={report}")
            found = []
            if report.exists():
                found = failed_tests(report)
            failed += found
            if status and not found:
                missing.append(f"make {log}: read {self.folder / log}.log")
        if not Path(self.python[-1]).exists():
            raise SystemExit("\n".join(missing))
        for cause, lines in by_cause(failed).items():
            yield f"Failed tests, {cause}", lines
        yield "Tests that did not run", missing

    def names(self) -> Iterator[Finding]:
        _, output = self.run_python("names", "tools/python/backend_option_drift.py")
        if "expected names are there" not in output:
            raise SystemExit(f"The drift check failed. Read {self.folder / 'names.log'}")
        for kind, heading in (("unjudged", "Names that nobody reviewed"), ("gone", "Names that the release removed")):
            yield heading, re.findall(rf"^  {kind}: (.*)", output, re.MULTILINE)

    def conformance(self) -> Iterator[Finding]:
        if not self.base.ep:
            return
        series = ("-W", "ignore", "tests/onnx_series.py", "--or-list-of", self.known)
        _, output = self.run_python("conformance", *series)
        if not re.search(r"\d+ passed, \d+ failed", output):
            raise SystemExit(f"ONNX's tests failed. Read {self.folder / 'conformance.log'}")
        yield "ONNX's tests that fail and are not listed", re.findall(r"^FAILED (.*)", output, re.MULTILINE)
        key = f"onnxruntime {self.version} {self.base.ep}"
        lists = json.loads((self.copy / "tests" / "onnx_series_expected.json").read_text())
        missing = []
        if key not in lists and numbers(self.version) > numbers(self.known):
            missing.append(f"{key}: write it with tests/onnx_series.py --update")
        yield "ONNX's tests, a list for this release", missing

    def stock(self) -> Iterator[Finding]:
        texts: list[str] = []
        lines: list[str] = []
        if numbers(self.version) > numbers(self.known):
            old = f"{self.name}=={self.known}"
            new = f"{self.name}=={self.version}"
            lines = difference(stock_backend(old), stock_backend(new), (old, new))
            tables = self.copy / "onnxruntime" / "python" / "backend" / "allowlist"
            texts = texts_about_releases(tables, self.known)
        yield f"Texts of the tables that {self.version} may make untrue", texts
        yield f"Stock backend, lines of the diff since {self.known}", lines

    def defects(self) -> Iterator[Finding]:
        document = (self.copy / "tools" / "ort_defects" / "README.md").read_text(encoding="utf-8")
        listed = listed_defects(document, self.name, self.known)
        gone = []
        for program in listed:
            status, _ = self.run_python(Path(program).stem, program, timeout=PATIENCE)
            # A program that shows its defect crashes, hangs, or exits with another status than 0.
            if status == 0:
                gone.append(program)
        yield f"Defects that are gone, of {len(listed)}", gone

    def findings(self) -> list[Finding]:
        """Test the release, and return the lists of the page."""
        copy_tree(ROOT, self.copy)
        minor = numbers(self.version)[1]
        if minor not in setup.SUPPORTED_MINORS:
            with open(self.copy / "setup.py", "a", encoding="utf-8") as file:
                file.write(f"\nSUPPORTED_MINORS = (*SUPPORTED_MINORS, {minor})\n")
        tests = list(self.tests())  # the target makes the environment that the others need
        return list(self.names()) + tests + list(self.conformance()) + list(self.defects()) + list(self.stock())


def page(title: str, findings: Iterable[Finding]) -> str:
    """Return the text of the page. It contains the whole diff, and the first lines of each other list."""
    lines = [title]
    todo = []
    for heading, found in findings:
        lines.append(f"\n{heading}: {len(found)}")
        if not found:
            continue
        todo.append(heading)
        shown = found
        if not found[0].startswith("--- "):
            shown = found[:LINES]
        for line in shown:
            lines.append(f"  {line}")
        if len(shown) < len(found):
            lines.append(f"  and {len(found) - len(shown)} more")
    if todo:
        lines.append(f"\nReview: {'; '.join(todo)}")
    else:
        lines.append("\nNothing is to be done")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("release", metavar="NAME==VERSION", help=f"a release of {', '.join(BASES)}")
    release = parser.parse_args().release
    name, _, version = release.partition("==")
    if name not in BASES or not re.fullmatch(r"1\.\d+\.\d+", version):
        parser.error(f"{release!a} is not a release. Expected NAME==VERSION with a name of {', '.join(BASES)}")
    trial = Trial(name, version, known=setup.BASES[name])
    findings = trial.findings()
    logs = trial.folder.relative_to(ROOT)
    print(page(f"{release}. The newest known release is {trial.known}. Logs: {logs}", findings))
    return int(any(found for _, found in findings))


if __name__ == "__main__":
    sys.exit(main())
