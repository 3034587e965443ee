"""The steps a lane can take, each with its types, its meaning and the resource that it costs.

The meaning is a function on whole warps: operands are arrays with one entry per lane, words are
uint32 bit patterns (of f32 too), predicates are booleans. It is the definition; emission text in
`emitters/` and counts in plans are checked against it.

    >>> OPCODES["rotate_right"].meaning((np.uint32([1]), np.uint32([1])), ())
    array([2147483648], dtype=uint32)

`global_load`, `shared_store` and the like move 1 or 2 bytes in the low part of one word, or 4, 8 or 16 bytes
in 1, 2 or 4 words. `block` is the number of the block along an axis of the grid, x, y or z; `divide` takes
whole numbers, and none by zero; `multiply_add_f32` rounds once.

`barrier` orders the shared memory of a warp or of the block. `matrix` takes the registers
of A, B and C one after the other and defines those of D. `thread` is a lane's number within the block.

`matrix_load` reads matrices of 8 x 8 halves from rows of 16 bytes: lane 8 m + i gives the address of row i of
matrix m, and lane 4 g + t receives, as word m, halves 2 t and 2 t + 1 of row g (transposed: of column g).
`matrix_store` is the opposite.

`shuffle` with width w stays inside segments of w lanes: a lane takes from the lane of its own segment
whose number within it is the index modulo w. The moves between lanes that need no index (`transpose`,
`lane_swap`, `row_move`, `row_permute`, `half_swap`) are explained in `lane_moves`.

`bit_swap` lets the bits of `mask` in its second word change places with those `distance` further up in its
first one. It is written as its six operations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from regweave.programs import lane_moves
from regweave.programs.byte_permutes import byte_permute
from regweave.programs.narrowing import NARROWINGS, Narrowing, join_high, join_low

if TYPE_CHECKING:
    from numpy.typing import NDArray

Meaning = Callable[[tuple[Any, ...], tuple[int, ...]], Any]


@dataclass(frozen=True)
class Opcode:
    """A kind of step: operand types, result types, resource, meaning, names of its numbers.

    Types are those of values; `any` is the type of the source's words, `words` stands for as many b32 as
    the number `bytes` says, `matrices` for as many as its own number says, and `A` to `D` for the registers
    of a matrix instruction's operand. `resource` is a field of the machine's step costs, or `free` for what
    needs no instruction; a step takes `instructions` of it. The meaning gives one array, or a tuple of them
    where there are several results.
    Steps without a meaning are known to the interpreter, for they read or change its surroundings. `symbol`
    says what a step names: a `global` or `shared` memory, an `instruction`, a `scope` (`warp` or `block`),
    or an `axis` of the grid (`x`, `y`, `z`).

    All lanes must take a `collective` step together. An `effect` on the surroundings is `read` (must stay
    where it is, but may be left out) or `write` (must stay).
    """

    name: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    resource: str
    meaning: Meaning | None
    numbers: tuple[str, ...] = ()
    symbol: str = ""
    collective: bool = False
    effect: str = ""
    instructions: int = 1

    @property
    def rows(self) -> bool:
        """Whether its meaning holds for rows of words as well, the threads being the last axis."""
        return self.meaning is not None and (not self.collective or self.name == "shuffle")

    def takes(self, count: int) -> bool:
        """Whether a step can have so many numbers: the last may stand for one or more (`place...`)."""
        more = count > len(self.numbers) > 0 and self.numbers[-1].endswith("...")
        return count == len(self.numbers) or more


def _shift_amount(amount: NDArray[Any]) -> NDArray[Any]:
    return (amount & np.uint32(31)).astype(np.uint32)


def _rotate_right(word: NDArray[Any], amount: NDArray[Any]) -> NDArray[Any]:
    by = _shift_amount(amount)
    return (word >> by) | (word << _shift_amount(np.uint32(32) - by))


def _shuffle(word: NDArray[Any], index: NDArray[Any], width: int) -> NDArray[Any]:
    lanes = np.arange(word.shape[-1])
    at = lanes - lanes % width + index % np.uint32(width)
    if at.ndim == 1 or len(at) == 1:
        return word.take(at.ravel(), axis=-1)
    return np.take_along_axis(word, at, axis=-1)


def _row_move(words: tuple[Any, ...], numbers: tuple[int, ...]) -> NDArray[Any]:
    return words[0][lane_moves.row_move_peers(numbers[0], words[0].size)]


def _row_permute(words: tuple[Any, ...], numbers: tuple[int, ...]) -> NDArray[Any]:
    low, high, cross = numbers
    return words[0][lane_moves.row_permute_peers(low, high, cross, words[0].size)]


def _packed(kind: Narrowing) -> Meaning:
    return lambda v, n: kind.pack(*v)


def _bit_swap(words: tuple[Any, ...], numbers: tuple[int, ...]) -> tuple[NDArray[Any], NDArray[Any]]:
    (low, high), (distance, mask) = words, map(np.uint32, numbers)
    changed = (low >> distance) ^ high
    changed &= mask
    return low ^ (changed << distance), high ^ changed


def _float(function: Callable[..., Any], words: tuple[Any, ...]) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        return function(*(word.view(np.float32) for word in words)).view(np.uint32)


def _multiply_add(one: NDArray[Any], other: NDArray[Any], third: NDArray[Any]) -> NDArray[Any]:
    """The product is exact in 53 bits, so that only the sum is rounded (twice, which is seldom seen)."""
    with np.errstate(all="ignore"):
        first, second, added = (word.view(np.float32).astype(np.float64) for word in (one, other, third))
        return (first * second + added).astype(np.float32).view(np.uint32)


def _widened(word: NDArray[Any]) -> NDArray[Any]:
    """The low half of a word as a float."""
    with np.errstate(invalid="ignore"):
        return word.astype(np.uint16).view(np.float16).astype(np.float32).view(np.uint32)


_TWO = ("b32", "b32")
_FLOATS = ("f32", "f32")
# 1, 2, 4, 8 or 16 bytes at the operand's value plus a known number of bytes, counted from the memory's start
_ACCESS = ("bytes", "offset")
# 1, 2 or 4 matrices, transposed or not (1 or 0), at the operand's value plus a known number of bytes
_MATRICES = ("matrices", "transposed", "offset")

OPCODES = {
    entry.name: entry
    for entry in (
        Opcode("lane", (), ("b32",), "logic", None),
        Opcode("word", (), ("any",), "free", None, ("index",)),
        Opcode("constant", (), ("b32",), "free", None, ("value",)),
        Opcode("bits", ("f32",), ("b32",), "free", lambda v, n: v[0]),
        Opcode("number", ("b32",), ("f32",), "free", lambda v, n: v[0]),
        Opcode("and", _TWO, ("b32",), "logic", lambda v, n: v[0] & v[1]),
        Opcode("or", _TWO, ("b32",), "logic", lambda v, n: v[0] | v[1]),
        Opcode("xor", _TWO, ("b32",), "logic", lambda v, n: v[0] ^ v[1]),
        Opcode("add", _TWO, ("b32",), "logic", lambda v, n: v[0] + v[1]),
        Opcode("multiply", _TWO, ("b32",), "logic", lambda v, n: v[0] * v[1]),
        Opcode("subtract", _TWO, ("b32",), "logic", lambda v, n: v[0] - v[1]),
        Opcode("shift_left", _TWO, ("b32",), "logic", lambda v, n: v[0] << _shift_amount(v[1])),
        Opcode("shift_right", _TWO, ("b32",), "logic", lambda v, n: v[0] >> _shift_amount(v[1])),
        Opcode("rotate_right", _TWO, ("b32",), "logic", lambda v, n: _rotate_right(v[0], v[1])),
        Opcode("bit_swap", _TWO, _TWO, "logic", _bit_swap, ("distance", "mask"), instructions=6),
        Opcode(
            "test", ("b32",), ("predicate",), "test", lambda v, n: (v[0] & np.uint32(n[0])) != 0, ("mask",)
        ),
        Opcode("select", ("predicate", *_TWO), ("b32",), "select", lambda v, n: np.where(v[0], v[1], v[2])),
        Opcode(
            "shuffle",
            _TWO,
            ("b32",),
            "shuffle",
            lambda v, n: _shuffle(v[0], v[1], n[0]),
            ("width",),
            collective=True,
        ),
        *(
            Opcode(name, words, words, "shuffle", meaning, numbers, collective=True)
            for name, words, meaning, numbers in (
                ("transpose", ("b32",), lambda v, n: lane_moves.transpose(*v), ()),
                ("lane_swap", _TWO, lambda v, n: lane_moves.lane_swap(*v, *n), ("bit",)),
                ("row_move", ("b32",), _row_move, ("control",)),
                ("row_permute", ("b32",), _row_permute, ("low", "high", "cross")),
                ("half_swap", ("b32",), lambda v, n: v[0][np.arange(v[0].size) ^ 32], ()),
            )
        ),
        *(
            Opcode(
                name,
                (kind.taken, kind.taken, "b32") if kind.merges else (kind.taken, kind.taken),
                ("b32",),
                "convert",
                _packed(kind),
            )
            for name, kind in NARROWINGS.items()
        ),
        Opcode("pack_low", _TWO, ("b32",), "permute", lambda v, n: join_low(*v)),
        Opcode("pack_high", _TWO, ("b32",), "permute", lambda v, n: join_high(*v)),
        Opcode("pick", _TWO, ("b32",), "shuffle", None, ("place...",), collective=True),
        Opcode("byte_permute", ("b32", *_TWO), ("b32",), "permute", lambda v, n: byte_permute(*v)),
        Opcode("less", _TWO, ("predicate",), "test", lambda v, n: v[0] < v[1]),
        Opcode("add_f32", _FLOATS, ("f32",), "arithmetic", lambda v, n: _float(np.add, v)),
        Opcode("maximum_f32", _FLOATS, ("f32",), "arithmetic", lambda v, n: _float(np.fmax, v)),
        Opcode("multiply_add_f32", ("f32", *_FLOATS), ("f32",), "arithmetic", lambda v, n: _multiply_add(*v)),
        Opcode("widen_f16", ("b32",), ("f32",), "arithmetic", lambda v, n: _widened(v[0])),
        Opcode("divide", _TWO, ("b32",), "arithmetic", lambda v, n: v[0] // np.maximum(v[1], np.uint32(1))),
        Opcode("block", (), ("b32",), "logic", None, (), "axis"),
        Opcode("thread", (), ("b32",), "logic", None),
        Opcode("global_load", ("b32",), ("words",), "global_load", None, _ACCESS, "global", effect="read"),
        Opcode("global_store", ("b32", "words"), (), "global_store", None, _ACCESS, "global", effect="write"),
        Opcode("shared_load", ("b32",), ("words",), "shared_load", None, _ACCESS, "shared", effect="read"),
        Opcode("shared_store", ("b32", "words"), (), "shared_store", None, _ACCESS, "shared", effect="write"),
        Opcode(
            "matrix_load", ("b32",), ("matrices",), "shared_load", None, _MATRICES, "shared", True, "read"
        ),
        Opcode(
            "matrix_store", ("b32", "matrices"), (), "shared_store", None, _MATRICES, "shared", True, "write"
        ),
        Opcode("barrier", (), (), "barrier", None, (), "scope", collective=True, effect="write"),
        Opcode("matrix", ("A", "B", "C"), ("D",), "matrix", None, (), "instruction", collective=True),
    )
}
