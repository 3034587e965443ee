"""How a thread gets its register file: a few lines at the start of every function.

A thread that has none yet (`gs` is 0, or belongs to the thread that started this one: Linux gives its value
on) asks the system for a page and keeps it. All vector registers are the callee's to destroy, so functions
that call one another may share the file as they share real registers.
"""

from __future__ import annotations

import ctypes

from translator import state

_MMAP, _READ_WRITE, _PRIVATE_ANONYMOUS = 9, 3, 0x22
#: What the system call changes or is given; rax is kept by the lines around it.
_KEPT = ("rdi", "rsi", "rdx", "r10", "r8", "r9", "rcx", "r11")
_HARDWARE, _GS_INSTRUCTIONS = 26, 2


def can_enter() -> bool:
    """Whether this system lets programs set `gs`."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "getauxval"):
        return False
    libc.getauxval.restype = ctypes.c_ulong
    libc.getauxval.argtypes = (ctypes.c_ulong,)
    return bool(libc.getauxval(_HARDWARE) & _GS_INSTRUCTIONS)


def prologue(name: str) -> list[str]:
    """The lines behind a function's name; they change the flags alone."""
    new, ready = f".Ltranslated.{name}.new", f".Ltranslated.{name}.ready"
    return [
        "push rax",
        "rdgsbase rax",
        "test rax, rax",
        f"jz {new}",
        "mov rax, fs:[0]",
        f"cmp rax, {state.at(state.OWNER, 8)}",
        f"je {ready}",
        f"{new}:",
        *(f"push {register}" for register in _KEPT),
        f"mov eax, {_MMAP}",
        "xor edi, edi",
        f"mov esi, {state.BYTES}",
        f"mov edx, {_READ_WRITE}",
        f"mov r10d, {_PRIVATE_ANONYMOUS}",
        "mov r8, -1",
        "xor r9d, r9d",
        "syscall",
        "wrgsbase rax",
        "mov rdi, fs:[0]",
        f"mov {state.at(state.OWNER, 8)}, rdi",
        *(f"pop {register}" for register in reversed(_KEPT)),
        f"{ready}:",
        "pop rax",
    ]
