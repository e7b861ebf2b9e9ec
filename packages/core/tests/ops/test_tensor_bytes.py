"""Tensors as bytes."""

from __future__ import annotations

import pytest

import headrace as hr


def test_bytes_of_several_tensors_are_refused_in_the_step() -> None:
    with hr.Graph().as_default() as graph:
        serialized = hr.placeholder(hr.string, None)
        y = hr.parse_tensor(serialized, hr.int32)
    with pytest.raises(hr.errors.ShapeError, match="serialized must be a scalar"):
        hr.Session(graph).run(y, feeds={serialized: [b"", b""]})
