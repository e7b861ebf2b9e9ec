"""From arrays in any layout to pixels: channels last, 8 bits each."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.errors import DTypeError, InvalidArgumentError, ShapeError
from headrace_viz.extras import load_extra
from headrace_viz.png import Pixels

_BOX_COLOR = (255, 0, 0)


def to_pixels(image: Any, dataformats: str = "CHW") -> Pixels:
    """Return a picture as pixels of its own memory.

    Args:
      image: uint8 as it is, Boolean (black and white), or floating-point between 0 and 1; what is outside is cut off,
        NaN becomes black.
      dataformats: a letter for each axis: `H`eight, `W`idth, and, unless gray, `C`hannels.
    Returns:
      uint8 `[height, width, channels]`.
    Raises:
      ShapeError: the axes are not as `dataformats` says, there are more than 4 channels, or there is no pixel.
      InvalidArgumentError: `dataformats` is no such letters.
      DTypeError: another dtype.

    Example:
      >>> to_pixels(np.ones([3, 2, 5]), "CHW").shape
      (2, 5, 3)
    """
    letters = dataformats.upper()
    if sorted(letters) not in (["C", "H", "W"], ["H", "W"]):
        raise _format_error(dataformats, "CHW, HWC or HW")
    pixels: Pixels = to_batch(np.asarray(image)[np.newaxis], "N" + letters)[0]
    return pixels


def to_batch(images: Any, dataformats: str = "NCHW") -> NDArray[np.uint8]:
    """Return pictures, or the frames of films, as pixels of their own memory.

    Args:
      images: as in `to_pixels`.
      dataformats: `N` for the picture, `T` for the frame of a film if there is one, and the letters of `to_pixels`.
    Returns:
      uint8 `[pictures, height, width, channels]`, or `[films, frames, height, width, channels]`.
    Raises:
      HeadraceError: as `to_pixels`.
    """
    array, letters = np.asarray(images), dataformats.upper()
    if sorted(letters) not in map(sorted, ("NHW", "NCHW", "NTHW", "NTCHW")):
        raise _format_error(dataformats, "NCHW, NHWC, NHW, or with T for films")
    if array.ndim != len(letters):
        raise ShapeError(
            "a picture has other axes than its format says",
            expected=f"{len(letters)} axes, {letters}",
            got=f"shape {list(array.shape)}",
            hint="dataformats='HWC' for channels last, 'HW' for gray",
        )
    if "C" not in letters:
        array, letters = array[..., np.newaxis], letters + "C"
    ordered = array.transpose([letters.index(axis) for axis in "NTHWC" if axis in letters])
    if not array.size or not 1 <= ordered.shape[-1] <= 4:
        raise ShapeError(
            "these are no pixels",
            expected="at least one pixel, and 1 to 4 channels",
            got=f"{list(array.shape)} as {letters}",
            hint="check the order of the axes in dataformats",
        )
    return _to_bytes(ordered)


def _to_bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    if array.dtype.kind not in "bf" and array.dtype != np.uint8:
        raise DTypeError(
            "pixels need another dtype",
            expected="uint8, or a floating-point dtype with values between 0 and 1",
            got=str(array.dtype),
            hint="image.astype(np.uint8)",
        )
    pixels = np.empty(array.shape, np.uint8)
    for channel in range(array.shape[-1]):  # three times as fast as at once where the channels came first
        pixels[..., channel] = _byte_plane(array[..., channel])
    return pixels


def _byte_plane(plane: NDArray[Any]) -> NDArray[Any]:
    """Return numbers between 0 and 255, of any dtype."""
    if plane.dtype == np.uint8:
        return plane
    if plane.dtype.kind == "b":
        return plane * np.uint8(255)
    scaled: NDArray[Any] = np.fmax(plane, 0, dtype=np.result_type(plane.dtype, np.float32))  # NaN becomes 0
    np.fmin(scaled, 1, out=scaled)
    scaled *= 255
    return scaled


def draw_boxes(pixels: Pixels, boxes: Any, labels: Sequence[str] | None = None) -> Pixels:
    """Return the picture in colour with the outlines of boxes.

    Args:
      pixels: `[height, width, channels]`.
      boxes: `[boxes, 4]`: left, top, right and bottom in pixels; what is outside of the picture is cut off.
      labels: a text for each box, or None.
    Returns:
      uint8 `[height, width, 3]`.
    Raises:
      ShapeError: the boxes have no four numbers each, or are not as many as the labels.
      NotFoundError: there are labels, and pillow is not installed.
    """
    corners = np.asarray(boxes, np.float64)
    wanted = len(corners) if labels is None else len(labels)
    if corners.ndim != 2 or corners.shape != (wanted, 4):
        raise ShapeError(
            "boxes need four numbers each, and a label each or none at all",
            expected=f"[{wanted}, 4]: left, top, right, bottom",
            got=f"shape {list(corners.shape)}",
            hint="boxes.reshape(-1, 4)",
        )
    height, width, channels = pixels.shape
    drawn = np.array(pixels[..., :3] if channels >= 3 else np.repeat(pixels[..., :1], 3, axis=-1))
    limits = [width - 1, height - 1, width - 1, height - 1]
    places = np.clip(corners, 0, limits).round().astype(int).tolist()
    for left, top, right, bottom in places:
        drawn[[top, bottom], left : right + 1] = _BOX_COLOR
        drawn[top : bottom + 1, [left, right]] = _BOX_COLOR
    return drawn if labels is None else _write(drawn, [place[:2] for place in places], labels)


def _write(pixels: Pixels, places: Sequence[Sequence[int]], labels: Sequence[str]) -> Pixels:
    picture = load_extra("PIL.Image", "images").fromarray(pixels)
    pen = load_extra("PIL.ImageDraw", "images").Draw(picture)
    for (left, top), label in zip(places, labels, strict=True):
        pen.text((left + 2, top + 1), label, fill=_BOX_COLOR)
    return np.array(picture, np.uint8)


def enlarge(pixels: Pixels, factor: float) -> Pixels:
    """Return the picture larger or smaller, by the nearest pixels.

    Raises:
      InvalidArgumentError: the factor is not positive.
    """
    if not factor > 0:
        raise InvalidArgumentError(
            "a picture cannot be scaled so", expected="a factor > 0", got=repr(factor), hint="rescale=1 keeps the size"
        )
    height, width = (max(1, round(size * factor)) for size in pixels.shape[:2])
    rows = np.minimum((np.arange(height) / factor).astype(int), pixels.shape[0] - 1)
    columns = np.minimum((np.arange(width) / factor).astype(int), pixels.shape[1] - 1)
    enlarged: Pixels = pixels[rows[:, np.newaxis], columns]
    return enlarged


def figure_pixels(figure: Any, *, close: bool = False) -> Pixels:
    """Return a matplotlib figure as pixels, drawn without a window.

    Args:
      figure: a `matplotlib.figure.Figure`.
      close: whether pyplot is to forget it.
    Raises:
      NotFoundError: matplotlib is not installed.
    """
    canvas = load_extra("matplotlib.backends.backend_agg", "plots").FigureCanvasAgg(figure)
    canvas.draw()
    pixels = np.array(np.asarray(canvas.buffer_rgba())[..., :3], np.uint8)
    if close and "matplotlib.pyplot" in sys.modules:  # without it there is nothing that remembers
        sys.modules["matplotlib.pyplot"].close(figure)
    return pixels


def _format_error(dataformats: str, expected: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        "the format of a picture is not known",
        expected=f"a letter for each axis: {expected}",
        got=repr(dataformats),
        hint="dataformats='CHW' for channels first",
    )
