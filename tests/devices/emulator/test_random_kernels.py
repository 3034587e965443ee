"""Random kernels: straight lines, branches, loops with one way in or two, masked regions.

Each is made twice. Once its registers are assigned; once every variable is pinned to registers of its own, so
that nothing is shared, split or coalesced. Both must compute the same. A wait or a no-op that is taken away
must be missed: by the check of waits="manual", and by the emulator.
"""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
import pytest

from regweave.assembly.amd import FinishedKernel, Kernel, Part
from regweave.assembly.variables import Variable
from regweave.devices import emulator
from regweave.errors import AssemblyError, KernelError
from regweave.machines.amd.assembly import TARGETS, GcnMachine

ARGUMENTS = {"inp": "pointer", "out": "pointer", "n": "u32"}
_LEAST = {"v": 4, "s": 8, "a": 0}  # behind what is filled when a kernel starts
_CLASS = {"v": "vector", "s": "scalar", "a": "accumulation"}
_TWO = ("v_add_u32", "v_sub_u32", "v_xor_b32", "v_and_b32", "v_mul_lo_u32", "v_max_i32", "v_lshlrev_b32",
        "v_add_f32", "v_mul_f32")  # fmt: skip
_THREE = ("v_fma_f32", "v_add3_u32", "v_xad_u32", "v_bfe_u32", "v_alignbit_b32", "v_perm_b32",
          "v_mad_u32_u24")  # fmt: skip
_HALVES = ("dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_1", "dst_sel:WORD_1 src0_sel:BYTE_0",
           "dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:BYTE_2")  # fmt: skip
_MOVES = ("quad_perm:[1,0,3,2]", "row_ror:3", "row_mirror", "row_shl:1 bound_ctrl:0")
_PRODUCTS = ("v_mfma_f32_4x4x4_16b_f16", "v_mfma_f32_16x16x16_f16")


class RandomKernel:
    """Kernel `seed` of about `size` statements; `apart` pins every variable to registers of its own,
    `straight` leaves out all branches. Arguments: inp (256 words), out (1024 words), n."""

    def __init__(
        self, machine: GcnMachine, seed: int, size: int, *, apart: bool, straight: bool = False
    ) -> None:
        self.choose, self.machine, self.apart, self.straight = random.Random(seed), machine, apart, straight
        self.kernel = Kernel(machine, name="k", lds_bytes=4096)
        self.next, self.full, self.names = dict(_LEAST), True, 0
        self.vectors: list[Variable] = []
        self.scalars: list[Variable] = []
        self.sums: list[Variable] = []
        self._begin()
        self._block(size, 0)
        parts = [Part(v, k) for v in self.vectors for k in range(min(v.count, 4))][:12]
        for at, part in enumerate(parts):
            self.emit("global_store_dword", self.at, part, self.out, modifiers=f"offset:{256 * at}")
        for at, scalar in enumerate(self.scalars[:3], 12):
            t = self.new("v")
            self.emit("v_mov_b32", t, scalar)
            self.emit("global_store_dword", self.at, t, self.out, modifiers=f"offset:{256 * at}")

    def emit(self, name: str, *operands: Any, modifiers: str = "") -> None:
        self.kernel.emit(name, *operands, modifiers=modifiers)

    def new(self, letter: str, count: int = 1) -> Variable:
        step = self.machine.alignment(letter, count)
        first = -(-self.next[letter] // step) * step
        self.next[letter] = first + count
        self.names += 1
        pin = f"{letter}{first}" if self.apart else None
        return self.kernel.variable(f"x{self.names}", _CLASS[letter], count=count, pin=pin)

    def _begin(self) -> None:
        self.base, self.out, n = self.new("s", 2), self.new("s", 2), self.new("s")
        for name, kind, target in (
            ("inp", "pointer", self.base),
            ("out", "pointer", self.out),
            ("n", "u32", n),
        ):
            load = "s_load_dwordx2" if kind == "pointer" else "s_load_dword"
            self.emit(load, target, "kernarg", self.kernel.argument(name, kind))
        self.scalars.append(n)
        self.at, self.quad_at = self.new("v"), self.new("v")
        thread = "thread" if self.machine.unified else "thread_x"
        self.emit("v_lshlrev_b32", self.at, 2, thread)
        self.emit("v_lshlrev_b32", self.quad_at, 4, thread)
        for offset in (0, 256, 512):
            self.vectors.append(self.new("v"))
            self.emit("global_load_dword", self.vectors[-1], self.at, self.base, modifiers=f"offset:{offset}")
        quad = self.new("v", 4)
        self.emit("global_load_dwordx4", quad, self.quad_at, self.base)
        for k in range(4):
            self.emit("ds_write_b32", self.at, Part(quad, k), modifiers=f"offset:{256 * k}")
        self.vectors.append(quad)

    @property
    def room(self) -> bool:
        return self.next["v"] < 225 and self.next["s"] < 85 and self.next["a"] < 220

    def one(self) -> Part:
        """A vector register, of a late variable more often."""
        late = self.choose.random() < 0.7
        v = self.choose.choice(self.vectors[-6:] if late else self.vectors)
        return Part(v, self.choose.randrange(v.count))

    def source(self) -> Any:
        return self.one() if self.choose.random() < 0.8 else self.choose.randint(-16, 64)

    def result(self) -> Any:
        """A new variable, known from the next statement on, or a register that there is."""
        if self.choose.random() < 0.55 and self.room:
            self.fresh.append(self.new("v"))
            return self.fresh[-1]
        return self.one()

    def _block(self, size: int, depth: int) -> None:
        while size > 0:
            self.fresh: list[Variable] = []
            kind = self.choose.random()
            if kind < 0.2 and depth < 3 and size > 6 and self.room and not self.straight:
                part = self.choose.randint(3, size)
                kinds = (self._branch, self._loop, self._mask, self._diverge)
                kinds[int(kind / 0.05)](part, depth + 1)
                size -= part
            else:
                self._statement(self.choose.randrange(22))
                size -= 1
            self.vectors += self.fresh

    def _inside(self, size: int, depth: int) -> None:
        """A block whose new variables nobody knows behind it."""
        saved = list(self.vectors), list(self.scalars), list(self.sums)
        self._block(size, depth)
        self.vectors, self.scalars, self.sums = saved
        self.fresh = []

    def _condition(self) -> str:
        if self.choose.random() < 0.5:
            test = self.choose.choice(("s_cmp_lt_u32", "s_cmp_eq_u32", "s_bitcmp1_b32"))
            self.emit(test, self.choose.choice(self.scalars), self.choose.randint(0, 31))
            return self.choose.choice(("s_cbranch_scc0", "s_cbranch_scc1"))
        self.emit("v_cmp_gt_i32", "vcc", self.source(), self.one())
        return self.choose.choice(("s_cbranch_vccz", "s_cbranch_vccnz"))

    def _branch(self, size: int, depth: int) -> None:
        other, end = self.kernel.fresh_label(), self.kernel.fresh_label()
        self.emit(self._condition(), other)
        self._inside(size // 2, depth)
        self.emit("s_branch", end)
        self.kernel.label(other)
        self._inside(size // 2, depth)
        self.kernel.label(end)

    def _loop(self, size: int, depth: int) -> None:
        """A loop, half of the time with a second way in."""
        count, head, middle = self.new("s"), self.kernel.fresh_label(), self.kernel.fresh_label()
        self.emit("s_movk_i32", count, self.choose.randint(1, 3))
        if self.choose.random() < 0.5:
            self.emit(self._condition(), middle)
        self.kernel.label(head)
        self._inside(size // 2, depth)
        self.kernel.label(middle)
        self._inside(size // 2, depth)
        self.emit("s_sub_u32", count, count, 1)
        self.emit("s_cmp_lg_u32", count, 0)
        self.emit("s_cbranch_scc1", head)

    def _mask(self, size: int, depth: int) -> None:
        saved, full = self.new("s", 2), self.full
        self.emit("v_cmp_lt_i32", "vcc", self.source(), self.one())
        self.emit("s_and_saveexec_b64", saved, "vcc")
        self.full = False
        self._inside(size // 2, depth)
        if self.choose.random() < 0.5:  # the other lanes
            name, *operands = self.choose.choice(
                (("s_xor_b64", "exec", saved), ("s_andn2_b64", saved, "exec"))
            )
            self.emit(name, "exec", *operands)
            self._inside(size // 2, depth)
        self._all(saved, full)

    def _diverge(self, size: int, depth: int) -> None:
        """A loop that switches more lanes off in every round."""
        saved, count, full = self.new("s", 2), self.new("s"), self.full
        head, end = self.kernel.fresh_label(), self.kernel.fresh_label()
        self.emit("s_mov_b64", saved, "exec")
        self.emit("s_movk_i32", count, self.choose.randint(1, 4))
        self.full = False
        self.kernel.label(head)
        self._inside(size // 2, depth)
        if self.choose.random() < 0.5:
            self.emit("v_cmpx_gt_i32", "vcc", self.one(), self.source())
        else:
            self.emit("v_cmp_lt_i32", "vcc", self.source(), self.one())
            self.emit("s_and_b64", "exec", "exec", "vcc")
        self.emit("s_cbranch_execz", end)
        self._inside(size // 2, depth)
        self.emit("s_sub_u32", count, count, 1)
        self.emit("s_cmp_lg_u32", count, 0)
        self.emit("s_cbranch_scc1", head)
        self.kernel.label(end)
        self._all(saved, full)

    def _all(self, saved: Variable, full: bool) -> None:
        """The lanes again that were on."""
        self.full = full
        if self.choose.random() < 0.5:
            self.emit("s_mov_b64", "exec", saved)
        else:
            self.emit("s_or_b64", "exec", "exec", saved)

    def _statement(self, kind: int) -> None:
        choose, one = self.choose, self.one
        if kind < 6:
            self.emit(choose.choice(_TWO), self.result(), self.source(), one())
        elif kind < 8:
            self.emit(choose.choice(_THREE), self.result(), one(), one(), one())
        elif kind == 8:
            self.emit("v_mov_b32", self.result(), one())
        elif kind == 9:
            self.emit("v_mov_b32_sdwa", one(), one(), modifiers=choose.choice(_HALVES))
        elif kind == 10:
            half = choose.choice(("", "op_sel:[1,0,0,1]", "op_sel:[0,1,0,0]"))
            self.emit(choose.choice(("v_mad_u16", "v_max3_i16")), one(), one(), one(), one(), modifiers=half)
        elif kind == 11:
            self.emit("v_cmp_lt_u32", "vcc", one(), one())
            self.emit("v_cndmask_b32", self.result(), self.source(), one(), "vcc")
        elif kind == 12:
            self.emit("v_swap_b32", one(), one())
        elif kind == 13:
            self.emit("ds_write_b32", self.at, one(), modifiers=f"offset:{256 * choose.randrange(4)}")
        elif kind == 14:
            scalar = choose.choice(self.scalars)
            self.emit(choose.choice(("s_add_u32", "s_and_b32")), scalar, scalar, choose.randint(0, 64))
        elif self.room:
            self._with_room(kind)

    def _with_room(self, kind: int) -> None:
        choose, one = self.choose, self.one
        if kind == 15:
            pair = self.new("v", 2)
            self.emit("ds_read2_b32", pair, self.at, modifiers="offset0:0 offset1:64")
            self.fresh.append(pair)
        elif kind == 16:
            quad = self.new("v", 4)
            name = choose.choice(("ds_read_b128", "global_load_dwordx4"))
            self.emit(name, quad, self.quad_at, *([self.base] if name[0] == "g" else []))
            self.fresh.append(quad)
        elif kind == 17:
            # lanes without a source keep what the register held
            kept = not self.full or choose.random() < 0.3
            target, mask = (one(), "0x5") if kept else (self.result(), "0xf")
            self.emit("v_mov_b32_dpp", target, one(),
                      modifiers=f"{choose.choice(_MOVES)} row_mask:0xf bank_mask:{mask}")  # fmt: skip
        elif kind == 18:
            scalar = self.new("s")
            if self.full:
                self.emit("v_readfirstlane_b32", scalar, one())
            else:
                self.emit("s_cmp_gt_u32", choose.choice(self.scalars), 7)
                self.emit("s_cselect_b32", scalar, choose.choice(self.scalars), 9)
            self.scalars.append(scalar)
        elif kind == 19:
            mask = self.new("s", 2)
            self.emit("v_cmp_ne_u32", mask, one(), one())
            self.emit("v_cndmask_b32", self.result(), one(), one(), mask)
        elif kind == 20:
            self.emit("v_writelane_b32", one(), choose.choice(self.scalars), choose.randrange(64))
        elif self.machine.unified and self.full:
            self._product()

    def _product(self) -> None:
        quad = self.choose.choice([v for v in self.vectors if v.count == 4])
        factors, name = (Part(quad, 0, 2), Part(quad, 2, 2)), self.choose.choice(_PRODUCTS)
        if self.sums and self.choose.random() < 0.5:
            self.emit(name, self.sums[-1], *factors, self.sums[-1])
        else:
            self.sums.append(self.new("a", 4))
            self.emit(name, self.sums[-1], *factors, 0)
        self.emit("v_accvgpr_read_b32", self.result(), Part(self.sums[-1], self.choose.randrange(4)))


def results(kernel: FinishedKernel | emulator.Program, seed: int) -> np.ndarray:
    words = np.random.default_rng(seed).integers(0, 2**32, 256, dtype=np.uint64).astype(np.uint32)
    out = np.zeros(1024, np.uint32)
    with np.errstate(all="ignore"):
        emulator.run(kernel, grid=1, workgroup=64, arguments={"inp": words, "out": out, "n": seed % 32})
    return out


@pytest.mark.parametrize("machine", TARGETS.values(), ids=lambda m: m.name)
def test_assigned_registers_compute_what_registers_apart_compute(machine):
    fewer = 0
    for seed in range(10):
        made = RandomKernel(machine, seed, 40, apart=False).kernel.finish()
        apart = RandomKernel(machine, seed, 40, apart=True).kernel.finish()
        assert np.array_equal(results(made, seed), results(apart, seed)), seed
        fewer += made.used["vector"] < apart.used["vector"]
    assert fewer > 7


def weakened(line: str) -> list[str]:
    """A wait or a no-op left out, and one less strong by one."""
    counts = re.findall(r"(\w+cnt)\((\d+)\)", line)
    found = [line.replace(f"{name}({count})", f"{name}({int(count) + 1})") for name, count in counts]
    if "s_nop" in line and (states := int(line.split()[1])):
        found.append(f"s_nop {states - 1}")
    return ["", *found]


@pytest.mark.parametrize("machine", TARGETS.values(), ids=lambda m: m.name)
def test_every_wait_that_was_inserted_is_missed(machine):
    checked = 0
    for seed in range(6):
        body = RandomKernel(machine, seed, 30, apart=False).kernel.finish().body()
        assert again(machine, body).waits.count == 0
        for at, line in enumerate(body):
            for other in weakened(line) if line.strip().startswith(("s_waitcnt", "s_nop")) else ():
                with pytest.raises(
                    AssemblyError, match=r"before \w+.* has arrived from|wait states too early"
                ):
                    again(machine, [*body[:at], other, *body[at + 1 :]])
                checked += 1
    assert checked > 20


def again(machine, body: list[str]) -> FinishedKernel:
    """The kernel of these lines, whose waits are checked."""
    k = Kernel(machine, name="k", lds_bytes=4096, waits="manual")
    for line in filter(None, map(str.strip, body)):
        if line.endswith(":"):
            k.label(line[:-1])
        else:
            k.emit_line(line)
    return k.finish()


@pytest.mark.parametrize("machine", TARGETS.values(), ids=lambda m: m.name)
def test_the_emulator_misses_every_wait_too(machine):
    checked = 0
    for seed in range(6):
        text = RandomKernel(machine, seed, 30, apart=False, straight=True).kernel.finish().text.splitlines()

        def run(lines: list[str], seed: int = seed) -> None:
            results(emulator.read_compiled("\n".join(lines), "k", machine, ARGUMENTS), seed)

        run(text)
        for at, line in enumerate(text):
            for other in weakened(line) if line.strip().startswith("s_waitcnt") else ():
                with pytest.raises(KernelError, match=r"before .* has (brought it|arrived)|s_waitcnt"):
                    run([*text[:at], other, *text[at + 1 :]])
                checked += 1
    assert checked > 20
