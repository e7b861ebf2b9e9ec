"""Kernels of the mutex family."""

from __future__ import annotations

import threading
import weakref

from headrace.errors import FailedPreconditionError
from headrace.interfaces import OpContext, StepControl
from headrace.kernels.registry import register_kernel

__all__: list[str] = []


class _Mutex:
    """A lock behind a handle. Mutable and thread-safe."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._condition = threading.Condition()
        self._holder: object | None = None

    def lock(self, step: StepControl) -> _Lock:
        """Wait until nobody holds it, and hold it."""
        with self._condition:
            step.wait(self._condition, lambda: self._holder is None, lambda: f"mutex '{self.name}' is held by a step")
            self._holder = token = object()
        return _Lock(self, token)

    def release(self, token: object) -> bool:
        """Let it go, if the token is that of its holder."""
        with self._condition:
            mine = self._holder is token
            if mine:
                self._holder = None
                self._condition.notify_all()
        return mine


class _Lock:
    """A lock that is held. When nothing refers to it any more, as after a step that failed, it is let go."""

    def __init__(self, mutex: _Mutex, token: object) -> None:
        self.mutex = mutex
        self._release = weakref.finalize(self, mutex.release, token)

    def consume(self) -> None:
        """Let it go; raises FailedPreconditionError the second time."""
        if not self._release():
            raise FailedPreconditionError(
                f"the lock of mutex '{self.mutex.name}' is let go already",
                expected="one ConsumeMutexLock for each MutexLock",
                got="a second one",
                hint="hr.CriticalSection pairs them",
            )


@register_kernel("MutexV2", binds_once=True)
def _mutex(op: OpContext) -> _Mutex:
    name = op.attr("shared_name") or op.name
    mutex: _Mutex = op.resources.lookup_or_create((_Mutex, op.attr("container"), name), lambda: _Mutex(name))
    return mutex


@register_kernel("MutexLock")
def _lock(op: OpContext, mutex: _Mutex) -> _Lock:
    return mutex.lock(op.step)


@register_kernel("ConsumeMutexLock")
def _consume(op: OpContext, lock: _Lock) -> None:
    lock.consume()
