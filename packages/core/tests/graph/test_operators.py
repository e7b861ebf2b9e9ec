"""Python's operators on symbolic values."""

from __future__ import annotations

import pytest

import headrace as hr
from headrace.graph import operators


def test_an_operator_whose_family_was_not_loaded_says_that_it_is_our_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(operators._overloads, "add")
    with hr.Graph().as_default():
        x = hr.constant(1.0)
        with pytest.raises(hr.errors.InternalError, match="operator 'add' has no user function"):
            x + x
