"""The host's processor, and machine code for it: LLVM's code generator, its symbols, the cache of compiled code."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm

from headrace.errors import InvalidArgumentError
from headrace_cpu.llvm.half import CONVERSIONS

__all__ = ["Host", "dump_folder", "host", "only_avx2"]

CODE_VERSION = "2"
"""Changes when modules of one text must no longer share their code."""
MAGIC = b"headrace-cpu\n"
"""How a file of the cache begins."""
SWITCH = "HEADRACE_INSTRUCTIONS"
AVX2 = ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sse4.2")
"""What every processor has that LLVM calls x86-64-v3: most since 2015."""


class Host:
    """The code generator of this process. Thread-safe: compiling takes a lock."""

    def __init__(self) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self.cpu = "x86-64-v3" if only_avx2() else llvm.get_host_cpu_name()
        self.features = _features(llvm.get_host_cpu_features())
        self.triple = llvm.get_process_triple()
        self._lock = threading.Lock()
        self._engine: llvm.ExecutionEngine | None = None
        self._loaded: set[str] = set()
        self._keep: list[object] = []
        self.openmp = _load_openmp()

    @functools.cached_property
    def lanes(self) -> int:
        """How many float32 the widest registers hold."""
        names = self.features.split(",")
        if "+avx512f" in names and "+avx512dq" in names:  # both, since so many lanes use instructions of either
            return 16
        return 8 if "+avx2" in names else 4

    @property
    def multiplies_bfloat16(self) -> bool:
        """True if there are instructions that multiply bfloat16: elsewhere float32 is faster."""
        return not {"+avx512bf16", "+amx-bf16"}.isdisjoint(self.features.split(","))

    def machine(self) -> llvm.TargetMachine:
        """A new code generator with the host's instructions."""
        target = llvm.Target.from_triple(self.triple)
        return target.create_target_machine(cpu=self.cpu, features=self.features, opt=3, jit=True)

    def load(self, text: str, symbols: Sequence[str]) -> list[int]:
        """The addresses of functions of a module, compiled now or taken from the cache.

        Args:
          text: the module; the key of the cache is its content with the processor and the versions.
          symbols: the functions.
        """
        key = hashlib.sha256(
            "\0".join(
                [text, self.cpu, self.features, str(llvm.llvm_version_info), llvmlite.__version__, CODE_VERSION]
            ).encode()
        ).hexdigest()
        with self._lock:
            if key not in self._loaded:  # models that are loaded again and again would fill the memory
                machine = self.machine()
                code = _read(key)
                if code is None:
                    code = self._compiled(text, machine)
                    _write(key, code)
                    _give_memory_back()
                if self._engine is None:
                    called = llvm.parse_assembly(f'target triple = "{self.triple}"\n{CONVERSIONS}')
                    self._engine = llvm.create_mcjit_compiler(called, machine)
                self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
                self._engine.finalize_object()
                self._loaded.add(key)
            assert self._engine is not None
            return [int(self._engine.get_function_address(symbol)) for symbol in symbols]

    def _compiled(self, text: str, machine: llvm.TargetMachine) -> bytes:
        """The object file of a text.

        All of LLVM's that is made here goes here, in the order that it needs: the context of the process would keep
        what is made of the text, and Python, where an error holds on to all of it, would dispose of a context before
        its module and crash.
        """
        options = llvm.create_pipeline_tuning_options(speed_level=2)
        options.loop_vectorization = False
        options.slp_vectorization = False
        with (
            llvm.create_context() as context,
            llvm.parse_assembly(f'target triple = "{self.triple}"\n{text}', context) as module,
            llvm.create_pass_builder(machine, options) as builder,
        ):
            module.verify()
            with builder.getModulePassManager() as passes:
                passes.run(module, builder)
            _dump(text, module, machine)
            return bytes(machine.emit_object(module))


def only_avx2() -> bool:
    """True if the environment asks for instructions of AVX2 only.

    Raises:
      InvalidArgumentError: it asks for something else.
    """
    wanted = os.environ.get(SWITCH, "")
    if wanted in ("", "avx2"):
        return bool(wanted)
    raise InvalidArgumentError(
        "the environment asks for instructions that are not known",
        expected=f"{SWITCH}=avx2, or no such variable for all that the processor has",
        got=f"{SWITCH}={wanted}",
        hint=f"unset {SWITCH}",
    )


def _features(known: Mapping[str, bool]) -> str:
    """The instructions to use, as LLVM lists them, of those that the processor has.

    Raises:
      InvalidArgumentError: the environment asks for some that it lacks.
    """
    if not only_avx2():
        return ",".join(f"{'+' if there else '-'}{name}" for name, there in sorted(known.items()))
    missing = [name for name in AVX2 if not known.get(name)]
    if missing:
        raise InvalidArgumentError(
            "this processor has no AVX2",
            expected=f"a processor with {', '.join(AVX2)}",
            got=f"one without {', '.join(missing)}",
            hint=f"unset {SWITCH}",
        )
    return ",".join(f"+{name}" for name in AVX2)


def dump_folder() -> Path | None:
    """Where HEADRACE_DUMP asks for the text of all modules; then none comes from the cache."""
    folder = os.environ.get("HEADRACE_DUMP")
    return Path(folder) if folder else None


def _dump(text: str, module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    """Write the text, the optimised text and the assembly where HEADRACE_DUMP says."""
    folder = dump_folder()
    if folder is None:
        return
    stem = folder / hashlib.sha256(text.encode()).hexdigest()[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        stem.with_suffix(".ll").write_text(text)
        stem.with_suffix(".opt.ll").write_text(str(module))
        stem.with_suffix(".s").write_text(machine.emit_assembly(module))
    except OSError as error:
        raise InvalidArgumentError(
            "what is compiled cannot be written where the environment asks for it",
            expected="HEADRACE_DUMP=FOLDER, where this process may make files",
            got=f"HEADRACE_DUMP={folder}: {error.strerror}",
            hint="name another folder, or unset HEADRACE_DUMP",
        ) from error


def _give_memory_back() -> None:
    """Give the system what compiling has used: glibc would keep it, 1 to 10 MB, on top of what a step then needs."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def _cache_folder() -> Path | None:
    """Where compiled code is kept; HEADRACE_CACHE=off keeps none, and what is dumped is compiled each time."""
    chosen = os.environ.get("HEADRACE_CACHE")
    if chosen == "off" or dump_folder() is not None:
        return None
    if chosen:
        return Path(chosen) / "cpu"
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "headrace" / "cpu"


def _read(key: str) -> bytes | None:
    """The code of a key, or None if there is none or it is damaged."""
    folder = _cache_folder()
    if folder is None:
        return None
    try:
        content = (folder / key).read_bytes()
    except OSError:
        return None
    digest, code = content[len(MAGIC) : len(MAGIC) + 32], content[len(MAGIC) + 32 :]
    return code if content.startswith(MAGIC) and hashlib.sha256(code).digest() == digest else None


def _write(key: str, code: bytes) -> None:
    """Keep code; a rename makes it appear whole. Where nothing can be written it is compiled again next time."""
    folder = _cache_folder()
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            file.write(MAGIC + hashlib.sha256(code).digest() + code)
        os.replace(file.name, folder / key)
    except OSError:
        return


def _load_openmp() -> bool:
    """Make the pool of libgomp known to compiled code, the one that oneDNN uses; False if it is not installed."""
    try:
        library = ctypes.CDLL("libgomp.so.1", mode=ctypes.RTLD_GLOBAL)
    except OSError:
        return False
    for name in ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads", "omp_set_num_threads"):
        address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        llvm.add_symbol(name, address)
    return True


_host: Host | None = None
_making = threading.Lock()


def host() -> Host:
    """The one code generator of the process."""
    global _host
    with _making:
        if _host is None:
            _host = Host()
        return _host
