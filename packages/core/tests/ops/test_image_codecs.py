"""Files of images: what is written is read back, by Pillow and by this package."""

from __future__ import annotations

import importlib
import io

import numpy as np
import pytest

import headrace as hr
from headrace.errors import InvalidArgumentError, UnavailableError, UnimplementedError

PIL = pytest.importorskip("PIL.Image")


def run(build, *arrays):
    with hr.Graph().as_default() as graph:
        result = build(*(hr.constant(array) for array in arrays))
    return hr.Session(graph).run(result)


def pixels(channels, dtype=np.uint8, rows=5, columns=7):
    high = np.iinfo(dtype).max
    return np.random.default_rng(channels).integers(0, high, (rows, columns, channels), dtype, endpoint=True)


def written(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("compression", [-1, 0, 9])
def test_png_files_are_read_back_by_all(channels, compression):
    image = pixels(channels)
    data = run(lambda x: hr.image.encode_png(x, compression=compression), image).item()
    np.testing.assert_array_equal(np.asarray(PIL.open(io.BytesIO(data))).reshape(image.shape), image)
    np.testing.assert_array_equal(run(hr.image.decode_png, data), image)


def test_png_files_of_16_bits():
    image = pixels(1, np.uint16)
    data = run(hr.image.encode_png, image).item()
    np.testing.assert_array_equal(run(lambda x: hr.image.decode_png(x, dtype=hr.uint16), data), image)
    np.testing.assert_array_equal(run(hr.image.decode_png, data), image >> 8)
    colours = run(hr.image.encode_png, pixels(3, np.uint16)).item()
    np.testing.assert_array_equal(run(hr.image.decode_png, colours), pixels(3, np.uint16) >> 8)
    with pytest.raises(UnimplementedError, match="colours of 16 bits"):
        run(lambda x: hr.image.decode_png(x, dtype=hr.uint16), colours)


def test_a_batch_of_images_is_encoded_one_by_one():
    images = np.stack([pixels(3), pixels(3) // 2])
    found = run(hr.image.encode_png, images)
    assert found.shape == (2,)
    np.testing.assert_array_equal(run(hr.image.decode_png, found[1]), images[1])


def test_channels_and_depths_are_converted():
    image = pixels(3)
    data = written(PIL.fromarray(image), "PNG")
    with_opacity = run(lambda x: hr.image.decode_png(x, channels=4), data)
    np.testing.assert_array_equal(with_opacity[..., :3], image)
    assert (with_opacity[..., 3] == 255).all()
    assert run(lambda x: hr.image.decode_png(x, channels=1), data).shape == (5, 7, 1)
    wide = run(lambda x: hr.image.decode_png(x, dtype=hr.uint16), data)
    np.testing.assert_array_equal(wide, image.astype(np.uint16) * 257)


def test_palettes_and_single_bits_are_spread():
    image = PIL.fromarray(pixels(3)).convert("P")
    expected = np.asarray(image.convert("RGB"))
    np.testing.assert_array_equal(run(hr.image.decode_png, written(image, "PNG")), expected)
    bits = PIL.fromarray((pixels(1)[..., 0] > 127).astype(np.uint8) * 255).convert("1")
    np.testing.assert_array_equal(run(hr.image.decode_png, written(bits, "PNG"))[..., 0], np.asarray(bits) * 255)


@pytest.mark.parametrize("channels", [1, 3])
def test_jpeg_files_are_read_back_nearly(channels):
    rows, columns = np.mgrid[0:40, 0:64]
    image = np.stack([rows * 4 + columns, 255 - rows * 3, columns * 3][:channels], axis=-1).astype(np.uint8)
    data = run(lambda x: hr.image.encode_jpeg(x, quality=100), image).item()
    found = run(hr.image.decode_jpeg, data)
    assert np.abs(found.astype(int) - image).max() <= 6
    np.testing.assert_array_equal(found, run(hr.image.decode_png, data))
    grey = run(lambda x: hr.image.decode_jpeg(x, channels=1), data)
    assert grey.shape == (40, 64, 1)
    assert np.abs(grey[..., 0].astype(int) - np.asarray(PIL.fromarray(found.squeeze()).convert("L"))).max() <= 3


@pytest.mark.parametrize("ratio", [1, 2, 4, 8])
def test_jpeg_files_are_decoded_at_a_fraction_of_their_size(ratio):
    data = run(hr.image.encode_jpeg, np.full((40, 60, 3), 100, np.uint8))
    found = run(lambda x: hr.image.decode_jpeg(x, ratio=ratio), data)
    assert found.shape == (-(-40 // ratio), -(-60 // ratio), 3)
    assert (np.abs(found.astype(int) - 100) <= 1).all()


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_files_that_are_cut_off_are_named(kind):
    data = written(PIL.fromarray(pixels(3, rows=50)), kind)
    with pytest.raises(InvalidArgumentError, match="damaged"):
        run(hr.image.decode_png, data[: len(data) // 2])
    with pytest.raises(InvalidArgumentError, match="damaged"):
        run(hr.image.decode_png, data[:12])


def test_what_to_install_is_said(monkeypatch):
    real = importlib.import_module

    def missing(name, *rest):
        if name.startswith("PIL"):
            raise ImportError(name)
        return real(name, *rest)

    data = run(hr.image.encode_png, pixels(3)).item()
    monkeypatch.setattr(importlib, "import_module", missing)

    with pytest.raises(UnavailableError, match=r"headrace\[images\]"):
        run(hr.image.decode_png, data)
    assert run(hr.image.encode_png, pixels(3)).item() == data


def test_any_file_of_an_image_is_decoded_in_the_depth_that_is_asked_for():
    image = pixels(3)
    files = {kind: written(PIL.fromarray(image), kind) for kind in ("PNG", "BMP")}

    def decoded(data, **attrs):
        return run(lambda x: hr.apply_op("DecodeImage", x, **attrs), data)

    for kind, factor in (("PNG", 257), ("BMP", 256)):
        np.testing.assert_array_equal(decoded(files[kind]), image)
        np.testing.assert_array_equal(decoded(files[kind], dtype="uint16"), image.astype(np.uint16) * np.uint16(factor))
        np.testing.assert_array_equal(decoded(files[kind], dtype="float32"), image / np.float32(255))
    jpeg = written(PIL.fromarray(image), "JPEG")
    found = run(hr.image.decode_jpeg, jpeg)
    np.testing.assert_array_equal(decoded(jpeg), found)
    np.testing.assert_array_equal(decoded(jpeg, dtype="uint16"), found.astype(np.uint16) * 256)
    with pytest.raises(InvalidArgumentError, match="a JPEG file has another number of channels"):
        decoded(jpeg, channels=4)
    wide = pixels(1, np.uint16)
    data = run(hr.image.encode_png, wide).item()
    np.testing.assert_array_equal(decoded(data), wide >> 8)
    np.testing.assert_array_equal(decoded(data, dtype="float32"), wide / np.float32(65535))


@pytest.mark.parametrize("channels", [1, 3])
def test_the_shape_of_a_jpeg_file_is_known_from_its_head(channels):
    data = written(PIL.fromarray(pixels(channels).squeeze()), "JPEG")
    found = run(lambda x: hr.apply_op("ExtractJpegShape", x, output_type=hr.int64), data)
    assert (found.tolist(), found.dtype) == ([5, 7, channels], np.int64)
    with pytest.raises(InvalidArgumentError, match="no JPEG file"):
        run(lambda x: hr.apply_op("ExtractJpegShape", x), written(PIL.fromarray(pixels(3)), "PNG"))
