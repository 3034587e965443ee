"""What every machine description has in common.

A machine is a frozen value: planners and generators read it, nobody changes it. This base holds only what all
families share; a family (`machines/x86`, `machines/nvidia`, ...) adds its own facts in a subclass.

    >>> from regweave.machines.x86 import AVX512
    >>> AVX512.lanes, AVX512.register_class("vector").count
    (16, 32)
"""

from __future__ import annotations

from regweave.errors import InputError, nearest_names
from regweave.values import frozen


@frozen
class RegisterClass:
    """One kind of register, in the order in which registers are to be handed out.

    `letter` is the class's sign in operand constraints. `bits` is the width of one register. A tuple of `n`
    registers starts at a multiple of `alignment` (1: anywhere). `saved` are those that a function must hand
    back unchanged.
    """

    name: str
    letter: str
    registers: tuple[str, ...]
    bits: int
    alignment: int = 1
    saved: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if len(set(self.registers)) != len(self.registers):
            raise InputError(f"register class {self.name!r} names a register twice")
        if not self.saved <= set(self.registers):
            raise InputError(f"register class {self.name!r} saves a register that it does not have")
        if self.alignment < 1 or len(self.letter) != 1:
            raise InputError(
                f"register class {self.name!r}: alignment must be >= 1 and the letter one character"
            )

    @property
    def count(self) -> int:
        """How many registers can be handed out."""
        return len(self.registers)


@frozen(eq=False)
class Machine:
    """A target: its name (`avx512`, `sm_80`), family (`x86`, `nvidia`), a title for people, and its lanes.

    `lanes` is the number of 32-bit lanes that work in step: of a vector register, a warp or a wavefront.
    """

    name: str
    family: str
    title: str
    lanes: int
    classes: tuple[RegisterClass, ...]

    def __post_init__(self) -> None:
        if self.lanes < 1:
            raise InputError(f"machine {self.name!r} needs at least one lane", where="lanes")
        for field in ("name", "letter"):
            values = [getattr(entry, field) for entry in self.classes]
            if len(set(values)) != len(values):
                raise InputError(f"machine {self.name!r} has two register classes with one {field}")

    def register_class(self, name: str) -> RegisterClass:
        """The register class called `name`; an InputError with the nearest names otherwise."""
        for entry in self.classes:
            if entry.name == name:
                return entry
        names = [entry.name for entry in self.classes]
        raise InputError(
            f"machine {self.name!r} has no register class {name!r}",
            expected="one of " + ", ".join(names),
            nearest=nearest_names(name, names),
        )
