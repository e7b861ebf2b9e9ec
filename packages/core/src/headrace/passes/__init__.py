"""From graph to graph: the part that a step needs, with less work and the same numbers.

Shown here is what a pass of another package is made of: `prune` gives the bounded graph, `rewrite`, `copy_op` and
`drop_dead` change it, and `optimize` applies passes in order. `draws` and `sparse_rows` are for backends that
generate code: what they leave has the shapes and the forms that loops have; `batch_slices` is for those that compute
operation by operation in memory that has caches.
"""

from headrace.passes.batch_slices import batch_slices
from headrace.passes.draws import draws
from headrace.passes.pipeline import optimize
from headrace.passes.prune import prune
from headrace.passes.rewrite import copy_op, drop_dead, rewrite
from headrace.passes.sparse_rows import sparse_rows

__all__ = ["batch_slices", "copy_op", "draws", "drop_dead", "optimize", "prune", "rewrite", "sparse_rows"]
