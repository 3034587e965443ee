"""Instructions that do the same in every 32 bytes: what AVX2 calls them, and how long their elements are.

An entry says how many vector sources there are beside the destination, which `FUSED` ones read as well.
Immediates follow as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Same:
    """AVX2's name, bytes of an element (what the mask counts), vector sources."""

    mnemonic: str
    element: int
    sources: int = 2
    fused: bool = False
    immediates: int = 0


def _same(names: str, element: int, sources: int = 2, **more: Any) -> dict[str, Same]:
    return {name: Same(name, element, sources, **more) for name in names.split()}


def _renamed(names: str, element: int) -> dict[str, Same]:
    """AVX-512 appends to some names what the mask counts; AVX2 has no such name."""
    return {name: Same(name[:-1], element) for name in names.split()}


def _floats(names: str, sources: int = 2, **more: Any) -> dict[str, Same]:
    return {
        f"v{name}{kind}": Same(f"v{name}{kind}", element, sources, **more)
        for name in names.split()
        for kind, element in (("ps", 4), ("pd", 8))
    }


_FUSED = [f"{kind}{order}" for kind in ("fmadd", "fmsub", "fnmadd", "fnmsub") for order in (132, 213, 231)]

SAME: dict[str, Same] = {
    **_floats("add sub mul div max min and andn or xor unpckl unpckh"),
    **_floats("sqrt", 1),
    **_floats("shuf", 2, immediates=1),
    **_floats(" ".join(_FUSED), 2, fused=True),
    **_same("vcvtdq2ps vcvtps2dq vcvttps2dq vpabsd", 4, 1),
    **_same("vpaddb vpsubb vpaddusb vpsubusb vpaddsb vpsubsb vpminub vpmaxub vpminsb vpmaxsb vpavgb", 1),
    **_same("vpackuswb vpacksswb vpunpcklbw vpunpckhbw vpshufb", 1),
    **_same("vpaddw vpsubw vpaddusw vpsubusw vpaddsw vpsubsw vpminuw vpmaxuw vpminsw vpmaxsw vpavgw", 2),
    **_same("vpmullw vpmulhw vpmulhuw vpmulhrsw vpmaddubsw vpackssdw vpackusdw vpunpcklwd vpunpckhwd", 2),
    **_same("vpaddd vpsubd vpmulld vpminsd vpmaxsd vpminud vpmaxud vpmaddwd vpunpckldq vpunpckhdq", 4),
    **_same("vpsllvd vpsrlvd vpsravd vpermilps", 4),
    **_same("vpaddq vpsubq vpmuludq vpmuldq vpunpcklqdq vpunpckhqdq vpsllvq vpsrlvq vpermilpd", 8),
    **_same("vpabsb", 1, 1),
    **_same("vpabsw", 2, 1),
    **_same("vpsllw vpsrlw vpsraw vpshuflw vpshufhw", 2, 1, immediates=1),
    **_same("vpslld vpsrld vpsrad vpshufd", 4, 1, immediates=1),
    **_same("vpsllq vpsrlq vpermq vpermpd", 8, 1, immediates=1),
    **_same("vmovshdup vmovsldup", 4, 1),
    **_same("vmovddup", 8, 1),
    **_same("vpslldq vpsrldq", 1, 1, immediates=1),
    **_same("vpalignr", 1, 2, immediates=1),
    **_renamed("vpandd vpandnd vpord vpxord", 4),
    **_renamed("vpandq vpandnq vporq vpxorq", 8),
    **_same("vpand vpandn vpor vpxor", 4),
}

#: Only with an immediate of their own: (AVX2's name, bytes of an element). The low four bits agree.
ROUNDED = {"vrndscaleps": ("vroundps", 4), "vrndscalepd": ("vroundpd", 8)}

#: Comparisons of lanes into a mask register: (AVX2's name, bytes of an element).
COMPARED = {
    "vcmpps": ("vcmpps", 4),
    **{f"vpcmp{how}{kind}": (f"vpcmp{how}{kind}", size) for how in ("eq", "gt") for kind, size in
       (("b", 1), ("w", 2), ("d", 4))},
}  # fmt: skip

#: Tests of lanes into a mask register: bytes of an element; `n` asks for lanes without a common bit.
TESTED = {f"vptest{n}m{kind}": size for n in ("", "n") for kind, size in (("b", 1), ("w", 2), ("d", 4))}

#: (bytes of an element in memory, bytes of one in the register) of what makes elements longer.
WIDENED = {
    f"vpmov{sign}x{kind}": sizes
    for sign in "zs"
    for kind, sizes in (
        ("bw", (1, 2)),
        ("bd", (1, 4)),
        ("bq", (1, 8)),
        ("wd", (2, 4)),
        ("wq", (2, 8)),
        ("dq", (4, 8)),
    )
} | {"vcvtph2ps": (2, 4), "vcvtps2pd": (4, 8), "vcvtdq2pd": (4, 8)}
