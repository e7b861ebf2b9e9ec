"""Examples: what their shape functions refuse."""

from __future__ import annotations

import pytest

import headrace as hr


def test_each_dense_feature_has_one_shape() -> None:
    with hr.Graph().as_default():
        batch, key, default = hr.constant([b""]), hr.constant(b"k"), hr.constant([0.0])
        with pytest.raises(
            hr.errors.InvalidArgumentError, match=r"each dense feature has one shape(.|\n)*1 shapes(.|\n)*0"
        ):
            hr.apply_op("ParseExample", batch, batch, [], [key], [default], sparse_types=[], dense_shapes=[])


def test_each_sparse_feature_has_one_dtype() -> None:
    with hr.Graph().as_default():
        batch, key = hr.constant([b""]), hr.constant(b"k")
        types = {"sparse_types": [hr.int64, hr.float32], "dense_shapes": [], "Tdense": []}
        with pytest.raises(
            hr.errors.InvalidArgumentError, match=r"each sparse feature has one dtype(.|\n)*1 dtypes(.|\n)*2"
        ):
            hr.apply_op("ParseExample", batch, batch, [key], [], [], **types)
