"""Find every place of a package that raises, which of its fields are filled, and whether a test has been there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FIELDS = ("expected", "got", "hint")  # the first field is the text itself, and the place may be added on the way up


@dataclass(frozen=True, slots=True)
class Site:
    """One raise statement that makes an error of ours.

    Attributes:
      file: path of the module.
      first: first line of the statement.
      last: its last line.
      missing: fields that it leaves empty.
    """

    file: Path
    first: int
    last: int
    missing: tuple[str, ...]


def made_error(node: ast.Raise, errors: frozenset[str]) -> ast.Call | None:
    """Return the call that makes one of our errors in a raise statement, through `.at(...)` too."""
    made = node.exc
    while isinstance(made, ast.Call):
        name = made.func.attr if isinstance(made.func, ast.Attribute) else getattr(made.func, "id", "")
        if name in errors:
            return made
        made = made.func.value if isinstance(made.func, ast.Attribute) else None
    return None


def sites(source: Path, errors: frozenset[str]) -> Iterator[Site]:
    """Yield the raise statements of every module under a folder that make one of the named errors."""
    for file in sorted(source.rglob("*.py")):
        if file.name.endswith("_pb2.py"):
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Raise) and (call := made_error(node, errors)) is not None:
                given = {keyword.arg for keyword in call.keywords}
                missing = () if None in given else tuple(field for field in FIELDS if field not in given)
                yield Site(file, node.lineno, node.end_lineno or node.lineno, missing)


def unmatched(tests: Path) -> list[str]:
    """Return the `pytest.raises` of a folder that neither match the message nor keep the error to look at."""
    found = []
    for file in sorted(tests.rglob("test_*.py")):
        tree = ast.parse(file.read_text())
        kept = {
            id(node.context_expr) for node in ast.walk(tree) if isinstance(node, ast.withitem) and node.optional_vars
        }
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or ast.unparse(node.func) != "pytest.raises":
                continue
            if id(node) not in kept and not any(keyword.arg == "match" for keyword in node.keywords):
                found.append(f"{file.name}:{node.lineno}")
    return found
