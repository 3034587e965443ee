"""Write a program step by step; the same step on the same operands is written once.

    >>> b = ProgramBuilder("copy", 32, Array("source", "b32", 2), Array("destination", "b32", 2))
    >>> b.step("word", (), (1,)) is b.step("word", (), (1,))
    True

Numbering values like this removes common work (a predicate that all fragments of a tile share is set
once) and keeps the lane arithmetic apart from the words. A step inside a loop that needs nothing of the loop
is written before it, so index arithmetic is done once.

    >>> with b.loop(4, [total]) as loop:
    ...     loop.repeat([b.step("add", (loop.values[0], loop.index))])
    >>> loop.results
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from regweave.machines.gpu import MatrixInstruction
from regweave.programs.opcodes import OPCODES
from regweave.programs.program import NO_WORDS, Array, Carried, Item, Loop, Memory, Program, Step, Value, When
from regweave.programs.signatures import FIXED, signature
from regweave.programs.verifier import check_program

_EFFECTS = frozenset(name for name, opcode in OPCODES.items() if opcode.effect)
_WRITES = frozenset(name for name, opcode in OPCODES.items() if opcode.effect == "write")
# named tuples without the call of a function for each of thousands
_made = tuple.__new__
# result types that depend on nothing
_RESULTS = {name: opcode.results for name, opcode in OPCODES.items() if opcode.results in FIXED}


@dataclass
class LoopBody:
    """A loop while it is written: its `index`, the carried `values` inside it, its `results` after it."""

    index: Value
    values: tuple[Value, ...]
    following: tuple[Value, ...] | None = None
    results: tuple[Value, ...] = ()

    def repeat(self, values: Sequence[Value]) -> None:
        """What the body hands on, one value for each carried one."""
        self.following = tuple(values)


@dataclass
class _Scope:
    """A body while it is written."""

    items: list[Item] = field(default_factory=list)
    known: dict[tuple[object, ...], tuple[Value, ...]] = field(default_factory=dict)
    defined: set[int] = field(default_factory=set)


class ProgramBuilder:
    """Collects items; `finish` returns the verified program without the steps that nothing needs."""

    def __init__(
        self,
        name: str,
        lanes: int,
        source: Array = NO_WORDS,
        destination: Array = NO_WORDS,
        memories: Sequence[Memory] = (),
        instructions: Sequence[MatrixInstruction] = (),
        warps: int = 1,
    ) -> None:
        given = tuple(memories), tuple(instructions)
        self._frame = Program(name, lanes, source, destination, (), (), *given, warps)
        self._scopes = [_Scope()]
        self._constants: dict[int, Value] = {}
        # result types that depend on more than the opcode
        self._types: dict[tuple[str, str, tuple[int, ...]], tuple[str, ...]] = {}
        self._values = 0

    def step(
        self, opcode: str, operands: Sequence[Value] = (), numbers: Sequence[int] = (), symbol: str = ""
    ) -> Value:
        """The only value of this step, defined now unless an equal step already did."""
        (result,) = self.apply(opcode, operands, numbers, symbol)
        return result

    def apply(
        self, opcode: str, operands: Sequence[Value] = (), numbers: Sequence[int] = (), symbol: str = ""
    ) -> tuple[Value, ...]:
        """All values of this step, defined now unless an equal step already did."""
        operands, numbers = tuple(operands), tuple(numbers)
        scopes, pure = self._scopes, opcode not in _EFFECTS
        scope = scopes[-1]
        key = opcode, symbol, numbers, operands
        if pure:
            for outer in scopes:
                found = outer.known.get(key)
                if found is not None:
                    return found
            if len(scopes) > 1:
                scope = self._home(operands)
        types = _RESULTS.get(opcode)
        if types is None:
            form = opcode, symbol, numbers[:1]  # which tell how many words are moved
            types = self._types.get(form)
            if types is None:
                types = signature(Step(opcode, operands, numbers, (), symbol), self._frame)[1]
                self._types[form] = types
        if len(types) == 1 and scope is scopes[0]:  # as nearly all
            results: tuple[Value, ...] = (_made(Value, (self._values, types[0])),)
            self._values += 1
        else:
            results = tuple([self._value(each, scope) for each in types])
        scope.items.append(_made(Step, (opcode, operands, numbers, results, symbol)))
        if pure:
            scope.known[key] = results
        return results

    def constant(self, value: int) -> Value:
        """A 32-bit constant, the same in every lane."""
        value &= 0xFFFFFFFF
        found = self._constants.get(value)
        if found is None:
            found = self._constants[value] = self.step("constant", (), (value,))
        return found

    def word(self, index: int) -> Value:
        """Word `index` of the source, with the source's type."""
        return self.step("word", (), (index,))

    def load(self, memory: str, address: Value, size: int = 4, offset: int = 0) -> tuple[Value, ...]:
        """`size` bytes at `address` + `offset` of a memory, in as many words."""
        return self.apply(f"{self._space(memory)}_load", (address,), (size, offset), memory)

    def store(self, memory: str, address: Value, words: Sequence[Value], size: int, offset: int = 0) -> None:
        """`size` bytes to `address` + `offset` of a memory."""
        self.apply(f"{self._space(memory)}_store", (address, *words), (size, offset), memory)

    def barrier(self, scope: str = "warp") -> None:
        """Order the shared memory of the `warp` or of the `block`."""
        self.apply("barrier", (), (), scope)

    @contextmanager
    def loop(self, count: int, carried: Sequence[Value] = ()) -> Iterator[LoopBody]:
        """A loop of `count` times; what is written inside is its body, which must end with `repeat`."""
        scope = _Scope()
        inside = tuple(self._value(value.type, scope) for value in carried)
        body = LoopBody(self._value("b32", scope), inside)
        self._scopes.append(scope)
        yield body
        self._scopes.pop()
        following = () if body.following is None else body.following
        body.results = tuple(self._value(value.type, self._scopes[-1]) for value in carried)
        values = zip(carried, inside, following, body.results, strict=True)
        handed = tuple(Carried(*value) for value in values)
        self._scopes[-1].items.append(Loop(count, body.index, handed, tuple(scope.items)))

    @contextmanager
    def when(self, predicate: Value) -> Iterator[None]:
        """What is written inside is done by the lanes whose predicate holds."""
        self._scopes.append(_Scope())
        yield
        items = tuple(self._scopes.pop().items)
        self._scopes[-1].items.append(When(predicate, items))

    def finish(self, results: Sequence[Value] = ()) -> Program:
        """The program whose destination words are `results`."""
        needed = {value.number for value in results}
        steps = _needed(self._scopes[0].items, needed)
        return check_program(replace(self._frame, steps=steps, results=tuple(results)))

    def _value(self, kind: str, scope: _Scope) -> Value:
        value = _made(Value, (self._values, kind))
        self._values += 1
        if scope is not self._scopes[0]:  # which knows all that no other does
            scope.defined.add(value.number)
        return value

    def _home(self, operands: Sequence[Value]) -> _Scope:
        """The outermost body that knows all operands."""
        numbers = {operand.number for operand in operands}
        inner = (scope for scope in reversed(self._scopes) if scope.defined & numbers)
        return next(inner, self._scopes[0])

    def _space(self, memory: str) -> str:
        found = self._frame.memory(memory)
        assert found is not None, memory
        return found.space


def _needed(items: Sequence[Item], needed: set[int]) -> tuple[Item, ...]:
    """The items that change something or define what is `needed`, which grows by what they use."""
    kept: list[Item] = []
    for item in reversed(items):
        if isinstance(item, Step):
            opcode, operands, _, results, _ = item
            for number, _ in results:
                if number in needed:
                    break
            else:
                if opcode not in _WRITES:
                    continue
            kept.append(item)
            for number, _ in operands:
                needed.add(number)
        elif isinstance(item, When):
            body = _needed(item.body, needed)
            if body:
                kept.append(replace(item, body=body))
                needed.add(item.predicate.number)
        else:
            carried = item.carried
            if _changes(item) or not needed.isdisjoint(value.result.number for value in carried):
                needed.update(value.following.number for value in carried)
                kept.append(replace(item, body=_needed(item.body, needed)))
                needed.update(value.initial.number for value in carried)
    return tuple(reversed(kept))


def _changes(item: Item) -> bool:
    """Whether it changes a memory, or orders one."""
    if isinstance(item, Step):
        return item.opcode in _WRITES
    return any(_changes(inner) for inner in item.body)
