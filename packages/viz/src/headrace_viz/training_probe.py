"""What can be seen of a trainer besides its logs: learning rate, gradients, parameters and how time is spent."""

from __future__ import annotations

from typing import Any

import headrace as hr


class TrainingProbe:
    """Mutable: looks at one trainer; operations that it needs are added to the trainer's graph once.

    Args:
      trainer: one that has its graph.
    """

    def __init__(self, trainer: hr.Trainer) -> None:
        self.trainer = trainer
        self._norms: dict[str, hr.Tensor] | None = None
        self._rate: Any = None
        self._examples = 0
        self._input_seconds = 0.0
        self._step_seconds = 0.0

    @property
    def gradients(self) -> dict[str, hr.Tensor]:
        """The gradients by tag `gradient/<variable>`; of a sparse one the rows that it has."""
        return {f"gradient/{name}": _dense(gradient) for name, gradient in self.trainer.gradients.items()}

    @property
    def gradient_norms(self) -> dict[str, hr.Tensor]:
        """The Euclidean norms of the gradients by tag `gradient_norm/<variable>`, and `gradient_norm/all` of all."""
        if self._norms is None:
            with self.trainer.graph.as_default(), hr.name_scope("gradient_norms"):
                squares = {
                    name: hr.sum(hr.square(hr.astype(_dense(gradient), hr.float32)))
                    for name, gradient in self.trainer.gradients.items()
                }
                norms = {f"gradient_norm/{name}": hr.sqrt(square) for name, square in squares.items()}
                self._norms = {**norms, "gradient_norm/all": hr.sqrt(hr.add_n(list(squares.values())))}
        return self._norms

    def parameters(self) -> dict[str, Any]:
        """Copies of the values of the trained variables, by tag `parameter/<variable>`."""
        values = self.trainer.session.read_variables()
        return {f"parameter/{name}": values[name] for name in self.trainer.gradients}

    @property
    def rate_is_constant(self) -> bool:
        """Whether the learning rate is a number, rather than a schedule or a tensor."""
        return isinstance(self.trainer.optimizer.learning_rate, int | float)

    def learning_rate(self, step: int) -> float:
        """Return the learning rate of a step.

        Args:
          step: its number, from 1.
        """
        if self.rate_is_constant:
            return float(self.trainer.optimizer.learning_rate)
        if self._rate is None:
            with self.trainer.graph.as_default(), hr.name_scope("learning_rate"):
                number = hr.placeholder(hr.int64, [], name="step")
                rate = self.trainer.optimizer.rate(number, hr.float32)
            self._rate = self.trainer.session.make_callable(rate, [number])
        return float(self._rate(step))

    def count(self, examples: int, input_seconds: float, step_seconds: float) -> None:
        """Add what one step took."""
        self._examples += examples
        self._input_seconds += input_seconds
        self._step_seconds += step_seconds

    def take_throughput(self) -> dict[str, float]:
        """Return examples per second, and the share of waiting for input, of the steps since the last call."""
        seconds = self._input_seconds + self._step_seconds
        found = (
            {}
            if not seconds
            else {
                "examples_per_second": self._examples / seconds,
                "input_stall": self._input_seconds / seconds,
            }
        )
        self._examples, self._input_seconds, self._step_seconds = 0, 0.0, 0.0
        return found


def _dense(gradient: Any) -> hr.Tensor:
    return gradient.values if isinstance(gradient, hr.IndexedSlices) else gradient
