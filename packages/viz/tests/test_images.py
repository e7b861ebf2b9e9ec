"""Pictures of every layout become the pixels that were meant."""

from __future__ import annotations

import numpy as np
import pytest

from headrace.errors import DTypeError, InvalidArgumentError, ShapeError
from headrace_viz.images import draw_boxes, enlarge, figure_pixels, to_batch, to_pixels

PIXELS = np.random.default_rng(1).integers(0, 256, [4, 5, 3], np.uint8)


@pytest.mark.parametrize("letters", ["HWC", "CHW", "WHC", "chw"])
def test_layouts(letters: str) -> None:
    given = PIXELS.transpose(["HWC".index(letter) for letter in letters.upper()])
    np.testing.assert_array_equal(to_pixels(given, letters), PIXELS)


def test_gray_pictures_have_one_channel() -> None:
    np.testing.assert_array_equal(to_pixels(PIXELS[..., 0], "HW"), PIXELS[..., :1])
    np.testing.assert_array_equal(to_pixels(PIXELS[..., 0].T, "WH"), PIXELS[..., :1])


def test_batches_and_films() -> None:
    batch = np.stack([PIXELS, PIXELS[::-1]])
    np.testing.assert_array_equal(to_batch(batch.transpose(0, 3, 1, 2), "NCHW"), batch)
    film = batch[np.newaxis]
    np.testing.assert_array_equal(to_batch(film.transpose(0, 1, 4, 2, 3), "NTCHW"), film)
    np.testing.assert_array_equal(to_batch(film[..., 0], "NTHW"), film[..., :1])


def test_pixels_do_not_change_with_the_array() -> None:
    given = PIXELS.copy()
    pixels = to_pixels(given, "HWC")
    given[:] = 0
    np.testing.assert_array_equal(pixels, PIXELS)


def test_numbers_between_0_and_1_become_bytes() -> None:
    given = np.array([[0, 1, 0.5, 2, -1, np.nan, np.inf, -np.inf]])
    assert to_pixels(given, "HW").ravel().tolist() == [0, 255, 127, 255, 0, 0, 255, 0]
    for dtype in (np.float16, np.float32):
        assert to_pixels(given.astype(dtype), "HW").ravel().tolist() == [0, 255, 127, 255, 0, 0, 255, 0]
    assert to_pixels(np.array([[1e300, -1e300]]), "HW").ravel().tolist() == [255, 0]


def test_half_precision_keeps_every_byte() -> None:
    given = (np.arange(256) + 0.5) / 255
    np.testing.assert_array_equal(to_pixels(given.reshape(16, 16), "HW").ravel(), [*np.arange(255).tolist(), 255])
    half = to_pixels(given.astype(np.float16).reshape(16, 16), "HW").ravel()
    assert np.abs(half - np.arange(256)).max() <= 1


def test_truth_is_white() -> None:
    assert to_pixels(np.array([[True, False]]), "HW").ravel().tolist() == [255, 0]


@pytest.mark.parametrize("letters", ["", "NCHW", "CHX", "CC", "HWH"])
def test_what_is_no_format(letters: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"the format of a picture is not known\n(.*\n)*.*CHW, HWC or HW"):
        to_pixels(PIXELS, letters)


def test_what_is_no_format_of_a_batch() -> None:
    with pytest.raises(InvalidArgumentError, match=r"not known\n(.*\n)*.*or with T"):
        to_batch(PIXELS[np.newaxis], "CHW")


def test_other_axes_than_the_format_says() -> None:
    with pytest.raises(ShapeError, match=r"other axes than its format says\n(.*\n)*.*4 axes, NCHW"):
        to_batch(PIXELS)


@pytest.mark.parametrize("shape", [[5, 4, 4], [0, 4, 4], [3, 0, 4]])
def test_what_is_no_pixels(shape: list[int]) -> None:
    with pytest.raises(ShapeError, match=r"these are no pixels\n(.*\n)*.*1 to 4 channels"):
        to_pixels(np.zeros(shape, np.uint8), "CHW")


def test_what_is_no_dtype_of_pixels() -> None:
    with pytest.raises(DTypeError, match=r"pixels need another dtype\n(.*\n)*.*int64"):
        to_pixels(np.zeros([3, 2, 2], np.int64))


def test_boxes() -> None:
    drawn = draw_boxes(np.zeros([5, 6, 1], np.uint8), [[1, 1, 4, 3]])
    red = [".....", ".####", ".#..#", ".####", "....."]
    assert ["".join("#" if pixel[0] else "." for pixel in row[:5]) for row in drawn] == red
    assert not drawn[..., 1:].any()


def test_boxes_outside_are_cut_off() -> None:
    drawn = draw_boxes(np.zeros([3, 3, 4], np.uint8), [[-9, -9, 99, 99]])
    assert drawn.shape == (3, 3, 3)
    assert drawn[..., 0].tolist() == [[255] * 3, [255, 0, 255], [255] * 3]


def test_labels_are_written_beside_their_boxes() -> None:
    pytest.importorskip("PIL")
    blank = np.zeros([20, 40, 3], np.uint8)
    plain, labelled = draw_boxes(blank, [[0, 0, 39, 19]]), draw_boxes(blank, [[0, 0, 39, 19]], ["cat"])
    assert (labelled != plain).any()


@pytest.mark.parametrize(("boxes", "labels"), [([1, 2, 3, 4], None), ([[1, 2, 3]], None), ([[1, 2, 3, 4]], ["a", "b"])])
def test_what_is_no_boxes(boxes: list[float], labels: list[str] | None) -> None:
    with pytest.raises(ShapeError, match=r"boxes need four numbers each, and a label each\b"):
        draw_boxes(PIXELS, boxes, labels)


def test_larger_and_smaller() -> None:
    pixels = np.array([[[1], [2]]], np.uint8)
    assert enlarge(pixels, 2)[..., 0].tolist() == [[1, 1, 2, 2]] * 2
    assert enlarge(enlarge(PIXELS, 3), 1 / 3).tolist() == PIXELS.tolist()
    with pytest.raises(InvalidArgumentError, match="cannot be scaled so"):
        enlarge(pixels, 0)


def test_figures() -> None:
    figures = pytest.importorskip("matplotlib.figure")
    figure = figures.Figure(figsize=(2, 1), dpi=50, facecolor=(0, 1, 0))
    pixels = figure_pixels(figure, close=True)
    assert (pixels.shape, pixels.dtype) == ((50, 100, 3), np.uint8)
    assert pixels[0, 0].tolist() == [0, 255, 0]


def test_a_figure_that_pyplot_remembers_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    figure = pyplot.figure()
    figure_pixels(figure)
    assert pyplot.fignum_exists(figure.number)
    figure_pixels(figure, close=True)
    assert not pyplot.fignum_exists(figure.number)
