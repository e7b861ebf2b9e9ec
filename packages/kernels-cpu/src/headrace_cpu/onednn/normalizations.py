"""Batch normalisation and normalisation over neighbouring channels by oneDNN."""

from __future__ import annotations

import ctypes
import math

from headrace.types import bfloat16, float32
from headrace_cpu.onednn import capi
from headrace_cpu.onednn.calls import CallWriter, makes_calls, row_major
from headrace_cpu.onednn.capi import Descriptor

__all__: list[str] = []

GLOBAL_STATISTICS, SCALE, SHIFT = 1, 2, 4
"""Flags of batch normalisation."""
ACROSS_CHANNELS = 0xAFF


def _images(call: CallWriter, position: int, *, channels_last: bool = True) -> Descriptor:
    """Images or volumes in the axes of oneDNN, `[n, c, spatial...]`."""
    shape = call.request.shape(position)
    steps = row_major(shape)
    order = [0, len(shape) - 1, *range(1, len(shape) - 1)] if channels_last else range(len(shape))
    sizes = [shape[axis] for axis in order]
    return call.library.strided(sizes, call.request.dtypes[position], [steps[axis] for axis in order])


def _batch_norm_dtypes(call: CallWriter, images: tuple[int, ...]) -> bool:
    """oneDNN has float32 statistics of float32 and bfloat16 images."""
    dtypes = call.request.dtypes
    return all(
        dtype is float32 or (position in images and dtype is bfloat16) for position, dtype in enumerate(dtypes)
    ) and (len({dtypes[position] for position in images}) == 1)


@makes_calls("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def _batch_norm(call: CallWriter) -> bool:
    """Inputs x, scale, offset, mean, variance; outputs y, new mean and variance, used mean and variance, nothing."""
    attrs = call.request.op.attrs
    if not attrs["is_training"] or not _batch_norm_dtypes(call, (0, 5)):
        return False
    library = call.library
    last = not attrs["data_format"].startswith("NC")
    x, y, vector = _images(call, 0, channels_last=last), _images(call, 5, channels_last=last), call.plain(1)
    flags = SCALE | SHIFT
    found = library.describe(
        "batch_normalization_forward", capi.FORWARD_TRAINING, x, y, ctypes.c_float(attrs["epsilon"]), flags, None
    )
    factor = attrs["exponential_avg_factor"]
    count = math.prod(call.request.shape(0)) // call.request.shape(1)[0]
    if found is None:
        return False
    mean, variance = 8, 9
    call.run(
        found,
        (capi.SRC, 0, x),
        (capi.SCALE, 1, vector),
        (capi.SHIFT, 2, vector),
        (capi.DST, 5, y),
        (capi.MEAN, mean, vector),
        (capi.VARIANCE, variance, vector),
    )
    bessel = count / max(count - 1, 1)
    for position, used, weight in ((6, mean, factor), (7, variance, factor * bessel)):
        parts = [(used, weight)] if factor == 1.0 else [(position - 3, 1.0 - factor), (used, weight)]
        if not call.weighted_sum(parts, vector, position):
            return False
    return True


@makes_calls("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3")
def _batch_norm_gradient(call: CallWriter) -> bool:
    """Inputs dy, x, scale, mean, variance and, last, nothing; outputs by x, scale and offset, and two zeros."""
    attrs = call.request.op.attrs
    made = len(call.request.op.inputs)
    if not _batch_norm_dtypes(call, (0, 1, made)):
        return False
    library = call.library
    last = not attrs["data_format"].startswith("NC")
    dy, x, dx = (_images(call, position, channels_last=last) for position in (0, 1, made))
    vector, epsilon = call.plain(2), ctypes.c_float(attrs["epsilon"])
    flags = SCALE | SHIFT | (0 if attrs["is_training"] else GLOBAL_STATISTICS)
    hint = library.describe("batch_normalization_forward", capi.FORWARD_TRAINING, x, x, epsilon, flags, None)
    if hint is None:
        return False
    given = (capi.BACKWARD, dx, dy, x, epsilon, flags, hint, None)
    found = library.describe("batch_normalization_backward", *given)
    if found is None:
        return False
    call.run(
        found,
        (capi.DIFF_DST, 0, dy),
        (capi.SRC, 1, x),
        (capi.SCALE, 2, vector),
        (capi.MEAN, 3, vector),
        (capi.VARIANCE, 4, vector),
        (capi.DIFF_SRC, made, dx),
        (capi.DIFF_SCALE, made + 1, vector),
        (capi.DIFF_SHIFT, made + 2, vector),
    )
    call.clear(made + 3)
    call.clear(made + 4)
    return True


def _neighbours(call: CallWriter, images: Descriptor) -> tuple[tuple[object, ...], int | None]:
    """The numbers of a normalisation over neighbours, and its forward pass; only what is compiled beats NumPy."""
    attrs = call.request.op.attrs
    size = 2 * attrs["depth_radius"] + 1
    numbers = (
        ctypes.c_int64(size),
        *(ctypes.c_float(number) for number in (attrs["alpha"] * size, attrs["beta"], attrs["bias"])),
    )
    found = call.library.describe("lrn_forward", capi.FORWARD_TRAINING, ACROSS_CHANNELS, images, images, *numbers, None)
    if found is None or call.library.implementation(found).startswith("ref"):
        return numbers, None
    return numbers, found


def _of_one_dtype(call: CallWriter) -> bool:
    dtypes = set(call.request.dtypes)
    return len(dtypes) == 1 and dtypes <= {float32, bfloat16}


@makes_calls("LRN")
def _lrn(call: CallWriter) -> bool:
    images = _images(call, 0)
    _, found = _neighbours(call, images) if _of_one_dtype(call) else ((), None)
    if found is None:
        return False
    _run_forward(call, found, images, 0, 1)
    return True


def _run_forward(call: CallWriter, found: int, images: Descriptor, source: int, target: int) -> tuple[int, Descriptor]:
    """Run a forward pass; gives what it leaves for the gradient: a pointer and its layout."""
    left = call.library.queried(found, capi.QUERY_WORKSPACE)
    place = call.scratch(left.size)
    call.run(found, (capi.SRC, source, images), (capi.DST, target, images), (capi.WORKSPACE, place, left))
    return place, left


@makes_calls("LRNGrad")
def _lrn_gradient(call: CallWriter) -> bool:
    """Inputs dy, x, y. What the forward pass leaves is made again: to keep it, the graph would have to show it."""
    images = _images(call, 1)
    numbers, hint = _neighbours(call, images) if _of_one_dtype(call) else ((), None)
    if hint is None:
        return False
    given = (ACROSS_CHANNELS, images, images, images, *numbers, hint, None)
    found = call.library.describe("lrn_backward", *given)
    if found is None:
        return False
    place, left = _run_forward(call, hint, images, 1, call.scratch(images.size))
    call.run(
        found,
        (capi.SRC, 1, images),
        (capi.DIFF_DST, 0, images),
        (capi.WORKSPACE, place, left),
        (capi.DIFF_SRC, 3, images),
    )
    return True
