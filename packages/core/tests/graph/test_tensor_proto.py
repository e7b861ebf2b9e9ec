"""Arrays in TensorFlow's wire form."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import headrace as hr
from headrace import types
from headrace.graph.proto.tensor_pb2 import TensorProto, TensorShapeProto
from headrace.graph.tensor_proto import decode_tensor, encode_tensor


def _allocated(call: Callable[[], Any]) -> tuple[Any, int]:
    """What a call returns, and the most memory that Python held for it at one time."""
    tracemalloc.start()
    try:
        result = call()
        return result, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_A22_a_tensor_is_a_header_and_its_bytes_that_are_copied_at_most_once() -> None:
    """100 MB; the message that holds the bytes is protobuf's."""
    value = np.arange(25_000_000, dtype=np.float32)
    proto, encoding = _allocated(lambda: encode_tensor(value))
    assert proto.ByteSize() - value.nbytes < 32
    assert encoding < 1.01 * value.nbytes
    received = TensorProto.FromString(proto.SerializeToString())
    again, decoding = _allocated(lambda: decode_tensor(received))
    assert decoding < 1.01 * value.nbytes
    assert np.array_equal(again, value)


@pytest.mark.parametrize("dtype", [*types.COMPUTABLE, types.string], ids=str)
def test_an_element_repeated_2_to_the_40_times_stays_a_few_bytes_on_every_way(dtype: hr.DType) -> None:
    """A graph file of 100 bytes may declare it: reading and writing must not unfold it."""
    one = np.array(b"\xff" if dtype is types.string else 1, dtype.array_type)
    one.flags.writeable = False
    huge = np.broadcast_to(one, (2**20, 2**20))
    proto = encode_tensor(huge)
    assert proto.ByteSize() < 100
    again = decode_tensor(proto)
    assert (again.shape, again[7, 7]) == (huge.shape, one)


def test_steps_over_a_huge_repeated_constant_compute_only_what_they_need() -> None:
    graph = hr.Graph()
    one = np.ones((), np.float32)
    one.flags.writeable = False
    attrs = {"value": np.broadcast_to(one, (2**40,)), "dtype": hr.float32}
    with graph.as_default():
        ones = [graph.create_op("Const", (), attrs).outputs[0] for _ in range(2)]
        product = ones[0] * ones[1]
        picked = ones[0][:3]
        size = hr.size(product, dtype=hr.int64)
    copy = hr.import_graph_def(hr.to_graph_def(graph))
    session = hr.Session(copy)
    assert session.run(picked.name).tolist() == [1, 1, 1]
    assert session.run(size.name) == 2**40


@pytest.mark.parametrize(
    "array",
    [
        np.array(3, np.int8),
        np.zeros((2, 0, 3), np.uint16),
        np.arange(6, dtype=np.float32)[::2],
        np.array([1.5, np.nan, -0.0], ml_dtypes.bfloat16),
        np.array([1 + 2j], np.complex128),
        np.array([[b"", b"\x00\xff"], [b"a\x00", "ü".encode()]], object),
        np.array([True, False]),
        np.array([2**64 - 1], np.uint64),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_tensor_round_trips_bit_for_bit(array: np.ndarray) -> None:
    decoded = decode_tensor(TensorProto.FromString(encode_tensor(array).SerializeToString()))
    assert decoded.dtype == array.dtype
    assert decoded.shape == array.shape
    if array.dtype == object:
        assert decoded.tolist() == array.tolist()
    else:
        assert decoded.tobytes() == array.tobytes()


def test_one_listed_value_stands_for_all_elements_without_taking_memory() -> None:
    proto = TensorProto(dtype=1, tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=2**40)]), float_val=[2.5])
    value = decode_tensor(proto)
    assert value.shape == (2**40,)
    assert value.strides == (0,)
    assert value[12345] == 2.5


@pytest.mark.parametrize(
    "proto",
    [
        TensorProto(dtype=1, tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=2)]), tensor_content=b"abc"),
        TensorProto(dtype=1, tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=-5)])),
        TensorProto(dtype=1, tensor_shape=TensorShapeProto(unknown_rank=True)),
        TensorProto(dtype=1, tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]), float_val=[1, 2]),
        TensorProto(dtype=4, tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]), int_val=[300]),
        TensorProto(dtype=8, tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]), scomplex_val=[1]),
        TensorProto(dtype=19, tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]), half_val=[-1]),
        TensorProto(dtype=7, tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]), tensor_content=b"x"),
        TensorProto(dtype=20, tensor_shape=TensorShapeProto()),
        TensorProto(
            dtype=1,
            tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=2**32), TensorShapeProto.Dim(size=2**32)]),
        ),
        TensorProto(dtype=1, tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=2**40)]), float_val=[1, 2]),
    ],
)
def test_damaged_tensor_is_refused(proto: TensorProto) -> None:
    with pytest.raises(hr.errors.DataLossError, match="damaged"):
        decode_tensor(proto)


@pytest.mark.parametrize("sizes", [[0, 2**62, 2**62], [2**62], [1] * 70], ids=["beside an empty one", "many", "rank"])
def test_sizes_that_no_array_can_have_are_refused(sizes: list[int]) -> None:
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in sizes])
    with pytest.raises(hr.errors.DataLossError, match="at most 64 dimensions and"):
        decode_tensor(TensorProto(dtype=hr.float32.number, tensor_shape=shape))
