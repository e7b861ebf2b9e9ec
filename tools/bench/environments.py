"""The environments of the frameworks: each its own, made on first use and kept."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from measure.environments import SCRATCH, kept_environment

__all__ = ["PEERS", "interpreters"]

PEERS = {
    "torch": ("torch", "numpy"),
    "jax": ("jax", "numpy"),
    "tensorflow": ("tensorflow-cpu>=2.18", "numpy"),
    "onnxruntime": ("onnxruntime", "onnx", "numpy"),
}
"""For each framework what its environment holds."""


def interpreters(peers: Iterable[str], *, make: bool = True) -> dict[str, str]:
    """For Headrace this interpreter; for each peer that of its environment, or what BENCH_PYTHON_<PEER> names.

    Args:
      peers: names of frameworks; what follows `-` is a variant in the same environment.
      make: make environments that are missing; otherwise their peers are left out.
    """
    found = {"headrace": sys.executable}
    for peer in peers:
        name = peer.split("-")[0]
        given = os.environ.get(f"BENCH_PYTHON_{name.upper()}")
        if given or make or (SCRATCH / f"bench-{name}" / "complete").exists():
            found[peer] = given or str(kept_environment(f"bench-{name}", *PEERS[name]))
    return found
