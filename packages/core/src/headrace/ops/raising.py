"""Raising: branches and loops of primitives found again as `If` and `While`.

Graphs of TensorFlow 1, and loops built by hand, are made of tokens (`ops.control_flow`). They run as they are, but only
the structured form is differentiated and compiled. So operations in structured form are added to the graph that give
the same values: for each pair of branches that one predicate chooses from one `If`, for each frame one `While`. What
the Merges and Exits gave is given by operations that stand for them, as extensions do (`graph.extensions`).

All of the tokens are raised or none: a region that is run in both forms would have its effects twice.

It stands here, before both of its users: gradients raise in the user's graph, the pass of the same name in that of a
step. Branches and loops stay in one module, since each may hold the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.errors import GraphError
from headrace.graph.apply import convert_to_tensor
from headrace.graph.deadness import Conditions, branch_condition, deadness, loop_condition, predicate_of
from headrace.graph.frames import LOWERED, TOKEN_TYPES, Frame, Frames, back_edge, forward_inputs, is_anywhere
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor
from headrace.graph.scopes import Scope, current_graph, enter
from headrace.ops.branching import build_branches
from headrace.ops.looping import RECOMPUTE, SWAP_TO_HOST, LoopBuilder
from headrace.types import int32

__all__ = ["Raised", "raise_control_flow"]


@dataclass(frozen=True, slots=True)
class Raised:
    """What was raised.

    Attributes:
      standing: for each Merge and Exit at the outside of all branches and loops, the operation that gives the same.
      inside: the operations in branches and loops, which the new ones do the work of.
    """

    standing: Mapping[Operation, Operation]
    inside: Collection[Operation]


def raise_control_flow(graph: Graph, operations: Sequence[Operation]) -> Raised:
    """Add operations in structured form for branches and loops of primitives.

    Args:
      graph: the graph that is added to; on an error it stays as it was.
      operations: the part of it to raise, with everything that it needs, each after what it reads.
    Raises:
      GraphError: a part of it has no structured form; the text says which and why.
    """
    with graph.all_or_nothing(), enter(Scope(graph=graph)):
        return _Raising(graph, operations).result()


@dataclass(eq=False)
class _Diamond:
    """The Merges of one predicate that become one `If`. Mutable while they are collected.

    Attributes:
      predicate: what chooses.
      conditions: those under which the choice takes place.
      frame: where.
      merges: its Merges.
      inner: the operations of its two branches, with all that is nested in them.
    """

    predicate: Tensor
    conditions: Conditions
    frame: Frame
    merges: list[Operation] = field(default_factory=list)
    inner: set[Operation] = field(default_factory=set)


@dataclass(eq=False)
class _Loop:
    """A frame that becomes one `While`.

    Attributes:
      frame: the frame.
      heads: the Merges of its loop variables.
      predicate: what decides whether it goes on, or None while that is not known.
      exits: for each loop variable its Exits.
    """

    frame: Frame
    heads: list[Operation] = field(default_factory=list)
    predicate: Tensor | None = None
    exits: dict[Operation, list[Operation]] = field(default_factory=dict)


_Item = Operation | _Diamond | _Loop


@dataclass(eq=False)
class _Region:
    """A place in which operations run under the same conditions, and what stands for its tensors in the new form.

    Attributes:
      conditions: those that all its operations have.
      frame: the frame of its operations.
      parent: the region around it, or None.
      inner: the operations that may be in it.
      known: what stands for tensors here.
      copies: what stands for operations here.
    """

    conditions: Conditions
    frame: Frame
    parent: _Region | None
    inner: Collection[Operation]
    known: dict[Tensor, Tensor] = field(default_factory=dict)
    copies: dict[Operation, Operation] = field(default_factory=dict)


class _Raising:
    """One raising in progress. Mutable, used once."""

    def __init__(self, graph: Graph, operations: Sequence[Operation]) -> None:
        self._graph = graph
        self._operations = operations
        self._frames = Frames(graph, operations)
        self._conditions = deadness(graph, self._frames, operations)
        self._has_state = self._states()
        self._effects = [op for op in operations if op.has_effect or "_target" in op.attrs]
        self._inside = self._by_frame()
        self._items: dict[Operation, _Item] = {}
        self._loops: dict[Frame, _Loop] = {}
        self._copied: set[Operation] = set()
        self._stands_for: dict[Operation, Operation] = {}

    def result(self) -> Raised:
        """Build everything."""
        self._collect_loops()
        self._collect_diamonds()
        outside = _Region(frozenset(), self._frames.root, None, ())
        inside = [op for op in self._operations if self._is_inside(op)]
        for item in self._in_order(outside, self._members(outside)):
            if not isinstance(item, Operation):
                self._emit(item, outside)
        left = [op for op in self._effects if self._is_inside(op) and op not in self._copied]
        if left:
            raise _no_form(left[0], "it has an effect that no result of its branch or loop asks for")
        return Raised(self._stands_for, frozenset(inside))

    def _states(self) -> set[Operation]:
        """The operations with state, and those that come after one: it matters whether something waits for them."""
        found: set[Operation] = set()
        for op in self._operations:
            sources = (*(tensor.op for tensor in forward_inputs(op)), *op.control_inputs)
            if (op.is_stateful and not is_anywhere(op)) or any(source in found for source in sources):
                found.add(op)
        return found

    def _controls(self, op: Operation) -> list[Operation]:
        """The operations that an operation waits for, but for those that only say in which branch it is."""
        found: list[Operation] = []
        for item in op.control_inputs:
            if item in self._has_state:
                found += self._controls(item) if _is_made(item) and item.type != "Merge" else [item]
        return list(dict.fromkeys(found))

    def _is_inside(self, op: Operation) -> bool:
        return bool(self._conditions[op]) or self._frames[op].parent is not None

    # What is there: loops and branches

    def _collect_loops(self) -> None:
        for op in self._operations:
            frame = self._frames[op]
            if back_edge(op) is not None:
                if self._conditions[op] != {loop_condition(frame)}:
                    raise _no_form(op, "the loop variables of its loop do not live as long as each other")
                self._loops.setdefault(frame, _Loop(frame)).heads.append(op)
        for op in self._operations:
            loop = self._loops.get(self._frames[op])
            predicate = predicate_of(op) if op.type == "Switch" else None
            if predicate is not None and predicate.op.type == "LoopCond" and loop is not None:
                loop.predicate = predicate if loop.predicate is None else loop.predicate
                if loop.predicate is not predicate:
                    raise _no_form(op, "its loop has several conditions")
            elif op.type == "Exit":
                source = op.inputs[0]
                head = source.op.inputs[0].op if source.op.type == "Switch" else None
                if loop is None or head is None or source.index or head not in loop.heads:
                    raise _no_form(op, "it reads something else than a loop variable where the loop ends")
                loop.exits.setdefault(head, []).append(op)
                self._items[op] = loop

    def _collect_diamonds(self) -> None:
        groups: dict[tuple[Tensor, Conditions, Frame], list[_Diamond]] = {}
        before = self._merges_before()
        bits = {op: 1 << number for number, op in enumerate(op for op in self._operations if op.type == "Merge")}
        for op in self._operations:
            if op.type != "Merge" or back_edge(op) is not None:
                continue
            predicate, _ = self._sides(op)
            key = (predicate, self._conditions[op], self._frames[op])
            known = groups.setdefault(key, [])
            for diamond in known:
                if not any(bits[merge] & before[op] for merge in diamond.merges):
                    break
            else:
                diamond = _Diamond(*key)
                known.append(diamond)
            diamond.merges.append(op)
            self._items[op] = diamond
        diamonds = [diamond for known in groups.values() for diamond in known]
        for diamond in diamonds:
            self._add_inner(diamond, [tensor.op for merge in diamond.merges for tensor in merge.inputs])
        for op in self._effects:  # those that no result asks for, where it is clear whose they are
            homes = [item for item in diamonds if self._is_within(op, item)]
            if len(homes) == 1:
                self._add_inner(homes[0], [op])

    def _add_inner(self, diamond: _Diamond, operations: Iterable[Operation]) -> None:
        """Add operations, and what they need, as far as it lies in the branches."""
        stack = list(operations)
        while stack:
            op = stack.pop()
            if op in self._conditions and op not in diamond.inner and self._is_within(op, diamond):
                diamond.inner.add(op)
                stack += [*(tensor.op for tensor in op.inputs), *op.control_inputs]

    def _merges_before(self) -> dict[Operation, int]:
        """For each operation the Merges that lead to it, as a set of bits."""
        numbers = {op: 1 << number for number, op in enumerate(op for op in self._operations if op.type == "Merge")}
        before: dict[Operation, int] = {}
        opened: dict[Frame, int] = {}
        for op in self._operations:
            before[op] = 0
            for source in (*(tensor.op for tensor in forward_inputs(op)), *op.control_inputs):
                before[op] |= before.get(source, 0) | numbers.get(source, 0)
            if op.type == "Enter":
                inner = self._frames.after(op)
                opened[inner] = opened.get(inner, 0) | before[op]
            elif op.type == "Exit":
                before[op] |= opened.get(self._frames[op], 0)
        return before

    def _sides(self, merge: Operation) -> tuple[Tensor, list[int]]:
        """The predicate of a Merge, and for each input by which way of it the input is alive."""
        if len(merge.inputs) != 2 or self._conditions[merge] == {("merge", merge)}:
            raise _no_form(merge, "its inputs are not the two ways of one Switch")
        found = [self._extra(tensor, self._conditions[merge]) for tensor in merge.inputs]
        return found[0][0], [way for _, way in found]

    def _extra(self, tensor: Tensor, common: Conditions) -> tuple[Tensor, int]:
        conditions = self._conditions_of(tensor)
        for condition in conditions - common:
            if isinstance(condition, tuple) and condition[0] == "branch":
                return condition[1], condition[2]
        raise _no_form(tensor.op, "it is not computed in a branch")

    def _conditions_of(self, tensor: Tensor) -> Conditions:
        conditions = self._conditions[tensor.op]
        if tensor.op.type == "Switch":
            return conditions | {branch_condition(tensor.op, tensor.index)}
        return conditions

    # In which order: what is needed in a region, each item after what it needs

    def _members(self, region: _Region) -> list[Operation]:
        """The operations of a region that must be there: at the outside all, inside those with an effect."""
        if region.parent is None:
            return [op for op in self._operations if self._is_here(op, region)]
        return [op for op in self._effects if op in region.inner and self._is_here(op, region)]

    def _in_order(self, region: _Region, needed: Iterable[Operation]) -> list[_Item]:
        """The items of a region that some of its operations need, in order."""
        ordered: dict[_Item, None] = {}
        under_way: set[_Item] = set()
        for op in needed:
            stack: list[tuple[_Item, bool]] = [(self._item(op), False)]
            while stack:
                item, is_left = stack.pop()
                if is_left:
                    ordered[item] = None
                    under_way.discard(item)
                    continue
                if item in ordered:
                    continue
                if item in under_way:
                    raise _no_form(op, "branches of it depend on each other in turn")
                under_way.add(item)
                stack.append((item, True))
                stack += [(self._item(source), False) for source in self._needs(item, region)]
        return list(ordered)

    def _item(self, op: Operation) -> _Item:
        return self._items.get(op, op)

    def _needs(self, item: _Item, region: _Region) -> list[Operation]:
        """The operations of the region that an item reads or waits for."""
        if isinstance(item, Operation):
            found = [source for tensor in forward_inputs(item) for source in self._sources(tensor, region)]
            return found + [source for control in self._controls(item) for source in self._here(control, region)]
        if isinstance(item, _Diamond):
            inner: Collection[Operation] = item.inner
            tensors = [tensor for op in (*inner, *item.merges) for tensor in forward_inputs(op)]
            found = self._sources(item.predicate, region)
        else:
            inner = self._inside[item.frame].keys()
            tensors = [tensor for op in item.frame.enters if op in self._conditions for tensor in op.inputs]
            found = []
        found += [source for tensor in tensors for source in self._sources(tensor, region) if source not in inner]
        waits = [control for op in self._waiting(item) for control in self._controls(op)]
        return found + [source for control in waits for source in self._here(control, region) if source not in inner]

    def _waiting(self, item: _Diamond | _Loop) -> list[Operation]:
        """The operations of a branch or loop that may wait for something outside of it, in order."""
        if isinstance(item, _Loop):
            return [op for op in item.frame.enters if op in self._conditions]
        ways = {tensor.op for op in item.inner for tensor in op.inputs if tensor.op.type == "Switch"}
        made = {item.predicate.op} if _is_made(item.predicate.op) else set()
        return sorted(item.inner | (ways & self._conditions.keys()) | made, key=lambda op: op.index)

    def _by_frame(self) -> dict[Frame, dict[Operation, None]]:
        """The operations in each frame, those of frames inside it included, in order."""
        found: dict[Frame, dict[Operation, None]] = {frame: {} for frame in self._frames}
        for op in self._operations:
            frame: Frame | None = self._frames[op]
            while frame is not None:
                found[frame][op] = None
                frame = frame.parent
        return found

    def _is_within(self, op: Operation, diamond: _Diamond) -> bool:
        """True if an operation runs in one of the branches, loops inside them included."""
        frame = self._frames[op]
        while frame is not diamond.frame and frame.parent is not None:
            enters = [item for item in frame.enters if item in self._conditions]
            op = enters[0]
            frame = self._frames[op]
        return frame is diamond.frame and any(
            isinstance(condition, tuple) and condition[0] == "branch" and condition[1] is diamond.predicate
            for condition in self._conditions[op] - diamond.conditions
        )

    def _sources(self, tensor: Tensor, region: _Region) -> list[Operation]:
        """The operations of the region that a tensor comes from, past Switches and Enters."""
        op = tensor.op
        while (op.type in ("Switch", "Enter") or _is_made(op)) and not self._is_here(op, region):
            op = op.inputs[0].op
        while op.type in ("Switch", "Enter") or _is_made(op):
            op = op.inputs[0].op
        return self._here(op, region)

    def _here(self, op: Operation, region: _Region) -> list[Operation]:
        return [op] if self._is_here(op, region) and op.type not in ("Switch", "Enter", "NextIteration") else []

    def _is_here(self, op: Operation, region: _Region) -> bool:
        if op not in self._conditions or back_edge(op) is not None:
            return False
        place = self._frames.after(op) if op.type == "Exit" else self._frames[op]
        return place is region.frame and self._conditions[op] == region.conditions and not is_anywhere(op)

    # The new form

    def _emit(self, item: _Item, region: _Region) -> None:
        if isinstance(item, _Diamond):
            self._emit_branches(item, region)
        elif isinstance(item, _Loop):
            self._emit_loop(item, region)
        elif region.parent is not None and item not in region.copies:
            self._emit_copy(item, region)

    def _emit_copy(self, op: Operation, region: _Region) -> None:
        """Copy an ordinary operation to the function that is being built."""
        if op.type in TOKEN_TYPES - {"LoopCond", "ControlTrigger"}:
            raise _no_form(op, "it is no part of a branch or loop")
        type_name = {"LoopCond": "Identity", "ControlTrigger": "NoOp"}.get(op.type, op.type)
        if op in self._copied and op.is_stateful:
            raise _no_form(op, "its loop needs it both to go on and in its body")
        attrs = {"T": op.inputs[0].dtype} if op.type == "LoopCond" else op.attrs
        copy = current_graph().create_op(
            type_name,
            [self._value(tensor, region) for tensor in op.inputs],
            attrs,
            name=f"{op.name}/",
            control_inputs=[region.copies[item] for item in self._controls(op) if item in region.copies],
            device=op.device,
            source=op.source,
            op_def=op.op_def if type_name == op.type else None,
        )
        region.copies[op] = copy
        region.known.update(zip(op.outputs, copy.outputs, strict=True))
        self._copied.add(op)

    def _value(self, tensor: Tensor, region: _Region) -> Tensor:
        """What stands for a tensor in a region: there, or in one around it, from which it is captured."""
        place: _Region | None = region
        while place is not None:
            if tensor in place.known:
                return place.known[tensor]
            op = tensor.op
            is_way = op.type == "Switch" and self._conditions_of(tensor) == place.conditions
            if op.type == "Enter" or _is_made(op) or is_way:
                tensor = op.inputs[0]
            elif place.parent is None:
                if self._conditions.get(op) or (op in self._conditions and self._frames.after(op) is not place.frame):
                    raise _no_form(op, "it is read where it may be dead")
                return tensor
            elif op.type == "Switch" and self._conditions[op] == place.conditions:
                raise _no_form(op, "one of its ways leads to no Merge")
            else:
                place = place.parent
        raise _no_form(tensor.op, "it is read outside of where it is computed")

    def _block(self, region: _Region, results: Sequence[Tensor]) -> list[Tensor]:
        """Build what a function computes, in the graph that is being built."""
        roots = [source for tensor in results for source in self._sources(tensor, region)]
        for item in self._in_order(region, [*self._members(region), *roots]):
            self._emit(item, region)
        return [current_graph().own(self._value(tensor, region)) for tensor in results]

    def _emit_branches(self, diamond: _Diamond, region: _Region) -> None:
        first = diamond.merges[0]
        given = [merge for merge in diamond.merges if not _is_made(merge)]
        sides = [self._sides(merge)[1] for merge in given]

        def branch(way: int) -> list[Tensor]:
            condition = ("branch", diamond.predicate, way)
            inside = _Region(diamond.conditions | {condition}, diamond.frame, region, diamond.inner)
            wanted = [merge.inputs[ways.index(way)] for merge, ways in zip(given, sides, strict=True)]
            values = self._block(inside, wanted)
            indices = [convert_to_tensor(ways.index(way), int32) for ways in sides]
            return [item for pair in zip(values, indices, strict=True) for item in pair]

        graph = current_graph()
        with enter(Scope(graph=graph, control_inputs=self._waits(diamond, region))):
            predicate = self._value(diamond.predicate, region)
            built = build_branches(
                graph, predicate, [lambda: branch(1), lambda: branch(0)], ["true", "false"], f"{first.name}/raised"
            )
        outputs = built if given else ()
        for number, merge in enumerate(given):
            self._stand(merge, outputs[2 * number : 2 * number + 2], region)
        for merge in diamond.merges:
            if _is_made(merge):
                self._ended(merge, outputs[0].op if outputs else built, region)

    def _emit_loop(self, loop: _Loop, region: _Region) -> None:
        first = loop.heads[0]
        if loop.predicate is None:
            raise _no_form(first, "nothing decides whether its loop goes on")
        graph = current_graph()
        initial = [self._value(head.inputs[0].op.inputs[0], region) for head in loop.heads]
        with enter(Scope(graph=graph, control_inputs=self._waits(loop, region))):
            shapes = [head.outputs[0].shape for head in loop.heads]
            builder = LoopBuilder(graph, initial, shapes, f"{first.name}/raised")
            each = frozenset({loop_condition(loop.frame)})
            inner = self._inside[loop.frame]
            test = _Region(each, loop.frame, region, inner, self._variables(loop, builder.condition_arguments))
            with builder.condition.as_default():
                (predicate,) = self._block(test, [loop.predicate])
            going_on = ("branch", loop.predicate, 1)
            every = _Region(each, loop.frame, region, (), self._variables(loop, builder.body_arguments))
            inside = _Region(each | {going_on}, loop.frame, every, inner)
            with builder.body.as_default():
                following = [head.inputs[-1].op.inputs[0] for head in loop.heads]
                shared = [op for op in self._shared(inside, following) if op not in every.copies]
                for item in self._in_order(every, shared):
                    self._emit(item, every)
                results = self._block(inside, following)
            options = {name for name in (RECOMPUTE, SWAP_TO_HOST) if loop.frame.enters[0].attrs.get(name) is True}
            outputs = builder.finish(
                predicate,
                results,
                parallel_iterations=loop.frame.parallel_iterations,
                recompute=RECOMPUTE in options,
                swap_to_host=SWAP_TO_HOST in options,
            )
        self._copied.update(op for op in inner if self._frames[op] is loop.frame and op.type in TOKEN_TYPES)
        for head, output in zip(loop.heads, outputs, strict=False):
            for exit_op in loop.exits.get(head, ()):
                self._stand(exit_op, [output], region)

    def _variables(self, loop: _Loop, arguments: Sequence[Tensor]) -> dict[Tensor, Tensor]:
        return {head.outputs[0]: argument for head, argument in zip(loop.heads, arguments, strict=True)}

    def _shared(self, inside: _Region, results: Sequence[Tensor]) -> list[Operation]:
        """What runs in every iteration, the last one included, as far as the body reads it."""
        assert inside.parent is not None
        every = inside.parent
        within = [
            op for op in inside.inner if self._frames[op] is inside.frame and self._conditions[op] >= inside.conditions
        ]
        entered = [
            op
            for op in inside.inner
            if op.type == "Enter" and self._frames[op] is inside.frame and self._conditions[op] >= every.conditions
        ]
        tensors = [*results, *(tensor for op in (*within, *entered) for tensor in forward_inputs(op))]
        return [source for tensor in tensors for source in self._sources(tensor, every)]

    def _waits(self, item: _Diamond | _Loop, region: _Region) -> tuple[Operation, ...]:
        """What an operation in structured form waits for: what operations inside wait for that is outside."""
        waiting = self._waiting(item)
        controls = [control for op in waiting for control in self._controls(op) if self._is_here(control, region)]
        if region.parent is None:
            return tuple(dict.fromkeys(control for control in controls if control.type != "Switch"))
        return tuple(dict.fromkeys(region.copies[control] for control in controls if control in region.copies))

    def _ended(self, merge: Operation, branches: Operation, region: _Region) -> None:
        """Take note of what has ended where a Merge of no value is alive."""
        self._copied.add(merge)
        if region.parent is not None:
            region.copies[merge] = branches
        else:
            self._stands_for[merge] = branches

    def _stand(self, op: Operation, outputs: Sequence[Tensor], region: _Region) -> None:
        """Take note of what gives the outputs of a Merge or Exit."""
        self._copied.add(op)
        if region.parent is not None:
            region.known.update(zip(op.outputs, outputs, strict=False))
            region.copies[op] = outputs[0].op
            return
        graph = current_graph()
        if op.type == "Exit":
            standing = graph.create_op("Identity", outputs, {"T": outputs[0].dtype}, name=f"{op.name}/raised/value")
        else:
            types = tuple(output.dtype for output in outputs)
            standing = graph.create_op("IdentityN", outputs, {"T": types}, name=f"{op.name}/raised/value")
        self._stands_for[op] = standing


def _is_made(op: Operation) -> bool:
    """True for what lowering made to say where other operations run."""
    return LOWERED in op.attrs


def _no_form(op: Operation, why: str) -> GraphError:
    return GraphError(
        f"'{op.name}' has no structured form: {why}",
        where=op.location,
        expected="branches and loops as hr.cond and hr.while_loop, or TensorFlow 1, build them",
        got=f"a {op.type} that does not fit",
        hint="build it with hr.cond or hr.while_loop; as it is it runs, but is neither differentiated nor compiled",
    )
