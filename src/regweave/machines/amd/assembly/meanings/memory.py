"""What memory instructions move: how many bytes, where in a register, and what atomic operations do.

    >>> all_accesses()["ds_read_i8_d16_hi"]
    Access(kind='load', size=1, count=1, signed=True, half=1, step=0, operation=None, dtype=None)
    >>> all_accesses()["ds_write2st64_b64"].step            # offsets count in 64 elements of 8 bytes
    512

Addresses and bounds are those of the unit (scalar, global, flat, buffer, LDS), not of the instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from regweave.machines.amd.assembly.meanings.floats import greatest, least
from regweave.values import frozen

Array = Any


@frozen
class Access:
    """One memory instruction.

    `kind` is "load", "store" or "atomic"; `count` elements of `size` bytes (1, 2, 4) each, those below a
    register extended by sign if `signed`. `half` is the half of the register that a 16-bit element lies in;
    None where it has the register to itself. `step` is the unit in bytes of the two offsets of an instruction
    that moves two elements. An atomic operation is a function (old, given, ...) -> new on arrays of `dtype`.
    """

    kind: str
    size: int
    count: int = 1
    signed: bool = False
    half: int | None = None
    step: int = 0
    operation: Callable[..., Array] | None = None
    dtype: Any = None

    @property
    def bytes(self) -> int:
        """Bytes of all elements; of each of the two, where there are two offsets."""
        total = self.size * self.count
        return total // 2 if self.step else total


def _narrow_loads(prefix: str, names: dict[str, tuple[int, bool]], half: int | None) -> Iterator[Any]:
    for name, (size, signed) in names.items():
        yield prefix + name, Access("load", size, signed=signed, half=half)


def _inc(old: Array, most: Array) -> Array:
    return np.where(old >= most, old.dtype.type(0), old + old.dtype.type(1))


def _dec(old: Array, most: Array) -> Array:
    return np.where((old == 0) | (old > most), most, old - old.dtype.type(1))


def _swap(old: Array, new: Array) -> Array:
    return new


def _compare_swap(old: Array, wanted: Array, new: Array) -> Array:
    return np.where(old == wanted, new, old)


def _add_bf16(old: Array, given: Array) -> Array:
    """Pairs of bf16 in 32-bit words, rounded to nearest even."""
    result = np.zeros_like(old)
    for shift in (np.uint32(0), np.uint32(16)):
        values = [(x >> shift << np.uint32(16)).view(np.float32) for x in (old, given)]
        total = (values[0] + values[1]).view(np.uint32)
        rounded = (total + np.uint32(0x7FFF) + (total >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)
        result |= np.where(np.isnan(total.view(np.float32)), np.uint32(0x7FC0), rounded) << shift
    return result


def _add_f16(old: Array, given: Array) -> Array:
    """Pairs of f16 in 32-bit words."""
    shape = (*old.shape, 2)
    pairs = [np.ascontiguousarray(x).view(np.float16).reshape(shape) for x in (old, given)]
    return (pairs[0] + pairs[1]).view(np.uint32)[..., 0]


_WORDS = {"add": np.add, "sub": np.subtract, "and": np.bitwise_and, "or": np.bitwise_or,
          "xor": np.bitwise_xor, "inc": _inc, "dec": _dec, "swap": _swap}  # fmt: skip
_SIGNED = {"smin": np.minimum, "smax": np.maximum}
_UNSIGNED = {"umin": np.minimum, "umax": np.maximum}


def _atomics() -> Iterator[tuple[str, Access]]:
    """By the name behind `global_atomic_` and its like."""
    for ending, count, word, signed in (("", 1, np.uint32, np.int32), ("_x2", 2, np.uint64, np.int64)):
        for table, dtype in ((_WORDS, word), (_SIGNED, signed), (_UNSIGNED, word)):
            for name, operation in table.items():
                yield name + ending, Access("atomic", 4, count, operation=operation, dtype=dtype)
        yield f"cmpswap{ending}", Access("atomic", 4, count, operation=_swapped(_compare_swap), dtype=word)
    yield "add_f32", Access("atomic", 4, operation=np.add, dtype=np.float32)
    yield "pk_add_f16", Access("atomic", 4, operation=_add_f16, dtype=np.uint32)
    yield "pk_add_bf16", Access("atomic", 4, operation=_add_bf16, dtype=np.uint32)
    for name, operation in (("add", np.add), ("min", least), ("max", greatest)):
        yield f"{name}_f64", Access("atomic", 4, 2, operation=operation, dtype=np.float64)


def _swapped(operation: Callable[..., Array]) -> Callable[..., Array]:
    """Memory's compare-and-swap has the new value before the one to compare with."""
    return lambda old, new, wanted: operation(old, wanted, new)


def _shared_atomics() -> Iterator[tuple[str, Access]]:
    """By the name behind `ds_`, without `rtn`."""
    kinds = {"u": (np.uint32, np.uint64), "i": (np.int32, np.int64), "b": (np.uint32, np.uint64),
             "f": (np.float32, np.float64)}  # fmt: skip
    whole = {
        "add": np.add,
        "sub": np.subtract,
        "inc": _inc,
        "dec": _dec,
        "min": np.minimum,
        "max": np.maximum,
    }
    tables = {
        "u": whole,
        "i": {"min": np.minimum, "max": np.maximum},
        "b": {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "wrxchg": _swap,
              "cmpst": _compare_swap},
        "f": {"add": np.add, "min": least, "max": greatest},
    }  # fmt: skip
    for letter, table in tables.items():
        for name, operation in table.items():
            for wide, dtype in enumerate(kinds[letter]):
                entry = Access("atomic", 4, 1 + wide, operation=operation, dtype=dtype)
                yield f"{name}_{letter}{32 << wide}", entry
                yield f"{name}_rtn_{letter}{32 << wide}", entry


@lru_cache
def all_accesses() -> dict[str, Access]:
    """The memory instructions by name; those that no machine has do no harm."""
    found: dict[str, Access] = {}
    narrow = {"ubyte": (1, False), "sbyte": (1, True), "ushort": (2, False), "sshort": (2, True)}
    octets = {"ubyte_d16": (1, False), "sbyte_d16": (1, True), "short_d16": (2, False)}
    short = {"u8": (1, False), "i8": (1, True), "u16": (2, False), "i16": (2, True)}
    for unit in ("global", "flat", "buffer"):
        for count, word in enumerate(("dword", "dwordx2", "dwordx3", "dwordx4"), 1):
            found[f"{unit}_load_{word}"] = Access("load", 4, count)
            found[f"{unit}_store_{word}"] = Access("store", 4, count)
        found |= _narrow_loads(f"{unit}_load_", narrow, None)
        found |= _narrow_loads(f"{unit}_load_", octets, 0)
        found |= _narrow_loads(f"{unit}_load_", {f"{k}_hi": v for k, v in octets.items()}, 1)
        for word, size in (("byte", 1), ("short", 2)):
            found[f"{unit}_store_{word}"] = Access("store", size)
            found[f"{unit}_store_{word}_d16_hi"] = Access("store", size, half=1)
        found |= {f"{unit}_atomic_{name}": entry for name, entry in _atomics()}
    found["global_load_lds_dword"] = Access("load", 4)
    found |= _narrow_loads("global_load_lds_", narrow, None)
    for count in (1, 2, 4, 8, 16):
        ending = f"x{count}" if count > 1 else ""
        found[f"s_load_dword{ending}"] = found[f"s_buffer_load_dword{ending}"] = Access("load", 4, count)
    for verb, kind in (("read", "load"), ("write", "store")):
        for count in (1, 2, 3, 4):
            found[f"ds_{verb}_b{32 * count}"] = Access(kind, 4, count)
        for bits in (32, 64):
            size = bits // 8
            found[f"ds_{verb}2_b{bits}"] = Access(kind, 4, bits // 16, step=size)
            found[f"ds_{verb}2st64_b{bits}"] = Access(kind, 4, bits // 16, step=64 * size)
    found |= _narrow_loads("ds_read_", short, None)
    found |= _narrow_loads("ds_read_", {f"{k}_d16": short[k] for k in ("u8", "i8", "u16")}, 0)
    found |= _narrow_loads("ds_read_", {f"{k}_d16_hi": short[k] for k in ("u8", "i8", "u16")}, 1)
    for word, size in (("b8", 1), ("b16", 2)):
        found[f"ds_write_{word}"] = Access("store", size)
        found[f"ds_write_{word}_d16_hi"] = Access("store", size, half=1)
    found |= {f"ds_{name}": entry for name, entry in _shared_atomics()}
    return found
