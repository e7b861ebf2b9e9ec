"""Validated requests, and threads that compute their outputs."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from headrace.errors import HeadraceError, InternalError
from headrace_serving.model import Array, Signature

Outputs = Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Work:
    """Inputs that a signature takes, and what else tells when and with which others it may be called.

    Attributes:
      signature: what is to be called.
      inputs: tensors by alias.
      priority: 1 is the highest; 0 stands for the default, which is the lowest.
      deadline: on the executor's clock, in seconds; None for none.
    """

    signature: Signature
    inputs: dict[str, Array]
    priority: int = 0
    deadline: float | None = None


class Executor(Protocol):
    """Computes the outputs of works on threads of its own."""

    def submit(self, work: Work) -> Future[Outputs]:
        """Take in a work; a future that is cancelled before its work has begun takes it out again.

        Raises:
          HeadraceError: there is no room for it, or it comes too late.
        """
        ...

    def close(self) -> None:
        """Finish what was taken in, then end the threads."""
        ...


class ThreadExecutor:
    """Calls signatures with each work by itself.

    Args:
      threads: how many may be computed at once.
    """

    def __init__(self, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="headrace-serving")

    def submit(self, work: Work) -> Future[Outputs]:
        """Take in a work."""
        return self._threads.submit(call_signature, work.signature, work.inputs)

    def close(self) -> None:
        """Finish what was taken in, then end the threads."""
        self._threads.shutdown()


def call_signature(signature: Signature, inputs: Mapping[str, Array]) -> Outputs:
    """Return a signature's outputs.

    Raises:
      InternalError: the model failed with an error that is not about its inputs.
      HeadraceError: the model's own.
    """
    try:
        return signature(**inputs)
    except HeadraceError:
        raise
    except Exception as error:
        raise InternalError(
            "the model failed",
            expected="an answer, or an error that tells what is wrong with the inputs",
            got=f"{type(error).__name__}: {error}",
            hint="please report it with the model",
        ) from error
