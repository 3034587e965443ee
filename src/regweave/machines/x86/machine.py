"""The two x86-64 machines: AVX-512 (F, DQ, BW, VL) and AVX2 with FMA.

Both carry what the assembly builder needs: register classes in the order of handing out, the register views that templates may
ask for, the instruction table, the reserved keywords of the calling convention (System V), and how the text of an
operand and of a function's frame is written. A generator that speaks only the table runs on both.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from regweave.machines.forms import Table
from regweave.machines.instructions import Instruction, Pattern
from regweave.machines.machine import Machine, RegisterClass
from regweave.machines.x86.general import CALLER_SAVED, GENERAL, SHARED
from regweave.machines.x86.vector import vector_table

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


@dataclass(frozen=True, eq=False)
class VectorMachine(Machine):
    """An x86-64 machine with vectors of `lanes` 32-bit elements.

    `mask_letter` is the class that holds lane masks; `repeats` how many copies of a constant the pool holds (1 where
    instructions repeat one element themselves). `features` are the kernel's names (`/proc/cpuinfo`) of what it needs.
    """

    table: Table = field(kw_only=True, repr=False)
    mask_class: str = field(kw_only=True)
    repeats: int = field(kw_only=True)
    features: tuple[str, ...] = field(kw_only=True)
    views: dict[str, dict[str, str]] = field(kw_only=True, repr=False)
    arguments: tuple[str, ...] = _ARGUMENTS
    caller_saved: tuple[str, ...] = CALLER_SAVED

    @property
    def vector_bytes(self) -> int:
        """Bytes of one vector register; also its natural alignment in memory."""
        return 4 * self.lanes


def _merge(vector: Iterable[Instruction]) -> tuple[Instruction, ...]:
    """Vector and general entries in one table; an entry of both has the patterns of both."""
    shared = dict(SHARED)
    merged = []
    for entry in vector:
        general = shared.pop(entry.name, None)
        if general is not None:
            entry = Instruction(
                entry.name,
                entry.patterns + general.patterns,
                entry.meaning,
                f"{entry.help}; general: {general.help}",
            )
        merged.append(entry)
    return (*merged, *shared.values(), *GENERAL)


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
    size = {"z": "zmmword", "y": "ymmword"}[prefix]
    wide = masks is not None
    memory = {
        "m": (f"{size} ptr ", ""),
        "s": ("dword ptr ", ""),
        "q": ("qword ptr ", ""),
        "d": ("xmmword ptr ", ""),
        "w": ("word ptr ", ""),
        "a": ("", ""),
        "b": ("dword ptr ", f"{{1to{lanes}}}" if wide else ""),
        "#": ("dword ptr ", f"{{1to{lanes}}}") if wide else (f"{size} ptr ", ""),
    }
    calls = Instruction(
        "call_pointer",
        (
            Pattern(
                "function:r",
                "call %0",
                clobbers=(*CALLER_SAVED, *vectors, *(masks.registers if masks else ())),
                flags="lost",
            ),
        ),
        help="call a C function; its arguments stand in variables pinned to the argument registers",
    )
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
        table=Table(name, (*_merge(vector_table(wide)), calls), memory, moves=("vmovaps", "mov")),
        mask_class="mask" if wide else "vector",
        repeats=1 if wide else lanes,
        features=features,
        views=views,
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
AVX2 = _machine("avx2", "x86-64 with AVX2 and FMA", "y", 16, 8, ("avx2", "fma", "bmi2"), None)
