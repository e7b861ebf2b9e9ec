"""Cases of operations on lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase

Apply = Callable[..., Any]

_ROWS = np.array([[1.5, -2.0], [4.0, 5.0], [0.5, 3.0]], np.float32)
_ROW = np.array([7.0, -1.0], np.float32)
_CUBE = np.arange(12, dtype=np.float64).reshape(3, 2, 2) - 5
_WORDS = np.array([b"", b"\x00\xff", b"a\x00"], object)
_ANY = np.int32(-1)
_NO_SIZES = np.zeros(0, np.int64)
_BEYOND = r"an index is beyond the list"


def _i32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def _i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def _case(
    what: str, op: str, build: Callable[..., Any], inputs: list[Any], expected: Any = None, **more: Any
) -> OpCase:
    return OpCase(f"{op}/{what}", op, inputs, expected=expected, build=build, **more)


def _list(apply: Apply, rows: Any, shape: Any = _ANY) -> Any:
    return apply("TensorListFromTensor", rows, shape)


def _empty(apply: Apply, dtype: Any, shape: Any = _ANY, most: int = -1) -> Any:
    return apply("EmptyTensorList", shape, np.int32(most), element_dtype=dtype)


def _reserve(apply: Apply, dtype: Any, count: Any, shape: Any = _ANY) -> Any:
    return apply("TensorListReserve", shape, count, element_dtype=dtype)


def _stack(apply: Apply, handle: Any, dtype: Any, shape: Any = _ANY, **attrs: Any) -> Any:
    return apply("TensorListStack", handle, shape, element_dtype=dtype, **attrs)


def _get(apply: Apply, handle: Any, index: Any, dtype: Any, shape: Any = _ANY) -> Any:
    return apply("TensorListGetItem", handle, index, shape, element_dtype=dtype)


def _push(apply: Apply, handle: Any, *elements: Any) -> Any:
    for element in elements:
        handle = apply("TensorListPushBack", handle, element)
    return handle


def _pop(apply: Apply, handle: Any, dtype: Any, shape: Any = _ANY) -> Any:
    return apply("TensorListPopBack", handle, shape, element_dtype=dtype)


def _length(apply: Apply, handle: Any) -> Any:
    return apply("TensorListLength", handle)


def _declared(apply: Apply, handle: Any, **attrs: Any) -> Any:
    return apply("TensorListElementShape", handle, **{"shape_type": np.int32, **attrs})


def _two_versions(apply: Apply, a: Any, b: Any) -> Any:
    """Two lists made of one: neither sees what is pushed onto the other."""
    base = _push(apply, _empty(apply, a.dtype), a)
    left, right = _push(apply, base, b), _push(apply, base, a, a)
    return [_stack(apply, item, a.dtype) for item in (left, right, base)]


def _lists_in_lists(apply: Apply, rows: Any) -> Any:
    variant = "variant"
    outer = _push(apply, _empty(apply, variant), _list(apply, rows), _empty(apply, rows.dtype, _i32(2)))
    rest, last = _pop(apply, outer, variant)
    inner = _get(apply, rest, np.int32(0), variant)
    return [_stack(apply, inner, rows.dtype), _length(apply, last), _length(apply, outer)]


def _popped(apply: Apply, rows: Any) -> Any:
    rest, last = _pop(apply, _list(apply, rows), rows.dtype)
    return [_stack(apply, rest, rows.dtype), last]


def _scatter(apply: Apply, rows: Any, indices: Any, count: Any, shape: Any = _ANY) -> Any:
    return apply("TensorListScatterV2", rows, indices, shape, count)


def _concat(apply: Apply, handle: Any, dtype: Any, shape: Any = _ANY, leading: Any = _NO_SIZES) -> Any:
    return apply("TensorListConcatV2", handle, shape, leading, element_dtype=dtype)


def _split(apply: Apply, rows: Any, lengths: Any, shape: Any = _ANY) -> Any:
    return apply("TensorListSplit", rows, shape, lengths)


def _gather(apply: Apply, handle: Any, indices: Any, dtype: Any, shape: Any = _ANY) -> Any:
    return apply("TensorListGather", handle, indices, shape, element_dtype=dtype)


def _set(apply: Apply, handle: Any, index: Any, item: Any, **attrs: Any) -> Any:
    return apply("TensorListSetItem", handle, index, item, **attrs)


def _batch(apply: Apply, first: Any, second: Any, rows: Any) -> Any:
    lists = _stack(apply, _push(apply, _empty(apply, "variant"), _list(apply, first), _list(apply, second)), "variant")
    pushed = _list(apply, apply("TensorListPushBackBatch", lists, rows), _i32())
    return [_stack(apply, _get(apply, pushed, np.int32(i), "variant"), rows.dtype) for i in (0, 1)]


def _of_different_sizes(apply: Apply, rows: Any, row: Any) -> Any:
    return _push(apply, _list(apply, rows), row)


def _added(apply: Apply, a: Any, b: Any) -> Any:
    lists = [_list(apply, a), _set(apply, _reserve(apply, b.dtype, np.int32(3)), np.int32(1), b)]
    return _stack(apply, apply("AddN", lists), a.dtype)


CASES = [
    _case(
        "no elements, then two",
        "EmptyTensorList",
        lambda apply, a: [
            _length(apply, _empty(apply, a.dtype)),
            _stack(apply, _push(apply, _empty(apply, a.dtype, _i32(2), 2), a, a), a.dtype),
        ],
        [_ROW],
        (np.int32(0), np.stack([_ROW, _ROW])),
    ),
    _case(
        "more than it takes",
        "EmptyTensorList",
        lambda apply, a: _length(apply, _push(apply, _empty(apply, a.dtype, _ANY, 1), a, a)),
        [_ROW],
        raises=r"the list is full",
    ),
    _case(
        "no shape",
        "EmptyTensorList",
        lambda apply, shape: _length(apply, _empty(apply, "float32", shape)),
        [np.int32(3)],
        raises=r"names no element shape",
    ),
    _case(
        "zeros",
        "TensorListReserve",
        lambda apply, n: _stack(apply, _reserve(apply, "float32", n, _i32(2)), "float32"),
        [np.int32(3)],
        (np.zeros((3, 2), np.float32),),
    ),
    _case(
        "empty strings",
        "TensorListReserve",
        lambda apply, n: _get(apply, _reserve(apply, "string", n), np.int32(1), "string", _i32(2)),
        [np.int32(3)],
        (np.array([b"", b""], object),),
    ),
    _case(
        "zeros of unknown shape",
        "TensorListReserve",
        lambda apply, n: _stack(apply, _reserve(apply, "float32", n, _i32(2, -1)), "float32"),
        [np.int32(3)],
        raises=r"no element of the list is set, and the shape is not known",
    ),
    _case(
        "negative",
        "TensorListReserve",
        lambda apply, n: _length(apply, _reserve(apply, "float32", n)),
        [np.int32(-2)],
        raises=r"num_elements is too small",
    ),
    _case(
        "one after the other",
        "TensorListPushBack",
        lambda apply, a, b: _stack(apply, _push(apply, _empty(apply, a.dtype), a, b, a), a.dtype),
        [_ROW, -_ROW],
        (np.stack([_ROW, -_ROW, _ROW]),),
    ),
    _case(
        "two lists of one",
        "TensorListPushBack",
        _two_versions,
        [_ROW, -_ROW],
        (np.stack([_ROW, -_ROW]), np.stack([_ROW] * 3), _ROW[None]),
    ),
    _case("lists in a list", "TensorListPushBack", _lists_in_lists, [_ROWS], (_ROWS, np.int32(0), np.int32(2))),
    _case(
        "another shape",
        "TensorListPushBack",
        lambda apply, a: _length(apply, _push(apply, _empty(apply, a.dtype, _i32(3)), a)),
        [_ROW],
        raises=r"the element does not fit the list",
    ),
    _case(
        "another dtype",
        "TensorListPushBack",
        lambda apply, a: _length(apply, _push(apply, _empty(apply, "float64"), a)),
        [_ROW],
        raises=r"the list has elements of another dtype",
    ),
    _case("the last element", "TensorListPopBack", _popped, [_ROWS], (_ROWS[:-1], _ROWS[-1])),
    _case("scalars", "TensorListPopBack", _popped, [np.array([1.5, 2.5])], (np.array([1.5]), np.float64(2.5))),
    _case("strings", "TensorListPopBack", _popped, [_WORDS], (_WORDS[:-1], _WORDS[-1:].reshape(()))),
    _case(
        "an element that is not set",
        "TensorListPopBack",
        lambda apply, n: _pop(apply, _reserve(apply, "float64", n), "float64", _i32(2))[1],
        [np.int32(2)],
        (np.zeros(2),),
    ),
    _case(
        "nothing left",
        "TensorListPopBack",
        lambda apply, a: _pop(apply, _empty(apply, a.dtype), a.dtype)[1],
        [_ROW],
        raises=r"an empty list has no last element",
    ),
    _case(
        "one row",
        "TensorListGetItem",
        lambda apply, rows, i: _get(apply, _list(apply, rows), i, rows.dtype),
        [_ROWS, np.int32(1)],
        (_ROWS[1],),
    ),
    _case(
        "one row twice",
        "TensorListGetItem",
        lambda apply, rows, i: [
            _get(apply, handle, i, rows.dtype) for handle in [_list(apply, rows)] for _ in range(2)
        ],
        [_CUBE, np.int32(2)],
        (_CUBE[2], _CUBE[2]),
    ),
    _case(
        "not set, of the shape of the others",
        "TensorListGetItem",
        lambda apply, a, i: _get(apply, _set(apply, _reserve(apply, a.dtype, np.int32(3)), np.int32(0), a), i, a.dtype),
        [_ROW, np.int32(2)],
        (np.zeros_like(_ROW),),
        # the shape function cannot foretell the shape, and the derivative by `a` is zero
        differentiate=(),
    ),
    _case(
        "not set, of no known shape",
        "TensorListGetItem",
        lambda apply, i: _get(apply, _reserve(apply, "float32", np.int32(3)), i, "float32"),
        [np.int32(2)],
        raises=r"the element is not set, and the shape is not known",
    ),
    _case(
        "beyond the end",
        "TensorListGetItem",
        lambda apply, rows, i: _get(apply, _list(apply, rows), i, rows.dtype),
        [_ROWS, np.int32(3)],
        raises=_BEYOND,
    ),
    _case(
        "negative index",
        "TensorListGetItem",
        lambda apply, rows, i: _get(apply, _list(apply, rows), i, rows.dtype),
        [_ROWS, np.int32(-1)],
        raises=_BEYOND,
    ),
    _case(
        "another shape",
        "TensorListGetItem",
        lambda apply, rows, i: _get(apply, _list(apply, rows, _i32(-1)), i, rows.dtype, _i32(2, 2)),
        [_ROWS, np.int32(0)],
        raises=r"element_shape contradicts the list",
    ),
    _case(
        "another dtype",
        "TensorListGetItem",
        lambda apply, rows, i: _get(apply, _list(apply, rows), i, "int32"),
        [_ROWS, np.int32(0)],
        raises=r"the list has elements of another dtype",
    ),
    _case(
        "one element replaced, the list before unchanged",
        "TensorListSetItem",
        lambda apply, rows, i, a: [
            _stack(apply, item, a.dtype)
            for handle in [_list(apply, rows)]
            for item in (_set(apply, handle, i, a), handle, _set(apply, handle, np.int32(0), -a))
        ],
        [_ROWS, np.int32(1), _ROW],
        (np.stack([_ROWS[0], _ROW, _ROWS[2]]), _ROWS, np.stack([-_ROW, _ROWS[1], _ROWS[2]])),
    ),
    _case(
        "the list grows",
        "TensorListSetItem",
        lambda apply, rows, i, a: _stack(
            apply, _set(apply, _list(apply, rows), i, a, resize_if_index_out_of_bounds=True), a.dtype, _i32(2)
        ),
        [_ROWS, np.int32(4), _ROW],
        (np.stack([*_ROWS, np.zeros_like(_ROW), _ROW]),),
    ),
    _case(
        "beyond the end",
        "TensorListSetItem",
        lambda apply, rows, i, a: _stack(apply, _set(apply, _list(apply, rows), i, a), a.dtype),
        [_ROWS, np.int32(3), _ROW],
        raises=_BEYOND,
    ),
    _case(
        "another shape",
        "TensorListSetItem",
        lambda apply, rows, i, a: _length(apply, _set(apply, _list(apply, rows, _i32(2)), i, a)),
        [_ROWS, np.int32(0), np.zeros(3, np.float32)],
        raises=r"the element does not fit the list",
    ),
    _case(
        "as many as said",
        "TensorListStack",
        lambda apply, rows: _stack(apply, _list(apply, rows, _i32(-1, 2)), rows.dtype, _i32(2, -1), num_elements=3),
        [_CUBE],
        (_CUBE,),
    ),
    _case(
        "none of a known shape",
        "TensorListStack",
        lambda apply, shape: _stack(apply, _empty(apply, "float32", shape), "float32"),
        [_i32(2, 3)],
        (np.zeros((0, 2, 3), np.float32),),
    ),
    _case(
        "none of unknown shape",
        "TensorListStack",
        lambda apply, shape: _stack(apply, _empty(apply, "float32", shape), "float32"),
        [_i32(2, -1)],
        raises=r"no element of the list is set, and the shape is not known",
    ),
    _case(
        "not as many as said",
        "TensorListStack",
        lambda apply, rows: _stack(apply, _list(apply, rows), rows.dtype, num_elements=2),
        [_ROWS],
        raises=r"the list has another number of elements",
    ),
    _case(
        "different shapes",
        "TensorListStack",
        lambda apply, rows, row: _stack(apply, _of_different_sizes(apply, rows, row), rows.dtype),
        [_ROWS, np.zeros(3, np.float32)],
        raises=r"the elements differ in shape",
    ),
    _case(
        "no rows",
        "TensorListFromTensor",
        lambda apply, rows: _stack(apply, _list(apply, rows, _i32(2)), rows.dtype),
        [np.zeros((0, 2), np.float32)],
        (np.zeros((0, 2), np.float32),),
    ),
    _case(
        "rows",
        "TensorListFromTensor",
        lambda apply, rows: [
            _get(apply, _list(apply, rows * rows), np.int32(0), rows.dtype),
            _declared(apply, _list(apply, rows, _i32(2, -1))),
        ],
        [_CUBE],
        (_CUBE[0] ** 2, _i32(2, -1)),
    ),
    _case(
        "a scalar",
        "TensorListFromTensor",
        lambda apply, rows: _length(apply, _list(apply, rows)),
        [np.float32(3)],
        raises=r"the tensor has no rows",
    ),
    _case(
        "another shape",
        "TensorListFromTensor",
        lambda apply, rows: _length(apply, _list(apply, rows, _i32(3))),
        [_ROWS],
        raises=r"the element does not fit the list",
    ),
    _case(
        "after each change",
        "TensorListLength",
        lambda apply, rows: [
            _length(apply, item)
            for handle in [_list(apply, rows)]
            for item in (handle, _pop(apply, handle, rows.dtype)[0], _push(apply, handle, rows[0], rows[1]))
        ],
        [_ROWS],
        (np.int32(3), np.int32(2), np.int32(5)),
    ),
    _case(
        "of an optional",
        "TensorListLength",
        lambda apply, rows: _length(apply, apply("OptionalFromValue", [rows])),
        [_ROWS],
        raises=r"the value is not a list",
    ),
    _case(
        "of a list in a list that was never set",
        "TensorListLength",
        lambda apply, n: _length(apply, _get(apply, _reserve(apply, "variant", n), np.int32(0), "variant", _i32())),
        [np.int32(2)],
        raises=r"the value is not a list(.|\n)*an element that was never set",
    ),
    _case(
        "partly known",
        "TensorListElementShape",
        lambda apply, shape: [
            _declared(apply, _empty(apply, "float32", shape)),
            apply("TensorListElementShape", _empty(apply, "float32"), shape_type=np.int64),
        ],
        [_i32(2, -1)],
        (_i32(2, -1), np.int64(-1)),
    ),
    _case(
        "parts of different sizes",
        "TensorListConcatV2",
        lambda apply, rows, other: _concat(
            apply, _push(apply, _empty(apply, rows.dtype), rows, other, rows), rows.dtype
        ),
        [_ROWS, _ROWS[:1]],
        (np.concatenate([_ROWS, _ROWS[:1], _ROWS]), _i64(3, 1, 3)),
    ),
    _case(
        "an element that is not set",
        "TensorListConcatV2",
        lambda apply, rows, leading: _concat(
            apply,
            _set(apply, _reserve(apply, rows.dtype, np.int32(2)), np.int32(0), rows),
            rows.dtype,
            leading=leading,
        ),
        [_ROWS, _i64(3, 2)],
        (np.concatenate([_ROWS, np.zeros((2, 2), np.float32)]), _i64(3, 2)),
    ),
    _case(
        "an element that is not set, as large as the others",
        "TensorListConcatV2",
        lambda apply, rows: _concat(
            apply, _set(apply, _reserve(apply, rows.dtype, np.int32(2)), np.int32(0), rows), rows.dtype
        ),
        [_ROWS],
        (np.concatenate([_ROWS, np.zeros((3, 2), np.float32)]), _i64(3, 3)),
    ),
    _case(
        "nothing",
        "TensorListConcatV2",
        lambda apply, shape: _concat(apply, _empty(apply, "float64"), "float64", shape),
        [_i32(-1, 2)],
        (np.zeros((0, 2)), _i64()),
    ),
    _case(
        "scalars",
        "TensorListConcatV2",
        lambda apply, rows: _concat(apply, _list(apply, rows), rows.dtype)[0],
        [np.array([1.0, 2.0])],
        raises=r"cannot be concatenated|has no rows",
    ),
    _case(
        "an element of unknown size",
        "TensorListConcatV2",
        lambda apply, n: _concat(apply, _reserve(apply, "float64", n), "float64", _i32(-1, 2))[0],
        [np.int32(2)],
        raises=r"element 0 is not set, and its first size is not known",
    ),
    _case(
        "parts, one of them empty",
        "TensorListSplit",
        lambda apply, rows, lengths: [
            *_concat(apply, _split(apply, rows, lengths), rows.dtype),
            _get(apply, _split(apply, rows, lengths, _i32(-1, 2)), np.int32(2), rows.dtype),
        ],
        [_ROWS, _i64(1, 0, 2)],
        (_ROWS, _i64(1, 0, 2), _ROWS[1:]),
    ),
    _case(
        "too few rows",
        "TensorListSplit",
        lambda apply, rows, lengths: _length(apply, _split(apply, rows, lengths)),
        [_ROWS, _i64(1, 3)],
        raises=r"the lengths do not cut the tensor",
    ),
    _case(
        "G19 a negative length",
        "TensorListSplit",
        lambda apply, rows, lengths: _length(apply, _split(apply, rows, lengths)),
        [np.zeros((0, 3), np.float32), _i64(-1, 1)],
        raises=r"the lengths do not cut the tensor",
    ),
    _case(
        "G19 no rows, then the others are read",
        "TensorListScatterIntoExistingList",
        lambda apply, rows, none: _stack(
            apply, apply("TensorListScatterIntoExistingList", _list(apply, rows), none, _i32()), rows.dtype
        ),
        [np.ones(3, np.float32), np.zeros(0, np.float32)],
        (np.ones(3, np.float32),),
        differentiate=(0,),
    ),
    _case(
        "rows left over",
        "TensorListSplit",
        lambda apply, rows, lengths: _length(apply, _split(apply, rows, lengths)),
        [_ROWS, _i64(1, 1)],
        raises=r"the lengths do not cut the tensor",
    ),
    _case(
        "some, one of them twice",
        "TensorListGather",
        lambda apply, rows, indices: _gather(apply, _list(apply, rows * rows), indices, rows.dtype),
        [_ROWS, _i32(2, 0, 2)],
        ((_ROWS * _ROWS)[[2, 0, 2]],),
    ),
    _case(
        "of lists whose other elements differ",
        "TensorListGather",
        lambda apply, rows, other: _gather(apply, _of_different_sizes(apply, rows, other), _i32(0, 2), rows.dtype),
        [_ROWS, np.ones(3, np.float32)],
        (_ROWS[[0, 2]],),
        # the gradient of the last element is a row of the wrong size in TensorFlow too: it is zero
        differentiate=(0,),
    ),
    _case(
        "none",
        "TensorListGather",
        lambda apply, rows, indices: _gather(apply, _list(apply, rows), indices, rows.dtype, _i32(2)),
        [_ROWS, _i32()],
        (np.zeros((0, 2), np.float32),),
        differentiate=(),
    ),
    _case(
        "beyond the end",
        "TensorListGather",
        lambda apply, rows, indices: _gather(apply, _list(apply, rows), indices, rows.dtype),
        [_ROWS, _i32(0, 3)],
        raises=_BEYOND,
    ),
    _case(
        "rows in another order",
        "TensorListScatterV2",
        lambda apply, rows, indices: _stack(apply, _scatter(apply, rows * rows, indices, _ANY), rows.dtype),
        [_ROWS, _i32(3, 0, 1)],
        (np.stack([_ROWS[1], _ROWS[2], 0 * _ROW, _ROWS[0]]) ** 2,),
    ),
    _case(
        "of repeated indices the last",
        "TensorListScatterV2",
        lambda apply, rows, indices: _stack(apply, _scatter(apply, rows, indices, np.int32(3), _i32(2)), rows.dtype),
        [_ROWS, _i32(1, 0, 1)],
        (np.stack([_ROWS[1], _ROWS[2], 0 * _ROW]),),
    ),
    _case(
        "beyond the end",
        "TensorListScatterV2",
        lambda apply, rows, indices: _length(apply, _scatter(apply, rows, indices, np.int32(2))),
        [_ROWS, _i32(1, 0, 2)],
        raises=_BEYOND,
    ),
    _case(
        "negative index",
        "TensorListScatterV2",
        lambda apply, rows, indices: _length(apply, _scatter(apply, rows, indices, _ANY)),
        [_ROWS, _i32(1, 0, -1)],
        raises=r"an index is negative",
    ),
    _case(
        "one index too few",
        "TensorListScatterV2",
        lambda apply, rows, indices: _length(apply, _scatter(apply, rows, indices, _ANY)),
        [_ROWS, _i32(1, 0)],
        raises=r"there must be one index for each row",
    ),
    _case(
        "some replaced, one added",
        "TensorListScatterIntoExistingList",
        lambda apply, rows, indices: _stack(
            apply,
            apply("TensorListScatterIntoExistingList", _list(apply, rows * rows), rows, indices),
            rows.dtype,
        ),
        [_ROWS, _i32(1, 3, 1)],
        (np.stack([_ROWS[0] ** 2, _ROWS[2], _ROWS[2] ** 2, _ROWS[1]]),),
    ),
    _case(
        "another shape",
        "TensorListScatterIntoExistingList",
        lambda apply, rows, others: _length(
            apply,
            apply("TensorListScatterIntoExistingList", _list(apply, rows, _i32(2)), others, _i32(0)),
        ),
        [_ROWS, np.zeros((1, 3), np.float32)],
        raises=r"the element does not fit the list",
        deviation="it makes a list whose elements do not have the shape that the list declares",
    ),
    _case(
        "cut, and then longer",
        "TensorListResize",
        lambda apply, rows, size: _stack(
            apply,
            apply("TensorListResize", apply("TensorListResize", _list(apply, rows), size), np.int32(4)),
            rows.dtype,
        ),
        [_ROWS, np.int32(2)],
        (np.concatenate([_ROWS[:2], np.zeros((2, 2), np.float32)]),),
    ),
    _case(
        "negative",
        "TensorListResize",
        lambda apply, rows, size: _length(apply, apply("TensorListResize", _list(apply, rows), size)),
        [_ROWS, np.int32(-1)],
        raises=r"size is too small",
    ),
    _case(
        "two lists",
        "TensorListConcatLists",
        lambda apply, rows, others: _stack(
            apply,
            apply(
                "TensorListConcatLists",
                _list(apply, rows, _i32(2)),
                _list(apply, others, _i32(2)),
                element_dtype=rows.dtype,
            ),
            rows.dtype,
        ),
        [_ROWS, _ROWS[:2] + 1],
        (np.concatenate([_ROWS, _ROWS[:2] + 1]),),
    ),
    _case(
        "element shapes differ",
        "TensorListConcatLists",
        lambda apply, rows: _length(
            apply,
            apply(
                "TensorListConcatLists",
                _list(apply, rows, _i32(2)),
                _empty(apply, rows.dtype, _i32(3)),
                element_dtype=rows.dtype,
            ),
        ),
        [_ROWS],
        raises=r"element_shape contradicts the list",
    ),
    _case(
        "two lists at once",
        "TensorListPushBackBatch",
        _batch,
        [_ROWS, _ROWS[:1], _ROWS[1:] * 2],
        (np.concatenate([_ROWS, _ROWS[1:2] * 2]), np.concatenate([_ROWS[:1], _ROWS[2:] * 2])),
        differentiate=(),  # it has no gradient
    ),
    _case(
        "one row too many",
        "TensorListPushBackBatch",
        _batch,
        [_ROWS, _ROWS[:1], _ROWS],
        raises=r"the lists do not match one to one",
    ),
    _case("lists", "AddN", _added, [_ROWS, _ROW], (np.stack([_ROWS[0], _ROWS[1] + _ROW, _ROWS[2]]),)),
    _case(
        "lists of different lengths",
        "AddN",
        lambda apply, a, b: _length(apply, apply("AddN", [_list(apply, a), _list(apply, b)])),
        [_ROWS, _ROWS[:1]],
        raises=r"only lists of one length can be added",
    ),
    _case(
        "a list",
        "ZerosLike",
        lambda apply, rows: _stack(apply, apply("ZerosLike", _list(apply, rows)), rows.dtype),
        [_ROWS],
        (np.zeros_like(_ROWS),),
        differentiate=(),  # it has no gradient
    ),
    _case(
        "a list in a list",
        "OnesLike",
        lambda apply, rows: _stack(
            apply,
            _get(
                apply,
                apply("OnesLike", _push(apply, _empty(apply, "variant"), _list(apply, rows))),
                np.int32(0),
                "variant",
            ),
            rows.dtype,
        ),
        [_ROWS],
        (np.ones_like(_ROWS),),
        differentiate=(),  # it has no gradient
        oracle=False,
    ),
]
