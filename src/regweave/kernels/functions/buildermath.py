"""VectorMath that emits: activations written once become instructions on named registers.

Constants stay in memory where an instruction can repeat them from there. Those that must stand in a
register (the limits of `at_least` and `at_most`, a numerator) are loaded once per straight-line stretch and
shared by all the vectors of it: a ReLU on 24 accumulators costs 24 instructions and one zero. So a
`BuilderMath` lives as long as one such stretch; a new label needs a new one. At most `shared` registers are
kept so (a quarter of all where it is not said); constants beyond that are loaded at each use, so that no list
of operators, however long, runs out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from regweave.assembly import Builder
from regweave.assembly.variables import Memory, Variable

#: As exponents of a float32 these are the words for 0 and Inf.
_LOWEST, _HIGHEST = -127.0, 128.0
_BIAS, _MANTISSA_BITS = 127, 23
#: Added to a small number it leaves the nearest integer in the last bits of the sum.
_ROUNDING = 1.5 * 2.0**_MANTISSA_BITS

Value = Variable | Memory | float
Table = tuple[float, ...]


class BuilderMath:
    """Emits every operation into a builder; values are variables, memory operands, or floats for
    constants."""

    def __init__(
        self, b: Builder, *, shared: int | None = None, tables: Mapping[Table, Variable] | None = None
    ) -> None:
        self.b, self._tables = b, tables or {}
        self._shared = len(b.machine.register_class("vector").registers) // 4 if shared is None else shared
        self._constants: dict[float, Variable] = {}
        self._reduces = "fraction" in b.machine.table
        self.entries = b.machine.lanes

    def _held(self, value: Value) -> Variable:
        """The value in a register; constants are shared while there is room."""
        if isinstance(value, Variable):
            return value
        if isinstance(value, float) and value in self._constants:
            return self._constants[value]
        held = self.b.vector("operand" if isinstance(value, Memory) else "constant")
        self._load(held, value)
        if isinstance(value, float) and len(self._constants) < self._shared:
            self._constants[value] = held
        return held

    def _load(self, to: Variable, value: Value) -> None:
        """`to` = the value."""
        if isinstance(value, Variable):
            self.b.emit("move", to, value)
        elif isinstance(value, Memory):
            self.b.emit("load" if value.kind == "m" else "broadcast", to, value)
        elif value == 0.0:
            self.b.emit("zero", to)
        else:
            self.b.emit("broadcast", to, self.b.constant(value))

    def _last(self, value: Value) -> Variable | Memory:
        """The value as the last operand of an instruction."""
        return value if isinstance(value, (Variable, Memory)) else self.b.constant(value)

    def _two(self, name: str, a: Variable, b: Value) -> Variable:
        result = self.b.vector(name)
        self.b.emit(name, result, a, self._last(b))
        return result

    def add(self, a: Variable, b: Value) -> Variable:
        return self._two("add", a, b)

    def mul(self, a: Variable, b: Value) -> Variable:
        return self._two("mul", a, b)

    def div(self, a: Variable | float, b: Variable) -> Variable:
        return self._two("div", self._held(a), b)

    def fma(self, a: Variable, b: Value, c: Value) -> Variable:
        result = self.b.vector("fma")
        if isinstance(b, Variable) and not isinstance(c, Variable):
            self.b.emit("move", result, a)
            self.b.emit("mul_add", result, b, self._last(c))
        else:
            self._load(result, c)
            self.b.emit("fma", result, a, self._last(b))
        return result

    def at_least(self, x: Variable, low: float) -> Variable:
        return self._two("max_nan", self._held(low), x)

    def at_most(self, x: Variable, high: float) -> Variable:
        return self._two("min_nan", self._held(high), x)

    def larger(self, a: Variable, b: Variable) -> Variable:
        return self._two("max", a, b)

    def smaller(self, a: Variable, b: Variable) -> Variable:
        return self._two("min", a, b)

    def split(self, t: Variable) -> tuple[Variable, Variable]:
        fraction = self.b.vector("fraction")
        if self._reduces:
            self.b.emit("fraction", fraction, t)
            return fraction, t
        limited = self.at_most(self.at_least(t, _LOWEST), _HIGHEST)
        whole = self.b.vector("whole")
        self.b.emit("floor", whole, limited)
        self.b.emit("sub", fraction, limited, whole)
        return fraction, whole

    def scale(self, p: Variable, whole: Variable) -> Variable:
        """Hardware scaling takes the floor itself; else 2^whole is made as an integer. NaN stays in p."""
        if self._reduces:
            return self._two("power_of_two_scale", p, whole)
        b, power = self.b, self.b.vector("power")
        b.emit("to_int", power, whole)
        b.emit("add_int", power, power, b.constant(_BIAS))
        b.emit("shift_left_int", power, power, _MANTISSA_BITS)
        return self._two("mul", p, power)

    def magnitude(self, x: Variable) -> Variable:
        result = self.b.vector("magnitude")
        self.b.emit("abs", result, x)
        return result

    def nearest(self, t: Variable) -> tuple[Variable, Variable]:
        """The token's last bits are the integer: what `lookup` reads."""
        place = self.add(t, _ROUNDING)
        whole = self._two("sub", place, _ROUNDING)
        return self._two("sub", t, whole), place

    def lookup(self, table: Sequence[float], place: Variable) -> Variable:
        result = self.b.vector("entry")
        self.b.emit("permute", result, place, self._tables.get(tuple(table)) or self.b.constants(table))
        return result


def held_tables(b: Builder, tables: Iterable[Table]) -> dict[Table, Variable]:
    """Tables in registers, for a loop over many vectors: from memory a lookup takes 1.5 cycles, not 1."""
    held = {}
    for table in tables:
        held[table] = b.vector("table")
        b.emit("load", held[table], b.constants(table))
    return held
