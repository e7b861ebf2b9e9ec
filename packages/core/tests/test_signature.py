"""A signature holds tensors, and says so where it is made."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr


@pytest.mark.parametrize("side", ["inputs", "outputs"])
def test_an_array_in_the_place_of_a_tensor_is_refused(side: str) -> None:
    with hr.Graph().as_default():
        x = hr.placeholder(hr.float32, [None], name="x")
    tensors = {"inputs": {"x": x}, "outputs": {"y": x}, side: {"z": np.zeros(2)}}
    with pytest.raises(
        hr.errors.InvalidArgumentError, match=f"'z' of a signature's {side} is not a tensor(.|\n)*ndarray"
    ):
        hr.Signature(**tensors)
