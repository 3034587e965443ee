"""Run a program on all lanes at once, in NumPy: the proof of every plan, and its emulator.

    >>> run_program(program, words)                             # [lanes, words] of a device function
    >>> run_program(kernel, memories={"a": a, "d": d})          # a kernel changes its memories

Several warps run in lockstep, but an access to shared memory that no barrier orders is an error
(`memories`), so a program that only works in lockstep does not pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from regweave.errors import InputError
from regweave.programs.batches import ACCESSES, find_batches
from regweave.programs.fragments import multiply
from regweave.programs.memories import MATRIX_ROWS, ROW_BYTES, Access, MemoryState, grain_of
from regweave.programs.opcodes import OPCODES
from regweave.programs.places import Column, Places, take
from regweave.programs.program import Item, Loop, Program, Step, Value, When

if TYPE_CHECKING:
    from numpy.typing import NDArray

# words of all steps that are held at once, about: more leave the caches
_HELD_WORDS = 1 << 22


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
    grid = blocks if isinstance(blocks, tuple) else (blocks, 1, 1)
    count, threads = grid[0] * grid[1] * grid[2], program.lanes * program.warps
    given = _checked(program, words, memories or {}, count * threads)
    prepared = _Prepared(program)
    # blocks without memories have nothing in common; what they do to memories is found out once for all
    most = count if program.memories else max(_HELD_WORDS // (threads * len(program.steps) + 1), 1)
    size = max(-(-count // -(-count // most)), 1) if count else 1
    results = np.empty((count * threads, len(program.results)), dtype=np.uint32)
    for first in range(0, count, size):
        some = range(first, min(first + size, count))
        part = slice(first * threads, some.stop * threads)
        run = _Run(prepared, given[part], memories or {}, accesses, grid, some)
        run.items(program.steps, np.ones(run.threads, dtype=np.bool_))
        if program.results:
            results[part] = run.rows(prepared.results).T
    return results


def _checked(
    program: Program,
    words: NDArray[np.uint32] | None,
    memories: Mapping[str, NDArray[np.uint8]],
    threads: int,
) -> NDArray[np.uint32]:
    """The words of all threads, if they and the memories are as the program wants them."""
    shape = threads, program.source.words
    given = np.empty((threads, 0), dtype=np.uint32) if words is None else words
    if given.shape != shape or given.dtype != np.uint32:
        raise InputError(
            f"words of shape {given.shape} and type {given.dtype}",
            where=program.name,
            expected=f"{shape} of uint32",
        )
    for memory in program.memories:
        held = memories.get(memory.name)
        fits = held is not None and held.dtype == np.uint8 and held.shape[0] >= memory.bytes
        if memory.space == "global" and not fits:
            raise InputError(
                f"memory {memory.name!r} is not given", where=program.name,
                expected=f"at least {memory.bytes} bytes as uint8",
            )  # fmt: skip
    return given


class _Ready(NamedTuple):
    """Steps that are taken at once, where their operands are, and the tables of their results.

    Of accesses the first column has every address once, and `which` of its rows is each step's. Nothing needs
    the tables `last` after them.
    """

    steps: list[Step]
    columns: tuple[Column, ...]
    tables: tuple[int, ...]
    which: NDArray[np.int64]
    last: tuple[int, ...] = ()


class _Prepared:
    """What all runs of a program have in common."""

    def __init__(self, program: Program) -> None:
        self.program, self.places = program, Places()
        self.grains = {memory.name: grain_of(memory, program) for memory in program.memories}
        self._sections: dict[int, list[Loop | When | list[Step]]] = {}
        self._batches: dict[int, list[_Ready]] = {}

    def sections(self, items: tuple[Item, ...]) -> list[Loop | When | list[Step]]:
        """The items of a body, steps without structure together."""
        found = self._sections.get(id(items))
        if found is None:
            found = self._sections[id(items)] = []
            for item in items:
                if not isinstance(item, Step):
                    found.append(item)
                elif found and isinstance(found[-1], list):
                    found[-1].append(item)
                else:
                    found.append([item])
        return found

    def batches(self, steps: list[Step]) -> list[_Ready]:
        """A section's steps in batches; values from outside must be known."""
        if id(steps) not in self._batches:
            found = [self._ready(batch.steps) for batch in find_batches(steps)]
            # what other bodies need is not known here
            alone = len(self.sections(self.program.steps)) == 1
            self._batches[id(steps)] = self._with_last(found) if alone else found
        return self._batches[id(steps)]

    def _with_last(self, batches: list[_Ready]) -> list[_Ready]:
        """The batches, each with the tables that it is the last to need: others take their room."""
        needed = {table for _, table, _ in self.results.parts} if self.program.results else set[int]()
        marked: list[_Ready] = []
        for batch in reversed(batches):
            used = {table for column in batch.columns for _, table, _ in column.parts}
            used.update(batch.tables)
            marked.append(batch._replace(last=tuple(used - needed)))
            needed |= used
        return marked[::-1]

    @cached_property
    def results(self) -> Column:
        """Where the program's results are, once all else is known."""
        return self.places.column(self.program.results)

    def _ready(self, steps: list[Step]) -> _Ready:
        columns = [*zip(*[step.operands for step in steps], strict=True)]
        found: list[Column] = []
        which = np.zeros(0, dtype=np.int64)
        if steps[0].opcode in ACCESSES:  # hundreds take the same few addresses
            rows: dict[Value, int] = {}
            which = np.array([rows.setdefault(address, len(rows)) for address in columns.pop(0)])
            found.append(self.places.column(tuple(rows)))
        before = len(found)
        for number, column in enumerate(columns):
            known = (at for at in range(number) if all(map(is_, column, columns[at])))
            at = next(known, None)
            found.append(self.places.column(column) if at is None else found[before + at])
        defined = zip(*[step.results for step in steps], strict=True)
        return _Ready(steps, tuple(found), tuple(self.places.define(values) for values in defined), which)


class _Run:
    """One run of some `blocks` of the grid."""

    def __init__(
        self,
        prepared: _Prepared,
        words: NDArray[np.uint32],
        memories: Mapping[str, NDArray[np.uint8]],
        accesses: list[Access] | None,
        grid: tuple[int, int, int],
        blocks: range,
    ) -> None:
        self.prepared, self.program, self.words = prepared, prepared.program, words
        self.grid, self.blocks, self.accesses = grid, blocks, accesses
        self.threads = len(words)
        self.memories = {
            memory.name: MemoryState(
                memory, self.program, len(blocks), memories.get(memory.name), prepared.grains[memory.name]
            )
            for memory in self.program.memories
        }
        # rows of the values: `[rows, threads]`, or one word for all threads
        self.tables: list[NDArray[Any] | None] = []

    def items(self, items: tuple[Item, ...], active: NDArray[np.bool_]) -> None:
        for item in self.prepared.sections(items):
            if isinstance(item, When):
                self.items(item.body, active & self.value(item.predicate))
            elif isinstance(item, Loop):
                self.loop(item, active)
            else:
                self.steps(item, active)

    def loop(self, loop: Loop, active: NDArray[np.bool_]) -> None:
        handed = [self.value(value.initial) for value in loop.carried]
        for index in range(loop.count):
            self.define([loop.index], np.full((1, 1), index, dtype=np.uint32))
            for value, words in zip(loop.carried, handed, strict=True):
                self.define([value.inside], words[None])
            self.items(loop.body, active)
            handed = [self.value(value.following) for value in loop.carried]
        for value, words in zip(loop.carried, handed, strict=True):
            self.define([value.result], words[None])

    def steps(self, steps: list[Step], active: NDArray[np.bool_]) -> None:
        """Steps without structure, those of a batch at once."""
        for batch in self.prepared.batches(steps):
            found = self.together(batch, active)
            if found is None:
                alone = [self.step(step, active) for step in batch.steps]
                found = tuple(np.stack(words) for words in zip(*alone, strict=True))
            for table, rows in zip(batch.tables, found, strict=True):
                every = len(batch.steps), rows.shape[1]
                self.put(table, rows if len(rows) == len(batch.steps) else np.broadcast_to(rows, every))
            for table in batch.last:
                self.tables[table] = None

    def together(self, batch: _Ready, active: NDArray[np.bool_]) -> tuple[NDArray[Any], ...] | None:
        """Rows of the results of a batch's steps; None if they must be taken one by one."""
        steps, first = batch.steps, batch.steps[0]
        opcode = OPCODES[first.opcode]
        if first.opcode in ("word", "constant"):
            numbers = [step.numbers[0] for step in steps]
            constant = first.opcode == "constant"
            return (np.array(numbers, np.uint32)[:, None] if constant else self.words.T[numbers],)
        if opcode.meaning is None:
            if self.accesses is not None or first.opcode not in ACCESSES:
                return None
            return self.memories[first.symbol].take_all(steps, self.columns(batch), batch.which, active)
        shape = len(steps), self.threads
        operands = self.columns(batch)
        if opcode.collective:
            operands = [np.broadcast_to(words, (len(words), self.threads)) for words in operands]
        if not opcode.rows:
            operands = [np.broadcast_to(words, shape).ravel() for words in operands]
        result = opcode.meaning(tuple(operands), first.numbers)
        results = result if isinstance(result, tuple) else (result,)
        return results if opcode.rows else tuple(words.reshape(shape) for words in results)

    def columns(self, batch: _Ready) -> list[NDArray[Any]]:
        """The rows of each operand, one row or one word a row where it stands for all."""
        found: list[NDArray[Any]] = []
        for number, column in enumerate(batch.columns):
            known = (at for at in range(number) if batch.columns[at] is column)
            at = next(known, None)
            found.append(self.rows(column) if at is None else found[at])
        return found

    def rows(self, column: Column) -> NDArray[Any]:
        """The rows of a column."""
        return take(column, self.tables)

    def value(self, value: Value) -> NDArray[Any]:
        """A value in all threads."""
        table, row = self.prepared.places.of[value.number]
        words = self.tables[table]
        assert words is not None, value
        return words[row] if words.shape[1] == self.threads else np.broadcast_to(words[row], self.threads)

    def define(self, values: Sequence[Value], rows: NDArray[Any]) -> None:
        """The rows of values that no step defines."""
        self.put(self.prepared.places.define(values), rows)

    def put(self, table: int, rows: NDArray[Any]) -> None:
        """The rows of a table."""
        self.tables += [None] * (table + 1 - len(self.tables))
        self.tables[table] = rows

    def step(self, step: Step, active: NDArray[np.bool_]) -> tuple[NDArray[Any], ...]:
        """The results of a step that reads or changes what is around it."""
        found = self.surroundings(step, tuple(map(self.value, step.operands)), active)
        return found if isinstance(found, tuple) else (found,)

    def surroundings(self, step: Step, operands: tuple[Any, ...], active: NDArray[np.bool_]) -> Any:
        """Steps that read or change what is around them."""
        if step.opcode in ("lane", "thread"):
            threads = np.arange(self.threads, dtype=np.uint32)
            together = self.program.lanes * (1 if step.opcode == "lane" else self.program.warps)
            return threads % np.uint32(together)
        if step.opcode == "block":
            threads = self.threads // len(self.blocks)
            numbers = np.repeat(np.array(self.blocks, dtype=np.uint32), threads)
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
