"""The plan of a processor's own kernels: what `conv2d` does, said in the words of `ConvPlan`.

A lane is a position of a vector register, so outputs per thread along the row are vectors of a tile, and the
accounting is in vector registers: results, the image vectors and weights that are held for a tap, none for
addresses, which are general registers. The times come from the device's rates; which tile is taken is
decided by the finer model in `choice`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from regweave.convolution.channels_last.banded import BandChoice, band_bytes
from regweave.convolution.channels_last.choice import LastChoice, moved_cycles
from regweave.convolution.channels_last.planning import last_plan
from regweave.convolution.channels_last.relayed import band_parts
from regweave.convolution.decision import decide, dense_strides, streams
from regweave.convolution.planes.chosen import Choice, most_parts, scratch_bytes
from regweave.convolution.planes.form import FORMS
from regweave.convolution.planes.strips import strip_limit
from regweave.convolution.plans.plan import Alternative, ConvPlan, Registers
from regweave.errors import InputError, UnsupportedError
from regweave.kernels.convolution.pairsteps import held_products, sums_under_way
from regweave.machines.compute import ComputeMachine
from regweave.machines.x86 import AVX2, AVX512, VectorMachine
from regweave.operators import Convolution

_VECTORS = {machine.name: machine for machine in (AVX512, AVX2)}
#: Of the arithmetic, what tiles reach; two threads, as the device's rates are those of two; parts of the
#: work, each with memory of its own, where that is little.
_REACHED, _THREADS, _PARTS = 0.85, 2, 8


def native_plan(
    c: Convolution,
    dtype: str,
    machine: ComputeMachine,
    form: str | None,
    outputs: Sequence[int] | None,
    order: str = "nchw",
) -> ConvPlan:
    """What `conv2d` would do for `c`, densely packed; `form` insists on one.

    Errors: UnsupportedError for f16 and for a tile of one's own, InputError for a form that is not for `c`.
    """
    if dtype != "f32" or outputs is not None:
        raise UnsupportedError(
            f"{dtype} kernels in assembly" if dtype != "f32" else "a chosen tile in assembly",
            where=machine.name,
            expected="f32, and the tile that the processor's kernels choose",
            fix="machine='opencl-cpu' takes both",
        )
    vectors = _VECTORS[machine.name]
    best, others = _decided(c, machine, vectors, order, form), []
    for name in FORMS if form is None else ():
        if name == best.form:
            continue
        try:
            plan = _decided(c, machine, vectors, order, name)
        except InputError:
            continue  # a form that is not for this convolution
        if (plan.form, plan.lanes) == (best.form, best.lanes):
            continue
        ratio = plan.predicted_ms / best.predicted_ms
        reason = f"{ratio:.2f} times as long: {_why(plan, best)}"
        others.append(Alternative(plan.form, plan.outputs_per_thread, plan.predicted_ms, reason))
    return replace(best, alternatives=tuple(others))


def _decided(
    c: Convolution, machine: ComputeMachine, vectors: VectorMachine, order: str, form: str | None
) -> ConvPlan:
    steps = dense_strides(c.image_shape, order), dense_strides(c.out_shape, order)
    large = streams(vectors, steps[1], 4 * prod(c.out_shape), c.horizontal.outputs)
    decision = decide(c, vectors, *steps, form=form, stream=large, threads=_THREADS)
    choice, run = decision.choice, decision.convolution
    if isinstance(choice, LastChoice):
        plan = last_plan(run, machine, choice, _THREADS)
    elif isinstance(choice, BandChoice):
        plan = _banded_plan(run, machine, vectors, choice)
    else:
        moved = moved_cycles(run, image=decision.x_strides[3] != 4, result=decision.y_strides[3] != 4)
        note = "planes are made of pixels a strip at a time, results put back, element by element"
        plan = _plan(run, machine, vectors, choice, moved, (note,) if moved else ())
    row = (f"all {run.horizontal.size} pixels are one row",) if run != c else ()
    return replace(plan, order=order, notes=(*row, *plan.notes))


def _banded_plan(
    c: Convolution, machine: ComputeMachine, vectors: VectorMachine, choice: BandChoice
) -> ConvPlan:
    moved = moved_cycles(c, banded=True)
    note = f"planes are made of the pixels of {choice.band_rows} rows of results at a time, by vectors"
    plan = _plan(c, machine, vectors, choice.planes, moved, (note,))
    own = band_parts(c, choice, _THREADS) * band_bytes(c, choice)
    return replace(plan, own_workspace=own, strip_rows=choice.band_rows)


def _plan(
    c: Convolution,
    machine: ComputeMachine,
    vectors: VectorMachine,
    choice: Choice,
    moved: float,
    notes: tuple[str, ...],
) -> ConvPlan:
    """The plan of kernels of planes; `moved`: cycles that it takes to make them, and to put results back."""
    tile = choice.tile
    across, filters = max(tile.vectors), max(tile.outputs)
    results, images, held = tile.accumulators(filters, across), across, 1
    if tile.transform is not None and not tile.apart:
        images = len(tile.image_rows) * across
    if tile.kernel_columns:
        # all weights are held: an image row is done with before the next one, only its sums are under way
        results, held = filters * tile.rows_under_way * across, tile.held_weights
    if tile.paired:
        sides = tile.kernel_rows, tile.kernel_columns
        results, images = sums_under_way(*sides, machine.registers), tile.kernel_rows + 1
        held = len(held_products(*sides, machine.registers))
    registers = Registers(
        results, min(images, machine.registers - results - held), held, 0, machine.registers
    )
    plan = ConvPlan(
        c,
        "f32",
        machine,
        choice.form,
        (across, tile.out_rows, filters),
        (machine.lanes, 1),
        choice.band_rows,
        registers,
        tile.out_rows,
        0.0,
        "",
        own_workspace=min(_PARTS, most_parts(c, vectors, choice, _THREADS))
        * scratch_bytes(c, vectors, choice),
    )
    arithmetic = plan.flops * _work(choice) / (machine.gflops * 1e6 * _REACHED)
    memory = plan.bytes / (machine.gb_per_s * 1e6)
    arithmetic += moved * 2 * machine.lanes / (machine.gflops * 1e6)
    return replace(
        plan,
        predicted_ms=max(arithmetic, memory),
        limit="arithmetic" if arithmetic >= memory else "memory",
        notes=(*notes, *_notes(plan, choice)),
    )


def _work(choice: Choice) -> float:
    """Products done for each product of the convolution."""
    by = choice.tile.combined
    return 1.0 if by is None else by.products / (by.outputs * by.taps)


def _notes(plan: ConvPlan, choice: Choice) -> tuple[str, ...]:
    tile, notes = choice.tile, []
    if tile.transform is not None:
        t = tile.transform
        notes.append(f"{t.products} transformed rows give {t.outputs} rows of results: fewer products")
    if tile.paired and tile.combined is not None:
        done, plain = tile.combined.products, 2 * tile.kernel_rows
        notes.append(
            f"two rows of results at a time: {done} products for each kernel column instead of {plain}"
        )
    elif tile.rolling:
        notes.append("bands are gone through from top to bottom; every image row is read once")
    elif tile.direct:
        missing = "; strips only at its upper and lower border" if tile.filled else ""
        notes.append(f"the image is read where it is{missing}")
    if plan.workspace_bytes > strip_limit(plan.convolution):
        notes.append(f"strips of all rows that a row of results reads take {plan.workspace_bytes >> 10} KiB")
    if tile.stream:
        notes.append("results pass the caches")
    return tuple(notes)


def _why(plan: ConvPlan, best: ConvPlan) -> str:
    if plan.order == "nhwc" and plan.lanes == "pixels" != best.lanes:
        return "planes are made of pixels, and results put back"
    if best.form == "transformed":
        return "all products are done"
    return f"rows become {plan.expansion:.2f} times as many" if plan.form != "none" else "unaligned vectors"
