"""Instructions that do the same in every piece: arithmetic, comparisons, conversions to longer elements."""

from __future__ import annotations

from translator import bits, state
from translator.pieces import LOADED, Piece, clear, finish, guarded, pieces, source, text_of
from translator.reading import Instruction, Memory, Register
from translator.tables import COMPARED, ROUNDED, SAME, TESTED, WIDENED, Same


def same(i: Instruction) -> list[str]:
    """`d = f(a, b, ..., immediates)`, piece by piece."""
    entry = SAME.get(i.mnemonic)
    if entry is None:
        name, element = ROUNDED[i.mnemonic]
        entry = Same(name, element, 1, immediates=1)
        if not isinstance(i.operands[-1], int) or not 0 <= i.operands[-1] < 16:
            raise i.refuse("only rounding to whole numbers is known")
    sources, immediates = i.operands[1 : 1 + entry.sources], i.operands[1 + entry.sources :]
    destination = _destination(i)
    if len(immediates) != entry.immediates or not all(isinstance(n, int) for n in immediates):
        raise i.refuse()
    if _is_zero(i, sources):
        return clear(destination, 0)
    for operand in sources:
        if isinstance(operand, Register) and operand.kind != destination.kind:
            raise i.refuse()
        if isinstance(operand, Memory) and not operand.repeat and operand.bytes != destination.bytes:
            raise i.refuse()
    tail = "".join(f", {number}" for number in immediates)
    lines = []
    for piece in pieces(destination.bytes):
        names = [piece.register(n) for n in range(4)]
        held = [destination] if entry.fused else []
        for n, operand in enumerate([*held, *sources[:-1]]):
            lines += [f"vmovups {names[n]}, {text_of(i, operand, piece)}"]
        prepared, last = source(i, sources[-1], entry.element, piece, 3)
        lines += prepared
        count = len(held) + entry.sources - 1
        if count == 0 and tail:  # AVX2 shifts registers only
            lines.append(f"vmovups {names[3]}, {last}" if last != names[3] else "")
            last = names[3]
        front = names[: max(count, 1)] if entry.fused or not count else [names[0], *names[:count]]
        lines.append(f"{entry.mnemonic} {', '.join([*front, last])}{tail}")
        lines += finish(i, entry.element, piece, 0)
    return [line for line in lines if line] + clear(destination)


def _destination(i: Instruction) -> Register:
    destination = i.operands[0]
    if not isinstance(destination, Register) or destination.kind == "k":
        raise i.refuse()
    return destination


def _is_zero(i: Instruction, sources: tuple) -> bool:
    """Whether it is the usual way to write zero."""
    xors = i.mnemonic in ("vxorps", "vxorpd", "vpxor", "vpxord", "vpxorq")
    return xors and not i.mask and isinstance(sources[0], Register) and sources[0] == sources[1]


def compared(i: Instruction) -> list[str]:
    """`k = a ? b` lane by lane; under a mask, lanes that it leaves out are 0."""
    to, first, second, *numbers = i.operands
    tested = i.mnemonic in TESTED
    name, element = ("", TESTED[i.mnemonic]) if tested else COMPARED[i.mnemonic]
    expected = 1 if name == "vcmpps" else 0
    if not isinstance(to, Register) or to.kind != "k" or not isinstance(first, Register):
        raise i.refuse()
    if first.bytes < 32 or len(numbers) != expected or not all(isinstance(n, int) for n in numbers):
        raise i.refuse()
    tail = "".join(f", {number}" for number in numbers)
    lines = []
    results = pieces(first.bytes)
    for n, piece in enumerate(results):
        prepared, last = source(i, second, element, piece, 3)
        lines += [*prepared, f"vmovups ymm{n}, {text_of(i, first, piece)}"]
        if tested:
            letter = {1: "b", 2: "w", 4: "d"}[element]
            lines += [f"vpand ymm{n}, ymm{n}, {last}", "vpxor ymm4, ymm4, ymm4"]
            lines.append(f"vpcmpeq{letter} ymm{n}, ymm{n}, ymm4")
            if "testm" in i.mnemonic:
                lines += ["vpcmpeqd ymm4, ymm4, ymm4", f"vpxor ymm{n}, ymm{n}, ymm4"]
        else:
            lines.append(f"{name} ymm{n}, ymm{n}, {last}{tail}")
        if i.mask:
            lines += [*bits.expand("ymm14", i.mask, element, piece.offset), f"vpand ymm{n}, ymm{n}, ymm14"]
    lines.append(f"mov {state.mask(to.number)}, 0")
    for n, piece in enumerate(results):
        lines += bits.collect(f"ymm{n}", to.number, element, piece.offset)
    return lines


def widened(i: Instruction) -> list[str]:
    """Elements of a shorter register, or of memory, made longer."""
    short, element = WIDENED[i.mnemonic]
    destination = _destination(i)
    taken = destination.bytes * short // element
    (operand,) = i.operands[1:]
    if isinstance(operand, Memory):
        if operand.bytes != taken or operand.repeat:
            raise i.refuse()
    elif not isinstance(operand, Register) or operand.bytes != max(taken, 16):
        raise i.refuse()
    lines, results = [], pieces(destination.bytes)
    if isinstance(operand, Memory) and i.mask:
        lines += guarded(operand, i.mask, short, destination.bytes // element)
    for n, piece in enumerate(results):
        part = Piece(piece.offset * short // element, piece.size * short // element)
        if isinstance(operand, Memory) and i.mask:
            text = state.scratch(LOADED, part.offset, part.size)
        else:
            text = text_of(i, operand, part)
        lines.append(f"{i.mnemonic} {piece.register(n)}, {text}")
    for n, piece in enumerate(results):
        lines += finish(i, element, piece, n)
    return lines + clear(destination)
