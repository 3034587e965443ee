"""Element types: how wide an element is, and so how many of them share one 32-bit register.

    >>> element_type("f16").bits, element_type("f16").per_register
    (16, 2)

Layouts only need widths. What the bits mean matters where data changes its type on the way (f32
accumulators that become f16 operands), so the name travels with the layout.
"""

from __future__ import annotations

from dataclasses import dataclass

from regweave.errors import InputError, unknown_name

REGISTER_BITS = 32


@dataclass(frozen=True)
class ElementType:
    """An element type: its name, its width in bits (a divisor or a multiple of 32) and its kind.

    `kind` is `float`, `integer`, or `bits` for anything that is only moved. Six-bit floats stand in the
    eight-bit containers in which matrix instructions take them; `e2m1b8` is e2m1 in such a container.
    `f16_lo` and `f16_hi` are 16-bit floats that have a register of their own and stand in its low or high
    half.
    """

    name: str
    bits: int
    kind: str

    def __post_init__(self) -> None:
        if self.bits < 1 or (REGISTER_BITS % self.bits and self.bits % REGISTER_BITS):
            raise InputError(
                f"element type {self.name!r} is {self.bits} bits wide",
                expected=f"a divisor or a multiple of {REGISTER_BITS}",
            )
        if self.kind not in ("float", "integer", "bits"):
            raise InputError(
                f"element type {self.name!r} has kind {self.kind!r}", expected="float, integer or bits"
            )

    @property
    def per_register(self) -> int:
        """Elements in one 32-bit register; 1 for wider elements too."""
        return max(1, REGISTER_BITS // self.bits)

    @property
    def registers(self) -> int:
        """Registers that one element takes: 1 for everything up to 32 bits."""
        return max(1, self.bits // REGISTER_BITS)


ELEMENT_TYPES = {
    entry.name: entry
    for entry in (
        ElementType("f64", 64, "float"),
        ElementType("f32", 32, "float"),
        ElementType("tf32", 32, "float"),
        ElementType("f16", 16, "float"),
        ElementType("bf16", 16, "float"),
        ElementType("f16_lo", 32, "float"),
        ElementType("f16_hi", 32, "float"),
        ElementType("bf16_lo", 32, "float"),
        ElementType("bf16_hi", 32, "float"),
        ElementType("e4m3", 8, "float"),
        ElementType("e5m2", 8, "float"),
        ElementType("e4m3fnuz", 8, "float"),
        ElementType("e5m2fnuz", 8, "float"),
        ElementType("e3m2", 8, "float"),
        ElementType("e2m3", 8, "float"),
        ElementType("e2m1b8", 8, "float"),
        ElementType("e2m1", 4, "float"),
        ElementType("s32", 32, "integer"),
        ElementType("u32", 32, "integer"),
        ElementType("s16", 16, "integer"),
        ElementType("u16", 16, "integer"),
        ElementType("s8", 8, "integer"),
        ElementType("u8", 8, "integer"),
        ElementType("s4", 4, "integer"),
        ElementType("u4", 4, "integer"),
        ElementType("b64", 64, "bits"),
        ElementType("b32", 32, "bits"),
        ElementType("b16", 16, "bits"),
        ElementType("b8", 8, "bits"),
        ElementType("b4", 4, "bits"),
        ElementType("b1", 1, "bits"),
    )
}


def element_type(name: str) -> ElementType:
    """The element type called `name`; an InputError with the nearest names otherwise."""
    if isinstance(name, str) and name in ELEMENT_TYPES:
        return ELEMENT_TYPES[name]
    raise unknown_name("element type", name, ELEMENT_TYPES)
