"""Rows in stages as LLVM instructions: what `pipelining` decided.

A step does each stage once, each to its own row. In the first steps a late stage has no row yet, in the last ones an
early stage has none any more: it then computes with what it finds and writes where nobody reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headrace.loops.ir import Access, Region
from headrace_cpu.llvm.text import compute_type, storage_type
from headrace_cpu.loops.loop_code import LoopCode
from headrace_cpu.loops.pipelining import Pipeline, Stage, touched
from headrace_cpu.loops.point import Row
from headrace_cpu.loops.streaming import LINE, Ahead

__all__ = ["Stages", "row_buffer_bytes", "spare_bytes"]


@dataclass(slots=True)
class Stages:
    """Writes the steps of a pipeline. Mutable.

    Attributes:
      region: whose rows they are.
      pipeline: how they are pipelined.
      code: writes loops.
      pointers: of the buffers; each row buffer has as many parts as steps pass until it is used last.
      spare: the pointer of a row that nobody reads.
      indices: given the register of a row, its indices.
      ahead: for each stage what it asks for.
      kept: for each local and age the slot that keeps what it was so many steps before, and its type.
    """

    region: Region
    pipeline: Pipeline
    code: LoopCode
    pointers: Sequence[str]
    spare: str
    indices: Callable[[str], dict[int, str]]
    ahead: Sequence[Ahead]
    kept: dict[tuple[int, int], tuple[str, str]] = field(default_factory=dict)

    def write(self) -> None:
        """The rows from `%begin` to `%end`."""
        t = self.code.text
        for stage in self.pipeline.stages:
            for loop in stage.loops:
                for item in loop.accumulates:
                    self._keep(item.local, compute_type(item.value.dtype))
        some = t.put("icmp slt i64 %begin, %end")
        stop = t.put(f"select i1 {some}, i64 {t.two('add', '%end', str(self.pipeline.behind), 'i64')}, i64 %begin")
        t.count_up("%begin", stop, 1, self._step)

    def _keep(self, local: int, element: str) -> None:
        t = self.code.text
        for age in range(1, self.pipeline.oldest["local", local] + 1):
            slot = t.name()
            t.allocas.append(f"  {slot} = alloca {element}, align 8")
            t.line(f"store {element} {t.number(0, element)}, ptr {slot}")
            self.kept[local, age] = slot, element

    def _step(self, number: str) -> None:
        """Each stage for its row, the last stage first: it reads what an earlier one then writes over."""
        t, code, stages = self.code.text, self.code, self.pipeline.stages
        old = {key: t.put(f"load {element}, ptr {slot}") for key, (slot, element) in self.kept.items()}
        rows = [self._row(number, position) for position in range(len(stages))]
        for stage, row in zip(stages, rows, strict=True):
            row.locals = {
                local: old[local, age] for (kind, local), age in stage.ages.items() if kind == "local" and age
            }
            code.at.row = row
            for loop in stage.before:
                code.write(loop)
        code.write_together([(stage.loop, row) for stage, row in zip(stages, rows, strict=True)][::-1])
        code.at.row = rows[-1]
        for loop in stages[-1].after:
            code.write(loop)
        made = {
            (item.local, 0): row.locals[item.local]
            for stage, row in zip(stages, rows, strict=True)
            for loop in stage.loops
            for item in loop.accumulates
        }
        for (local, age), (slot, element) in self.kept.items():
            t.line(f"store {element} {(old | made)[local, age - 1]}, ptr {slot}")

    def _row(self, number: str, position: int) -> Row:
        """The row of a stage in a step: one of its rows in any case, with somewhere else to write if it has none."""
        t, stage = self.code.text, self.pipeline.stages[position]
        wanted = t.two("sub", number, str(position * self.pipeline.distance), "i64")
        last = t.two("sub", "%end", "1", "i64")
        place = t.call("smax", "i64", t.call("smin", "i64", wanted, last), "%begin")
        has_row = t.put(f"icmp eq i64 {place}, {wanted}")
        index, pointers = self.indices(place), list(self.pointers)
        ways = {buffer: access for _, buffer, access in touched(stage.loops)}
        for buffer, access in ways.items():
            if self.region.buffers[buffer].role == "row":
                pointers[buffer] = self._copy(number, stage, buffer)
            elif self.region.buffers[buffer].role == "out":
                pointers[buffer] = self._written(has_row, index, buffer, access)
        apart = frozenset(buffer for buffer in ways if self.region.buffers[buffer].role == "out")
        return Row(index, pointers, ahead=dict(self.ahead[position]), apart=apart)

    def _copy(self, number: str, stage: Stage, buffer: int) -> str:
        """The copy of a row buffer that holds the row of a stage."""
        t, count = self.code.text, self.pipeline.oldest["row", buffer]
        if count == 1:
            return self.pointers[buffer]
        age = stage.ages.get(("row", buffer), 0)
        which = t.put(f"urem i64 {t.two('add', number, str(count - age), 'i64')}, {count}")
        start = t.two("mul", which, str(row_buffer_bytes(self.region, buffer)), "i64")
        return t.put(f"getelementptr i8, ptr {self.pointers[buffer]}, i64 {start}")

    def _written(self, has_row: str, index: dict[int, str], buffer: int, access: Access) -> str:
        """A pointer with which the row of a stage is written to its buffer, or else to the spare row."""
        t, axis = self.code.text, self.pipeline.stages[0].loop.axes[0].number
        offset = str(-access.constant)
        for number, factor in access.terms:
            if number != axis:
                offset = t.two("sub", offset, t.two("mul", index[number], str(factor), "i64"), "i64")
        element = storage_type(self.region.buffers[buffer].dtype)
        elsewhere = t.put(f"getelementptr {element}, ptr {self.spare}, i64 {offset}")
        return t.put(f"select i1 {has_row}, ptr {self.pointers[buffer]}, ptr {elsewhere}")


def row_buffer_bytes(region: Region, number: int) -> int:
    """Bytes that a copy of a row buffer takes: it begins with a line of the cache, and one more may be read.

    Args:
      region: whose buffer it is.
      number: of the buffer.
    """
    buffer = region.buffers[number]
    return _lines(max(buffer.size, 1) * max(buffer.dtype.size, 1))


def spare_bytes(region: Region, pipeline: Pipeline) -> int:
    """Bytes of a row of any result.

    Args:
      region: whose results they are.
      pipeline: how it is pipelined.
    """
    (axis,) = pipeline.stages[0].loop.axes
    return _lines(axis.extent * max(max(buffer.dtype.size, 1) for buffer in region.buffers if buffer.role == "out"))


def _lines(size: int) -> int:
    return -(-size // LINE) * LINE + LINE
