"""The kernels of a convolution plan as text, with a few words above that say how to launch them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regweave.convolution.packing import filter_blocks, filter_pitch
from regweave.convolution.rearranging import words_per_thread
from regweave.emitters import check_target, emit
from regweave.emitters.vectors import VectorPrinter
from regweave.programs import Program

if TYPE_CHECKING:
    from regweave.convolution.plan import ConvPlan

Grid = tuple[int, int, int]


def grids(plan: ConvPlan) -> tuple[Grid, ...]:
    """Blocks along x, y and z for each of `plan.programs()`, per strip."""
    c = plan.convolution
    filters = filter_blocks(plan)
    across = -(-c.horizontal.outputs // plan.columns)
    rows = -(-plan.strip_rows // (plan.outputs_per_thread[1] * plan.group[1]))
    images = c.batch * c.groups
    vectors = plan.machine.kind == "vectors"
    blocks = (across, rows * filters, images) if vectors else (across, rows, images * filters)
    if plan.form == "none":
        return (blocks,)
    lanes = plan.group[0] if vectors else plan.machine.lanes
    across = -(-plan.pitch // (lanes * words_per_thread(plan)))
    return (across, plan.strip_lines * plan.planes, c.batch * c.channels), blocks


def program_text(plan: ConvPlan, program: Program, target: str, comments: tuple[str, ...] = ()) -> str:
    """One kernel; for a processor through OpenCL a work-item is a whole vector."""
    if target == "opencl" and plan.machine.kind == "vectors":
        return VectorPrinter(program, ("y",) if plan.streamed else ()).text(comments)
    return emit(program, target, comments)


def bare_text(plan: ConvPlan, target: str) -> str:
    """All kernels without the words for people: the same kernels are the same text."""
    return "\n".join(program_text(plan, program, target) for program in plan.programs())


def plan_text(plan: ConvPlan, target: str) -> str:
    """All kernels for `opencl`, `hip` or `cuda`. Errors as `ConvPlan.emit`."""
    check_target(target)
    texts = []
    for program, grid in zip(plan.programs(), grids(plan), strict=True):
        threads = program.lanes * program.warps
        vectors = target == "opencl" and plan.machine.kind == "vectors"
        items = "work-items, in groups of any size" if vectors else f"work-groups of {threads}"
        texts.append(
            program_text(
                plan,
                program,
                target,
                (
                    f"{program.name}: {plan.convolution}, {plan.dtype}, {plan.machine.title}",
                    f"rows: {plan.form}; outputs per thread: {' x '.join(map(str, plan.outputs_per_thread))}",
                    f"launch: {' x '.join(map(str, grid))} {items}, for each strip of {plan.strip_rows} rows",
                    *_memories(plan, program),
                ),
            )
        )
    return "\n".join(texts)


def _memories(plan: ConvPlan, program: Program) -> list[str]:
    """What stands in each memory of a kernel, a line each."""
    c = plan.convolution
    taps = c.vertical.kernel * c.horizontal.kernel
    lines = c.batch * c.channels, plan.strip_lines, plan.planes, plan.pitch
    packed = c.groups * filter_blocks(plan), 1 + c.group_channels * taps, filter_pitch(plan)
    image = f"the image, {_sizes(c.image_shape)} of {plan.dtype}"
    words = {
        "image": image,
        "x": image if plan.form == "none" else f"rearranged rows, {_sizes(lines)} of {plan.dtype}",
        "w": f"weights, {_sizes(packed)} of f32, as `ConvPlan.pack_weights` packs them",
        "strip": f"one u32: the strip's first output row, at most {c.vertical.outputs - plan.strip_rows}",
        "y": f"the result, {_sizes(c.out_shape)} of {plan.dtype}",
    }
    return [f"{memory.name}: {words[memory.name]}" for memory in program.memories]


def _sizes(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
