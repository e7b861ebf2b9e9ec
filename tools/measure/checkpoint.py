"""What the checkpoint package must hold, one function per row of its table."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

from measure.environments import ROOT, SCRATCH, kept_environment, run, tail
from measure.report import Row
from measure.suites import hard_cases, run_tests

CHECKPOINT = ROOT / "packages" / "checkpoint"
TESTS = CHECKPOINT / "tests"
OURS = ("--editable", str(ROOT / "packages" / "core"), "--editable", str(CHECKPOINT))
"""As they are now, also in an environment that was made before."""

PEERS = ("safetensors>=0.7", "torch", "orbax-checkpoint")
WITHOUT_PEER = ("--ignore", str(TESTS / "test_tensorflow.py"), "--ignore", str(TESTS / "test_openvino.py"))
HARD_CASES = ("K01", "K03", "K05", "K07", "K09", "K11", "K13")


def rows(quick: bool) -> Iterator[Row]:
    """Yield every row, cheapest first.

    Args:
      quick: fewer kills, a smaller step, in this environment, beside the peers that are installed here.
    """
    SCRATCH.mkdir(parents=True, exist_ok=True)
    yield hard_cases(TESTS, "K", HARD_CASES, *WITHOUT_PEER)
    yield crashes()
    yield corruption()
    yield refusals()
    yield resumed()
    yield killed(20 if quick else 300)
    yield crowded()
    yield from memory(quick)
    yield from speed(quick)
    yield interchange()
    yield openvino()


def crashes() -> Row:
    """Enumerate what a crash may leave, and leave out every fsync in turn."""
    asked = "in every state the newest complete checkpoint restores; each fsync and rename left out is noticed"
    return run_tests("crash states", asked, str(TESTS / "test_crash_states.py"))


def corruption() -> Row:
    """Flip every byte, cut at every byte, and lie in headers."""
    return run_tests(
        "corruption",
        "every flipped byte, every truncation: detected; hostile headers refused, memory bounded",
        "-k",
        "flipped or truncat or lie or refused or damage or hostile or fuzzed or outside or K01 or K05",
        *WITHOUT_PEER,
        str(TESTS),
    )


def refusals() -> Row:
    """Let the disk be full, broken, read-only, gone or slow."""
    return run_tests(
        "disk full, read-only, permission, vanished, slow",
        "a clear error at the next call; training state and the previous checkpoint intact",
        "-k",
        "full_disk or failed_save or background or deadline or error_of_any_call or vanished or asynchronous",
        *WITHOUT_PEER,
        str(TESTS),
    )


def resumed() -> Row:
    """Kill a training at each of 20 steps and resume it."""
    asked = "bit-equal after a kill at any of 20 steps, with dropout, shuffling and Adam"
    return run_tests("resume", asked, "-k", "A92", str(TESTS / "test_callback.py"))


def killed(kills: int) -> Row:
    """Kill a process that saves, again and again."""
    asked = f"{kills} kills at random moments of saving: no invalid checkpoint, nothing acknowledged lost"
    arguments = ("-k", "kill_9", str(TESTS / "test_saver.py"))
    return run_tests("kill -9", asked, *arguments, env={"HEADRACE_KILLS": str(kills)})


def crowded() -> Row:
    """Let several processes save, delete and read the same steps."""
    asked = "several processes in one directory: no error, nothing lost, no wrong value"
    return run_tests("many processes", asked, str(TESTS / "test_processes.py"))


def memory(quick: bool) -> Iterator[Row]:
    """Save once and watch the peak; save many times in the background and watch what stays."""
    file = SCRATCH / "checkpoint-memory.json"
    program = str(CHECKPOINT / "benchmarks" / "memory.py")
    gigabytes = "0.25" if quick else "1"
    command = [sys.executable, program, "--gigabytes", gigabytes, "--saves", "100", "--json", str(file)]
    done = run([*command, "--directory", str(SCRATCH)])
    if done.returncode != 0:
        yield Row("memory", "the benchmark runs", "it failed", False, tail(done.stdout))
        return
    found = json.loads(file.read_text())
    peak, growth = found["peak of a save / state"], found["growth over the saves / state"]
    yield Row(f"memory: save {gigabytes} GiB", "peak <= 1.25 x state", f"{peak:.2f} x", peak <= 1.25)
    yield Row("memory: 100 asynchronous saves", "resident memory grows < 5 %", f"{growth:.1%}", growth < 0.05)


def speed(quick: bool) -> Iterator[Row]:
    """Save and load one large step beside the disk and the peers."""
    python = sys.executable if quick else str(kept_environment("checkpoint", *OURS, *PEERS))
    file = SCRATCH / "checkpoint-speed.json"
    gigabytes = "0.125" if quick else "1"
    command = [python, str(CHECKPOINT / "benchmarks" / "speed.py"), "--gigabytes", gigabytes, "--json", str(file)]
    done = run([*command, "--directory", str(SCRATCH)])
    if done.returncode != 0:
        yield Row("speed", "the benchmark runs", "it failed", False, tail(done.stdout))
        return
    seconds = {name: times["median"] for name, times in json.loads(file.read_text())["seconds"].items()}
    detail = "\n".join(f"{name}: {value * 1000:.2f} ms" for name, value in seconds.items())
    share = seconds["disk"] / seconds["headrace save"]
    asked = ">= 0.9 of the disk's own sequential write with fsync"
    yield Row(f"speed: save {gigabytes} GiB", asked, f"{share:.2f}", share >= 0.9, detail)
    if "safetensors load" in seconds:
        ratio = seconds["safetensors load"] / seconds["headrace load, verified"]
        yield Row("speed: load, verified", ">= 2 x safetensors' NumPy path", f"{ratio:.2f} x", ratio >= 2)
    mapped = seconds["headrace load, mapped"] * 1000
    yield Row("speed: load, mapped, not verified", "< 5 ms", f"{mapped:.2f} ms", mapped < 5)
    for kind in ("first async save", "async save"):
        stall = seconds[f"{kind}, stall"] / seconds[f"{kind}, whole"]
        yield Row(kind, "training stalls < 10 % of the save", f"{stall:.1%}", stall < 0.1)


def interchange() -> Row:
    """Run the tests beside TensorFlow in the oracle's environment."""
    asked = "TensorFlow reads our bundles and SavedModels and we read its, values equal"
    python = kept_environment("oracle", *OURS, "tensorflow-cpu>=2.18", "pytest>=8.3")
    return run_tests("interchange", asked, str(TESTS / "test_tensorflow.py"), python=str(python))


def openvino() -> Row:
    """Run the tests beside OpenVINO in an environment of its own."""
    asked = "OpenVINO runs our SavedModels and frozen graphs, values equal"
    python = kept_environment("openvino", *OURS, "openvino>=2025.0", "pytest>=8.3")
    return run_tests("interchange with OpenVINO", asked, str(TESTS / "test_openvino.py"), python=str(python))
