"""Text to machine code, in this process: LLVM's assembler through llvmlite.

    >>> len(assemble(".intel_syntax noprefix\\n.globl f\\nf: ret\\n")) > 64
    True

The result is an ELF object file. A bad line becomes an AssemblyError that shows it, with LLVM's reason; see
`diagnostics` for why that takes some doing.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from functools import cache
from typing import Any

from regweave.devices.cpu.diagnostics import ERROR, Diagnostics, install
from regweave.errors import AssemblyError, DeviceError

_LOCK = threading.Lock()
# A fork waits until no thread is inside LLVM: in the child those threads would never leave it.
os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)
#: No text that LLVM takes: it ends at a zero, and half a surrogate pair is no UTF-8.
_STRANGE = re.compile("[\0\ud800-\udfff]")
_PLACE = re.compile(r"<inline asm>:(\d+):(\d+): (?:error: )?([^\n]*)")
_CHILD = """
import sys
from regweave.devices.cpu import assembler
assembler.install = lambda context: None
assembler.emit(sys.stdin.read())
"""


#: The object format that `objects` reads, whatever the system's own.
_TRIPLE = "x86_64-unknown-linux-gnu"


@cache
def _tools() -> tuple[Any, Any, Diagnostics | None]:
    """LLVM's target machine, a context of our own, and its diagnostics (None: errors would end the
    process)."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    try:
        target = llvm.Target.from_triple(_TRIPLE)
    except RuntimeError:
        raise DeviceError("this processor is not an x86-64 one", fix="use the portable device") from None
    context = llvm.create_context()
    return target.create_target_machine(reloc="pic", jit=False), context, install(context)


def emit(text: str) -> bytes:
    """The object file of a text. Errors go to the diagnostics; without those they end the process."""
    import llvmlite.binding as llvm

    machine, context, _ = _tools()
    quoted = text.replace("\\", "\\5c").replace('"', "\\22").replace("\n", "\\0a")
    module = llvm.parse_assembly(f'target triple = "{_TRIPLE}"\nmodule asm "{quoted}"\n', context)
    try:
        return machine.emit_object(module)
    except SystemError:  # llvmlite counts bytes in 32 bits
        raise AssemblyError("the assembled text is larger than 2 GiB") from None


def assemble(text: str, *, name: str = "listing") -> bytes:
    """The ELF object of an assembly text in the syntax it names; AssemblyError with the offending line."""
    strange = _STRANGE.search(text)
    if strange is not None:
        raise AssemblyError(f"{name} holds the character {strange[0]!r}", fix="write it as a number")
    with _LOCK:
        diagnostics = _tools()[2]
        if diagnostics is None:
            _try_in_child(text, name)
            return emit(text)
        diagnostics.take()
        image = emit(text)
        errors = [message for severity, message in diagnostics.take() if severity == ERROR]
    if errors:
        raise _error(text, errors, name)
    return image


def _try_in_child(text: str, name: str) -> None:
    """Assemble in a child process, whose death costs nothing."""
    done = subprocess.run(
        [sys.executable, "-c", _CHILD], input=text, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise _error(text, _PLACE_SPLIT.split(done.stderr)[1:] or [done.stderr], name)


_PLACE_SPLIT = re.compile(r"(?=<inline asm>:)")


def _error(text: str, messages: list[str], name: str) -> AssemblyError:
    """The first message as an error, with the line that it is about."""
    match = _PLACE.search(messages[0])
    if match is None:
        return AssemblyError(f"{name} could not be assembled: {messages[0].strip()}")
    number, reason = int(match[1]), match[3]
    lines = text.split("\n")
    line = lines[number - 1].strip() if number <= len(lines) else ""
    more = f" (and {len(messages) - 1} more)" if len(messages) > 1 else ""
    return AssemblyError(f"{reason}: `{line}`{more}", where=f"{name}, line {number}")
