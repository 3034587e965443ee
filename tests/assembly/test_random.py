"""Random programs with loops, branches and local routines, run natively and on a small interpreter.

Vectors carry 32-bit integers, general registers the conditions. More variables than registers exist, so that
reuse is certain; whatever is emitted must compute the same as the interpreter, and must pass the proof."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regweave.assembly import Builder, prove
from regweave.devices import cpu
from regweave.errors import RegisterError
from regweave.machines.x86 import AVX2, AVX512, supports

VECTORS, GENERALS, BASE = 40, 8, 3
OPERATIONS = {
    "add_int": lambda a, b: (a + b) & 0xFFFFFFFF,
    "sub_int": lambda a, b: (a - b) & 0xFFFFFFFF,
    "xor": lambda a, b: a ^ b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
}
CONDITIONS = {"less": lambda a, b: a < b, "equal": lambda a, b: a == b, "greater_equal": lambda a, b: a >= b}
numbers = st.integers(0, 10**6)

simple = st.one_of(
    st.tuples(st.just("set"), numbers, st.integers(0, 2**32 - 1)),
    st.tuples(st.just("op"), st.sampled_from(sorted(OPERATIONS)), numbers, numbers, numbers),
    st.tuples(st.just("move"), numbers, numbers),
    st.tuples(st.just("count"), numbers, numbers, st.integers(-5, 5)),
    st.tuples(st.just("call"), numbers),
)
statements = st.recursive(
    st.lists(simple, min_size=1, max_size=12),
    lambda inner: st.lists(
        st.one_of(
            simple,
            st.tuples(st.just("if"), st.sampled_from(sorted(CONDITIONS)), numbers, numbers, inner, inner),
            st.tuples(st.just("loop"), st.integers(1, 3), inner),
        ),
        min_size=1,
        max_size=8,
    ),
    max_leaves=8,
)
routines = st.lists(st.lists(simple, min_size=1, max_size=6), min_size=1, max_size=3)


class Twin:
    """Emits a program and builds a closure that interprets it. Reads are redirected to what is defined."""

    def __init__(self, machine: Any, program: list[Any], bodies: list[list[Any]]) -> None:
        self.b = Builder(machine, name="random", arguments=("out",))
        self.vectors = self.b.vectors("v", VECTORS)
        self.generals = [self.b.general(f"g{i}") for i in range(GENERALS)]
        self.labels = 0
        self.bodies = bodies
        self.defined, self.counted = set(range(BASE)), {0}
        steps = [self.one(("set", i, i * 77 + 1)) for i in range(BASE)]
        steps.append(self.one(("count", 0, None, 2)))
        self.routine_writes = [self._writes(body) for body in bodies]
        steps.append(self.block(program))
        self.results = sorted(self.defined)[:4]
        for place, v in enumerate(self.results):
            self.b.emit("store", self.b.at("out", 64 * place), self.vectors[v])
        self.b.emit("return")
        self.routines = []
        for number, body in enumerate(bodies):
            self.b.label(f"routine{number}")
            self.defined, self.counted = set(range(BASE)), {0}
            self.routines.append(self.block([s for s in body if s[0] != "call"]))
            self.b.emit("ret")
        self.steps = steps

    def _writes(self, body: list[Any]) -> set[int]:
        return {s[2 if s[0] == "op" else 1] % VECTORS for s in body if s[0] in ("set", "op", "move")}

    def read(self, number: int) -> int:
        choices = sorted(self.defined)
        return choices[number % len(choices)]

    def counter(self, number: int) -> int:
        choices = sorted(self.counted)
        return choices[number % len(choices)]

    def fresh(self) -> str:
        self.labels += 1
        return f"label{self.labels}"

    def block(self, body: list[Any]) -> Any:
        steps = [self.one(statement) for statement in body]

        def run(v: dict[int, int], g: dict[int, int]) -> None:
            for step in steps:
                step(v, g)

        return run

    def one(self, statement: tuple[Any, ...]) -> Any:
        return getattr(self, f"do_{statement[0]}")(*statement[1:])

    def do_set(self, d: int, value: int) -> Any:
        d %= VECTORS
        self.b.emit("broadcast", self.vectors[d], self.b.constant(value))
        self.defined.add(d)
        return lambda v, g: v.__setitem__(d, value)

    def do_op(self, name: str, d: int, x: int, y: int) -> Any:
        d, x, y = d % VECTORS, self.read(x), self.read(y)
        self.b.emit(name, self.vectors[d], self.vectors[x], self.vectors[y])
        self.defined.add(d)
        return lambda v, g: v.__setitem__(d, OPERATIONS[name](v[x], v[y]))

    def do_move(self, d: int, x: int) -> Any:
        d, x = d % VECTORS, self.read(x)
        self.b.emit("move", self.vectors[d], self.vectors[x])
        self.defined.add(d)
        return lambda v, g: v.__setitem__(d, v[x])

    def do_count(self, d: int, x: int | None, value: int) -> Any:
        d %= GENERALS
        if x is None:
            self.b.emit("mov", self.generals[d], value)
            self.counted.add(d)
            return lambda v, g: g.__setitem__(d, value)
        x = self.counter(x)
        self.b.emit("mov", self.generals[d], self.generals[x])
        self.b.emit("add", self.generals[d], value)
        self.counted.add(d)
        return lambda v, g: g.__setitem__(d, g[x] + value)

    def do_call(self, number: int) -> Any:
        number %= len(self.bodies)
        self.b.emit("call", f"routine{number}")
        self.defined |= self.routine_writes[number]
        return lambda v, g: self.routines[number](v, g)

    def do_if(self, condition: str, x: int, y: int, then: list[Any], otherwise: list[Any]) -> Any:
        x, y, other, end = self.counter(x), self.counter(y), self.fresh(), self.fresh()
        self.b.emit("cmp", self.generals[x], self.generals[y])
        self.b.emit(f"jump_{condition}", other)
        defined, counted = set(self.defined), set(self.counted)
        first = self.block(otherwise)
        self.b.emit("jump", end)
        self.b.label(other)
        after = self.defined, self.counted
        self.defined, self.counted = defined, counted
        second = self.block(then)
        self.b.label(end)
        self.defined &= after[0]
        self.counted &= after[1]
        return lambda v, g: (second if CONDITIONS[condition](g[x], g[y]) else first)(v, g)

    def do_loop(self, times: int, body: list[Any]) -> Any:
        counter, label = self.b.general("loop"), self.fresh()
        self.b.emit("mov", counter, times)
        self.b.label(label)
        inner = self.block(body)
        self.b.emit("dec", counter)
        self.b.emit("jump_nonzero", label)
        return lambda v, g: [inner(v, g) for _ in range(times)]


@pytest.mark.parametrize("machine", [AVX512, AVX2], ids=lambda machine: machine.name)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(program=statements, bodies=routines)
def test_native_and_interpreted_agree(machine: Any, program: list[Any], bodies: list[list[Any]]) -> None:
    if not supports(machine):
        pytest.skip("this processor cannot run it")
    twin = Twin(machine, program, bodies)
    try:
        listing = twin.b.finish()
    except RegisterError:
        return  # test_allocation looks at those
    assert prove(listing) > 0
    out = (ctypes.c_uint32 * 64)()
    cpu.load(listing)(ctypes.addressof(out))
    v: dict[int, int] = {}
    g: dict[int, int] = {}
    for step in twin.steps:
        step(v, g)
    assert [out[16 * place] for place in range(len(twin.results))] == [v[i] for i in twin.results]
