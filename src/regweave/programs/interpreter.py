"""Run a program on all lanes at once, in NumPy: the proof of every plan, and its emulator.

    >>> run_program(program, words)                             # [lanes, words] of a device function
    >>> run_program(kernel, memories={"a": a, "d": d})          # a kernel changes its memories

Several warps run in lockstep, but an access to shared memory that no barrier orders is an error
(`memories`), so a program that only works in lockstep does not pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from regweave.errors import InputError
from regweave.programs.batches import Batch, find_batches
from regweave.programs.fragments import multiply
from regweave.programs.memories import MATRIX_ROWS, ROW_BYTES, Access, MemoryState
from regweave.programs.opcodes import OPCODES
from regweave.programs.program import Item, Loop, Program, Step, Value, When

if TYPE_CHECKING:
    from numpy.typing import NDArray


def run_program(
    program: Program,
    words: NDArray[np.uint32] | None = None,
    memories: Mapping[str, NDArray[np.uint8]] | None = None,
    accesses: list[Access] | None = None,
    blocks: int | tuple[int, int, int] = 1,
) -> NDArray[np.uint32]:
    """`[threads, destination words]` of bit patterns from `[threads, source words]` of bit patterns.

    A thread is a lane of one of the program's warps; `blocks` of them run side by side, each with shared
    memory of its own, in a row or in a grid (x, y, z) whose x counts fastest.
    `memories` are the bytes of its global memories, which it changes; every access to
    shared memory is appended to `accesses`. Raises InputError if `words` or a memory has another shape or
    type, VerificationError if the program misuses a memory.
    """
    run = _Run(program, words, memories or {}, accesses, blocks)
    run.items(program.steps, np.ones(run.threads, dtype=np.bool_))
    results = [run.values[value.number] for value in program.results]
    return np.stack(results, axis=1) if results else np.empty((run.threads, 0), dtype=np.uint32)


class _Run:
    def __init__(
        self,
        program: Program,
        words: NDArray[np.uint32] | None,
        memories: Mapping[str, NDArray[np.uint8]],
        accesses: list[Access] | None,
        grid: int | tuple[int, int, int],
    ) -> None:
        self.program, self.accesses = program, accesses
        self.grid = grid if isinstance(grid, tuple) else (grid, 1, 1)
        blocks = self.grid[0] * self.grid[1] * self.grid[2]
        self.threads = program.lanes * program.warps * blocks
        self.batches: dict[int, list[Batch]] = {}
        shape = self.threads, program.source.words
        self.words = np.empty((self.threads, 0), dtype=np.uint32) if words is None else words
        if self.words.shape != shape or self.words.dtype != np.uint32:
            raise InputError(
                f"words of shape {self.words.shape} and type {self.words.dtype}",
                where=program.name,
                expected=f"{shape} of uint32",
            )
        for memory in program.memories:
            given = memories.get(memory.name)
            fits = given is not None and given.dtype == np.uint8 and given.shape[0] >= memory.bytes
            if memory.space == "global" and not fits:
                raise InputError(
                    f"memory {memory.name!r} is not given", where=program.name,
                    expected=f"at least {memory.bytes} bytes as uint8",
                )  # fmt: skip
        self.memories = {
            memory.name: MemoryState(memory, program, blocks, memories.get(memory.name))
            for memory in program.memories
        }
        self.values: dict[int, Any] = {}

    def items(self, items: tuple[Item, ...], active: NDArray[np.bool_]) -> None:
        for straight, group in groupby(items, key=lambda item: isinstance(item, Step)):
            if straight:
                self.steps([item for item in group if isinstance(item, Step)], active)
                continue
            for item in group:
                if isinstance(item, When):
                    self.items(item.body, active & self.values[item.predicate.number])
                elif isinstance(item, Loop):
                    self.loop(item, active)

    def loop(self, loop: Loop, active: NDArray[np.bool_]) -> None:
        handed = [self.values[value.initial.number] for value in loop.carried]
        for index in range(loop.count):
            self.values[loop.index.number] = np.full(self.threads, index, dtype=np.uint32)
            for value, words in zip(loop.carried, handed, strict=True):
                self.values[value.inside.number] = words
            self.items(loop.body, active)
            handed = [self.values[value.following.number] for value in loop.carried]
        for value, words in zip(loop.carried, handed, strict=True):
            self.values[value.result.number] = words

    def steps(self, steps: Sequence[Step], active: NDArray[np.bool_]) -> None:
        """Steps without structure, those of a batch at once."""
        if id(steps[0]) not in self.batches:
            self.batches[id(steps[0])] = find_batches(steps)
        for batch in self.batches[id(steps[0])]:
            if len(batch.steps) == 1 or not self.together(batch.steps, active):
                for step in batch.steps:
                    self.step(step, active)

    def together(self, steps: Sequence[Step], active: NDArray[np.bool_]) -> bool:
        """Take the steps of a batch at once; False if they must be taken one by one."""
        first, values = steps[0], self.values
        if first.opcode == "word":
            found = self.words.T[[step.numbers[0] for step in steps]]
            values.update((step.results[0].number, row) for step, row in zip(steps, found, strict=True))
            return True
        meaning, columns = (
            OPCODES[first.opcode].meaning,
            [*zip(*(step.operands for step in steps), strict=True)],
        )
        if meaning is None:
            if self.accesses is not None:
                return False
            words = [[values[value.number] for value in column] for column in columns]
            results = self.memories[first.symbol].take_all(steps, words, active)
            if results is None:
                return False
        else:
            if OPCODES[first.opcode].rows:
                operands = tuple(map(self.rows, columns))
            else:
                operands = tuple(np.concatenate([values[v.number] for v in column]) for column in columns)
            result = meaning(operands, first.numbers)
            results = result if isinstance(result, tuple) else (result,)
        for at, result in enumerate(results):
            shape = len(steps), self.threads
            rows = result.reshape(shape) if result.ndim == 1 else np.broadcast_to(result, shape)
            values.update((step.results[at].number, row) for step, row in zip(steps, rows, strict=True))
        return True

    def rows(self, column: Sequence[Value]) -> NDArray[Any]:
        """One row of words for each step, or one for all where they have it in common.

        Of constants one word stands for all threads.
        """
        if all(value is column[0] for value in column):
            return self.values[column[0].number][None]
        found = [self.values[value.number] for value in column]
        return np.stack([row[:1] for row in found] if all(row.strides == (0,) for row in found) else found)

    def step(self, step: Step, active: NDArray[np.bool_]) -> None:
        operands = tuple(self.values[operand.number] for operand in step.operands)
        meaning = OPCODES[step.opcode].meaning
        found = meaning(operands, step.numbers) if meaning else self.surroundings(step, operands, active)
        if len(step.results) == 1 and not isinstance(found, tuple):
            self.values[step.results[0].number] = found
        else:
            self.values.update(zip((result.number for result in step.results), found, strict=True))

    def surroundings(self, step: Step, operands: tuple[Any, ...], active: NDArray[np.bool_]) -> Any:
        """Steps that read or change what is around them."""
        if step.opcode == "word":
            return np.ascontiguousarray(self.words[:, step.numbers[0]])
        if step.opcode == "constant":
            return np.broadcast_to(np.uint32(step.numbers[0]), self.threads)
        if step.opcode in ("lane", "thread"):
            threads = np.arange(self.threads, dtype=np.uint32)
            together = self.program.lanes * (1 if step.opcode == "lane" else self.program.warps)
            return threads % np.uint32(together)
        if step.opcode == "block":
            numbers = np.arange(self.threads, dtype=np.uint32) // np.uint32(
                self.program.lanes * self.program.warps
            )
            x, y, _ = map(np.uint32, self.grid)
            return {"x": numbers % x, "y": numbers // x % y, "z": numbers // (x * y)}[step.symbol]
        if step.opcode == "matrix":
            instruction = self.program.instruction(step.symbol)
            assert instruction is not None
            return multiply(instruction, operands)
        if step.opcode == "pick":
            return self.pick(step, operands)
        if step.opcode == "barrier":
            for state in self.memories.values():
                state.order(step.symbol)
            return ()
        return self.access(step, operands, active)

    def pick(self, step: Step, operands: tuple[Any, ...]) -> NDArray[Any]:
        """Pieces of two vectors: a lane holds several if there are more places than lanes."""
        vectors = np.stack(operands).reshape(2, -1, self.program.lanes)
        pieces = vectors.view(f"u{4 * self.program.lanes // len(step.numbers)}")
        picked = np.concatenate([pieces[0], pieces[1]], axis=1)[:, list(step.numbers)]
        return np.ascontiguousarray(picked).view(np.uint32).ravel()

    def access(self, step: Step, operands: tuple[Any, ...], active: NDArray[np.bool_]) -> tuple[Any, ...]:
        state, store = self.memories[step.symbol], step.opcode.endswith("_store")
        if self.accesses is not None and state.memory.space == "shared":
            self.accesses.append(self.seen(step, operands[0], active, store=store))
        if step.opcode == "matrix_load":
            return state.load_matrices(step, operands[0])
        if step.opcode == "matrix_store":
            state.store_matrices(step, operands[0], operands[1:])
            return ()
        if store:
            state.store(step, operands[0], operands[1:], active)
            return ()
        return state.load(step, operands[0], active)

    def seen(self, step: Step, addresses: NDArray[Any], active: NDArray[np.bool_], *, store: bool) -> Access:
        """An access, as whoever counts bank conflicts wants to see it."""
        size, lanes = step.numbers[0], active
        if step.opcode.startswith("matrix_"):
            size, lanes = ROW_BYTES, np.arange(self.threads) % self.program.lanes < size * MATRIX_ROWS
        return Access(
            store, size, addresses[lanes].astype(np.int64) + step.numbers[-1], np.flatnonzero(lanes)
        )
