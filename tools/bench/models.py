"""What the workloads compute, written once in words that each peer gives a meaning in its framework.

`Words` is what a peer has to provide. `+`, `*` and `@` are the framework's own operators; names of arrays are those of
`works`. A peer may say a word in whatever form its framework does best.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from bench.nets import Net

__all__ = [
    "Words", "chain", "classified", "elementwise", "embedding", "gpt", "layer_norm", "logits", "loop", "lstm", "small",
    "softmax",
]  # fmt: skip

Values = dict[str, Any]


class Words(Protocol):
    """The operations of a framework by the names that the models use."""

    def images(self, x: Any) -> Any:
        """`[batch, rows, columns, channels]` in the layout that the framework computes in."""

    def rows(self, x: Any) -> Any:
        """Images as `[batch, rows * columns * channels]`."""

    def convolution(self, x: Any, kernel: Any, bias: Any | None, stride: int, padding: int) -> Any:
        """A padded convolution of images."""

    def max_pool(self, x: Any, size: int, stride: int, padding: str, length: int) -> Any:
        """The maximum of each window of images that are `length` high and wide."""

    def mean_of_images(self, x: Any) -> Any:
        """`[batch, channels]`."""

    def normalized(self, x: Any, scale: Any, offset: Any, mean: Any, variance: Any) -> Any:
        """Batch norm of images by given statistics, epsilon 1e-5."""

    def channels(self, parts: Sequence[Any]) -> Any:
        """Images with the channels of all parts."""

    def zeros(self, *shape: int) -> Any:
        """float32."""

    def reshape(self, x: Any, *shape: int) -> Any:
        """The same elements."""

    def columns(self, parts: Sequence[Any]) -> Any:
        """Matrices side by side."""

    def split(self, x: Any, count: int) -> Sequence[Any]:
        """Equal parts of the last axis."""

    def stack(self, parts: Sequence[Any]) -> Any:
        """Parts along a new axis 1."""

    def unstack(self, x: Any) -> Sequence[Any]:
        """What lies along axis 1."""

    def lookup(self, table: Any, ids: Any) -> Any:
        """Rows of a table that is updated as a whole."""

    def relu(self, x: Any) -> Any:
        """max(x, 0)."""

    def gelu(self, x: Any) -> Any:
        """By tanh."""

    def sigmoid(self, x: Any) -> Any:
        """1 / (1 + exp(-x))."""

    def tanh(self, x: Any) -> Any:
        """Hyperbolic tangent."""

    def sum_of_squares(self, x: Any) -> Any:
        """Of all elements."""

    def softmax(self, x: Any) -> Any:
        """Of each row."""

    def layer_norm(self, x: Any, gain: Any | None, shift: Any | None) -> Any:
        """Of each row, epsilon 1e-5."""

    def attention(self, qkv: Any, batch: int, heads: int) -> Any:
        """Causal self-attention of `[batch * length, 3 * width]`: `[batch * length, width]`."""

    def cross_entropy(self, logits: Any, labels: Any) -> Any:
        """The mean loss of integer labels."""

    def repeat(self, count: int, body: Callable[[Any], Any], x: Any) -> Any:
        """`body` applied `count` times by a loop of the framework."""


def logits(net: Net, f: Words, v: Values, x: Any) -> Any:
    """What a network gives."""
    values = [f.images(x) if len(net.shape) == 3 else x]
    shapes = [net.shape, *(layer.shape for layer in net.layers)]
    for number, layer in enumerate(net.layers, 1):
        inputs = [values[index] for index in layer.inputs]
        given = shapes[layer.inputs[0]]
        if layer.op == "conv":
            y = f.convolution(inputs[0], v[f"k{number}"], v.get(f"b{number}"), layer.stride, int(layer.padding))
            if layer.normalized:
                y = f.normalized(y, *(v[f"{name}{number}"] for name in ("scale", "offset", "mean", "variance")))
        elif layer.op == "pool":
            y = f.max_pool(inputs[0], layer.size, layer.stride, str(layer.padding), given[0])
        elif layer.op == "mean":
            y = f.mean_of_images(inputs[0])
        elif layer.op == "dense":
            y = (f.rows(inputs[0]) if len(given) == 3 else inputs[0]) @ v[f"k{number}"] + v[f"b{number}"]
        elif layer.op == "concat":
            y = f.channels(inputs)
        else:
            y = inputs[0] + inputs[1]
        values.append(f.relu(y) if layer.relu else y)
    return values[-1]


def classified(net: Net, f: Words, v: Values, t: Values) -> Any:
    """The loss of a network."""
    return f.cross_entropy(logits(net, f, v, t["x"]), t["y"])


def lstm(f: Words, v: Values, t: Values) -> Any:
    """A language model: one layer, unrolled."""
    batch, width = 32, 512
    h, c, states = f.zeros(batch, width), f.zeros(batch, width), []
    for row in f.unstack(f.lookup(v["embedding"], t["x"])):
        i, j, forget, o = f.split(f.columns([row, h]) @ v["w"] + v["b"], 4)
        c = c * f.sigmoid(forget + 1.0) + f.sigmoid(i) * f.tanh(j)
        h = f.tanh(c) * f.sigmoid(o)
        states.append(h)
    flat = f.reshape(f.stack(states), -1, width)
    return f.cross_entropy(flat @ v["out"] + v["bias"], f.reshape(t["y"], -1))


def gpt(f: Words, v: Values, t: Values) -> Any:
    """A decoder of four layers, normalised before each part."""
    batch, width = 8, 256
    h = f.reshape(f.lookup(v["embedding"], t["x"]) + v["position"], -1, width)
    for n in range(4):
        a = f.layer_norm(h, v[f"gain_a{n}"], v[f"shift_a{n}"])
        mixed = f.attention(a @ v[f"qkv{n}"] + v[f"qkv_b{n}"], batch, 4)
        h = h + mixed @ v[f"o{n}"] + v[f"o_b{n}"]
        b = f.layer_norm(h, v[f"gain_b{n}"], v[f"shift_b{n}"])
        h = h + f.gelu(b @ v[f"up{n}"] + v[f"up_b{n}"]) @ v[f"down{n}"] + v[f"down_b{n}"]
    return f.cross_entropy(f.layer_norm(h, v["gain"], v["shift"]) @ v["out"], f.reshape(t["y"], -1))


def embedding(f: Words, rows: Any) -> Any:
    """A loss of looked-up rows."""
    return f.sum_of_squares(rows)


def elementwise(f: Words, v: Values, t: Values) -> Any:
    """A sum and an activation."""
    return f.gelu(t["x"] + t["y"])


def softmax(f: Words, v: Values, t: Values) -> Any:
    """Of each row."""
    return f.softmax(t["x"])


def layer_norm(f: Words, v: Values, t: Values) -> Any:
    """Of each row, without gain and shift."""
    return f.layer_norm(t["x"], None, None)


def small(f: Words, v: Values, t: Values) -> Any:
    """One small operation."""
    return t["x"] + 1.0


def chain(f: Words, v: Values, t: Values) -> Any:
    """A thousand small operations, one after the other."""
    x = t["x"]
    for number in range(1000):
        x = x + 1.0 if number % 2 else x * 1.0001
    return x


def loop(f: Words, v: Values, t: Values) -> Any:
    """A loop of 1,000 small iterations."""
    return f.repeat(1000, lambda x: x * 0.999 + t["y"], t["x"])
