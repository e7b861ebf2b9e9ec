"""Operations that call functions: where they run, and what is said where a body asks for something else."""

from __future__ import annotations

import headrace as hr
from headrace.passes.prune import prune
from headrace.placement.device import local_devices
from headrace.placement.placer import place


def test_A66_a_structured_operation_runs_whole_and_says_so_where_its_body_asks_for_another_device() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.random.normal([])

        def inner() -> hr.Tensor:
            with hr.device("CPU:1"):
                return x * 2.0

        with hr.device("CPU:0"):
            y = hr.cond(x > 0.0, inner, lambda: hr.cond(x > -1.0, inner, lambda: x))
    bounded = prune(graph, [y], [], [], [])
    placement = place(bounded, local_devices(["CPU:0"], {"CPU": 2}))
    (call,) = [op for op in bounded.operations if op.bodies]
    assert placement.devices[call].name.short == "CPU:0"
    assert [note.replace(str(placement.devices[call]), "HERE") for note in placement.notes] == [
        f"{call.type} '{call.name}' runs whole on HERE, though '/device:CPU:1' is asked for in it"
    ]
