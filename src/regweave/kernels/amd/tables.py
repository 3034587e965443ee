"""What multiplies on each of AMD's machines, and how it is written: the data of the kernels in this folder.

    >>> step_of("gfx90a", "f16")
    MultiplyStep(instruction='v_mfma_f32_32x32x8_f16', template='%s %%0, %%1, %%2, %%0', words=2, ...)

A step works on *words* of 32 bits that stand side by side along the contraction: one f32, two f16, four int8.
`lanes` machines multiply word by word in every lane (rows and columns are spread over 4 x 16 lanes); `matrix`
machines hand whole registers to the matrix unit (rows, and columns, over 32 lanes, and the two halves of a
wave hold different words). Nothing else differs between the types.
"""

from __future__ import annotations

from regweave.errors import InputError, UnsupportedError, nearest_names
from regweave.machines.amd.generations import INSTRUCTIONS
from regweave.values import frozen

#: Types of the matrices, with the bytes of an element, and the type that sums have.
TYPES = {"f32": (4, "f32"), "f16": (2, "f32"), "i8": (1, "i32")}


@frozen
class MultiplyStep:
    """One multiply-add: its instruction and template (sum, a, b), the words of a and of b that it takes per
    lane, and the rows and columns that its lanes are spread over."""

    instruction: str
    template: str
    words: int
    rows: int
    columns: int
    matrix: bool

    def __post_init__(self) -> None:
        if self.matrix:
            entry = INSTRUCTIONS[self.instruction]
            shape = (entry.m, entry.n, entry.fragments["A"].registers, entry.fragments["B"].registers)
            if shape != (self.rows, self.columns, self.words, self.words):
                raise InputError(f"{self.instruction} has the shape {shape}, not that of {self}")
        elif self.rows * self.columns != 64:
            raise InputError(f"{self} does not use the lanes of a wave once")

    @property
    def text(self) -> str:
        """The template with its instruction."""
        return self.template.format(self.instruction)


def _lane(instruction: str, template: str) -> MultiplyStep:
    return MultiplyStep(instruction, template, 1, 4, 16, matrix=False)


def _matrix(instruction: str, words: int) -> MultiplyStep:
    return MultiplyStep(instruction, "{} %0, %1, %2, %0", words, 32, 32, matrix=True)


_STEPS = {
    ("gfx906", "f32"): _lane("v_fmac_f32", "{} %0, %1, %2"),
    ("gfx906", "f16"): _lane("v_dot2_f32_f16", "{} %0, %1, %2, %0"),
    ("gfx906", "i8"): _lane("v_dot4_i32_i8", "{} %0, %1, %2, %0"),
    ("gfx90a", "f32"): _matrix("v_mfma_f32_32x32x2_f32", 1),
    ("gfx90a", "f16"): _matrix("v_mfma_f32_32x32x8_f16", 2),
    ("gfx90a", "i8"): _matrix("v_mfma_i32_32x32x8_i8", 1),
    ("gfx942", "f32"): _matrix("v_mfma_f32_32x32x2_f32", 1),
    ("gfx942", "f16"): _matrix("v_mfma_f32_32x32x8_f16", 2),
    ("gfx942", "i8"): _matrix("v_mfma_i32_32x32x16_i8", 2),
}
#: Loading one chunk of 16 bytes (destination, offset, buffer, offset of the wave) or one word of it, at an
#: offset of this block; staging a chunk (place, data); reading one; storing one sum.
LOAD_CHUNK = "buffer_load_dwordx4 %0, %1, %2, %3 offen offset:{}"
LOAD_WORD = "buffer_load_dword %0, %1, %2, %3 offen offset:{}"
STAGE_CHUNK = "ds_write_b128 %0, %1 offset:{}"
READ_CHUNK = "ds_read_b128 %0, %1 offset:{}"
STORE_WORD = "buffer_store_dword %0, %1, %2, %3 offen"


def step_of(machine: str, dtype: str) -> MultiplyStep:
    """The multiply-add of a machine for a type; UnsupportedError with those that there are."""
    step = _STEPS.get((machine, dtype))
    if step is None:
        machines = tuple(dict.fromkeys(name for name, _ in _STEPS))
        known = machine in machines
        raise UnsupportedError(
            f"no product of blocks of type {dtype!r} for {machine!r}",
            nearest=nearest_names(dtype, TYPES) if known else nearest_names(machine, machines),
            expected=" or ".join(TYPES) if known else " or ".join(machines),
        )
    return step
