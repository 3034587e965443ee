"""What an operation's operands can be: variables, memory, immediates and labels.

A `Variable` stands for one or more consecutive registers that nobody has chosen yet. It is looked up by identity: two
variables of the same name are two variables. Each carries the one bit that stands for it in the analysis's sets, so that
a set of variables is one Python integer and set algebra costs nanoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regweave.errors import AssemblyError
from regweave.machines import RegisterClass

Texts = Mapping["Variable", Any]


class Variable:
    """One or `count` consecutive registers of a class, chosen at `Builder.finish`.

    `Variable("x")` alone is unknown to any builder: the first template that writes it registers it with the class, count
    and alignment of that template's constraint. `Builder.vector`, `general` and `mask` make registered ones. `pin` is
    the register that it must get, or None.
    """

    __slots__ = ("alignment", "bit", "count", "id", "kind", "name", "pin", "register_class")

    def __init__(self, name: str) -> None:
        self.name = name
        self.kind: str | None = None
        self.id = -1
        self.bit = 0
        self.register_class: RegisterClass | None = None
        self.count = 1
        self.alignment = 1
        self.pin: str | None = None

    def __repr__(self) -> str:
        cls = "unregistered" if self.register_class is None else self.register_class.name
        size = f" x{self.count}" if self.count > 1 else ""
        return f"<{cls} {self.name}{size}>"


class Memory:
    """A memory operand: base + index * scale + offset, in bytes. Frozen by convention; `memory + 64` is 64 bytes further.

    `kind` is "m" (plain), "b" (one element, repeated to all lanes) or "c" (a constant of the pool, a full vector long).
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

    def text(self, texts: Texts) -> str:
        """The address, `[rdi+rsi*4+64]`, given the registers of the variables."""
        base = self.base
        shown = base if type(base) is str else texts[base]  # type: ignore[index]
        if self.index is not None:
            shown = f"{shown}+{texts[self.index]}*{self.scale}"
        offset = self.offset
        if offset:
            return f"[{shown}+{offset}]" if offset > 0 else f"[{shown}{offset}]"
        return f"[{shown}]"

    def __repr__(self) -> str:
        names = {v: v.name for v in (self.base, self.index) if isinstance(v, Variable)}
        return self.text(names)


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

    def text(self, texts: Texts) -> str:
        """The number."""
        return self.shown

    def __repr__(self) -> str:
        return self.shown


class Label:
    """A place in the program. Uses no register."""

    __slots__ = ("name", "shown")
    kind = "l"
    bit = 0

    def __init__(self, name: str, shown: str) -> None:
        self.name = name
        self.shown = shown

    def text(self, texts: Texts) -> str:
        """The symbol, unique to the listing."""
        return self.shown

    def __repr__(self) -> str:
        return self.name
