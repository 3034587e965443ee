"""A shared library without a linker: an ELF file whose exported functions jump to wherever we say later.

onnxruntime takes custom operators only from a shared library (`register_custom_ops_library(path)`) that
exports `RegisterCustomOps`. There is no linker at run time, but such a library needs almost nothing:

    RegisterCustomOps:       jmp *RegisterCustomOps_slot(%rip)
    RegisterCustomOps_slot:  .quad 0                            exported data: the process stores an address

so it is written here byte by byte. One page holds headers, symbols and code (read, execute), the next holds
the dynamic section and the slots (read, write):

    offset 0      ELF header, 4 program headers, hash table, symbols, strings, code
    offset 4096   dynamic section, one 8-byte slot per function

`readelf -a` accepts the result, and tests load it with the system's own loader.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

PAGE = 0x1000
_HEADER = 64
_PROGRAM_HEADER = 56
_SYMBOL = 24
_JUMP = 6
"""Bytes of `jmp *rel32(%rip)`."""

_X86_64 = 62
_LOAD, _DYNAMIC, _STACK = 1, 2, 0x6474E551
_READ_EXECUTE, _READ_WRITE = 5, 6
_GLOBAL_FUNCTION, _GLOBAL_OBJECT = 0x12, 0x11
_HASH, _STRTAB, _SYMTAB, _STRSZ, _SYMENT, _SONAME, _END = 4, 5, 6, 10, 11, 14, 0


def slot_name(function: str) -> str:
    """The exported data symbol that holds the address to which `function` jumps."""
    return f"{function}_slot"


def shared_object(functions: Sequence[str], name: str) -> bytes:
    """The bytes of an x86-64 ELF shared library called `name` that exports `functions` and their slots."""
    count = len(functions)
    strings, places = _string_table([name, *functions, *map(slot_name, functions)])
    symbols_count = 1 + 2 * count
    hash_at = _HEADER + 4 * _PROGRAM_HEADER
    symbols_at = _aligned(hash_at + 4 * (3 + symbols_count), 8)
    strings_at = symbols_at + _SYMBOL * symbols_count
    code_at = _aligned(strings_at + len(strings), 16)
    code_end = code_at + 16 * count
    assert code_end <= PAGE, "more functions than one page of headers and code can hold"

    dynamic = _pairs(
        (_HASH, hash_at), (_STRTAB, strings_at), (_SYMTAB, symbols_at), (_STRSZ, len(strings)),
        (_SYMENT, _SYMBOL), (_SONAME, places[name]), (_END, 0),
    )  # fmt: skip
    slots_at = PAGE + len(dynamic)
    symbols, code = bytes(_SYMBOL), b""
    for index, function in enumerate(functions):
        here, slot = code_at + 16 * index, slots_at + 8 * index
        symbols += _symbol(places[function], _GLOBAL_FUNCTION, 1, here, _JUMP)
        symbols += _symbol(places[slot_name(function)], _GLOBAL_OBJECT, 2, slot, 8)
        code += (b"\xff\x25" + struct.pack("<i", slot - (here + _JUMP))).ljust(16, b"\xcc")

    image = bytearray(slots_at + 8 * count)
    writable = len(image) - PAGE
    headers = (
        _file_header()
        + _program_header(_LOAD, _READ_EXECUTE, 0, code_end, PAGE)
        + _program_header(_LOAD, _READ_WRITE, PAGE, writable, PAGE)
        + _program_header(_DYNAMIC, _READ_WRITE, PAGE, len(dynamic), 8)
        + _program_header(_STACK, _READ_WRITE, 0, 0, 16)
    )
    for at, part in (
        (0, headers), (hash_at, _hash_table(symbols_count)), (symbols_at, symbols),
        (strings_at, strings), (code_at, code), (PAGE, dynamic),
    ):  # fmt: skip
        image[at : at + len(part)] = part
    return bytes(image)


def _aligned(at: int, to: int) -> int:
    return -(-at // to) * to


def _string_table(names: Sequence[str]) -> tuple[bytes, dict[str, int]]:
    table, places = b"\0", {}
    for name in names:
        places[name] = len(table)
        table += name.encode() + b"\0"
    return table, places


def _pairs(*pairs: tuple[int, int]) -> bytes:
    return b"".join(struct.pack("<QQ", *pair) for pair in pairs)


def _symbol(name: int, kind: int, section: int, address: int, size: int) -> bytes:
    return struct.pack("<IBBHQQ", name, kind, 0, section, address, size)


def _hash_table(symbols: int) -> bytes:
    """One bucket whose chain visits every symbol: with a handful of names, hashing has nothing to gain."""
    chain = [0, *(index + 1 if index + 1 < symbols else 0 for index in range(1, symbols))]
    return struct.pack(f"<{3 + symbols}I", 1, symbols, 1, *chain)


def _file_header() -> bytes:
    magic = b"\x7fELF" + bytes([2, 1, 1, 0]) + bytes(8)
    return magic + struct.pack(
        "<HHIQQQIHHHHHH", 3, _X86_64, 1, 0, _HEADER, 0, 0, _HEADER, _PROGRAM_HEADER, 4, 64, 0, 0
    )


def _program_header(kind: int, flags: int, at: int, size: int, align: int) -> bytes:
    return struct.pack("<IIQQQQQQ", kind, flags, at, at, at, size, size, align)
