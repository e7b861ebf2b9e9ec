"""What reshaping refuses while the graph is built."""

from __future__ import annotations

import pytest

import headrace as hr


@pytest.mark.parametrize("sizes", [[-1, -1], [2, -2]])
def test_one_size_at_most_may_be_found_of_a_tensor_of_unknown_size(sizes: list[int]) -> None:
    with hr.Graph().as_default():
        x = hr.placeholder(hr.float32, [None])
        with pytest.raises(hr.errors.ShapeError, match="a shape may have one -1 and no other negative size"):
            hr.reshape(x, sizes)
