"""The conformance kit finds what is wrong: each fault of a kernel that it looks for is planted here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.testing import check_backend, check_case, check_gradient
from headrace.testing.op_case import OpCase

X = np.array([1.0, 2.0], np.float32)


@hr.register_op("TestPlanted", inputs=dict(x="T"), outputs=dict(y="T"), attrs=dict(how=hr.attr.string()))
def _planted_shape(op):
    """x + 1, if its kernel has no fault."""
    return [op.inputs[0].shape if op.attr("how") != "spec" else hr.Shape([7])]


_KERNELS: dict[str, Callable[[np.ndarray], Any]] = {
    "right": lambda x: x + 1,
    "number": lambda x: x + 2,
    "view": lambda x: x,
    "raises": lambda x: (_ for _ in ()).throw(hr.errors.InvalidArgumentError("planted")),
    "spec": lambda x: x + 1,
}


@hr.register_kernel("TestPlanted")
def _planted(op, x):
    return _KERNELS[op.attr("how")](x)


def _case(how: str, **options: Any) -> OpCase:
    return OpCase(f"TestPlanted/{how}", "TestPlanted", [X], {"how": how}, **options)


def _built(how: str, **options: Any) -> OpCase:
    """A case that builds its operation itself, behind a list."""

    def build(apply: Callable[..., Any], x: Any) -> Any:
        rows = apply("TensorListFromTensor", x, np.int32(-1))
        return apply("TestPlanted", apply("TensorListStack", rows, np.int32(-1), element_dtype=x.dtype), how=how)

    return OpCase(f"TestPlanted/{how}, built", "TestPlanted", [X], build=build, **options)


def test_a_kernel_without_a_fault_passes() -> None:
    assert check_backend("numpy", [_case("right", expected=X + 1), _case("raises", raises="planted")]) == 2
    assert check_backend("numpy", [_built("right", expected=X + 1), _built("raises", raises="planted")]) == 2


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (_case("number", expected=X + 1), "TestPlanted/number output 0"),
        (_built("number", expected=X + 1), "TestPlanted/number, built output 0"),
        (
            OpCase("Split/three", "Split", [0, X], {"num_split": 2}, expected=([1.0], [2.0], [])),
            "2 outputs, expected 3",
        ),
        (_case("right", raises="planted"), r"\(fed\): no error, expected one that matches 'planted'"),
        (_case("raises", raises="something else"), r"\(fed\): the error does not match 'something else'(.|\n)*planted"),
    ],
    ids=str,
)
def test_a_planted_fault_is_found(case: OpCase, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_case(case)


@pytest.mark.parametrize(("how", "message"), [("view", "wrong memory"), ("spec", "wrong shape")])
def test_a_kernel_that_breaks_its_word_is_refused_by_the_first_step(how: str, message: str) -> None:
    with pytest.raises(hr.errors.InvalidArgumentError, match=message):
        check_case(_case(how, expected=X + 1))


def test_another_backend_that_breaks_the_static_shape_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.plan.numpy_backend._check_outputs", lambda *arguments: None)
    with pytest.raises(AssertionError, match=r"the graph says float32\[7\], the kernel gave float32\[2\]"):
        check_case(_case("spec", expected=X + 1))


def test_a_wrong_gradient_is_found_in_either_order() -> None:
    def build(rule: Callable[..., list[Any]]) -> Callable[[Any], list[hr.Tensor]]:
        def function(inputs: Any) -> list[hr.Tensor]:
            with hr.gradient_override({"Sin": rule}):
                return [hr.sin(inputs[0])]

        return function

    check_gradient(build(lambda op, g: [g * hr.cos(op.inputs[0])]), [[0.3, 0.7]])
    with pytest.raises(AssertionError, match="^gradient by input 0 along"):
        check_gradient(build(lambda op, g: [g * 2.0]), [[0.3, 0.7]])
    with pytest.raises(AssertionError, match="second gradient by input 0 along"):
        check_gradient(build(lambda op, g: [g * hr.stop_gradient(hr.cos(op.inputs[0]))]), [[0.3, 0.7]])
    with pytest.raises(AssertionError, match="no differentiable output"):
        check_gradient(lambda inputs: [hr.argmax(inputs[0], axis=0)], [[0.3, 0.7]])


def test_a_gradient_of_another_shape_than_its_input_is_found() -> None:
    """While the graph is built the shape is not known, so only the numbers can tell."""

    def build(inputs: Any) -> list[hr.Tensor]:
        unknown = hr.placeholder_with_default(np.array([3], np.int32), [None])
        with hr.gradient_override({"Sin": lambda op, g: [hr.reshape(hr.zeros([3], dtype=hr.float64), unknown)]}):
            return [hr.sin(inputs[0])]

    with pytest.raises(AssertionError, match=r"gradient by input 0 has shape \(3,\), the input \(2,\)"):
        check_gradient(build, [[0.3, 0.7]], second_order=False)
