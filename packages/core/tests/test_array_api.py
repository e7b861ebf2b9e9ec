"""The names, signatures and special cases of the array API standard 2024.12.

Source: https://data-apis.org/array-api/2024.12/API_specification/
"""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import headrace as hr


def words(text: str) -> list[str]:
    return text.split()


# Each name with its parameters: those given by position, then, after a star, those given by name.
STANDARD = """
arange(start, stop, step, *, dtype, device) asarray(obj, *, dtype, device, copy) empty(shape, *, dtype, device)
empty_like(x, *, dtype, device) eye(n_rows, n_cols, *, k, dtype, device) from_dlpack(x, *, device, copy)
full(shape, fill_value, *, dtype, device) full_like(x, fill_value, *, dtype, device)
linspace(start, stop, num, *, dtype, device, endpoint) meshgrid(a, b, *, indexing) ones(shape, *, dtype, device)
ones_like(x, *, dtype, device) tril(x, *, k) triu(x, *, k) zeros(shape, *, dtype, device)
zeros_like(x, *, dtype, device)

astype(x, dtype, *, copy, device) can_cast(from_, to) finfo(type) iinfo(type) isdtype(dtype, kind) result_type(a, b)

abs(x) acos(x) acosh(x) add(x1, x2) asin(x) asinh(x) atan(x) atan2(x1, x2) atanh(x) bitwise_and(x1, x2)
bitwise_left_shift(x1, x2) bitwise_invert(x) bitwise_or(x1, x2) bitwise_right_shift(x1, x2) bitwise_xor(x1, x2) ceil(x)
clip(x, min, max) conj(x) copysign(x1, x2) cos(x) cosh(x) divide(x1, x2) equal(x1, x2) exp(x) expm1(x) floor(x)
floor_divide(x1, x2) greater(x1, x2) greater_equal(x1, x2) hypot(x1, x2) imag(x) isfinite(x) isinf(x) isnan(x)
less(x1, x2) less_equal(x1, x2) log(x) log1p(x) log2(x) log10(x) logaddexp(x1, x2) logical_and(x1, x2) logical_not(x)
logical_or(x1, x2) logical_xor(x1, x2) maximum(x1, x2) minimum(x1, x2) multiply(x1, x2) negative(x) nextafter(x1, x2)
not_equal(x1, x2) positive(x) pow(x1, x2) real(x) reciprocal(x) remainder(x1, x2) round(x) sign(x) signbit(x) sin(x)
sinh(x) square(x) sqrt(x) subtract(x1, x2) tan(x) tanh(x) trunc(x)

take(x, indices, *, axis) take_along_axis(x, indices, *, axis) __array_namespace_info__()
matmul(x1, x2) matrix_transpose(x) tensordot(x1, x2, *, axes) vecdot(x1, x2, *, axis)
broadcast_arrays(a, b) broadcast_to(x, shape) concat(arrays, *, axis) expand_dims(x, *, axis) flip(x, *, axis)
moveaxis(x, source, destination) permute_dims(x, axes) repeat(x, repeats, *, axis) reshape(x, shape, *, copy)
roll(x, shift, *, axis) squeeze(x, axis) stack(arrays, *, axis) tile(x, repetitions) unstack(x, *, axis)
argmax(x, *, axis, keepdims) argmin(x, *, axis, keepdims) count_nonzero(x, *, axis, keepdims) nonzero(x)
searchsorted(x1, x2, *, side, sorter) where(condition, x1, x2)
unique_all(x) unique_counts(x) unique_inverse(x) unique_values(x)
argsort(x, *, axis, descending, stable) sort(x, *, axis, descending, stable)
cumulative_prod(x, *, axis, dtype, include_initial) cumulative_sum(x, *, axis, dtype, include_initial)
max(x, *, axis, keepdims) mean(x, *, axis, keepdims) min(x, *, axis, keepdims) prod(x, *, axis, dtype, keepdims)
std(x, *, axis, correction, keepdims) sum(x, *, axis, dtype, keepdims) var(x, *, axis, correction, keepdims)
all(x, *, axis, keepdims) any(x, *, axis, keepdims) diff(x, *, axis, n, prepend, append)

linalg.cholesky(x, *, upper) linalg.cross(x1, x2, *, axis) linalg.det(x) linalg.diagonal(x, *, offset) linalg.eigh(x)
linalg.eigvalsh(x) linalg.inv(x) linalg.matmul(x1, x2) linalg.matrix_norm(x, *, keepdims, ord) linalg.matrix_power(x, n)
linalg.matrix_rank(x, *, rtol) linalg.matrix_transpose(x) linalg.outer(x1, x2) linalg.pinv(x, *, rtol)
linalg.qr(x, *, mode) linalg.slogdet(x) linalg.solve(x1, x2) linalg.svd(x, *, full_matrices) linalg.svdvals(x)
linalg.tensordot(x1, x2, *, axes) linalg.trace(x, *, offset, dtype) linalg.vecdot(x1, x2, *, axis)
linalg.vector_norm(x, *, axis, keepdims, ord)

fft.fft(x, *, n, axis, norm) fft.ifft(x, *, n, axis, norm) fft.fftn(x, *, s, axes, norm) fft.ifftn(x, *, s, axes, norm)
fft.rfft(x, *, n, axis, norm) fft.irfft(x, *, n, axis, norm) fft.rfftn(x, *, s, axes, norm)
fft.irfftn(x, *, s, axes, norm) fft.hfft(x, *, n, axis, norm) fft.ihfft(x, *, n, axis, norm)
fft.fftfreq(n, *, d, dtype, device) fft.rfftfreq(n, *, d, dtype, device) fft.fftshift(x, *, axes)
fft.ifftshift(x, *, axes)
"""
VALUES = words("""
e inf nan newaxis pi bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128
__array_api_version__
""")
METHODS = words("""
__abs__ __add__ __and__ __array_namespace__ __bool__ __complex__ __dlpack__ __dlpack_device__ __eq__ __float__
__floordiv__ __ge__ __getitem__ __gt__ __index__ __int__ __invert__ __le__ __lshift__ __lt__ __matmul__ __mod__
__mul__ __ne__ __neg__ __or__ __pos__ __pow__ __rshift__ __setitem__ __sub__ __truediv__ __xor__ __radd__ __rsub__
__rmul__ __rtruediv__ __rfloordiv__ __rmod__ __rpow__ __rmatmul__ __rand__ __ror__ __rxor__ __rlshift__ __rrshift__ T
dtype device mT ndim shape size to_device
""")

ABSENT = {
    "from_dlpack": "a tensor of a graph has no memory; hr.asarray(np.from_dlpack(x)) takes the values of an array",
}
"""Names that are absent, and why."""
ABSENT_PARAMETERS = {
    "device": "`with hr.device(...)` places what a block builds",
    "copy": "a tensor is a value; only asarray and astype, which may convert, take the word",
}
ABSENT_METHODS = {
    "__array_namespace__": "a symbolic tensor is not an array: programs for arrays would ask it for values",
    "__complex__": "Python asks __float__, which says that there is no value yet",
    "__dlpack__": "there is no memory",
    "__dlpack_device__": "the same",
    "__setitem__": "a tensor is a value; hr.tensor_scatter_update gives a changed one",
    "device": "operations are placed, `tensor.op.device` says where",
    "ndim": "`tensor.rank`, which may be unknown",
    "size": "`tensor.shape.num_elements`, which may be unknown, or hr.size in the graph",
    "to_device": "`with hr.device(...)`; values are moved as needed",
}


def entries_of(text):
    for item in text.replace("\n", " ").split(")"):
        name, bracket, parameters = item.strip().partition("(")
        if bracket:
            positional, _, keywords = parameters.partition("*")
            yield (
                name,
                [p.strip() for p in positional.split(",") if p.strip()],
                [p.strip() for p in keywords.split(",") if p.strip()],
            )


ENTRIES = list(entries_of(STANDARD))


def find(name):
    value = hr
    for part in name.split("."):
        value = getattr(value, part, None)
    return value


@pytest.mark.parametrize(("name", "positional", "keywords"), ENTRIES, ids=[name for name, _, _ in ENTRIES])
def test_function_is_present_with_the_standards_signature(name, positional, keywords):
    function = find(name)
    if name in ABSENT:
        assert function is None, f"{name} is present: strike it from ABSENT"
        return
    assert function is not None, f"{name} is absent without a reason"
    signature = inspect.signature(function)
    taken = [keyword for keyword in keywords if keyword in signature.parameters or keyword not in ABSENT_PARAMETERS]
    signature.bind(*positional, **dict.fromkeys(taken))
    assert function.__doc__
    assert "Example:" in function.__doc__


@pytest.mark.parametrize("name", VALUES)
def test_value_is_present(name):
    assert hasattr(hr, name)
    assert name in hr.__all__


@pytest.mark.parametrize("name", METHODS)
def test_method_is_present_or_there_is_a_reason(name):
    assert hasattr(hr.Tensor, name) is (name not in ABSENT_METHODS)


def test_every_function_has_one_name():
    """The namespaces of the standard share four functions; nothing else is there twice."""
    seen = {}
    for prefix, module in (("", hr), ("linalg.", hr.linalg), ("fft.", hr.fft), ("nn.", hr.nn), ("random.", hr.random)):
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isfunction(value):
                seen.setdefault(value, []).append(prefix + name)
    shared = [names for names in seen.values() if len(names) > 1]
    assert sorted(shared) == [
        [name, f"linalg.{name}"] for name in ("matmul", "matrix_transpose", "tensordot", "vecdot")
    ]


SPECIAL = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, 2.0, -2.0, 2.5, -2.5, 3.0, -3.0, np.inf, -np.inf, np.nan]
NUMPY_NAMES = {"acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan",
               "atanh": "arctanh"}  # fmt: skip
UNARY = words("""
abs acos acosh asin asinh atan atanh ceil cos cosh exp expm1 floor isfinite isinf isnan log log1p log2 log10 negative
positive reciprocal round sign signbit sin sinh square sqrt tan tanh trunc
""")
BINARY = words("""
add atan2 copysign divide equal greater greater_equal hypot less less_equal logaddexp maximum minimum multiply
nextafter not_equal pow remainder subtract
""")


def value_of(function, *arrays):
    with hr.Graph().as_default() as graph:
        inputs = [hr.placeholder(x.dtype, x.shape) for x in arrays]
        result = function(*inputs)
    return hr.Session(graph).run(result, feeds=dict(zip(inputs, arrays, strict=True)))


def assert_special_cases(actual, wanted, rtol):
    """Equal where the result is special (zeros with their signs, infinities, NaN, truth), close elsewhere."""
    assert actual.dtype == wanted.dtype
    np.testing.assert_allclose(actual, wanted, rtol=rtol, atol=0)
    if actual.dtype != bool:
        zero = wanted == 0
        np.testing.assert_array_equal(np.signbit(actual[zero]), np.signbit(wanted[zero]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", UNARY)
def test_special_cases_of_one_operand(name, dtype):
    x = np.array(SPECIAL, dtype)
    with np.errstate(all="ignore"):
        wanted = getattr(np, NUMPY_NAMES.get(name, name))(x)
    assert_special_cases(value_of(getattr(hr, name), x), wanted, 1e-6 if dtype is np.float32 else 1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", BINARY)
def test_special_cases_of_two_operands(name, dtype):
    x, y = (part.reshape(-1) for part in np.meshgrid(np.array(SPECIAL, dtype), np.array(SPECIAL, dtype)))
    with np.errstate(all="ignore"):
        wanted = getattr(np, {"atan2": "arctan2"}.get(name, name))(x, y)
    assert_special_cases(value_of(getattr(hr, name), x, y), wanted, 1e-6 if dtype is np.float32 else 1e-14)


def test_special_cases_of_floor_divide_are_those_of_the_quotient_rounded_down():
    x, y = (part.reshape(-1) for part in np.meshgrid(SPECIAL, SPECIAL))
    with np.errstate(all="ignore"):
        assert_special_cases(value_of(hr.floor_divide, x, y), np.floor(x / y), 0)


def test_clip_keeps_nan_of_each_operand():
    x = np.array([np.nan, 1.0, 1.0])
    result = value_of(lambda x: hr.clip(x, np.array([0.0, np.nan, 0.0]), np.array([2.0, 2.0, np.nan])), x)
    assert np.isnan(result).all()


@pytest.mark.parametrize(
    "name", ["max", "min", "sum", "prod", "mean", "std", "var", "cumulative_sum", "cumulative_prod"]
)
def test_statistics_spread_nan(name):
    assert np.isnan(value_of(getattr(hr, name), np.array([1.0, np.nan]))).any()


def test_statistics_of_nothing():
    empty = np.zeros(0, np.float32)
    assert value_of(hr.sum, empty) == 0
    assert value_of(hr.prod, empty) == 1
    assert np.isnan(value_of(hr.mean, empty))
    assert value_of(hr.all, empty)
    assert not value_of(hr.any, empty)
