"""Pictures and films: another decoder must see the same pixels."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from headrace_viz.png import encode_animated_png, encode_png

Image = pytest.importorskip("PIL.Image")
MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
SIZES = st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 4))


@settings(max_examples=50, deadline=None)
@given(arrays.arrays(np.uint8, SIZES), st.integers(0, 9))
def test_pillow_sees_the_pixels(pixels: np.ndarray, level: int) -> None:
    picture = Image.open(io.BytesIO(encode_png(pixels, level)))
    assert picture.mode == MODES[pixels.shape[2]]
    np.testing.assert_array_equal(np.asarray(picture).reshape(pixels.shape), pixels)


def test_pixels_that_are_a_view() -> None:
    pixels = np.arange(24, dtype=np.uint8).reshape(3, 4, 2).swapaxes(0, 1)[::-1]
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(encode_png(pixels)))), pixels)


@pytest.mark.parametrize("frames", [1, 2, 5])
def test_pillow_plays_the_film(frames: int) -> None:
    film = np.random.default_rng(1).integers(0, 256, [frames, 3, 5, 3], np.uint8)
    picture = Image.open(io.BytesIO(encode_animated_png(film, 8.0)))
    assert picture.n_frames == frames
    for number in range(frames):
        picture.seek(number)
        np.testing.assert_array_equal(np.asarray(picture.convert("RGB")), film[number])
    assert picture.info["duration"] == 125.0
    assert picture.info["loop"] == 0


def test_a_program_that_knows_only_png_reads_the_first_frame() -> None:
    film = np.stack([np.full([2, 2, 1], value, np.uint8) for value in (7, 9)])
    data = encode_animated_png(film, 4)
    kinds, place = [], 8
    while place < len(data):
        length, kind = struct.unpack_from(">I4s", data, place)
        kinds.append(kind)
        place += 12 + length
    assert kinds == [b"IHDR", b"acTL", b"fcTL", b"IDAT", b"fcTL", b"fdAT", b"IEND"]


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_noise_is_stored_and_all_else_compressed(channels: int) -> None:
    noise = np.random.default_rng(1).integers(0, 256, [90, 80, channels], np.uint8)
    data = encode_png(noise)
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(data))).reshape(noise.shape), noise)
    assert noise.size < len(data) < 1.03 * noise.size + 100
    assert data[data.index(b"IDAT") + 6] >> 1 & 3 == 0  # the type of the first block: stored
    grainy = (np.linspace(0, 200, 80)[:, np.newaxis] + noise // 16).astype(np.uint8)
    data = encode_png(grainy)
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(data))).reshape(noise.shape), grainy)
    assert len(data) < 0.8 * noise.size
