"""What the graph knows of the elements of lists."""

from __future__ import annotations

import numpy as np

import headrace as hr
from headrace.graph.handle_spec import handle_attrs
from headrace.graph.list_spec import list_spec


def test_changes_of_a_list_keep_what_is_known_of_its_elements() -> None:
    with hr.Graph().as_default():
        handle = hr.apply_op("EmptyTensorList", [2, -1], -1, element_dtype=hr.float32)
        handle = hr.identity(hr.apply_op("TensorListPushBack", handle, np.zeros((2, 3), np.float32)))
        shorter, element = hr.apply_op("TensorListPopBack", handle, [-1, 3], element_dtype=hr.float32)
        total = hr.apply_op("AddN", [shorter, shorter])
    assert list_spec(total) == hr.TensorSpec(hr.float32, hr.Shape([2, None]))
    assert element.shape == [2, 3]
    assert list_spec(element) is None


def test_annotations_tell_where_the_walk_ends() -> None:
    with hr.Graph().as_default() as graph:
        attrs = {
            "T": hr.variant,
            "index": 0,
            "shape": hr.Shape([]),
            "_handle_dtypes": (hr.int32,),
            "_handle_shapes": (hr.Shape([None]),),
        }
        known = graph.create_op("_Arg", (), attrs).outputs[0]
        unknown = graph.create_op("_Arg", (), {"T": hr.variant, "index": 1, "shape": hr.Shape([])}).outputs[0]
        item = hr.apply_op("TensorListGetItem", known, 0, [4], element_dtype=hr.int32)
    assert list_spec(known) == hr.TensorSpec(hr.int32, hr.Shape([None]))
    assert list_spec(unknown) is None
    assert item.shape == [4]


def test_an_element_that_was_a_list_is_not_known() -> None:
    with hr.Graph().as_default():
        inner = hr.apply_op("EmptyTensorList", [2], -1, element_dtype=hr.float32)
        outer = hr.apply_op("EmptyTensorList", [], -1, element_dtype=hr.variant)
        outer = hr.apply_op("TensorListPushBack", outer, inner)
        _, popped = hr.apply_op("TensorListPopBack", outer, [], element_dtype=hr.variant)
    assert list_spec(popped) is None
    assert list_spec(outer) == hr.TensorSpec(hr.variant, hr.Shape([]))


def test_a_list_that_is_not_known_stays_so_when_it_is_annotated_beside_others() -> None:
    """As when a loop of TensorFlow is extended for a gradient: of its lists some are known, and some are not."""
    with hr.Graph().as_default() as graph:
        unknown = graph.create_op("_Arg", (), {"T": hr.variant, "index": 0, "shape": hr.Shape([])}).outputs[0]
        known = hr.apply_op("EmptyTensorList", [2], -1, element_dtype=hr.float32)
        nested = hr.apply_op("EmptyTensorList", [], -1, element_dtype=hr.variant)
        tensors = [unknown, known, nested, hr.constant(1.0)]
        attrs = {"T": tuple(tensor.dtype for tensor in tensors), **handle_attrs(tensors)}
        copies = graph.create_op("IdentityN", tensors, attrs).outputs
    assert list_spec(copies[0]) is None
    assert list_spec(copies[1]) == hr.TensorSpec(hr.float32, hr.Shape([2]))
    assert list_spec(copies[2]) == hr.TensorSpec(hr.variant, hr.Shape([]))
