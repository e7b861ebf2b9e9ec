"""The public names of each package are those recorded in docs/api, so that a change of the API shows in the diff.

`nox -s goldens` records them anew.
"""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

RECORDED = Path(__file__).parent.parent / "docs" / "api"
PACKAGES = ("headrace", "headrace_checkpoint", "headrace_cpu", "headrace_serving", "headrace_viz")


class _Elided:
    """Stands for a default whose text would differ from run to run, or is long."""

    def __repr__(self) -> str:
        return "..."


DOCUMENTED = {"headrace": ("headrace.interfaces", "headrace.testing")}


def signature(value: object) -> str:
    """Return a callable's parameters without their types, or nothing where Python does not know them."""
    try:
        found = inspect.signature(value)  # type: ignore[arg-type]  # what is not callable raises TypeError
    except (TypeError, ValueError):
        return ""
    plain = [
        parameter.replace(annotation=inspect.Parameter.empty)
        if parameter.default is inspect.Parameter.empty or isinstance(parameter.default, (int, float, str, type(None)))
        else parameter.replace(annotation=inspect.Parameter.empty, default=_Elided())
        for parameter in found.parameters.values()
    ]
    return str(inspect.Signature(plain))


def public_names(module: ModuleType, prefix: str) -> Iterator[str]:
    """Yield one line for each public name of a module, with the public members of its classes and modules."""
    for name in sorted(module.__all__):
        value = getattr(module, name)
        if inspect.ismodule(value):
            yield from public_names(value, f"{prefix}.{name}")
        elif inspect.isclass(value) and not issubclass(value, BaseException):
            yield f"{prefix}.{name}{signature(value)}"
            for member, held in sorted(vars(value).items()):
                if not member.startswith("_"):
                    callable_held = held.__func__ if isinstance(held, (classmethod, staticmethod)) else held
                    yield f"{prefix}.{name}.{member}{signature(callable_held) if callable(callable_held) else ''}"
        elif inspect.isroutine(value):
            yield f"{prefix}.{name}{signature(value)}"
        else:
            yield f"{prefix}.{name}"


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_are_the_recorded_ones(package: str) -> None:
    lines = list(public_names(importlib.import_module(package), package))
    for module in DOCUMENTED.get(package, ()):
        lines += public_names(importlib.import_module(module), module)
    text = "\n".join(dict.fromkeys(lines)) + "\n"
    file = RECORDED / f"{package}.txt"
    if os.environ.get("HEADRACE_WRITE_GOLDENS"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert text.splitlines() == file.read_text().splitlines()


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_documented(package: str) -> None:
    module = importlib.import_module(package)
    bare = [
        name
        for name in module.__all__
        if (inspect.isclass(getattr(module, name)) or inspect.isroutine(getattr(module, name)))
        and not inspect.getdoc(getattr(module, name))
    ]
    assert bare == []
