"""Every package is a distribution of its own, made in the same way."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
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
    """What a package imports is in its own dependencies: it does not live on those of another package."""
    names = {
        "google.protobuf": "protobuf",
        "google_crc32c": "google-crc32c",
        "headrace_checkpoint": "headrace-checkpoint",
    }
    standard = sys.stdlib_module_names
    own = {path.name for path in (folder / "src").iterdir()}
    declared = {re.split(r"[<>=\[ ]", need)[0] for need in project(folder)["project"]["dependencies"]}
    missing = set()
    for path in (folder / "src").rglob("*.py"):
        for node in ast.parse(path.read_text()).body:  # optional dependencies are imported inside functions
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []
            for module in modules:
                root = "google.protobuf" if module.startswith("google.protobuf") else module.split(".")[0]
                if (
                    root not in standard
                    and root not in own
                    and names.get(root, root.replace("headrace_", "headrace-")) not in declared
                ):
                    missing.add(f"{path.name}: {root}")
    assert missing == set()
