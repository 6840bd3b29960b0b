# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""What the tasks of noxfile.py use: the variables, the test files, the environments, and functions that run commands.

An environment is a folder ``.nox/NAME`` with a wheel of this tree and the packages that pyproject.toml lists. Its
session creates it, and updates it after an edit of the backend or of the packages.
"""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import nox

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import setup  # noqa: E402

# --- Variables ---


def split(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """Return the words that are settings, such as ``NAME=VALUE``, and the other words."""
    settings = {}
    others = []
    for word in words:
        if re.match(r"[A-Z]\w*=", word):
            name, _, value = word.partition("=")
            settings[name] = value
        else:
            others.append(word)
    return settings, others


arguments = []
if "--" in sys.argv:
    after = sys.argv.index("--") + 1
    variables, arguments = split(sys.argv[after:])
    os.environ.update(variables)
variable = os.environ.get

os.environ["ORT_DISABLE_TELEMETRY"] = "1"
# If PYTHON changes, nox creates the environments again.
os.environ["NOX_ENABLE_STALENESS_CHECK"] = "1"
# Tests start many processes. The first one compiles what it imports, and the others need the result.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

TEST = variable("TEST", shlex.join(arguments))  # for pytest
ENV = variable("ENV", "cpu")
CHECKOUT = shlex.quote(variable("CHECKOUT", "CHECKOUT"))

PROJECT = nox.project.load_toml(ROOT / "pyproject.toml")
GROUPS = PROJECT["dependency-groups"]
ENVIRONMENTS = PROJECT["tool"]["environments"]
LISTED_TESTS = PROJECT["tool"]["tests"]
RELEASES = PROJECT["tool"]["releases"]
CONSTRAINTS = ROOT.joinpath("constraints.txt").read_text(encoding="utf-8")
ONNX = variable("ONNX", " ".join(RELEASES["onnx"])).split()
ONNX_OF_ORT = RELEASES["onnx-of-ort"]

# --- Test files ---

TESTS = "onnxruntime/test/python/backend"
TEST_FILES = []
for tests in (TESTS, "tests"):
    for path in sorted(ROOT.joinpath(tests).rglob("test_*.py")):
        TEST_FILES.append(path.relative_to(ROOT).as_posix())


def ending(endings: list[str]) -> list[str]:
    """Return the test file of each subject, such as ``allowlist/look_up`` or ``look_up``.

    If no file has this subject, return all files whose subjects end with it.
    """
    found = []
    for one in endings:
        folder, separator, subject = one.rpartition("/")
        name = f"/{folder}{separator}test_{subject}.py"
        files = [file for file in TEST_FILES if file.endswith(name)]
        files = files or [file for file in TEST_FILES if file.endswith(f"_{one}.py")]
        if not files:
            raise SystemExit(f"no test file ends with {name} or _{one}.py")
        found += files
    return found


def own_tests(name: str) -> list[str]:
    """Return the test files that pyproject.toml lists for an environment."""
    table = ENVIRONMENTS[name]
    also = table.get("also", [])
    only = table.get("only", [])
    return ending(also) + ending(only)


def all_tests(name: str, without: list[str]) -> list[str]:
    """Return the test files of an environment, in the order in which they begin."""
    own = own_tests(name)
    if ENVIRONMENTS[name].get("alone"):
        return own + ending(["option_drift"])
    first = ending(LISTED_TESTS["longest"])
    found = dict.fromkeys(first + own + TEST_FILES)
    left_out = set()
    for table in ENVIRONMENTS.values():
        left_out.update(ending(table.get("only", [])))
    left_out.difference_update(own)
    left_out.update(ending(without))
    return [file for file in found if file not in left_out]


# --- Environments ---


def folder(name: str) -> Path:
    as_nox = re.sub(r"\W+", "-", name).lower()
    return ROOT / ".nox" / as_nox


def python(name: str) -> str:
    if os.name == "nt":
        return str(folder(name) / "Scripts/python.exe")
    return str(folder(name) / "bin/python")


def site_packages(name: str) -> Path:
    for found in folder(name).glob("lib/python3*/site-packages"):
        return found
    return folder(name) / "Lib/site-packages"


def constraints_for(packages: list[str]) -> str:
    """Return constraints.txt without the packages whose version is specified otherwise."""
    chosen = set()
    for package in packages:
        if "==" in package:
            chosen.add(package.partition("==")[0])
    kept = []
    for line in CONSTRAINTS.splitlines():
        if line.partition("==")[0] not in chosen:
            kept.append(line)
    return "\n".join(kept)


class Environment:
    """A virtual environment with the wheel of this tree, or with the stock wheel."""

    def __init__(self, name: str, base: str, packages: list[str], is_stock: bool) -> None:
        self.base = base
        self.folder = folder(name)
        self.distribution, self.version = setup.requested_base(base)
        self.is_stock = is_stock
        self.packages = GROUPS["test"] + packages
        self.constraints = constraints_for(self.packages)
        self.contents = "\n".join([self.distribution, self.version, *self.packages, self.constraints])
        installed = self.version
        if not is_stock:
            installed = setup.labeled(self.version)
        self.wheel = f"{self.distribution.replace('-', '_')}-{installed}"
        # The file exists if the environment is complete.
        self.made = self.folder / "made"
        self.old = ""
        if self.made.is_file():
            self.old = self.made.read_text(encoding="utf-8")

    def keeps_packages(self) -> bool:
        """Return whether only the wheel differs from what is installed."""
        return self.old.partition("\n")[2] == self.contents

    def create(self, session: nox.Session) -> None:
        new = f"{self.wheel}\n{self.contents}"
        if self.old == new:
            return
        self.made.unlink(missing_ok=True)
        self.install(session)
        session.run("python", "-m", "pip", "check", silent=True)
        info = f"{self.wheel}.dist-info"
        if not site_packages(self.folder.name).joinpath(info).is_dir():
            session.error(f"the installed package is not {self.wheel}")
        self.made.write_text(new, encoding="utf-8")

    def install(self, session: nox.Session) -> None:
        path = self.folder / "constraints.txt"
        path.write_text(self.constraints, encoding="utf-8")
        options = ["--quiet", "--constraint", str(path)]
        wheel = "."
        if self.is_stock:
            wheel = f"{self.distribution}=={self.version}"
        session.install(*options, wheel, *self.packages, env={"ORT_BACKEND_BASE": self.base})
        models = str(self.folder / "models")
        session.install(*options, "--no-deps", "--target", models, *GROUPS["models"])


def add_environment(name: str, base: str, packages: list[str], is_stock: bool = False) -> None:
    """Add the session that creates an environment."""
    environment = Environment(name, base, packages, is_stock)

    def create(session: nox.Session) -> None:
        environment.create(session)

    what = "the stock" if is_stock else "this backend on"
    create.__doc__ = f"create .nox/{environment.folder.name}: {what} {environment.distribution}"
    nox.session(
        create, name=name, python=variable("PYTHON"), reuse_venv=environment.keeps_packages(), allow_parallel=True
    )


for name, table in ENVIRONMENTS.items():
    own_base = f"BASE_{name.replace('-', '_')}"
    table["base"] = variable(own_base, table["base"])
    add_environment(name, table["base"], table.get("packages", []))

CPU = ENVIRONMENTS["cpu"]
add_environment("stock", CPU["base"], ["onnx"], is_stock=True)

for release in dict.fromkeys([*ONNX, ONNX_OF_ORT]):
    chosen = [f"onnx=={release}"]
    add_environment(f"onnx-{release}", CPU["base"], chosen)
    add_environment(f"onnx-{release}-stock", CPU["base"], chosen, is_stock=True)

# Another Python and other packages have an environment of their own.
chosen = variable("WITH", "").split()
interpreter = Path(variable("PYTHON", "python3")).name
OTHER = "-".join([interpreter, *chosen]).replace("==", "-")
add_environment(OTHER, CPU["base"], CPU["packages"] + chosen)

# --- Commands ---


def with_pythons(words: list[str]) -> list[str]:
    """Return the words of a command. ``@NAME`` and ``KEY=@NAME`` become the Python of an environment."""
    found = []
    for word in words:
        before, separator, name = word.rpartition("@")
        if separator and (before == "" or before.endswith("=")):
            found.append(before + python(name))
        else:
            found.append(word)
    return found


def run(session: nox.Session, command: str) -> None:
    """Run the Python of an environment: its name, settings such as ``NAME=VALUE``, and arguments."""
    name, *words = shlex.split(command)
    settings, arguments = split(with_pythons(words))
    program = [python(name)]
    script = ENVIRONMENTS.get(name, {}).get("under")
    if script and sys.platform == "linux":
        program = ["sh", f"{TESTS}/{script}", *program]
    session.log(command[:160])  # nox would show each test file
    session.run(*program, *arguments, env=settings, external=True, log=False)


def overlay(name: str, folder: str) -> str:
    """Make a folder with the installed ORT of an environment, and with this tree in place of its backend."""
    made = ROOT / "build" / folder
    shutil.rmtree(made, ignore_errors=True)
    package = made / "onnxruntime"
    package.mkdir(parents=True)
    for path in site_packages(name).joinpath("onnxruntime").iterdir():
        target = path
        if path.name == "backend":
            target = ROOT / "onnxruntime/python/backend"
        package.joinpath(path.name).symlink_to(target, target.is_dir())
    return shlex.quote(str(made))


def task(*environments: str, name: str = "") -> Callable[[Callable], Callable]:
    """Return a decorator that adds a session, which requires environments. Its name is that of the function."""

    def add(function: Callable) -> Callable:
        of_function = function.__name__.strip("_").replace("_", "-")
        return nox.session(function, name=name or of_function, python=False, requires=list(environments))

    return add
