"""`regweave.plan_conv`: form, threads and outputs per thread of a convolution on a device, by cost.

    every form, every tile that fits the registers
      -> time of its multiply-adds, loads included, of memory, of the rearrangement and its launches
      -> the cheapest; what each of the others would have taken, and why it lost

What each takes is predicted by `convolution/plans/costs.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

from regweave.convolution.decision import ORDERS
from regweave.convolution.forms import FORMS, plane_of
from regweave.convolution.planes.form import FORMS as NATIVE_FORMS
from regweave.convolution.plans.costs import border_share, predicted, useful_share
from regweave.convolution.plans.plan import ELEMENT_BYTES, Alternative, ConvPlan, Registers
from regweave.errors import InputError, UnsupportedError, unknown_name
from regweave.machines.compute import ComputeMachine, find_compute_machine
from regweave.operators import Axis, Convolution, convolution_of

#: Rearranged rows of an image of at least a megapixel take this share of it at most.
SHARE, LARGE = 0.02, 1 << 20
#: Outputs of a thread along the column, and filters, at most.
_MOST_ROWS, _MOST_FILTERS = 16, 16
#: Registers for three addresses of 64 bits, an index and a count.
_ADDRESSES = 8
#: More of them, beside two for each image row, where a compiler loads ahead: what it was seen to take. It
#: unrolls loops that load less than so many words.
_AHEAD, _UNROLLED = 32, 12
#: Kernels count bytes in 32 bits.
_MOST_BYTES = 1 << 32
#: What a prediction cannot tell apart on a GPU, on a processor, and there for products of channels (1 x 1)
#: that wait for memory: what a tile reads and writes beyond a few lines takes more than it saves.
_AS_CHEAP, _AS_CHEAP_VECTORS, _AS_CHEAP_MOVED = 1.02, 1.005, 1.08
#: The share of a prediction from which on memory is what such products wait for.
_MOVING = 0.75
#: Alternatives that are told of.
_TOLD = 6


def plan_conv(
    shape: Sequence[int],
    weights_shape: Sequence[int],
    stride: int | Sequence[int] = 1,
    padding: int | str | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    dtype: str = "f32",
    machine: str | ComputeMachine = "cpu",
    *,
    order: str = "nchw",
    form: str | None = None,
    outputs_per_thread: Sequence[int] | None = None,
) -> ConvPlan:
    """The plan for an image and weights of these shapes (as `operators.convolution_of` reads them).

    `dtype` is f32, or f16: stored so, and summed up in f32. `machine` is a name (`cpu`, `opencl-cpu`,
    `bifrost-g76`, `sm_80`, ...) or a `ComputeMachine`. `order` nhwc: image and result have their channels
    side by side in memory (`shape` stays as it is), which a processor's own kernels read. `form` and
    `outputs_per_thread` (along the row, along the column, filters) insist on a choice.

    Errors: InputError for shapes that do not meet and unknown names,
    UnsupportedError where nothing fits the machine.
    """
    c = convolution_of(
        shape, weights_shape, strides=stride, padding=padding, dilations=dilation, groups=groups
    )
    order = order.lower() if isinstance(order, str) else order
    target = machine if isinstance(machine, ComputeMachine) else find_compute_machine(machine)
    forms = NATIVE_FORMS if target.kind == "assembly" else FORMS
    for word, names, where in (
        (dtype, tuple(ELEMENT_BYTES), "dtype"),
        (form, forms, "form"),
        (order, ORDERS, "order"),
    ):
        # an array is compared element by element, so only words are looked up
        if not (isinstance(word, str) and word in names) and not (word is None and where == "form"):
            raise unknown_name(where, word, names, where=where)
    if c.batch == 0:
        raise InputError("no images", where="shape", expected="a batch of at least 1")
    if target.kind == "assembly":
        from regweave.convolution.plans.native import native_plan

        return native_plan(c, dtype, target, form, outputs_per_thread, order)
    if order != "nchw":
        raise UnsupportedError(
            f"images of order {order} on {target.name}",
            where="order",
            expected="nchw: lane-level kernels read planes of channels",
            fix="machine='cpu' takes both",
        )
    c = _tamed(c)
    wanted = None if outputs_per_thread is None else _wanted(outputs_per_thread, c, target)
    plans = sorted(
        candidates(c, dtype, target, form, wanted),
        key=lambda plan: (plan.predicted_ms, plan.registers.needed),
    )
    if not plans:
        raise _nothing_fits(c, dtype, target)
    best = _fullest(plans)
    return replace(best, notes=_notes(best, plans), alternatives=_alternatives(best, plans))


def _nothing_fits(c: Convolution, dtype: str, machine: ComputeMachine) -> UnsupportedError:
    for name, shape in (("an image", c.image_shape), ("a result", c.out_shape)):
        size = ELEMENT_BYTES[dtype] * prod(shape)
        if size >= _MOST_BYTES:
            return UnsupportedError(
                f"{name} of {size / 1e9:.1f} GB: kernels count bytes in 32 bits",
                where=machine.name,
                expected="less than 4.29 GB",
                fix="plan a band of its rows, or some of its channels, and launch it for each",
            )
    return UnsupportedError(
        f"no way to convolve {c} with {machine.registers} registers",
        where=machine.name,
        expected="another form, or fewer outputs per thread",
    )


def _fullest(plans: Sequence[ConvPlan]) -> ConvPlan:
    """The cheapest. Of those that are as cheap, on a GPU the one with the most outputs along the column, on a
    processor the one with the fewest registers."""
    best = plans[0]
    if best.machine.kind != "gpu":
        down, along = best.convolution.axes
        moving = best.bytes / (best.machine.gb_per_s * 1e6) >= _MOVING * best.predicted_ms
        slack = _AS_CHEAP_MOVED if moving and down.kernel * along.kernel == 1 else _AS_CHEAP_VECTORS
        near = [plan for plan in plans if plan.predicted_ms <= slack * best.predicted_ms]
        return min(near, key=lambda plan: (plan.registers.needed, plan.predicted_ms))
    most = max(best.registers.needed, best.machine.full_registers)
    near = [
        plan
        for plan in plans
        if plan.form == best.form
        and plan.predicted_ms <= _AS_CHEAP * best.predicted_ms
        and plan.registers.needed <= most
    ]
    return max(near, key=lambda plan: (plan.outputs_per_thread[1], plan.registers.accumulators))


def candidates(
    c: Convolution,
    dtype: str,
    machine: ComputeMachine,
    form: str | None = None,
    outputs: tuple[int, int, int] | None = None,
) -> Iterator[ConvPlan]:
    """All plans that fit the registers, in no order; of a form and with outputs per thread if given."""
    for name in FORMS if form is None else (form,):
        for ox in _row_choices(c, machine):
            for oc in _filter_choices(c):
                if outputs is not None and (ox, oc) != (outputs[0], outputs[2]):
                    continue
                fits = [
                    plan
                    for oy in range(1, min(_MOST_ROWS, c.vertical.outputs) + 1)
                    if (plan := _plan(c, dtype, machine, name, (ox, oy, oc))) is not None
                    and (form is not None or _affordable(plan))
                ]
                for plan in fits:
                    if outputs is None or plan.outputs_per_thread == outputs:
                        yield replace(plan, most_rows=fits[-1].outputs_per_thread[1])


def _tamed(c: Convolution) -> Convolution:
    """The same convolution without steps that lead nowhere: beyond the padded image, from a single tap."""

    def tamed(axis: Axis) -> Axis:
        padded = axis.size + axis.before + axis.after
        dilation = axis.dilation if axis.kernel > 1 else 1
        return replace(axis, stride=min(axis.stride, padded), dilation=dilation)

    return replace(c, vertical=tamed(c.vertical), horizontal=tamed(c.horizontal))


def _wanted(given: Sequence[int], c: Convolution, machine: ComputeMachine) -> tuple[int, int, int]:
    try:
        values = tuple(map(operator.index, given))
    except TypeError:
        values = ()
    if len(values) != 3 or min(values) < 1:
        raise InputError(
            f"outputs per thread {given!r}",
            where="outputs_per_thread",
            expected="three whole numbers: along the row, along the column, filters",
        )
    wanted = values[0], min(values[1], c.vertical.outputs), min(values[2], c.group_filters)
    choices = _row_choices(c, machine), range(1, _MOST_ROWS + 1), _filter_choices(c)
    words = "outputs along the row", "outputs along the column", "filters"
    for value, known, word in zip(wanted, choices, words, strict=True):
        if value not in known:
            names = f"1 to {known[-1]}" if isinstance(known, range) else ", ".join(map(str, known))
            raise InputError(
                f"{value} {word} of a thread",
                where="outputs_per_thread",
                expected=f"one of {names} for {machine.name}",
            )
    return wanted


def _row_choices(c: Convolution, machine: ComputeMachine) -> tuple[int, ...]:
    if machine.kind == "vectors":
        lanes = _vector_lanes(c, machine)
        return tuple(n for n in (1, 2, 3, 4, 6) if n == 1 or n * lanes <= c.horizontal.outputs)
    return tuple(n for n in (1, 2, 4, 8) if n == 1 or n <= max(1, c.horizontal.outputs))


def _filter_choices(c: Convolution) -> tuple[int, ...]:
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
    if max(sizes) >= _MOST_BYTES or plan.strip_rows < outputs[1]:
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


def _notes(best: ConvPlan, plans: Sequence[ConvPlan]) -> tuple[str, ...]:
    notes = []
    ox, oy, oc = best.outputs_per_thread
    if oy < best.most_rows:
        fuller = next(
            (
                plan
                for plan in plans
                if plan.form == best.form and plan.outputs_per_thread == (ox, best.most_rows, oc)
            ),
            None,
        )
        note = f"{best.most_rows} outputs along the column would fit the registers"
        if fuller is not None:  # not costed where a caller insists on fewer
            note += f", but take {fuller.predicted_ms / best.predicted_ms:.2f} times as long"
        notes.append(note)
    if best.registers.needed > best.machine.full_registers:
        notes.append(
            f"{best.registers.needed} registers of a thread are more than the "
            f"{best.machine.full_registers} with which all threads stay resident"
        )
    if best.strips > 1:
        notes.append(f"rows are rearranged {best.strip_lines} at a time, in {best.strips} strips")
    return tuple(notes)


def _alternatives(best: ConvPlan, plans: Sequence[ConvPlan]) -> tuple[Alternative, ...]:
    """The best of every other form, then the next best tiles."""
    others: list[ConvPlan] = []
    for form in FORMS:
        found = next((plan for plan in plans if plan.form == form and plan.form != best.form), None)
        if found is not None:
            others.append(found)
    others += [plan for plan in plans if plan is not best and plan not in others][: _TOLD - len(others)]
    return tuple(
        Alternative(plan.form, plan.outputs_per_thread, plan.predicted_ms, _reason(plan, best))
        for plan in others
    )


def _reason(plan: ConvPlan, best: ConvPlan) -> str:
    ratio = f"{plan.predicted_ms / best.predicted_ms:.2f} times as long"
    if plan.form != best.form:
        if plan.form == "none":
            why = (
                "elements that are no neighbours" if plan.convolution.horizontal.stride > 1 else "its border"
            )
            return f"{ratio}: {why}, {100 * border_share(plan):.0f} % of the tiles at a border"
        strips = "1 strip" if plan.strips == 1 else f"{plan.strips} strips"
        return f"{ratio}: the rows become {plan.expansion:.2f} times as many, {strips}"
    if useful_share(plan) < 0.98 * useful_share(best):
        return f"{ratio}: computes {100 / useful_share(plan) - 100:.0f} % in vain"
    if plan.registers.needed > best.machine.full_registers >= best.registers.needed:
        return f"{ratio}: its registers halve the resident threads"
    return f"{ratio}: more loads for each product"
