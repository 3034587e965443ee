"""The two x86-64 machines: AVX-512 (F, DQ, BW, VL) and AVX2 with FMA.

Both carry what the assembly builder needs: register classes in the order of handing out, the register views
that templates may ask for, the instruction table, the reserved keywords of the calling convention (System V),
and how the text of an operand and of a function's frame is written. A generator that speaks only the table
runs on both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from regweave.machines.machine import RegisterClass
from regweave.machines.target import AssemblyMachine
from regweave.machines.x86.side_effects import UNNAMABLE, destroyed_by, may_change_flags
from regweave.values import frozen

if TYPE_CHECKING:
    from regweave.machines.table import Table

#: 64-bit names in the order of handing out: first those that a function may change freely.
_GENERAL = (
    "rax",
    "rcx",
    "rdx",
    "rsi",
    "rdi",
    "r8",
    "r9",
    "r10",
    "r11",
    "rbx",
    "r12",
    "r13",
    "r14",
    "r15",
    "rbp",
)
_SAVED = frozenset(("rbx", "rbp", "r12", "r13", "r14", "r15"))
#: System V: what a call may destroy, beside the vector and mask registers.
CALLER_SAVED = ("rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11")
#: System V: the registers of the first six integer or pointer arguments.
_ARGUMENTS = ("rdi", "rsi", "rdx", "rcx", "r8", "r9")


def _general_views() -> dict[str, dict[str, str]]:
    """The 32-, 16- and 8-bit names of the general registers."""
    views: dict[str, dict[str, str]] = {"d": {}, "w": {}, "b": {}}
    for name in (*_GENERAL, "rsp"):
        if name[1:].isdigit():
            views["d"][name], views["w"][name], views["b"][name] = f"{name}d", f"{name}w", f"{name}b"
        else:
            short = name[1:]
            views["d"][name], views["w"][name] = f"e{short}", short
            views["b"][name] = f"{short[0]}l" if short.endswith("x") else f"{short}l"
    return views


@frozen(eq=False)
class VectorMachine(AssemblyMachine):
    """An x86-64 machine with vectors of `lanes` 32-bit elements.

    `features` are the names (as in `/proc/cpuinfo`) of what it needs; `caller_saved` the general registers
    that a call may destroy.
    """

    features: tuple[str, ...] = field(kw_only=True)
    caller_saved: tuple[str, ...] = CALLER_SAVED

    def address(self, base: str, index: str | None, scale: int, offset: int) -> str:
        """Intel syntax: `[rdi+rsi*4+64]`."""
        if index is not None:
            base = f"{base}+{index}*{scale}"
        if offset:
            return f"[{base}+{offset}]" if offset > 0 else f"[{base}{offset}]"
        return f"[{base}]"

    @property
    def unnamable(self) -> Mapping[str, str]:
        """k0, the stack, control flow, and what reads registers unseen."""
        return UNNAMABLE

    def destroyed(self, mnemonic: str, operands: int) -> Sequence[str]:
        """The registers that an instruction changes although no operand says so."""
        return destroyed_by(mnemonic, operands, self.register_class("vector").registers)

    def changes_flags(self, mnemonic: str) -> bool:
        """Whether an instruction in a text may change the condition flags."""
        return may_change_flags(mnemonic)

    def data_base(self, symbol: str) -> str:
        """Data is addressed relative to the instruction, so that code runs wherever it is loaded."""
        return f"rip+{symbol}"

    def head(self, name: str) -> Sequence[str]:
        """Intel syntax, a global symbol at a cache line's start."""
        return (".intel_syntax noprefix", ".text", f".globl {name}", ".p2align 6", f"{name}:")

    def frame(
        self, saved: Sequence[str], stack_bytes: int | None, vectors: bool
    ) -> tuple[Sequence[str], Sequence[str]]:
        """Push and pop; with a stack, rbp points to a block that starts at a multiple of 64.

        Above the block lies the old stack pointer. So slots keep their addresses inside local routines, and C
        functions find the stack aligned. A function that used vectors clears their upper parts, which would
        slow down the caller's SSE code.
        """
        enter = [f"push {register}" for register in saved]
        leave = [f"pop {register}" for register in reversed(saved)]
        if stack_bytes is not None:
            size = (stack_bytes + 7) // 8 * 8
            enter += ["mov rax, rsp", f"sub rsp, {size + 8}", "and rsp, -64"]
            enter += [f"mov [rsp+{size}], rax", "mov rbp, rsp"]
            leave = [f"mov rsp, [rbp+{size}]", *leave]
        if vectors:
            leave = ["vzeroupper", *leave]
        return enter, leave


def _machine(
    name: str,
    title: str,
    prefix: str,
    count: int,
    lanes: int,
    features: tuple[str, ...],
    masks: RegisterClass | None,
) -> VectorMachine:
    vectors = tuple(f"{prefix}mm{i}" for i in range(count))

    def make_table() -> Table:
        from regweave.machines.x86.table import x86_table

        clobbers = (*CALLER_SAVED, *vectors, *(masks.registers if masks else ()))
        return x86_table(name, lanes, clobbers, wide=masks is not None)

    views = _general_views()
    views["x"] = {vector: f"xmm{i}" for i, vector in enumerate(vectors)}
    views["y"] = {vector: f"ymm{i}" for i, vector in enumerate(vectors)}
    classes = (
        RegisterClass("vector", "v", vectors, 32 * lanes),
        RegisterClass("general", "r", _GENERAL, 64, saved=_SAVED),
        *((masks,) if masks else ()),
    )
    return VectorMachine(
        name,
        "x86",
        title,
        lanes,
        classes,
        make_table=make_table,
        mask_class="mask" if masks else "vector",
        repeats=1 if masks else lanes,
        features=features,
        views=views,
        arguments=_ARGUMENTS,
        frame_register="rbp",
        result="rax",
    )


#: k0 is left out: as a write mask it means "no mask".
_MASKS = RegisterClass("mask", "k", tuple(f"k{i}" for i in range(1, 8)), 64)

AVX512 = _machine(
    "avx512",
    "x86-64 with AVX-512 F, DQ, BW, VL",
    "z",
    32,
    16,
    ("avx512f", "avx512dq", "avx512bw", "avx512vl", "bmi2", "fma"),
    _MASKS,
)
AVX512_VBMI = _machine(
    "avx512_vbmi",
    "x86-64 with AVX-512 F, DQ, BW, VL, VBMI",
    "z",
    32,
    16,
    (*AVX512.features, "avx512vbmi"),
    _MASKS,
)
AVX2 = _machine("avx2", "x86-64 with AVX2 and FMA", "y", 16, 8, ("avx2", "fma", "bmi2"), None)
