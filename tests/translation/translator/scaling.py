"""`vscalefps` and `vreduceps`: a times a power of two, and what is left beside a whole number.

A scale is exact: it is done on doubles, whose range holds every product of a float with 2^-500 to 2^500, and
rounded once.
"""

from __future__ import annotations

from translator import state
from translator.pieces import Piece, clear, finish, pieces, source, text_of
from translator.reading import Instruction, Memory, Register


def scaled(i: Instruction) -> list[str]:
    """`d = a * 2^floor(b)`; an infinite b is a factor of 0 or infinity, and a NaN stays one."""
    to, first, second = i.operands
    if not isinstance(to, Register) or not isinstance(first, Register) or first.kind != to.kind:
        raise i.refuse()
    if isinstance(second, Memory) and (i.mask or second.repeat or second.bytes != to.bytes):
        raise i.refuse()
    lines = []
    for piece in pieces(to.bytes):
        for half in range(0, piece.size, 16):
            part = Piece(piece.offset + half, 16)
            result = half // 16
            lines += [
                f"vcvtps2pd ymm2, {text_of(i, first, part)}",
                f"vcvtps2pd ymm3, {text_of(i, second, part)}",
                "vroundpd ymm3, ymm3, 9",
                # the factor, if b is finite
                f"vmaxpd ymm4, ymm3, {state.constant('least8')}",
                f"vminpd ymm4, ymm4, {state.constant('most8')}",
                "vcvtpd2dq xmm4, ymm4",
                "vpmovsxdq ymm4, xmm4",
                f"vpaddq ymm4, ymm4, {state.constant('bias8')}",
                "vpsllq ymm4, ymm4, 52",
                # and if it is not: b itself, 0 for what is below
                "vpxor ymm5, ymm5, ymm5",
                "vmaxpd ymm5, ymm5, ymm3",
                f"vandpd ymm6, ymm3, {state.constant('absolute8')}",
                f"vcmppd ymm6, ymm6, {state.constant('infinity8')}, 5",  # not less than
                "vblendvpd ymm4, ymm4, ymm5, ymm6",
                "vmulpd ymm2, ymm2, ymm4",
                f"vcvtpd2ps xmm{result}, ymm2",
            ]
        if piece.size == 32:
            lines.append("vinserti128 ymm0, ymm0, xmm1, 1")
        lines += finish(i, 4, piece, 0)
    return lines + clear(to)


def reduced(i: Instruction) -> list[str]:
    """`d = a - rounded(a)`, 0 for an infinite a; the difference is rounded as a is."""
    to, origin, number = i.operands
    if not isinstance(to, Register) or not isinstance(number, int) or not 0 <= number < 16:
        raise i.refuse()
    if isinstance(origin, Register) and origin.kind != to.kind:
        raise i.refuse()
    lines = [f"stmxcsr {state.at(state.FLAGS, 4)}"]
    if number & 4 == 0:  # else as the program rounds
        lines.append(f"ldmxcsr {state.constant('rounding', 4 * (number & 3), 4)}")
    for piece in pieces(to.bytes):
        a, b, c = (piece.register(n) for n in (0, 1, 2))
        prepared, text = source(i, origin, 4, piece, 3)
        lines += [
            *prepared,
            f"vmovups {a}, {text}",
            f"vroundps {b}, {a}, {number}",
            f"vandps {c}, {a}, {state.constant('absolute', 0, piece.size)}",
            f"vcmpps {c}, {c}, {state.constant('infinity', 0, piece.size)}, 0",
            f"vsubps {a}, {a}, {b}",
            f"vandnps {a}, {c}, {a}",
            *finish(i, 4, piece, 0),
        ]
    return [*lines, f"ldmxcsr {state.at(state.FLAGS, 4)}", *clear(to)]
