"""The workloads in PyTorch: eager, or by `torch.compile` as `torch-compile`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional

from bench.works import MOMENTUM, Options, Work


def _native(value: Any) -> Any:
    """A weight in the layout that PyTorch computes in."""
    tensor = torch.from_numpy(value)
    if tensor.ndim == 4:
        return tensor.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
    return tensor.clone()


def build(work: Work, weights: dict[str, Any], data: dict[str, Any], options: Options) -> Callable[[], Any]:
    """A step of the workload."""
    torch.set_num_threads(options.threads)
    v = {name: torch.nn.Parameter(_native(value), work.kind != "infer") for name, value in weights.items()}
    t = {name: torch.from_numpy(value) for name, value in data.items()}
    words = _Words()
    if work.kind == "adam":
        return _adam(work, v, t)
    assert work.model is not None
    model = torch.compile(work.model) if options.variant == "compile" else work.model
    if work.kind == "infer":

        def plain() -> Any:
            with torch.inference_mode():
                return model(words, v, t).numpy()

        return plain
    momentum = MOMENTUM if work.kind == "train" else 0.0
    optimizer = torch.optim.SGD(list(v.values()), work.rate, momentum)

    def run() -> Any:
        optimizer.zero_grad()
        if work.kind == "sparse":
            loss = model(words, functional.embedding(t["x"].long(), v["table"], sparse=True))
        else:
            loss = model(words, v, t)
        loss.backward()
        optimizer.step()
        return loss.item()

    return run


def _adam(work: Work, v: dict[str, Any], t: dict[str, Any]) -> Callable[[], Any]:
    for name, parameter in v.items():
        parameter.grad = t[name]
    optimizer = torch.optim.Adam(list(v.values()), work.rate, fused=True)
    first = next(iter(v.values()))

    def run() -> Any:
        optimizer.step()
        return first[0].item()

    return run


class _Words:
    """See `models.Words`."""

    relu, sigmoid, tanh = staticmethod(torch.relu), staticmethod(torch.sigmoid), staticmethod(torch.tanh)

    def images(self, x: Any) -> Any:
        return x.permute(0, 3, 1, 2)

    def rows(self, x: Any) -> Any:
        return x.permute(0, 2, 3, 1).reshape(x.shape[0], -1)

    def convolution(self, x: Any, kernel: Any, bias: Any | None, stride: int, padding: int) -> Any:
        return functional.conv2d(x, kernel, bias, stride, padding)

    def max_pool(self, x: Any, size: int, stride: int, padding: str, length: int) -> Any:
        total = max((-(-length // stride) - 1) * stride + size - length, 0) if padding == "SAME" else 0
        return functional.max_pool2d(x, size, stride, total // 2, ceil_mode=total % 2 == 1)

    def mean_of_images(self, x: Any) -> Any:
        return x.mean((2, 3))

    def normalized(self, x: Any, scale: Any, offset: Any, mean: Any, variance: Any) -> Any:
        return functional.batch_norm(x, mean, variance, scale, offset, training=False, eps=1e-5)

    def channels(self, parts: Sequence[Any]) -> Any:
        return torch.cat(list(parts), 1)

    def zeros(self, *shape: int) -> Any:
        return torch.zeros(*shape)

    def reshape(self, x: Any, *shape: int) -> Any:
        return x.reshape(*shape)

    def columns(self, parts: Sequence[Any]) -> Any:
        return torch.cat(list(parts), 1)

    def split(self, x: Any, count: int) -> Sequence[Any]:
        result: Sequence[Any] = x.chunk(count, -1)
        return result

    def stack(self, parts: Sequence[Any]) -> Any:
        return torch.stack(list(parts), 1)

    def unstack(self, x: Any) -> Sequence[Any]:
        result: Sequence[Any] = x.unbind(1)
        return result

    def lookup(self, table: Any, ids: Any) -> Any:
        return functional.embedding(ids.long(), table)

    def gelu(self, x: Any) -> Any:
        return functional.gelu(x, approximate="tanh")

    def sum_of_squares(self, x: Any) -> Any:
        return x.square().sum()

    def softmax(self, x: Any) -> Any:
        return torch.softmax(x, -1)

    def layer_norm(self, x: Any, gain: Any | None, shift: Any | None) -> Any:
        return functional.layer_norm(x, x.shape[-1:], gain, shift)

    def attention(self, qkv: Any, batch: int, heads: int) -> Any:
        rows, width = qkv.shape
        length, depth = rows // batch, width // 3 // heads
        q, k, value = (x.reshape(batch, length, heads, depth).transpose(1, 2) for x in qkv.chunk(3, 1))
        mixed = functional.scaled_dot_product_attention(q, k, value, is_causal=True)
        return mixed.transpose(1, 2).reshape(rows, width // 3)

    def cross_entropy(self, logits: Any, labels: Any) -> Any:
        return functional.cross_entropy(logits, labels.long())

    def repeat(self, count: int, body: Callable[[Any], Any], x: Any) -> Any:
        for _ in range(count):
            x = body(x)
        return x
