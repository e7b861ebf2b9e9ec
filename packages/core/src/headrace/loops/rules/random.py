"""Loop rules of random numbers: an element is a word of a stream by its number, so it is drawn where it is used."""

from __future__ import annotations

from headrace.loops import functions as loops
from headrace.loops.registry import LoopContext, register_loops
from headrace.loops.value import Value
from headrace.types import DType, bfloat16, float16, float32, float64, uint64

__all__: list[str] = []

_BITS = {float16: 10, bfloat16: 7, float32: 23}
"""Random bits of a number in [0, 1): as many as a number just below 2 has after the point."""
_PHILOX, _AUTOMATIC = 1, 3


@register_loops("StatelessRandomUniformV2")
def _uniform_by_key(op: LoopContext, shape: Value, key: Value, counter: Value, alg: Value) -> Value | None:
    generator = op.constants[3]
    if generator is None or generator.ndim or int(generator) not in (_PHILOX, _AUTOMATIC):
        return None
    if op.constants[0] is None or key.shape != (1,) or counter.rank != 1 or counter.shape[0] < 2:
        return None
    return _uniform(_at(key, 0), _at(counter, 0), _at(counter, 1), op.shape(), op.attr("dtype"))


@register_loops("StatelessRandomUniform")
def _uniform_by_seed(op: LoopContext, shape: Value, seed: Value) -> Value | None:
    """The seed is a counter, whose block under a fixed key is the key and the upper half of the counter."""
    if op.constants[0] is None or seed.shape != (2,):
        return None
    low, high = (loops.cast(_at(seed, place), uint64) for place in (0, 1))
    scramble = Value("const", uint64, (), (), _SCRAMBLE_KEY)
    mixed = [
        loops.cast(loops.philox(scramble, low, high, loops.position((), start=place)), uint64) for place in range(4)
    ]
    key, counter = (mixed[place] + mixed[place + 1] * (1 << 32) for place in (0, 2))
    return _uniform(key, Value("const", uint64, (), (), 0), counter, op.shape(), op.attr("dtype"))


def _at(vector: Value, place: int) -> Value:
    return loops.squeeze(loops.strided(vector, [place], [1], [1]), [0])


_SCRAMBLE_KEY = 0x02461E29_3EC8F720
"""The key under which TensorFlow mixes seeds (see `PhiloxState.from_stateless_seed`)."""


def _uniform(key: Value, low: Value, high: Value, shape: tuple[int, ...], dtype: DType) -> Value | None:
    """Numbers in [0, 1), as `distributions.uniform` has them: the lowest bits of a word each, of two for float64."""
    if dtype is float64:
        upper = loops.philox(key, low, high, loops.position(shape, 2)) & ((1 << 20) - 1)
        lower = loops.philox(key, low, high, loops.position(shape, 2, 1))
        return loops.cast(upper, float64) * 2.0**-20 + loops.cast(lower, float64) * 2.0**-52
    bits = _BITS.get(dtype)
    if bits is None:
        return None
    word = loops.philox(key, low, high, loops.position(shape)) & ((1 << bits) - 1)
    return loops.cast(loops.cast(word, float32) * 2.0**-bits, dtype)
