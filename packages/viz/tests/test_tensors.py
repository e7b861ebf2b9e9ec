"""Tensors of events: there and back, also as others write them, and damaged ones."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from headrace.errors import DataLossError, DTypeError, InvalidArgumentError
from headrace.graph.proto.tensor_pb2 import TensorProto, TensorShapeProto
from headrace_viz.tensors import array_of, tensor_proto

DTYPES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", "c8", ml_dtypes.bfloat16, ">f4"]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_there_and_back(dtype: Any) -> None:
    array = np.array([[0, 1, 2], [3, 4, 5]]).astype(dtype)
    back = array_of(tensor_proto(array))
    assert back.dtype == array.dtype.newbyteorder("=")
    np.testing.assert_array_equal(back, array)


@pytest.mark.parametrize("value", [b"\xff", "text", ["a", "bc"], [[b"a"]], np.array(["ab"]), np.zeros([0], object)])
def test_text_becomes_bytes(value: Any) -> None:
    expected = [item.encode() if isinstance(item, str) else item for item in np.asarray(value, object).ravel()]
    back = array_of(tensor_proto(value))
    assert back.ravel().tolist() == expected
    assert back.shape == np.shape(value)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"])
def test_tensorboards_way_of_listing_elements(dtype: str) -> None:
    tensor_util = pytest.importorskip("tensorboard.util.tensor_util")
    array = np.array([[0, 1], [2, 3]]).astype(dtype)
    theirs = tensor_util.make_tensor_proto(array)
    np.testing.assert_array_equal(array_of(TensorProto.FromString(theirs.SerializeToString())), array)
    type(theirs).FromString(tensor_proto(array).SerializeToString())


def test_tensorboard_reads_ours() -> None:
    tensor_util = pytest.importorskip("tensorboard.util.tensor_util")
    tensor_pb2 = pytest.importorskip("tensorboard.compat.proto.tensor_pb2")
    for value in (np.arange(6.0).reshape(2, 3), np.array([b"a", b"b"], object)):
        theirs = tensor_pb2.TensorProto.FromString(tensor_proto(value).SerializeToString())
        np.testing.assert_array_equal(tensor_util.make_ndarray(theirs), value)


def test_one_element_may_stand_for_all() -> None:
    tensor = TensorProto(dtype=1, tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=3)]), float_val=[2.5])
    assert array_of(tensor).tolist() == [2.5] * 3


@pytest.mark.parametrize(
    "tensor",
    [
        TensorProto(dtype=1, float_val=[1, 2]),
        TensorProto(dtype=1, tensor_content=b"abc"),
        TensorProto(dtype=1, tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=-1)]), float_val=[1]),
        TensorProto(dtype=1, tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=2**62)]), float_val=[1, 2]),
        TensorProto(dtype=1, tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=2**40)]), float_val=[1]),
        TensorProto(dtype=8),
        TensorProto(dtype=7),
        TensorProto(dtype=20),
        TensorProto(),
    ],
)
def test_damaged_tensors(tensor: TensorProto) -> None:
    with pytest.raises(DataLossError, match=r"a tensor of an event file is damaged\n  where: +file 3\n"):
        array_of(tensor, where="file 3")


@pytest.mark.parametrize("value", [[object()], [b"a", 1], np.array(["2026-01-01"], "M8[D]")])
def test_what_is_neither_numbers_nor_text(value: Any) -> None:
    with pytest.raises(DTypeError, match=r"an event cannot hold these values\n(.*\n)*.*numbers, bytes or text"):
        tensor_proto(value)


def test_text_that_no_file_can_hold() -> None:
    """As the names of files that are no UTF-8 are in Python."""
    with pytest.raises(InvalidArgumentError, match=r"text cannot be written as UTF-8\n.*\n +got: +'\\udce9t"):
        tensor_proto(["fine", b"\xe9t\xe9".decode(errors="surrogateescape")])
