"""Products with casts before and an epilogue after them: the same numbers, fewer values, and NaN stays to be seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from laid_out import needs_avx512

import headrace as hr
from headrace.interfaces import Functions
from headrace.passes import optimize, prune
from headrace.plan import Program
from headrace.types import bfloat16
from headrace_cpu.llvm.host import host
from headrace_cpu.onednn import onednn
from headrace_cpu.primitives.choice import primitive_call
from headrace_cpu.scheduling.absorbing import Absorbed, absorb
from headrace_cpu.scheduling.requests import Requests

pytestmark = pytest.mark.skipif(onednn() is None, reason="oneDNN is not installed")
needs_bfloat16 = pytest.mark.skipif(not host().multiplies_bfloat16, reason="no instructions for bfloat16")

Build = Callable[..., Any]


def normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def graph_of(build: Build, arrays: Any) -> tuple[hr.Graph, list[hr.Tensor], Any]:
    graph = hr.Graph()
    with graph.as_default():
        inputs = [hr.placeholder(hr.float32, array.shape) for array in arrays]
        return graph, inputs, build(*inputs)


def absorbed(build: Build, *arrays: Any, options: hr.Config | None = None) -> tuple[Program, Absorbed]:
    graph, inputs, made = graph_of(build, arrays)
    outputs = made if isinstance(made, list) else [made]
    bounded = optimize(prune(graph, outputs, [], inputs), options or hr.config())
    with hr.Session(graph) as session:
        program = Program.of(bounded, session.resources, no_functions())
    return program, absorb(program, primitive_call, Requests(program))


def no_functions() -> Functions:
    return None  # type: ignore[return-value]  # no operation here calls one


def names(program: Program, found: Absorbed) -> list[str]:
    """The types of the lines that stay."""
    return [line.op.type for place, line in enumerate(program.lines) if place not in found.lines]


def compared(build: Build, *arrays: Any, options: Any = None, tolerance: float = 5e-6) -> None:
    graph, inputs, outputs = graph_of(build, arrays)
    found = []
    for backend in ("cpu", "numpy"):
        with hr.config(backend=backend):
            chosen = hr.config() if options is None else options()
        with hr.Session(graph, config=chosen) as session:
            step = session.make_callable(outputs if isinstance(outputs, list) else [outputs], inputs)
            step(*arrays)
            found.append(step(*arrays))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance * float(np.abs(theirs).max()))


def conv(x: hr.Tensor, k: hr.Tensor, b: hr.Tensor, r: hr.Tensor) -> hr.Tensor:
    return hr.nn.relu(r + (hr.nn.conv2d(x, k) + b))


CONV = normal(2, 5, 6, 3), normal(3, 3, 3, 20), normal(20), normal(2, 5, 6, 20)


@pytest.mark.parametrize("narrow", [False, pytest.param(True, marks=needs_bfloat16)])
def test_a_convolution_goes_on_with_bias_and_sum(narrow: bool) -> None:
    program, found = absorbed(conv, *CONV)
    assert names(program, found) == ["AddV2", "Relu"]
    (call,) = found.calls.values()
    assert program.lines[call.line].op.type == "Conv2D"
    assert len(call.extras) == 2
    compared(conv, *CONV, options=hr.mixed_precision if narrow else None)


@pytest.mark.parametrize("narrow", [False, pytest.param(True, marks=needs_bfloat16)])
def test_so_does_a_matrix_product(narrow: bool) -> None:
    def build(x: hr.Tensor, w: hr.Tensor, b: hr.Tensor, r: hr.Tensor) -> hr.Tensor:
        return hr.nn.relu(hr.nn.bias_add(x @ w, b) + r)

    arrays = normal(70, 19), normal(19, 33), normal(33), normal(70, 33)
    assert names(*absorbed(build, *arrays)) == ["AddV2", "Relu"]
    compared(build, *arrays, options=hr.mixed_precision if narrow else None)


@needs_bfloat16
def test_what_is_added_and_what_comes_out_may_be_narrow() -> None:
    def build(x: hr.Tensor, k: hr.Tensor, b: hr.Tensor, r: hr.Tensor) -> hr.Tensor:
        y = hr.nn.relu(hr.nn.conv2d(x, k) + b + x)
        return hr.nn.conv2d(y, k) + r

    k, b, r = normal(3, 3, 20, 20), normal(20), normal(1, 1, 20)
    program, found = absorbed(build, normal(2, 5, 6, 20), k, b, r, options=hr.mixed_precision())
    assert names(program, found).count("Cast") == 5  # of x, of the filters, to and from relu, of what comes out
    dtypes = [program.tensors[number].dtype.name for call in found.calls.values() for number in call.extras]
    assert dtypes == ["float32", "bfloat16"] or dtypes == ["float32", "float32"]
    compared(build, normal(2, 5, 6, 20), k, b, r, options=hr.mixed_precision, tolerance=2e-2)


@needs_bfloat16
def test_constants_are_prepared_when_the_plan_is_made_also_in_bfloat16() -> None:
    k, w = normal(3, 3, 16, 32), normal(512, 64)

    def build(x: hr.Tensor) -> hr.Tensor:
        return hr.reshape(hr.nn.relu(hr.nn.conv2d(x, k, strides=2) + w[0, :32]), [2, 512]) @ w

    program, found = absorbed(build, normal(2, 8, 8, 16), options=hr.mixed_precision())
    assert [len(call.step.constants) for call in found.calls.values()] == [1, 1]
    assert [len(call.step.primitives) for call in found.calls.values()] == [1, 1]  # nothing is reordered in a step
    others = [line.op.type for place, line in enumerate(program.lines) if place not in {*found.lines, *found.calls}]
    assert others == ["Cast", "Cast", "Relu", "Cast", "Reshape"]  # of what is fed, relu from and to bfloat16, the view
    compared(build, normal(2, 8, 8, 16), options=hr.mixed_precision, tolerance=2e-2)


def test_what_is_read_twice_is_written() -> None:
    def build(x: hr.Tensor, k: hr.Tensor, b: hr.Tensor, r: hr.Tensor) -> list[hr.Tensor]:
        y = hr.nn.conv2d(x, k) + b
        return [hr.nn.relu(y), y * r]

    program, found = absorbed(build, *CONV)
    assert names(program, found) == ["AddV2", "Relu", "Mul"]
    compared(build, *CONV)


def test_what_is_fetched_is_written() -> None:
    def build(x: hr.Tensor, k: hr.Tensor, b: hr.Tensor, r: hr.Tensor) -> list[hr.Tensor]:
        y = hr.nn.conv2d(x, k)
        return [y, hr.nn.relu(y + b), r]

    _, found = absorbed(build, *CONV)
    assert not found.calls
    compared(build, *CONV)


def test_of_two_products_that_are_added_one_goes_on() -> None:
    def build(x: hr.Tensor, w: hr.Tensor, b: hr.Tensor) -> hr.Tensor:
        return hr.nn.relu(x @ w + w @ x + b)

    arrays = normal(9, 9), normal(9, 9) * 0.5, normal(9)
    assert names(*absorbed(build, *arrays)) == ["MatMul", "AddV2", "Relu"]
    compared(build, *arrays)


def test_what_would_be_written_for_it_alone_is_not_added() -> None:
    def build(x: hr.Tensor, w: hr.Tensor, m: hr.Tensor) -> hr.Tensor:
        return hr.matmul(x, w) + m * 0.9

    arrays = normal(9, 9), normal(9, 9) * 0.5, normal(9, 9)
    assert names(*absorbed(build, *arrays)) == ["MatMul", "Mul", "AddV2"]
    compared(build, *arrays)


def test_gradients_through_an_epilogue() -> None:
    def build(x: hr.Tensor, k: hr.Tensor, b: hr.Tensor, r: hr.Tensor) -> list[hr.Tensor]:
        y = conv(x, k, b, r)
        return [y, *hr.gradients(hr.sum(hr.square(y)), [x, k, b, r])]

    compared(build, *CONV, tolerance=2e-5)


SPECIAL = np.array(
    [[-np.inf, np.inf, np.nan, -0.0, 0.0, 1e-40, -1e-40, 1e-45, -2.5, 3.0, -3.4e38, 3.4e38]] * 3, np.float32
)


@pytest.mark.parametrize("rounded", [False, pytest.param(True, marks=needs_bfloat16)])
@pytest.mark.parametrize("product", ["MatMul", "Conv2D"])
@pytest.mark.parametrize("biased", [False, True])
def test_relu_after_a_product_is_right_for_every_number(product: str, biased: bool, rounded: bool) -> None:
    """Products with 1, and 0 times 0 added to them, are the numbers as they are: relu has them all to decide.

    Rounding to bfloat16 keeps them but for denormals, which multiplication in bfloat16 takes for zeros.
    """

    def build(x: hr.Tensor, w: hr.Tensor, nothing: hr.Tensor) -> hr.Tensor:
        if product == "MatMul":
            y = hr.reshape(x, [36, 2]) @ w
        else:
            y = hr.nn.conv2d(hr.reshape(x, [1, 3, 12, 2]), hr.reshape(w, [1, 1, 2, 1]))
        return hr.reshape(hr.nn.relu(y + nothing if biased else y), [3, 12])

    factors = np.stack([SPECIAL, np.zeros_like(SPECIAL)], -1), np.array([[1], [0]], np.float32)
    arrays = [*factors, np.zeros(1, np.float32)]
    graph, inputs, y = graph_of(build, arrays)
    with hr.config(backend="cpu"):
        chosen = hr.mixed_precision() if rounded else hr.config()
    with hr.Session(graph, config=chosen) as session:
        result = session.run(y, feeds=dict(zip(inputs, arrays, strict=True)))
    numbers = SPECIAL.astype(bfloat16.array_type).astype(np.float32) if rounded else SPECIAL
    expected = np.where(numbers < 0, np.float32(0), numbers)
    if rounded:
        expected[:, 5:8] = 0
    np.testing.assert_array_equal(result, expected)
    assert not np.signbit(result[np.isfinite(result)]).any()


def test_a_variable_is_added_as_it_was_read() -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [4, 4])
        b = hr.Variable(np.zeros(4, np.float32))
        first = x @ x
        with hr.control_dependencies([first, b.value]):
            changed = b.assign_add(np.ones(4, np.float32))
        assert changed is not None
        with hr.control_dependencies([changed]):
            y = hr.nn.relu(first + b.value)
    eye = np.eye(4, dtype=np.float32)
    with hr.Session(graph, config=hr.config(backend="cpu")) as session:
        for _ in range(3):
            np.testing.assert_array_equal(session.run(y, feeds={x: eye})[0, 1:], np.full(3, session.run(b)[0] - 1))


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_EPILOGUES", "off")
    program, found = absorbed(conv, *CONV)
    assert not found.calls
    assert names(program, found) == ["Conv2D", "AddV2", "AddV2", "Relu"]


def recurrent(x: Any, w: Any, b: Any) -> Any:
    """Three steps, each a product with one weight and a bias, and the gradients of the weight and the first state."""
    state = x
    for _ in range(3):
        state = hr.tanh(state @ w + b)
    return [state, *hr.gradients(hr.sum(state * state), [w, x])]


def packings(found: Absorbed) -> list[int]:
    return sorted(call.packing for call in found.calls.values() if call.packing is not None)


@needs_avx512
def test_a_weight_of_several_products_is_packed_once_for_each_direction() -> None:
    program, found = absorbed(recurrent, normal(5, 48), normal(48, 48), normal(48))
    assert packings(found) == [0, 0, 0, 1, 1, 1]
    assert sum(line.op.type == "MatMul" for line in program.lines) == 9  # the other three are a sum of products


@pytest.mark.parametrize("rows", [1, 5, 33])
@pytest.mark.parametrize("width", [3, 48, 131])
def test_products_with_a_packed_weight_are_those_of_numpy(rows: int, width: int) -> None:
    compared(recurrent, normal(rows, width), 0.3 * normal(width, width), normal(width))


@needs_bfloat16
def test_products_of_bfloat16_read_a_packed_weight() -> None:
    arrays = normal(5, 48), 0.1 * normal(48, 48), normal(48)
    _, found = absorbed(recurrent, *arrays, options=hr.mixed_precision())
    assert packings(found) == [0, 0, 0, 1, 1, 1]
    compared(recurrent, *arrays, options=hr.mixed_precision, tolerance=2e-2)


@needs_avx512
def test_products_of_many_rows_copy_their_weight_themselves() -> None:
    _, found = absorbed(lambda x, w: hr.tanh(x @ w) @ w, normal(257, 16), normal(16, 16))
    assert packings(found) == []
    _, found = absorbed(lambda x, w: hr.tanh(x @ w) @ w, normal(256, 16), normal(16, 16))
    assert packings(found) == [0, 0]


def test_packing_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_PACKING", "off")
    _, found = absorbed(recurrent, normal(5, 48), normal(48, 48), normal(48))
    assert packings(found) == []


@pytest.mark.parametrize("between", [False, True])
def test_a_variable_is_packed_anew_after_it_has_changed(between: bool) -> None:
    """Each read gives what the variable holds then; reads with nothing between hold the same."""
    with hr.Graph().as_default() as graph:
        v = hr.Variable(normal(20, 20), name="v")
        x = hr.placeholder(hr.float32, [4, 20])
        first = x @ v.read()
        with hr.control_dependencies([first]):
            changed = [v.assign_add(np.ones((20, 20), np.float32))] if between else []
        with hr.control_dependencies(changed):
            second, third = x @ v.read(), (2.0 * x) @ v.read()
    with hr.Session(graph, config=hr.config(backend="cpu")) as session:
        weight, given = normal(20, 20), normal(4, 20)
        for step in range(2):
            results = session.run([first, second, third], feeds={x: given})
            after = weight + np.float32((step + 1) * between)
            before = weight + np.float32(step * between)
            for found, wanted in zip(results, (given @ before, given @ after, 2 * given @ after), strict=True):
                np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-4)
