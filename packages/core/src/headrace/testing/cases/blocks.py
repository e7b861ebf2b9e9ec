"""Cases of operations that move blocks of pixels."""

from __future__ import annotations

import numpy as np

from headrace.testing.op_case import OpCase

_IMAGE = np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1)
_BLOCKED = np.array([[[[0, 1, 4, 5], [2, 3, 6, 7]], [[8, 9, 12, 13], [10, 11, 14, 15]]]], np.float32)
_DEEP = np.arange(48, dtype=np.float64).reshape(1, 2, 4, 6)
_TWO = {"block_size": 2}


def _pixel(x: np.ndarray, block: int, row: int, column: int) -> np.ndarray:
    """What pixel (row, column) of SpaceToDepth holds, by definition."""
    return x[:, row * block : (row + 1) * block, column * block : (column + 1) * block].reshape(x.shape[0], -1)


_DEEP_BLOCKED = np.stack([_pixel(_DEEP, 2, 0, column) for column in range(2)], 1)[:, None]

CASES = [
    OpCase("SpaceToDepth/one channel", "SpaceToDepth", [_IMAGE], _TWO, _BLOCKED),
    OpCase("SpaceToDepth/six channels", "SpaceToDepth", [_DEEP], _TWO, _DEEP_BLOCKED),
    OpCase(
        "SpaceToDepth/NCHW",
        "SpaceToDepth",
        [np.moveaxis(_DEEP, 3, 1)],
        {**_TWO, "data_format": "NCHW"},
        np.moveaxis(_DEEP_BLOCKED, 3, 1),
        oracle=False,
    ),
    OpCase("SpaceToDepth/no images", "SpaceToDepth", [np.zeros((0, 4, 4, 1))], _TWO, np.zeros((0, 2, 2, 4))),
    OpCase("SpaceToDepth/odd height", "SpaceToDepth", [_IMAGE[:, :3]], _TWO, raises=r"height is no multiple"),
    OpCase("SpaceToDepth/matrix", "SpaceToDepth", [_IMAGE[0, ..., 0]], _TWO, raises=r"rank is wrong"),
    OpCase("SpaceToDepth/block of one", "SpaceToDepth", [_IMAGE], {"block_size": 1}, raises=r"attr 'block_size'"),
    OpCase("DepthToSpace/one channel", "DepthToSpace", [_BLOCKED], _TWO, _IMAGE),
    OpCase("DepthToSpace/six channels", "DepthToSpace", [_DEEP_BLOCKED], _TWO, _DEEP),
    OpCase(
        "DepthToSpace/NCHW",
        "DepthToSpace",
        [np.moveaxis(_DEEP_BLOCKED, 3, 1)],
        {**_TWO, "data_format": "NCHW"},
        np.moveaxis(_DEEP, 3, 1),
        oracle=False,
    ),
    OpCase("DepthToSpace/odd depth", "DepthToSpace", [_DEEP], _TWO, raises=r"depth is no multiple"),
    OpCase(
        "DepthToSpace/O55 huge block",
        "DepthToSpace",
        [np.ones((3, 2, 3, 4), np.float32)],
        {"block_size": 2147483647},
        raises=r"depth is no multiple",
    ),
    OpCase(
        "SpaceToBatchND/two axes",
        "SpaceToBatchND",
        [_IMAGE, np.array([2, 2]), np.zeros((2, 2), np.int32)],
        expected=np.stack([_IMAGE[0, row::2, column::2] for row in (0, 1) for column in (0, 1)]),
    ),
    OpCase(
        "SpaceToBatchND/padded",
        "SpaceToBatchND",
        [np.arange(1.0, 6).reshape(1, 5), np.array([3]), np.array([[0, 1]])],
        expected=np.array([[1.0, 4], [2, 5], [3, 0]]),
    ),
    OpCase(
        "SpaceToBatchND/no axis",
        "SpaceToBatchND",
        [_IMAGE, np.zeros(0, np.int32), np.zeros((0, 2), np.int32)],
        expected=_IMAGE,
    ),
    OpCase(
        "SpaceToBatchND/no multiple",
        "SpaceToBatchND",
        [_IMAGE, np.array([3]), np.array([[0, 1]])],
        raises=r"padded size is no multiple",
    ),
    OpCase(
        "SpaceToBatchND/empty block",
        "SpaceToBatchND",
        [_IMAGE, np.array([0]), np.array([[0, 0]])],
        raises=r"out of range",
    ),
    OpCase(
        "SpaceToBatchND/too many axes",
        "SpaceToBatchND",
        [np.ones((1, 2)), np.array([1, 1]), np.zeros((2, 2), np.int32)],
        raises=r"do not fit",
    ),
    OpCase(
        "BatchToSpaceND/two axes",
        "BatchToSpaceND",
        [
            np.stack([_IMAGE[0, row::2, column::2] for row in (0, 1) for column in (0, 1)]),
            np.array([2, 2]),
            np.zeros((2, 2), np.int32),
        ],
        expected=_IMAGE,
    ),
    OpCase(
        "BatchToSpaceND/cropped",
        "BatchToSpaceND",
        [np.array([[1.0, 4], [2, 5], [3, 0]]), np.array([3]), np.array([[1, 1]])],
        expected=np.array([[2.0, 3, 4, 5]]),
    ),
    OpCase(
        "BatchToSpaceND/no multiple",
        "BatchToSpaceND",
        [_IMAGE, np.array([2]), np.array([[0, 1]])],
        raises=r"batch is no multiple",
    ),
    OpCase(
        "BatchToSpaceND/crops too long",
        "BatchToSpaceND",
        [np.ones((2, 1)), np.array([2]), np.array([[2, 1]])],
        raises=r"crops exceed",
    ),
]
