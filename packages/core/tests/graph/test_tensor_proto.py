"""Arrays in TensorFlow's wire form."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace import types
from headrace.graph.proto.tensor_pb2 import TensorProto
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
