"""Masks as vectors of all ones and zeros, and back; scalar code in between that leaves no trace.

    expand("ymm14", 1, 4, 32)   # lanes 8 to 15 of k1, 4 bytes each: all ones where the bit is set
    collect("ymm0", 1, 4, 32)   # the reverse: bits 8 to 15 of k1 from eight lanes

Neither changes the flags or a general register.
"""

from __future__ import annotations

from translator import state


def expand(to: str, number: int, element: int, offset: int) -> list[str]:
    """`to` (an xmm or ymm register) gets the lanes from byte `offset` on of mask register `number`."""
    wide, size = {1: ("d", 4), 2: ("w", 2), 4: ("d", 4), 8: ("q", 8)}[element]
    letter = {1: "b", 2: "w", 4: "d", 8: "q"}[element]
    start = offset // element // 8  # of the byte that has the first lane's bit
    bits = state.constant(f"bits{element}", offset if element == 8 else 0, 16 if to[0] == "x" else 32)
    lines = [f"vpbroadcast{wide} {to}, {state.mask(number, size, start)}"]
    if element == 1:
        lines.append(f"vpshufb {to}, {to}, {state.constant('spread', 0, 16 if to[0] == 'x' else 32)}")
    return [*lines, f"vpand {to}, {to}, {bits}", f"vpcmpeq{letter} {to}, {to}, {bits}"]


def collect(source: str, number: int, element: int, offset: int) -> list[str]:
    """Bits of mask register `number` from the 32 bytes of lanes in `source` (a ymm register, lost)."""
    half = f"x{source[1:]}"
    take = {
        1: [f"vpmovmskb eax, {source}", f"mov {state.mask(number, 4, offset // 8)}, eax"],
        2: [
            f"vextracti128 xmm15, {source}, 1",
            f"vpacksswb {half}, {half}, xmm15",
            f"vpmovmskb eax, {half}",
            f"mov {state.mask(number, 2, offset // 16)}, ax",
        ],
        4: [f"vmovmskps eax, {source}", f"mov {state.mask(number, 1, offset // 32)}, al"],
    }[element]
    return [f"mov {state.at(state.RAX, 8)}, rax", *take, f"mov rax, {state.at(state.RAX, 8)}"]


def untraced(lines: list[str], address: str | None = None) -> list[str]:
    """Scalar code that may change rax and the flags, with `address` in rcx; all three are as before behind
    it."""
    rax, rcx, flags = state.at(state.RAX, 8), state.at(state.RCX, 8), state.at(state.FLAGS, 2)
    return [
        f"mov {rax}, rax",
        f"mov {rcx}, rcx",
        *([f"lea rcx, [{address}]"] if address else []),
        "lahf",
        "seto al",
        f"mov {flags}, ax",
        *lines,
        f"mov ax, {flags}",
        "add al, 127",  # overflows if it was 1
        "sahf",
        f"mov rcx, {rcx}",
        f"mov rax, {rax}",
    ]


def each_set(number: int, lanes: int, act: list[list[str]]) -> list[str]:
    """`act[i]` where bit i of a mask register is set; inside `untraced`."""
    lines = []
    for lane in range(lanes):
        lines += [
            f"test {state.mask(number, 1, lane // 8)}, {1 << lane % 8}",
            "jz 9f",
            *act[lane],
            "9:",
        ]
    return lines
