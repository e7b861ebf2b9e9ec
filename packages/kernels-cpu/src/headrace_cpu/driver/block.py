"""Block: units that run one after the other, with the places of their memory: what one function of a driver does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.types import Array, DType
from headrace_cpu.layout import Layout, Unit
from headrace_cpu.prepared import Prepared
from headrace_cpu.scheduling.schedule import Key

__all__ = ["Block", "Place", "block_of", "integers_of", "place_of"]

Place = tuple[str, int]
"""("slot", position among the pointers that are given), ("arena", byte), ("constant", byte) or ("pointer", byte).

Bytes of the last two count in the block of constants, which has of a large constant only a pointer to it.
"""

ConstantPlace = Callable[[Array], Place]
"""Where the driver finds a constant."""


@dataclass(frozen=True, slots=True)
class Block:
    """What one function of a driver does.

    Attributes:
      units: in order.
      places: where each memory is.
      slots: which memory each of the given pointers is of.
      scratch: for each unit the memory that it works in, and its constants.
      sizes: bytes of each memory in the arena that threads work on.
      integers: dtype and number of elements of each memory that is checked.
    """

    units: tuple[Unit, ...]
    places: Mapping[Key, Place]
    slots: tuple[Key, ...]
    scratch: Sequence[Sequence[Place]]
    sizes: Mapping[Key, int]
    integers: Mapping[Key, tuple[DType, int]]


def block_of(layout: Layout, units: Sequence[Unit], constant: ConstantPlace, slots: Sequence[Key] = ()) -> Block:
    """Find the place of everything that some units touch.

    Args:
      layout: where values live.
      units: a part of its units.
      constant: gives constants a place.
      slots: memory for which pointers are given in any case; the block adds what is neither planned nor constant.
    """
    given = {key: number for number, key in enumerate(slots)}
    places: dict[Key, Place] = {}
    for unit in units:
        for key in unit.keys:
            if key not in places:
                places[key] = place_of(layout, key, constant, given)
    offsets = layout.allocation.offsets
    prepared = [[place_of(layout, key, constant, given) for key in unit.prepared] for unit in units]
    scratch = [
        [*(("arena", offsets[number]) for number in unit.scratch), *_constants(unit, constant, made)]
        for unit, made in zip(units, prepared, strict=True)
    ]
    return Block(
        units=tuple(units),
        places=places,
        slots=tuple(given),
        scratch=scratch,
        sizes=_sizes(layout, units, places),
        integers={unit.keys[0]: integers_of(layout, unit.keys[0]) for unit in units if unit.bound},
    )


def _constants(unit: Unit, constant: ConstantPlace, prepared: list[Place]) -> list[Place]:
    """Where the constants of a call are; `prepared` are the places of those that are made of its inputs, in order."""
    made = iter(prepared)
    return [next(made) if isinstance(item, Prepared) else constant(item) for item in unit.constants]


def _sizes(layout: Layout, units: Sequence[Unit], places: Mapping[Key, Place]) -> dict[Key, int]:
    sizes: dict[Key, int] = {}
    for unit in units:
        if unit.is_shared:
            for place, key in enumerate(unit.keys):
                if places[key][0] == "arena":
                    seen = unit.region.buffers[place] if unit.region is not None else None
                    touched = seen.size * seen.dtype.size if seen is not None else 0
                    sizes[key] = max(sizes.get(key, 0), touched, layout.schedule.sizes.get(key, 0))
    return sizes


def place_of(layout: Layout, key: Key, constant: ConstantPlace, given: dict[Key, int]) -> Place:
    """Where a memory is; one that is neither planned nor constant gets the next of the `given` pointers."""
    if key in given:
        return "slot", given[key]
    number = layout.numbers.get(key)
    if number is not None and number in layout.allocation.offsets:
        return "arena", layout.allocation.offsets[number]
    constants = layout.schedule.program.constants
    if isinstance(key, int) and key in constants:
        return constant(constants[key])
    return "slot", given.setdefault(key, len(given))


def integers_of(layout: Layout, key: Key) -> tuple[Any, int]:
    """dtype and number of elements of a memory."""
    if isinstance(key, tuple):
        storage = layout.schedule.storages[key[1]]
        return storage.dtype, storage.shape.num_elements or 0
    tensor = layout.schedule.program.tensors[key]
    return tensor.dtype, tensor.shape.num_elements or 0
