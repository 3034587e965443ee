"""One line of assembly: mnemonic, operands, write mask.

>>> read("vmovups zmmword ptr [rdi+64]{k1}, zmm3")
Instruction('vmovups', (Memory(64, 'rdi+64'), Register('z', 3)), mask=1)
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from regweave.errors import AssemblyError

#: Bytes of a register by the letter of its name, and of a memory operand by its size word.
BYTES = {"x": 16, "y": 32, "z": 64}
SIZES = {"byte": 1, "word": 2, "dword": 4, "qword": 8, "xmmword": 16, "ymmword": 32, "zmmword": 64}
WORDS = {size: word for word, size in SIZES.items()}

_SPLIT = re.compile(r",(?![^\[]*\])")
_REGISTER = re.compile(r"([xyz])mm(\d+)\Z|k([0-7])\Z")
_MEMORY = re.compile(r"(?:(\w+) ptr )?\[([^\]]+)\]\Z")
_DECORATION = re.compile(r"\{([^}]*)\}")
_NUMBER = re.compile(r"-?(?:0x[0-9a-fA-F]+|\d+)\Z")


@dataclass(frozen=True)
class Register:
    """A vector register (`kind` x, y or z) or a mask register (`kind` k)."""

    kind: str
    number: int

    @property
    def bytes(self) -> int:
        """How wide it is; a mask register has none of a vector's bytes."""
        return BYTES.get(self.kind, 0)


@dataclass(frozen=True)
class Memory:
    """`bytes` at an address (0 where the text does not say); `repeat` lanes share one element, 0: none do."""

    bytes: int
    address: str
    repeat: int = 0

    def text(self, offset: int = 0, size: int = 0) -> str:
        """`size` bytes of it (else all), `offset` bytes from its start."""
        place = f"{self.address}{offset:+d}" if offset else self.address
        size = size or self.bytes
        return f"{WORDS[size]} ptr [{place}]" if size else f"[{place}]"


@dataclass(frozen=True)
class General:
    """A general register, by the name in the text."""

    name: str


Operand = Register | Memory | General | int


@dataclass(frozen=True)
class Instruction:
    """A vector or mask instruction; `mask` is the number of its write mask, 0 if it has none."""

    mnemonic: str
    operands: tuple[Operand, ...]
    mask: int = 0
    zeroing: bool = False
    line: str = ""

    def refuse(self, why: str = "its operands are of a form that nobody translates") -> AssemblyError:
        """The error for an instruction that is not translated."""
        return AssemblyError(f"`{self.line}` is not translated: {why}", fix="add it to tests/translation")


def read(line: str) -> Instruction:
    """The instruction on a line; AssemblyError for an operand that cannot be read."""
    mnemonic, _, rest = line.strip().partition(" ")
    mask, zeroing, operands = 0, False, []
    for position, part in enumerate(_SPLIT.split(rest) if rest.strip() else []):
        decorations = _DECORATION.findall(part)
        text = _DECORATION.sub("", part).strip()
        repeat = 0
        for decoration in decorations:
            if decoration == "z":
                zeroing = True
            elif decoration.startswith("1to"):
                repeat = int(decoration[3:])
            elif position == 0 and re.fullmatch("k[1-7]", decoration):
                mask = int(decoration[1])
            else:
                raise AssemblyError(f"`{line}` is not translated: nobody knows {{{decoration}}}")
        operands.append(_operand(text, repeat, line))
    return Instruction(mnemonic, tuple(operands), mask, zeroing, line.strip())


def _operand(text: str, repeat: int, line: str) -> Operand:
    register = _REGISTER.match(text)
    if register:
        return Register(register[1] or "k", int(register[2] or register[3]))
    memory = _MEMORY.match(text)
    if memory and (not memory[1] or memory[1] in SIZES):
        return Memory(SIZES.get(memory[1] or "", 0), memory[2], repeat)
    if _NUMBER.match(text):
        return int(text, 0)
    if re.fullmatch(r"[a-z][a-z0-9]+", text) and not repeat:
        return General(text)
    raise AssemblyError(f"`{line}` is not translated: nobody can read the operand {text!r}")
