"""What operations work on: variables, memory operands, constants and the function's stack.

acc = b.vector("acc")                       a register, chosen when the function is finished
b.at("x", 64, index=i, scale=4)             memory at x + 4 i + 64
b.constant(1.5)                             a float32 in all lanes, from read-only memory
b.stack(32, align=32)                       memory of this call alone
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from regweave.assembly.recorder import Recorder
from regweave.assembly.variables import Memory, Variable
from regweave.errors import AssemblyError

_ALIGNMENTS = tuple(1 << bit for bit in range(13))
_MOST_STACK = 1 << 16


class Declarations(Recorder):
    """A recorder with the calls that make operands."""

    def variable(
        self, name: str, register_class: str, *, count: int = 1, align: int = 1, pin: str | None = None
    ) -> Variable:
        """A variable of `count` consecutive registers of any class that the machine has.

        The first is `pin`, or else one whose number in the class is a multiple of `align`.
        """
        return self._register(Variable(name), register_class, count, align, pin)

    def vector(self, name: str = "v", *, count: int = 1, align: int = 1, pin: str | None = None) -> Variable:
        """A variable of one (or `count` consecutive) vector registers; `pin` names the first."""
        return self._register(Variable(name), "vector", count, align, pin)

    def vectors(self, name: str, count: int) -> list[Variable]:
        """`count` separate variables name0, name1, ..."""
        return [self._register(Variable(f"{name}{i}"), "vector") for i in range(count)]

    def general(self, name: str = "r", *, pin: str | None = None) -> Variable:
        """A 64-bit general register; `pin` names the register that it must be."""
        return self._register(Variable(name), "general", pin=pin)

    def mask(self, name: str = "k") -> Variable:
        """A lane mask: a k register, or a vector where the machine has none."""
        return self._register(Variable(name), self.machine.mask_class)

    def at(
        self,
        base: Variable | str,
        offset: int = 0,
        *,
        index: Variable | str | None = None,
        scale: int = 1,
        repeat: bool = False,
    ) -> Memory:
        """Memory at base + index * scale + offset (bytes); `repeat` gives its one element to all lanes."""
        base = self[base] if isinstance(base, str) else base
        index = self[index] if isinstance(index, str) else index
        for variable in (base, index):
            if variable is not None and variable.kind != "r":
                raise AssemblyError(
                    f"{variable!r} cannot be part of an address", expected="general registers"
                )
        if scale not in (1, 2, 4, 8):
            raise AssemblyError(f"address scale {scale} of {base.name!r}", expected="1, 2, 4 or 8")
        if not hasattr(offset, "__index__") or not -(2**31) <= offset < 2**31:
            raise AssemblyError(f"address offset {offset!r} of {base.name!r}", expected="32 bits, signed")
        return Memory("b" if repeat else "m", base, offset, index, scale)

    def constant(self, value: float | int) -> Memory:
        """One 32-bit constant, repeated to all lanes: a float, or an int for its bit pattern.

        AssemblyError if it does not fit: a finite float that f32 has not, an int beyond 32 bits.
        """
        if hasattr(value, "__index__"):
            if not -(2**31) <= value < 2**32:
                raise AssemblyError(f"constant {value} does not fit into 32 bits", where=self.name)
            word = struct.pack("<I", int(value) & 0xFFFFFFFF)
        else:
            word = _floats((value,))
        repeats = self.machine.repeats
        return self._constant(word * repeats, "b" if repeats == 1 else "c", 4 * repeats)

    def constants(self, values: Iterable[float], *, align: int = 64) -> Memory:
        """A row of float32 constants in read-only memory."""
        return self.data(_floats(tuple(values)), align=align)

    def data(self, content: bytes, *, align: int = 64) -> Memory:
        """One byte or more in read-only memory beside the code, at a multiple of `align` <= 4096."""
        if not content or align not in _ALIGNMENTS:
            raise AssemblyError(
                f"{len(content)} bytes of data aligned to {align}",
                where=self.name,
                expected="one byte at least, a power of two <= 4096",
            )
        return self._constant(content, "m", align)

    def stack(self, size: int, *, align: int = 8) -> Memory:
        """`size` bytes of the function's stack, aligned up to 64. Takes the machine's frame register.

        All slots together hold 64 KiB at most: a larger frame could step over the guard page behind a
        thread's stack.
        """
        start = -(-(self._stack or 0) // max(align, 1)) * align
        if size < 0 or align > 64 or align not in _ALIGNMENTS or start + size > _MOST_STACK:
            raise AssemblyError(
                f"stack of {size} bytes aligned to {align}",
                where=self.name,
                expected=f"a size >= 0, a power of two <= 64, {_MOST_STACK} bytes in all",
            )
        self._stack = start + size
        return Memory("m", self.machine.frame_register, start)


def _floats(values: Sequence[float]) -> bytes:
    """Float32 numbers as bytes; an infinity and a NaN are numbers, but nothing finite becomes one."""
    try:
        return struct.pack(f"<{len(values)}f", *values)
    except (OverflowError, struct.error):
        raise AssemblyError(
            f"{', '.join(map(repr, values))} cannot be a constant", expected="numbers within float32's range"
        ) from None
