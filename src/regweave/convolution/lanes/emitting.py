"""The kernels of a convolution plan as text, with a few words above that say how to launch them.

// launch: 4 x 9 x 2 work-groups of 64: global size 256 x 9 x 2, local size 64 x 1 x 1, once, with 0 in strip
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod
from typing import TYPE_CHECKING

from regweave.convolution.lanes.packing import filter_blocks, filter_pitch
from regweave.convolution.lanes.rearranging import words_per_thread
from regweave.emitters import LANGUAGES, check_target, emit
from regweave.emitters.opencl_vectors import VectorPrinter
from regweave.programs import Program

if TYPE_CHECKING:
    from regweave.convolution.plans.plan import ConvPlan

#: Work-items of a group of vectors along a row, at most; groups for each processor, at least; how long one of
#: them should take, for to start it takes 40 ns; nanoseconds to move a vector.
_MOST_ITEMS, _GROUPS, _GROUP_NS, _MOVED_NS = 1024, 4, 16000.0, 15.0
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


def local_sizes(plan: ConvPlan, processors: int = 2) -> tuple[Grid, ...]:
    """Work-items of a work-group for each of `plan.programs()`."""
    if plan.machine.kind != "vectors":
        return tuple((program.lanes * program.warps, 1, 1) for program in plan.programs())
    *others, last = grids(plan)
    taken = 2e6 * plan.predicted_ms / plan.strips / prod(last)  # predicted for two processors
    return (
        *(group_size(grid, _MOVED_NS, processors) for grid in others),
        group_size(last, taken, processors),
    )


def group_size(grid: Grid, nanoseconds: float, processors: int) -> Grid:
    """Work-items of a group of vectors that take so long each: a row; several rows where that is little work.

    Few groups are started so, but enough for all processors; those of a row find in a core's cache what the
    one before has left there.
    """
    most = max(1, prod(grid) // (_GROUPS * processors))
    across = _divisor(grid[0], min(_MOST_ITEMS, most))
    rows = min(most, ceil(_GROUP_NS / nanoseconds)) // across
    down = _divisor(grid[1], rows)
    return across, down, _divisor(grid[2], rows // down)


def _divisor(number: int, most: int) -> int:
    """The largest divisor up to `most`, 1 at least."""
    return max(size for size in range(1, max(1, min(number, most)) + 1) if number % size == 0)


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
    check_target(target, (*LANGUAGES, "host"))
    starts = ", ".join(map(str, plan.strip_starts[:3])) + (", ..." if plan.strips > 3 else "")
    strips = f"once, with {starts} in strip"
    if plan.strips > 1:
        strips = f"for each of {plan.strips} strips of {plan.strip_rows} rows, with {starts} in strip"
    texts = []
    for program, grid, local in zip(plan.programs(), grids(plan), local_sizes(plan), strict=True):
        texts.append(
            program_text(
                plan,
                program,
                target,
                (
                    f"{program.name}: {plan.convolution}, {plan.dtype}, {plan.machine.title}",
                    f"rows: {plan.form}; outputs per thread: {' x '.join(map(str, plan.outputs_per_thread))}",
                    f"launch: {_launch(plan, target, grid, local)}, {strips}",
                    *_memories(plan, program),
                ),
            )
        )
    return "\n".join(texts)


def _launch(plan: ConvPlan, target: str, grid: Grid, local: Grid) -> str:
    """How many threads: as HIP and CUDA count them in blocks, and OpenCL one by one."""
    if plan.machine.kind == "vectors" and target == "opencl":
        return f"global size {_sizes(grid)}, local size any, as {_sizes(local)}"
    groups = f"{_sizes(grid)} work-groups of {local[0]}"
    if target != "opencl":
        return groups
    return f"{groups}: global size {_sizes((grid[0] * local[0], *grid[1:]))}, local size {_sizes(local)}"


def _memories(plan: ConvPlan, program: Program) -> list[str]:
    """What stands in each memory of a kernel, a line each."""
    c = plan.convolution
    taps = c.vertical.kernel * c.horizontal.kernel
    lines = c.batch * c.channels, plan.strip_lines, plan.planes, plan.pitch
    row = c.horizontal.size * plan.element
    packed = c.groups * filter_blocks(plan), 1 + c.group_channels * taps, filter_pitch(plan)
    image = f"the image, {_sizes(c.image_shape)} of {plan.dtype}, dense: rows of {row} bytes"
    words = {
        "image": image,
        "x": image if plan.form == "none" else f"rearranged rows, {_sizes(lines)} of {plan.dtype}",
        "w": f"weights, {_sizes(packed)} of f32, as `ConvPlan.pack_weights` packs them",
        "strip": f"one u32: the strip's first output row, at most {c.vertical.outputs - plan.strip_rows}",
        "y": f"the result, {_sizes(c.out_shape)} of {plan.dtype}, dense",
    }
    return [f"{memory.name}: {words[memory.name]}" for memory in program.memories]


def _sizes(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))
