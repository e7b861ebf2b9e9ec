"""Elements of queues: copied from the memory of a step, checked, stacked and padded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.kernels.element_type import ElementType

PAIR = ElementType((hr.float32, hr.string), (hr.Shape([2]), hr.Shape([])))


def test_an_element_does_not_share_memory_with_the_step() -> None:
    value = np.ones(2, np.float32)
    element = PAIR.element([value, np.array(b"a", object)])
    batch = PAIR.elements([value[None], np.array([b"a"], object)])
    value[:] = 5
    assert element[0].tolist() == batch[0][0].tolist() == [1, 1]
    assert batch[0][0].base is None  # a view would keep the whole batch alive


def test_a_batch_of_slices_is_the_batch() -> None:
    columns = [np.arange(6, dtype=np.float32).reshape(3, 2), np.array([b"a", b"", b"c"], object)]
    elements = PAIR.elements(columns)
    assert [element[1][()] for element in elements] == [b"a", b"", b"c"]
    for given_column, column in zip(columns, PAIR.batch(elements), strict=True):
        assert column.dtype == given_column.dtype
        assert column.tolist() == given_column.tolist()
    assert [column.shape for column in PAIR.batch([])] == [(0, 2), (0,)]


@pytest.mark.parametrize("dtype", [hr.bfloat16, hr.float16, hr.bool, hr.int64, hr.complex64, hr.uint8])
def test_every_dtype_keeps_its_bits(dtype) -> None:
    kind = ElementType((dtype,), (hr.Shape([]),))
    column = np.array([0, 1, 1, 0]).astype(dtype.array_type)
    (result,) = kind.batch(kind.elements([column]))
    assert result.dtype == column.dtype
    assert result.tobytes() == column.tobytes()


def test_handles_and_lists_are_passed_on_as_they_are() -> None:
    kind = ElementType((hr.variant,))
    first, second = object(), object()
    assert kind.element([first]) == (first,)
    batch = np.empty(2, object)
    batch[:] = [first, second]
    assert kind.elements([batch]) == [(first,), (second,)]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=5))
def test_elements_are_padded_to_the_largest(sizes) -> None:
    kind = ElementType((hr.int32, hr.string), (hr.Shape([None, 2, None]), hr.Shape([None])), padded=True)
    elements = [kind.element([np.ones((a, 2, b), np.int32), np.array([b"x"] * a, object)]) for a, b in sizes]
    numbers, words = kind.batch(elements)
    assert numbers.shape == (
        len(sizes),
        max((a for a, _ in sizes), default=0),
        2,
        max((b for _, b in sizes), default=0),
    )
    for position, (a, b) in enumerate(sizes):
        assert numbers[position].sum() == 2 * a * b == numbers[position, :a, :, :b].sum()
        assert words[position].tolist() == [b"x"] * a + [b""] * (words.shape[1] - a)


def test_elements_that_do_not_fit_are_refused() -> None:
    with pytest.raises(hr.errors.ShapeError, match=r"component 0 does not fit(.|\n)*\[2\](.|\n)*\[3\]"):
        PAIR.element([np.ones(3, np.float32), np.array(b"", object)])
    with pytest.raises(hr.errors.ShapeError, match=r"component 1 does not fit(.|\n)*\[2\](.|\n)*\[1\]"):
        PAIR.elements([np.ones((2, 2), np.float32), np.array([b""], object)])
    with pytest.raises(hr.errors.ShapeError, match="component 0 does not fit"):
        ElementType((hr.int32,)).elements([np.array(3, np.int32)])
    with pytest.raises(hr.errors.DTypeError, match=r"components of queue 'q' have other dtypes"):
        PAIR.check_dtypes([hr.float32], "queue 'q'")
    with pytest.raises(hr.errors.InvalidArgumentError, match=r"queue 'q' cannot give several(.|\n)*int32<unknown>"):
        ElementType((hr.int32,)).check_batches("queue 'q'")
