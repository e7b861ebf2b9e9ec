"""Models made of plain functions, with what the server needs of a loaded one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from headrace.types import Array, DTypeLike, Shape, TensorSpec, as_dtype

Specs = Mapping[str, tuple[DTypeLike, list[int | None] | None]]


@dataclass(frozen=True)
class Info(TensorSpec):
    """An input or output."""

    name: str


@dataclass(frozen=True)
class FunctionSignature:
    """A signature that calls a function."""

    inputs: Mapping[str, Info]
    outputs: Mapping[str, Info]
    function: Callable[..., Mapping[str, Array]]

    def __call__(self, **inputs: Array) -> Mapping[str, Array]:
        """Compute the outputs."""
        return self.function(**inputs)


@dataclass(frozen=True)
class FunctionModel:
    """A model of such signatures."""

    signatures: dict[str, FunctionSignature] = field(default_factory=dict)


def _infos(specs: Specs) -> dict[str, Info]:
    return {alias: Info(as_dtype(dtype), Shape(dims), f"{alias}:0") for alias, (dtype, dims) in specs.items()}


def make_signature(inputs: Specs, outputs: Specs, function: Callable[..., Mapping[str, Array]]) -> FunctionSignature:
    """Make a signature from dtypes and dimensions by alias."""
    return FunctionSignature(_infos(inputs), _infos(outputs), function)


def echo(dtype: DTypeLike, dims: list[int | None] | None = None, alias: str = "y") -> FunctionModel:
    """Make a model that answers its only input."""
    signature = make_signature({"x": (dtype, dims)}, {alias: (dtype, dims)}, lambda x: {alias: x})
    return FunctionModel({"serving_default": signature})


@pytest.fixture(name="make_signature")
def _make_signature() -> Callable[..., FunctionSignature]:
    return make_signature


@pytest.fixture(name="echo")
def _echo() -> Callable[..., FunctionModel]:
    return echo


@pytest.fixture(name="half")
def _half() -> FunctionModel:
    """A model of two inputs and two outputs."""
    signature = make_signature(
        {"x": ("float32", [None, 2]), "n": ("int64", [None])},
        {"y": ("float32", [None]), "label": ("string", [None])},
        lambda x, n: {"y": x.sum(axis=1) / 2, "label": (n * 10).astype(str).astype(object).astype("S").astype(object)},
    )
    return FunctionModel({"serving_default": signature, "score": signature})
