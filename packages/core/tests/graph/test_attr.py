"""Attributes: canonical values, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.graph.attr import FunctionName, attr_key, without_repeats


@pytest.mark.parametrize(
    ("spec", "given", "expected"),
    [
        (hr.attr.int(), np.int64(3), 3),
        (hr.attr.float(), 2, 2.0),
        (hr.attr.float(), 0.2, float(np.float32(0.2))),
        (hr.attr.float(), float("inf"), float("inf")),
        (hr.attr.bool(), np.True_, True),
        (hr.attr.string(), b"text", "text"),
        (hr.attr.string(), b"\xff", b"\xff"),
        (hr.attr.type(), "float32", hr.float32),
        (hr.attr.shape(), [None, 2], hr.Shape([None, 2])),
        (hr.attr.function(), "f", FunctionName("f")),
        (hr.attr.list_of(hr.attr.int()), [1, 2], (1, 2)),
    ],
)
def test_values_become_canonical(spec, given, expected) -> None:
    assert spec.normalize(given, "a") == expected


@pytest.mark.parametrize(
    ("spec", "given"),
    [
        (hr.attr.int(), True), (hr.attr.int(), 1.0), (hr.attr.int(), 2**63), (hr.attr.int(minimum=1), 0),
        (hr.attr.float(), "1"), (hr.attr.float(), 1e39), (hr.attr.bool(), 1), (hr.attr.string(), 3),
        (hr.attr.string(allowed=["SAME"]), "same"),
        (hr.attr.floating, hr.int32), (hr.attr.type(), "no type"), (hr.attr.shape(), [-3]), (hr.attr.tensor(), "text"),
        (hr.attr.function(), 3), (hr.attr.list_of(hr.attr.int()), 3), (hr.attr.list_of(hr.attr.string()), "abc"),
        (hr.attr.list_of(hr.attr.int(), minimum=2), [1]),
    ],
)  # fmt: skip
def test_A28_wrong_values_are_refused_by_name(spec, given) -> None:
    with pytest.raises(hr.errors.AttrError, match="attr 'a' (has a wrong value|is too short)"):
        spec.normalize(given, "a")


def test_default_of_a_float_is_rounded_as_a_value_is_and_shown_short() -> None:
    spec = hr.attr.float(0.2)
    assert spec.default == spec.normalize(0.2, "a")
    assert str(spec) == "float, default 0.2"


def test_tensor_attribute_is_a_private_read_only_array() -> None:
    given = np.ones(3)
    value = hr.attr.tensor().normalize(given, "a")
    given[:] = 5
    assert value.tolist() == [1, 1, 1]
    assert not value.flags.writeable
    view = value[:2]
    assert hr.attr.tensor().normalize(view, "a") is view
    writable_base = np.ones(3)
    read_only_view = writable_base[:]
    read_only_view.flags.writeable = False
    assert hr.attr.tensor().normalize(read_only_view, "a") is not read_only_view


def test_keys_are_equal_exactly_for_equal_bits() -> None:
    assert attr_key(float("nan")) == attr_key(float("nan"))
    assert attr_key(0.0) != attr_key(-0.0)
    assert attr_key(np.zeros(2)) != attr_key(-np.zeros(2))
    assert attr_key(np.zeros(2)) != attr_key(np.zeros((2, 1)))
    large = np.zeros(100_000)
    assert attr_key(large) == attr_key(large) != attr_key(large.copy())
    assert attr_key((1, np.zeros(1))) == attr_key((1, np.zeros(1)))
    assert attr_key(np.array([b"a"], object)) == attr_key(np.array([b"a"], object))


def test_what_takes_memory_of_an_array_is_an_array_whatever_its_rank_and_dtype() -> None:
    words = np.array(b"abc", object)
    assert without_repeats(words).shape == ()
    assert without_repeats(words).item() == b"abc"
    assert without_repeats(np.broadcast_to(np.zeros((5, 1)), (5, 2**40))).shape == (5, 1)
