"""Names of TensorFlow say what they are called here, and only names that are not here do."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import headrace as hr
from headrace.renamed import HERE

GUIDE = Path(__file__).parents[3] / "docs" / "guide.md"


@pytest.mark.parametrize("name", HERE)
def test_a_name_of_tensorflow_says_what_it_is_called_here(name: str) -> None:
    with pytest.raises(AttributeError, match=re.escape(f"'{name}': what TensorFlow calls so is here {HERE[name]}")):
        getattr(hr, name)


@pytest.mark.parametrize(
    "target", sorted({found for text in HERE.values() for found in re.findall(r"hr\.(\w+)", text)})
)
def test_what_is_named_is_there(target: str) -> None:
    assert hasattr(hr, target)


def test_other_names_are_missing_as_in_any_module() -> None:
    with pytest.raises(AttributeError, match=r"^module 'headrace' has no attribute 'nothing_like_it'$") as raised:
        hr.nothing_like_it  # type: ignore[attr-defined]  # noqa: B018
    assert (raised.value.name, raised.value.obj) == ("nothing_like_it", hr)
    assert not hasattr(hr, "reduce_mean")
    assert importlib.import_module("headrace.session").Session is hr.Session


@pytest.mark.skipif(not GUIDE.exists(), reason="the package alone")
def test_the_guide_names_nothing_else() -> None:
    table = GUIDE.read_text().split("## Coming from TensorFlow")[1].split("## ")[0]
    named = {
        name
        for row in table.splitlines()
        if row.startswith("| `tf.")
        for name in re.findall(r"`tf\.(\w+)", row.split("|")[1])
    }
    assert {name for name in named if not hasattr(hr, name)} <= set(HERE)
