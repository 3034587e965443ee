"""Memory as lanes see it, with the order that barriers make: the interpreter's half of shared memory.

All lanes step together in the interpreter, on a device only some do. So a program that lacks a barrier
would seem right here; to find it, every byte remembers who read and wrote it since the last barrier that
orders such accesses, and an access that is not ordered with another lane's is an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from regweave.errors import VerificationError
from regweave.programs.program import Memory, Step

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NOBODY, _SEVERAL = -1, -2
_RUBBISH = 0xA5


@dataclass(frozen=True, eq=False)
class Access:
    """One step's access to shared memory: `addresses[thread]` in bytes, of those threads that take part."""

    store: bool
    bytes: int
    addresses: NDArray[np.int64]
    lanes: NDArray[np.int64]


class MemoryState:
    """The bytes of one memory while a program runs."""

    def __init__(self, memory: Memory, threads: int, lanes: int, given: NDArray[np.uint8] | None) -> None:
        self.memory = memory
        self.bytes = np.full(memory.bytes, _RUBBISH, dtype=np.uint8) if given is None else given
        # who can see an access without a barrier: the lane itself, and, of another warp's, the warp
        self.names = {"warp": np.arange(threads), "block": np.arange(threads) // lanes}
        self.readers = {scope: np.full(memory.bytes, _NOBODY) for scope in self.names}
        self.writers = {scope: np.full(memory.bytes, _NOBODY) for scope in self.names}

    def order(self, scope: str) -> None:
        """A barrier: what came before is visible to all of the warp, or of the block."""
        for level in ("warp",) if scope == "warp" else ("warp", "block"):
            self.readers[level][:] = _NOBODY
            self.writers[level][:] = _NOBODY

    def load(
        self, step: Step, addresses: NDArray[Any], active: NDArray[np.bool_]
    ) -> tuple[NDArray[Any], ...]:
        """The words at each thread's address; zero in threads that take no part."""
        size = step.numbers[0]
        at = self._places(step, addresses, active)
        if self.memory.space == "shared":
            self._ordered(step, at, active, self.writers)
            self._mark(at, active, self.readers)
        found = np.zeros((len(active), max(4, size)), dtype=np.uint8)
        found[active, :size] = self.bytes[at]
        return tuple(np.ascontiguousarray(word) for word in found.view("<u4").T.astype(np.uint32))

    def store(
        self, step: Step, addresses: NDArray[Any], words: tuple[NDArray[Any], ...], active: NDArray[np.bool_]
    ) -> None:
        """Put each thread's words at its address."""
        size = step.numbers[0]
        at = self._places(step, addresses, active)
        if self.memory.space == "shared":
            self._ordered(step, at, active, self.writers, self.readers)
            self._mark(at, active, self.writers)
        given = np.ascontiguousarray(np.stack(words, axis=1).astype("<u4")).view(np.uint8)[active, :size]
        self.bytes[at] = given
        if not np.array_equal(self.bytes[at], given):
            raise VerificationError(
                f"lanes write different words to one place of {self.memory.name}", where=str(step)
            )

    def _places(self, step: Step, addresses: NDArray[Any], active: NDArray[np.bool_]) -> NDArray[np.int64]:
        size, offset = step.numbers
        first = addresses[active].astype(np.int64) + offset
        wrong = (first % size != 0) | (first + size > self.memory.bytes)
        if wrong.any():
            thread = int(np.flatnonzero(active)[wrong.argmax()])
            raise VerificationError(
                f"lane {thread} moves {size} bytes at {int(first[wrong.argmax()])}",
                where=str(step),
                expected=f"a multiple of {size} inside the {self.memory.bytes} bytes of {self.memory.name}",
            )
        return first[:, None] + np.arange(size)

    def _ordered(
        self, step: Step, at: NDArray[Any], active: NDArray[np.bool_], *others: dict[str, NDArray[Any]]
    ) -> None:
        for marks in others:
            for scope, names in self.names.items():
                found = marks[scope][at]
                if np.any((found != _NOBODY) & (found != names[active][:, None])):
                    raise VerificationError(
                        f"{self.memory.name} is touched by another lane without a barrier in between",
                        where=str(step),
                        fix=f"put a barrier of the {scope} before it",
                    )

    def _mark(self, at: NDArray[Any], active: NDArray[np.bool_], marks: dict[str, NDArray[Any]]) -> None:
        for scope, names in self.names.items():
            mine = np.broadcast_to(names[active][:, None], at.shape)
            before = marks[scope][at]
            marks[scope][at] = np.where((before == _NOBODY) | (before == mine), mine, _SEVERAL)
            marks[scope][at[marks[scope][at] != mine]] = _SEVERAL
