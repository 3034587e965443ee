"""Text to machine code, in this process: LLVM's assembler, which llvmlite brings.

    >>> len(assemble(".intel_syntax noprefix\\n.globl f\\nf: ret\\n")) > 64
    True

The result is an ELF object file. A bad line becomes an AssemblyError that shows it, with LLVM's reason. See
`llvm` for why that takes some doing; where it cannot be done, each text is tried in a child process first,
because LLVM, called through llvmlite, answers a bad line by ending the process.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from functools import cache

from regweave.devices.cpu.llvm import ERROR, TRIPLE, LlvmAssembler, open_assembler
from regweave.errors import AssemblyError, DeviceError

_LOCK = threading.Lock()
# A fork waits until no thread is inside LLVM: in the child those threads would never leave it.
os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)
# Patterns of what is rare: they are made when they are used, which takes longer than most modules do to load.
#: No text that LLVM takes: it ends at a zero, and half a surrogate pair is no UTF-8.
_STRANGE = "[\0\ud800-\udfff]"
_PLACE = r"<inline asm>:(\d+):(\d+): (?:error: )?([^\n]*)"
_PLACE_SPLIT = r"(?=<inline asm>:)"
_CHILD = """
import sys
from regweave.devices.cpu import assembler
assembler.emit_unguarded(sys.stdin.read())
"""


@cache
def _guarded() -> LlvmAssembler | None:
    return open_assembler()


def emit_unguarded(text: str) -> bytes:
    """The object file of a text, by llvmlite; a bad line ends the process."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    try:
        target = llvm.Target.from_triple(TRIPLE)
    except RuntimeError:
        raise DeviceError("this processor is not an x86-64 one", fix="use the portable device") from None
    quoted = text.replace("\\", "\\5c").replace('"', "\\22").replace("\n", "\\0a")
    module = llvm.parse_assembly(
        f'target triple = "{TRIPLE}"\nmodule asm "{quoted}"\n', llvm.create_context()
    )
    try:
        return target.create_target_machine(reloc="pic", jit=False).emit_object(module)
    except SystemError:  # llvmlite counts bytes in 32 bits
        raise AssemblyError("the assembled text is larger than 2 GiB") from None


def assemble(text: str, *, name: str = "listing") -> bytes:
    """The ELF object of an assembly text in the syntax it names; AssemblyError with the offending line."""
    strange = None if text.isascii() and "\0" not in text else re.search(_STRANGE, text)
    if strange is not None:
        raise AssemblyError(f"{name} holds the character {strange[0]!r}", fix="write it as a number")
    with _LOCK:
        guarded = _guarded()
        if guarded is None:
            _try_in_child(text, name)
            return emit_unguarded(text)
        image, messages = guarded.assemble(text)
    errors = [message for severity, message in messages if severity == ERROR]
    if errors:
        raise _error(text, errors, name)
    return image


def _try_in_child(text: str, name: str) -> None:
    """Assemble in a child process, whose death costs nothing."""
    import subprocess

    done = subprocess.run(
        [sys.executable, "-c", _CHILD], input=text, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise _error(text, re.split(_PLACE_SPLIT, done.stderr)[1:] or [done.stderr], name)


def _error(text: str, messages: list[str], name: str) -> AssemblyError:
    """The first message as an error, with the line that it is about."""
    match = re.search(_PLACE, messages[0])
    if match is None:
        return AssemblyError(f"{name} could not be assembled: {messages[0].strip()}")
    number, reason = int(match[1]), match[3]
    lines = text.split("\n")
    line = lines[number - 1].strip() if number <= len(lines) else ""
    more = f" (and {len(messages) - 1} more)" if len(messages) > 1 else ""
    return AssemblyError(f"{reason}: `{line}`{more}", where=f"{name}, line {number}")
