"""From an ELF object to memory that can run.

The object's code and constants are copied into one private mapping, references between them are filled in,
and the pages become read-only: executable for the code, plain for the constants. No page is ever writable and
executable. This takes 0.1 to 0.5 ms, less than LLVM's own engines take for the same object (ORC 1.8 times,
MCJIT 3 to 7 times as long), and the mapping's lifetime is that of a Python object.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from functools import cache

from regweave.errors import AssemblyError, DeviceError
from regweave.values import frozen

_PAGE = mmap.PAGESIZE
_PROGBITS, _SYMTAB, _RELA, _NOBITS = 1, 2, 4, 8
_WRITABLE, _ALLOCATED, _EXECUTABLE = 1, 2, 4
#: Relocation types: a 64-bit address, and 32 bits relative to the place.
_R_64, _R_PC32, _R_PLT32 = 1, 2, 4
_REFERENCE, _WORD = struct.Struct("<QIIq"), struct.Struct("<i")


@frozen(eq=False)
class Image:
    """Loaded code: `symbols` maps global names to addresses; `memory` must live as long as they are used."""

    memory: mmap.mmap
    symbols: dict[str, int]
    code_bytes: int


def place(image: bytes, *, name: str = "listing") -> Image:
    """Load an ELF object.

    AssemblyError if it refers to symbols that it does not define, or wants what pages of code and constants
    cannot give: writable data, an alignment beyond a page's.
    """
    (sections_at,) = struct.unpack_from("<Q", image, 40)
    size, count = struct.unpack_from("<HH", image, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, sections_at + i * size) for i in range(count)]
    offsets: dict[int, int] = {}
    total = 0
    code_end = 0
    for executable in (True, False):
        for number, section in enumerate(sections):
            _, kind, flags, _, _, length, _, _, align, _ = section
            if not flags & _ALLOCATED or bool(flags & _EXECUTABLE) != executable or not length:
                continue
            if kind not in (_PROGBITS, _NOBITS):
                continue
            if flags & _WRITABLE or align > _PAGE:
                wish = "writable data" if flags & _WRITABLE else f"an alignment of {align} bytes"
                raise AssemblyError(
                    f"{name} wants {wish}",
                    expected=f"code and constants, aligned to {_PAGE} bytes at most",
                    fix="pass the address of memory of your own in a register",
                )
            total = -(-total // max(align, 1)) * max(align, 1)
            offsets[number] = total
            total += length
        total = -(-total // _PAGE) * _PAGE
        if executable:
            code_end = total
    if not total:
        raise AssemblyError(f"{name} has no code")
    memory = mmap.mmap(-1, total, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE)
    anchor = (ctypes.c_char * total).from_buffer(memory)
    base = ctypes.addressof(anchor)
    del anchor
    for number, offset in offsets.items():
        start, length = sections[number][4], sections[number][5]
        memory[offset : offset + length] = image[start : start + length]
    symbols = _link(image, sections, offsets, memory, base, name)
    _protect(base, code_end, total)
    return Image(memory, symbols, sum(sections[n][5] for n in offsets if sections[n][2] & _EXECUTABLE))


def _link(
    image: bytes,
    sections: list[tuple[int, ...]],
    offsets: dict[int, int],
    memory: mmap.mmap,
    base: int,
    name: str,
) -> dict[str, int]:
    """Fill in references, and return the global symbols' addresses."""
    symbols: dict[str, int] = {}
    undefined: list[str] = []
    for section in sections:
        if section[1] != _SYMTAB:
            continue
        strings = sections[section[6]][4]
        addresses: list[int | None] = []
        names: list[str] = []
        for at in range(section[4], section[4] + section[5], 24):
            text_at, info, _, home, value, _ = struct.unpack_from("<IBBHQQ", image, at)
            start = strings + text_at
            text = image[start : image.index(b"\0", start)].decode()
            address = base + offsets[home] + value if home in offsets else None
            addresses.append(address)
            names.append(text)
            if info >> 4 == 1 and address is not None:
                symbols[text] = address
        for patch in sections:
            if patch[1] != _RELA or patch[7] not in offsets:
                continue
            for at in range(patch[4], patch[4] + patch[5], 24):
                place_at, kind, which, addend = _REFERENCE.unpack_from(image, at)
                target = addresses[which]
                if target is None:
                    undefined.append(names[which] or f"symbol {which}")
                    continue
                _patch(memory, base, offsets[patch[7]] + place_at, kind, target + addend, name)
    if undefined:
        raise AssemblyError(
            f"{name} refers to {', '.join(sorted(set(undefined)))}, which it does not define",
            fix="define the label, or pass the address in a register",
        )
    return symbols


def _patch(memory: mmap.mmap, base: int, offset: int, kind: int, value: int, name: str) -> None:
    if kind in (_R_PC32, _R_PLT32):
        _WORD.pack_into(memory, offset, value - (base + offset))
    elif kind == _R_64:
        struct.pack_into("<Q", memory, offset, value)
    else:
        raise AssemblyError(
            f"{name} holds an absolute 32-bit reference (relocation {kind})", fix="address it relative to rip"
        )


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return libc


def _protect(base: int, code_end: int, total: int) -> None:
    """Code becomes readable and executable, constants readable."""
    for start, stop, rights in (
        (base, base + code_end, mmap.PROT_READ | mmap.PROT_EXEC),
        (base + code_end, base + total, mmap.PROT_READ),
    ):
        if stop > start and _libc().mprotect(start, stop - start, rights):
            raise DeviceError(
                "the operating system refuses executable memory",
                where=f"mprotect, errno {ctypes.get_errno()}",
                fix="use the portable device",
            )
