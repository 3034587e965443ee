"""From the word a person writes to the operator: "relu", "leaky_relu:0.1", "gelu_tanh", None.

    >>> activation("clip:0,6")
    Clip(low=0.0, high=6.0)

Parameters follow a colon, separated by commas, in the order of the operator's fields.
"""

from __future__ import annotations

from regweave.errors import InputError, nearest_names
from regweave.operators import elementwise as ew
from regweave.operators import smooth

_TYPES: tuple[type[ew.Elementwise], ...] = (
    ew.Relu,
    ew.LeakyRelu,
    ew.Clip,
    ew.HardSigmoid,
    ew.HardSwish,
    ew.AddScalar,
    ew.MulScalar,
    smooth.Sigmoid,
    smooth.Tanh,
    smooth.Silu,
)
_BY_NAME: dict[str, type[ew.Elementwise]] = {kind.name: kind for kind in _TYPES}
_FIXED: dict[str, ew.Elementwise] = {
    "relu6": ew.Clip(0.0, 6.0),
    "swish": smooth.Silu(),
    "gelu": smooth.Gelu("erf"),
    "gelu_erf": smooth.Gelu("erf"),
    "gelu_tanh": smooth.Gelu("tanh"),
}
ACTIVATION_NAMES: tuple[str, ...] = tuple(sorted([*_BY_NAME, *_FIXED]))


def activation(given: str | ew.Elementwise | None, where: str = "activation") -> ew.Elementwise | None:
    """The operator for a name, an operator as it is, or None for none ("none" and "identity" too).

    `where` is how errors name the argument. Errors: InputError for an unknown word, wrong parameters, or an
    operator that needs a second operand.
    """
    if given is None or isinstance(given, ew.Elementwise):
        if given is not None and given.operand != "none":
            raise InputError(
                f"{given} is not an activation",
                where=where,
                expected="an operator of one operand",
                fix="give a bias in biases= and a residual through operators.Chain",
            )
        return given
    if not isinstance(given, str):
        raise InputError(
            f"{given!r} is not an activation",
            where=where,
            expected="None, an operator like Relu(), or one of " + ", ".join(ACTIVATION_NAMES),
        )
    word, _, text = given.strip().lower().partition(":")
    if word in ("none", "identity") and not text:
        return None
    if word in _FIXED and not text:
        return _FIXED[word]
    if word not in _BY_NAME:
        known = word in _FIXED
        raise InputError(
            f"{word!r} takes no parameters" if known else f"unknown activation {word!r}",
            where=where,
            nearest=() if known else nearest_names(word, ACTIVATION_NAMES),
            expected=None if known else "one of " + ", ".join(ACTIVATION_NAMES),
        )
    try:
        return _BY_NAME[word](*map(float, text.split(",") if text else ()))
    except (TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"wrong parameters {text!r} for {word!r}", where=where, expected="numbers, separated by commas"
        ) from None
