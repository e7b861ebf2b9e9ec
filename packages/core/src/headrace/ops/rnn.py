"""Recurrent networks over sequences of different lengths, in one loop that is not unrolled.

A batch of sequences is sorted by length, the longest first, so that at each time the sequences that are still running
are the first rows. The cell is given those rows alone: its work is proportional to the sum of the lengths, not to the
longest of them times the batch. The rows behind them keep their state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.errors import InvalidArgumentError, ShapeError
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor, graph_of
from headrace.graph.operation import Tensor
from headrace.graph.scopes import name_scope
from headrace.ops.axes import known_rank, moveaxis
from headrace.ops.mapping import scan
from headrace.ops.padding import pad
from headrace.ops.sorting import argsort
from headrace.ops.structure import check_same_structure, flatten
from headrace.types import Shape, int32

__all__ = ["rnn"]

Cell = Callable[[Any, Any], tuple[Any, Any]]


def rnn(
    cell: Cell,
    inputs: Any,
    *,
    initial_state: Any,
    sequence_length: TensorLike | None = None,
    time_major: bool = False,
    recompute: bool = False,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Apply a cell to each time of a batch of sequences, one after the other, each with the state that it left behind.

    Args:
      cell: a function, or layer, from an input `[rows, ...]` and a state of as many rows to a pair: an output
        `[rows, ...]` and the next state. It is called once, to build the loop, and must treat each row by itself.
      inputs: `[batch, time, ...]`, or a nested structure of such tensors.
      initial_state: `[batch, ...]`, or a nested structure of such tensors.
      sequence_length: ints `[batch]`: how long each sequence is, at most `time`; `time` by default. The cell never sees
        what is behind the end of a sequence.
      time_major: inputs and outputs are `[time, batch, ...]`, which saves two transpositions.
      recompute: see `hr.while_loop`.
      name: the name scope.
    Returns:
      The outputs `[batch, time, ...]` in the structure that the cell gives, zeros behind the end of each sequence; and
      the state of each sequence at its end.
    Raises:
      ShapeError: an input has no axis of time, a state has no axis of sequences, or they differ in size.
      InvalidArgumentError: the cell gives no pair, or a state of another structure.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.constant([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]])
      ...     sums, last = hr.nn.rnn(
      ...         lambda x, total: (total + x, total + x), x, initial_state=hr.zeros([2]), sequence_length=[3, 1]
      ...     )
      >>> outputs, totals = hr.Session(graph).run([sums, last])
      >>> print(outputs)
      [[ 1.  3.  6.]
       [10.  0.  0.]]
      >>> print(totals)
      [ 6. 10.]
    """
    leaves, rebuild_inputs = flatten(inputs)
    starts, rebuild_state = flatten(initial_state)
    with graph_of([*leaves, *starts, sequence_length]), name_scope(name or "rnn"):
        given = [convert_to_tensor(leaf) for leaf in leaves]
        states = [convert_to_tensor(start) for start in starts]
        batch = _check_sizes(given, states, time_major=time_major)
        steps = [tensor if time_major else moveaxis(tensor, 1, 0) for tensor in given]
        if sequence_length is None:
            outputs, final = scan(
                lambda state, row: _called(cell, row, state, initial_state),
                rebuild_inputs(steps),
                rebuild_state(states),
                recompute=recompute,
            )
        else:
            outputs, final = _of_lengths(
                cell, sequence_length, batch, steps, rebuild_inputs, rebuild_state(states), recompute=recompute
            )
        tensors, rebuild_outputs = flatten(outputs)
        return rebuild_outputs([tensor if time_major else moveaxis(tensor, 1, 0) for tensor in tensors]), final


def _called(cell: Cell, row: Any, state: Any, like: Any) -> tuple[Any, Any]:
    """What the cell gives, checked."""
    pair: Any = cell(row, state)
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise InvalidArgumentError(
            "the cell of rnn returns no pair",
            expected="(output, next state)",
            got=repr(pair),
            hint="return state, state if the output is the state",
        )
    check_same_structure(like, pair[1], "the cell of rnn", "return the next state in the structure of initial_state")
    return pair


@dataclass(frozen=True, slots=True)
class _Running:
    """The rows that run at one time, in a batch that is sorted by length.

    Attributes:
      sizes: how many run and how many have ended, int32 `[2]`.
      batch: the static size of the batch, or None.
    """

    sizes: Tensor
    batch: int | None

    def split(self, tensor: Tensor) -> tuple[Tensor, Tensor]:
        """The rows that run, and the others."""
        running, ended = apply_op("SplitV", tensor, self.sizes, 0, num_split=2)
        return running, ended

    def joined(self, running: TensorLike, ended: Tensor) -> Tensor:
        """All rows again."""
        rows = convert_to_tensor(running, ended.dtype)
        joined: Tensor = apply_op("ConcatV2", [rows, ended], 0)
        return self._sized(joined, rows)

    def padded(self, running: TensorLike) -> Tensor:
        """All rows, zeros where they have ended."""
        rows = convert_to_tensor(running)
        rank = known_rank(rows, "rnn", least=1)
        return self._sized(pad(rows, [[0, self.sizes[1]]] + [[0, 0]] * (rank - 1)), rows)

    def _sized(self, tensor: Tensor, rows: Tensor) -> Tensor:
        """The tensor, of as many rows as the batch, of which each is as one of `rows`."""
        if rows.shape.dims is not None:
            tensor.set_shape(Shape([self.batch, *rows.shape.dims[1:]]))
        return tensor


def _of_lengths(
    cell: Cell,
    sequence_length: TensorLike,
    batch: int | None,
    steps: Sequence[Tensor],
    rebuild_inputs: Callable[[Sequence[Any]], Any],
    initial_state: Any,
    *,
    recompute: bool,
) -> tuple[Any, Any]:
    """The outputs, time first, and the last states of sequences that end at different times."""
    lengths = _lengths(sequence_length, batch)
    order = argsort(lengths, descending=True, dtype=int32)
    back = apply_op("InvertPermutation", order)
    ordered = apply_op("GatherV2", lengths, order, 0)
    size, time = apply_op("Size", lengths), apply_op("Shape", steps[0])[0]
    # One step even if all sequences are empty: their outputs have a shape that only the cell can tell.
    longest = apply_op("Minimum", time, apply_op("Maximum", 1, apply_op("Max", lengths, [0])))
    rows = [apply_op("GatherV2", tensor, order, 1)[:longest] for tensor in steps]
    starts, rebuild_state = flatten(initial_state)

    def step(state: Any, row: Any) -> tuple[Any, Any]:
        index, *parts = row
        count = apply_op("Sum", apply_op("Cast", apply_op("Greater", ordered, index), DstT=int32), [0])
        running = _Running(apply_op("Pack", [count, apply_op("Sub", size, count)]), batch)
        leaves = flatten(state)[0]
        halves = [running.split(leaf) for leaf in leaves]
        inner = rebuild_inputs([running.split(part)[0] for part in parts])
        given, after = _called(cell, inner, rebuild_state([half[0] for half in halves]), initial_state)
        outputs, rebuild_outputs = flatten(given)
        joined = [running.joined(new, half[1]) for new, half in zip(flatten(after)[0], halves, strict=True)]
        return rebuild_outputs([running.padded(output) for output in outputs]), rebuild_state(joined)

    first = rebuild_state([apply_op("GatherV2", start, order, 0) for start in starts])
    outputs, final = scan(step, (apply_op("Range", 0, longest, 1), *rows), first, recompute=recompute)
    tensors, rebuild_outputs = flatten(outputs)
    missing = apply_op("Sub", time, longest)
    whole = [_in_time(tensor, missing, back, steps[0].shape) for tensor in tensors]
    finals, rebuild_final = flatten(final)
    return rebuild_outputs(whole), rebuild_final([apply_op("GatherV2", item, back, 0) for item in finals])


def _in_time(outputs: Tensor, missing: Tensor, back: Tensor, like: Shape) -> Tensor:
    """Outputs `[longest, batch, ...]` with zeros up to the last time, the sequences in the order they came in."""
    rank = known_rank(outputs, "rnn", least=2)
    sorted_back = apply_op("GatherV2", outputs, back, 1)
    padded = pad(sorted_back, [[0, missing]] + [[0, 0]] * (rank - 1))
    padded.set_shape(Shape([like[0]]) + Shape([sorted_back.shape[axis] for axis in range(1, rank)]))
    return padded


def _lengths(sequence_length: TensorLike, batch: int | None) -> Tensor:
    lengths = convert_to_tensor(sequence_length)
    if not lengths.dtype.is_integer or not lengths.shape.is_compatible_with(Shape([batch])):
        raise ShapeError(
            "there must be one length for each sequence",
            where=lengths.op.location,
            expected=f"integers {Shape([batch])}",
            got=str(lengths.spec),
            hint="count the steps of each row of the batch",
        )
    narrow: Tensor = lengths if lengths.dtype is int32 else apply_op("Cast", lengths, DstT=int32)
    return narrow


def _check_sizes(inputs: Sequence[Tensor], states: Sequence[Tensor], *, time_major: bool) -> int | None:
    """The static size of the batch, or None.

    Raises:
      ShapeError: a tensor lacks an axis, or they differ in size.
    """
    if not inputs:
        raise InvalidArgumentError(
            "rnn has no inputs", expected="at least one tensor", got="an empty structure", hint="pass [batch, time, 0]"
        )
    known = Shape([None, None])
    for tensor in inputs:
        known_rank(tensor, "rnn", least=2)
        sizes = tensor.shape.dims[:2] if tensor.shape.dims is not None else (None, None)
        known = _merged(known, Shape(sizes if time_major else sizes[::-1]), tensor)
    for state in states:
        known_rank(state, "rnn", least=1)
        known = _merged(known, Shape([None, state.shape[0]]), state)
    return known[1]


def _merged(known: Shape, sizes: Shape, tensor: Tensor) -> Shape:
    if not known.is_compatible_with(sizes):
        raise ShapeError(
            "inputs and states of rnn differ in size",
            where=tensor.op.location,
            expected=f"time and batch {known}",
            got=f"{sizes} of '{tensor.name}' {tensor.spec}",
            hint="time_major=True if the inputs are [time, batch, ...]",
        )
    return known.merge(sizes)
