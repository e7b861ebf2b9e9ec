"""The cache of compiled code, the dump, and what is said where something is missing."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import pytest

import headrace_cpu.llvm.host as module
from headrace.errors import InvalidArgumentError
from headrace_cpu import CpuBackend
from headrace_cpu.llvm.host import Host, host


def _there() -> set[str]:
    """The instructions of this processor."""
    return {name for name, there in llvm.get_host_cpu_features().items() if there}


TEXT = "define i32 @answer_{n}() {{\n  ret i32 {n}\n}}\n"


def answer(machine: Host, number: int) -> int:
    (address,) = machine.load(TEXT.format(n=number), [f"answer_{number}"])
    return int(ctypes.CFUNCTYPE(ctypes.c_int)(address)())


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path))
    return tmp_path / "cpu"


def test_code_is_kept_and_found_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(Host(), 41) == 41
    (file,) = cache.iterdir()
    kept = file.read_bytes()

    def compiled(*_: object) -> bytes:
        raise AssertionError("it is in the cache")

    monkeypatch.setattr(Host, "_compiled", compiled)
    assert answer(Host(), 41) == 41
    assert file.read_bytes() == kept


def test_code_that_is_there_is_not_loaded_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine, text = Host(), TEXT.format(n=42)
    addresses = machine.load(text, ["answer_42"])
    monkeypatch.setenv("HEADRACE_CACHE", "off")
    assert machine.load(text, ["answer_42"]) == addresses
    assert machine.load(TEXT.format(n=40), ["answer_40"]) != addresses


def test_functions_of_one_module_come_in_their_order(cache: Path) -> None:
    machine, text = Host(), TEXT.format(n=1) + TEXT.format(n=2)
    addresses = machine.load(text, ["answer_2", "answer_1"])
    assert [ctypes.CFUNCTYPE(ctypes.c_int)(address)() for address in addresses] == [2, 1]
    assert len(list(cache.iterdir())) == 1


@pytest.mark.parametrize("damage", [b"", b"headrace-cpu\n", b"something else"])
def test_damaged_code_is_compiled_again(cache: Path, damage: bytes) -> None:
    answer(Host(), 43)
    (file,) = cache.iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage or whole[:-7])
    assert answer(Host(), 43) == 43
    assert file.read_bytes() == whole


def test_code_of_another_processor_is_not_taken(cache: Path) -> None:
    machine = Host()
    machine.cpu = "x86-64" if "x86" in machine.triple else "generic"
    machine.features = ""
    assert answer(machine, 44) == 44
    assert answer(Host(), 44) == 44
    assert len(list(cache.iterdir())) == 2


def test_several_processes_may_fill_one_cache(cache: Path) -> None:
    code = "import test_host as t; assert [t.answer(t.host(), 100 + n) for n in range(20)] == list(range(100, 120))"
    command = [sys.executable, "-c", code]
    processes = [subprocess.Popen(command, cwd=Path(__file__).parent) for _ in range(3)]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert len(list(cache.iterdir())) == 20


def test_where_nothing_can_be_written_it_is_compiled_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "file"))
    assert answer(host(), 45) == 45
    monkeypatch.setenv("HEADRACE_CACHE", "off")
    assert answer(host(), 46) == 46


def test_the_dump_has_text_and_assembly(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_DUMP", str(tmp_path / "dump"))
    answer(module.Host(), 47)
    files = sorted((tmp_path / "dump").iterdir())
    assert [file.name.split(".", 1)[1] for file in files] == ["ll", "opt.ll", "s"]
    assert "answer_47" in files[0].read_text()


def test_what_is_in_the_cache_is_dumped_too(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache would hide the text from who asks for it in the second run of a program."""
    answer(module.Host(), 51)
    monkeypatch.setenv("HEADRACE_DUMP", str(tmp_path / "dump"))
    assert answer(module.Host(), 51) == 51
    assert len(list((tmp_path / "dump").iterdir())) == 3
    assert len(list(cache.iterdir())) == 1  # what is dumped is not kept: no other run asks for text with comments


@pytest.mark.parametrize("taken", ["file", "file/inside"])
def test_a_dump_that_cannot_be_written_is_an_error(
    taken: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HEADRACE_DUMP", str(tmp_path / taken))
    with pytest.raises(InvalidArgumentError, match="cannot be written where the environment asks") as refused:
        answer(Host(), 53)
    assert f"HEADRACE_DUMP={tmp_path / taken}: " in str(refused.value)


def test_an_error_while_compiling_leaves_nothing_of_llvm_to_python(cache: Path) -> None:
    """Python's collector disposes of what is in a cycle in any order; a context before its module crashes."""

    def fail() -> None:
        try:
            Host().load("define i32 @answer() {\n  ret i32 %unknown\n}\n", ["answer"])
        except RuntimeError as error:
            kept.append(error)
        try:
            Host()._compiled("define i32 @answer() {\n  ret i32 1\n}\n", None)  # type: ignore[arg-type]
        except Exception as error:
            error.__context__ = error.__cause__ = RuntimeError()
            error.__context__.__context__ = error  # a cycle

    kept: list[BaseException] = []
    for _ in range(3):
        fail()
    kept.clear()
    gc.collect()


def test_without_llvm_there_is_no_device_but_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        return None

    assert list(CpuBackend().devices()) == ["CPU:0"]
    monkeypatch.setattr("importlib.util.find_spec", missing)
    assert list(CpuBackend().devices()) == []
    assert CpuBackend().advice() == ["CPU:0 would be faster with machine code: pip install llvmlite"]


def test_the_lanes_are_those_of_the_host() -> None:
    assert module.host().lanes in (4, 8, 16)


@pytest.mark.parametrize(
    ("features", "lanes"),
    [("+avx2,+avx512f,+avx512dq", 16), ("+avx2,+avx512f,-avx512dq", 8), ("+avx2", 8), ("+sse4.2", 4)],
)
def test_sixteen_lanes_mean_both_parts_of_avx512(features: str, lanes: int) -> None:
    made = object.__new__(module.Host)
    made.features = features
    assert made.lanes == lanes


@pytest.mark.skipif(not set(module.AVX2) <= _there(), reason="no AVX2")
def test_the_environment_may_ask_for_avx2_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_INSTRUCTIONS", "avx2")
    made = Host()
    assert (made.lanes, made.multiplies_bfloat16) == (8, False)
    assert "avx512" not in made.features
    assert answer(made, 52) == 52


def test_what_is_asked_for_must_be_known_and_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_INSTRUCTIONS", "avx2")
    monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: {"sse4.2": True, "avx2": False})
    with pytest.raises(InvalidArgumentError, match="this processor has no AVX2"):
        Host()
    monkeypatch.setenv("HEADRACE_INSTRUCTIONS", "avx9")
    with pytest.raises(InvalidArgumentError, match="asks for instructions that are not known"):
        Host()


TRAINING = """
import numpy as np
import headrace as hr
from headrace_cpu.llvm.host import host

rng = np.random.default_rng(0)
images, labels = rng.normal(size=(6, 9, 9, 3)).astype(np.float32), rng.integers(0, 5, 6)


def losses(backend):
    graph = hr.Graph(seed=1)
    with graph.as_default():
        x, t = hr.placeholder(hr.float32, [6, 9, 9, 3]), hr.placeholder(hr.int64, [6])
        draw = np.random.default_rng(1).normal
        kernel = hr.Variable(draw(size=(3, 3, 3, 16)).astype(np.float32) / 5)
        weight = hr.Variable(draw(size=(256, 5)).astype(np.float32) / 16)
        y = hr.nn.max_pool2d(hr.nn.relu(hr.nn.conv2d(x, kernel, 1, "SAME")), 2, 2, "VALID")
        y = hr.sigmoid(hr.nn.layer_norm(hr.reshape(y, [6, -1]))) @ weight
        loss = hr.mean(hr.nn.sparse_softmax_cross_entropy(labels=t, logits=y))
        train = hr.optim.Adam(0.01).minimize(loss)
    with hr.Session(graph, config=hr.config(backend=backend)) as session:
        return [float(session.run([loss, train], {x: images, t: labels})[0]) for _ in range(4)]


np.testing.assert_allclose(losses("cpu"), losses("numpy"), rtol=1e-5)
print(host().lanes)
"""


@pytest.mark.skipif(not set(module.AVX2) <= _there(), reason="no AVX2")
def test_a_network_trains_with_avx2_only() -> None:
    environment = {**os.environ, "HEADRACE_INSTRUCTIONS": "avx2"}
    done = subprocess.run([sys.executable, "-c", TRAINING], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["8"]


LOADED = """
import sys, headrace as hr
assert not any(name.startswith("llvmlite") for name in sys.modules), "importing must not wait for LLVM"
graph = hr.Graph()
hr.Session(graph, config=hr.config(backend="numpy"))
assert "llvmlite" not in sys.modules, "nobody asked for machine code"
hr.Session(graph, config=hr.config(backend="nonsense"))
hr.Session(graph, config=hr.config(backend="cpu"))
assert {"llvmlite", "headrace_cpu.plan", "headrace_cpu.scheduling"} <= set(sys.modules)
before = set(sys.modules)
with graph.as_default():
    x = hr.placeholder(hr.float32, [8, 8])
    y = hr.tanh(x @ x)
hr.Session(graph, config=hr.config(backend="cpu")).run(y, feeds={x: [[1.0] * 8] * 8})
print(sorted(name for name in set(sys.modules) - before if name.startswith(("headrace_cpu", "llvmlite"))))
"""


def test_a_session_loads_what_its_first_step_needs() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
