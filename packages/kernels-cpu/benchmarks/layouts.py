"""What other layouts of images would gain: oneDNN's convolutions of NHWC images beside those of layouts it chooses.

The layers are those of ResNet-50 for one and eight images, and of VGG-A and AlexNet for sixteen. Filters always have
the layout that oneDNN chooses; bringing images into another one and back is not counted, so this is the most that a
network gains that stays in it. The two take turns, round by round. It prints medians over the rounds in microseconds,
which layout was chosen, and for each network the ratio of the sums over its layers.

Run: `python layouts.py [--quick] [--json FILE]`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from headrace.plan import available_threads
from headrace.types import float32
from headrace_cpu.llvm.signals import held_signals
from headrace_cpu.onednn import OneDnn, capi, onednn

Layer = tuple[int, int, int, int, int, int]
"""Rows and columns of an image, channels in, channels out, taps along each side, stride; how often there is one."""
RESNET: list[Layer] = [
    (56, 64, 64, 1, 1, 1), (56, 64, 64, 3, 1, 3), (56, 64, 256, 1, 1, 4), (56, 256, 64, 1, 1, 2),
    (56, 256, 128, 1, 1, 1), (56, 128, 128, 3, 2, 1), (28, 128, 512, 1, 1, 4), (28, 512, 128, 1, 1, 3),
    (28, 128, 128, 3, 1, 3), (28, 512, 256, 1, 1, 1), (28, 256, 256, 3, 2, 1), (14, 256, 1024, 1, 1, 6),
    (14, 1024, 256, 1, 1, 5), (14, 256, 256, 3, 1, 5), (14, 1024, 512, 1, 1, 1), (14, 512, 512, 3, 2, 1),
    (7, 512, 2048, 1, 1, 3), (7, 2048, 512, 1, 1, 2), (7, 512, 512, 3, 1, 2),
]  # fmt: skip
VGG: list[Layer] = [
    (112, 64, 128, 3, 1, 1), (56, 128, 256, 3, 1, 1), (56, 256, 256, 3, 1, 1), (28, 256, 512, 3, 1, 1),
    (28, 512, 512, 3, 1, 1), (14, 512, 512, 3, 1, 2),
]  # fmt: skip
ALEXNET: list[Layer] = [
    (27, 64, 192, 5, 1, 1),
    (13, 192, 384, 3, 1, 1),
    (13, 384, 256, 3, 1, 1),
    (13, 256, 256, 3, 1, 1),
]
NETWORKS = [("ResNet-50", 1, RESNET), ("ResNet-50", 8, RESNET), ("VGG-A", 16, VGG), ("AlexNet", 16, ALEXNET)]


@dataclass(frozen=True, slots=True)
class Result:
    """One row: medians in microseconds of a layer in NHWC and as oneDNN chooses, and whether that is another layout."""

    network: str
    images: int
    layer: Layer
    nhwc: float
    chosen: float
    differs: bool


def convolution(library: OneDnn, images: int, layer: Layer, *, chosen: bool) -> tuple[Callable[[], None], bool]:
    """A convolution forward with a bias, padded to keep the size, and whether it reads NHWC."""
    size, given, made, taps, stride, _ = layer
    left = -(-size // stride)

    def plain(channels: int, side: int) -> capi.Descriptor:
        strides = channels * side * side, 1, channels * side, channels
        return library.strided((images, channels, side, side), float32, strides)

    def described(channels: int, side: int) -> capi.Descriptor:
        return library.any((images, channels, side, side), float32) if chosen else plain(channels, side)

    bias = library.strided((made,), float32, (1,))
    filters = library.any((made, given, taps, taps), float32)
    before = (taps - 1) // 2
    after = (left - 1) * stride + taps - size - before
    numbers = [(stride,) * 2, (0,) * 2, (before,) * 2, (after,) * 2]
    description = library.describe(
        "convolution_forward", capi.FORWARD_INFERENCE, capi.DIRECT,
        described(given, size), filters, bias, described(made, left), *map(capi.dims, numbers), None,
    )  # fmt: skip
    assert description is not None
    layouts = [
        (capi.SRC, library.queried(description, capi.QUERY_SRC)),
        (capi.WEIGHTS, library.queried(description, capi.QUERY_WEIGHTS)),
        (capi.BIAS, bias),
        (capi.DST, library.queried(description, capi.QUERY_DST)),
    ]
    arrays = [np.ones(layout.size // 4, np.float32) for _, layout in layouts]

    def room(bytes_: int) -> int:
        arrays.append(np.zeros(bytes_ // 4 + 1, np.float32))
        return len(arrays) - 1

    arguments = [(number, place, layout) for place, (number, layout) in enumerate(layouts)]
    run = library.execution(library.working(description, arguments, room), arrays)
    return run, library.same(layouts[0][1], plain(given, size))


def median(run: Callable[[], None], seconds: float) -> float:
    """Median microseconds of a call."""
    taken: list[float] = []
    run()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(taken) < 3:
        begin = time.perf_counter()
        run()
        taken.append(1e6 * (time.perf_counter() - begin))
    return statistics.median(taken)


def main() -> None:
    """Measure every layer and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one round of ResNet-50 for one image")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    options = parser.parse_args()
    library = onednn()
    if library is None:
        raise SystemExit("oneDNN is not installed: pip install headrace-kernels-cpu[onednn]")
    library.use_threads(available_threads())
    results: list[Result] = []
    for network, images, layers in NETWORKS[:1] if options.quick else NETWORKS:
        for layer in layers:
            made = [convolution(library, images, layer, chosen=chosen) for chosen in (False, True)]
            runs, differs = [run for run, _ in made], not made[1][1]
            with held_signals():
                rounds = [[median(run, 0.1) for run in runs] for _ in range(1 if options.quick else 5)]
            nhwc, chosen = (statistics.median(column) for column in zip(*rounds, strict=True))
            results.append(Result(network, images, layer, nhwc, chosen, differs))
            print(
                f"{network} x {images}  {layer!s:28} NHWC {nhwc:9.1f} us  chosen {chosen:9.1f} us  {chosen / nhwc:.2f}"
                f"  {'another layout' if differs else 'NHWC'}"
            )
        own = [row for row in results if (row.network, row.images) == (network, images)]
        sums = [sum(getattr(row, name) * row.layer[-1] for row in own) for name in ("nhwc", "chosen")]
        print(
            f"{network} x {images}: {sums[0] / 1e3:.2f} ms in NHWC, {sums[1] / sums[0]:.2f} of that as oneDNN chooses"
        )
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in results], indent=2) + "\n")


if __name__ == "__main__":
    main()
