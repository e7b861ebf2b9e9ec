"""Cases of the TensorArrayV3 family; each makes its arrays, so that it gives the same every time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase

Apply = Callable[..., Any]

_ROWS = np.array([[1.5, -2.0], [4.0, 5.0], [0.5, 3.0]], np.float32)
_ROW = np.array([7.0, -1.0], np.float32)
_WORDS = np.array([b"", b"\x00\xff", b"a\x00"], object)
_BEYOND = r"an index is beyond the array"


def _i32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def _i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def _case(
    what: str, op: str, build: Callable[..., Any], inputs: list[Any], expected: Any = None, **more: Any
) -> OpCase:
    return OpCase(f"{op}/{what}", op, inputs, expected=expected, build=build, **more)


class _Array:
    """An array and the flow of its uses so far, in the order in which they are written down."""

    def __init__(self, apply: Apply, dtype: Any, size: Any, handle: Any = None, flow: Any = None, **attrs: Any) -> None:
        self.apply, self.dtype = apply, dtype
        if handle is None:
            handle, flow = apply("TensorArrayV3", size, dtype=dtype, **attrs)
        self.handle, self.flow = handle, flow

    def write(self, index: Any, value: Any) -> _Array:
        self.flow = self.apply("TensorArrayWriteV3", self.handle, index, value, self.flow)
        return self

    def read(self, index: Any, dtype: Any = None) -> Any:
        return self.apply("TensorArrayReadV3", self.handle, index, self.flow, dtype=dtype or self.dtype)

    def scatter(self, indices: Any, rows: Any) -> _Array:
        self.flow = self.apply("TensorArrayScatterV3", self.handle, indices, rows, self.flow)
        return self

    def gather(self, indices: Any, **attrs: Any) -> Any:
        return self.apply("TensorArrayGatherV3", self.handle, indices, self.flow, dtype=self.dtype, **attrs)

    def split(self, rows: Any, lengths: Any) -> _Array:
        self.flow = self.apply("TensorArraySplitV3", self.handle, rows, lengths, self.flow)
        return self

    def concat(self, **attrs: Any) -> Any:
        return self.apply("TensorArrayConcatV3", self.handle, self.flow, dtype=self.dtype, **attrs)

    def size(self) -> Any:
        return self.apply("TensorArraySizeV3", self.handle, self.flow)

    def gradient(self, source: str) -> _Array:
        handle, flow = self.apply("TensorArrayGradV3", self.handle, self.flow, source=source)
        return _Array(self.apply, self.dtype, None, handle, flow)


def _of(apply: Apply, rows: Any, count: int = 3, **attrs: Any) -> _Array:
    """An array that holds the rows of a tensor."""
    return _Array(apply, rows.dtype, np.int32(count), **attrs).scatter(_i32(*range(count)), rows)


def _gradients(apply: Apply, a: Any, b: Any) -> Any:
    """Values written twice add up, by source; the shape of what was written is known to the gradients."""
    array = _Array(apply, a.dtype, np.int32(2), clear_after_read=False).write(np.int32(1), a)
    first = array.gradient("one").write(np.int32(0), a).write(np.int32(0), b)
    again = _Array(apply, a.dtype, None, array.gradient("one").handle, first.flow)
    second = array.gradient("two")
    return [again.read(np.int32(0)), second.read(np.int32(1)), array.read(np.int32(1)), second.size()]


def _doubled(apply: Apply, rows: Any, lengths: Any) -> Any:
    return _Array(apply, rows.dtype, np.int32(3)).split(rows * rows, lengths).concat()


def _of_another_kind(apply: Apply, n: Any) -> Any:
    return apply("TensorArraySizeV3", apply("StackV2", n, elem_type="float32"), np.float32(0))


def _grown_after_gradients(apply: Apply, a: Any, i: Any) -> Any:
    array = _Array(apply, a.dtype, np.int32(1), dynamic_size=True)
    array.flow = array.gradient("g").flow
    return array.write(i, a).size()


def _read_and_written(apply: Apply, a: Any, i: Any) -> Any:
    array = _Array(apply, a.dtype, np.int32(2), clear_after_read=False, element_shape=(2,))
    array.flow = array.flow + 0 * _sum(apply, array.read(i))
    return array.write(i, a).size()


def _sum(apply: Apply, x: Any) -> Any:
    return apply("Sum", x, _i32(0))


def _read_twice(apply: Apply, a: Any, i: Any) -> Any:
    array = _Array(apply, a.dtype, np.int32(2)).write(i, a)
    array.flow = array.flow + 0 * _sum(apply, array.read(i))
    return array.read(i)


CASES = [
    _case(
        "a size of its own for each",
        "TensorArrayV3",
        lambda apply, n: [_Array(apply, "float32", n).size(), _Array(apply, "int64", np.int32(0)).size()],
        [np.int32(4)],
        (np.int32(4), np.int32(0)),
    ),
    _case(
        "negative size",
        "TensorArrayV3",
        lambda apply, n: _Array(apply, "float32", n).size(),
        [np.int32(-1)],
        raises=r"the size is negative",
    ),
    _case(
        "it grows",
        "TensorArrayV3",
        lambda apply, a, i: [
            array.size() for array in [_Array(apply, a.dtype, np.int32(1), dynamic_size=True).write(i, a)]
        ],
        [_ROW, np.int32(4)],
        (np.int32(5),),
    ),
    _case(
        "by two sources",
        "TensorArrayGradV3",
        _gradients,
        [_ROW, _ROW * 2],
        (_ROW * 3, 0 * _ROW, _ROW, np.int32(2)),
    ),
    _case(
        "a gradient of another shape",
        "TensorArrayGradV3",
        lambda apply, a, b: (
            _of(apply, a).gradient("g").write(np.int32(0), a[0]).write(np.int32(0), b).read(np.int32(0))
        ),
        [_ROWS, np.zeros(3, np.float32)],
        raises=r"gradients of element 0 differ in shape",
    ),
    _case(
        "no growth once there are gradients",
        "TensorArrayGradV3",
        _grown_after_gradients,
        [_ROW, np.int32(4)],
        raises=_BEYOND,
    ),
    _case(
        "each element once",
        "TensorArrayWriteV3",
        lambda apply, a, b: (
            _Array(apply, a.dtype, np.int32(2)).write(np.int32(1), a).write(np.int32(0), b * b).gather(_i32(1, 0))
        ),
        [_ROW, -_ROW],
        np.stack([_ROW, _ROW * _ROW]),
    ),
    _case(
        "twice",
        "TensorArrayWriteV3",
        lambda apply, a, i: _Array(apply, a.dtype, np.int32(2)).write(i, a).write(i, a).size(),
        [_ROW, np.int32(1)],
        raises=r"element 1 of the array cannot be written",
    ),
    _case(
        "after it was read",
        "TensorArrayWriteV3",
        _read_and_written,
        [_ROW, np.int32(1)],
        raises=r"element 1 of the array cannot be written",
    ),
    _case(
        "beyond the end",
        "TensorArrayWriteV3",
        lambda apply, a, i: _Array(apply, a.dtype, np.int32(2)).write(i, a).size(),
        [_ROW, np.int32(2)],
        raises=_BEYOND,
    ),
    _case(
        "another shape",
        "TensorArrayWriteV3",
        lambda apply, a, i: _Array(apply, a.dtype, np.int32(2), element_shape=(3,)).write(i, a).size(),
        [_ROW, np.int32(1)],
        raises=r"the element does not fit the array",
    ),
    _case(
        "another shape than the first",
        "TensorArrayWriteV3",
        lambda apply, a, b: (
            _Array(apply, a.dtype, np.int32(2), identical_element_shapes=True)
            .write(np.int32(0), a)
            .write(np.int32(1), b)
            .size()
        ),
        [_ROW, np.zeros(3, np.float32)],
        raises=r"the element does not fit the array",
    ),
    _case(
        "another dtype",
        "TensorArrayWriteV3",
        lambda apply, a, i: _Array(apply, "float64", np.int32(2)).write(i, a).size(),
        [_ROW, np.int32(1)],
        raises=r"the array has elements of another dtype",
    ),
    _case(
        "another shape for each",
        "TensorArrayReadV3",
        lambda apply, a, b: [
            part
            for array in [_Array(apply, a.dtype, np.int32(2)).write(np.int32(0), a * b).write(np.int32(1), b)]
            for part in (array.read(np.int32(0)), array.read(np.int32(1)))
        ],
        [_ROW, np.float32(3)],
        (_ROW * 3, np.float32(3)),
    ),
    _case(
        "zeros where nothing was written",
        "TensorArrayReadV3",
        lambda apply, i: _Array(apply, "float32", np.int32(2), element_shape=(2,)).read(i),
        [np.int32(1)],
        (np.zeros(2, np.float32),),
    ),
    _case(
        "nothing of a known shape was written",
        "TensorArrayReadV3",
        lambda apply, i: _Array(apply, "float32", np.int32(2), element_shape=(None, 2)).read(i),
        [np.int32(1)],
        raises=r"element 1 of the array cannot be read",
    ),
    _case(
        "twice",
        "TensorArrayReadV3",
        _read_twice,
        [_ROW, np.int32(1)],
        raises=r"element 1 of the array cannot be read(.|\n)*forgotten",
    ),
    _case(
        "strings",
        "TensorArrayReadV3",
        lambda apply, words: _of(apply, words).read(np.int32(1)),
        [_WORDS],
        (_WORDS[1:2].reshape(()),),
    ),
    _case(
        "beyond the end",
        "TensorArrayReadV3",
        lambda apply, i: _Array(apply, "float32", np.int32(2), element_shape=()).read(i),
        [np.int32(-1)],
        raises=_BEYOND,
    ),
    _case(
        "another dtype",
        "TensorArrayReadV3",
        lambda apply, rows: _of(apply, rows).read(np.int32(0), "int32"),
        [_ROWS],
        raises=r"the array has elements of another dtype",
    ),
    _case(
        "some",
        "TensorArrayGatherV3",
        lambda apply, rows, indices: _of(apply, rows * rows).gather(indices, element_shape=(2,)),
        [_ROWS, _i32(2, 0)],
        ((_ROWS * _ROWS)[[2, 0]],),
    ),
    _case(
        "none",
        "TensorArrayGatherV3",
        lambda apply, rows, indices: _of(apply, rows).gather(indices, element_shape=(2,)),
        [_ROWS, _i32()],
        (np.zeros((0, 2), np.float32),),
        differentiate=(),  # nothing depends on it
    ),
    _case(
        "none of an unknown shape",
        "TensorArrayGatherV3",
        lambda apply, n: _Array(apply, "float32", n).gather(_i32()),
        [np.int32(0)],
        raises=r"nothing is gathered, and the shape of the elements is not known",
    ),
    _case(
        "different shapes",
        "TensorArrayGatherV3",
        lambda apply, a, b: (
            _Array(apply, a.dtype, np.int32(2)).write(np.int32(0), a).write(np.int32(1), b).gather(_i32(0, 1))
        ),
        [_ROW, np.zeros(3, np.float32)],
        raises=r"the element does not fit the array",
    ),
    _case(
        "rows in another order",
        "TensorArrayScatterV3",
        lambda apply, rows, indices: (
            _Array(apply, rows.dtype, np.int32(3)).scatter(indices, rows).gather(_i32(0, 1, 2))
        ),
        [_ROWS, _i32(2, 0, 1)],
        (_ROWS[[1, 2, 0]],),
    ),
    _case(
        "one index too few",
        "TensorArrayScatterV3",
        lambda apply, rows, indices: _Array(apply, rows.dtype, np.int32(3)).scatter(indices, rows).size(),
        [_ROWS, _i32(2, 0)],
        raises=r"there must be one index for each row",
    ),
    _case(
        "a scalar",
        "TensorArrayScatterV3",
        lambda apply, rows, indices: _Array(apply, rows.dtype, np.int32(3)).scatter(indices, rows).size(),
        [np.float32(1), _i32(2, 0)],
        raises=r"the value has no rows",
    ),
    _case("what was split", "TensorArrayConcatV3", _doubled, [_ROWS, _i64(1, 0, 2)], (_ROWS**2, _i64(1, 0, 2))),
    _case(
        "nothing",
        "TensorArrayConcatV3",
        lambda apply, n: _Array(apply, "float32", n).concat(element_shape_except0=(2,)),
        [np.int32(0)],
        (np.zeros((0, 2), np.float32), _i64()),
    ),
    _case(
        "nothing of an unknown shape",
        "TensorArrayConcatV3",
        lambda apply, n: _Array(apply, "float32", n).concat()[0],
        [np.int32(0)],
        raises=r"nothing is concatenated, and the shape of the rows is not known",
    ),
    _case(
        "parts",
        "TensorArraySplitV3",
        lambda apply, rows, lengths: (
            _Array(apply, rows.dtype, np.int32(2)).split(rows * rows, lengths).read(np.int32(1))
        ),
        [_ROWS, _i64(1, 2)],
        (_ROWS[1:] ** 2,),
    ),
    _case(
        "too few rows",
        "TensorArraySplitV3",
        lambda apply, rows, lengths: _Array(apply, rows.dtype, np.int32(2)).split(rows, lengths).size(),
        [_ROWS, _i64(1, 3)],
        raises=r"the lengths do not cut the value",
    ),
    _case(
        "G19 a negative length",
        "TensorArraySplitV3",
        lambda apply, rows, lengths: _Array(apply, rows.dtype, np.int32(2)).split(rows, lengths).size(),
        [np.zeros((0, 3), np.float32), _i64(-1, 1)],
        raises=r"the lengths do not cut the value",
        oracle=False,  # it ends TensorFlow's process
    ),
    _case(
        "G19 no rows, then the others are read",
        "TensorArrayScatterV3",
        lambda apply, rows, none: _of(apply, rows, clear_after_read=False).scatter(_i32(), none).gather(_i32(0, 1, 2)),
        [np.ones(3, np.float32), np.zeros(0, np.float32)],
        (np.ones(3, np.float32),),
        differentiate=(0,),
    ),
    _case(
        "more parts than elements",
        "TensorArraySplitV3",
        lambda apply, rows, lengths: _Array(apply, rows.dtype, np.int32(2)).split(rows, lengths).size(),
        [_ROWS, _i64(1, 1, 1)],
        raises=r"the parts are not as many as the array has elements",
    ),
    _case(
        "of another kind of handle",
        "TensorArraySizeV3",
        _of_another_kind,
        [np.int32(1)],
        raises=r"the handle is not that of an array",
    ),
]
