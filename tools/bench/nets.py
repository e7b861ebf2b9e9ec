"""Networks as tables: layers in order with their shapes, read alike by every framework, by `works` and by the floor.

The sizes of AlexNet, OverFeat, VGG-A and GoogLeNet are those of the paper's Table 1, without dropout, local response
normalisation and auxiliary classifiers, as such comparisons leave them out. A padding of `"SAME"` puts the odd row of
padding last; a number pads both sides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["NETS", "Layer", "Net"]


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer.

    Attributes:
      op: `"conv"`, `"pool"`, `"mean"`, `"dense"`, `"concat"` or `"add"`.
      inputs: which values it takes: 0 is what the network is given, n what its layer n gives, counted from 1.
      shape: of its output, without the batch.
      kernel: the shape of its weights `[rows, columns, in, out]` or `[in, out]`; empty where it has none.
      size: of the window of a pool.
      stride: from window to window.
      padding: see the module.
      relu: whether relu follows.
      normalized: whether a batch norm stands before relu, instead of a bias.
    """

    op: str
    inputs: tuple[int, ...]
    shape: tuple[int, ...]
    kernel: tuple[int, ...] = ()
    size: int = 1
    stride: int = 1
    padding: int | str = 0
    relu: bool = False
    normalized: bool = False

    @property
    def flops(self) -> float:
        """Multiplications and additions of its product for one example."""
        return 2.0 * math.prod(self.kernel) * math.prod(self.shape[:-1]) if self.kernel else 0.0


class Net:
    """A network while it is written down, and then. Each method adds a layer and returns its number. Mutable.

    Args:
      shape: of one example.
    """

    def __init__(self, *shape: int) -> None:
        self.shape = shape
        self.layers: list[Layer] = []

    def _shape(self, x: int) -> tuple[int, ...]:
        return self.layers[x - 1].shape if x else self.shape

    def _add(self, op: str, inputs: tuple[int, ...], shape: tuple[int, ...], **options: Any) -> int:
        self.layers.append(Layer(op, inputs, shape, **options))
        return len(self.layers)

    def conv(
        self, x: int, channels: int, size: int, stride: int = 1, padding: int | None = None, **options: bool
    ) -> int:
        """A convolution, by default padded so that stride 1 keeps the size; relu follows unless `relu` is False."""
        rows, columns, given = self._shape(x)
        pad = size // 2 if padding is None else padding
        out = tuple((length + 2 * pad - size) // stride + 1 for length in (rows, columns))
        kernel = (size, size, given, channels)
        options = {"relu": True, **options}
        return self._add("conv", (x,), (*out, channels), kernel=kernel, stride=stride, padding=pad, **options)

    def pool(self, x: int, size: int, stride: int, padding: str = "VALID") -> int:
        """The maximum of each window."""
        *lengths, channels = self._shape(x)
        short = 0 if padding == "SAME" else size - 1
        out = tuple(-(-(length - short) // stride) for length in lengths)
        return self._add("pool", (x,), (*out, channels), size=size, stride=stride, padding=padding)

    def mean(self, x: int) -> int:
        """The mean of each channel."""
        return self._add("mean", (x,), self._shape(x)[-1:])

    def dense(self, x: int, outputs: int, *, relu: bool = True) -> int:
        """A product with a matrix, of images as rows."""
        return self._add("dense", (x,), (outputs,), kernel=(math.prod(self._shape(x)), outputs), relu=relu)

    def concat(self, *xs: int) -> int:
        """The channels of several values."""
        *lengths, _ = self._shape(xs[0])
        return self._add("concat", xs, (*lengths, sum(self._shape(x)[-1] for x in xs)))

    def add(self, x: int, y: int) -> int:
        """relu(x + y)."""
        return self._add("add", (x, y), self._shape(x), relu=True)

    @property
    def flops(self) -> float:
        """Of its products, forward, for one example."""
        return sum(layer.flops for layer in self.layers)

    @property
    def training_flops(self) -> float:
        """Of its products, forward and backward, for one example; nothing needs the gradient of what it is given."""
        return 3 * self.flops - next(layer.flops for layer in self.layers if layer.kernel)

    def weights(self, rng: np.random.Generator) -> dict[str, Any]:
        """Initial weights by name: `k` and the number of the layer, and so on."""
        found: dict[str, Any] = {}
        for number, layer in enumerate(self.layers, 1):
            if not layer.kernel:
                continue
            is_last = number == len(self.layers)
            scale = 0.01 if is_last else math.sqrt(2.0 / math.prod(layer.kernel[:-1]))
            found[f"k{number}"] = rng.standard_normal(layer.kernel, np.float32) * np.float32(scale)
            channels = layer.kernel[-1]
            if layer.normalized:
                found[f"scale{number}"] = np.full(channels, 1.0 if layer.relu else 0.3, np.float32)
                found[f"offset{number}"] = rng.standard_normal(channels, np.float32) * np.float32(0.1)
                found[f"mean{number}"] = rng.standard_normal(channels, np.float32) * np.float32(0.1)
                found[f"variance{number}"] = rng.uniform(0.5, 1.5, channels).astype(np.float32)
            else:
                found[f"b{number}"] = np.zeros(channels, np.float32)
        return found


def _mlp() -> Net:
    net = Net(784)
    net.dense(net.dense(net.dense(0, 512), 512), 10, relu=False)
    return net


def _cnn() -> Net:
    net = Net(32, 32, 3)
    x = net.conv(0, 32, 3)
    x = net.pool(net.conv(x, 64, 3), 2, 2)
    x = net.pool(net.conv(x, 128, 3), 2, 2)
    net.dense(net.dense(x, 256), 10, relu=False)
    return net


def _alexnet() -> Net:
    net = Net(224, 224, 3)
    x = net.pool(net.conv(0, 64, 11, 4, 2), 3, 2)
    x = net.pool(net.conv(x, 192, 5), 3, 2)
    for channels in (384, 256, 256):
        x = net.conv(x, channels, 3)
    _classifier(net, net.pool(x, 3, 2), 4096, 4096)
    return net


def _overfeat() -> Net:
    net = Net(231, 231, 3)
    x = net.pool(net.conv(0, 96, 11, 4, 0), 2, 2)
    x = net.pool(net.conv(x, 256, 5, 1, 0), 2, 2)
    for channels in (512, 1024, 1024):
        x = net.conv(x, channels, 3)
    _classifier(net, net.pool(x, 2, 2), 3072, 4096)
    return net


def _vgg_a() -> Net:
    net = Net(224, 224, 3)
    x = 0
    for block in ((64,), (128,), (256, 256), (512, 512), (512, 512)):
        for channels in block:
            x = net.conv(x, channels, 3)
        x = net.pool(x, 2, 2)
    _classifier(net, x, 4096, 4096)
    return net


def _classifier(net: Net, x: int, *widths: int) -> None:
    for width in widths:
        x = net.dense(x, width)
    net.dense(x, 1000, relu=False)


INCEPTION = (
    ((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64)),
    (
        (192, 96, 208, 16, 48, 64),
        (160, 112, 224, 24, 64, 64),
        (128, 128, 256, 24, 64, 64),
        (112, 144, 288, 32, 64, 64),
        (256, 160, 320, 32, 128, 128),
    ),
    ((256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)),
)
"""Channels of each module: 1x1; 3x3 and what it takes; 5x5 and what it takes; after the pool. A pool between groups."""


def _googlenet() -> Net:
    net = Net(224, 224, 3)
    x = net.pool(net.conv(0, 64, 7, 2), 3, 2, "SAME")
    x = net.conv(net.conv(x, 64, 1), 192, 3)
    for group in INCEPTION:
        x = net.pool(x, 3, 2, "SAME")
        for plain, before3, after3, before5, after5, pooled in group:
            branches = (
                net.conv(x, plain, 1),
                net.conv(net.conv(x, before3, 1), after3, 3),
                net.conv(net.conv(x, before5, 1), after5, 5),
                net.conv(net.pool(x, 3, 1, "SAME"), pooled, 1),
            )
            x = net.concat(*branches)
    net.dense(net.mean(x), 1000, relu=False)
    return net


def _resnet50() -> Net:
    net = Net(224, 224, 3)
    x = net.pool(net.conv(0, 64, 7, 2, normalized=True), 3, 2, "SAME")
    for group, (blocks, width) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512))):
        for block in range(blocks):
            stride = 2 if group and not block else 1
            y = net.conv(net.conv(x, width, 1, normalized=True), width, 3, stride, normalized=True)
            y = net.conv(y, 4 * width, 1, normalized=True, relu=False)
            short = x if block else net.conv(x, 4 * width, 1, stride, normalized=True, relu=False)
            x = net.add(y, short)
    net.dense(net.mean(x), 1000, relu=False)
    return net


NETS = {
    "mlp": _mlp(),
    "cnn": _cnn(),
    "alexnet": _alexnet(),
    "overfeat": _overfeat(),
    "vgg_a": _vgg_a(),
    "googlenet": _googlenet(),
    "resnet50": _resnet50(),
}
