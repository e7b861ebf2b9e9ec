"""The queues family has no derivatives: what goes into one step comes out in another."""

from __future__ import annotations

from headrace.grad.registry import no_gradient

for _queue in ("FIFOQueueV2", "RandomShuffleQueueV2", "PriorityQueueV2", "PaddingFIFOQueueV2"):
    no_gradient(_queue, "a handle has no inputs")
for _effect in ("QueueEnqueueV2", "QueueEnqueueManyV2", "QueueCloseV2"):
    no_gradient(_effect, "it has no output")
for _take in ("QueueDequeueV2", "QueueDequeueManyV2", "QueueDequeueUpToV2"):
    no_gradient(_take, "its elements were computed by other steps")
no_gradient("QueueSizeV2", "its output is an integer")
no_gradient("QueueIsClosedV2", "its output is a bool")
