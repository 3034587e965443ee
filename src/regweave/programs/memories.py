"""Memory as lanes see it, with the order that barriers make: the interpreter's half of shared memory.

All lanes step together in the interpreter, on a device only some do. So a program that lacks a barrier
would seem right here; to find it, every byte remembers who read and wrote it since the last barrier that
orders such accesses, and an access that is not ordered with another lane's is an error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from regweave.errors import VerificationError
from regweave.programs.marks import ALL, Marks
from regweave.programs.opcodes import OPCODES
from regweave.programs.program import Memory, Program, Step

if TYPE_CHECKING:
    from numpy.typing import NDArray

_RUBBISH = 0xA5
_WORD_BYTES, _WIDEST_CELL = 4, 8
# a matrix of 8 x 8 halves: rows of 16 bytes, one lane giving the address of each
MATRIX_ROWS, ROW_BYTES = 8, 16


@dataclass(frozen=True, eq=False)
class Access:
    """One step's access to shared memory: `addresses` in bytes, given by the threads `lanes`."""

    store: bool
    bytes: int
    addresses: NDArray[np.int64]
    lanes: NDArray[np.int64]


class MemoryState:
    """The bytes of one memory while `blocks` run a program, each with shared memory of its own."""

    def __init__(
        self, memory: Memory, program: Program, blocks: int, given: NDArray[np.uint8] | None, grain: int
    ) -> None:
        self.memory, self.lanes, self.blocks = memory, program.lanes, blocks
        # the memory of every block begins where the widest access may
        self.stride = -(-memory.bytes // ROW_BYTES) * ROW_BYTES
        size = self.stride * blocks if memory.space == "shared" else memory.bytes
        self.bytes = np.full(size, _RUBBISH, dtype=np.uint8) if given is None else given
        # bytes that are always touched together are one cell
        self.grain = grain
        self.cells = self.bytes.view(f"<u{self.grain}")
        threads = np.arange(program.lanes * program.warps * blocks)
        # where the memory of a thread's block begins
        self.starts = np.zeros_like(threads)
        if memory.space == "shared":
            self.starts = threads // (program.lanes * program.warps) * self.stride
        # who sees an access without a barrier: the lane itself; with one of the warp only: its warp
        self.names = {"warp": threads}
        if program.warps > 1:
            self.names["block"] = threads // program.lanes
        self.marks = {scope: Marks(len(self.cells)) for scope in self.names}
        # while all blocks do the same, marks are kept for the first one
        self.alike = True

    def order(self, scope: str) -> None:
        """A barrier: what came before is visible to all of the warp, or of the block."""
        levels = ("warp",) if scope == "warp" else tuple(self.names)
        for level in levels:
            self.marks[level].forget()
        self.alike |= len(levels) == len(self.names)

    def take_all(
        self,
        steps: Sequence[Step],
        columns: Sequence[NDArray[Any]],
        which: NDArray[np.int64],
        active: NDArray[np.bool_],
    ) -> tuple[NDArray[Any], ...] | None:
        """Loads or stores of one size at once: each column has rows of an operand, one may stand for all.

        The first has different addresses, of which each step takes that of row `which`.
        `[steps, threads]` words of loads. None, and nothing is done, where the order matters, blocks do not
        do the same, or something is wrong.
        """
        size, store = steps[0].numbers[0], steps[0].opcode == "shared_store"
        shape = len(steps), self.blocks, len(active) // self.blocks
        inside = slice(None) if bool(active.all()) else active[: shape[2]]
        if not self.alike or not all(map(self._same_in_blocks, (active[None], columns[0]))):
            return None
        offsets = np.asarray([step.numbers[-1] for step in steps], dtype=np.int64)
        addresses = columns[0][which, : shape[2]] + offsets[:, None]
        first = np.broadcast_to(addresses, (shape[0], shape[2]))[:, inside]
        if bool((first % size).any()) or int(first.max(initial=0)) + size > self.memory.bytes:
            return None
        at = self._cells(first.ravel(), size)
        who = {scope: np.tile(names[: shape[2]][inside], len(steps)) for scope, names in self.names.items()}
        if self._ordered(at, who, store=store) is not None:
            return None
        # all that one access moves at once, `[blocks, places]`
        moved, places = self.bytes.view(_moved_as(size)).reshape(self.blocks, -1), first // size
        if store:
            written = np.zeros(moved.shape[1], dtype=np.bool_)
            written[places] = True
            if int(np.count_nonzero(written)) < places.size:
                return None
        self._remember(at, who, store=store)
        if store:
            words = [np.broadcast_to(column, (shape[0], len(active))) for column in columns[1:]]
            given = _together(words, size).reshape(shape)[:, :, inside]
            moved[:, places] = given.swapaxes(0, 1)
            return ()
        found = np.empty((len(places), self.blocks, places.shape[1]), _held_as(size))
        for block in range(self.blocks):  # what one takes stays in a cache
            found[:, block] = moved[block].take(places)
        return self._words(found, inside, shape[2], size)

    def _same_in_blocks(self, rows: NDArray[Any]) -> bool:
        """Whether the threads of every block have what those of the first have."""
        if rows.shape[1] == 1 or self.blocks == 1:
            return True
        parts = rows.reshape(len(rows), self.blocks, -1)
        return bool((parts == parts[:, :1]).all())

    def load(
        self, step: Step, addresses: NDArray[Any], active: NDArray[np.bool_]
    ) -> tuple[NDArray[Any], ...]:
        """The words at each thread's address; zero in threads that take no part."""
        size, offset = step.numbers
        at = self._places(step, addresses[active], self.starts[active], size, offset)
        self._touch(step, at, {scope: names[active] for scope, names in self.names.items()}, store=False)
        found = np.ascontiguousarray(self.cells[at]).view(_moved_as(size)).reshape(1, 1, -1)
        return tuple(word.ravel() for word in self._words(found, active, len(active), size))

    def _words(
        self, moved: NDArray[Any], active: NDArray[np.bool_] | slice, threads: int, size: int
    ) -> tuple[NDArray[Any], ...]:
        """`[steps, threads]` words from what is moved to the active threads of `[steps, blocks]`."""
        steps, blocks = moved.shape[:2]
        wide = _held_as(size)
        if isinstance(active, slice):
            found = np.ascontiguousarray(moved, dtype=wide)
        else:
            found = np.zeros((steps, blocks, threads), dtype=wide)
            found[:, :, active] = moved
        if size <= _WORD_BYTES:
            return (found.reshape(steps, -1),)
        words = found.view("<u4").reshape(steps, blocks * threads, -1)
        return tuple(np.ascontiguousarray(words[..., at]) for at in range(words.shape[2]))

    def store(
        self, step: Step, addresses: NDArray[Any], words: tuple[NDArray[Any], ...], active: NDArray[np.bool_]
    ) -> None:
        """Put each thread's words at its address."""
        size, offset = step.numbers
        at = self._places(step, addresses[active], self.starts[active], size, offset)
        self._touch(step, at, {scope: names[active] for scope, names in self.names.items()}, store=True)
        self._write(step, at, _bytes_of(words)[active, :size])

    def load_matrices(self, step: Step, addresses: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """The word of each matrix that falls to each lane, from the rows whose addresses lanes give."""
        at = self._rows(step, addresses, store=False)
        halves = (
            self.cells[at].view(np.uint8).view("<u2").reshape(-1, step.numbers[0], MATRIX_ROWS, MATRIX_ROWS)
        )
        if step.numbers[1]:
            halves = halves.swapaxes(2, 3)
        words = np.ascontiguousarray(halves).view("<u4").reshape(len(halves), step.numbers[0], self.lanes)
        return tuple(np.ascontiguousarray(words[:, matrix].ravel()) for matrix in range(step.numbers[0]))

    def store_matrices(self, step: Step, addresses: NDArray[Any], words: tuple[NDArray[Any], ...]) -> None:
        """Put the words of all lanes into the rows whose addresses lanes give."""
        at = self._rows(step, addresses, store=True)
        stacked = np.stack([word.reshape(-1, self.lanes) for word in words], axis=1).astype("<u4")
        halves = stacked.view("<u2").reshape(-1, len(words), MATRIX_ROWS, MATRIX_ROWS)
        if step.numbers[1]:
            halves = halves.swapaxes(2, 3)
        self._write(step, at, np.ascontiguousarray(halves).view(np.uint8).reshape(len(at), ROW_BYTES))

    def _rows(self, step: Step, addresses: NDArray[Any], *, store: bool) -> NDArray[np.int64]:
        """`[rows, 16]` places of the rows of all warps' matrices: they are everybody's."""
        count, _, offset = step.numbers
        given = addresses.reshape(-1, self.lanes)[:, : count * MATRIX_ROWS]
        starts = self.starts.reshape(-1, self.lanes)[:, : given.shape[1]].ravel()
        at = self._places(step, given.ravel(), starts, ROW_BYTES, offset)
        who = {"warp": np.full(len(at), ALL), "block": np.repeat(np.arange(len(given)), given.shape[1])}
        self._touch(step, at, {scope: who[scope] for scope in self.names}, store=store)
        return at

    def _places(
        self, step: Step, addresses: NDArray[Any], starts: NDArray[np.int64], size: int, offset: int
    ) -> NDArray[np.int64]:
        """`[addresses, cells]` of the memories that begin at `starts`, aligned and inside."""
        first = addresses.astype(np.int64) + offset
        wrong = (first % size != 0) | (first + size > self.memory.bytes)
        if wrong.any():
            number = int(wrong.argmax())
            raise VerificationError(
                f"{size} bytes are moved at {int(first[number])}, the address of number {number}",
                where=str(step),
                expected=f"a multiple of {size} inside the {self.memory.bytes} bytes of {self.memory.name}",
            )
        return self._cells(first + starts, size)

    def _cells(self, first: NDArray[np.int64], size: int) -> NDArray[np.int64]:
        """The cells of `size` bytes from each of these on."""
        return (first // self.grain)[:, None] + np.arange(size // self.grain)

    def _in_cells(self, given: NDArray[np.uint8]) -> NDArray[Any]:
        return np.ascontiguousarray(given).view(self.cells.dtype)

    def _write(self, step: Step, at: NDArray[np.int64], given: NDArray[np.uint8]) -> None:
        cells = self._in_cells(given)
        self.cells[at] = cells
        if not np.array_equal(self.cells[at], cells):
            raise VerificationError(
                f"lanes write different words to one place of {self.memory.name}", where=str(step)
            )

    def _touch(self, step: Step, at: NDArray[np.int64], who: dict[str, NDArray[Any]], *, store: bool) -> None:
        """Check that what others did is ordered before this access to shared memory, and remember it."""
        if self.memory.space != "shared":
            return
        self._part()
        scope = self._ordered(at, who, store=store)
        if scope is not None:
            raise VerificationError(
                f"{self.memory.name} is touched by another lane without a barrier in between",
                where=str(step),
                fix=f"put a barrier of the {scope} before it",
            )
        self._remember(at, who, store=store)

    def _part(self) -> None:
        """Until all is ordered again, blocks may do different things."""
        if self.alike and self.blocks > 1:
            self.alike = False
            for scope, marks in self.marks.items():
                marks.spread(self.blocks, int(self.names[scope][-1] + 1) // self.blocks)

    def _ordered(self, at: NDArray[np.int64], who: dict[str, NDArray[Any]], *, store: bool) -> str | None:
        """The scope whose barrier is missing between what others did and this access; None if none is."""
        return next(
            (scope for scope, names in who.items() if self.marks[scope].hit(at, names, store=store)), None
        )

    def _remember(self, at: NDArray[np.int64], who: dict[str, NDArray[Any]], *, store: bool) -> None:
        for scope, names in who.items():
            self.marks[scope].add(at, names, store=store)


def grain_of(memory: Memory, program: Program) -> int:
    """Bytes of a cell: what all accesses, and the memory itself, are multiples of; 1 in global memory."""
    if memory.space == "global":
        return 1
    sizes = {memory.bytes, _WIDEST_CELL}
    for step, _ in program.walk():
        if step.symbol == memory.name and OPCODES[step.opcode].symbol == "shared":
            sizes.add(ROW_BYTES if len(step.numbers) == 3 else step.numbers[0])
    return math.gcd(*sizes)


def _moved_as(size: int) -> str:
    """The type of what one access of so many bytes moves."""
    return f"<u{size}" if size <= _WIDEST_CELL else f"V{size}"


def _held_as(size: int) -> str:
    """The type of what a thread holds of it, whole words."""
    return _moved_as(max(size, _WORD_BYTES))


def _together(words: Sequence[NDArray[Any]], size: int) -> NDArray[Any]:
    """What stores of so many bytes move, from rows of their words."""
    if size <= _WORD_BYTES:
        return words[0].astype(_moved_as(size), copy=False)
    return np.stack(words, axis=-1).astype("<u4", copy=False).view(_moved_as(size))[..., 0]


def _bytes_of(words: Sequence[NDArray[Any]]) -> NDArray[np.uint8]:
    """The bytes of words that lie one after the other, as the last axis."""
    given = np.stack(words, axis=-1) if len(words) > 1 else np.ascontiguousarray(words[0])[..., None]
    return given.astype("<u4", copy=False).view(np.uint8)
