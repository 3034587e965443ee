"""Whether an object is what its kernel says: counts declared, used and read back, and every instruction.

    >>> agreement = check_object(kernel, assemble(kernel.text, kernel.machine.target_id))
    >>> agreement.counts.vectors, agreement.instructions
    (128, 2680)

Three numbers must agree for each class of registers: the highest that an instruction touches, what the text
declares, and what the object's descriptor (in granules) and its metadata (exactly) say. Where LLVM's
disassembler is installed, it reads the object back, and each instruction must be the one that was written.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from itertools import zip_longest

from regweave.assembly.amd import FinishedKernel
from regweave.assembly.amd.lines import Line, parse_line
from regweave.assembly.amd.waits import written_wait
from regweave.devices.hip.disassembler import disassemble, unsupported_reason
from regweave.devices.hip.objects import Counts, machine_code, read_counts
from regweave.errors import VerificationError
from regweave.values import frozen

_SUFFIX = re.compile(r"^(\w+?)_(e32|e64|dpp|sdwa)\b")
_HEX = re.compile(r"0x[0-9a-f]+")
_NUMBER = re.compile(r"-?(\d+(\.\d*)?(e[+-]?\d+)?|\.\d+)\Z")
#: Modifiers that say what holds without them, and one bit that has two names.
_SILENT = {
    "offset:0", "offset0:0", "offset1:0", "row_mask:15", "bank_mask:15", "dst_sel:dword", "src0_sel:dword",
    "src1_sel:dword", "dst_unused:unused_preserve",
}  # fmt: skip
_SPELLED = {"bound_ctrl:1": "bound_ctrl:0"}
#: Counts of `s_waitcnt` that wait for nothing.
_NO_WAIT = {"vmcnt": 63, "lgkmcnt": 15}
_AROUND = re.compile(r"(neg|abs)\(([^()]*)\)")


@frozen
class Agreement:
    """The object's counts, and how many instructions LLVM read back (None without its disassembler)."""

    counts: Counts
    instructions: int | None


def check_object(kernel: FinishedKernel, data: bytes) -> Agreement:
    """Compare a kernel with the object made of its text. VerificationError at the first difference."""
    counts = read_counts(data, kernel.name)
    demands, machine = kernel.demands, kernel.machine
    touched = _touched(kernel)
    unified = machine.accumulation_offset(demands.vectors) if demands.accumulators else demands.vectors
    same = {
        "vector registers": (counts.file, machine.registers_in_file(demands.vectors, demands.accumulators)),
        "vector registers in its metadata": (counts.vectors, unified + demands.accumulators),
        "accumulation registers": (counts.accumulators, demands.accumulators),
        "scalar registers": (counts.scalars, demands.scalars + 2 * demands.uses_vcc),
        "bytes of LDS": (counts.lds_bytes, demands.lds_bytes),
        "bytes of arguments": (counts.kernarg_bytes, demands.argument_bytes),
    }
    if machine.unified:
        same["registers before the accumulators"] = (
            counts.offset, machine.accumulation_offset(demands.vectors),
        )  # fmt: skip
    for what, (found, wanted) in same.items():
        if found != wanted:
            raise VerificationError(f"the object has {found} {what}", where=kernel.name, expected=str(wanted))
    for letter, declared in (("v", demands.vectors), ("a", demands.accumulators), ("s", demands.scalars)):
        if touched[letter] > declared:
            raise VerificationError(
                f"an instruction touches {letter}{touched[letter] - 1}, and {declared} are declared",
                where=kernel.name,
            )
    if unsupported_reason(machine.name) is not None:
        return Agreement(counts, None)
    read = disassemble(machine_code(data), machine.name)
    return Agreement(counts, compare_lines(kernel.body(), read, kernel.name))


def compare_lines(written: Sequence[str], read: Sequence[str], name: str) -> int:
    """How many instructions stand in `written`; VerificationError where `read` has another one.

    Labels are passed over; of a branch only the name is compared.
    """
    lines = [line.strip() for line in written if not line.rstrip().endswith(":")]
    for number, (ours, theirs) in enumerate(zip_longest(lines, read, fillvalue="nothing")):
        if not _agree(ours, theirs):
            raise VerificationError(
                f"LLVM reads instruction {number} as {theirs!r}", where=name, expected=ours
            )
    return len(lines)


def _touched(kernel: FinishedKernel) -> dict[str, int]:
    """The highest register that an instruction touches plus one, by letter."""
    found = dict.fromkeys("vas", 0)
    for operation in kernel.operations:
        for register in (*operation.reads, *operation.writes):
            if register[0] in found and register[1:].isdecimal():
                found[register[0]] = max(found[register[0]], int(register[1:]) + 1)
    return found


def _agree(ours: str, theirs: str) -> bool:
    mine, other = _parts(ours), _parts(theirs)
    if mine.mnemonic != other.mnemonic or mine.mnemonic.startswith(("s_branch", "s_cbranch")):
        return mine.mnemonic == other.mnemonic
    if mine.mnemonic == "s_waitcnt":
        return _NO_WAIT | written_wait(ours) == _NO_WAIT | written_wait(theirs)
    same = len(mine.operands) == len(other.operands) and all(map(_same, mine.operands, other.operands))
    return same and _modifiers(mine) == _modifiers(other)


def _parts(line: str) -> Line:
    line = _HEX.sub(lambda match: str(int(match[0], 16)), _SUFFIX.sub(r"\1", line.lower()))
    while _AROUND.search(line):
        line = _AROUND.sub(lambda match: f"-{match[2]}" if match[1] == "neg" else f"|{match[2]}|", line)
    return parse_line(line)


def _modifiers(line: Line) -> set[str]:
    return {_SPELLED.get(word, word) for word in line.modifiers.split()} - _SILENT


def _same(a: str, b: str) -> bool:
    if a == b:
        return True
    return bool(_NUMBER.match(a) and _NUMBER.match(b) and _patterns(a) & _patterns(b))


def _patterns(text: str) -> set[int]:
    """The bits that a number may stand for: a whole one, or a float of any of the types."""
    if text.lstrip("-").isdecimal():
        return {int(text) & 0xFFFFFFFF}
    value = float(text)
    found = {
        struct.unpack("<I", struct.pack("<f", value))[0],
        struct.unpack("<q", struct.pack("<d", value))[0] >> 32,
    }
    if abs(value) < 65504:
        found.add(struct.unpack("<H", struct.pack("<e", value))[0])
    return {bits & 0xFFFFFFFF for bits in found}
