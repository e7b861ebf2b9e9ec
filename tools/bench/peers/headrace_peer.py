"""The workloads in Headrace."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import headrace as hr
from bench.works import MOMENTUM, Options, Work


def build(work: Work, weights: dict[str, Any], data: dict[str, Any], options: Options) -> Callable[[], Any]:
    """A step of the workload; its attribute `arena_bytes` is a function that runs one more and says what it planned."""
    graph = hr.Graph()
    words = _Words()
    with graph.as_default():
        v: dict[str, Any]
        if work.kind == "infer":
            v = {name: hr.constant(value, name=name) for name, value in weights.items()}
        else:
            v = {name: _variable(name, value) for name, value in weights.items()}
        if work.kind == "adam":
            feeds, fetches = {}, _adam(work, v, data)
        else:
            feeds = {name: hr.placeholder(hr.as_dtype(value.dtype), value.shape) for name, value in data.items()}
            fetches = _fetches(work, words, v, feeds)
    backend = os.environ.get("HEADRACE_BENCH_BACKEND", "cpu")
    with hr.config(backend=backend, threads=options.threads, deterministic=options.deterministic) as config:
        chosen = config if options.precision == "float32" else hr.mixed_precision(options.precision)
    session = hr.Session(graph, config=chosen)
    if work.kind != "infer":
        session.write_variables(weights)
    if work.kind == "adam":
        session.write_variables({f"g_{name}": value for name, value in data.items()})
    step = session.make_callable(fetches, list(feeds.values()))
    arrays = [data[name] for name in feeds]

    def arena_bytes() -> int:
        trace = hr.Trace(detail=False)
        session.run(fetches, feeds={feeds[name]: data[name] for name in feeds}, trace=trace)
        return max(record.arena_bytes for record in trace.steps)

    def run() -> Any:
        return step(*arrays)[0]

    run.arena_bytes = arena_bytes  # type: ignore[attr-defined]  # a function takes attributes
    return run


def _variable(name: str, value: Any, *, trainable: bool = True) -> Any:
    """A variable that is filled later: the graph would keep a value that is given here."""
    return hr.Variable(hr.zeros(value.shape, hr.as_dtype(value.dtype)), name=name, trainable=trainable)


def _fetches(work: Work, words: _Words, v: dict[str, Any], feeds: dict[str, Any]) -> list[Any]:
    assert work.model is not None
    if work.kind == "infer":
        return [work.model(words, v, feeds)]
    if work.kind == "sparse":
        loss = work.model(words, hr.gather(v["table"], feeds["x"]))
        return [loss, hr.optim.SGD(work.rate).minimize(loss)]
    loss = work.model(words, v, feeds)
    return [loss, hr.optim.Momentum(work.rate, momentum=MOMENTUM).minimize(loss)]


def _adam(work: Work, v: dict[str, Any], data: dict[str, Any]) -> list[Any]:
    """The update, and one element after it; gradients lie in memory as a backward pass leaves them."""
    gradients = {name: _variable(f"g_{name}", value, trainable=False) for name, value in data.items()}
    train = hr.optim.Adam(work.rate).apply_gradients([(gradients[name].value, v[name]) for name in v])
    with hr.control_dependencies([train]):
        return [next(iter(v.values())).read()[0]]


class _Words:
    """See `models.Words`."""

    relu, sigmoid, tanh = staticmethod(hr.nn.relu), staticmethod(hr.sigmoid), staticmethod(hr.tanh)
    softmax = staticmethod(hr.nn.softmax)

    def images(self, x: Any) -> Any:
        return x

    def rows(self, x: Any) -> Any:
        return hr.reshape(x, [x.shape.as_tuple()[0], -1])

    def convolution(self, x: Any, kernel: Any, bias: Any | None, stride: int, padding: int) -> Any:
        y = hr.nn.conv2d(x, kernel, stride, [[padding, padding], [padding, padding]])
        return y if bias is None else y + bias

    def max_pool(self, x: Any, size: int, stride: int, padding: str, length: int) -> Any:
        return hr.nn.max_pool2d(x, size, stride, padding)

    def mean_of_images(self, x: Any) -> Any:
        return hr.mean(x, axis=(1, 2))

    def normalized(self, x: Any, scale: Any, offset: Any, mean: Any, variance: Any) -> Any:
        return hr.nn.batch_norm(x, scale, offset, mean, variance, epsilon=1e-5, training=False)[0]

    def channels(self, parts: Sequence[Any]) -> Any:
        return hr.concat(parts, axis=3)

    def zeros(self, *shape: int) -> Any:
        return hr.zeros(shape)

    def reshape(self, x: Any, *shape: int) -> Any:
        return hr.reshape(x, shape)

    def columns(self, parts: Sequence[Any]) -> Any:
        return hr.concat(parts, axis=1)

    def split(self, x: Any, count: int) -> Sequence[Any]:
        return hr.split(x, count, axis=-1)

    def stack(self, parts: Sequence[Any]) -> Any:
        return hr.stack(parts, axis=1)

    def unstack(self, x: Any) -> Sequence[Any]:
        return hr.unstack(x, axis=1)

    def lookup(self, table: Any, ids: Any) -> Any:
        return hr.gather(table.value, ids)

    def gelu(self, x: Any) -> Any:
        return hr.nn.gelu(x, approximate=True)

    def sum_of_squares(self, x: Any) -> Any:
        return hr.sum(hr.square(x))

    def layer_norm(self, x: Any, gain: Any | None, shift: Any | None) -> Any:
        return hr.nn.layer_norm(x, gain, shift)

    def attention(self, qkv: Any, batch: int, heads: int) -> Any:
        rows, width = qkv.shape.as_tuple()
        length, depth = rows // batch, width // 3 // heads
        mask = hr.constant(np.triu(np.full((length, length), -1e9, np.float32), 1))

        def headed(x: Any) -> Any:
            return hr.permute_dims(hr.reshape(x, [batch, length, heads, depth]), (0, 2, 1, 3))

        q, k, value = map(headed, hr.split(qkv, 3, axis=1))
        scores = hr.matmul(q, k, transpose_b=True) * depth**-0.5 + mask
        return hr.reshape(hr.permute_dims(hr.nn.softmax(scores) @ value, (0, 2, 1, 3)), [rows, width // 3])

    def cross_entropy(self, logits: Any, labels: Any) -> Any:
        return hr.mean(hr.nn.sparse_softmax_cross_entropy(labels=labels, logits=logits))

    def repeat(self, count: int, body: Callable[[Any], Any], x: Any) -> Any:
        return hr.while_loop(lambda i, s: i < count, lambda i, s: (i + 1, body(s)), (0, x))[1]
