"""The kernel's descriptor and metadata: what a loader must know, as assembler directives.

The numbers are those that the instructions use: the highest register of each class, VCC, LDS, the arguments'
bytes. XNACK is off in the target's name, and so nothing is reserved for it; flat scratch is not used.

Facts: LLVM's AMDGPUUsage, "Assembler Directives" and "Code Object V5 Metadata".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from regweave.errors import RegisterError
from regweave.machines.amd.assembly.targets import GcnMachine
from regweave.values import frozen

if TYPE_CHECKING:
    from regweave.assembly.amd.kernel import Kernel

#: The scalar registers that hold the arguments' address at the start; the workgroup's numbers follow.
_ADDRESS = 2
_SIZES = {"pointer": 8, "u64": 8, "i64": 8, "f64": 8}


@frozen
class Demands:
    """What a kernel declares: registers per class, LDS, arguments `(name, kind, place)`, the workgroup, how
    many of a work-item's numbers are wanted (0: x, 1: x and y, 2: all), and of the workgroup's (0 to 3)."""

    vectors: int
    accumulators: int
    scalars: int
    uses_vcc: bool
    lds_bytes: int
    arguments: tuple[tuple[str, str, int], ...]
    workgroup: tuple[int, int, int]
    thread_numbers: int
    group_numbers: int

    @classmethod
    def of(cls, kernel: Kernel, used: Mapping[str, int], touched: Collection[str]) -> Demands:
        """Those of a kernel that uses so many registers and touches the special ones in `touched`.

        RegisterError if an occupancy was asked for that vector and accumulation registers together miss.
        """
        machine = kernel.whole_machine
        dimensions = 2 if kernel.workgroup[2] > 1 else 1 if kernel.workgroup[1] > 1 else 0
        if machine.unified:
            numbers = dimensions
        else:
            wanted = [i for i in range(3) if kernel.starts_with(f"v{i}")]
            numbers = max(wanted, default=0)
        # the work-item's numbers are written there whether or not they are read
        vectors = max(used["vector"], 1 if machine.unified else numbers + 1)
        groups = max((i + 1 for i in range(3) if kernel.starts_with(f"s{_ADDRESS + i}")), default=0)
        scalars = max(used["scalar"], _ADDRESS + groups)
        if kernel.occupancy is not None and machine.unified:
            total = machine.registers_in_file(vectors, used["accumulation"])
            most = machine.vector_limit(kernel.occupancy)
            if total > most:
                raise RegisterError(
                    f"{kernel.name} needs {vectors} vector and {used['accumulation']} accumulation "
                    f"registers, {total} of the shared file",
                    where=f"occupancy {kernel.occupancy}",
                    expected=f"{most} at most",
                )
        return cls(
            vectors,
            used["accumulation"],
            scalars,
            bool({"vcc_lo", "vcc_hi"} & set(touched)),
            kernel.lds_bytes,
            tuple((name, kind, place) for name, (kind, place) in kernel.arguments.items()),
            kernel.workgroup,
            numbers,
            groups,
        )

    @property
    def threads(self) -> int:
        """Work-items of a workgroup."""
        x, y, z = self.workgroup
        return x * y * z

    @property
    def argument_bytes(self) -> int:
        """Bytes of all arguments, in whole words of eight."""
        end = max((place + _SIZES.get(kind, 4) for _, kind, place in self.arguments), default=0)
        return -(-end // 8) * 8

    def occupancy(self, machine: GcnMachine) -> int:
        """Waves per SIMD that registers and LDS allow in whole workgroups; a compute unit has four SIMDs."""
        by_registers = machine.occupancy(
            vectors=self.vectors,
            accumulators=self.accumulators,
            scalars=self.scalars + 2 * self.uses_vcc,
        )
        waves = -(-self.threads // machine.lanes)
        groups = 4 * by_registers // waves
        if waves > 1:
            groups = min(groups, machine.barriers)
        if self.lds_bytes:
            granules = -(-self.lds_bytes // machine.shared_granule)
            groups = min(groups, machine.shared_bytes // (granules * machine.shared_granule))
        return max(1, groups * waves // 4)


def write_kernel(name: str, machine: GcnMachine, demands: Demands, body: Sequence[str]) -> str:
    """The whole text: target, instructions, descriptor, metadata."""
    text = [
        f'.amdgcn_target "amdgcn-amd-amdhsa--{machine.target_id}"',
        ".text",
        f".globl {name}",
        ".p2align 8",
        f".type {name},@function",
        f"{name}:",
        *body,
        f".L{name}.end:",
        f".size {name}, .L{name}.end-{name}",
        "",
        *_descriptor(name, machine, demands),
        "",
        *_metadata(name, machine, demands),
    ]
    return "\n".join(text) + "\n"


def _descriptor(name: str, machine: GcnMachine, demands: Demands) -> list[str]:
    offset = machine.accumulation_offset(demands.vectors)
    registers = offset + demands.accumulators if demands.accumulators else demands.vectors
    fields = {
        "group_segment_fixed_size": demands.lds_bytes,
        "private_segment_fixed_size": 0,
        "kernarg_size": demands.argument_bytes,
        "user_sgpr_kernarg_segment_ptr": 1,
        **{f"system_sgpr_workgroup_id_{'xyz'[i]}": int(i < demands.group_numbers) for i in range(3)},
        "system_vgpr_workitem_id": demands.thread_numbers,
        "next_free_vgpr": registers,
        "next_free_sgpr": demands.scalars,
        "reserve_vcc": int(demands.uses_vcc),
        "reserve_xnack_mask": 0,
        "float_denorm_mode_32": 3,
        "float_denorm_mode_16_64": 3,
        "ieee_mode": 1,
        "dx10_clamp": 1,
    }
    if not machine.architected:
        fields["reserve_flat_scratch"] = 0
    if machine.unified:
        fields["accum_offset"] = offset
    lines = [f"  .amdhsa_{field} {value}" for field, value in fields.items()]
    return [
        '.section .rodata,"a"',
        ".p2align 6",
        f".amdhsa_kernel {name}",
        *lines,
        ".end_amdhsa_kernel",
        ".text",
    ]


def _metadata(name: str, machine: GcnMachine, demands: Demands) -> list[str]:
    unified = machine.accumulation_offset(demands.vectors) if demands.accumulators else demands.vectors
    lines = [
        ".amdgpu_metadata",
        "amdhsa.version: [ 1, 2 ]",
        f"amdhsa.target: amdgcn-amd-amdhsa--{machine.target_id}",
        "amdhsa.kernels:",
        f"  - .name: {name}",
        f"    .symbol: {name}.kd",
        f"    .kernarg_segment_size: {demands.argument_bytes}",
        "    .kernarg_segment_align: 8",
        f"    .group_segment_fixed_size: {demands.lds_bytes}",
        "    .private_segment_fixed_size: 0",
        f"    .wavefront_size: {machine.lanes}",
        f"    .sgpr_count: {demands.scalars + 2 * demands.uses_vcc}",
        f"    .vgpr_count: {unified + demands.accumulators}",
        *([f"    .agpr_count: {demands.accumulators}"] if machine.unified else []),
        f"    .max_flat_workgroup_size: {demands.threads}",
        f"    .reqd_workgroup_size: [ {', '.join(map(str, demands.workgroup))} ]",
        *(["    .args:"] if demands.arguments else []),
    ]
    for argument, kind, place in demands.arguments:
        lines += [
            f"      - .name: {argument}",
            f"        .offset: {place}",
            f"        .size: {_SIZES.get(kind, 4)}",
        ]
        if kind == "pointer":
            lines += ["        .value_kind: global_buffer", "        .address_space: global"]
        else:
            lines.append("        .value_kind: by_value")
    return [*lines, ".end_amdgpu_metadata"]
