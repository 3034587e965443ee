"""A meaning: a function on NumPy arrays, and the types as which it takes an instruction's operands.

    family("v_*_{f32,f16}", "T T T", add=np.add)       two meanings: v_add_f32, v_add_f16

The types stand in the order of the operands in the table's row; behind `|` those of the registers that the
instruction touches without naming them. A function takes what the row reads or changes, in that order, and
returns what it writes or changes, in that order.

    ("v_addc_co_u32", "u32 mask u32 u32 mask", f)      f(a, b, carry) -> (sum, carry)
    ("s_and_saveexec_b64", "u64 u64 | scc u64", f)     f(a, exec) -> (old exec, scc, exec)

Types: `u32` `i32` `f32` and their like are one value per lane (or, of scalar operands, per wave); `b32` and
`b64` are bits that may be negated like floats; `mask` is a boolean per lane, `scc` one per wave. `2f16` are
the packed halves of a register, `4u8` its bytes, `2f32` a pair: arrays with one axis more, in front.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from regweave.errors import InputError
from regweave.values import frozen

TYPES = (
    "u32", "i32", "f32", "b32", "u16", "i16", "f16", "u64", "i64", "f64", "b64", "mask", "scc",
    "2f16", "2u16", "2i16", "4u8", "4i8", "8u4", "8i4", "2f32", "2b32", "mix",
)  # fmt: skip
_BRACES = re.compile(r"\{([^{}]*)\}")


@frozen(eq=False)
class Meaning:
    """What an instruction computes: `function` on operands of `types`, with `implied` ones behind them.

    `limited` is the function under `clamp`, for integers; floats are clamped to 0 .. 1 whoever made them.
    """

    types: tuple[str, ...]
    implied: tuple[str, ...]
    function: Callable[..., Any]
    limited: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        for word in (*self.types, *self.implied):
            if word not in TYPES:
                raise InputError(f"operand type {word!r} is unknown", expected=", ".join(TYPES))


def family(pattern: str, types: str, **functions: Any) -> dict[str, Meaning]:
    """The meanings of a family of instructions: `*` in `pattern` is each of the functions' names, {a,b} each
    of the types, `T` in `types`. A function may be a pair: plain, and under `clamp`."""
    found = {}
    braces = _BRACES.search(pattern)
    for key, function in functions.items():
        for chosen in braces[1].split(",") if braces else [""]:
            name = _BRACES.sub(chosen, pattern).replace("*", key.rstrip("_"))
            found[name] = meaning(types.replace("T", chosen), function)
    return found


def meaning(types: str, function: Any) -> Meaning:
    """One meaning; `function` may be a pair: plain, and under `clamp`."""
    explicit, _, implied = types.partition("|")
    plain, limited = function if isinstance(function, tuple) else (function, None)
    return Meaning(tuple(explicit.split()), tuple(implied.split()), plain, limited)
