"""A finished kernel: its text for the assembler, its registers, and figures for people.

kernel = builder.finish()
kernel.text                 # what `devices.hip.objects.assemble` takes
kernel.register_map         # name, class, registers, where it is live
kernel.used, kernel.bound   # registers per class, and the least that any assignment needs
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from regweave.assembly.amd.assignment import Assignment
from regweave.assembly.amd.concrete import Concrete, make_concrete
from regweave.assembly.amd.descriptor import Demands, write_kernel
from regweave.assembly.amd.distances import Gap, needed_gaps, nops, require_kept
from regweave.assembly.amd.hoisting import Placed, place_waits
from regweave.assembly.amd.kernel_program import KernelProgram
from regweave.assembly.amd.loops import innermost_loops
from regweave.assembly.amd.operands import Decision
from regweave.assembly.amd.proof import prove_registers
from regweave.assembly.amd.waits import needed_waits, require_written
from regweave.assembly.flow import Flow
from regweave.assembly.maps import Pressure, RegisterMap, measure_pressure, register_map
from regweave.assembly.variables import Variable
from regweave.machines.amd.assembly.targets import GcnMachine
from regweave.machines.amd.assembly.timing import issue_clocks
from regweave.values import frozen

if TYPE_CHECKING:
    from regweave.assembly.amd.kernel import Kernel

_MULTIPLY = re.compile(r"v_(fma|fmac|mac|mad|pk_fma|dot\d)|v_mfma")


@frozen(eq=False)
class FinishedKernel:
    """One kernel with every register assigned: `operations` are its instructions with their registers,
    `waits` and `gaps` what was inserted before them. `demands` are the numbers that its descriptor declares.
    """

    name: str
    machine: GcnMachine
    assignment: Assignment
    operations: Sequence[Concrete]
    waits: Placed
    gaps: Mapping[int, Gap]
    demands: Demands
    decisions: Sequence[Decision]

    @property
    def program(self) -> KernelProgram:
        """The analysed operations."""
        return self.assignment.program

    @property
    def flow(self) -> Flow:
        """Blocks and live sets."""
        return self.assignment.flow

    @property
    def registers(self) -> Mapping[Variable, tuple[str, ...]]:
        """Every variable's registers."""
        return self.assignment.registers

    @property
    def used(self) -> Mapping[str, int]:
        """The highest register in use plus one, per class."""
        return self.assignment.used

    @property
    def bound(self) -> Mapping[str, int]:
        """What no assignment can do without, per class."""
        return self.assignment.bound

    @cached_property
    def text(self) -> str:
        """Descriptor, metadata and instructions, ready for the assembler."""
        return write_kernel(self.name, self.machine, self.demands, self.body())

    @cached_property
    def pressure(self) -> Pressure:
        """Registers in use at each operation, per class."""
        return measure_pressure(self.program, self.flow)

    @cached_property
    def register_map(self) -> RegisterMap:
        """Registers and live range of every variable."""
        return register_map(self.program, self.flow, self.registers)

    @property
    def occupancy(self) -> int:
        """Waves per SIMD that registers and LDS allow."""
        return self.demands.occupancy(self.machine)

    @property
    def nops(self) -> int:
        """How many s_nop were inserted."""
        return sum(len(nops(gap.states)) for gap in self.gaps.values())

    @property
    def moves_gone(self) -> int:
        """How many moves went because both sides have the same registers."""
        return sum(operation.gone for operation in self.operations)

    @property
    def instructions(self) -> int:
        """How many instructions the object has, what was inserted included."""
        return len(self.operations) - self.moves_gone + self.waits.count + self.nops

    @property
    def mix(self) -> Mapping[str, int]:
        """Instructions by unit, what was inserted included."""
        counts = Counter(operation.instruction.unit for operation in self.operations if not operation.gone)
        counts["control"] += self.waits.count + self.nops
        return dict(sorted(counts.items()))

    def body(self, *, annotate: bool = False) -> list[str]:
        """Labels and instructions, with what was inserted; `annotate` adds the author's line to each."""
        places: dict[int, list[str]] = {}
        for label, at in self.program.labels.items():
            places.setdefault(at, []).append(f".L{self.name}_{label}:")
        lines = []
        for i, operation in enumerate(self.operations):
            lines += places.get(i, [])
            lines += self.inserted(i)
            remark = f"  ; {i}: {self.program.lines[i]}" if annotate else ""
            if annotate and i in self.program.comments:
                remark += f"  ({self.program.comments[i]})"
            if not operation.gone:
                lines.append(f"  {operation.text}{remark}")
            elif annotate:
                lines.append(f"  {remark.strip()}: both are {operation.text.partition(', ')[2]}")
            if i in self.waits.behind:
                lines.append(f"  {self.waits.behind[i].text}")
        return lines

    def issue_clocks(self, first: int = 0, last: int | None = None) -> int:
        """Clocks that issuing operations `first` to `last` takes a wave, each once, with what was inserted.

        An estimate that knows nothing of waiting."""
        last = len(self.operations) - 1 if last is None else last
        clocks = 0
        for i in range(first, last + 1):
            instruction = self.operations[i].instruction
            states = self.gaps[i].states if i in self.gaps else 0
            if instruction.name == "s_nop":
                states += int(self.operations[i].text.partition(" ")[2], 0)
            own = 0 if self.operations[i].gone else issue_clocks(instruction, self.machine.name)
            clocks += own + 4 * (states + (i in self.waits.before) + (i in self.waits.behind))
        return clocks

    @cached_property
    def loops(self) -> tuple[tuple[int, int], ...]:
        """The first and last operation of every loop without another inside."""
        return tuple(innermost_loops(self.flow))

    def inner_loop(self) -> Mapping[str, float] | None:
        """The longest loop without another inside: instructions, the share of multiply-adds, no-ops in it,
        and clocks for issuing it once."""
        if not self.loops:
            return None
        first, last = max(self.loops, key=lambda loop: loop[1] - loop[0])
        count = fillers = products = 0
        for i in range(first, last + 1):
            inserted = self.inserted(i)
            name = self.operations[i].instruction.name
            count += (not self.operations[i].gone) + len(inserted)
            fillers += sum("s_nop" in line for line in inserted) + (name == "s_nop")
            products += _MULTIPLY.match(name) is not None
        return {
            "instructions": count,
            "fma_share": products / count,
            "nops": fillers,
            "issue_clocks": self.issue_clocks(first, last),
        }

    def inserted(self, i: int) -> list[str]:
        """The waits and no-ops that were put before operation i."""
        lines = [f"  {self.waits.before[i].text}"] if i in self.waits.before else []
        return lines + ([f"  {line}" for line in nops(self.gaps[i].states)] if i in self.gaps else [])


def finish_kernel(kernel: Kernel, assignment: Assignment) -> FinishedKernel:
    """Waits, distances and the descriptor's numbers of a kernel whose registers are chosen."""
    machine = kernel.whole_machine
    prove_registers(assignment.program, assignment.flow, assignment.registers, kernel.given)
    operations = make_concrete(assignment.program, assignment.registers, machine)
    if kernel.waits == "manual":
        missing = needed_waits(operations, assignment.flow, machine.limits)
        require_written(operations, missing, kernel.name)
    waits = place_waits(operations, assignment.flow, machine.limits)
    gaps = needed_gaps(operations, assignment.flow, machine.hazards, waits.before)
    if kernel.waits == "manual":
        require_kept(operations, gaps, kernel.name)
    touched = {register for operation in operations for register in (*operation.reads, *operation.writes)}
    demands = Demands.of(kernel, assignment.used, touched)
    return FinishedKernel(
        kernel.name, machine, assignment, operations, waits, gaps, demands, kernel.decisions
    )
