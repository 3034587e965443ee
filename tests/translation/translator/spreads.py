"""One element, or a few, again and again."""

from __future__ import annotations

from translator import state
from translator.pieces import clear, finish, pieces, repeated
from translator.reading import General, Instruction, Memory, Register

#: Bytes of what is repeated, and of an element as the mask counts.
SPREAD = {
    "vbroadcastss": (4, 4),
    "vbroadcastsd": (8, 8),
    **{f"vpbroadcast{kind}": (size, size) for kind, size in (("b", 1), ("w", 2), ("d", 4), ("q", 8))},
    **{f"vbroadcast{kind}32x4": (16, 4) for kind in "fi"},
    **{f"vbroadcast{kind}64x2": (16, 8) for kind in "fi"},
    **{f"vbroadcast{kind}128": (16, 8) for kind in "fi"},
    **{f"vbroadcast{kind}32x8": (32, 4) for kind in "fi"},
    **{f"vbroadcast{kind}64x4": (32, 8) for kind in "fi"},
}
_LETTERS = {1: "b", 2: "w", 4: "d", 8: "q"}


def spread(i: Instruction) -> list[str]:
    """`d` = what is repeated, in ymm13, in every piece."""
    size, element = SPREAD[i.mnemonic]
    to, origin = i.operands
    if not isinstance(to, Register) or to.kind == "k":
        raise i.refuse()
    lines = _taken(i, origin, size, to)
    for piece in pieces(to.bytes):
        lines += [f"vmovaps {piece.register(0)}, {piece.register(13)}", *finish(i, element, piece, 0)]
    return lines + clear(to)


def _taken(i: Instruction, origin: object, size: int, to: Register) -> list[str]:
    """What is repeated, throughout ymm13."""
    if isinstance(origin, Memory) and origin.bytes == size and not origin.repeat:
        if size >= 16:
            if i.mask:
                raise i.refuse()
            return [f"{'vbroadcasti128' if size == 16 else 'vmovups'} ymm13, {origin.text()}"]
        if i.mask and size < 4:
            raise i.refuse()
        return (
            repeated("ymm13", origin, i.mask, size, to.bytes // size)
            if size >= 4
            else [f"vpbroadcast{_LETTERS[size]} ymm13, {origin.text()}"]
        )
    if isinstance(origin, Register) and origin.kind == "x" and size < 16:
        return [f"vpbroadcast{_LETTERS[size]} ymm13, {state.vector(origin.number, 0, size)}"]
    if isinstance(origin, General) and i.mnemonic.startswith("vpbroadcast"):
        # byte and word forms name a register of 32 bits, too
        move = "vmovq" if size == 8 else "vmovd"
        return [f"{move} xmm13, {origin.name}", f"vpbroadcast{_LETTERS[size]} ymm13, xmm13"]
    raise i.refuse()
