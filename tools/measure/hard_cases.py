"""The hard inputs that core must meet, by id, with the operations or the library classes that they are about.

A case counts as soon as one of its operations is registered or one of its classes is public; a test names its id.
"""

from __future__ import annotations

from collections.abc import Mapping

OPERATIONS: Mapping[str, tuple[str, ...]] = {
    "O01": ("HistogramFixedWidth",),
    "O03": ("HistogramFixedWidth",),
    "O05": ("FloorMod", "TruncateMod"),
    "O07": ("FloorMod", "FloorDiv"),
    "O09": ("GatherV2", "ConcatV2", "Cumsum", "Sum", "ExpandDims", "Split"),
    "O11": ("GatherV2", "GatherNd"),
    "O13": ("ScatterNd", "ResourceScatterNdUpdate"),
    "O15": ("UnsortedSegmentSum",),
    "O17": ("UnsortedSegmentMax", "SegmentMean"),
    "O19": ("DynamicStitch",),
    "O21": ("TopKV2",),
    "O23": ("Range",),
    "O25": ("Cast",),
    "O27": ("Softmax", "LogSoftmax"),
    "O29": ("CumulativeLogsumexp",),
    "O31": ("ArgMax",),
    "O33": ("Sort", "Argsort"),
    "O35": ("Transpose",),
    "O37": ("ReverseSequence",),
    "O39": ("MaxPool", "MaxPool3D", "Conv2D"),
    "O41": ("MatMul", "BatchMatMulV2"),
    "O43": ("SparseToDense",),
    "O45": ("SparseFillEmptyRowsGrad",),
    "O47": ("AsString",),
    "O49": ("NonMaxSuppressionV3",),
    "O51": ("ResizeNearestNeighbor", "ResizeBilinear"),
    "O53": ("Cumsum",),
    "O55": ("DepthToSpace", "Conv2DBackpropFilter", "QuantizeAndDequantizeV3"),
    "G15": ("QueueDequeueV2",),
    "G17": ("QueueDequeueManyV2", "BarrierTakeMany"),
    "R05": ("ConditionalAccumulator",),
    "T07": ("FusedBatchNormV3",),
    "T09": ("Mean", "Sum"),
}
OPTIMIZERS: Mapping[str, str] = {"T01": "Adam", "T03": "RMSProp", "T05": "Adagrad"}


def cases(operations: frozenset[str], optimizers: frozenset[str]) -> list[str]:
    """Return the ids of the cases that count, given what exists."""
    by_operation = [case for case, names in OPERATIONS.items() if operations & set(names)]
    by_optimizer = [case for case, name in OPTIMIZERS.items() if name in optimizers]
    return sorted(by_operation + by_optimizer)
