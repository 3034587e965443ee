"""Every form and every tile of a convolution on a device that fits its registers, as plans with their cost.

    threads     a group reads whole storage rows; along the column as many as the machine has for a group
    outputs     of a thread along the row, along the column, and filters: a few numbers each
    registers   sums, words of the row, weights, addresses, and what compilers load ahead
    strips      so many rows are rearranged at a time that a large image needs a small share of its size

Four outputs along the row, two along the column and four filters are 32 sums; with a 3 x 3 kernel of stride 1
the row's words are 6 more. What does not fit is no candidate, so that nothing needs to be said of it later.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from regweave.convolution.forms import FORMS, plane_of
from regweave.convolution.plans.costs import predicted
from regweave.convolution.plans.plan import ELEMENT_BYTES, ConvPlan, Registers
from regweave.machines.compute import ComputeMachine
from regweave.operators import Convolution

#: Rearranged rows of an image of at least a megapixel take this share of it at most.
SHARE, LARGE = 0.02, 1 << 20
#: Outputs of a thread along the column, and filters, at most.
MOST_ROWS, _MOST_FILTERS = 16, 16
#: Registers for three addresses of 64 bits, an index and a count.
_ADDRESSES = 8
#: More of them, beside two for each image row, where a compiler loads ahead: what it was seen to take. It
#: unrolls loops that load less than so many words.
_AHEAD, _UNROLLED = 32, 12
#: Kernels count bytes in 32 bits.
MOST_BYTES = 1 << 32


def candidates(
    c: Convolution,
    dtype: str,
    machine: ComputeMachine,
    form: str | None = None,
    outputs: tuple[int, int, int] | None = None,
) -> Iterator[ConvPlan]:
    """All plans that fit the registers, in no order; of a form and with outputs per thread if given."""
    for name in FORMS if form is None else (form,):
        for ox in row_choices(c, machine):
            for oc in filter_choices(c):
                if outputs is not None and (ox, oc) != (outputs[0], outputs[2]):
                    continue
                fits = [
                    plan
                    for oy in range(1, min(MOST_ROWS, c.vertical.outputs) + 1)
                    if (plan := _plan(c, dtype, machine, name, (ox, oy, oc))) is not None
                    and (form is not None or _affordable(plan))
                ]
                for plan in fits:
                    if outputs is None or plan.outputs_per_thread == outputs:
                        yield replace(plan, most_rows=fits[-1].outputs_per_thread[1])


def row_choices(c: Convolution, machine: ComputeMachine) -> tuple[int, ...]:
    if machine.kind == "vectors":
        lanes = _vector_lanes(c, machine)
        return tuple(n for n in (1, 2, 3, 4, 6) if n == 1 or n * lanes <= c.horizontal.outputs)
    return tuple(n for n in (1, 2, 4, 8) if n == 1 or n <= max(1, c.horizontal.outputs))


def filter_choices(c: Convolution) -> tuple[int, ...]:
    most = min(_MOST_FILTERS, c.group_filters)
    return tuple(sorted({n for n in (1, 2, 3, 4, 5, 6, 8, 12, 16) if n <= most} | {most}))


def _vector_lanes(c: Convolution, machine: ComputeMachine) -> int:
    """Lanes of a vector: fewer where a row is shorter than one."""
    lanes = machine.lanes
    while lanes > 4 and lanes > c.horizontal.outputs:
        lanes //= 2
    return lanes


def _group(c: Convolution, machine: ComputeMachine, ox: int, element: int) -> tuple[int, int]:
    """Threads of a group along the row, so that they read whole storage rows, and along the column."""
    if machine.kind == "vectors":
        return _vector_lanes(c, machine), 1
    across = max(1, machine.storage_row // (ox * element))
    return min(across, machine.group), max(1, machine.group // across)


def _registers(
    c: Convolution, machine: ComputeMachine, form: str, outputs: tuple[int, int, int]
) -> Registers:
    ox, oy, oc = outputs
    axis = c.horizontal
    # where a thread's words overlap from tap to tap it keeps the row, else only what one tap reads
    if form == "unrolled" or machine.kind == "vectors" or ox == 1:
        rows = ox
    else:
        step = axis.stride if form == "none" else 1
        places = {
            (plane, place + x * step)
            for plane, place in (plane_of(axis, form, tap) for tap in range(axis.kernel))
            for x in range(ox)
        }
        rows = len(places)
    if machine.uniform:
        weights, addresses = 0, (1 if machine.kind == "vectors" else _ADDRESSES)
    else:
        weights, addresses = oc * min(oy, c.vertical.kernel), _ADDRESSES
    return Registers(ox * oy * oc, rows, weights, addresses, machine.registers)


def _plan(
    c: Convolution, dtype: str, machine: ComputeMachine, form: str, outputs: tuple[int, int, int]
) -> ConvPlan | None:
    registers = _registers(c, machine, form, outputs)
    if registers.needed > registers.available:
        return None
    element = ELEMENT_BYTES[dtype]
    group = _group(c, machine, outputs[0], element)
    plan = ConvPlan(
        c, dtype, machine, form, outputs, group, c.vertical.outputs, registers, outputs[1], 0.0, ""
    )
    plan = replace(plan, strip_rows=_strip_rows(plan), registers=_with_loads_ahead(plan))
    sizes = (
        plan.workspace_bytes,
        element * c.batch * c.channels * c.vertical.size * c.horizontal.size,
        element * c.batch * c.filters * c.vertical.outputs * c.horizontal.outputs,
    )
    if max(sizes) >= MOST_BYTES or plan.strip_rows < outputs[1]:
        return None
    milliseconds, limit = predicted(plan)
    return replace(plan, predicted_ms=milliseconds, limit=limit)


def _with_loads_ahead(plan: ConvPlan) -> Registers:
    """The registers, with those that a compiler takes for all loads of a loop's body where it has so many."""
    c, (ox, oy, _), r = plan.convolution, plan.outputs_per_thread, plan.registers
    if not plan.machine.loads_ahead:
        return r
    down, taps = c.vertical, c.horizontal.kernel
    lines = oy
    if plan.taps_at_once:
        lines = len({y * down.stride + k * down.dilation for y in range(oy) for k in range(down.kernel)})
    # words of a row, and its address; each plane of an unrolled row has one
    a_row = max(r.rows, min(taps * ox, ox + c.horizontal.span)) + 2
    if plan.form == "unrolled":
        a_row = taps * ox + taps + 1
    times = -(-_UNROLLED // (lines * (a_row - 2)))
    return replace(r, ahead=min(r.available - r.needed, times * lines * a_row - r.rows + _AHEAD))


def _strip_rows(plan: ConvPlan) -> int:
    """Output rows that are rearranged at a time: all, or what the share of a large image allows."""
    c, rows = plan.convolution, plan.convolution.vertical.outputs
    pixels = c.vertical.size * c.horizontal.size
    if plan.form == "none" or pixels < LARGE:
        return rows
    budget = SHARE * c.batch * c.channels * pixels * plan.element
    line = c.batch * c.channels * plan.planes * plan.pitch * plan.element
    lines = int(budget // line)
    most = (lines - c.vertical.span) // c.vertical.stride + 1
    unit = plan.outputs_per_thread[1] * plan.group[1]
    if most >= rows:
        return rows
    return max(plan.outputs_per_thread[1], most // unit * unit if most >= unit else most)


def _affordable(plan: ConvPlan) -> bool:
    """Whether rearranged rows take no more of the memory than a plan may take unasked."""
    c = plan.convolution
    pixels = c.vertical.size * c.horizontal.size
    return pixels < LARGE or plan.workspace_bytes <= SHARE * c.batch * c.channels * pixels * plan.element
