# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Make many small changes to the backend, one at a time, and list the changes that no test detects.

    .nox/cpu/bin/python tools/python/backend_mutants.py --sample 200

Negates conditions, swaps comparisons and their bounds, adds one to integers, drops statements. The tables of the
allowlist are left out: a changed table is another policy, and other tests check it. Needs Linux, pytest and coverage in
the environment that runs it. Copies (by hard links) of this environment and of the tree are changed.

The record of coverage.py, which includes subprocesses, selects the tests that execute the line of a mutant. For a line
that runs at import, all tests that use its module run. Quick tests that run little except the module run first, in
groups that grow, until one fails. If a mutant survives and changes nothing, backend_mutants_equivalent.tsv lists it
with the reason. Two kinds of survivors are none: tests on CUDA or WebGPU detect most mutants of ``capture/graphs``, and
the record contains only the first caller of a cached function.
"""

import argparse
import collections
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from backend_mutations import Mutant, mutants

TREE = Path(__file__).resolve().parents[2]
EQUIVALENT = Path(__file__).with_name("backend_mutants_equivalent.tsv")
INSIDE = Path(__file__).with_name("backend_mutants_inside.py")
BACKEND = TREE / "onnxruntime" / "python" / "backend"
# Data, and __init__.py, which only imports. A folder means all its modules.
TABLES = (
    "allowlist/attributes",
    "allowlist/common_options",
    "allowlist/cuda",
    "allowlist/nv_tensorrt_rtx",
    "allowlist/openvino",
    "allowlist/others",
    "allowlist/qnn",
    "allowlist/run_config",
    "allowlist/session_config",
    "allowlist/tables",
    "allowlist/tensorrt",
    "allowlist/webgpu",
    "capture/operators",
    "provider_names",
)
FIRST_GROUP = 10  # tests. Each next group is four times as large


def modules() -> list[str]:
    """Return the modules that are not tables, by their paths in the package without ``.py``."""
    found = []
    for path in BACKEND.rglob("*.py"):
        module = path.relative_to(BACKEND).with_suffix("")
        is_table = any(module.is_relative_to(table) for table in TABLES)
        if path.stem != "__init__" and not is_table:
            found.append(module.as_posix())
    return sorted(found)


class Workplace:
    """A copy of this environment and of this tree, in which anything can be broken."""

    def __init__(self, folder: Path) -> None:
        environment = folder / "environment"
        shutil.copytree(sys.prefix, environment, symlinks=True, copy_function=os.link)
        self.tree = folder / "tree"
        listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=TREE, text=True)
        for name in listed.split("\0"):
            if (TREE / name).is_file():
                (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(TREE / name, self.tree / name)
        subprocess.run(["git", "init", "--quiet"], cwd=self.tree, check=True)
        self.python = environment / "bin" / "python"
        (packages,) = environment.glob("lib/python*/site-packages")
        self.backend = packages / "onnxruntime" / "backend"
        # The tree's own, which may be newer than the installed one.
        shutil.rmtree(self.backend)
        shutil.copytree(BACKEND, self.backend)
        (packages / "backend_mutants.pth").write_text("import coverage; coverage.process_startup()\n")

    def start(
        self, *arguments: str, coverage_settings: str = "", stdin: int = subprocess.DEVNULL, stdout: object = sys.stderr
    ) -> subprocess.Popen:
        """Start ``backend_mutants_inside.py``."""
        environ = os.environ | {"ORT_DISABLE_TELEMETRY": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        for name in ("PYTHONPATH", "COVERAGE_PROCESS_START", "BACKEND_TEST"):
            environ.pop(name, None)
        if coverage_settings:
            environ["COVERAGE_PROCESS_START"] = coverage_settings
        return subprocess.Popen(
            [self.python, INSIDE, *arguments], cwd=self.tree, env=environ, stdin=stdin, stdout=stdout, text=True
        )

    def cover(self, tests: list[str]) -> subprocess.Popen:
        """Start the tests, and record which of them execute which lines."""
        settings = self.tree / "coverage.ini"
        settings.write_text(
            f"[run]\nparallel = true\ndata_file = {self.tree}/.coverage\nsource = {self.backend}\n"
            "context = ${BACKEND_TEST-}\ndisable_warnings = no-data-collected,module-not-measured\n"
        )
        return self.start("cover", str(self.report), str(self.backend), *tests, coverage_settings=str(settings))

    @property
    def report(self) -> Path:
        return self.tree / "covered.json"

    def worker(self) -> subprocess.Popen:
        """Start a process that answers each line of JSON with one."""
        return self.start("work", str(self.backend), stdin=subprocess.PIPE, stdout=subprocess.PIPE)


class Covered(NamedTuple):
    """The duration of each test in seconds, and the tests of each line of each module."""

    seconds: dict[str, float]
    lines: dict[str, dict[str, list[str]]]

    def tests_for(self, mutant: Mutant, last_line: int) -> list[str]:
        """Return the tests that can detect a mutant, in the order in which they run."""
        lines = self.lines.get(mutant.module, {})
        uses = collections.Counter()  # of the module's lines by each test
        for tests in lines.values():
            uses.update(tests)
        found = set()
        for line in range(mutant.line, last_line + 1):
            found.update(lines.get(str(line), ()))
        if not found or "" in found:  # it runs at import, too, which is no test's time
            found = set(uses)
        found.intersection_update(self.seconds)

        def cost(test: str) -> float:
            return (0.1 + self.seconds[test]) / uses[test]

        return sorted(found, key=cost)

    def groups(self, tests: list[str]) -> list[tuple[float, list[str]]]:
        """Return the tests in groups, each with a limit in seconds."""
        found = []
        size = FIRST_GROUP
        while tests:
            group, tests = tests[:size], tests[size:]
            usual = sum(self.seconds[test] for test in group)
            found.append((60 + 5 * usual, group))
            size *= 4
        return found


def cover(places: list[Workplace], tests: list[str]) -> Covered:
    """Run the test files in all workplaces, and return what each test executes."""
    places = places[: len(tests)]
    running = []
    for number, place in enumerate(places):
        running.append(place.cover(tests[number :: len(places)]))
    for process in running:
        if process.wait():
            raise SystemExit("the tests could not be run")
    found = Covered({}, {})
    for place in places:
        report = json.loads(place.report.read_text())
        found.seconds.update(report["seconds"])
        for module, lines in report["lines"].items():
            of_module = found.lines.setdefault(module, {})
            for line, of_line in lines.items():
                of_module.setdefault(line, []).extend(of_line)
    return found


def equivalent() -> set[tuple[str, str, str]]:
    """Return module, place and change of the mutants that change nothing."""
    found = set()
    for line in EQUIVALENT.read_text().splitlines():
        if not line.startswith("#"):
            module, place, change, _ = line.split("\t")
            found.add((module, place, change))
    return found


def survivors_of(report: Path) -> set[tuple[str, str, str]]:
    found = set()
    for one in json.loads(report.read_text()):
        if not one["killed_by"]:
            found.add((one["module"], one["place"], one["change"]))
    return found


def key(mutant: Mutant) -> tuple[str, str, str]:
    return mutant.module, mutant.place, mutant.change


def chosen(found: list[Mutant], arguments: argparse.Namespace) -> list[Mutant]:
    """Return the mutants that the arguments select."""
    kept = []
    without = equivalent()
    for mutant in found:
        if key(mutant) not in without and arguments.match in str(mutant):
            kept.append(mutant)
    if arguments.again:
        survived = survivors_of(arguments.again)
        kept = [mutant for mutant in kept if key(mutant) in survived]
    if arguments.sample and arguments.sample < len(kept):
        kept = sorted(random.Random(arguments.seed).sample(kept, arguments.sample))
    return kept


def tried(requests: list[tuple[Mutant, dict]], places: list[Workplace]) -> Iterator[tuple[Mutant, str]]:
    """Yield each mutant with the test that detected it, as the answers come."""
    workers = [place.worker() for place in places]
    idle: SimpleQueue = SimpleQueue()
    for worker in workers:
        idle.put(worker)

    def one(mutant: Mutant, request: dict) -> tuple[Mutant, str]:
        worker = idle.get()
        print(json.dumps(request), file=worker.stdin, flush=True)
        answer = json.loads(worker.stdout.readline())
        idle.put(worker)
        return mutant, answer["killed_by"]

    with ThreadPoolExecutor(len(workers)) as pool:
        for done in as_completed([pool.submit(one, *request) for request in requests]):
            yield done.result()
    for worker in workers:
        worker.stdin.close()
        worker.wait()


def all_tests() -> list[str]:
    found = []
    for path in sorted(TREE.glob("onnxruntime/test/python/backend/**/test_*.py")):
        found.append(path.relative_to(TREE).as_posix())
    return found


def parsed_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--sample", type=int, help="how many, chosen at random over all modules; all without it")
    add("--seed", type=int, default=0, help="of the choice (%(default)s)")
    add("--module", action="append", help="only of this module, such as runs/inputs; repeatable")
    add("--match", default="", help="only mutants whose description contains this")
    add("--jobs", type=int, default=2, help="how many at the same time (%(default)s)")
    add("--longest", type=float, default=60, help="leave out tests that take more seconds (%(default)s)")
    add("--list", action="store_true", help="only list them")
    add("--covered", type=Path, help="file that keeps which tests run which lines, until one changes")
    add("--again", type=Path, help="only what survived according to this file of an earlier --json")
    add("--json", type=Path, help="file to write each mutant and the test that detected it to")
    add("tests", nargs="*", default=all_tests(), help="test files (default: those of the backend)")
    return parser.parse_args()


def try_all(
    found: list[Mutant], sources: dict[str, str], arguments: argparse.Namespace, folder: Path
) -> list[tuple[Mutant, str]]:
    """Return each mutant with the test that detected it, or ``""``."""
    places = [Workplace(folder / str(number)) for number in range(arguments.jobs)]
    if arguments.covered and arguments.covered.exists():
        covered = Covered(**json.loads(arguments.covered.read_text()))
    else:
        covered = cover(places, arguments.tests)
        if arguments.covered:
            arguments.covered.write_text(json.dumps(covered._asdict()))
    for test, took in list(covered.seconds.items()):
        if took > arguments.longest:
            del covered.seconds[test]

    results = []
    requests = []
    for mutant in found:
        source = sources[mutant.module]
        last_line = source.count("\n", 0, mutant.end) + 1
        tests = covered.tests_for(mutant, last_line)
        if tests:
            request = {"module": mutant.module, "source": mutant.applied(source), "groups": covered.groups(tests)}
            requests.append((mutant, request))
        else:
            results.append((mutant, ""))
    for mutant, killed_by in tried(requests, places):
        results.append((mutant, killed_by))
        outcome = "killed" if killed_by else "survived"
        print(f"{len(results)}/{len(found)} {outcome} {mutant}", file=sys.stderr)
    return results


def main() -> int:
    """Sample, try, print; return 1 if a mutant survived."""
    arguments = parsed_arguments()
    sources = {}
    found = []
    for name in arguments.module or modules():
        sources[name] = (BACKEND / f"{name}.py").read_text()
        found += mutants(name, sources[name])
    print(f"{len(found)} mutants of {len(sources)} modules")
    for module, place, change in sorted(equivalent() - set(map(key, found))):
        if module in sources or not (BACKEND / f"{module}.py").exists():
            print(f"listed as equivalent, but not found: {module}.py: {change}: {place}")
    found = chosen(found, arguments)
    if arguments.list:
        print(*found, sep="\n")
        return 0

    build = TREE / "build"
    with tempfile.TemporaryDirectory(dir=build if build.is_dir() else None) as folder:
        results = try_all(found, sources, arguments, Path(folder))
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        report = [mutant._asdict() | {"killed_by": killed_by} for mutant, killed_by in results]
        arguments.json.write_text(json.dumps(report, indent=1))
    survivors = [mutant for mutant, killed_by in results if not killed_by]
    for mutant in survivors:
        print(f"survived: {mutant}")
    share = 1 - len(survivors) / max(1, len(results))
    print(f"killed {len(results) - len(survivors)} of {len(results)} ({share:.1%})")
    return int(bool(survivors))


if __name__ == "__main__":
    sys.exit(main())
