"""Mask registers: moves, logic, shifts, and the choice between two vectors.

Logic is done in vector registers, for general ones would change the flags.
"""

from __future__ import annotations

from translator import bits, state
from translator.pieces import clear, pieces, source, text_of
from translator.reading import General, Instruction, Memory, Register

_LANES = {"b": 8, "w": 16, "d": 32, "q": 64}
_LOGIC = {
    "kand": "vpand",
    "kandn": "vpandn",
    "kor": "vpor",
    "kxor": "vpxor",
    "kxnor": "vpxor",
    "kadd": "vpaddq",
}
LOGIC = {f"{name}{letter}": (how, lanes) for name, how in _LOGIC.items() for letter, lanes in _LANES.items()}
MOVES = {f"kmov{letter}": lanes for letter, lanes in _LANES.items()}
COPIES = {f"knot{letter}": lanes for letter, lanes in _LANES.items()}
SHIFTS = {f"kshift{way}{letter}": (f"vps{way}lq", lanes) for way in "lr" for letter, lanes in _LANES.items()}
#: Bytes of an element of what chooses between two vectors.
CHOICES = {"vblendmps": 4, "vpblendmd": 4, "vblendmpd": 8, "vpblendmq": 8, "vpblendmw": 2, "vpblendmb": 1}


def _cut(number: int, lanes: int) -> list[str]:
    """Write the lanes of xmm0 to a mask register, the rest of which becomes 0."""
    limit = state.constant(f"lanes{lanes}", 0, 16)
    return [f"vpand xmm0, xmm0, {limit}", f"vmovq {state.mask(number)}, xmm0"]


def _number(i: Instruction, operand: object) -> int:
    if not isinstance(operand, Register) or operand.kind != "k":
        raise i.refuse()
    return operand.number


def logic(i: Instruction) -> list[str]:
    """`k = a op b`."""
    how, lanes = LOGIC[i.mnemonic]
    to, first, second = (_number(i, operand) for operand in i.operands)
    lines = [f"vmovq xmm0, {state.mask(first)}", f"vmovq xmm1, {state.mask(second)}"]
    lines.append(f"{how} xmm0, xmm0, xmm1")
    if i.mnemonic.startswith("kxnor"):
        lines += ["vpcmpeqd xmm1, xmm1, xmm1", "vpxor xmm0, xmm0, xmm1"]
    return lines + _cut(to, lanes)


def inverted(i: Instruction) -> list[str]:
    """`k = ~a`."""
    to, origin = (_number(i, operand) for operand in i.operands)
    ones = ["vpcmpeqd xmm1, xmm1, xmm1", f"vmovq xmm0, {state.mask(origin)}", "vpxor xmm0, xmm0, xmm1"]
    return ones + _cut(to, COPIES[i.mnemonic])


def shifted(i: Instruction) -> list[str]:
    """`k = a << count`, or `>>`."""
    how, lanes = SHIFTS[i.mnemonic]
    to, origin = (_number(i, operand) for operand in i.operands[:2])
    count = i.operands[2]
    if not isinstance(count, int):
        raise i.refuse()
    limit = state.constant(f"lanes{lanes}", 0, 16)
    lines = [f"vmovq xmm0, {state.mask(origin)}", f"vpand xmm0, xmm0, {limit}", f"{how} xmm0, xmm0, {count}"]
    return lines + _cut(to, lanes)


def moved(i: Instruction) -> list[str]:
    """A mask from and to memory, general registers, mask registers."""
    size = MOVES[i.mnemonic] // 8
    to, origin = i.operands
    rax = state.at(state.RAX, 8)
    if isinstance(to, Register) and isinstance(origin, Register):
        number = _number(i, origin)
        return [f"vmovq xmm0, {state.mask(number)}", *_cut(_number(i, to), 8 * size)]
    if isinstance(to, Register) and isinstance(origin, Memory):
        if origin.bytes != size:
            raise i.refuse()
        keep = f"mov {rax}, rax"
        return [keep, _read(origin.text(), size), f"mov {state.mask(_number(i, to))}, rax", f"mov rax, {rax}"]
    if isinstance(to, Register) and isinstance(origin, General):
        move = "vmovq" if size == 8 else "vmovd"
        return [f"{move} xmm0, {origin.name}", *_cut(_number(i, to), 8 * size)]
    number = _number(i, origin)
    if isinstance(to, General):
        if size >= 4:
            return [f"mov {to.name}, {state.mask(number, size)}"]
        return [f"movzx {to.name}, {state.mask(number, size)}"]
    if not isinstance(to, Memory) or to.bytes != size:
        raise i.refuse()
    store, tail = {8: ("vmovq", ""), 4: ("vmovd", ""), 2: ("vpextrw", ", 0"), 1: ("vpextrb", ", 0")}[size]
    return [f"vmovq xmm0, {state.mask(number)}", f"{store} {to.text()}, xmm0{tail}"]


def _read(text: str, size: int) -> str:
    """`size` bytes of memory in rax, zeros above."""
    return {8: f"mov rax, {text}", 4: f"mov eax, {text}"}.get(size, f"movzx eax, {text}")


def chosen(i: Instruction) -> list[str]:
    """`d = b` in the mask's lanes, `a` or, where it is asked for, zero in the others."""
    element = CHOICES[i.mnemonic]
    to, first, second = i.operands
    if not isinstance(to, Register) or not isinstance(first, Register) or first.kind != to.kind:
        raise i.refuse()
    lines = []
    for piece in pieces(to.bytes):
        prepared, last = source(i, second, element, piece, 3)
        zero = piece.register(0)
        other = [f"vmovups {zero}, {text_of(i, first, piece)}"]
        if i.zeroing:
            other = [f"vpxor {zero}, {zero}, {zero}"]
        lines += [*prepared, *other]
        if i.mask:
            lines += bits.expand(piece.register(14), i.mask, element, piece.offset)
            lines.append(f"vpblendvb {zero}, {zero}, {last}, {piece.register(14)}")
        else:
            lines.append(f"vmovups {zero}, {last}")
        lines.append(f"vmovups {state.vector(to.number, piece.offset, piece.size)}, {zero}")
    return lines + clear(to)
