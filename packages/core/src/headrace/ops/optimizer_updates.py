"""Optimiser updates as single operations on handles, TensorFlow's fused forms (paper, section 4.1).

`hr.optim` composes its updates of primitive operations; these types serve graphs that other programs wrote. Symbols in
the docstrings: `var` the variable, g its gradient, every product and root element by element.
"""

from __future__ import annotations

from headrace.errors import DTypeError, ShapeError
from headrace.graph import attr
from headrace.graph.attr import AttrSpec
from headrace.graph.op_def import InferenceContext, register_op
from headrace.types import Shape

__all__: list[str] = []

_LOCKING = {"use_locking": attr.bool(False)}
_NESTEROV = {"use_nesterov": attr.bool(False)}
_SLOTS = {"update_slots": attr.bool(True)}
_FTRL = {"multiply_linear_by_lr": attr.bool(False)}


def _state_shape(op: InferenceContext, handles: int) -> Shape:
    """The shape that the variable and its slots have in common; their dtype must be the stated one."""
    common = Shape()
    for index in range(handles):
        known = op.variable_spec(index)
        if known is None:
            continue
        if known.dtype is not op.attr("T"):
            raise DTypeError(
                "the variable has another dtype",
                expected=str(op.attr("T")),
                got=str(known.dtype),
                hint="hr.astype the gradient to the variable's dtype, and give every slot that dtype too",
            )
        if not common.is_compatible_with(known.shape):
            raise ShapeError(
                "a slot does not fit the variable",
                expected=str(common),
                got=str(known.shape),
                hint="let the slot start from hr.zeros_like of the variable",
            )
        common = common.merge(known.shape)
    return common


def _register(
    name: str, handles: str, inputs: str, doc: str, attrs: dict[str, AttrSpec], kinds: AttrSpec = attr.floating
) -> None:
    """Register an update of the variables `handles` from `inputs`: `grad`, `delta`, `indices`, and else scalars."""
    variables, values = handles.split(), inputs.split()
    sparse = "indices" in values

    def shape(op: InferenceContext) -> list[Shape]:
        state = _state_shape(op, len(variables))
        given = dict(zip(values, (spec.shape for spec in op.inputs[len(variables) :]), strict=True))
        rows = given["indices"].with_rank(1) if sparse else None
        if rows is not None and state.rank == 0:
            raise ShapeError(
                "a scalar variable has no rows",
                expected="rank >= 1",
                got=str(state),
                hint="update it with the op named ResourceApply..., which takes no indices",
            )
        for value, found in given.items():
            if value in ("grad", "delta"):
                wanted = state
                if rows is not None:
                    wanted = Shape() if state.dims is None else Shape((rows[0], *state.dims[1:]))
                if not wanted.is_compatible_with(found):
                    raise ShapeError(
                        "the gradient does not fit the variable",
                        expected=str(wanted),
                        got=str(found),
                        hint="give one row for each index" if sparse else "take it with hr.gradients(loss, variable)",
                    )
            elif value != "indices":
                found.with_rank(0)
        return []

    shape.__doc__ = doc
    types = {value: "Tindices" if value == "indices" else "T" for value in values}
    register_op(
        name,
        inputs={**dict.fromkeys(variables, "resource"), **types},
        attrs={"T": kinds, **({"Tindices": attr.type("int32", "int64")} if sparse else {}), **_LOCKING, **attrs},
        stateful=True,
    )(shape)


_WIDE = attr.floating_or_complex
_ROWS = "; for each row of g in order, on the row of that index"
_MOMENTUM = "accum <- momentum * accum + g; var <- var - lr * accum, or with use_nesterov - lr * (g + momentum * accum)"
_KERAS_MOMENTUM = (
    "accum <- momentum * accum - lr * g; var <- var + accum, or with use_nesterov + momentum * accum - lr * g"
)
_ADAGRAD = "accum <- accum + g²; var <- var - lr * g / sqrt(accum)"
_ADAGRAD_V2 = "accum <- accum + g²; var <- var - lr * g / (sqrt(accum) + epsilon)"
_ADADELTA = (
    "accum <- rho * accum + (1 - rho) * g²; d = g * sqrt(accum_update + epsilon) / sqrt(accum + epsilon); "
    "accum_update <- rho * accum_update + (1 - rho) * d²; var <- var - lr * d"
)
_RMSPROP = "ms <- rho * ms + (1 - rho) * g²; mom <- momentum * mom + lr * g / sqrt(ms + epsilon); var <- var - mom"
_CENTERED = (
    "As RMSProp with the variance ms - mg² in the place of ms, where mg <- rho * mg + (1 - rho) * g; a variance that "
    "rounding makes negative counts as 0"
)
_ADAM = (
    "m <- beta1 * m + (1 - beta1) * g; v <- beta2 * v + (1 - beta2) * g²; var <- var - lr * sqrt(1 - beta2_power) / "
    "(1 - beta1_power) * m / (sqrt(v) + epsilon), the paper's form with epsilon-hat; use_nesterov takes "
    "beta1 * m + (1 - beta1) * g in the place of m"
)
_ADA_MAX = (
    "m <- beta1 * m + (1 - beta1) * g; v <- max(beta2 * v, |g|); "
    "var <- var - lr / (1 - beta1_power) * m / (v + epsilon)"
)
_FTRL_DOC = (
    "n = accum + g²; linear <- linear + g - (n^-lr_power - accum^-lr_power) / lr * var; accum <- n; var <- "
    "(l1 * sign(linear) - linear) / (n^-lr_power / lr + 2 * l2) where |linear| > l1, else 0"
)
_SHRINKAGE = "; linear also gains 2 * l2_shrinkage * var"
_PROXIMAL = "d = lr; p = var - d * g; var <- sign(p) * max(|p| - d * l1, 0) / (1 + d * l2)"

for _type, _handles, _inputs, _doc, _attrs, _kinds in (
    ("GradientDescent", "var", "alpha delta", "var <- var - alpha * delta", {}, _WIDE),
    ("Momentum", "var accum", "lr grad momentum", _MOMENTUM, _NESTEROV, _WIDE),
    ("KerasMomentum", "var accum", "lr grad momentum", _KERAS_MOMENTUM, _NESTEROV, _WIDE),
    ("Adagrad", "var accum", "lr grad", _ADAGRAD, _SLOTS, attr.floating),
    ("AdagradV2", "var accum", "lr epsilon grad", _ADAGRAD_V2, _SLOTS, attr.floating),
    ("Adadelta", "var accum accum_update", "lr rho epsilon grad", _ADADELTA, {}, attr.floating),
    ("RMSProp", "var ms mom", "lr rho momentum epsilon grad", _RMSPROP, {}, attr.floating),
    ("CenteredRMSProp", "var mg ms mom", "lr rho momentum epsilon grad", _CENTERED, {}, attr.floating),
    ("Adam", "var m v", "beta1_power beta2_power lr beta1 beta2 epsilon grad", _ADAM, _NESTEROV, attr.floating),
    ("AdaMax", "var m v", "beta1_power lr beta1 beta2 epsilon grad", _ADA_MAX, {}, attr.floating),
    ("Ftrl", "var accum linear", "grad lr l1 l2 lr_power", _FTRL_DOC, _FTRL, attr.floating),
    ("FtrlV2", "var accum linear", "grad lr l1 l2 l2_shrinkage lr_power", _FTRL_DOC + _SHRINKAGE, _FTRL, attr.floating),
    ("ProximalGradientDescent", "var", "alpha l1 l2 delta", _PROXIMAL, {}, attr.floating),
    (
        "ProximalAdagrad",
        "var accum",
        "lr l1 l2 grad",
        _PROXIMAL + ", where d = lr / sqrt(accum + g²)",
        {},
        attr.floating,
    ),
):
    _register(f"ResourceApply{_type}", _handles, _inputs, _doc + ".", _attrs, _kinds)

for _type, _handles, _inputs, _doc, _attrs in (
    ("Momentum", "var accum", "lr grad indices momentum", _MOMENTUM, _NESTEROV),
    ("KerasMomentum", "var accum", "lr grad indices momentum", _KERAS_MOMENTUM, _NESTEROV),
    ("Adagrad", "var accum", "lr grad indices", _ADAGRAD, _SLOTS),
    ("AdagradV2", "var accum", "lr epsilon grad indices", _ADAGRAD_V2, _SLOTS),
    ("Adadelta", "var accum accum_update", "lr rho epsilon grad indices", _ADADELTA, {}),
    ("RMSProp", "var ms mom", "lr rho momentum epsilon grad indices", _RMSPROP, {}),
    ("Ftrl", "var accum linear", "grad indices lr l1 l2 lr_power", _FTRL_DOC, _FTRL),
    ("FtrlV2", "var accum linear", "grad indices lr l1 l2 l2_shrinkage lr_power", _FTRL_DOC + _SHRINKAGE, _FTRL),
    ("CenteredRMSProp", "var mg ms mom", "lr rho momentum epsilon grad indices", _CENTERED, {}),
    ("ProximalGradientDescent", "var", "alpha l1 l2 grad indices", _PROXIMAL, {}),
    ("ProximalAdagrad", "var accum", "lr l1 l2 grad indices", _PROXIMAL + ", where d = lr / sqrt(accum + g²)", {}),
):
    _register(f"ResourceSparseApply{_type}", _handles, _inputs, _doc + _ROWS + ".", _attrs)
