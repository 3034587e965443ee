"""`regweave.plan_conv`: form, threads and outputs per thread of a convolution on a device, by cost.

    every form, every tile that fits the registers
      -> time of its multiply-adds, loads included, of memory, of the rearrangement and its launches
      -> the cheapest; what each of the others would have taken, and why it lost

What each takes is predicted by `convolution/plans/costs.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from math import prod

from regweave.convolution.decision import ORDERS
from regweave.convolution.forms import FORMS
from regweave.convolution.planes.form import FORMS as NATIVE_FORMS
from regweave.convolution.plans.plan import ELEMENT_BYTES, ConvPlan
from regweave.convolution.plans.reasons import alternatives_of, notes_of
from regweave.convolution.plans.tiles import MOST_BYTES, MOST_ROWS, candidates, filter_choices, row_choices
from regweave.errors import InputError, UnsupportedError, unknown_name
from regweave.machines.compute import ComputeMachine, find_compute_machine
from regweave.operators import Axis, Convolution, convolution_of

#: What a prediction cannot tell apart on a GPU, on a processor, and there for products of channels (1 x 1)
#: that wait for memory: what a tile reads and writes beyond a few lines takes more than it saves.
_AS_CHEAP, _AS_CHEAP_VECTORS, _AS_CHEAP_MOVED = 1.02, 1.005, 1.08
#: The share of a prediction from which on memory is what such products wait for.
_MOVING = 0.75


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
    return replace(best, notes=notes_of(best, plans), alternatives=alternatives_of(best, plans))


def _nothing_fits(c: Convolution, dtype: str, machine: ComputeMachine) -> UnsupportedError:
    for name, shape in (("an image", c.image_shape), ("a result", c.out_shape)):
        size = ELEMENT_BYTES[dtype] * prod(shape)
        if size >= MOST_BYTES:
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
    choices = row_choices(c, machine), range(1, MOST_ROWS + 1), filter_choices(c)
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
