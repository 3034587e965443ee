"""The builder of GCN and CDNA kernels: instructions in, a finished kernel with every register assigned out.

    from regweave.machines.amd.assembly import GFX906

    k = Kernel(GFX906, name="scale", workgroup=(64, 1, 1))
    x = k.argument("x", "pointer")                      # its place among the arguments, in bytes
    base, offset, value = k.scalar("base", count=2), k.vector("offset"), k.vector("value")
    k.emit("s_load_dwordx2", base, "kernarg", x)
    k.emit("v_lshlrev_b32", offset, 2, "thread_x")
    k.emit("global_load_dword", value, offset, base)
    k.emit("v_mul_f32", value, 2.0, value)
    k.emit("global_store_dword", offset, value, base)
    kernel = k.finish()
    print(kernel.text)                                  # waits and distances are in it

What an instruction reads and writes follows from the machine's table, so a template is plain assembly.
Nothing is allocated while emitting: `finish` analyses the whole sequence, assigns registers, and inserts (or,
with `waits="manual"`, checks) what the processor does not wait for by itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from regweave.assembly.amd.aliases import check_aliases
from regweave.assembly.amd.assignment import assign
from regweave.assembly.amd.conditions import check_conditions
from regweave.assembly.amd.finished import FinishedKernel, finish_kernel
from regweave.assembly.amd.kernel_program import KernelProgram
from regweave.assembly.amd.lines import Line, parse_line
from regweave.assembly.amd.operands import Constraint, Decision
from regweave.assembly.amd.parts import solve_parts, whole_variables
from regweave.assembly.amd.recording import InstructionRecorder
from regweave.assembly.amd.registry import is_whole
from regweave.assembly.flow import solve
from regweave.assembly.reading import check_label
from regweave.assembly.variables import Variable
from regweave.errors import AssemblyError, InputError
from regweave.machines.amd.assembly.table import SPECIAL
from regweave.machines.amd.assembly.targets import GcnMachine

#: Kinds of kernel arguments and their bytes.
ARGUMENTS = {"pointer": 8, "u32": 4, "i32": 4, "f32": 4, "u64": 8, "i64": 8, "f64": 8}
_MOST_THREADS = 1024


class Kernel(InstructionRecorder):
    """Collects the instructions of one kernel.

    `workgroup` is the number of work-items along x, y, z; `lds_bytes` the memory that they share. `occupancy`
    waves per SIMD are to fit: it limits the registers, and so do the waves of a large workgroup, which must
    fit together. `waits` is "insert" or "manual".
    """

    def __init__(
        self,
        machine: GcnMachine,
        *,
        name: str,
        workgroup: tuple[int, int, int] = (64, 1, 1),
        lds_bytes: int = 0,
        occupancy: int | None = None,
        waits: str = "insert",
    ) -> None:
        if not isinstance(machine, GcnMachine):
            raise InputError(f"machine {machine!r}", expected="GFX906, GFX90A, GFX942, or find_target(NAME)")
        if not (isinstance(name, str) and name.isidentifier() and name.isascii()):
            raise AssemblyError(
                f"{name!r} cannot be a kernel's name", expected="letters, digits, underscores"
            )
        if not (isinstance(workgroup, Sequence) and len(workgroup) == 3 and all(map(is_whole, workgroup))):
            raise InputError(f"a workgroup of {workgroup!r}", expected="three whole numbers: x, y, z")
        x, y, z = workgroup
        if min(workgroup) < 1 or x * y * z > _MOST_THREADS:
            raise InputError(f"a workgroup of {x} x {y} x {z}", expected=f"1 to {_MOST_THREADS} work-items")
        if not (is_whole(lds_bytes) and 0 <= lds_bytes <= machine.shared_bytes):
            raise InputError(f"{lds_bytes} bytes of LDS", expected=f"0 to {machine.shared_bytes}")
        if occupancy is not None and not is_whole(occupancy):
            raise InputError(f"occupancy {occupancy!r}", expected=f"1 to {machine.waves} waves per SIMD")
        if waits not in ("insert", "manual"):
            raise InputError(f"waits {waits!r}", expected='"insert" or "manual"')
        # the waves of a workgroup are on the four SIMDs at once, or it does not run at all
        least = -(-x * y * z // (4 * machine.lanes))
        if least > 1 and (occupancy is None or 0 < occupancy < least):
            occupancy = least
        super().__init__(_limited(machine, occupancy), machine, name)
        self.workgroup, self.lds_bytes, self.occupancy, self.waits = workgroup, lds_bytes, occupancy, waits
        self._fresh = 0

    def argument(self, name: str, kind: str = "pointer") -> int:
        """Add an argument of the kernel; its place in bytes, for `s_load_dword`."""
        if kind not in ARGUMENTS or name in self.arguments or not str(name).isidentifier():
            raise AssemblyError(
                f"argument {name!r} of kind {kind!r}",
                where=self.name,
                expected=f"a new name, and one of {', '.join(ARGUMENTS)}",
            )
        size = ARGUMENTS[kind]
        end = max((at + ARGUMENTS[other] for other, at in self.arguments.values()), default=0)
        place = -(-end // size) * size
        self.arguments[name] = (kind, place)
        return place

    def variable(
        self, name: str, register_class: str, *, count: int = 1, align: int = 1, pin: str | None = None
    ) -> Variable:
        """A variable of `count` consecutive registers of a class, from `pin` on if that is given."""
        return self._declare(Variable(name), register_class, count, align, pin)

    def vector(self, name: str = "v_", *, count: int = 1, pin: str | None = None) -> Variable:
        """One or more consecutive vector registers."""
        return self.variable(name, "vector", count=count, pin=pin)

    def vectors(self, name: str, number: int, *, count: int = 1) -> list[Variable]:
        """`number` separate variables name0, name1, ... of `count` vector registers each."""
        return [self.vector(f"{name}{i}", count=count) for i in range(number)]

    def scalar(self, name: str = "s_", *, count: int = 1, pin: str | None = None) -> Variable:
        """One or more consecutive scalar registers; pairs are even, larger tuples start at multiples of 4."""
        return self.variable(name, "scalar", count=count, pin=pin)

    def accumulation(self, name: str = "a_", *, count: int = 1, pin: str | None = None) -> Variable:
        """One or more consecutive accumulation registers (gfx90a, gfx942)."""
        if not self.whole_machine.unified:
            raise AssemblyError(f"{self.machine.name} has no accumulation registers", where=name)
        return self.variable(name, "accumulation", count=count, pin=pin)

    def reserve(self, keyword: str, demand: str, register: str) -> Variable:
        """Reserve a keyword: `reserve("tile", "v4", "v8")` gives it v8 to v11 and nothing else."""
        constraint = Constraint.parse(f"{keyword}:{demand}={register}")
        return self._reserve(constraint)

    def emit(self, name: str, *operands: Any, modifiers: str = "") -> None:
        """Add one instruction. Operands are variables, parts, names (registered, reserved, special, `off`,
        labels) and numbers; `modifiers` is the text behind them (`offset:16`)."""
        if not (isinstance(name, str) and isinstance(modifiers, str)):
            raise AssemblyError(f"{name!r} with {modifiers!r} is no instruction", where=self.name)
        texts = []
        for number, operand in enumerate(operands):
            texts.append(operand if isinstance(operand, str) else f"%{number}")
        self._add(Line(name, tuple(texts), modifiers), operands, {}, bare=True)

    def emit_template(self, text: str, *operands: Any, constraints: str = "") -> None:
        """Add a template: one or more lines of assembly, with %0, %1, ... bound to `operands` and %name
        looked up. `constraints` (`0:v4 kernarg:s2=s0`) say what new variables and reserved keywords get;
        without them a new variable gets what the instruction takes there."""
        if not isinstance(text, str):
            raise AssemblyError(f"{text!r} is no template", where=self.name)
        demands = {}
        for word in constraints.split():
            constraint = Constraint.parse(word)
            if constraint.register is None and int(constraint.target) >= len(operands):
                raise AssemblyError(
                    f"constraint {word!r} is about an operand that is not bound",
                    where=self.name,
                    expected=f"{len(operands)} operands",
                )
            demands[constraint.target] = constraint
            if constraint.register is not None:
                self._reserve(constraint)
        for line in text.splitlines():
            if line.strip():
                self._add(parse_line(line.strip()), operands, demands, bare=False)

    def emit_line(self, text: str) -> None:
        """Add a plain line of assembly, whose names need no %."""
        self._add(parse_line(text), (), {}, bare=True)

    def label(self, name: str) -> None:
        """The instructions that follow are reached by branches to `name`."""
        if name in self._labels:
            raise AssemblyError(f"label {name!r} is defined twice", where=self.name)
        self._indexing.require_off(f"label {name!r} stands in index mode")
        self._labels[check_label(name)] = len(self._forms)

    def fresh_label(self, stem: str = "label") -> str:
        """A label name that is not in use yet; `label` places it."""
        self._fresh += 1
        return f"{stem}_{self._fresh}"

    def comment(self, text: str) -> None:
        """A remark on the next instruction."""
        self._comments[len(self._forms)] = " ".join(text.split())

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """Which rule applied to each operand so far, in order: the trace."""
        return tuple(self._decisions)

    def finish(self) -> FinishedKernel:
        """Analyse, assign registers, insert or check waits, print; `s_endpgm` is added if it is missing."""
        last = len(self._forms) - 1
        falls = last not in self._controls or self._forms[last].control == "branch"
        self._indexing.require_off("the kernel ends in index mode")
        if falls or last + 1 in self._labels.values():
            self.emit("s_endpgm")
        program = self._kernel_program()
        parts = solve_parts(program, self.given)
        check_conditions(program, parts)
        check_aliases(program, parts)
        at_entry = [
            v for v in program.variables if parts.flow.live_at_entry >> parts.base[v.id] & (1 << v.count) - 1
        ]
        program = replace(whole_variables(program, parts), arguments=tuple(at_entry))
        assignment = assign(program, solve(program), self.machine)
        return finish_kernel(self, assignment)

    def starts_with(self, register: str) -> bool:
        """Whether a variable holds what the processor puts into `register` when the kernel starts."""
        return register in self._homes

    @property
    def given(self) -> set[str]:
        """Registers that hold something when the kernel starts."""
        names = {*SPECIAL["exec"]}
        for keyword in self.whole_machine.keywords:
            first = int(keyword.register[1:])
            names.update(f"{keyword.letter}{first + i}" for i in range(keyword.count))
        return names

    def _kernel_program(self) -> KernelProgram:
        extra: dict[int, int] = {}
        for i, shape in enumerate(self._shapes):
            if shape.instruction.unit == "matrix":
                self._keep_factors(i, extra)
        return KernelProgram(
            name=self.name,
            machine=self.machine,
            variables=tuple(self._variables),
            arguments=(),
            forms=tuple(self._forms),
            operands=tuple(self._operands),
            uses=(0,) * len(self._forms),
            defines=(0,) * len(self._forms),
            labels=dict(self._labels),
            controls=dict(self._controls),
            breaks=tuple(self._breaks),
            extra=extra,
            copies=(),
            comments=dict(self._comments),
            pool="",
            stack_bytes=None,
            shapes=tuple(self._shapes),
            touches=tuple(self._touches),
            lines=tuple(self._lines),
            whole_waves=math.prod(self.workgroup) % self.whole_machine.lanes == 0,
        )

    def _keep_factors(self, i: int, extra: dict[int, int]) -> None:
        """A matrix instruction's result must not overlap its factors, nor only a part of its sum."""
        results = {touch.variable for touch in self._touches[i] if touch.role}
        sources = [touch for touch in self._touches[i] if not touch.role]
        first = next(touch for touch in self._touches[i] if touch.role)
        for source in sources:
            if source.variable not in results:
                for result in results:
                    extra[result] = extra.get(result, 0) | self._variables[source.variable].bit
                continue
            overlaps = source.first < first.stop and first.first < source.stop
            whole_sum = source is sources[-1] and (source.first, source.stop) == (first.first, first.stop)
            if len(results) == 1 and overlaps and not whole_sum:
                raise AssemblyError(
                    f"the result of {self._lines[i]!r} overlaps its factors or a part of its sum",
                    where=f"{self.name}, {i}",
                    fix="write to other registers, or to exactly those of the sum",
                )


def _limited(machine: GcnMachine, occupancy: int | None) -> GcnMachine:
    """The machine with no more registers than let `occupancy` waves fit on a SIMD."""
    if occupancy is None:
        return machine
    most = {"scalar": machine.scalar_limit(occupancy)}
    most["vector"] = most["accumulation"] = min(256, machine.vector_limit(occupancy))
    classes = tuple(
        replace(c, registers=c.registers[: most[c.name]]) if c.name in most else c for c in machine.classes
    )
    return replace(machine, classes=classes)
