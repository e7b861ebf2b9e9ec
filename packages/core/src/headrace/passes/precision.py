"""The pass that lets products read bfloat16, and the user's way to ask for it (`hr.mixed_precision`).

Nothing is computed in bfloat16. A value that a product reads is rounded to bfloat16 and widened again, and the product
itself stays a float32 operation, so that the graph says exactly what is computed and every backend can run it; one that
multiplies bfloat16 natively reads the narrow value and leaves the widening out. Products of two bfloat16 are exact in
float32, hence sums are as precise as ever, and gradients of weights reach their float32 masters unrounded.

Where a rounded value is there, operations that tolerate rounding read it too, so that the wide one need not be kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from functools import partial

from headrace.config import Config, config, current_config
from headrace.errors import DTypeError, InvalidArgumentError
from headrace.graph.frames import back_edge, forward_inputs
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor
from headrace.passes.rewrite import close_loops, copy_op
from headrace.types import DType, as_dtype, bfloat16, float32

__all__ = ["mixed_precision"]

ALLOW = frozenset(
    {
        *("MatMul", "BatchMatMul", "BatchMatMulV2", "Einsum"),
        *("Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter"),
        *("DepthwiseConv2dNative", "DepthwiseConv2dNativeBackpropInput", "DepthwiseConv2dNativeBackpropFilter"),
        *("Conv3D", "Conv3DBackpropInputV2", "Conv3DBackpropFilterV2"),
    }
)
"""Products: they always read rounded values."""

_NORMALIZATIONS = frozenset(f"FusedBatchNorm{kind}{version}" for kind in ("", "Grad") for version in ("", "V2", "V3"))

INFER = frozenset(
    {
        *("Abs", "Add", "AddN", "AddV2", "BiasAdd", "BiasAddGrad", "Maximum", "Minimum", "Mul", "Neg", "RealDiv"),
        *("Square", "Sub", "Erf", "Sigmoid", "SigmoidGrad", "Softplus", "SoftplusGrad", "Softsign", "Tanh", "TanhGrad"),
        *("Elu", "EluGrad", "Gelu", "LeakyRelu", "LeakyReluGrad", "Relu", "Relu6", "Relu6Grad", "ReluGrad", "Selu"),
        *("SeluGrad", "AvgPool", "AvgPoolGrad", "MaxPool", "MaxPoolGrad", "MaxPoolGradGrad", *_NORMALIZATIONS),
        *("BroadcastTo", "ConcatV2", "ExpandDims", "Identity", "Pack", "Pad", "PadV2", "Reshape", "ReverseV2"),
        *("Select", "SelectV2", "Slice", "Split", "SplitV", "Squeeze", "StopGradient", "StridedSlice", "Tile"),
        *("StridedSliceGrad", "Transpose", "Unpack", "DepthToSpace", "SpaceToDepth", "OnesLike", "ZerosLike"),
    }
)
"""Types that tolerate rounded inputs: element by element without cancellation to fear, pooling, movement of data.

Every other type (exponentials, logarithms, losses, sums and other statistics, updates of variables) reads what was
computed in float32.
"""

_MOVES = frozenset(
    {
        *("ExpandDims", "Identity", "Reshape", "Squeeze", "StopGradient", "Transpose", "Slice", "StridedSlice"),
        *("Split", "SplitV", "Unpack", "ReverseV2", "ConcatV2", "Pack"),
    }
)
"""Types whose outputs are elements of inputs: these may be moved as bfloat16 just as well."""

_APART = frozenset({"AvgPool", "AvgPoolGrad", "MaxPool", "MaxPoolGrad", *_NORMALIZATIONS, *ALLOW})
"""Types that are seldom fused with what is around them: what they read and give lies in memory, narrow if it may be."""

_EPILOGUES = frozenset({"Add", "AddV2", "BiasAdd"})
"""Types that libraries compute together with the product before: only what comes out at the end lies in memory."""

_IMAGES = {name: frozenset({0, 1} if "Grad" in name else {0}) for name in _NORMALIZATIONS}
"""For types that tolerate the rounding of some inputs only, their positions; of outputs they have the first rounded."""

_CHOOSING = frozenset({"MaxPoolGrad", "MaxPoolGradGrad"})
"""Types that look for the values of input 1 in input 0: both are rounded, or none."""

_SOURCES = frozenset({"Const", "ReadVariableOp", "Placeholder", "_Arg"})
"""Types whose values lie in float32 anyway: only products gain by reading them rounded."""


def mixed_precision(
    dtype: DType | str = "bfloat16",
    *,
    allow: Iterable[str] = (),
    deny: Iterable[str] = (),
    skip: Iterable[str] = (),
) -> Config:
    """Options under which matrix products and convolutions read their inputs rounded to bfloat16.

    Variables stay float32, and so do their gradients, the optimiser's state, sums, exponentials, losses and statistics.
    A weight is rounded once in a step, however often it is used. bfloat16 has the range of float32, so no scaling of
    losses is needed. A processor with instructions for bfloat16 takes about half the time for products; on others the
    results are the same and nothing is gained.

    Args:
      dtype: `"bfloat16"`; no other is there.
      allow: more operation types whose float32 inputs are to be rounded.
      deny: operation types that are to read float32, whatever they do by default.
      skip: names of operations that are to read float32, with `*` for any characters.
    Returns:
      The options in force here with the policy: give them to a Session, or enter them around an `@hr.function` or a
      `Trainer`. Call it under `with hr.config(...):` to have other options too, such as a backend.
    Raises:
      InvalidArgumentError: another dtype.
    Source: Micikevicius et al., "Mixed Precision Training", 2018; Kalamkar et al., "A Study of BFLOAT16 for Deep
      Learning Training", 2019.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.placeholder(hr.float32, [1, 2])
      ...     w = hr.Variable([[1.0], [1.0]])
      ...     y = x @ w
      >>> with hr.Session(graph, config=hr.mixed_precision("bfloat16")) as session:
      ...     print(session.run(y, feeds={x: [[1.001, 2.0]]}))  # 1.001 is 1 with the eight bits of bfloat16
      [[3.]]
    """
    try:
        wanted: DType | None = as_dtype(dtype)
    except DTypeError:
        wanted = None
    if wanted is not bfloat16:
        raise InvalidArgumentError(
            "there is no policy of mixed precision for this dtype",
            expected="bfloat16",
            got=str(dtype),
            hint="hr.mixed_precision('bfloat16'); float16 would need losses to be scaled",
        )
    denied = frozenset(deny)
    policy = partial(
        _narrowed_products,
        allow=(ALLOW | frozenset(allow)) - denied,
        infer=INFER - denied,
        skip=tuple(skip),
    )
    return config(passes=(*current_config().passes, policy))


def _narrowed_products(graph: Graph, *, allow: frozenset[str], infer: frozenset[str], skip: Sequence[str]) -> Graph:
    return _Policy(graph, allow, infer, skip).run()


class _Policy:
    """One run of the pass. Mutable, used once."""

    def __init__(self, graph: Graph, allow: frozenset[str], infer: frozenset[str], skip: Sequence[str]) -> None:
        self._graph, self._allow, self._infer, self._skip = graph, allow, infer, skip
        self._result = Graph(seed=graph.seed, extend=True, functions=graph.functions)
        self._exact: dict[Tensor, Tensor] = {}
        self._rounded: dict[Tensor, Tensor] = {}  # in bfloat16
        self._widened: dict[Tensor, Tensor] = {}  # from bfloat16 to the same numbers in float32
        self._reads: dict[tuple[Tensor, frozenset[Operation], int], Tensor] = {}
        self._updates_before: dict[Operation, int] = {}  # for each read of a variable
        self._readers: dict[Tensor, list[tuple[Operation, int]]] = {}
        updates = 0
        for op in graph.operations:
            if op.type == "ReadVariableOp":
                self._updates_before[op] = updates
            elif op.has_effect and any(tensor.dtype.kind == "resource" for tensor in op.inputs):
                updates += 1
            for position, tensor in enumerate(op.inputs):
                self._readers.setdefault(tensor, []).append((op, position))
        self._products = {op for op in graph.operations if op.type in allow and not self._is_skipped(op)}
        self._endings = self._epilogues()
        self._kept = self._kept_rounded()

    def _epilogues(self) -> set[Operation]:
        """The operations that end a product: each reads what nothing else reads of the product or of another one."""
        found: set[Operation] = set()
        for op in self._graph.operations:
            if op.type not in _EPILOGUES or self._is_skipped(op):
                continue
            sources = [tensor for tensor in op.inputs if tensor.op in self._products or tensor.op in found]
            if any(len(self._readers[tensor]) == 1 and tensor.shape == op.outputs[0].shape for tensor in sources):
                found.add(op)
        return found

    def _is_skipped(self, op: Operation) -> bool:
        return any(fnmatchcase(op.name, pattern) for pattern in self._skip)

    def _kept_rounded(self) -> set[Tensor]:
        """The values that are kept rounded: what products read, and what lies in memory on the way to a product.

        A gradient that is on its way to a variable is none of these. What a rounded value is only moved from is rounded
        before it is moved.
        """
        kept: set[Tensor] = set()
        leads: set[Operation] = set()  # to a product, by operations that tolerate rounding
        for op in reversed(self._graph.operations):
            followed = any(reader in leads for output in op.outputs for reader, _ in self._readers.get(output, ()))
            if op in self._products or (followed and op.type in self._infer and not self._is_skipped(op)):
                leads.add(op)
            if op.type in _SOURCES:
                continue
            for output in op.outputs[:1] if op.type in _IMAGES else op.outputs:
                if output.dtype is float32 and self._keeps(op, self._readers.get(output, ()), kept, leads):
                    kept.add(output)
        for op in self._graph.operations:
            if self._moves_narrow(op, kept):  # nothing is lost
                kept.update(op.outputs)
        return kept

    def _keeps(
        self,
        op: Operation,
        readers: Sequence[tuple[Operation, int]],
        kept: set[Tensor],
        leads: set[Operation],
    ) -> bool:
        if any(reader in self._products for reader, _ in readers):
            return True
        if not readers or not all(self._tolerates(reader, position) for reader, position in readers):
            return False
        if all(self._only_moves(reader, position, kept) for reader, position in readers):
            return True
        if not all(reader in leads for reader, _ in readers):
            return False
        if op in self._products or op in self._endings:
            return len(readers) > 1 or readers[0][0] not in self._endings
        return op.type in _APART or any(reader.type in _APART for reader, _ in readers)

    def _tolerates(self, reader: Operation, position: int) -> bool:
        fits = reader.type in self._infer and position in _IMAGES.get(reader.type, {position})
        return fits and not self._is_skipped(reader)

    def _only_moves(self, reader: Operation, position: int, kept: set[Tensor]) -> bool:
        moves = reader.type in _MOVES and position in _moved_positions(reader) and self._tolerates(reader, position)
        return moves and kept.issuperset(reader.outputs)

    def _moves_narrow(self, op: Operation, kept: set[Tensor]) -> bool:
        if op.type not in _MOVES or self._is_skipped(op) or op.type not in self._infer:
            return False
        moved = [op.inputs[position] for position in _moved_positions(op)]
        return all(tensor in kept and self._can_round(tensor) for tensor in moved)

    def run(self) -> Graph:
        """The graph under the policy; the graph itself if there is no product."""
        if not any(tensor.dtype is float32 for op in self._products for tensor in op.inputs):
            return self._graph
        copies: dict[Operation, Operation] = {}
        for op in self._graph.operations:
            controls = [copies[item] for item in op.control_inputs]
            if self._moves_narrow(op, self._kept):
                copies[op] = self._moved(op, controls)
                continue
            inputs = [self._input(op, position) for position in range(len(forward_inputs(op)))]
            copies[op] = copy_op(op, inputs, self._result, controls)
            self._exact.update(zip(op.outputs, copies[op].outputs, strict=True))
        close_loops(copies, self._exact)
        return self._result

    def _input(self, op: Operation, position: int) -> Tensor:
        """What an operation reads in place of one of its inputs."""
        tensor = op.inputs[position]
        rounds = op in self._products or (tensor in self._kept and self._tolerates(op, position))
        if op.type in _CHOOSING and position < 2:
            rounds = rounds and self._chosen_from_rounded(op)
        return self._wide(tensor) if rounds and self._can_round(tensor) else self._exact[tensor]

    def _chosen_from_rounded(self, op: Operation) -> bool:
        images, chosen = op.inputs[:2]
        return chosen.op.type == "MaxPool" and self._tolerates(chosen.op, 0) and images in self._kept

    def _can_round(self, tensor: Tensor) -> bool:
        return tensor.dtype is float32 and back_edge(tensor.op) is None

    def _narrow(self, tensor: Tensor) -> Tensor:
        if tensor not in self._rounded:
            known = self._weight(tensor)
            self._rounded[tensor] = self._round(self._exact[tensor]) if known is None else known
        return self._rounded[tensor]

    def _round(self, tensor: Tensor) -> Tensor:
        """A tensor of the new graph in bfloat16; a constant is rounded here and now."""
        op = tensor.op
        if op.type != "Const" or op.control_inputs:
            return self._cast(tensor, bfloat16)
        attrs = {"value": op.attrs["value"].astype(bfloat16.array_type), "dtype": bfloat16}
        name = f"{op.name}/{bfloat16.name}"
        return self._result.create_op("Const", (), attrs, name=name, device=op.device, source=op.source).outputs[0]

    def _weight(self, tensor: Tensor) -> Tensor | None:
        """What an equal read of the same variable was rounded to.

        Reads that wait for the same may be one read, unless a variable is updated between them: the second one gives
        the new value, which handles do not tell, since several may stand for one variable.
        """
        op = tensor.op
        if op.type != "ReadVariableOp":
            return None
        key = op.inputs[0], frozenset(op.control_inputs), self._updates_before[op]
        first = self._reads.setdefault(key, tensor)
        return None if first is tensor else self._narrow(first)

    def _wide(self, tensor: Tensor) -> Tensor:
        narrow = self._narrow(tensor)
        if narrow not in self._widened:
            self._widened[narrow] = self._cast(narrow, float32)
        return self._widened[narrow]

    def _moved(self, op: Operation, controls: Sequence[Operation]) -> Operation:
        """The same movement of rounded elements."""
        moved = _moved_positions(op)
        inputs = [
            self._narrow(tensor) if position in moved else self._exact[tensor]
            for position, tensor in enumerate(op.inputs)
        ]
        copied = copy_op(op, inputs, self._result, controls, {**op.attrs, "T": bfloat16})
        for old, new in zip(op.outputs, copied.outputs, strict=True):
            self._rounded[old] = new
            self._exact[old] = self._wide(old)
        return copied

    def _cast(self, tensor: Tensor, dtype: DType) -> Tensor:
        attrs = {"SrcT": tensor.dtype, "DstT": dtype, "Truncate": False}
        name = f"{tensor.op.name}/{dtype.name}"
        op = tensor.op
        cast = self._result.create_op("Cast", [tensor], attrs, name=name, device=op.device, source=op.source)
        return cast.outputs[0]


def _moved_positions(op: Operation) -> range:
    """The positions of the inputs whose elements an operation moves."""
    if op.type == "Pack":
        return range(len(op.inputs))
    return range(len(op.inputs) - 1 if op.type == "ConcatV2" else 1)
