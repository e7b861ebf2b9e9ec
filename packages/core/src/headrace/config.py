"""Options of a session or function, and of everything that is built or run inside a `with` block."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from dataclasses import dataclass, field, fields, replace
from typing import Any

from headrace.errors import InvalidArgumentError, known_names

__all__ = ["Config", "config", "current_config"]

MAX_VIRTUAL_DEVICES = 1024
"""More of one type than any machine has; the placer looks at each of them for each operation."""

DEFAULT_PASSES = ("raising", "inline", "batch_norm", "fold", "arithmetic", "pooling", "cse", "narrow")


@dataclass(frozen=True, slots=True)
class Config:
    """What may be chosen about building and running a graph. Immutable; also a context manager that makes it current.

    Attributes:
      passes: the graph passes to apply after pruning, in order: names of built-in ones or functions `Graph -> Graph`.
      backend: the name of the backend that compiles segments, or "auto" for the best one installed.
      strict_promotion: refuse to mix dtypes of different kinds where the array API standard leaves the result open.
      verify: check every graph between passes (slower; on in the tests).
      timeout: seconds a step may take when `run` is given none, or None for no limit.
      stall_timeout: seconds one operation may wait, e.g. for an element of a queue, before its step fails and says what
        is blocked. With None a wait fails after 5 seconds if no thread of this process runs that could end it, and goes
        on otherwise; `math.inf` lets it go on in any case. A wait of more than a minute is told to the log.
      virtual_devices: for a device type, the number of devices that it shows as: `{"CPU": 4}` lets one process stand
        for a machine of four.
      soft_placement: where no device satisfies what `hr.device` asks for, ask for less of it instead of failing.
      log_placement: write the device of each operation to the logger `headrace.placement`.
      threads: how many threads a step may use for one computation, or None for as many as the scheduler and the control
        group give to the process. It bounds every pool, that of NumPy's BLAS too; BLAS knows one number for the
        process, so where steps with different ones run at the same time, that of the one that began last holds.
      deterministic: give the same bits whatever the number of threads is, at a cost in speed.
      memory_limit: bytes that one step may need beside variables, feeds and constants, or None; copies of weights in
        other layouts count. A step that would need more, as far as shapes tell, is refused before it runs.
      recompute: where a step would need more than `memory_limit`, compute values of the forward pass again for the
        backward pass instead of keeping them, until it fits. Results are the same to the last bit.
      compile_wait: seconds that a step waits for machine code to be made for it, or None for as long as that takes.
        After that it runs by NumPy kernels, as do those that follow, while another thread compiles; then the code takes
        over. The two round differently, so with `deterministic` every step waits.
    """

    passes: tuple[str | Callable[..., Any], ...] = DEFAULT_PASSES
    backend: str = "auto"
    strict_promotion: bool = False
    verify: bool = False
    timeout: float | None = None
    stall_timeout: float | None = None
    virtual_devices: Mapping[str, int] = field(default_factory=dict)
    soft_placement: bool = False
    log_placement: bool = False
    threads: int | None = None
    deterministic: bool = False
    memory_limit: int | None = None
    recompute: bool = False
    compile_wait: float | None = None

    def __enter__(self) -> Config:
        _tokens.set((*_tokens.get(), _current.set(self)))
        return self

    def __exit__(self, *_: object) -> None:
        *rest, token = _tokens.get()
        _tokens.set(tuple(rest))
        _current.reset(token)


_current: ContextVar[Config] = ContextVar("headrace_config", default=Config())  # noqa: B039  # Config is immutable
_tokens: ContextVar[tuple[Token[Config], ...]] = ContextVar("headrace_config_tokens", default=())


def current_config() -> Config:
    """The options in force here."""
    return _current.get()


def _check_count(value: Any, message: str, hint: str) -> None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise InvalidArgumentError(message, expected="a whole number from 1 on, or None", got=repr(value), hint=hint)


def _check_seconds(value: Any) -> None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if value is not None and not (is_number and value >= 0):
        raise InvalidArgumentError(
            "a wait for machine code is a time",
            expected="seconds from 0 on, or None to wait as long as it takes",
            got=repr(value),
            hint="hr.config(compile_wait=1.0)",
        )


def config(**options: Any) -> Config:
    """The options in force here with some of them replaced.

    Args:
      **options: attributes of `Config`.
    Returns:
      The new options: pass them to a Session, or enter them with `with`.
    Raises:
      InvalidArgumentError: an option is not known.

    Example:
      >>> import headrace as hr
      >>> with hr.config(strict_promotion=True):
      ...     hr.config().strict_promotion
      True
    """
    known = [item.name for item in fields(Config)]
    for name in options:
        if name not in known:
            raise InvalidArgumentError(
                f"there is no option '{name}'",
                expected=known_names(name, known),
                got=name,
                hint="hr.config() shows every option with its value",
            )
    _check_count(options.get("threads"), "threads are counted", "hr.config(threads=2)")
    _check_count(options.get("memory_limit"), "memory is counted in bytes", "hr.config(memory_limit=2 << 30)")
    _check_seconds(options.get("compile_wait"))
    if "passes" in options:
        if isinstance(options["passes"], str):
            raise InvalidArgumentError(
                "passes are a sequence",
                expected="a list of names or of functions Graph -> Graph",
                got=repr(options["passes"]),
                hint="passes=['fold']",
            )
        options["passes"] = tuple(options["passes"])
    if "virtual_devices" in options:
        options["virtual_devices"] = _counts(options["virtual_devices"])
    return replace(current_config(), **options)


def _counts(given: Any) -> dict[str, int]:
    """The numbers of virtual devices by type, checked."""
    is_right = isinstance(given, Mapping) and all(
        isinstance(name, str) and name.isidentifier() and type(count) is int and 0 < count <= MAX_VIRTUAL_DEVICES
        for name, count in given.items()
    )
    if not is_right:
        raise InvalidArgumentError(
            "virtual_devices is wrong",
            expected=f"for device types the number of devices, 1 to {MAX_VIRTUAL_DEVICES}",
            got=repr(given),
            hint="virtual_devices={'CPU': 4}",
        )
    return {name.upper(): count for name, count in given.items()}
