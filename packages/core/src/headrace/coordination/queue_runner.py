"""QueueRunner: threads that keep a queue filled."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headrace.coordination.coordinator import Coordinator
from headrace.coordination.queue import Queue
from headrace.errors import CancelledError, EndOfDataError, InvalidArgumentError
from headrace.graph.operation import Operation
from headrace.kernels import queues as kernels
from headrace.ops.queues import QUEUE_TYPES

if TYPE_CHECKING:
    from headrace.session import Session

__all__ = ["QueueRunner"]


class QueueRunner:
    """Runs enqueue operations again and again, each in a thread of its own, until its data ends or it has to stop.

    When the last of its threads has come to the end of its data, the queue is closed. When one fails, the queue is
    closed because of that error, so that whoever waits for elements gets an error that is caused by it, and the
    coordinator is asked to stop. When the coordinator stops, the queue is closed and steps that wait for room end.

    Args:
      queue: the queue to fill, or the operation that makes it, as in a graph that was read from a file.
      enqueue_ops: the operations to run, or their names; one that is given twice is run by two threads.
      name: what its threads are named after; the queue's name by default.
    Raises:
      InvalidArgumentError: there is no operation to run, or what is to be filled is no queue.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     queue = hr.FIFOQueue(2, hr.float32, shapes=[[]])
      ...     fill, batch = queue.enqueue(hr.random.uniform([], seed=1)), queue.dequeue_many(3)
      >>> with hr.Session(graph) as session, hr.Coordinator() as coordinator:
      ...     _ = hr.QueueRunner(queue, [fill] * 2).start(session, coordinator)
      ...     print(session.run(batch).shape)
      (3,)
    """

    def __init__(
        self, queue: Queue | Operation, enqueue_ops: Sequence[Operation | str], *, name: str | None = None
    ) -> None:
        self.queue = queue.handle.op if isinstance(queue, Queue) else queue
        if isinstance(enqueue_ops, Operation | str) or not enqueue_ops:
            raise InvalidArgumentError(
                "a queue runner needs operations to run",
                expected="a list of operations or their names, one for each thread",
                got=str(enqueue_ops),
                hint="hr.QueueRunner(queue, [queue.enqueue(x)] * 2)",
            )
        self.enqueue_ops = tuple(enqueue_ops)
        self.name = name or queue.name
        if self.queue.type not in QUEUE_TYPES:
            raise InvalidArgumentError(
                "a queue runner fills a queue",
                where=self.queue.location,
                expected="a queue, or the operation that makes one",
                got=f"an operation of type {self.queue.type}",
                hint="take the first input of the enqueue operation: operation.inputs[0].op",
            )

    def start(self, session: Session, coordinator: Coordinator) -> list[threading.Thread]:
        """Start the threads.

        Args:
          session: runs the operations.
          coordinator: stops the threads, and hears of their errors.
        Returns:
          One thread for each operation.
        """
        run = _Run(kernels.queue_behind(self.queue, session.resources), coordinator, len(self.enqueue_ops))
        steps = [session.make_callable(op) for op in self.enqueue_ops]
        coordinator.on_stop(run.queue.close_now)
        return [
            coordinator.start(run.produce, step, name=f"{self.name}/{position}") for position, step in enumerate(steps)
        ]


class _Run:
    """One start of a runner: its threads share how many of them are at work. Mutable and thread-safe."""

    def __init__(self, queue: kernels.Queue, coordinator: Coordinator, count: int) -> None:
        self.queue = queue
        self._coordinator = coordinator
        self._working = count
        self._lock = threading.Lock()

    def produce(self, step: Callable[[], object]) -> None:
        """Run a step until its data ends, it fails, or the coordinator stops."""
        name = f"thread '{threading.current_thread().name}'"
        self.queue.note_producer(name, "running")
        try:
            while not self._coordinator.should_stop():
                step()
        except EndOfDataError:
            pass
        except CancelledError:
            if not (self.queue.is_closed or self._coordinator.should_stop()):
                self.queue.note_producer(name, "cancelled")
                raise
        except BaseException as error:
            self.queue.note_producer(name, f"failed with {type(error).__name__}")
            self.queue.close_now(error)
            raise
        self.queue.note_producer(name, "ended")
        with self._lock:
            self._working -= 1
            is_last = not self._working
        if is_last:
            self.queue.close_in_turn()
