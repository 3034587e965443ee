"""What launching a kernel takes, whoever runs it: a grid of workgroups, and arguments by name.

>>> check_arguments("scale", (("x", "pointer", 0), ("n", "u32", 8)), {"x": x, "n": 5}, ())
[('x', 0, array([...])), ('n', 8, b'\\x05\\x00\\x00\\x00')]
"""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from regweave.errors import InputError, nearest_names

_FORMS = {"u32": "<I", "i32": "<i", "f32": "<f", "u64": "<Q", "i64": "<q", "f64": "<d"}
_MOST = 1 << 31
_MOST_THREADS = 1024
#: Bytes of each kind of argument.
SIZES = {"pointer": 8} | {kind: struct.calcsize(form) for kind, form in _FORMS.items()}


def check_grid(grid: int | Sequence[int]) -> tuple[int, int, int]:
    """Workgroups along x, y, z. InputError if it is none."""
    return _extents(grid, "grid", "workgroups")


def _extents(given: Any, what: str, of: str) -> tuple[int, int, int]:
    numbers = tuple(given) if isinstance(given, (Sequence, np.ndarray)) else (given,)
    whole = all(isinstance(n, (int, np.integer)) and 1 <= n < _MOST for n in numbers)
    if not 1 <= len(numbers) <= 3 or not whole:
        raise InputError(f"a {what} of {given!r}", expected=f"1 to 3 numbers of {of}, each at least 1")
    x, y, z = (*map(int, numbers), 1, 1)[:3]
    return x, y, z


def check_workgroup(
    kernel: str, declared: tuple[int, int, int] | None, given: int | Sequence[int] | None
) -> tuple[int, int, int]:
    """Work-items of a workgroup along x, y, z. InputError if neither the kernel nor the call says it, or they
    differ."""
    if given is None and declared is None:
        raise InputError(f"kernel {kernel!r} does not say how large a workgroup is", fix="give workgroup=")
    threads = declared if given is None else _extents(given, "workgroup", "work-items")
    assert threads is not None, "one of the two was given"
    if declared is not None and threads != declared:
        raise InputError(
            f"a workgroup of {threads}", expected=f"{declared}, for which {kernel!r} was written"
        )
    if math.prod(threads) > _MOST_THREADS:
        raise InputError(f"a workgroup of {threads}", expected=f"at most {_MOST_THREADS} work-items")
    return threads


def check_arguments(
    kernel: str,
    declared: Sequence[tuple[str, str, int]],
    given: Mapping[str, Any],
    unwritten: Collection[str],
) -> list[tuple[str, int, Any]]:
    """(name, place, array or bytes) of each argument `(name, kind, place)` that a kernel declares.

    InputError for an argument that is missing, unknown or of another kind, for an array that is not
    contiguous or not writable, and for two arrays that share memory.
    """
    if not isinstance(given, Mapping):
        raise InputError(f"arguments {given!r}", expected="arrays and numbers by name")
    names = [name for name, _, _ in declared]
    for name in (*given, *unwritten):
        if name not in names:
            raise InputError(
                f"kernel {kernel!r} has no argument {name!r}",
                expected=", ".join(names) or "no arguments",
                nearest=nearest_names(name, names),
            )
    found: list[tuple[str, int, Any]] = []
    for name, kind, place in declared:
        if name not in given:
            raise InputError(f"argument {name!r} of kernel {kernel!r} is missing")
        value = given[name]
        if kind == "pointer":
            found.append((name, place, _array(name, value)))
        else:
            try:
                found.append((name, place, struct.pack(_FORMS[kind], value)))
            except (struct.error, TypeError, OverflowError):
                raise InputError(
                    f"argument {name!r} is {value!r}", expected=f"a number of kind {kind}"
                ) from None
    arrays = [(name, value) for name, _, value in found if isinstance(value, np.ndarray)]
    for at, (name, value) in enumerate(arrays):
        for other, earlier in arrays[:at]:
            if np.shares_memory(value, earlier):
                raise InputError(
                    f"arguments {other!r} and {name!r} share memory", fix="give each an array of its own"
                )
    return found


def _array(name: str, value: Any) -> np.ndarray:
    if not isinstance(value, np.ndarray):
        raise InputError(
            f"argument {name!r} is a {type(value).__name__}", expected="an array: it is a pointer"
        )
    own = not value.dtype.hasobject and value.dtype.isnative
    if not (value.flags.c_contiguous and value.flags.writeable and value.size and own):
        raise InputError(
            f"the array for {name!r} is not a contiguous, writable array of numbers with an element or more, "
            "in this machine's byte order"
        )
    return value
