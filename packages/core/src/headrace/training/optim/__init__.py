"""Optimisers, learning-rate schedules and gradient clipping (`hr.optim`)."""

from headrace.training.optim import schedules
from headrace.training.optim.adaptive import Adadelta, Adagrad, Adam, AdamW, RMSProp
from headrace.training.optim.clipping import clip_by_global_norm, clip_by_norm, clip_by_value, global_norm
from headrace.training.optim.gradient_descent import SGD, Momentum
from headrace.training.optim.lbfgs import LBFGS
from headrace.training.optim.optimizer import Optimizer, add_repeated_rows

__all__ = [
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Momentum",
    "Optimizer",
    "RMSProp",
    "add_repeated_rows",
    "clip_by_global_norm",
    "clip_by_norm",
    "clip_by_value",
    "global_norm",
    "schedules",
]
