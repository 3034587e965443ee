"""Whole vectors to and from memory and between registers; single elements; parts put in and taken out."""

from __future__ import annotations

from translator import state
from translator.pieces import LOADED, clear, finish, guarded, guarded_store, pieces, text_of
from translator.reading import General, Instruction, Memory, Register

#: Bytes of an element, as the mask counts.
MOVED = {
    **dict.fromkeys(("vmovups", "vmovaps", "vmovdqu32", "vmovdqa32", "vmovntps", "vmovdqu", "vmovdqa"), 4),
    **dict.fromkeys(("vmovupd", "vmovapd", "vmovdqu64", "vmovdqa64", "vmovntpd", "vmovntdq"), 8),
    "vmovdqu8": 1,
    "vmovdqu16": 2,
}
_ALIGNED = ("vmovaps", "vmovapd", "vmovdqa", "vmovdqa32", "vmovdqa64", "vmovntps", "vmovntpd", "vmovntdq")
#: Bytes of a single element, and of the part that is put in or taken out.
SINGLE = {"vmovss": 4, "vmovd": 4, "vmovsd": 8, "vmovq": 8}
_QUARTERS = ("f32x4", "i32x4", "f64x2", "i64x2", "f128", "i128")
_HALVES = ("f64x4", "i64x4", "f32x8", "i32x8")
PARTS = {
    f"v{do}{name}": size
    for do in ("insert", "extract")
    for size, names in ((16, _QUARTERS), (32, _HALVES))
    for name in names
}


def moved(i: Instruction) -> list[str]:
    """A whole vector, under a mask if there is one."""
    to, origin = i.operands
    element = MOVED[i.mnemonic]
    vector = to if isinstance(to, Register) else origin
    memory = to if isinstance(to, Memory) else origin
    if not isinstance(vector, Register) or vector.kind == "k":
        raise i.refuse()
    if isinstance(memory, Memory) and (memory.bytes != vector.bytes or memory.repeat):
        raise i.refuse()
    lines = []
    move = "vmovups"
    if isinstance(memory, Memory) and i.mnemonic in _ALIGNED:
        if i.mask:
            raise i.refuse("nobody checks the address under a mask")
        move = "vmovntps" if "nt" in i.mnemonic else "vmovaps"
        lines += _check_alignment(memory) if memory.bytes == 64 else []
    if isinstance(to, Memory):
        if i.mask:
            if i.zeroing:
                raise i.refuse()
            lanes = vector.bytes // element
            return lines + guarded_store(to, i.mask, element, lanes, state.place(vector.number))
        for piece in pieces(vector.bytes):
            lines.append(f"vmovups {piece.register(0)}, {text_of(i, origin, piece)}")
            lines.append(f"{move} {to.text(piece.offset, piece.size)}, {piece.register(0)}")
        return lines
    if isinstance(origin, Memory) and i.mask:
        lines += guarded(origin, i.mask, element, vector.bytes // element)
    assert vector is to
    for piece in pieces(vector.bytes):
        loaded = isinstance(origin, Memory) and i.mask
        text = state.scratch(LOADED, piece.offset, piece.size) if loaded else text_of(i, origin, piece)
        lines += [f"{move} {piece.register(0)}, {text}", *finish(i, element, piece, 0)]
    return lines + clear(vector)


def _check_alignment(memory: Memory) -> list[str]:
    """Lines that fail, as the instruction would, where a multiple of 32 is none of 64: the aligned moves of
    the pieces see the rest.

    The bit becomes a displacement of 8 bytes, which an aligned load refuses.
    """
    rax = state.at(state.RAX, 8)
    return [
        f"mov {rax}, rax",
        f"lea rax, [{memory.address}]",
        f"pext rax, rax, {state.constant('misaligned', 0, 8)}",
        f"vmovdqa xmm0, xmmword ptr gs:[{state.SCRATCH}+rax*8]",
        f"mov rax, {rax}",
    ]


def single(i: Instruction) -> list[str]:
    """One element, between the low end of an xmm register and memory or a general register."""
    if len(i.operands) != 2 or i.mask:
        raise i.refuse()
    to, origin = i.operands
    size = SINGLE[i.mnemonic]
    other = origin if isinstance(to, Register) else to
    vector = to if isinstance(to, Register) else origin
    if not isinstance(vector, Register) or vector.kind != "x":
        raise i.refuse()
    if isinstance(other, Memory):
        if other.bytes not in (0, size) or other.repeat:
            raise i.refuse()
        text = Memory(size, other.address).text()
    elif isinstance(other, General) and i.mnemonic in ("vmovd", "vmovq"):
        text = other.name
    elif i.mnemonic == "vmovq" and isinstance(other, Register) and other.kind == "x":
        text = state.vector(other.number, 0, size)
    else:
        raise i.refuse()
    move = {4: "vmovd", 8: "vmovq"}[size]
    if isinstance(to, Register):
        return [f"{move} xmm0, {text}", f"vmovups {state.vector(to.number, 0, 16)}, xmm0", *clear(to)]
    return [f"{move} xmm0, {state.vector(vector.number, 0, size)}", f"{move} {text}, xmm0"]


def parts(i: Instruction) -> list[str]:
    """A quarter or half put into a vector, or taken out of it."""
    size = PARTS[i.mnemonic]
    *operands, number = i.operands
    if i.mask or not isinstance(number, int):
        raise i.refuse()
    register = f"{'x' if size == 16 else 'y'}mm13"
    if i.mnemonic.startswith("vextract"):
        to, origin = operands
        if not isinstance(origin, Register) or origin.bytes <= size:
            raise i.refuse()
        offset = number % (origin.bytes // size) * size
        lines = [f"vmovups {register}, {state.vector(origin.number, offset, size)}"]
        if isinstance(to, Memory) and to.bytes == size:
            return [*lines, f"vmovups {to.text()}, {register}"]
        if not isinstance(to, Register) or to.bytes != size:
            raise i.refuse()
        return [*lines, f"vmovups {state.vector(to.number, 0, size)}, {register}", *clear(to)]
    to, first, part = operands
    if not isinstance(to, Register) or first != Register(to.kind, getattr(first, "number", -1)):
        raise i.refuse()
    if isinstance(part, Memory):
        if part.bytes != size:
            raise i.refuse()
        text = part.text()
    elif isinstance(part, Register) and part.bytes == size:
        text = state.vector(part.number, 0, size)
    else:
        raise i.refuse()
    lines = [f"vmovups {register}, {text}"]
    for piece in pieces(to.bytes):
        lines += [f"vmovups {piece.register(0)}, {text_of(i, first, piece)}", *finish(i, 4, piece, 0)]
    offset = number % (to.bytes // size) * size
    return [*lines, f"vmovups {state.vector(to.number, offset, size)}, {register}", *clear(to)]
