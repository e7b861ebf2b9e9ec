"""Every package is a distribution of its own, made in the same way."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = sorted(path.parent for path in ROOT.glob("packages/*/pyproject.toml"))
NAMES = [folder.name for folder in FOLDERS]


def project(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text())


def test_the_table_of_sessions_and_the_readme_name_every_package() -> None:
    calls = [node for node in ast.walk(ast.parse((ROOT / "noxfile.py").read_text())) if isinstance(node, ast.Call)]
    table = [ast.literal_eval(call.args[0]) for call in calls if ast.unparse(call.func) == "Package"]
    assert sorted(table) == NAMES
    rows = re.findall(r"^\| \[(\w[\w-]*)\]\(packages/", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert sorted(rows) == NAMES


@pytest.mark.parametrize("folder", FOLDERS, ids=NAMES)
def test_package_has_its_own_version_licence_and_documents(folder: Path) -> None:
    settings = project(folder)
    assert settings["build-system"]["build-backend"] == "hatchling.build"
    assert settings["project"]["license"] == "Apache-2.0"
    assert settings["project"]["requires-python"] == ">=3.11"
    assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert f"# {settings['project']['name']}\n" in (folder / "README.md").read_text()
    assert f"## {settings['project']['version']} " in (folder / "CHANGELOG.md").read_text()
    (module,) = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert (folder / module / "py.typed").exists()
    assert (folder / "tests").is_dir()


@pytest.mark.parametrize("folder", FOLDERS, ids=NAMES)
def test_packages_of_ours_are_needed_within_one_major_version(folder: Path) -> None:
    ours = [need for need in project(folder)["project"]["dependencies"] if need.startswith("headrace")]
    assert all(need.endswith(">=0.1,<1") for need in ours)
    assert bool(ours) is (folder.name != "core")


@pytest.mark.parametrize("folder", FOLDERS, ids=NAMES)
def test_every_dependency_has_a_lowest_version(folder: Path) -> None:
    assert [need for need in project(folder)["project"]["dependencies"] if ">=" not in need] == []


@pytest.mark.parametrize("folder", FOLDERS, ids=NAMES)
def test_imports_are_declared(folder: Path) -> None:
    """What a package imports is in its own dependencies: it does not live on those of another package.

    What is imported inside functions may be missing; so may what a module needs that is itself imported so, if an extra
    names it.
    """
    imports = {path: _imports_at_the_top(path) for path in (folder / "src").rglob("*.py")}
    settings = project(folder)["project"]
    needed = _names(settings["dependencies"])
    extras = _names(need for extra in settings.get("optional-dependencies", {}).values() for need in extra)
    always = {module.rpartition(".")[2] for modules in imports.values() for module in modules} | {"__init__"}
    own = {path.name for path in (folder / "src").iterdir()}
    missing = {
        f"{path.name}: {module}"
        for path, modules in imports.items()
        for module in modules
        if module.split(".")[0] not in (*sys.stdlib_module_names, *own)
        and _distribution(module) not in (needed if path.stem in always else needed | extras)
    }
    assert missing == set()


def _names(needs: Iterable[str]) -> set[str]:
    return {re.split(r"[<>=\[ ]", need)[0] for need in needs}


def _imports_at_the_top(path: Path) -> list[str]:
    modules: list[str] = []
    for node in ast.parse(path.read_text()).body:
        modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        modules += [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []
    return modules


def _distribution(module: str) -> str:
    """The distribution that brings a module."""
    root = "google.protobuf" if module.startswith("google.protobuf") else module.split(".")[0]
    named = {"google.protobuf": "protobuf", "google_crc32c": "google-crc32c", "grpc": "grpcio"}
    return named.get(root, root.replace("headrace_", "headrace-"))


ELSEWHERE = """
import importlib, os, pkgutil, sys

missing = ["fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"]
sys.modules.update(dict.fromkeys(missing))
for name in ("fork", "forkpty", "getuid", "posix_fadvise", "register_at_fork", "sched_getaffinity", "sysconf"):
    if hasattr(os, name):
        delattr(os, name)
package = importlib.import_module(sys.argv[1])
for module in pkgutil.walk_packages(package.__path__, f"{sys.argv[1]}."):
    try:
        importlib.import_module(module.name)
    except ImportError as error:  # of what an extra brings
        if error.name in missing:
            raise
print("imported")
"""


@pytest.mark.parametrize("folder", FOLDERS, ids=NAMES)
def test_modules_are_imported_where_the_system_is_not_posix(folder: Path) -> None:
    (source,) = (path.parent for path in folder.glob("src/*/__init__.py"))
    found = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, source.name], capture_output=True, text=True, check=False, timeout=60
    )
    assert found.stdout == "imported\n", found.stderr
