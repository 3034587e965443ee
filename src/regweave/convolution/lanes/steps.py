"""Numbers in a lane-level kernel: sums and products of addresses, without those that change nothing."""

from __future__ import annotations

from regweave.programs import ProgramBuilder, Value


class Steps:
    """A builder, `b`, and the arithmetic that the kernels of a convolution share; all values are words."""

    def __init__(self, b: ProgramBuilder) -> None:
        self.b = b

    def number(self, value: int) -> Value:
        return self.b.constant(value)

    def add(self, one: Value, other: Value | int) -> Value:
        if isinstance(other, int):
            if other == 0:
                return one
            other = self.number(other)
        return self.b.step("add", (one, other))

    def subtract(self, one: Value, other: Value) -> Value:
        return self.b.step("subtract", (one, other))

    def times(self, value: Value, factor: int) -> Value:
        return value if factor == 1 else self.b.step("multiply", (value, self.number(factor)))

    def less(self, value: Value, bound: Value | int) -> Value:
        """A predicate, of numbers without a sign: what is negative is large."""
        return self.b.step("less", (value, self.number(bound) if isinstance(bound, int) else bound))

    def choose(self, predicate: Value, one: Value, other: Value) -> Value:
        return self.b.step("select", (predicate, one, other))

    def at_most(self, value: Value, most: int) -> Value:
        return self.choose(self.less(value, most), value, self.number(most))

    def divided(self, value: Value, by: int) -> tuple[Value, Value]:
        """Quotient and remainder."""
        if by == 1:
            return value, self.number(0)
        quotient = self.b.step("divide", (value, self.number(by)))
        return quotient, self.subtract(value, self.times(quotient, by))
