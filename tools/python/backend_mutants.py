# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Make many small changes to the backend, one at a time, and list the changes that no test detects.

    .nox/cpu/bin/python tools/python/backend_mutants.py --sample 200

Negates conditions, swaps comparisons and their bounds, adds one to integers, drops statements. The tables of the
allowlist are left out: a changed table is another policy, and other tests check it. Needs Linux, pytest and coverage in
the environment that runs it, which is copied (by hard links) and changed only there, as is the tree.

The tests that execute the line of a mutant run, the quickest first. The record of coverage.py selects these tests, and
includes their subprocesses. For a line that runs at import, all tests that use its module run. If a mutant survives and
changes nothing, backend_mutants_equivalent.tsv lists it with the reason.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue

from backend_mutations import Mutant, mutants

TREE = Path(__file__).resolve().parents[2]
EQUIVALENT = Path(__file__).with_name("backend_mutants_equivalent.tsv")
BACKEND = TREE / "onnxruntime" / "python" / "backend"
# Data, and __init__.py, which only imports. A folder means all its modules except SUGGESTIONS.
SUGGESTIONS = "refusals/suggestions"
TABLES = (
    "allowlist/attributes",
    "allowlist/cuda",
    "allowlist/nv_tensorrt_rtx",
    "allowlist/openvino",
    "allowlist/optimizers",
    "allowlist/others",
    "allowlist/providers",
    "allowlist/qnn",
    "allowlist/run_config",
    "allowlist/session_config",
    "allowlist/tensorrt",
    "allowlist/webgpu",
    "refusals",
    "capture/operators",
    "provider_names",
)


def modules() -> list[str]:
    """The modules that are not tables, by their paths in the package without ``.py``."""
    paths = [path.relative_to(BACKEND).with_suffix("") for path in BACKEND.rglob("*.py") if path.stem != "__init__"]
    found = [path.as_posix() for path in paths if not any(path.is_relative_to(table) for table in TABLES)]
    return sorted([*found, SUGGESTIONS])


class Workplace:
    """A copy of this environment and this tree, in which anything may be broken."""

    def __init__(self, folder: Path) -> None:
        environment = folder / "environment"
        shutil.copytree(sys.prefix, environment, symlinks=True, copy_function=os.link)
        self.tree = folder / "tree"
        files = subprocess.check_output(["git", "ls-files", "-z"], cwd=TREE, text=True).split("\0")[:-1]
        for name in files:
            if (TREE / name).is_file():
                (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(TREE / name, self.tree / name)
        subprocess.run(["git", "init", "--quiet"], cwd=self.tree, check=True)
        self.python = environment / "bin" / "python"
        (packages,) = environment.glob("lib/python*/site-packages")
        self.backend = packages / "onnxruntime" / "backend"
        # The tree's own, which may be newer than the installed one.
        if self.backend.is_symlink():
            self.backend.unlink()
        else:
            shutil.rmtree(self.backend)
        shutil.copytree(BACKEND, self.backend)
        (packages / "backend_mutants.pth").write_text("import coverage; coverage.process_startup()\n")

    def environ(self, **more: str) -> dict[str, str]:
        """What processes here are started with."""
        for name in ("PYTHONPATH", "COVERAGE_PROCESS_START", "BACKEND_TEST"):
            os.environ.pop(name, None)
        return os.environ | {"ORT_DISABLE_TELEMETRY": "1", "PYTHONDONTWRITEBYTECODE": "1"} | more

    def covered(self, tests: list[str]) -> dict:
        """Run the tests and note which of them execute which lines.

        :return: ``seconds``, test to its duration; ``lines``, module to line to tests.
        """
        settings, report = self.tree / "coverage.ini", self.tree / "covered.json"
        settings.write_text(
            f"[run]\nparallel = true\ndata_file = {self.tree}/.coverage\nsource = {self.backend}\n"
            "context = ${BACKEND_TEST-}\ndisable_warnings = no-data-collected,module-not-measured\n"
        )
        environ = self.environ(COVERAGE_PROCESS_START=str(settings))
        command = [self.python, __file__, "--inside", "cover", str(report), str(self.backend), *tests]
        subprocess.run(command, cwd=self.tree, env=environ, check=True, stdout=sys.stderr)
        return json.loads(report.read_text())

    def worker(self) -> subprocess.Popen:
        """A process that answers each line of JSON with one: see :func:`_work`."""
        return subprocess.Popen(
            [self.python, __file__, "--inside", "work", str(self.backend)],
            cwd=self.tree,
            env=self.environ(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )


def _cover(report: str, backend: str, *tests: str) -> None:
    """Inside a workplace: run the tests, each as its own coverage context."""
    import coverage  # in the environment that is measured only  # noqa: PLC0415
    import pytest  # noqa: PLC0415

    measured = coverage.Coverage.current()
    seconds, failed = {}, set()

    class Watch:
        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_protocol(self, item):
            os.environ["BACKEND_TEST"] = item.nodeid  # for subprocesses
            measured.switch_context(item.nodeid)
            began = time.monotonic()
            try:
                return (yield)
            finally:
                seconds[item.nodeid] = time.monotonic() - began
                measured.switch_context("")

        def pytest_runtest_logreport(self, report):
            if report.failed:
                failed.add(report.nodeid)

    pytest.main(["-q", "-p", "no:cacheprovider", *tests], plugins=[Watch()])
    measured.stop()
    measured.save()
    measured.combine()
    data = measured.get_data()
    lines = {}
    for file in data.measured_files():
        by_line = data.contexts_by_lineno(file)
        lines[Path(file).relative_to(backend).with_suffix("").as_posix()] = {
            line: [test for test in by_line[line] if test not in failed] for line in sorted(by_line)
        }
    for test in failed:
        del seconds[test]
        print(f"left out, because it fails without any mutant: {test}")
    Path(report).write_text(json.dumps({"seconds": seconds, "lines": lines}))


def _work(backend: str) -> None:
    """Inside a workplace: for each mutant read from stdin, run tests in a fork of this process, and print what failed.

    A request holds ``module``, ``source``, ``tests`` and ``limit`` (seconds); an answer ``killed_by``: a test, an
    error of the import, ``"time"``, or nothing.
    """
    for name in ("numpy", "onnx", "onnxruntime", "pytest"):  # all that takes long to import, but the backend itself
        importlib.import_module(name)
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        request = json.loads(line)
        path = Path(backend, f"{request['module']}.py")
        kept = path.read_bytes()
        path.write_text(request["source"])
        with tempfile.TemporaryDirectory() as folder:
            said = Path(folder, "said")
            child = os.fork()
            if not child:
                os.setsid()
                os.environ["TMPDIR"] = tempfile.tempdir = folder
                os._exit(_judge(request, said))
            killed_by = _wait(child, request["limit"]) and "time"
            path.write_bytes(kept)
            if not killed_by and said.exists():
                killed_by = said.read_text()
        print(json.dumps({"killed_by": killed_by}), file=answers, flush=True)


def _judge(request: dict, said: Path) -> int:
    """In a fork: run the tests; the first that fails is written to a file."""
    import pytest  # noqa: PLC0415

    silence = os.open(said.with_name("output"), os.O_CREAT | os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    said.write_text("the process died")

    class Watch:
        def pytest_runtest_logreport(self, report):
            if report.failed:
                said.write_text(report.nodeid)

    code = pytest.main(["-q", "-x", "-p", "no:cacheprovider", *request["tests"]], plugins=[Watch()])
    if code == pytest.ExitCode.OK:
        said.unlink()
    elif code != pytest.ExitCode.TESTS_FAILED:
        said.write_text(f"pytest could not run them ({code.name})")  # such as an error of the import
    sys.stdout.flush()
    return 0


def _wait(child: int, limit: float) -> bool:
    """Wait for a fork and end all of its group. Return whether it took too long."""
    until = time.monotonic() + limit
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > until:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return True
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # its remaining processes
    return False


def _tests_for(mutant: Mutant, covered: dict, end_line: int) -> list[str]:
    """The tests that may notice a mutant, the quickest first."""
    lines = covered["lines"].get(mutant.module, {})
    tests = {test for line in range(mutant.line, end_line + 1) for test in lines.get(str(line), ())}
    if not tests or "" in tests:  # it runs at import, too, which is no test's time
        tests = {test for found in lines.values() for test in found}
    return sorted(tests & covered["seconds"].keys(), key=covered["seconds"].__getitem__)


def _equivalent() -> set[tuple[str, str, str]]:
    lines = EQUIVALENT.read_text().splitlines() if EQUIVALENT.exists() else []
    return {tuple(line.split("\t")[:3]) for line in lines if line and not line.startswith("#")}


def _tried(places: SimpleQueue, requests: list[tuple[Mutant, dict]], jobs: int) -> Iterator[tuple[Mutant, str | None]]:
    """Each mutant with what noticed it, as the answers come."""

    def one(job: tuple[Mutant, dict]) -> tuple[Mutant, str | None]:
        mutant, request = job
        worker = places.get()
        print(json.dumps(request), file=worker.stdin, flush=True)
        answer = json.loads(worker.stdout.readline())
        places.put(worker)
        return mutant, answer["killed_by"]

    with ThreadPoolExecutor(jobs) as pool:
        for done in as_completed([pool.submit(one, job) for job in requests]):
            yield done.result()


def main() -> int:
    """Sample, try, print; 1 where a mutant survived."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sample", type=int, help="how many, chosen at random over all modules; all without it")
    parser.add_argument("--seed", type=int, default=0, help="of the choice (%(default)s)")
    parser.add_argument("--module", action="append", help="only of this module, such as runs/inputs; repeatable")
    parser.add_argument("--match", default="", help="only mutants whose description holds this")
    parser.add_argument("--jobs", type=int, default=2, help="how many at the same time (%(default)s)")
    parser.add_argument(
        "--longest", type=float, default=20, help="leave out tests that take more seconds (%(default)s)"
    )
    parser.add_argument("--list", action="store_true", help="only list them")
    parser.add_argument("--covered", type=Path, help="file that keeps which tests run which lines, until one changes")
    parser.add_argument("--again", type=Path, help="only what survived according to this file of an earlier --json")
    parser.add_argument("--json", type=Path, help="file to write each mutant and what noticed it to")
    parser.add_argument("tests", nargs="*", help="test files, where not all that pytest finds")
    arguments = parser.parse_args()

    sources = {name: (BACKEND / f"{name}.py").read_text() for name in arguments.module or modules()}
    equivalent = _equivalent()
    found = [mutant for name, source in sources.items() for mutant in mutants(name, source)]
    print(f"{len(found)} mutants of {len(sources)} modules")
    for module, place, change in sorted(equivalent - {(one.module, one.place, one.change) for one in found}):
        if module in sources:
            print(f"listed as equivalent, but not found: {module}.py: {change}: {place}")
    found = [
        mutant
        for mutant in found
        if arguments.match in str(mutant) and (mutant.module, mutant.place, mutant.change) not in equivalent
    ]
    if arguments.again:
        survived = {
            (one["module"], one["place"], one["change"])
            for one in json.loads(arguments.again.read_text())
            if not one["killed_by"]
        }
        found = [mutant for mutant in found if (mutant.module, mutant.place, mutant.change) in survived]
    if arguments.sample and arguments.sample < len(found):
        found = sorted(random.Random(arguments.seed).sample(found, arguments.sample))
    if arguments.list:
        print(*found, sep="\n")
        return 0

    with tempfile.TemporaryDirectory(dir=TREE / "build" if (TREE / "build").is_dir() else None) as temporary:
        places = [Workplace(Path(temporary, str(number))) for number in range(arguments.jobs)]
        if arguments.covered and arguments.covered.exists():
            covered = json.loads(arguments.covered.read_text())
        else:
            covered = places[0].covered(arguments.tests)
            if arguments.covered:
                arguments.covered.write_text(json.dumps(covered))
        covered["seconds"] = {test: took for test, took in covered["seconds"].items() if took <= arguments.longest}
        requests = []
        for mutant in found:
            source = sources[mutant.module]
            tests = _tests_for(mutant, covered, source.count("\n", 0, mutant.end) + 1)
            limit = 30 + 4 * sum(covered["seconds"][test] for test in tests)
            requests.append(
                (mutant, {"module": mutant.module, "source": mutant.applied(source), "tests": tests, "limit": limit})
            )
        untested = [mutant for mutant, request in requests if not request["tests"]]
        requests = [job for job in requests if job[1]["tests"]]
        workers = [place.worker() for place in places]
        queue: SimpleQueue = SimpleQueue()
        for worker in workers:
            queue.put(worker)
        results = [(mutant, None) for mutant in untested]
        for mutant, killed_by in _tried(queue, requests, arguments.jobs):
            results.append((mutant, killed_by))
            print(f"{len(results)}/{len(found)} {'survived' if not killed_by else 'killed'} {mutant}", file=sys.stderr)
        for worker in workers:
            worker.stdin.close()
            worker.wait()
    survivors = [mutant for mutant, killed_by in results if not killed_by]
    if arguments.json:
        arguments.json.write_text(
            json.dumps([mutant._asdict() | {"killed_by": killed_by} for mutant, killed_by in results], indent=1)
        )
    print(*(f"survived: {mutant}" for mutant in survivors), sep="\n")
    print(f"killed {len(results) - len(survivors)} of {len(results)} ({1 - len(survivors) / max(1, len(results)):.1%})")
    return int(bool(survivors))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        {"cover": _cover, "work": _work}[sys.argv[2]](*sys.argv[3:])
    else:
        sys.exit(main())
