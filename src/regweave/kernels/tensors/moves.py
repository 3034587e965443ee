"""Elements from where they lie to where they shall lie: transposes, slices and joins of tensors.

    y[i, j, ..] = x[i * a + j * b + ..]       both are walked by counts and strides, five axes at most

    [40, 8, 15] -> [8, 40, 15]     counts (8, 40, 15)   strides of x (15, 120, 1), of y (600, 15, 1)

Axes that lie alike are one axis (`walk`), so a slice of rows is a copy of long runs. The last axis goes by
vectors where enough elements lie side by side on both sides, else one by one; a transpose of long axes goes
in strips of a cache line's width (`strips`), so that each line is read and written while it is near. Behind
an axis the addresses go on by what is left of the next one's stride: nothing is multiplied on the way.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from regweave.assembly import Builder, Listing
from regweave.assembly.variables import Memory
from regweave.kernels.common.division import share_among
from regweave.machines.x86 import VectorMachine

MOVE = "rw_move"
"""The kernels' name."""

AXES = 5
"""As many as a kernel walks."""

LINE = 16
"""Elements of a cache line."""

_FLOAT = 4

Axis = tuple[int, int, int]
"""A count, and the strides of x and of y, in elements."""


class MoveArguments(ctypes.Structure):
    """Addresses; how often each axis counts; by how many bytes the addresses go on at the end of each round
    of an axis, beyond what the axes inside have moved them; parts."""

    _fields_ = (
        ("x", ctypes.c_int64),
        ("y", ctypes.c_int64),
        ("counts", ctypes.c_int64 * AXES),
        ("x_steps", ctypes.c_int64 * AXES),
        ("y_steps", ctypes.c_int64 * AXES),
        ("x_pitch", ctypes.c_int64),  # of the first axis
        ("y_pitch", ctypes.c_int64),
        ("parts", ctypes.c_int64),
    )


def walk(counts: Sequence[int], x_strides: Sequence[int], y_strides: Sequence[int]) -> tuple[Axis, ...]:
    """The axes of a move, outermost first, with those that lie alike as one and those of one element gone.

    >>> walk((2, 3, 5), (15, 5, 1), (30, 10, 1))
    ((6, 5, 10), (5, 1, 1))
    """
    found: list[Axis] = []
    for count, x, y in zip(counts, x_strides, y_strides, strict=True):
        if count == 1:
            continue
        if found and (found[-1][1], found[-1][2]) == (x * count, y * count):
            found[-1] = (found[-1][0] * count, x, y)
        else:
            found.append((count, x, y))
    return tuple(found)


def strips(axes: Sequence[Axis]) -> tuple[tuple[tuple[Axis, ...], int, int], ...]:
    """The same move as up to two, each with where it starts in x and y: in strips of LINE results that lie
    side by side where their sources do not, and what is left.

    >>> strips(((512, 1, 894), (894, 512, 1)))[0][0]
    ((55, 8192, 16), (512, 1, 894), (16, 512, 1))
    """
    side = next((axis for axis in axes if axis[1] == 1), None)
    if not axes or side is None or side == axes[-1] or axes[-1][2] != 1 or len(axes) >= AXES:
        return ((tuple(axes), 0, 0),)
    count, x, y = axes[-1]
    if count <= LINE or side[0] <= LINE:
        return ((tuple(axes), 0, 0),)
    whole, rest = divmod(count, LINE)
    others = tuple(axis for axis in axes[:-1] if axis != side)
    found: list[tuple[tuple[Axis, ...], int, int]] = []
    found.append(((*others, (whole, x * LINE, y * LINE), side, (LINE, x, y)), 0, 0))
    if rest:
        found.append(((*others, side, (rest, x, y)), x * LINE * whole, LINE * whole))
    return tuple(found)


def move_arguments(axes: Sequence[Axis], parts: int) -> MoveArguments:
    """The arguments of a move along at most AXES axes without empty ones; addresses are the caller's."""
    assert len(axes) <= AXES, "the caller asks for no more"
    given = [(count, _FLOAT * x, _FLOAT * y) for count, x, y in axes]
    whole = [*given[:1], *[(1, 0, 0)] * (AXES - len(axes)), *given[1:]]
    if len(axes) < 2:  # the last axis is the one that a kernel knows how to do
        whole = [*[(1, 0, 0)] * (AXES - len(axes)), *given]
    arguments = MoveArguments(parts=parts, x_pitch=whole[0][1], y_pitch=whole[0][2])
    for index, (count, x, y) in enumerate(whole):
        arguments.counts[index] = count
        inner = whole[index + 1] if index + 2 < AXES else (0, 0, 0)  # the last one moves no address
        arguments.x_steps[index] = x - inner[0] * inner[1]
        arguments.y_steps[index] = y - inner[0] * inner[2]
    return arguments


def by_vectors(axes: Sequence[Axis], machine: VectorMachine) -> bool:
    """Whether the last axis lies side by side on both sides, and is as long as a vector."""
    return bool(axes) and axes[-1][1:] == (1, 1) and axes[-1][0] >= machine.lanes


def move_kernel(vectors: bool, machine: VectorMachine) -> Listing:
    """The kernel `void f(const MoveArguments *, size_t part)`, for axes that go by `vectors` or for others; a
    part does a range of the first axis."""
    b = Builder(machine, name=MOVE, arguments=("args", "part"))

    def field(name: str, index: int = 0) -> Memory:
        return b.at("args", getattr(MoveArguments, name).offset + 8 * index)

    x, y, at = b.general("x"), b.general("y"), b.general("at")
    left = [b.stack(8) for _ in range(AXES - 1)]
    labels = [b.fresh_label(f"axis{axis}") for axis in range(AXES - 1)]
    done = b.fresh_label("done")
    count = b.general("count")
    b.emit("mov", count, field("counts"))
    first, last = share_among(b, count, field("parts"))
    b.emit("sub", last, first)
    b.emit("jump_less_equal", done)
    b.emit("mov", left[0], last)
    for address, name in ((x, "x"), (y, "y")):
        b.emit("mov", address, first)
        b.emit("imul", address, field(f"{name}_pitch"))
        b.emit("add", address, field(name))
    b.label(labels[0])
    for axis in range(1, AXES - 1):
        b.emit("mov", count, field("counts", axis))
        b.emit("mov", left[axis], count)
        b.label(labels[axis])
    if vectors:
        _run(b, machine, x, y, at, field("counts", AXES - 1))
    else:
        _single(b, x, y, field("counts", AXES - 1), field("x_steps", AXES - 1), field("y_steps", AXES - 1))
    for axis in reversed(range(AXES - 1)):
        b.emit("add", x, field("x_steps", axis))
        b.emit("add", y, field("y_steps", axis))
        b.emit("mov", count, left[axis])
        b.emit("sub", count, 1)
        b.emit("mov", left[axis], count)
        b.emit("jump_nonzero", labels[axis])
    b.label(done)
    b.emit("return")
    return b.finish()


def _run(b: Builder, machine: VectorMachine, x, y, at, count: Memory) -> None:
    """The last axis, side by side: vectors, the last one back over what is done already."""
    size, end = machine.vector_bytes, b.general("end")
    again, done = b.fresh_label("vector"), b.fresh_label("run_done")
    b.emit("mov", end, count)
    b.emit("shl", end, 2)
    b.emit("sub", end, size)
    b.emit("zero", at)
    b.label(again)
    value = b.vector("value")
    b.emit("load", value, b.at(x, index=at))
    b.emit("store", b.at(y, index=at), value)
    b.emit("cmp", at, end)
    b.emit("jump_greater_equal", done)
    b.emit("add", at, size)
    b.emit("min", at, end)
    b.emit("jump", again)
    b.label(done)


def _single(b: Builder, x, y, count: Memory, x_step: Memory, y_step: Memory) -> None:
    """The last axis, one element after the other."""
    source, to, left = b.general("source"), b.general("to"), b.general("left")
    along, across, again = b.general("along"), b.general("across"), b.fresh_label("element")
    b.emit("mov", source, x)
    b.emit("mov", to, y)
    b.emit("mov", left, count)
    b.emit("mov", along, x_step)
    b.emit("mov", across, y_step)
    b.label(again)
    value = b.vector("value")
    b.emit("load_first", value, b.at(source))
    b.emit("store_first", b.at(to), value)
    b.emit("add", source, along)
    b.emit("add", to, across)
    b.emit("dec", left)
    b.emit("jump_nonzero", again)
