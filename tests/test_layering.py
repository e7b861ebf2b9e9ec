"""Imports go one way: from a stage of core to earlier stages, and from every other package to core's public names.

The rules are about names, so they are checked on the parsed source, imports inside functions included. Only imports for
the type checker (`if TYPE_CHECKING:`) are free: they make no arrow when the program runs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import headrace

PACKAGES = Path(__file__).parent.parent / "packages"
STAGES: tuple[tuple[str, ...], ...] = (
    ("types", "errors", "renamed"),
    ("interfaces",),
    ("config",),
    ("graph",),
    ("ops",),
    ("kernels",),
    ("grad", "passes"),
    ("placement",),
    ("loops",),
    ("plan",),
    ("runtime",),
    ("signature", "variable", "partitioned_variable", "session", "function", "inference", "namespace"),
    ("coordination",),
    ("training", "layers", "data", "testing", "cli"),
)
LEVEL = {stage: level for level, stages in enumerate(STAGES) for stage in stages}
ROOMS: tuple[tuple[str, ...], ...] = (
    ("llvm", "prepared"),
    ("loops", "onednn"),
    ("primitives",),
    ("scheduling",),
    ("layout",),
    ("nesting",),
    ("needs", "driver"),
    ("step",),
    ("plan",),
    ("backend",),
)
"""The rooms of the native backend, in the order in which a segment becomes a step."""
USER_LEVEL = ("training", "layers", "data")
# What code outside core, and core's own user-level library, may import besides `headrace` itself.
PUBLIC = (
    "headrace.types",
    "headrace.errors",
    "headrace.interfaces",
    "headrace.testing",
    "headrace.graph.proto",
    "headrace.passes",
    "headrace.placement",
    "headrace.plan",
    *(
        f"headrace.loops.{part}"
        for part in (
            "fusion",
            "interpreter",
            "ir",
            "lowering",
            "patterns",
            "printer",
            "recompute",
            "registry",
            "value",
            "verifier",
        )
    ),
)
SIBLINGS = {
    "headrace_checkpoint": (),
    "headrace_cpu": (),
    "headrace_serving": ("headrace_checkpoint",),
    "headrace_viz": (),
}


def imports(path: Path, module: str) -> Iterator[tuple[int, str, list[str]]]:
    """Yield (line, imported module, imported names) of each import in a file that runs."""
    tree = ast.parse(path.read_text())
    typing_only = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if node in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, []) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = module.split(".")[: -node.level] if node.level else []
            yield node.lineno, ".".join([*parents, *filter(None, [node.module])]), [alias.name for alias in node.names]


def stage_of(module: str, names: list[str]) -> list[str]:
    """Return the stages of core that an import reaches."""
    parts = module.split(".")
    return [parts[1]] if len(parts) > 1 else [name for name in names if name in LEVEL]


def core_fault(module: str, target: str, names: list[str]) -> str | None:
    """Return what is wrong with an import inside core, or None."""
    here = module.split(".")[1]
    if target.split(".")[0] != "headrace":
        return "core imports no other package" if target.startswith("headrace_") else None
    if target == "headrace" and LEVEL[here] < LEVEL["cli"] and not (names and set(names) <= LEVEL.keys()):
        return f"{here} is a part of what it imports"
    for there in stage_of(target, names):
        if there == here:
            continue
        if there not in LEVEL or here not in LEVEL:
            return "no stage of core"
        if here in USER_LEVEL and there not in USER_LEVEL:
            return None if target in (*PUBLIC, "headrace") else f"{here} uses public names only"
        if LEVEL[there] > LEVEL[here] or {here, there} == {"grad", "passes"}:
            return f"{here} comes before {there}" if LEVEL[there] > LEVEL[here] else f"{here} and {there} are apart"
    return None


def room_fault(module: str, target: str, names: list[str]) -> str | None:
    """Return what is wrong with an import inside the native backend, or None."""
    if target.split(".")[0] != "headrace_cpu" or module == "headrace_cpu.__init__":
        return None
    level = {room: level for level, rooms in enumerate(ROOMS) for room in rooms}
    here, *there = module.split(".")[1], *(target.split(".")[1:2] or names)
    wrong = [room for room in there if room != here and level.get(room, -1) >= level[here]]
    if any(room not in level for room in there):
        return "no room of the backend"
    return f"{here} does not come after {wrong[0]}" if wrong else None


def sibling_fault(package: str, target: str) -> str | None:
    """Return what is wrong with an import in another package, or None."""
    root = target.split(".")[0]
    if root == "headrace":
        return None if target in ("headrace", *PUBLIC) or target.startswith("headrace.graph.proto.") else "not public"
    if root.startswith("headrace_") and root != package:
        return None if target in SIBLINGS[package] else f"{package} may not import {root}"
    return None


def faults(source: Path) -> list[str]:
    """Return every import under a src folder that breaks a rule."""
    found = []
    for path in sorted(source.rglob("*.py")):
        module = ".".join(path.relative_to(source).with_suffix("").parts)
        package = module.split(".")[0]
        if path.name.endswith("_pb2.py") or (package == "headrace" and module.count(".") == 1 and "__" in module):
            continue  # generated code, and headrace/__init__.py, which re-exports every stage
        for line, target, names in imports(path, module):
            fault = core_fault(module, target, names) if package == "headrace" else sibling_fault(package, target)
            fault = fault or room_fault(module, target, names) if package == "headrace_cpu" else fault
            crossing = target.startswith("headrace") and target.split(".")[0] != package
            if fault is None and crossing and any(name.startswith("_") for name in names):
                fault = "a name with an underscore belongs to its own package"
            if fault is not None:
                found.append(f"{path.relative_to(source.parent.parent)}:{line}: {module} imports {target}: {fault}")
    return found


def listed_names(path: Path) -> list[str] | None:
    """Return the names in a module's `__all__`, or None if it has none."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name) and target.id == "__all__" and isinstance(node.value, ast.List):
                return [str(ast.literal_eval(item)) for item in node.value.elts]
    return None


def unlisted(source: Path, shown: frozenset[str]) -> list[str]:
    """Return every name that one module under a src folder takes from another that does not list it.

    Modules that users see as they are (`shown`, such as hr.fft) list only what is for users.
    """
    files = {".".join(path.relative_to(source).with_suffix("").parts): path for path in sorted(source.rglob("*.py"))}
    lists = {module: listed_names(path) for module, path in files.items() if not path.stem.endswith("_pb2")}
    found = []
    for module, path in files.items():
        for line, target, names in imports(path, module):
            if lists.get(target) is None or target in shown:
                continue
            absent = sorted(set(names) - set(lists[target] or ()))
            if absent:
                found.append(f"{path.relative_to(source)}:{line}: {target} does not list {', '.join(absent)}")
    return found


@pytest.mark.parametrize("package", ["core", "checkpoint"])
def test_a_module_lists_what_others_take_from_it(package: str) -> None:
    shown = frozenset(value.__name__ for value in vars(headrace).values() if isinstance(value, ModuleType))
    assert unlisted(PACKAGES / package / "src", shown) == []


def test_a_name_that_is_not_listed_is_found(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text('__all__ = ["f"]\n')
    (tmp_path / "two.py").write_text("from one import f, g\n")
    assert unlisted(tmp_path, frozenset()) == ["two.py:1: one does not list g"]
    assert unlisted(tmp_path, frozenset({"one"})) == []


@pytest.mark.parametrize("package", sorted(path.parent.name for path in PACKAGES.glob("*/pyproject.toml")))
def test_imports_go_one_way(package: str) -> None:
    assert faults(PACKAGES / package / "src") == []


def test_every_stage_of_core_has_its_place() -> None:
    folder = PACKAGES / "core" / "src" / "headrace"
    stages = {path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert stages - {"__init__", "__main__"} <= LEVEL.keys()


@pytest.mark.parametrize(
    ("path", "line", "fault"),
    [
        ("headrace/graph/scopes.py", "from headrace.session import Session", "graph comes before session"),
        ("headrace/graph/scopes.py", "def f():\n  from ..ops import math", "graph comes before ops"),
        ("headrace/ops/math.py", "from headrace import kernels", "ops comes before kernels"),
        ("headrace/ops/math.py", "import headrace as hr", "ops is a part of what it imports"),
        ("headrace/grad/math.py", "from headrace.passes import cse", "grad and passes are apart"),
        ("headrace/training/adam.py", "from headrace.graph import Graph", "training uses public names only"),
        ("headrace/cli.py", "import headrace_serving", "core imports no other package"),
        ("headrace_cpu/loops/printer.py", "from headrace_cpu.layout import Unit", "loops does not come after layout"),
        ("headrace_cpu/loops/printer.py", "from headrace_cpu import plan", "loops does not come after plan"),
        ("headrace_cpu/loops/printer.py", "from headrace_cpu.other import x", "no room of the backend"),
        ("headrace_viz/writer.py", "from headrace.graph.graph import Graph", "not public"),
        ("headrace_viz/writer.py", "import headrace_checkpoint", "headrace_viz may not import headrace_checkpoint"),
        ("headrace_serving/server.py", "from headrace_checkpoint import _files", "a name with an underscore"),
    ],
)
def test_an_arrow_the_wrong_way_is_found(tmp_path: Path, path: str, line: str, fault: str) -> None:
    file = tmp_path / "package" / "src" / path
    file.parent.mkdir(parents=True)
    file.write_text(f"import numpy\n{line}\n")
    (message,) = faults(tmp_path / "package" / "src")
    assert fault in message
