"""Module: what the functions of drivers are written to, and share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headrace_cpu.driver.block import ConstantPlace
from headrace_cpu.layout import Unit
from headrace_cpu.llvm.text import Text

__all__ = ["Module", "WriteNested"]

WriteNested = Callable[["Module", Text, Unit, Sequence[str]], str]
"""Writes a call of what a unit that contains blocks does; gives the register of its answer."""


@dataclass(slots=True)
class Module:
    """A module being written. Mutable.

    Attributes:
      lanes: float32 elements of a vector.
      openmp: whether libgomp's pool is there.
      constant: gives constants a place.
      new_store: gives the number of a store for a list that nothing else uses.
      nested: writes units that contain blocks.
      functions: declarations and definitions, by name.
      regions: the symbol of each region, by its text.
      handles: how many entries of the table libraries need.
      library: for each library unit its first entry in the table.
    """

    lanes: int
    openmp: bool
    constant: ConstantPlace
    new_store: Callable[[], int]
    nested: WriteNested
    functions: dict[str, str] = field(default_factory=dict)
    regions: dict[str, str] = field(default_factory=dict)
    handles: int = 0
    library: list[tuple[Unit, int]] = field(default_factory=list)

    def text(self) -> Text:
        """A function of this module, to be written."""
        return Text(functions=self.functions)

    def symbol(self, kind: str) -> str:
        """A fresh name."""
        return f"{kind}{len(self.functions)}"
