"""What pooling of volumes refuses."""

from __future__ import annotations

from typing import Any

import pytest

import headrace as hr


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"ksize": [1, 2, 2, 2, 1, 1]}, hr.errors.AttrError, "attr 'ksize' is not right[^$]*five positive integers"),
        ({"strides": [1, 2, 0, 2, 1]}, hr.errors.AttrError, r"attr 'strides' is not right[^$]*\[1, 2, 0, 2, 1\]"),
        ({"ksize": [1, 2, 2, 2, 3]}, hr.errors.UnimplementedError, "attr 'ksize' reaches over volumes or channels"),
        ({"strides": [2, 2, 2, 2, 1]}, hr.errors.UnimplementedError, "attr 'strides' reaches over volumes"),
    ],
)
def test_windows_slide_over_depth_rows_and_columns(changes: dict[str, Any], error: Any, message: str) -> None:
    attrs = {"ksize": [1, 2, 2, 2, 1], "strides": [1, 2, 2, 2, 1], "padding": "VALID", **changes}
    with hr.Graph().as_default(), pytest.raises(error, match=message):
        hr.apply_op("MaxPool3D", hr.zeros([1, 4, 4, 4, 3]), **attrs)


def test_the_second_gradient_takes_one_of_the_shape_of_the_volumes() -> None:
    attrs: dict[str, Any] = {"ksize": [1, 2, 2, 2, 1], "strides": [1, 2, 2, 2, 1], "padding": "VALID"}
    with hr.Graph().as_default():
        volumes, pooled = hr.zeros([1, 4, 4, 4, 3]), hr.zeros([1, 2, 2, 2, 3])
        with pytest.raises(
            hr.errors.ShapeError, match=r"grad does not fit the volumes[^$]*\[1, 4, 4, 4, 3\][^$]*\[1, 2, 2, 2, 3\]"
        ):
            hr.apply_op("MaxPool3DGradGrad", volumes, pooled, pooled, **attrs)
