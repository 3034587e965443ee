"""An instruction piece by piece: 64 bytes are two pieces of 32, less is one.

    load(source, part)      lines that bring a piece of an operand into a register
    finish(i, part, reg)    lines that write a result's piece, under the instruction's mask
    clear(d)                lines that zero what a shorter register does not reach

Registers 14 and 15 are these helpers' own; an instruction calculates in 0 to 13.
"""

from __future__ import annotations

from dataclasses import dataclass

from translator import bits, state
from translator.reading import WORDS, Instruction, Memory, Operand, Register

#: Blocks of scratch memory: what a masked load brought; the others are free.
LOADED = 7


@dataclass(frozen=True)
class Piece:
    """`size` bytes from `offset` on, and the letter of the registers that hold them."""

    offset: int
    size: int

    @property
    def letter(self) -> str:
        return "y" if self.size == 32 else "x"

    def register(self, number: int) -> str:
        """A real register as wide as the piece."""
        return f"{self.letter}mm{number}"


def pieces(size: int) -> list[Piece]:
    """The pieces of an operand of 16, 32 or 64 bytes."""
    return [Piece(offset, min(size, 32)) for offset in range(0, size, 32)]


def clear(register: Register, start: int | None = None) -> list[str]:
    """Zeros in a vector register from byte `start` on: from where its name ends, if not said."""
    start = register.bytes if start is None else start
    if start >= 64:
        return []
    lines = ["vpxor xmm15, xmm15, xmm15"]
    if start % 32:
        lines.append(f"vmovups {state.vector(register.number, start, 16)}, xmm15")
    for offset in range(-(-start // 32) * 32, 64, 32):
        lines.append(f"vmovups {state.vector(register.number, offset)}, ymm15")
    return lines


def finish(i: Instruction, element: int, piece: Piece, result: int) -> list[str]:
    """Write a piece of the destination from register `result`; lanes that the mask leaves out stay or are
    zero."""
    destination = i.operands[0]
    assert isinstance(destination, Register)
    to, register = state.vector(destination.number, piece.offset, piece.size), piece.register(result)
    if not i.mask:
        return [f"vmovups {to}, {register}"]
    lanes, old = piece.register(14), piece.register(15)
    lines = bits.expand(lanes, i.mask, element, piece.offset)
    if i.zeroing:
        return [*lines, f"vpand {register}, {register}, {lanes}", f"vmovups {to}, {register}"]
    lines += [f"vmovups {old}, {to}", f"vpblendvb {register}, {old}, {register}, {lanes}"]
    return [*lines, f"vmovups {to}, {register}"]


def text_of(i: Instruction, operand: Operand, piece: Piece) -> str:
    """A piece of a vector register, or of memory that no mask guards, as an operand."""
    if isinstance(operand, Register) and operand.kind != "k":
        return state.vector(operand.number, piece.offset, piece.size)
    if isinstance(operand, Memory) and not operand.repeat:
        return operand.text(piece.offset, piece.size)
    raise i.refuse()


def source(i: Instruction, operand: Operand, element: int, piece: Piece, spare: int) -> tuple[list[str], str]:
    """A piece of a source as (lines that prepare it, operand); one element for all lanes goes to `spare`."""
    if isinstance(operand, Memory) and operand.repeat:
        if operand.bytes != element or element not in (4, 8):
            raise i.refuse()
        register = piece.register(spare)
        return repeated(register, operand, i.mask, element, operand.repeat), register
    if isinstance(operand, Memory) and i.mask:
        prepared = guarded(operand, i.mask, element, operand.bytes // element) if piece.offset == 0 else []
        return prepared, state.scratch(LOADED, piece.offset, piece.size)
    return [], text_of(i, operand, piece)


def repeated(register: str, memory: Memory, mask: int, element: int, lanes: int) -> list[str]:
    """One element of memory in every lane; where a mask has no lane, memory is not touched."""
    mnemonic = {4: "vpbroadcastd", 8: "vpbroadcastq"}[element]
    if not mask:
        return [f"{mnemonic} {register}, {memory.text(0, element)}"]
    return [
        f"vmovq xmm14, {state.mask(mask)}",
        f"vpand xmm14, xmm14, {state.constant(f'lanes{lanes}', 0, 16)}",
        "vpxor xmm15, xmm15, xmm15",
        "vpcmpeqq xmm14, xmm14, xmm15",
        f"vpandn xmm14, xmm14, {state.constant(f'lanes{8 * element}', 0, 16)}",
        f"vpmaskmov{mnemonic[-1]} xmm15, xmm14, {memory.text(0, 16)}",
        f"{mnemonic} {register}, xmm15",
    ]


def guarded(memory: Memory, mask: int, element: int, lanes: int) -> list[str]:
    """Lanes of memory in the block `LOADED`; what the mask leaves out is not read and means nothing there."""
    if element in (4, 8):
        lines = []
        for piece in pieces(element * lanes):
            lines += bits.expand(piece.register(14), mask, element, piece.offset)
            move = f"vpmaskmov{'d' if element == 4 else 'q'}"
            lines.append(
                f"{move} {piece.register(15)}, {piece.register(14)}, {memory.text(piece.offset, piece.size)}"
            )
            lines.append(f"vmovups {state.scratch(LOADED, piece.offset, piece.size)}, {piece.register(15)}")
        return lines
    register = {1: "al", 2: "ax"}[element]
    acts = [
        [
            f"mov {register}, {WORDS[element]} ptr [rcx+{lane * element}]",
            f"mov {state.scratch(LOADED, lane * element, element)}, {register}",
        ]
        for lane in range(lanes)
    ]
    return bits.untraced(bits.each_set(mask, lanes, acts), memory.address)


def guarded_store(memory: Memory, mask: int, element: int, lanes: int, origin: int) -> list[str]:
    """Write lanes that begin at byte `origin` of the file; what the mask leaves out is not touched."""
    if element in (4, 8):
        lines = []
        for piece in pieces(element * lanes):
            lines += bits.expand(piece.register(14), mask, element, piece.offset)
            lines.append(f"vmovups {piece.register(15)}, {state.at(origin + piece.offset, piece.size)}")
            move = f"vpmaskmov{'d' if element == 4 else 'q'}"
            lines.append(
                f"{move} {memory.text(piece.offset, piece.size)}, {piece.register(14)}, {piece.register(15)}"
            )
        return lines
    register = {1: "al", 2: "ax"}[element]
    acts = [
        [
            f"mov {register}, {state.at(origin + lane * element, element)}",
            f"mov {WORDS[element]} ptr [rcx+{lane * element}], {register}",
        ]
        for lane in range(lanes)
    ]
    return bits.untraced(bits.each_set(mask, lanes, acts), memory.address)
