"""Operators one by one: what the printer says it has compiles, for every dtype and at every number of lanes."""

from __future__ import annotations

import numpy as np
import pytest
from written import compiled

from headrace.types import Array, DType, as_dtype, bfloat16, float32
from headrace.types import bool as boolean
from headrace_cpu.llvm.text import Text, compute_type, storage_type
from headrace_cpu.loops.scalars import cast, computed, constant, extreme, prints

DTYPES = [
    as_dtype(name)
    for name in ("bool", "int8", "uint8", "int16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16")
] + [as_dtype("float32"), as_dtype("float64")]
COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge", "isfinite"}
BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "max": np.maximum, "min": np.minimum, "pow": np.power, "eq": np.equal,
    "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
UNARY = {
    "neg": np.negative, "abs": np.abs, "sign": np.sign, "not": np.invert, "floor": np.floor, "ceil": np.ceil,
    "rint": np.rint, "sqrt": np.sqrt, "isfinite": np.isfinite, "exp": np.exp, "log": np.log, "tanh": np.tanh,
    "sin": np.sin, "cos": np.cos,
}  # fmt: skip
TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-6}


def loaded(t: Text, pointer: str, dtype: DType) -> str:
    """The element at a pointer, in a register, in every lane."""
    value = t.put(f"load {storage_type(dtype)}, ptr {pointer}")
    if dtype is boolean:
        value = t.put(f"trunc i8 {value} to i1")
    return t.splat(value, compute_type(dtype))


def stored(t: Text, pointer: str, value: str, dtype: DType) -> None:
    """Write the last lane to a pointer."""
    element = compute_type(dtype)
    if t.lanes > 1:
        value = t.put(f"extractelement {t.type(element)} {value}, i64 {t.lanes - 1}")
    if dtype is boolean:
        value, element = t.put(f"zext i1 {value} to i8"), "i8"
    t.line(f"store {element} {value}, ptr {pointer}")


def result(op: str, dtype: DType, lanes: int, *values: Array) -> Array:
    """An operator applied to numbers one by one."""
    target = boolean if op in COMPARISONS else dtype

    def write(t: Text, pointers: list[str]) -> None:
        t.lanes = lanes
        *inputs, out = pointers
        args = [loaded(t, pointer, dtype) for pointer in inputs]
        made = extreme(t, op, args[0], args[1], dtype) if op in ("max", "min") else computed(t, op, args, dtype, target)
        stored(t, out, made, target)

    function = compiled(write, len(values) + 1)
    found = np.zeros(values[0].size, target.array_type)
    for number in range(found.size):
        assert function(*[value[number : number + 1] for value in values], found[number : number + 1]) == 0
    return found


def numbers(dtype: DType) -> tuple[Array, Array]:
    """Operands that no operator overflows with, zero, equal ones and negative ones among them."""
    if dtype is boolean:
        return np.array([0, 0, 1, 1], np.bool_), np.array([0, 1, 0, 1], np.bool_)
    a, b = [3, 2, 1, 0, 7], [2, 2, 3, 1, 1]
    if dtype.kind == "uint":
        return np.array(a, dtype.array_type), np.array(b, dtype.array_type)
    return np.array([*a, -3, -5], dtype.array_type), np.array([*b, 2, 3], dtype.array_type)


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize(
    ("op", "dtype"), [(op, dtype) for op in (*BINARY, *UNARY) for dtype in DTYPES if prints(op, dtype)], ids=str
)
def test_what_the_printer_says_it_has_is_what_numpy_computes(op: str, dtype: DType, lanes: int) -> None:
    a, b = numbers(dtype)
    if op in ("log", "sqrt", "pow"):
        a = np.abs(a) + np.asarray(1, dtype.array_type)
    given = (a, b) if op in BINARY else (a,)
    found = result(op, dtype, lanes, *given)
    wide = [value.astype(np.float64) for value in given] if dtype.is_floating else given
    wanted = (BINARY | UNARY)[op](*wide)
    limit = TOLERANCE.get(dtype.name, 1e-14 if dtype.is_floating else 0)
    np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=limit, atol=limit)


@pytest.mark.parametrize("op", ["max", "min"])
@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype.is_floating], ids=str)
def test_an_extreme_is_nan_if_one_of_two_is(op: str, dtype: DType) -> None:
    nan, inf = np.nan, np.inf
    a, b = (np.array(row, dtype.array_type) for row in ([nan, 1, nan, -inf, inf], [1, nan, nan, nan, 2]))
    found = result(op, dtype, 8, a, b).astype(np.float64)
    np.testing.assert_array_equal(found, [nan, nan, nan, nan, inf if op == "max" else 2])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_arithmetic_of_a_dtype_is_printed(dtype: DType) -> None:
    """So that what is left out above is known to be none of these."""
    usual = {"and", "or", "xor", "not"} if dtype is boolean else {"add", "sub", "mul", "max", "min", "neg", "abs", "lt"}
    if dtype.is_floating:
        usual |= {"div", "sqrt", "floor", "pow", "isfinite", "exp", "log", "tanh"}
    assert {op for op in usual if not prints(op, dtype)} == set()


@pytest.mark.parametrize("op", ["unknown", "reduce", "input"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_what_is_no_operator_is_not_printed(op: str, dtype: DType) -> None:
    assert not prints(op, dtype)


@pytest.mark.parametrize("name", ["string", "complex64", "resource"])
def test_nothing_of_other_dtypes_is_printed(name: str) -> None:
    assert not any(prints(op, as_dtype(name)) for op in (*BINARY, *UNARY, "load", "cast"))


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize(
    ("number", "dtype"),
    [
        (True, boolean), (-3, as_dtype("int8")), (2**63 - 1, as_dtype("int64")), (0.1, float32), (1e300, float32),
        (0.1, bfloat16), (float("nan"), bfloat16), (65519.0, as_dtype("float16")), (-0.0, as_dtype("float64")),
    ],
    ids=str,
)  # fmt: skip
def test_a_constant_is_rounded_to_its_dtype(number: float, dtype: DType, lanes: int) -> None:
    def write(t: Text, pointers: list[str]) -> None:
        t.lanes = lanes
        copied = t.convert("bitcast", constant(t, number, dtype), compute_type(dtype), compute_type(dtype))
        stored(t, pointers[0], copied, dtype)

    out = np.zeros(1, dtype.array_type)
    compiled(write, 1)(out)
    with np.errstate(over="ignore"):
        wanted = np.asarray([number]).astype(dtype.array_type)
    if number == number:
        assert out.tobytes() == wanted.tobytes()
    else:
        assert np.isnan(out.astype(np.float32)).all()


@pytest.mark.parametrize("source", DTYPES, ids=str)
@pytest.mark.parametrize("target", DTYPES, ids=str)
def test_a_cast_is_that_of_numpy(source: DType, target: DType) -> None:
    """Of numbers that both dtypes hold, and of those that one truncates or wraps."""
    values = np.array([0, 1] if source is boolean else [0, 1, 100, 127], source.array_type)
    if source.kind in ("int", "float") and target.kind != "uint":
        values = np.append(values, np.array([-7], source.array_type))
    if source.kind == "float" and target.kind in ("bool", "float"):
        values = np.append(values, np.array([0.5, -0.0, np.nan, -np.inf], source.array_type))
    if source.kind in ("int", "uint") and source.size > 1 and target.kind in ("int", "uint"):
        values = np.append(values, np.array([300], source.array_type))
    found = np.zeros(values.size, target.array_type)

    def write(t: Text, pointers: list[str]) -> None:
        stored(t, pointers[1], cast(t, loaded(t, pointers[0], source), source, target), target)

    function = compiled(write, 2)
    for number in range(values.size):
        function(values[number : number + 1], found[number : number + 1])
    np.testing.assert_array_equal(found.astype(np.float64), values.astype(target.array_type).astype(np.float64))
