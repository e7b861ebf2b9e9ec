"""What a kernel derives from sizes and axes, kept from one step to the next.

A plan runs the same operation with the same sizes again and again. Checking them and turning them into an index took
25 microseconds of the 28 of a strided slice, so kernels remember what came out.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any

from headrace.types import Array

__all__ = ["memoized"]


def memoized(function: Callable[..., Any], *arguments: Any) -> Any:
    """`function(*arguments)`, from memory if it was computed before.

    Args:
      function: pure; takes sequences of ints where arrays are given.
      *arguments: arrays and hashable values. Vectors of integers count by their elements; with an array of another rank
        nothing is remembered.
    """
    key = [_key(argument) for argument in arguments]
    if None in key:
        return function(*arguments)
    return _remembered(function, *key)


def _key(argument: Any) -> Hashable:
    """The elements of a vector as a tuple, None for other arrays; anything else stands for itself."""
    if not hasattr(argument, "ndim"):
        return argument  # type: ignore[no-any-return]  # hashable by contract
    vector: Array = argument
    return tuple(vector.tolist()) if vector.ndim == 1 else None


@lru_cache(maxsize=4096)
def _remembered(function: Callable[..., Any], *arguments: Hashable) -> Any:
    return function(*arguments)
