"""The exception tree and the four fields of every error."""

from __future__ import annotations

import inspect

import pytest

from headrace import errors
from headrace.errors import HeadraceError, known_names

CLASSES = [item for _, item in inspect.getmembers(errors, inspect.isclass) if issubclass(item, HeadraceError)]


@pytest.mark.parametrize("error", CLASSES)
def test_every_error_is_also_the_nearest_builtin_and_is_drawn_in_the_tree(error: type[HeadraceError]) -> None:
    assert error.__name__ in (errors.__doc__ or "")
    builtin = {base for base in error.__mro__ if base.__module__ == "builtins"} - {Exception, BaseException, object}
    assert builtin or error is HeadraceError


def test_text_has_the_four_fields() -> None:
    error = errors.ShapeError("what", where="here", expected="this", got="that", hint="do it")
    assert str(error).splitlines() == [
        "what",
        "  where:    here",
        "  expected: this",
        "  got:      that",
        "  try:      do it",
    ]


def test_place_is_filled_in_once() -> None:
    error = errors.InternalError("what")
    assert error.at("first") is error
    error.at("second")
    assert error.where == "first"


def test_known_names_lists_close_ones_first_and_counts_the_rest() -> None:
    assert "MatMul" in known_names("Matmul", ["MatMul", "Conv2D"])
    assert known_names("x", []) == "a known name (none is registered)"
    assert "(20 in all)" in known_names("zzz", [f"name{i}" for i in range(20)])
