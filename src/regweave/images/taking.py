"""What callers give: whole numbers, matrices, arrays to write to; taken, or an error that says what is wrong.

>>> whole_number(np.int64(3), "stride")
3
>>> whole_number(1.5, "stride")
InputError: a stride of 1.5; expected a whole number of 1 or more
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from regweave.errors import InputError


def whole_number(value: Any, where: str) -> int:
    """A number of 1 or more of any integer type; InputError for anything else."""
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if number < 1:
        raise InputError(f"a {where} of {value!r}", where=where, expected="a whole number of 1 or more")
    return int(number)


def real_matrix(values: Any, where: str) -> np.ndarray:
    """Real numbers as an array of f32; InputError for ragged, complex and other things, and for numbers that
    f32 does not hold."""
    try:
        found = np.asarray(values)
        if found.dtype.kind not in "fiub":
            raise ValueError(f"elements of type {found.dtype}")
    except ValueError as error:
        raise InputError(f"no matrix: {error}", where=where, expected="an array of real numbers") from None
    with np.errstate(over="ignore"):
        single = found.astype(np.float32)
    if (np.isinf(single) & np.isfinite(found)).any():
        raise InputError("elements that f32 does not hold", where=where, expected="at most 3.4e38")
    return single


def check_out(out: Any, shape: Sequence[int], dtype: np.dtype, image: np.ndarray) -> None:
    """InputError unless `out` is an array of that shape and type that can be written, apart from `image`."""
    if not isinstance(out, np.ndarray) or out.shape != tuple(shape) or out.dtype != dtype:
        kind = getattr(out, "dtype", type(out).__name__)
        raise InputError(
            f"out has the shape {list(np.shape(out))} and type {kind}",
            where="out",
            expected=f"an array {list(shape)} of {dtype}",
        )
    if not out.flags.writeable:
        raise InputError("out cannot be written to", where="out", expected="an array of its own")
    if np.may_share_memory(out, image):
        raise InputError("out lies in the image's memory", where="out", expected="an array of its own")
