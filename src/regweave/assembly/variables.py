"""What an operation's operands can be: variables, memory, immediates and labels.

A `Variable` stands for one or more consecutive registers that nobody has chosen yet. It is looked up by
identity: two variables of the same name are two variables. Each carries the one bit that stands for it in the
analysis's sets, so that a set of variables is one Python integer and set algebra costs nanoseconds.
"""

from __future__ import annotations

from regweave.errors import AssemblyError
from regweave.machines import RegisterClass


class Variable:
    """One or `count` consecutive registers of a class, chosen at `Builder.finish`.

    `Variable("x")` alone is unknown to any builder: the first template that writes it registers it with the
    class, count and alignment of that template's constraint. `Builder.vector`, `general` and `mask` make
    registered ones. `pin` is the (first) register that it must get, or None.
    """

    __slots__ = ("alignment", "bit", "count", "id", "kind", "name", "pin", "register_class")
    #: Set when it is registered, like everything but its name.
    register_class: RegisterClass

    def __init__(self, name: str) -> None:
        self.name = name
        self.kind = ""
        self.id = -1
        self.bit = 0
        self.count = 1
        self.alignment = 1
        self.pin: str | None = None

    @property
    def pinned(self) -> tuple[str, ...]:
        """The registers that it must get; none where it is free."""
        if self.pin is None:
            return ()
        registers = self.register_class.registers
        start = registers.index(self.pin)
        return registers[start : start + self.count]

    def copy(self, number: int) -> Variable:
        """A variable of the same name and demands, numbered `number`."""
        fresh = Variable(self.name)
        fresh.kind, fresh.register_class = self.kind, self.register_class
        fresh.count, fresh.alignment, fresh.pin = self.count, self.alignment, self.pin
        fresh.id, fresh.bit = number, 1 << number
        return fresh

    def __repr__(self) -> str:
        cls = "unregistered" if not self.kind else self.register_class.name
        size = f" x{self.count}" if self.count > 1 else ""
        return f"<{cls} {self.name}{size}>"


def members(variables: int) -> list[int]:
    """The numbers of the variables in a set."""
    found = []
    while variables:
        v = variables.bit_length() - 1
        variables ^= 1 << v
        found.append(v)
    return found


class Memory:
    """A memory operand: base + index * scale + offset, in bytes. Frozen by convention; `memory + 64` is 64
    bytes further.

    `kind` is "m" (plain), "b" (one element, repeated to all lanes) or "c" (a constant of the pool, a full
    vector long).
    """

    __slots__ = ("base", "bit", "index", "kind", "offset", "scale")

    def __init__(
        self, kind: str, base: Variable | str, offset: int = 0, index: Variable | None = None, scale: int = 1
    ) -> None:
        self.kind = kind
        self.base = base
        self.offset = offset
        self.index = index
        self.scale = scale
        self.bit = (base.bit if type(base) is Variable else 0) | (index.bit if index is not None else 0)

    def __add__(self, further: int) -> Memory:
        return Memory(self.kind, self.base, self.offset + further, self.index, self.scale)

    def __repr__(self) -> str:
        base = self.base if isinstance(self.base, str) else self.base.name
        index = f" + {self.index.name} * {self.scale}" if self.index is not None else ""
        offset = f" {'+' if self.offset > 0 else '-'} {abs(self.offset)}" if self.offset else ""
        return f"[{base}{index}{offset}]"


class Immediate:
    """A number inside an instruction."""

    __slots__ = ("shown", "value")
    kind = "i"
    bit = 0

    def __init__(self, value: int) -> None:
        if not -(2**63) <= value < 2**64:
            raise AssemblyError(f"immediate {value} does not fit into 64 bits")
        self.value = value
        self.shown = str(value)

    def __repr__(self) -> str:
        return self.shown


class Label:
    """A place in the program; `shown` is its symbol, unique to the listing. Uses no register."""

    __slots__ = ("name", "shown")
    kind = "l"
    bit = 0

    def __init__(self, name: str, shown: str) -> None:
        self.name = name
        self.shown = shown

    def __repr__(self) -> str:
        return self.name
