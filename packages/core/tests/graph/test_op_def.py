"""Registration of operations."""

from __future__ import annotations

import pytest

import headrace as hr
from headrace.graph.op_def import find_op_def, lookup_op_def, op_defs


def test_signature_reads_like_a_declaration() -> None:
    assert lookup_op_def("AddN").signature.startswith("AddN(inputs: N * T) -> (sum: T)")
    assert [item.name for item in op_defs()] == sorted(item.name for item in op_defs())
    assert find_op_def("Nope") is None


def test_registering_twice_is_an_error() -> None:
    with pytest.raises(hr.errors.AlreadyExistsError, match="'Identity' is registered already"):
        hr.register_op("Identity")(lambda op: [])


def test_an_argument_must_name_a_type_attr() -> None:
    with pytest.raises(hr.errors.InvalidArgumentError, match="takes its dtype from 'n'"):
        hr.register_op("TestBad1", inputs={"x": "n"}, attrs={"n": hr.attr.int()})
    with pytest.raises(hr.errors.InvalidArgumentError, match="counts by 'T'"):
        hr.register_op("TestBad2", inputs={"x": "T*T"}, attrs={"T": hr.attr.floating})


def test_a_shape_function_that_gives_the_wrong_number_of_shapes_is_our_fault_by_name() -> None:
    @hr.register_op("TestTwoShapes", outputs={"y": "float32"})
    def two_shapes(op):
        """Wrong on purpose."""
        return [hr.Shape([]), hr.Shape([])]

    with hr.Graph().as_default(), pytest.raises(hr.errors.InternalError, match="gave 2 shapes for 1 outputs"):
        hr.apply_op("TestTwoShapes")


def test_user_operation_kernel_and_gradient_in_one_file() -> None:
    """A117; the block 'Add an operation' of the user's guide."""
    import numpy as np

    @hr.register_op(
        "TestScaledTanh",
        inputs=dict(x="T"),
        outputs=dict(y="T"),
        attrs=dict(T=hr.attr.floating, scale=hr.attr.float(1.0)),
    )
    def scaled_tanh_shape(op):
        """scale * tanh(x)."""
        return [op.inputs[0].shape]

    @hr.register_kernel("TestScaledTanh")
    def scaled_tanh_kernel(op, x):
        return (op.attr("scale") * np.tanh(x)).astype(x.dtype)

    @hr.register_gradient("TestScaledTanh")
    def scaled_tanh_gradient(op, grad):
        y = op.outputs[0] / op.attr("scale")
        return [grad * op.attr("scale") * (1 - y * y)]

    with hr.Graph().as_default() as graph:
        x = hr.constant([0.5, -1.0])
        y = hr.apply_op("TestScaledTanh", x, scale=0.5)
        (dx,) = hr.gradients(y, [x])
    value, slope = hr.Session(graph).run([y, dx])
    np.testing.assert_allclose(value, 0.5 * np.tanh([0.5, -1.0]), rtol=1e-6)
    np.testing.assert_allclose(slope, 0.5 * (1 - np.tanh([0.5, -1.0]) ** 2), rtol=1e-6)


@pytest.mark.parametrize("name", ["my op", "", "3D", "Größe", "a/b", "A>"])
def test_a_name_that_no_graph_file_could_hold_is_refused(name: str) -> None:
    with pytest.raises(hr.errors.InvalidArgumentError, match="is no name for an operation type(.|\n)*as in MatMul"):
        hr.register_op(name, outputs={"y": "float32"})


def test_a_kernel_of_a_type_that_does_not_exist_is_refused_with_the_names_that_are_near() -> None:
    with pytest.raises(hr.errors.UnknownOpError, match="operation type 'MatMull' is not known(.|\n)*MatMul"):
        hr.register_kernel("MatMull")
