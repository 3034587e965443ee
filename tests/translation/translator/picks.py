"""Instructions that move lanes across the pieces.

By an index: of 32-bit lanes each piece of the tables is permuted with the same index, and the index's next
bits choose; shorter elements are taken one by one. By a number: pieces are put side by side in scratch memory
and read from where the number says.
"""

from __future__ import annotations

from translator import state
from translator.pieces import Piece, clear, finish, pieces, text_of
from translator.reading import Instruction, Memory, Operand, Register

#: (bytes of an element, which operand the index is: 0 the destination, 1 the first source; tables).
INDEXED = {
    **{f"vperm{kind}": (size, 1, 1) for kind, size in (("ps", 4), ("d", 4), ("w", 2), ("b", 1))},
    **{f"vpermi2{kind}": (size, 0, 2) for kind, size in (("ps", 4), ("d", 4), ("w", 2), ("b", 1))},
    **{f"vpermt2{kind}": (size, 1, 2) for kind, size in (("ps", 4), ("d", 4), ("w", 2), ("b", 1))},
}
#: Quarters of a, then of b; the bytes of an element.
QUARTERS = {"vshuff32x4": 4, "vshufi32x4": 4, "vshuff64x2": 8, "vshufi64x2": 8}
SLIDES = {"valignd": 4, "valignq": 8}


def _vectors(i: Instruction, operands: tuple[Operand, ...]) -> Register:
    """The destination, when all operands are as wide as it is."""
    to = i.operands[0]
    if not isinstance(to, Register) or to.kind not in "yz":
        raise i.refuse()
    for operand in operands:
        fits = isinstance(operand, Register | Memory) and operand.bytes == to.bytes
        if not fits or (isinstance(operand, Memory) and (operand.repeat or i.mask)):
            raise i.refuse()
    return to


def indexed(i: Instruction) -> list[str]:
    """Any lanes of one vector or two."""
    element, where, tables = INDEXED[i.mnemonic]
    if len(i.operands) != 3:
        raise i.refuse()
    to = _vectors(i, i.operands)
    index = i.operands[where]
    if where == 0:
        held = list(i.operands[1:])
    else:
        held = [i.operands[0], i.operands[2]] if tables == 2 else [i.operands[2]]
    results = pieces(to.bytes)
    short = element < 4
    lines = _one_by_one(i, element, index, held, to) if short else _by_words(i, index, held, results)
    for n, piece in enumerate(results):
        if short:
            lines.append(f"vmovups ymm{n}, {state.scratch(5, piece.offset, 32)}")
        lines += finish(i, element, piece, n)
    return lines + clear(to)


def _by_words(i: Instruction, index: Operand, held: list[Operand], results: list[Piece]) -> list[str]:
    """Results of 32-bit lanes, in ymm0 and ymm1."""
    lines = []
    tables = [text_of(i, operand, piece) for operand in held for piece in results]
    for n, piece in enumerate(results):
        lines.append(f"vmovups ymm13, {text_of(i, index, piece)}")
        found = []
        for register, table in zip((n, 3, 4, 5), tables, strict=False):
            lines.append(f"vpermps ymm{register}, ymm13, {table}")
            found.append(register)
        bit = 3  # the lowest that is not the index of a lane within a piece
        while len(found) > 1:
            lines.append(f"vpslld ymm12, ymm13, {31 - bit}")
            for low, high in zip(found[::2], found[1::2], strict=True):
                lines.append(f"vblendvps ymm{low}, ymm{low}, ymm{high}, ymm12")
            found, bit = found[::2], bit + 1
    return lines


def _one_by_one(i: Instruction, element: int, index: Operand, held: list[Operand], to: Register) -> list[str]:
    """Results of bytes or 16-bit words, in scratch block 5; blocks 0 and 1 get the tables, 4 the index."""
    lines, parts = [], pieces(to.bytes)
    count = len(held) * to.bytes // element
    for n, operand in enumerate(held):
        for piece in parts:
            lines.append(f"vmovups ymm0, {text_of(i, operand, piece)}")
            lines.append(f"vmovups {state.at(state.SCRATCH + n * to.bytes + piece.offset, 32)}, ymm0")
    for piece in parts:
        lines.append(f"vmovups ymm0, {text_of(i, index, piece)}")
        lines.append(f"vpand ymm0, ymm0, {state.constant(f'index{element}_{count}')}")
        lines.append(f"vmovups {state.scratch(4, piece.offset)}, ymm0")
    rax, register = state.at(state.RAX, 8), {1: "al", 2: "ax"}[element]
    lines.append(f"mov {rax}, rax")
    for at in range(0, to.bytes, element):
        lines += [
            f"movzx eax, {state.scratch(4, at, element)}",
            f"mov {register}, {state.at(state.SCRATCH, element)[:-1]}+rax*{element}]",
            f"mov {state.scratch(5, at, element)}, {register}",
        ]
    return [*lines, f"mov rax, {rax}"]


def quarters(i: Instruction) -> list[str]:
    """Two quarters of a, two of b; of shorter vectors one half of each."""
    *vectors, number = i.operands
    to = _vectors(i, tuple(vectors))
    if len(vectors) != 3 or not isinstance(number, int):
        raise i.refuse()
    count = to.bytes // 16
    width, lines = count // 2, []
    chosen = [number >> (width * n) & (count - 1) for n in range(count)]
    for n, quarter in enumerate(chosen):
        operand = vectors[1] if n < width else vectors[2]
        piece, text = n // 2, text_of(i, operand, Piece(16 * quarter, 16))
        if n % 2 == 0:
            lines.append(f"vmovups xmm{piece}, {text}")
        else:
            lines.append(f"vinserti128 ymm{piece}, ymm{piece}, {text}, 1")
    for n, piece in enumerate(pieces(to.bytes)):
        lines += finish(i, QUARTERS[i.mnemonic], piece, n)
    return lines + clear(to)


def slid(i: Instruction) -> list[str]:
    """The lanes of b from a number on, then the first ones of a."""
    *vectors, number = i.operands
    to = _vectors(i, tuple(vectors))
    if len(vectors) != 3 or not isinstance(number, int):
        raise i.refuse()
    element, lines = SLIDES[i.mnemonic], []
    parts = pieces(to.bytes)
    for n, operand in enumerate((vectors[2], vectors[1])):
        for piece in parts:
            lines.append(f"vmovups ymm0, {text_of(i, operand, piece)}")
            lines.append(f"vmovups {state.at(state.SCRATCH + n * to.bytes + piece.offset, 32)}, ymm0")
    start = state.SCRATCH + number % (to.bytes // element) * element
    for piece in parts:
        lines.append(f"vmovups ymm0, {state.at(start + piece.offset, 32)}")
        lines += finish(i, element, piece, 0)
    return lines + clear(to)
