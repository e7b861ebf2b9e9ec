"""The quickstart's data are real digits, split the same way each time."""

from __future__ import annotations

import numpy as np

import digits


def test_digits_are_split_without_overlap_and_the_same_way_each_time() -> None:
    train, test = digits.load()
    assert train.images.shape == (4000, 28, 28, 1)
    assert test.images.shape == (1000, 28, 28, 1)
    assert train.images.dtype == np.float32
    assert train.labels.dtype == np.int32
    assert set(np.unique(train.labels)) == set(range(10))
    assert np.bincount(np.concatenate([train.labels, test.labels])).tolist() == [500] * 10
    assert train.images.min() == 0
    assert train.images.max() == 1
    again, _ = digits.load()
    assert np.array_equal(train.images, again.images)


def test_a_picture_is_darker_where_the_ink_is() -> None:
    image = np.zeros((28, 28, 1), np.float32)
    image[4:8, 2:4] = 1.0
    lines = digits.picture(image)
    assert lines[1] == " @" + " " * 12
    assert "".join(lines).strip() == "@"


def test_pictures_stand_side_by_side_over_their_captions() -> None:
    text = digits.side_by_side([["ab"], ["cd"], ["ef"]], ["1", "2", "3"], columns=2)
    assert [line.split() for line in text.splitlines()] == [["ab", "cd"], ["1", "2"], [], ["ef"], ["3"]]
