"""Code objects of AMD's GPUs: assembled and linked, and the counts that stand in them.

    >>> data = assemble(listing.text, "gfx906:xnack-")
    >>> read_counts(data, "saxpy").vectors
    8

Assembler and linker are the clang and lld of ziglang's wheel (extra `amdgpu`). The counts come from two
places that must agree with what the text declared: the kernel descriptor (`NAME.kd`, 64 bytes), in granules,
and the metadata note (a MessagePack document), exactly.

Facts: LLVM's AMDGPUUsage, "Kernel Descriptor" and "Code Object V5 Metadata".
"""

from __future__ import annotations

import importlib.util
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from regweave.devices.hip.messagepack import unpack
from regweave.errors import AssemblyError, DeviceError, InputError, RegweaveError
from regweave.values import frozen

_TRIPLE = "amdgcn-amd-amdhsa"
_EXECUTABLE = 4
_NOTE, _STRINGS = 7, 2
_METADATA = 32
#: Registers of a lane's file, and scalar registers, per unit of the descriptor's fields.
_GRANULES = {"gfx906": (4, 8), "gfx90a": (8, 8), "gfx942": (8, 8)}
_UNIFIED = ("gfx90a", "gfx942")


@frozen
class Counts:
    """What an object says of one kernel.

    `file` and `scalar_file` are the registers that the descriptor allocates (whole granules), `offset` where
    accumulation registers begin (0 without). `vectors`, `accumulators` and `scalars` are the metadata's exact
    numbers; there `vectors` counts accumulators too where they share a file. `code` is the machine code's
    bytes.
    """

    file: int
    scalar_file: int
    offset: int
    lds_bytes: int
    kernarg_bytes: int
    vectors: int
    accumulators: int
    scalars: int
    code: int


def assemble(text: str, target: str, *, link: bool = True) -> bytes:
    """Assembly text as a loadable code object, or (not `link`) as an object file, for `gfx906:xnack-`.

    AssemblyError with the assembler's words and the line; DeviceError if there is no assembler.
    """
    if importlib.util.find_spec("ziglang") is None:
        raise DeviceError(
            "the assembler for AMD's GPUs is missing", where="hip", fix="pip install 'regweave[amdgpu]'"
        )
    tool = [sys.executable, "-m", "ziglang"]
    with tempfile.TemporaryDirectory(prefix="regweave-") as folder:
        source, made, linked = (Path(folder) / name for name in ("k.s", "k.o", "k.co"))
        source.write_text(text)
        clang = [*tool, "clang", "-target", _TRIPLE, f"-mcpu={target}", "-c"]
        _run([*clang, str(source), "-o", str(made)], text, str(source))
        if not link:
            return made.read_bytes()
        _run([*tool, "ld.lld", "-shared", str(made), "-o", str(linked)], text, str(source))
        return linked.read_bytes()


def _run(command: list[str], text: str, source: str) -> None:
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode == 0:
        return
    words = run.stderr.replace(f"{source}:", "").strip()
    number = words.partition(":")[0]
    lines = text.splitlines()
    where = lines[int(number) - 1].strip() if number.isdigit() and 0 < int(number) <= len(lines) else None
    message = words.splitlines()[0] if words else "no reason given"
    raise AssemblyError(f"the assembler refuses the text: {message}", where=where)


def read_counts(data: bytes, name: str) -> Counts:
    """The counts of kernel `name` in an object. InputError if it is no such object or lacks the kernel."""
    with _reading():
        return _counts(data, name)


def machine_code(data: bytes) -> bytes:
    """The instructions of an object, all its code sections one after the other. InputError if it is none."""
    with _reading():
        return b"".join(
            data[at : at + size]
            for kind, flags, at, size, _, _ in _sections(data)
            if kind == 1 and flags & _EXECUTABLE
        )


@contextmanager
def _reading() -> Iterator[None]:
    """What cannot be read inside is a damaged object."""
    try:
        yield
    except RegweaveError:
        raise
    except (
        struct.error,
        LookupError,
        ValueError,
        TypeError,
        AttributeError,
        StopIteration,
        OverflowError,
    ) as error:
        raise InputError(
            f"the object is cut off or damaged ({error})", expected="a whole object file"
        ) from None


def _counts(data: bytes, name: str) -> Counts:
    sections = list(_sections(data))
    symbols = dict(_symbols(data, sections))
    metadata = next((unpack(note) for note in _notes(data, sections)), None)
    if f"{name}.kd" not in symbols or name not in symbols or not isinstance(metadata, Mapping):
        raise InputError(f"the object has no kernel {name!r}", expected="a symbol, a descriptor and metadata")
    kernel = next(entry for entry in metadata["amdhsa.kernels"] if entry[".name"] == name)
    machine = metadata["amdhsa.target"].rpartition("--")[2].partition(":")[0]
    place = symbols[f"{name}.kd"][0]
    lds, _, kernarg = struct.unpack_from("<III", data, place)
    third, first = struct.unpack_from("<II", data, place + 44)
    vector, scalar = _GRANULES[machine]
    unified = machine in _UNIFIED
    return Counts(
        file=((first & 63) + 1) * vector,
        scalar_file=((first >> 6 & 15) + 1) * scalar,
        offset=((third & 63) + 1) * 4 if unified else 0,
        lds_bytes=lds,
        kernarg_bytes=kernarg,
        vectors=kernel[".vgpr_count"],
        accumulators=kernel.get(".agpr_count", 0),
        scalars=kernel[".sgpr_count"],
        code=symbols[name][1],
    )


Section = tuple[int, int, int, int, int, int]


def _sections(data: bytes) -> Iterator[Section]:
    """(kind, flags, place in the file, size, link, address) of each section."""
    if data[:5] != b"\x7fELF\x02" or len(data) < 64:
        raise InputError("this is no object file", expected="ELF of 64 bits")
    start, count = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
    for number in range(count):
        header = struct.unpack_from("<IIQQQQIIQQ", data, start + 64 * number)
        yield header[1], header[2], header[4], header[5], header[6], header[3]


def _symbols(data: bytes, sections: list[Section]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Each symbol's place in the file and size."""
    for kind, _, at, size, link, _ in sections:
        if kind != _STRINGS:
            continue
        names = sections[link][2]
        for entry in range(at, at + size, 24):
            name, _, _, section, value, length = struct.unpack_from("<IBBHQQ", data, entry)
            if 0 < section < len(sections):
                text = data[names + name : data.index(b"\0", names + name)].decode()
                yield text, (sections[section][2] + value - sections[section][5], length)


def _notes(data: bytes, sections: list[Section]) -> Iterator[bytes]:
    """The contents of the metadata notes."""
    for kind, _, at, size, _, _ in sections:
        place, end = at, at + size if kind == _NOTE else at
        while place < end:
            owner, length, note = struct.unpack_from("<III", data, place)
            start = place + 12 + (owner + 3 & ~3)
            if note == _METADATA:
                yield data[start : start + length]
            place = start + (length + 3 & ~3)
