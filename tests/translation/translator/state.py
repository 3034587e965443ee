"""Where registers lie in a thread's file, and constants that translated code needs.

    >>> vector(3, 32)           # the upper half of zmm3
    'ymmword ptr gs:[224]'

A file is one page. Behind the registers lie a few blocks of scratch memory of 64 bytes, what the flags and
two general registers are kept in meanwhile, and the address of the thread that owns it.
"""

from __future__ import annotations

import struct

from translator.reading import WORDS

VECTORS, MASKS, SCRATCH, KEPT = 0, 2048, 2112, 2624
#: One page, so that no file shares a page with another.
BYTES = 4096
RAX, RCX, FLAGS, OWNER = KEPT, KEPT + 8, KEPT + 16, KEPT + 24


def at(offset: int, size: int) -> str:
    """`size` bytes of the file."""
    return f"{WORDS[size]} ptr gs:[{offset}]"


def place(number: int, offset: int = 0) -> int:
    """Where byte `offset` of a vector register lies."""
    return VECTORS + 64 * number + offset


def vector(number: int, offset: int = 0, size: int = 32) -> str:
    """`size` bytes of a vector register."""
    return at(place(number, offset), size)


def mask(number: int, size: int = 8, offset: int = 0) -> str:
    """`size` bytes of a mask register."""
    return at(MASKS + 8 * number + offset, size)


def scratch(block: int, offset: int = 0, size: int = 32) -> str:
    """`size` bytes of a block of scratch memory; blocks lie side by side."""
    return at(SCRATCH + 64 * block + offset, size)


#: Contents by name; all are written behind every function that was translated.
CONSTANTS: dict[str, bytes] = {
    # a bit for each lane of 32 bytes, by the bytes of a lane
    "bits1": bytes(1 << i % 8 for i in range(32)),
    "bits2": struct.pack("<16H", *(1 << i for i in range(16))),
    "bits4": struct.pack("<8I", *(1 << i for i in range(8))),
    "bits8": struct.pack("<8Q", *(1 << i for i in range(8))),
    # which of four bytes holds a byte lane's bit
    "spread": bytes(i // 8 for i in range(32)),
    # the bits that masks of so many lanes have
    **{f"lanes{n}": struct.pack("<QQ", (1 << n) - 1, 0) for n in (2, 4, 8, 16, 32, 64)},
    "absolute": struct.pack("<8I", *[0x7FFFFFFF] * 8),
    "infinity": struct.pack("<8I", *[0x7F800000] * 8),
    "absolute8": struct.pack("<4Q", *[0x7FFFFFFFFFFFFFFF] * 4),
    "infinity8": struct.pack("<4Q", *[0x7FF0000000000000] * 4),
    "least8": struct.pack("<4d", *[-500.0] * 4),
    "most8": struct.pack("<4d", *[500.0] * 4),
    "bias8": struct.pack("<4Q", *[1023] * 4),
    "byte4": struct.pack("<8I", *[0xFF] * 8),
    "word4": struct.pack("<8I", *[0xFFFF] * 8),
    "byte2": struct.pack("<16H", *[0xFF] * 16),
    # indices of so many elements in one or two vectors: 64 bytes of indices, of 1, 2, 4 bytes each
    **{f"index1_{n}": struct.pack("<32B", *[n - 1] * 32) for n in (16, 32, 64, 128)},
    **{f"index2_{n}": struct.pack("<16H", *[n - 1] * 16) for n in (8, 16, 32, 64)},
    # what the control register holds to round to nearest, down, up, to zero
    "rounding": struct.pack("<4I", *(0x1F80 | mode << 13 for mode in range(4))),
    "misaligned": struct.pack("<Q", 32),
}


def constant(name: str, offset: int = 0, size: int = 32) -> str:
    """A constant as a memory operand."""
    assert name in CONSTANTS, name
    return f"{WORDS[size]} ptr [rip+.Ltranslated.{name}{offset:+d}]"


def constants_text() -> str:
    """The section with all constants."""
    lines = [".section .rodata", ".balign 64"]
    for name, content in sorted(CONSTANTS.items(), key=lambda item: -len(item[1])):
        lines += [f".balign {min(32, len(content))}", f".Ltranslated.{name}:"]
        lines.append(".byte " + ",".join(map(str, content)))
    return "\n".join(lines) + "\n"
