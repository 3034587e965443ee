"""Waiting for loads: where `s_waitcnt` must stand, and for how many.

Two counters say what is under way: `vmcnt` for global and buffer memory, `lgkmcnt` for LDS and for scalar
loads. An instruction that touches a register to which a load is under way must wait until the counter has
fallen to the number of younger operations of that counter.

    global_load_dword a     vmcnt 1
    global_load_dword b     vmcnt 2
    v_add_f32 c, a, a       waits for vmcnt(1): one operation, the load of b, may be left

That counts only where operations finish in order: vector memory does, LDS does, scalar loads do not, nor does
a mixture of the two; `flat` operations belong to both counters and to no order. There the wait is for 0.
Before a barrier all LDS operations must have happened, or other waves would see memory as it was before.
Loads from memory straight to LDS count as vector memory; any LDS operation waits for them, and so does a
barrier.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from regweave.assembly.amd.concrete import Concrete
from regweave.assembly.flow import Flow
from regweave.errors import AssemblyError
from regweave.values import frozen

COUNTERS = ("vmcnt", "lgkmcnt")
#: Pretended registers: every operation on LDS writes the first, for barriers; every load from memory to LDS
#: writes the second, for barriers and for LDS operations.
_LDS, _FILLED = "LDS", "LDS from memory"
_KINDS = {
    "global": ("vmcnt",),
    "buffer": ("vmcnt",),
    "shared": ("lgkmcnt",),
    "scalar_memory": ("lgkmcnt",),
    "flat": ("vmcnt", "lgkmcnt"),
}
_FIELD = re.compile(r"(vmcnt|lgkmcnt|expcnt)\s*\(\s*(\d+|0x[0-9a-f]+)\s*\)")
#: What LDS carries from lane to lane, without touching its memory.
_EXCHANGES = ("ds_permute", "ds_bpermute", "ds_swizzle")
#: What touches memory's caches, not memory: no counter, or one that nobody waits on.
_CACHES = ("s_dcache_inv", "buffer_wbinvl1", "buffer_inv", "buffer_invl2", "buffer_wbl2")


@frozen
class Wait:
    """What to wait for before an operation; None: nothing of that counter. `source` is the operation whose
    result is waited for, `register` where it goes."""

    vmcnt: int | None
    lgkmcnt: int | None
    source: int
    register: str

    @property
    def text(self) -> str:
        """The instruction."""
        parts = [f"{name}({getattr(self, name)})" for name in COUNTERS if getattr(self, name) is not None]
        return f"s_waitcnt {' '.join(parts)}"


@dataclass
class _Counter:
    """One counter: for each register under way, how many operations are younger, and which one it is."""

    entries: dict[str, tuple[int, int]] = field(default_factory=dict)
    kinds: set[str] = field(default_factory=set)

    @property
    def ordered(self) -> bool:
        return len(self.kinds) <= 1 and not self.kinds & {"scalar_memory", "flat"}

    def issue(self, kind: str, registers: Sequence[str], operation: int, limit: int) -> None:
        # a full counter says nothing: from there on, wait for one less
        self.entries = {r: (min(k + 1, limit - 1), at) for r, (k, at) in self.entries.items()}
        self.kinds.add(kind)
        for register in registers:
            self.entries[register] = (0, operation)

    def wait(self, count: int) -> None:
        if count == 0:
            self.entries, self.kinds = {}, set()
        elif self.ordered:
            self.entries = {r: (k, at) for r, (k, at) in self.entries.items() if k < count}

    def merge(self, other: _Counter) -> bool:
        """Take over what another way leaves under way; whether that changed anything."""
        changed = not other.kinds <= self.kinds
        self.kinds |= other.kinds
        for register, (k, at) in other.entries.items():
            if register not in self.entries or k < self.entries[register][0]:
                self.entries[register] = (k, at)
                changed = True
        return changed

    def copy(self) -> _Counter:
        return _Counter(dict(self.entries), set(self.kinds))


#: Ways from block to block on which a counter is waited for to the end.
Drained = Mapping[tuple[int, int], str]


def needed_waits(
    operations: Sequence[Concrete],
    flow: Flow,
    limits: tuple[int, int],
    drained: Drained = {},  # noqa: B006 - never changed
) -> dict[int, Wait]:
    """The waits that are missing, by the operation before which each must stand.

    Waits that are written in the program count, and so do those on the ways in `drained`. `limits` are the
    counters' highest values.
    """
    found: dict[int, Wait] = {}
    before: dict[int, dict[str, _Counter]] = {}
    if flow.blocks:
        before[0] = {name: _Counter() for name in COUNTERS}
    todo = list(before)
    while todo:
        number = todo.pop()
        block = flow.blocks[number]
        state = {name: counter.copy() for name, counter in before[number].items()}
        for i in range(block.start, block.stop):
            wait = _step(operations[i], i, state, dict(zip(COUNTERS, limits, strict=True)))
            if wait is None:
                found.pop(i, None)
            else:
                found[i] = wait
        for successor in block.successors:
            left = {name: counter.copy() for name, counter in state.items()}
            if (number, successor) in drained:
                left[drained[number, successor]].wait(0)
            if successor not in before:
                before[successor] = left
                todo.append(successor)
                continue
            changed = [before[successor][name].merge(left[name]) for name in COUNTERS]
            if any(changed):
                todo.append(successor)
    return found


def _step(operation: Concrete, i: int, state: dict[str, _Counter], limits: dict[str, int]) -> Wait | None:
    """Run one operation; what must be waited for before it."""
    instruction = operation.instruction
    if instruction.name == "s_waitcnt":
        for name, count in written_wait(operation.text).items():
            state[name].wait(count)
        return None
    touched = {*operation.reads, *operation.writes}
    if instruction.name == "s_barrier":
        touched = {_LDS, _FILLED}
    elif instruction.unit in ("shared", "flat"):
        touched.add(_FILLED)
    counts: dict[str, int] = {}
    source, register = -1, ""
    kind = "vector" if instruction.unit in ("global", "buffer") else instruction.unit
    own = _KINDS.get(instruction.unit, ()) if instruction.name not in _CACHES else ()
    for name in COUNTERS:
        counter = state[name]
        in_order = name in own and counter.ordered and counter.kinds <= {kind}
        for place in sorted(touched & counter.entries.keys()):
            if in_order and operation.shape.load and place not in operation.reads:
                continue  # both loads arrive in their order: the second one wins
            k, at = counter.entries[place]
            need = k if counter.ordered else 0
            if need < counts.get(name, limits[name] + 1):
                counts[name], source, register = need, at, place
    for name, count in counts.items():
        state[name].wait(count)
    for name in own:
        arriving = list(operation.writes) if operation.shape.load else []
        if name == "lgkmcnt" and kind in ("shared", "flat") and not instruction.name.startswith(_EXCHANGES):
            arriving.append(_LDS)
        if name == "vmcnt" and operation.shape.to_lds:
            arriving.append(_FILLED)
        state[name].issue(kind, arriving, i, limits[name])
    return Wait(counts.get("vmcnt"), counts.get("lgkmcnt"), source, register) if counts else None


def written_wait(text: str) -> dict[str, int]:
    """The counts of an `s_waitcnt`, by counter; those that it does not name are not waited for."""
    words = text.partition(" ")[2]
    found = {name: int(count, 0) for name, count in _FIELD.findall(words)}
    if not found:
        try:
            number = int(words, 0)
        except ValueError:
            raise AssemblyError(
                f"{text!r} cannot be read", expected="like s_waitcnt vmcnt(0) lgkmcnt(1)"
            ) from None
        found = {"vmcnt": (number & 15) | (number >> 10 & 48), "lgkmcnt": number >> 8 & 15}
    found.pop("expcnt", None)
    return found


def require_written(operations: Sequence[Concrete], waits: dict[int, Wait], name: str) -> None:
    """AssemblyError for the first missing wait, with both lines."""
    for i, wait in sorted(waits.items()):
        what, source = wait.register, operations[wait.source]
        raise AssemblyError(
            f"{operations[i].text!r} comes before {what} has arrived from {source.text!r}",
            where=f"{name}, operations {wait.source} and {i}",
            fix=f"put {wait.text!r} before it",
        )
