"""The sequence of a product of blocks: load, stage, multiply, store. One text for GPUs and for CPUs.

    load   the blocks of two matrices, from memory to registers; zeros beyond their edges
    stage  them where they are read many times: LDS on a GPU, packed panels in cache on a CPU
    multiply what is staged, a piece at a time, while the next blocks are loaded and staged beside it
    store  the result, without what lies beyond the matrix

What a machine does for each of these steps is a `BlockSteps`; when it does them is said by its `Schedule`.
Worked example, two buffers and a block multiplied in four pieces, A's next block loaded before piece 0 and
staged behind piece 1, B's before piece 2 and behind piece 3:

    load A, B; stage A, B in buffer 0; publish
    again:  load A  multiply 0.0  multiply 0.1  stage A in 1
            load B  multiply 0.2  multiply 0.3  stage B in 1
            done? publish
            the same with the buffers exchanged
            go to again
    store

Loading in two halves needs half the registers for what is under way; where there are enough, both are loaded
before piece 0. With one buffer a block is staged where the multiplied one was: that is for one thread alone.
"""

from __future__ import annotations

from typing import Protocol

from regweave.errors import InputError
from regweave.values import frozen

OPERANDS = ("A", "B")


@frozen
class Schedule:
    """When what is done: `buffers` for staged blocks, `pieces` in which a block is multiplied; the operand's
    next block is loaded before piece `load[operand]` and staged behind piece `stage[operand]`."""

    buffers: int
    pieces: int
    load: tuple[int, int]
    stage: tuple[int, int]

    def __post_init__(self) -> None:
        places = (*self.load, *self.stage)
        in_order = all(first <= last for first, last in zip(self.load, self.stage, strict=True))
        if self.buffers not in (1, 2) or not in_order or not all(0 <= p < self.pieces for p in places):
            raise InputError(f"{self} cannot be kept", expected="loads before stages, inside the pieces")
        if self.buffers == 1 and any(place < self.pieces - 1 for place in self.stage):
            raise InputError(f"{self} overwrites what is multiplied", expected="two buffers, or late stages")


class BlockSteps(Protocol):
    """What one machine does for each step. All methods emit code."""

    @property
    def schedule(self) -> Schedule:
        """When loads and stages happen."""
        ...

    def enter(self) -> None:
        """Find this part's place in the matrices; empty accumulators."""
        ...

    def load(self, operand: str, buffer: int | None) -> None:
        """Load the operand's next block; `buffer` is the one being multiplied, None before the loop."""
        ...

    def stage(self, operand: str, buffer: int) -> None:
        """Put what was loaded into a buffer."""
        ...

    def publish(self) -> None:
        """All who work together see the same staged blocks."""
        ...

    def open_loop(self) -> None:
        """Blocks follow, again and again."""
        ...

    def next_block(self, buffer: int) -> None:
        """The block in `buffer` is multiplied next, and one block fewer is left."""
        ...

    def multiply(self, buffer: int, piece: int) -> None:
        """Multiply one piece of a staged block, and add."""
        ...

    def leave_if_done(self) -> None:
        """Go to the end of the loop if no block is left."""
        ...

    def close_loop(self) -> None:
        """Back to the loop's head; behind it is its end."""
        ...

    def store(self) -> None:
        """Write the result."""
        ...


def write_product(steps: BlockSteps) -> None:
    """Emit the whole sequence."""
    schedule = steps.schedule
    steps.enter()
    for operand in OPERANDS:
        steps.load(operand, None)
    for operand in OPERANDS:
        steps.stage(operand, 0)
    steps.publish()
    steps.open_loop()
    for buffer in range(schedule.buffers):
        steps.next_block(buffer)
        for piece in range(schedule.pieces):
            for operand, at in zip(OPERANDS, schedule.load, strict=True):
                if at == piece:
                    steps.load(operand, buffer)
            steps.multiply(buffer, piece)
            for operand, at in zip(OPERANDS, schedule.stage, strict=True):
                if at == piece:
                    steps.stage(operand, (buffer + 1) % schedule.buffers)
        steps.leave_if_done()
        steps.publish()
    steps.close_loop()
    steps.store()
