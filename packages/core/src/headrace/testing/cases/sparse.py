"""Cases of the sparse family. Expectations fill a dense array element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase
from headrace.testing.reference import numbers

_NAN = np.nan


def _i64(*values: Any) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


def _i32(*values: Any) -> np.ndarray[Any, Any]:
    return np.array(values, np.int32)


def _f32(*values: Any) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


def _f64(*values: Any) -> np.ndarray[Any, Any]:
    return np.array(values, np.float64)


def _none(rank: int) -> np.ndarray[Any, Any]:
    return np.zeros([0, rank], np.int64)


def _dense(indices: Any, values: Any, shape: Any, *, default: Any = 0, add: bool = True) -> Any:
    """The whole tensor, by definition."""
    result = np.full([int(size) for size in shape], default, np.asarray(values).dtype)
    for index, value in zip(indices, np.broadcast_to(values, len(indices)), strict=True):
        place = tuple(int(item) for item in index)
        result[place] = result[place] + value if add else value
    return result


_INDICES = _i64([0, 1], [1, 0], [1, 3], [2, 2])
_SHAPE = _i64(4, 5)
_VALUES = np.array([1.5, -2, 3, 0.5], np.float32)
_ODD = _i64([2, 0, 1], [0, 2, 0], [0, 0, 1], [2, 0, 0], [1, 1, 1])
_ODD_SHAPE = _i64(3, 3, 2)
_NUMERIC = ("float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "complex64")

_TO_DENSE = [
    *(
        OpCase(
            f"SparseToDense/{dtype}",
            "SparseToDense",
            [_INDICES, _SHAPE, numbers(dtype, 4), numbers(dtype, 1)[0]],
            expected=lambda i, s, v, d: _dense(i, v, s, default=d, add=False),
        )
        for dtype in (*_NUMERIC, "complex128", "uint16", "uint32", "uint64")
    ),
    OpCase(
        "SparseToDense/string",
        "SparseToDense",
        [_i64([1]), _i64(3), np.array([b"a"], object), np.array(b"-", object)],
        expected=np.array([b"-", b"a", b"-"], object),
    ),
    OpCase(
        "SparseToDense/bool", "SparseToDense", [_i64([1]), _i64(3), [True], np.False_], expected=[False, True, False]
    ),
    OpCase(
        "SparseToDense/int32 vector of indices, one value",
        "SparseToDense",
        [np.array([0, 2], np.int32), np.array([4], np.int32), np.float32(7), np.float32(-1)],
        expected=_f32(7, -1, 7, -1),
    ),
    OpCase(
        "SparseToDense/scalar index",
        "SparseToDense",
        [np.array(2), _i64(4), np.float32(7), np.float32(0)],
        expected=_f32(0, 0, 7, 0),
    ),
    OpCase(
        "SparseToDense/no elements",
        "SparseToDense",
        [_none(2), _i64(2, 3), np.zeros(0, np.float32), np.float32(5)],
        expected=np.full((2, 3), 5, np.float32),
    ),
    OpCase(
        "SparseToDense/empty",
        "SparseToDense",
        [_none(2), _i64(0, 3), np.zeros(0, np.float32), np.float32(5)],
        expected=np.zeros((0, 3), np.float32),
    ),
    OpCase(
        "SparseToDense/NaN",
        "SparseToDense",
        [_i64([1]), _i64(2), _f32(_NAN), np.float32(0)],
        expected=_f32(0, _NAN),
        differentiate=(),
    ),
    OpCase(
        "SparseToDense/O43 last of repeated indices",
        "SparseToDense",
        [_i64([0, 0], [0, 0]), _i64(1, 1), _i64(1, 2), np.int64(0)],
        {"validate_indices": False},
        expected=_i64([2]),
    ),
    OpCase(
        "SparseToDense/any order",
        "SparseToDense",
        [_i64([2], [0]), _i64(3), _f32(1, 2), np.float32(0)],
        {"validate_indices": False},
        expected=_f32(2, 0, 1),
    ),
    *(
        OpCase(f"SparseToDense/{what}", "SparseToDense", [indices, shape, values, default], raises=text)
        for what, indices, shape, values, default, text in (
            ("O43 repeated", _i64([0, 0], [0, 0]), _i64(1, 1), _i64(1, 2), np.int64(0), "index is repeated"),
            ("O43 out of order", _i64([1, 0], [0, 0]), _i64(2, 1), _i64(1, 2), np.int64(0), "out of order"),
            ("index too large", _i64([3]), _i64(3), _i64(1), np.int64(0), "index is out of range"),
            ("negative index", _i64([-1]), _i64(3), _i64(1), np.int64(0), "index is out of range"),
            ("too few values", _i64([0], [1]), _i64(3), _i64(1), np.int64(0), "fit together"),
            ("indices of another rank", _i64([0]), _i64(3, 3), _i64(1), np.int64(0), "fit together"),
            ("negative size", _none(1), _i64(-3), _i64(), np.int64(0), "negative"),
            ("size too large", _none(2), _i64(2**62, 2**62), _i64(), np.int64(0), "too many elements"),
            ("default of rank 1", _i64([0]), _i64(3), _i64(1), _i64(0), "scalar"),
        )
    ),
]


def _product(adjoint_a: bool = False, adjoint_b: bool = False) -> Callable[..., Any]:
    def expected(indices: Any, values: Any, shape: Any, b: Any) -> Any:
        wide = np.complex128 if values.dtype.kind == "c" else np.float64 if values.dtype.kind not in "iu" else object
        a, b = _dense(indices, values.astype(wide), shape), b.astype(wide)
        product = (np.conj(a.T) if adjoint_a else a) @ (np.conj(b.T) if adjoint_b else b)
        return product.astype(values.dtype)

    return expected


_MATMUL = [
    *(
        OpCase(
            f"SparseTensorDenseMatMul/{dtype}",
            "SparseTensorDenseMatMul",
            [_INDICES, numbers(dtype, 4), _SHAPE, numbers(dtype, 5, 3, seed=1)],
            expected=_product(),
        )
        for dtype in ("float16", "bfloat16", "float32", "float64", "int32", "complex64", "complex128")
    ),
    *(
        OpCase(
            f"SparseTensorDenseMatMul/{dtype} {what}",
            "SparseTensorDenseMatMul",
            [_INDICES, numbers(dtype, 4), _SHAPE, numbers(dtype, *shape, seed=1)],
            {"adjoint_a": a, "adjoint_b": b},
            expected=_product(a, b),
        )
        for dtype in ("float32", "complex64")
        for what, a, b, shape in (
            ("a transposed", True, False, (4, 2)),
            ("b transposed", False, True, (2, 5)),
            ("both", True, True, (1, 4)),
        )
    ),
    OpCase(
        "SparseTensorDenseMatMul/unordered, repeated, int32 indices",
        "SparseTensorDenseMatMul",
        [np.array([[2, 0], [0, 1], [2, 0]], np.int32), numbers("float64", 3), _i64(3, 2), numbers("float64", 2, 2)],
        expected=_product(),
    ),
    OpCase(
        "SparseTensorDenseMatMul/no elements",
        "SparseTensorDenseMatMul",
        [_none(2), np.zeros(0, np.float32), _i64(2, 3), np.ones((3, 2), np.float32)],
        expected=np.zeros((2, 2), np.float32),
    ),
    OpCase(
        "SparseTensorDenseMatMul/O41 no inner size",
        "SparseTensorDenseMatMul",
        [_none(2), np.zeros(0, np.float32), _i64(2, 0), np.ones((0, 2), np.float32)],
        expected=np.zeros((2, 2), np.float32),
    ),
    OpCase(
        "SparseTensorDenseMatMul/NaN",
        "SparseTensorDenseMatMul",
        [_i64([0, 0]), _f32(_NAN), _i64(2, 1), _f32([1])],
        expected=_f32([_NAN], [0]),
        differentiate=(),
    ),
    *(
        OpCase(
            f"SparseTensorDenseMatMul/{what}",
            "SparseTensorDenseMatMul",
            [indices, np.ones(1, np.float32), shape, b],
            raises=text,
        )
        for what, indices, shape, b, text in (
            ("index too large", _i64([2, 0]), _i64(2, 3), np.ones((3, 1), np.float32), "index is out of range"),
            ("sizes differ", _i64([0, 0]), _i64(2, 3), np.ones((2, 1), np.float32), "do not fit"),
            ("a of rank 3", _i64([0, 0, 0]), _i64(2, 3, 1), np.ones((3, 1), np.float32), "only matrices"),
        )
    ),
]


def _sorted(indices: Any, values: Any, shape: Any = None) -> tuple[Any, Any]:
    pairs = sorted(zip(np.asarray(indices).tolist(), range(len(values)), strict=True), key=lambda pair: pair[0])
    order = [position for _, position in pairs]
    return np.reshape(indices, (len(values), -1))[order], np.asarray(values)[order]


_REORDER = [
    *(
        OpCase(f"SparseReorder/{dtype}", "SparseReorder", [_ODD, numbers(dtype, 5), _ODD_SHAPE], expected=_sorted)
        for dtype in _NUMERIC
    ),
    OpCase(
        "SparseReorder/string",
        "SparseReorder",
        [_i64([1], [0]), np.array([b"b", b"a"], object), _i64(2)],
        expected=(_i64([0], [1]), np.array([b"a", b"b"], object)),
    ),
    OpCase(
        "SparseReorder/no elements",
        "SparseReorder",
        [_none(2), np.zeros(0, np.float32), _i64(2, 3)],
        expected=(_none(2), np.zeros(0, np.float32)),
    ),
    OpCase(
        "SparseReorder/huge shape",
        "SparseReorder",
        [_i64([2**40, 1], [5, 2**40]), _f32(1, 2), _i64(2**60, 2**60)],
        expected=(_i64([5, 2**40], [2**40, 1]), _f32(2, 1)),
        oracle=False,
    ),
    OpCase(
        "SparseReorder/index too large",
        "SparseReorder",
        [_i64([2]), _f32(1), _i64(2)],
        raises="index is out of range",
        deviation="TensorFlow does not look at the indices",
    ),
    OpCase("SparseReorder/too few values", "SparseReorder", [_i64([1]), _f32(), _i64(2)], raises="fit together"),
]


def _added(a: Any, av: Any, shape: Any, b: Any, bv: Any, _: Any, threshold: Any) -> Any:
    found: dict[tuple[int, ...], Any] = {}
    for index, value in [*zip(a.tolist(), av, strict=True), *zip(b.tolist(), bv, strict=True)]:
        found[tuple(index)] = found[tuple(index)] + value if tuple(index) in found else value
    both = {tuple(index) for index in a.tolist()} & {tuple(index) for index in b.tolist()}
    kept = [(i, value) for i, value in sorted(found.items()) if i not in both or not abs(value) < threshold]
    return (
        np.array([index for index, _ in kept], np.int64).reshape(len(kept), len(shape)),
        np.array([value for _, value in kept], av.dtype),
        shape,
    )


_OTHER = _i64([0, 0], [1, 0], [2, 2], [3, 4], [3, 4])[:4]
_ADD = [
    *(
        OpCase(
            f"SparseAdd/{dtype}",
            "SparseAdd",
            [
                _INDICES,
                numbers(dtype, 4),
                _SHAPE,
                _OTHER,
                numbers(dtype, 4, seed=1),
                _SHAPE,
                numbers(dtype.replace("complex64", "float32"), 1)[0] * 0,
            ],
            expected=_added,
            differentiate=(1, 4) if dtype.startswith("float") else (),
        )
        for dtype in ("float32", "float64", "int16", "int32", "int64", "complex64")
    ),
    OpCase(
        "SparseAdd/threshold",
        "SparseAdd",
        [
            _i64([0], [1], [3]),
            _f32(1, 0.25, -2),
            _i64(4),
            _i64([0], [2]),
            _f32(-1, 0.1),
            _i64(4),
            np.float32(0.2),
        ],
        expected=(_i64([1], [2], [3]), _f32(0.25, 0.1, -2), _i64(4)),
        differentiate=(),
    ),
    OpCase(
        "SparseAdd/no elements",
        "SparseAdd",
        [_none(1), _f32(), _i64(4), _none(1), _f32(), _i64(4), np.float32(0)],
        expected=(_none(1), _f32(), _i64(4)),
    ),
    OpCase(
        "SparseAdd/one side empty",
        "SparseAdd",
        [_none(1), _f64(), _i64(4), _i64([2]), _f64(5), _i64(4), np.float64(0)],
        expected=(_i64([2]), _f64(5), _i64(4)),
        differentiate=(4,),
    ),
    *(
        OpCase(
            f"SparseAdd/{what}",
            "SparseAdd",
            [a, av, ashape, _i64([0]), _f32(1), _i64(3), threshold],
            raises=text,
        )
        for what, a, av, ashape, threshold, text in (
            ("shapes differ", _i64([0]), _f32(1), _i64(4), np.float32(0), "different shapes"),
            ("ranks differ", _i64([0, 0]), _f32(1), _i64(3, 3), np.float32(0), "different shapes"),
            ("threshold of rank 1", _i64([0]), _f32(1), _i64(3), _f32(0), "scalar"),
            ("too few values", _i64([0], [1]), _f32(1), _i64(3), np.float32(0), "fit together"),
        )
    ),
]


def _moved(indices: Any, shape: Any, wanted: Any) -> Any:
    sizes = np.zeros([int(size) for size in shape], bool).reshape([int(size) for size in wanted]).shape
    flat = [np.ravel_multi_index(tuple(index), tuple(shape)) for index in indices]
    return np.array([np.unravel_index(place, sizes) for place in flat], np.int64).reshape(len(flat), len(sizes)), _i64(
        *sizes
    )


_RESHAPE = [
    *(
        OpCase(f"SparseReshape/{what}", "SparseReshape", [_INDICES, _SHAPE, wanted], expected=_moved)
        for what, wanted in (
            ("flat", _i64(20)),
            ("-1", _i64(2, -1, 5)),
            ("same", _i64(4, 5)),
            ("longer", _i64(2, 2, 5, 1)),
        )
    ),
    OpCase(
        "SparseReshape/no elements",
        "SparseReshape",
        [_none(2), _i64(4, 5), _i64(-1, 2)],
        expected=(_none(2), _i64(10, 2)),
    ),
    OpCase("SparseReshape/empty", "SparseReshape", [_none(2), _i64(0, 5), _i64(0, 7)], expected=(_none(2), _i64(0, 7))),
    *(
        OpCase(f"SparseReshape/{what}", "SparseReshape", [_INDICES, _SHAPE, wanted], raises=text)
        for what, wanted, text in (
            ("another size", _i64(3, 7), "do not fit"),
            ("two -1", _i64(-1, -1), "one -1"),
            ("does not divide", _i64(-1, 3), "do not fit"),
            ("negative", _i64(-2, 10), "one -1"),
        )
    ),
    OpCase(
        "SparseReshape/too many elements",
        "SparseReshape",
        [_none(2), _i64(2**40, 2**40), _i64(-1)],
        raises="too many elements",
    ),
    OpCase(
        "SparseReshape/index too large",
        "SparseReshape",
        [_i64([4]), _i64(4), _i64(2, 2)],
        raises="index is out of range",
        deviation="TensorFlow gives an index outside the new shape",
    ),
]


def _joined(axis: int) -> Callable[..., Any]:
    def expected(indices: Any, values: Any, shapes: Any) -> Any:
        offset, moved = 0, []
        for part, shape in zip(indices, shapes, strict=True):
            moved.append(part + offset * np.eye(len(shape), dtype=np.int64)[axis])
            offset += int(shape[axis])
        total = np.array(shapes[0])
        total[axis] = offset
        return *_sorted(np.concatenate(moved), np.concatenate(values)), total

    return expected


_CONCAT = [
    *(
        OpCase(
            f"SparseConcat/{dtype} axis {axis}",
            "SparseConcat",
            [[_INDICES, _OTHER], [numbers(dtype, 4), numbers(dtype, 4, seed=1)], [_SHAPE, _SHAPE]],
            {"concat_dim": axis},
            expected=_joined(axis),
        )
        for dtype in ("float32", "int32", "complex64")
        for axis in (0, 1, -1)
    ),
    OpCase(
        "SparseConcat/three, one empty",
        "SparseConcat",
        [
            [_i64([1]), _none(1), _i64([0])],
            [_f64(1), _f64(), _f64(2)],
            [_i64(2), _i64(5), _i64(1)],
        ],
        {"concat_dim": 0},
        expected=(_i64([1], [7]), _f64(1, 2), _i64(8)),
        differentiate=(3, 5),
    ),
    OpCase(
        "SparseConcat/shapes differ",
        "SparseConcat",
        [[_i64([0, 0]), _i64([0, 0])], [_f32(1), _f32(1)], [_i64(2, 3), _i64(2, 4)]],
        {"concat_dim": 0},
        raises="differ beside",
    ),
    OpCase(
        "SparseConcat/axis too large",
        "SparseConcat",
        [[_i64([0]), _i64([0])], [_f32(1), _f32(1)], [_i64(2), _i64(2)]],
        {"concat_dim": 1},
        raises="out of range",
    ),
    OpCase(
        "SparseConcat/index too large",
        "SparseConcat",
        [[_i64([2]), _i64([0])], [_f32(1), _f32(1)], [_i64(2), _i64(2)]],
        {"concat_dim": 0},
        raises="index is out of range",
        deviation="TensorFlow puts the element into the next part",
    ),
]


def _boxed(indices: Any, values: Any, shape: Any, start: Any, size: Any) -> Any:
    chosen = [
        position
        for position, index in enumerate(indices)
        if all(s <= i < s + n for i, s, n in zip(index, start, size, strict=True))
    ]
    return indices[chosen] - start, np.asarray(values)[chosen], np.minimum(size, np.maximum(shape - start, 0))


_SLICE = [
    *(
        OpCase(
            f"SparseSlice/{dtype}",
            "SparseSlice",
            [_INDICES, numbers(dtype, 4), _SHAPE, _i64(1, 0), _i64(2, 3)],
            expected=_boxed,
        )
        for dtype in ("float32", "float64", "int32", "complex64")
    ),
    OpCase(
        "SparseSlice/beyond the end",
        "SparseSlice",
        [_INDICES, _VALUES, _SHAPE, _i64(1, 2), _i64(100, 100)],
        expected=_boxed,
    ),
    OpCase(
        "SparseSlice/nothing",
        "SparseSlice",
        [_INDICES, _VALUES, _SHAPE, _i64(3, 0), _i64(1, 1)],
        expected=_boxed,
        differentiate=(),
    ),
    OpCase(
        "SparseSlice/past the end",
        "SparseSlice",
        [_INDICES, _VALUES, _SHAPE, _i64(0, 7), _i64(1, 1)],
        expected=_boxed,
        differentiate=(),
    ),
    *(
        OpCase(
            f"SparseSlice/{what}", "SparseSlice", [_INDICES, _VALUES, _SHAPE, start, size], raises=text, deviation=why
        )
        for what, start, size, text, why in (
            ("negative start", _i64(-1, 0), _i64(1, 1), "below 0", "TensorFlow counts from before the tensor"),
            ("negative size", _i64(0, 0), _i64(1, -1), "below 0", None),
            ("start too short", _i64(0), _i64(1, 1), "each axis", None),
        )
    ),
]


def _summed(keep: bool) -> Callable[..., Any]:
    def expected(indices: Any, values: Any, shape: Any, axes: Any) -> Any:
        wide = values.astype(np.float64) if values.dtype.kind not in "iuc" else values
        whole = _dense(indices, wide, shape)
        return np.asarray(whole.sum(tuple(int(axis) for axis in np.reshape(axes, -1)), keepdims=keep)).astype(
            values.dtype
        )

    return expected


_SUM = [
    *(
        OpCase(
            f"SparseReduceSum/{dtype} {axes} {keep}",
            "SparseReduceSum",
            [_ODD[[2, 1, 4, 3, 0]], numbers(dtype, 5), _ODD_SHAPE, np.array(axes, np.int32)],
            {"keep_dims": keep},
            expected=_summed(keep),
        )
        for dtype in ("float32", "float64", "int32", "complex64")
        for axes in ([0], [1, -1], [0, 1, 2])
        for keep in (False, True)
    ),
    OpCase(
        "SparseReduceSum/scalar axis",
        "SparseReduceSum",
        [_INDICES, _VALUES, _SHAPE, np.int32(1)],
        expected=_summed(False),
    ),
    OpCase(
        "SparseReduceSum/no axes",
        "SparseReduceSum",
        [_INDICES, _VALUES, _SHAPE, np.zeros(0, np.int32)],
        expected=_summed(False),
    ),
    OpCase(
        "SparseReduceSum/no elements",
        "SparseReduceSum",
        [_none(2), _f32(), _i64(2, 3), _i32(0)],
        expected=np.zeros(3, np.float32),
    ),
    OpCase(
        "SparseReduceSum/T09 float16",
        "SparseReduceSum",
        [np.arange(5000)[:, None], np.ones(5000, np.float16), _i64(5000), _i32(0)],
        expected=np.float16(5000),
        differentiate=(),
    ),
    OpCase(
        "SparseReduceSum/axis too large",
        "SparseReduceSum",
        [_INDICES, _VALUES, _SHAPE, _i32(2)],
        raises="out of range",
    ),
    OpCase(
        "SparseReduceSum/index too large",
        "SparseReduceSum",
        [_i64([4]), _f32(1), _i64(4), _i32(0)],
        raises="index is out of range",
        deviation="TensorFlow does not look at summed indices",
    ),
]

_FILL = [
    *(
        OpCase(
            f"SparseFillEmptyRows/{dtype}",
            "SparseFillEmptyRows",
            [_i64([0, 1], [0, 3], [2, 0], [2, 1]), numbers(dtype, 4), _i64(5, 6), numbers(dtype, 1, seed=5)[0]],
            expected=lambda i, v, s, d: (
                _i64([0, 1], [0, 3], [1, 0], [2, 0], [2, 1], [3, 0], [4, 0]),
                np.array([v[0], v[1], d, v[2], v[3], d, d], v.dtype),
                [False, True, False, True, True],
                _i64(0, 1, 3, 4),
            ),
        )
        for dtype in ("float32", "float64", "int32", "complex64")
    ),
    OpCase(
        "SparseFillEmptyRows/rows in any order",
        "SparseFillEmptyRows",
        [_i64([2, 0], [0, 3], [0, 1]), _f32(1, 2, 3), _i64(3, 6), np.float32(9)],
        expected=(_i64([0, 3], [0, 1], [1, 0], [2, 0]), _f32(2, 3, 9, 1), [False, True, False], _i64(3, 0, 1)),
    ),
    OpCase(
        "SparseFillEmptyRows/no elements",
        "SparseFillEmptyRows",
        [_none(2), _f32(), _i64(2, 3), np.float32(9)],
        expected=(_i64([0, 0], [1, 0]), _f32(9, 9), [True, True], _i64()),
    ),
    OpCase(
        "SparseFillEmptyRows/no rows",
        "SparseFillEmptyRows",
        [_none(2), _f32(), _i64(0, 3), np.float32(9)],
        expected=(_none(2), _f32(), np.zeros(0, bool), _i64()),
        differentiate=(),
    ),
    *(
        OpCase(
            f"SparseFillEmptyRows/{what}",
            "SparseFillEmptyRows",
            [indices, _f32(1), shape, default],
            raises=text,
        )
        for what, indices, shape, default, text in (
            ("row too large", _i64([2, 0]), _i64(2, 3), np.float32(0), "index is out of range"),
            ("default of rank 1", _i64([0, 0]), _i64(2, 3), _f32(0), "scalar"),
            ("rank 0", np.zeros((1, 0), np.int64), _i64(), np.float32(0), "no rows"),
        )
    ),
    OpCase(
        "SparseFillEmptyRowsGrad/O45 empty",
        "SparseFillEmptyRowsGrad",
        [_i64(), _f32()],
        expected=(_f32(), np.float32(0)),
    ),
    OpCase(
        "SparseFillEmptyRowsGrad/float32",
        "SparseFillEmptyRowsGrad",
        [_i64(2, 1), _f32(1, 2, 3, 4)],
        expected=(_f32(3, 2), np.float32(5)),
    ),
    OpCase(
        "SparseFillEmptyRowsGrad/O45 bad map",
        "SparseFillEmptyRowsGrad",
        [_i64(5, -1), _f32(1, 2, 3)],
        raises="index is out of range",
    ),
    OpCase(
        "SparseFillEmptyRowsGrad/map of rank 2",
        "SparseFillEmptyRowsGrad",
        [_i64([0]), _f32(1)],
        raises="vector|rank",
    ),
]


def _soft(indices: Any, values: Any, shape: Any) -> Any:
    result = np.zeros(len(values))
    rows = [tuple(index[:-1]) for index in indices.tolist()]
    for row in set(rows):
        chosen = [position for position, other in enumerate(rows) if other == row]
        powers = np.exp(values[chosen].astype(np.float64) - values[chosen].max())
        result[chosen] = powers / powers.sum()
    return result.astype(values.dtype)


_ORDERED = _i64([0, 0, 1], [0, 2, 0], [0, 2, 1], [2, 0, 0], [2, 0, 1])
_SOFTMAX = [
    *(
        OpCase(f"SparseSoftmax/{dtype}", "SparseSoftmax", [_ORDERED, numbers(dtype, 5), _ODD_SHAPE], expected=_soft)
        for dtype in ("float16", "float32", "float64")
    ),
    OpCase(
        "SparseSoftmax/large",
        "SparseSoftmax",
        [_i64([0, 0], [0, 1]), _f32(1000, 1000), _i64(1, 2)],
        expected=_f32(0.5, 0.5),
    ),
    OpCase("SparseSoftmax/no elements", "SparseSoftmax", [_none(2), _f32(), _i64(2, 3)], expected=_f32()),
    OpCase(
        "SparseSoftmax/NaN",
        "SparseSoftmax",
        [_i64([0, 0], [0, 1], [1, 0]), _f32(_NAN, 1, 2), _i64(2, 2)],
        expected=_f32(_NAN, _NAN, 1),
        differentiate=(),
    ),
    OpCase("SparseSoftmax/vector", "SparseSoftmax", [_i64([0]), _f32(1), _i64(2)], raises="rank >= 2"),
    OpCase(
        "SparseSoftmax/out of order",
        "SparseSoftmax",
        [_i64([1, 0], [0, 0]), _f32(1, 2), _i64(2, 2)],
        raises="out of order",
        deviation="TensorFlow takes each run of equal rows as one",
    ),
    OpCase(
        "SparseSoftmax/index too large",
        "SparseSoftmax",
        [_i64([2, 0]), _f32(1), _i64(2, 2)],
        raises="index is out of range",
        deviation="TensorFlow does not look at the indices",
    ),
]

_WITH_DENSE = [
    *(
        OpCase(
            f"SparseTensorDenseAdd/{dtype}",
            "SparseTensorDenseAdd",
            [_INDICES, numbers(dtype, 4), _SHAPE, numbers(dtype, 4, 5, seed=1)],
            expected=lambda i, v, s, b: (b + _dense(i, v, s)).astype(b.dtype),
        )
        for dtype in _NUMERIC
    ),
    OpCase(
        "SparseTensorDenseAdd/repeated, int32 indices",
        "SparseTensorDenseAdd",
        [np.array([[1], [1]], np.int32), _f32(2, 3), np.array([2], np.int32), _f32(10, 20)],
        expected=_f32(10, 25),
    ),
    OpCase(
        "SparseTensorDenseAdd/no elements",
        "SparseTensorDenseAdd",
        [_none(1), _f32(), _i64(2), _f32(1, _NAN)],
        expected=_f32(1, _NAN),
        differentiate=(),
    ),
    OpCase(
        "SparseTensorDenseAdd/shapes differ",
        "SparseTensorDenseAdd",
        [_i64([0]), _f32(1), _i64(3), _f32(1, 2)],
        raises="shapes differ",
    ),
    OpCase(
        "SparseTensorDenseAdd/index too large",
        "SparseTensorDenseAdd",
        [_i64([2]), _f32(1), _i64(2), _f32(1, 2)],
        raises="index is out of range",
    ),
    *(
        OpCase(
            f"SparseDenseCwiseMul/{dtype} {list(shape)}",
            "SparseDenseCwiseMul",
            [_INDICES, numbers(dtype, 4), _SHAPE, numbers(dtype, *shape, seed=1)],
            expected=lambda i, v, s, d: (v * np.broadcast_to(d, s)[tuple(i.T)]).astype(v.dtype),
        )
        for dtype in ("float32", "float64", "int32", "complex64")
        for shape in ((4, 5), (5,), (4, 1), (1, 5))
    ),
    OpCase(
        "SparseDenseCwiseMul/scalar",
        "SparseDenseCwiseMul",
        [_INDICES, _VALUES, _SHAPE, np.float32(3)],
        expected=_VALUES * 3,
    ),
    OpCase(
        "SparseDenseCwiseMul/no elements",
        "SparseDenseCwiseMul",
        [_none(1), _f32(), _i64(2), _f32(1, 2)],
        expected=_f32(),
    ),
    OpCase(
        "SparseDenseCwiseMul/infinite",
        "SparseDenseCwiseMul",
        [_i64([0], [1]), _f32(0, 2), _i64(2), _f32(np.inf, _NAN)],
        expected=_f32(_NAN, _NAN),
        differentiate=(),
    ),
    OpCase(
        "SparseDenseCwiseMul/does not broadcast",
        "SparseDenseCwiseMul",
        [_INDICES, _VALUES, _SHAPE, np.ones(4, np.float32)],
        raises="only the dense side",
    ),
    OpCase(
        "SparseDenseCwiseMul/rank too large",
        "SparseDenseCwiseMul",
        [_INDICES, _VALUES, _SHAPE, np.ones((1, 4, 5), np.float32)],
        raises="only the dense side",
    ),
]


def _in_parts(axis: int, number: int) -> Callable[..., Any]:
    def expected(_: Any, indices: Any, values: Any, shape: Any) -> Any:
        parts, start = [], 0
        for section in np.array_split(np.arange(int(shape[axis])), number):
            begin, size = np.zeros_like(shape), shape.copy()
            begin[axis], size[axis] = start, len(section)
            parts.append(_boxed(indices, values, shape, begin, size))
            start += len(section)
        return [item for group in zip(*parts, strict=True) for item in group]

    return expected


_SPLIT = [
    *(
        OpCase(
            f"SparseSplit/{dtype} axis {axis} in {number}",
            "SparseSplit",
            [np.int64(axis), _INDICES, numbers(dtype, 4), _SHAPE],
            {"num_split": number},
            expected=_in_parts(axis, number),
        )
        for dtype in ("float32", "int32", "complex64")
        for axis, number in ((0, 1), (0, 3), (1, 2))
    ),
    OpCase(
        "SparseSplit/no elements",
        "SparseSplit",
        [np.int64(0), _none(1), _f32(), _i64(3)],
        {"num_split": 2},
        expected=[_none(1), _none(1), _f32(), _f32(), _i64(2), _i64(1)],
    ),
    OpCase(
        "SparseSplit/too many parts",
        "SparseSplit",
        [np.int64(0), _INDICES, _VALUES, _SHAPE],
        {"num_split": 5},
        raises="too many parts",
    ),
    OpCase(
        "SparseSplit/axis too large",
        "SparseSplit",
        [np.int64(2), _INDICES, _VALUES, _SHAPE],
        {"num_split": 1},
        raises="out of range",
    ),
]

CASES = [
    *_TO_DENSE,
    *_MATMUL,
    *_REORDER,
    *_ADD,
    *_RESHAPE,
    *_CONCAT,
    *_SLICE,
    *_SUM,
    *_FILL,
    *_SOFTMAX,
    *_WITH_DENSE,
    *_SPLIT,
]
