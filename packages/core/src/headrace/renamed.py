"""Renamed: what those who come from TensorFlow look for by a name that this namespace does not have."""

from __future__ import annotations

__all__ = ["HERE", "where_it_is"]

HERE = {
    "GradientTape": "hr.gradients, in a graph or in @hr.function",
    "cast": "hr.astype",
    "get_variable": "hr.Variable under hr.name_scope, or a hr.layers.Module",
    "global_variables_initializer": "nothing: variables get their initial value on first use",
    "keras": "hr.layers, hr.optim and hr.Trainer",
    "losses": "hr.nn and hr.Trainer",
    "metrics": "hr.Trainer(..., metrics=[...])",
    "range": "hr.arange",
    "reduce_all": "hr.all",
    "reduce_any": "hr.any",
    "reduce_logsumexp": "hr.logsumexp",
    "reduce_max": "hr.max",
    "reduce_mean": "hr.mean",
    "reduce_min": "hr.min",
    "reduce_prod": "hr.prod",
    "reduce_std": "hr.std",
    "reduce_sum": "hr.sum",
    "reduce_variance": "hr.var",
    "saved_model": "headrace_checkpoint.save_model and headrace_checkpoint.load_model",
    "summary": "headrace_viz.EventWriter",
    "train": "hr.optim, hr.Trainer and headrace_checkpoint.Saver",
    "transpose": "hr.permute_dims",
    "variable_scope": "hr.name_scope, or a hr.layers.Module",
}
"""For each name of TensorFlow what does it here."""


def where_it_is(name: str) -> str:
    """What to say of a name that the namespace does not have.

    Args:
      name: the name.

    Example:
      >>> where_it_is("reduce_mean")
      "module 'headrace' has no attribute 'reduce_mean': what TensorFlow calls so is here hr.mean"
    """
    known = HERE.get(name)
    return f"module 'headrace' has no attribute '{name}'" + (
        f": what TensorFlow calls so is here {known}" if known else ""
    )
