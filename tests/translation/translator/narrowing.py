"""Elements made shorter: cut off, or the largest there is where they are beyond it."""

from __future__ import annotations

from translator import state
from translator.pieces import clear, pieces, text_of
from translator.reading import Instruction, Memory, Register

#: (constant with the largest element, what brings elements below it, packs that follow, bytes left of one).
NARROWED = {
    "vpmovusdb": ("byte4", "vpminud", ("vpackusdw", "vpackuswb"), 4),
    "vpmovusdw": ("word4", "vpminud", ("vpackusdw",), 2),
    "vpmovuswb": ("byte2", "vpminuw", ("vpackuswb",), 2),
    "vpmovdb": ("byte4", "vpand", ("vpackusdw", "vpackuswb"), 4),
    "vpmovdw": ("word4", "vpand", ("vpackusdw",), 2),
    "vpmovwb": ("byte2", "vpand", ("vpackuswb",), 2),
}


def narrowed(i: Instruction) -> list[str]:
    """`d = short(a)`; packs leave what they make in both 128 bits, from where it is put together."""
    limit, within, packs, ratio = NARROWED[i.mnemonic]
    to, origin = i.operands
    if i.mask or not isinstance(origin, Register) or origin.kind != "z":
        raise i.refuse()
    size = origin.bytes // ratio
    if to.bytes != size if isinstance(to, Register | Memory) else True:
        raise i.refuse()
    lines = []
    for n, piece in enumerate(pieces(origin.bytes)):
        lines += [f"vmovups ymm{n}, {text_of(i, origin, piece)}"]
        lines.append(f"{within} ymm{n}, ymm{n}, {state.constant(limit)}")
    lines += [f"{packs[0]} ymm0, ymm0, ymm1", "vpermq ymm0, ymm0, 0xd8"]
    if len(packs) == 2:
        lines += ["vextracti128 xmm1, ymm0, 1", f"{packs[1]} xmm0, xmm0, xmm1"]
    register = f"{'y' if size == 32 else 'x'}mm0"
    if isinstance(to, Memory):
        return [*lines, f"vmovups {to.text()}, {register}"]
    assert isinstance(to, Register)
    return [*lines, f"vmovups {state.vector(to.number, 0, size)}, {register}", *clear(to)]


#: Floats of 64 bits made shorter, which AVX2 has for two 128 bits of them.
HALVED = ("vcvtpd2dq", "vcvttpd2dq", "vcvtpd2ps")


def halved(i: Instruction) -> list[str]:
    """`d = short(a)`, a register half as long as a."""
    to, origin = i.operands
    if i.mask or not isinstance(to, Register) or not isinstance(origin, Register):
        raise i.refuse()
    if origin.kind != "z" or to.kind != "y":
        raise i.refuse()
    lines = [f"vmovups ymm{n}, {text_of(i, origin, piece)}" for n, piece in enumerate(pieces(origin.bytes))]
    lines += [f"{i.mnemonic} xmm{n}, ymm{n}" for n in (0, 1)]
    return [
        *lines,
        "vinserti128 ymm0, ymm0, xmm1, 1",
        f"vmovups {state.vector(to.number, 0)}, ymm0",
        *clear(to),
    ]
