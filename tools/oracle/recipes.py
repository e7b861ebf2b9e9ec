"""Random graphs as data: a recipe is a list of steps that either system can follow.

The generator follows the shapes of what it makes, so that every recipe is a legal graph, and keeps values small: what
grows quickly is followed by `tanh`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

Dims = tuple[int, ...]
STATEFUL = ("delayed", "counted", "counted_in_branch", "counted_in_loop", "delayed_in_loop")
"""Operations whose value depends on the steps before; the last of their options is a number of their own."""


@dataclass(frozen=True, slots=True)
class Step:
    """One operation of a recipe.

    Attributes:
      op: what to do, a key of both systems' tables.
      inputs: numbers of the values it takes; the recipe's inputs come first.
      options: the rest of its arguments.
    """

    op: str
    inputs: tuple[int, ...]
    options: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class Recipe:
    """A random graph.

    Attributes:
      dtype: "float32" or "float64", of every floating value.
      inputs: shapes of its inputs.
      steps: its operations; step k makes value `len(inputs) + k`.
      outputs: numbers of the values to compare; the gradient is that of the sum of their means.
    """

    dtype: str
    inputs: tuple[Dims, ...]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]

    @property
    def starts(self) -> list[str]:
        """Names of the operations that give queues and variables what they hold before the first step."""
        return [start_name(step.options[-1]) for step in self.steps if step.op in STATEFUL]


def start_name(number: object) -> str:
    """Return the name of the operation that fills the queue or the variable of a number."""
    return f"start_{number}"


class _Writer:
    """Appends steps and follows their shapes. Mutable."""

    def __init__(self, dice: random.Random, inputs: list[Dims]) -> None:
        self.dice = dice
        self.shapes: list[Dims] = list(inputs)
        self.steps: list[Step] = []

    def add(self, op: str, inputs: tuple[int, ...], shape: Dims, *options: object) -> int:
        self.steps.append(Step(op, inputs, options))
        self.shapes.append(shape)
        return len(self.shapes) - 1

    def pick(self, condition: Callable[[Dims], bool] = lambda shape: True) -> int | None:
        fitting = [index for index, shape in enumerate(self.shapes) if condition(shape)]
        # Recent values are likelier, so that graphs grow deep and not only wide.
        return self.dice.choices(fitting, weights=[1 + index for index in range(len(fitting))])[0] if fitting else None


def _broadcast(a: Dims, b: Dims) -> Dims | None:
    long, short = (a, b) if len(a) >= len(b) else (b, a)
    padded = (1,) * (len(long) - len(short)) + short
    if all(x == y or 1 in (x, y) for x, y in zip(long, padded, strict=True)):
        return tuple(max(x, y) for x, y in zip(long, padded, strict=True))
    return None


def _unary(writer: _Writer) -> None:
    x = writer.pick()
    assert x is not None
    op = writer.dice.choice(["tanh", "sigmoid", "negative", "square", "relu", "exp", "log1p_square", "sqrt_square"])
    y = writer.add(op, (x,), writer.shapes[x])
    if op in ("square", "exp"):
        writer.add("tanh", (y,), writer.shapes[x])


def _binary(writer: _Writer) -> None:
    a = writer.pick()
    assert a is not None
    b = writer.pick(lambda shape: _broadcast(writer.shapes[a], shape) is not None)
    assert b is not None
    shape = _broadcast(writer.shapes[a], writer.shapes[b])
    op = writer.dice.choice(["add", "subtract", "multiply", "divide_safely", "maximum", "minimum", "where_greater"])
    if shape is not None and math.prod(shape) <= 512:
        writer.add(op, (a, b), shape)


def _reduce(writer: _Writer) -> None:
    x = writer.pick(lambda shape: len(shape) >= 2)
    if x is None:
        return
    shape = writer.shapes[x]
    axis, keep = writer.dice.randrange(-len(shape), len(shape)), writer.dice.random() < 0.5
    dims = list(shape)
    dims[axis] = 1
    if not keep:
        del dims[axis]
    writer.add(writer.dice.choice(["sum", "mean", "max"]), (x,), tuple(dims), axis, keep)


def _reshape(writer: _Writer) -> None:
    x = writer.pick()
    assert x is not None
    shape = list(writer.shapes[x])
    writer.dice.shuffle(shape)
    if len(shape) > 1 and writer.dice.random() < 0.5:
        shape = [shape[0] * shape[1], *shape[2:]]
    writer.add("reshape", (x,), tuple(shape), tuple(shape))


def _transpose(writer: _Writer) -> None:
    x = writer.pick(lambda shape: len(shape) >= 2)
    if x is not None:
        order = list(range(len(writer.shapes[x])))
        writer.dice.shuffle(order)
        writer.add("transpose", (x,), tuple(writer.shapes[x][axis] for axis in order), tuple(order))


def _join(writer: _Writer) -> None:
    a = writer.pick(lambda shape: len(shape) >= 1)
    b = writer.pick(lambda shape: a is not None and shape == writer.shapes[a])
    if a is None or b is None or math.prod(writer.shapes[a]) > 256:
        return
    shape = writer.shapes[a]
    axis = writer.dice.randrange(len(shape))
    if writer.dice.random() < 0.5:
        writer.add("concat", (a, b), (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :]), axis)
    else:
        writer.add("stack", (a, b), (*shape[:axis], 2, *shape[axis:]), axis)


def _slice(writer: _Writer) -> None:
    x = writer.pick(lambda shape: len(shape) >= 1 and shape[0] >= 2)
    if x is None:
        return
    shape = writer.shapes[x]
    kind = writer.dice.choice(["slice", "strided", "gather", "tile", "expand", "split"])
    if kind == "slice":
        begin = writer.dice.randrange(shape[0] - 1)
        size = writer.dice.randrange(1, shape[0] - begin + 1)
        writer.add("slice", (x,), (size, *shape[1:]), begin, size)
    elif kind == "strided":
        writer.add("strided", (x,), (-(-shape[0] // 2), *shape[1:]))
    elif kind == "gather":
        rows = tuple(writer.dice.randrange(shape[0]) for _ in range(3))
        writer.add("gather", (x,), (3, *shape[1:]), rows)
    elif kind == "tile" and math.prod(shape) <= 128:
        writer.add("tile", (x,), (2 * shape[0], *shape[1:]), (2, *(1,) * (len(shape) - 1)))
    elif kind == "expand":
        axis = writer.dice.randrange(len(shape) + 1)
        writer.add("expand_dims", (x,), (*shape[:axis], 1, *shape[axis:]), axis)
    elif kind == "split" and shape[0] % 2 == 0:
        writer.add("split", (x,), (shape[0] // 2, *shape[1:]), writer.dice.randrange(2))


def _matmul(writer: _Writer) -> None:
    a = writer.pick(lambda shape: len(shape) == 2)
    if a is None:
        return
    left = writer.dice.random() < 0.5
    inner = writer.shapes[a][0 if left else 1]
    b = writer.pick(lambda shape: len(shape) == 2 and inner in shape)
    if b is None:
        return
    right = writer.shapes[b][0] != inner
    shape = (writer.shapes[a][1 if left else 0], writer.shapes[b][0 if right else 1])
    writer.add("tanh", (writer.add("matmul", (a, b), shape, left, right),), shape)


def _softmax(writer: _Writer) -> None:
    x = writer.pick(lambda shape: len(shape) == 2)
    if x is None:
        return
    rows, columns = writer.shapes[x]
    if writer.dice.random() < 0.5:
        writer.add("softmax", (x,), (rows, columns))
    else:
        labels = tuple(writer.dice.randrange(columns) for _ in range(rows))
        writer.add("cross_entropy", (x,), (rows,), labels)


def _images(writer: _Writer) -> None:
    x = writer.pick(lambda shape: len(shape) == 3 and shape[1] >= 2)
    if x is None:
        return
    height, width, channels = writer.shapes[x]
    image = writer.add("expand_dims", (x,), (1, height, width, channels), 0)
    if height >= 2 and width >= 2 and writer.dice.random() < 0.5:
        writer.add("max_pool", (image,), (1, height // 2, width // 2, channels))
    else:
        writer.add("conv2d", (image,), (1, height, width, 2), channels)


def _control(writer: _Writer) -> None:
    x = writer.pick(lambda shape: len(shape) >= 1)
    if x is None:
        return
    op = writer.dice.choice(["branch", "loop", "branch_in_loop", "scan_rows"])
    writer.add(op, (x,), writer.shapes[x], *([writer.dice.randrange(4)] if op in ("loop", "branch_in_loop") else []))


def _state(writer: _Writer) -> None:
    x = writer.pick()
    assert x is not None
    op = writer.dice.choice(STATEFUL)
    times = [writer.dice.randrange(4)] if op.endswith("loop") else []
    writer.add(op, (x,), writer.shapes[x], *times, len(writer.steps))


MAKERS = (
    _unary,
    _unary,
    _binary,
    _binary,
    _reduce,
    _reshape,
    _transpose,
    _join,
    _slice,
    _slice,
    _matmul,
    _softmax,
    _images,
    _control,
    _control,
    _state,
)


def recipe(seed: int, length: int = 14) -> Recipe:
    """Return the random graph of a seed.

    Args:
      seed: gives the same recipe each time.
      length: how many times to add something.
    """
    dice = random.Random(seed)
    inputs: list[Dims] = [(3, 4), (4, 3), dice.choice([(2, 4, 3), (4, 4, 2), (3, 2, 4)])][: dice.choice([2, 3, 3])]
    writer = _Writer(dice, inputs)
    for _ in range(length):
        dice.choice(MAKERS)(writer)
    used = {index for step in writer.steps for index in step.inputs}
    ends = [index for index in range(len(inputs), len(writer.shapes)) if index not in used]
    return Recipe(dice.choice(["float32", "float64"]), tuple(inputs), tuple(writer.steps), tuple(ends))
