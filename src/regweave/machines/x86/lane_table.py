"""Entries that move lanes: fixed picks of two vectors, and picks by an index vector.

`unpack_low` and its like are cheap, for they need no index. `pick` takes any lanes of two vectors (AVX-512
only), `permute` any lanes of one. `machines/x86/picks.py` says which pick is which entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from regweave.machines.instructions import Instruction, Pattern

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Lanes = NDArray[Any]


def _quarters(vector: Lanes) -> Lanes:
    return vector.reshape(-1, 4)


def _of_two(order: tuple[int, ...]) -> Any:
    """What picks the lanes `order` of the eight in a quarter of a and the same quarter of b."""

    def meaning(a: Lanes, b: Lanes) -> Lanes:
        return np.concatenate([_quarters(a), _quarters(b)], axis=1)[:, order].ravel()

    return meaning


def _fields(number: int) -> tuple[int, int, int, int]:
    return number & 3, number >> 2 & 3, number >> 4 & 3, number >> 6 & 3


def shuffle_within(a: Lanes, b: Lanes, number: int) -> Lanes:
    first, second, third, fourth = _fields(number)
    return _of_two((first, second, 4 + third, 4 + fourth))(a, b)


def permute_pairs(a: Lanes, number: int) -> Lanes:
    return a.reshape(-1, 4, 2)[:, _fields(number)].ravel()


def shuffle_quarters(a: Lanes, b: Lanes, number: int) -> Lanes:
    first, second, third, fourth = _fields(number)
    return np.concatenate([_quarters(a)[[first, second]], _quarters(b)[[third, fourth]]]).ravel()


def shuffle_halves(a: Lanes, b: Lanes, number: int) -> Lanes:
    both = np.concatenate([_quarters(a), _quarters(b)])
    # bits 3 and 7 clear a half instead
    halves = [both[n & 3] if not n & 8 else np.zeros(4, a.dtype) for n in (number, number >> 4)]
    return np.concatenate(halves)


def blend(a: Lanes, b: Lanes, number: int) -> Lanes:
    return np.where(number >> np.arange(a.size) & 1, b, a)


def permute(index: Lanes, a: Lanes) -> Lanes:
    return a[index.view(np.uint32) % a.size]


def slide(a: Lanes, b: Lanes, number: int) -> Lanes:
    return np.concatenate([b, a])[number % a.size :][: a.size]


def pick(a: Lanes, index: Lanes, b: Lanes) -> Lanes:
    return np.concatenate([a, b])[index.view(np.uint32) % (2 * a.size)]


def pick_halves(a: Lanes, index: Lanes, b: Lanes) -> Lanes:
    halves = np.concatenate([a, b]).view(np.uint16)
    return halves[index.view(np.uint16) % halves.size].view(a.dtype)


def pick_bytes(a: Lanes, index: Lanes, b: Lanes) -> Lanes:
    pieces = np.concatenate([a, b]).view(np.uint8)
    return pieces[index.view(np.uint8) % pieces.size].view(a.dtype)


def lane_table(wide: bool) -> tuple[Instruction, ...]:
    """The entries for AVX-512 (`wide`) or AVX2."""

    def two(name: str, mnemonic: str, order: tuple[int, ...], help: str) -> Instruction:
        pattern = Pattern("d:v a:v b:v|m", f"{mnemonic} %=0, %1, %2", latency=1)
        return Instruction(name, (pattern,), _of_two(order), help)

    def immediate(name: str, mnemonic: str, meaning: Any, latency: float, help: str) -> Instruction:
        pattern = Pattern("d:v a:v b:v|m number:i<256", f"{mnemonic} %=0, %1, %2, %3", latency=latency)
        return Instruction(name, (pattern,), meaning, help)

    def by_index(name: str, mnemonic: str, meaning: Any, help: str) -> Instruction:
        # the instruction overwrites its first table
        lines = ("vmovaps %=0, %1", f"{mnemonic} %+0, %2, %3")
        return Instruction(name, (Pattern("d:v a:v index:v b:v|m", lines, latency=4),), meaning, help)

    shared = (
        two("unpack_low", "vunpcklps", (0, 4, 1, 5), "d = a0 b0 a1 b1 in every 128 bits"),
        two("unpack_high", "vunpckhps", (2, 6, 3, 7), "d = a2 b2 a3 b3 in every 128 bits"),
        two("unpack_low_pairs", "vunpcklpd", (0, 1, 4, 5), "d = a0 a1 b0 b1 in every 128 bits"),
        two("unpack_high_pairs", "vunpckhpd", (2, 3, 6, 7), "d = a2 a3 b2 b3 in every 128 bits"),
        immediate(
            "shuffle_within", "vshufps", shuffle_within, 1, "d = two lanes of a, two of b, in every 128 bits"
        ),
        Instruction(
            "permute_pairs",
            (Pattern("d:v a:v|m number:i<256", "vpermpd %=0, %1, %2", latency=3),),
            permute_pairs,
            "d = pairs of lanes of a, in every 256 bits",
        ),
        Instruction(
            "permute",
            (Pattern("d:v index:v a:v|m", "vpermps %=0, %1, %2", latency=3),),
            permute,
            "d = any lanes of a",
        ),
    )
    if not wide:
        return (
            *shared,
            immediate("shuffle_halves", "vperm2f128", shuffle_halves, 3, "d = any two halves of a and b"),
            immediate("blend", "vblendps", blend, 1, "d = lanes of b where the number's bit is set, else a"),
        )
    return (
        *shared,
        immediate("shuffle_quarters", "vshuff32x4", shuffle_quarters, 3, "d = two quarters of a, two of b"),
        immediate(
            "slide", "valignd", slide, 3, "d = the lanes of b from the number on, then the first ones of a"
        ),
        by_index("pick", "vpermt2ps", pick, "d = any lanes of a and b"),
        by_index("pick_halves", "vpermt2w", pick_halves, "d = any 16-bit halves of lanes of a and b"),
        by_index("pick_bytes", "vpermt2b", pick_bytes, "d = any bytes of a and b (AVX-512 VBMI)"),
    )
