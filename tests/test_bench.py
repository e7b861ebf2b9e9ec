"""The benchmarks compare what they say: networks have their known sizes; ratios, floors and values are judged right."""

from __future__ import annotations

import math
import os
import sys

import numpy as np
import pytest

from bench.comparison import Result, Setting, Worker, table, turn_steps
from bench.machine import Machine
from bench.nets import NETS
from bench.works import WORKS, chosen_works


@pytest.mark.parametrize(
    ("name", "millions", "shapes"),
    [
        ("alexnet", 61.1, [(55, 55, 64), (27, 27, 64), (6, 6, 256)]),
        ("overfeat", 145.9, [(56, 56, 96), (28, 28, 96), (6, 6, 1024)]),
        ("vgg_a", 132.9, [(224, 224, 64), (7, 7, 512)]),
        ("googlenet", 7.0, [(112, 112, 64), (28, 28, 480), (14, 14, 832), (7, 7, 1024)]),
        ("resnet50", 25.6, [(112, 112, 64), (56, 56, 256), (7, 7, 2048)]),
    ],
)
def test_a_network_has_its_known_size(name: str, millions: float, shapes: list[tuple[int, ...]]) -> None:
    kernels = [(layer.kernel, 1 + layer.normalized) for layer in NETS[name].layers if layer.kernel]
    assert sum(math.prod(kernel) + beside * kernel[-1] for kernel, beside in kernels) / 1e6 == pytest.approx(
        millions, abs=0.06
    )
    made = [layer.shape for layer in NETS[name].layers]
    assert all(shape in made for shape in shapes)
    assert made[-1] == (1000,)


def test_arithmetic_is_counted_of_products_once_forward_and_twice_backward() -> None:
    forward = 2 * (784 * 512 + 512 * 512 + 512 * 10)
    assert NETS["mlp"].flops == forward
    assert NETS["mlp"].training_flops == 3 * forward - 2 * 784 * 512
    assert NETS["vgg_a"].flops / 1e9 == pytest.approx(15.2, abs=0.1)
    assert NETS["resnet50"].flops / 1e9 == pytest.approx(8.2, abs=0.1)


def test_names_choose_workloads_and_all_of_their_sizes() -> None:
    assert [work.name for work in chosen_works("mlp,resnet50")] == ["mlp", "resnet50-1", "resnet50-8"]
    with pytest.raises(SystemExit, match="no workload 'resnet51'; known are mlp"):
        chosen_works("resnet51")


def result(**seconds: list[float]) -> Result:
    found = Result("mlp", Machine(flops=WORKS["mlp"].flops * 1e3, bandwidth=1.0), seconds=dict(seconds))
    found.values = {peer: [2.3, 2.2, 2.1] for peer in seconds}
    found.first = dict.fromkeys(seconds, 0.5)
    found.memory = {peer: (number + 1) << 24 for number, peer in enumerate(seconds)}
    return found


def test_the_ratio_is_to_the_fastest_other_framework() -> None:
    found = result(headrace=[0.003, 0.002, 0.004], torch=[0.006] * 3, jax=[0.004] * 3)
    assert found.best_peer() == "jax"
    assert found.ratio() == 0.75
    assert found.ratio_spread() == (0.625, 0.875)
    assert found.memory_ratio() == 0.5
    assert found.gap() == pytest.approx(3.0)
    text = table(found)
    assert text.startswith("mlp: 0.75 (0.62 .. 0.88) of jax, 3.00 x the floor of 1 ms at")
    assert "DIFFER" not in text


def test_a_turn_is_long_enough_for_the_caches_and_not_too_long() -> None:
    setting = Setting({}, {}, threads=2, steps=10, seconds=2.0)
    assert [turn_steps(setting, one) for one in (0.0001, 0.001, 0.02, 0.1, 0.5, 3.0)] == [2000, 200, 10, 10, 4, 1]


def test_without_others_or_where_ours_failed_there_is_no_ratio() -> None:
    assert result(headrace=[0.003]).ratio() is None
    assert result(torch=[0.003]).ratio() is None
    assert math.isinf(result(torch=[0.003]).median("headrace"))


def test_values_that_differ_in_any_of_the_first_steps_are_told() -> None:
    found = result(headrace=[0.003], torch=[0.006])
    found.values["torch"][1] = 2.21
    assert not found.agree()
    assert "VALUES DIFFER" in table(found)
    found.precision = "bfloat16"
    assert found.agree()


def test_a_workload_runs_in_a_process_of_its_own() -> None:
    path = os.pathsep.join(path for path in sys.path if path)
    worker = Worker("headrace", sys.executable, {**os.environ, "PYTHONPATH": path})
    try:
        answer = worker.ask(prepare="small", threads=1, precision="float32", deterministic=False)
        seconds = worker.ask(run=3)["seconds"]
    finally:
        worker.close()
    expected = np.abs(WORKS["small"].make()[1]["x"] + 1).astype(np.float64).mean()
    assert answer["values"] == [float(expected)] * 3
    assert answer["arena"] == 0
    assert len(seconds) == 3


def test_a_process_that_fails_says_why() -> None:
    worker = Worker("nothing", sys.executable, os.environ)
    with pytest.raises(RuntimeError, match="No module named 'bench.peers.nothing_peer'"):
        worker.ask(run=1)
    worker.close()
