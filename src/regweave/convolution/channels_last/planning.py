"""The plan of a convolution of channels last: its kernel in the words of `ConvPlan`.

A lane is a filter, or a channel of a depthwise kernel, so neighbouring lanes read and write neighbours in
memory, and outputs per thread are pixels: 14 along the row x 1 down x 2 filters for 1 x 1, say. Elements of
the image come from memory, repeated to all lanes, where a product can take them so (AVX-512); else one is
held. What is not a product, or memory, is not predicted: which tile is taken is decided in `shapes`.
"""

from __future__ import annotations

from dataclasses import replace

from regweave.convolution.channels_last.choice import LastChoice
from regweave.convolution.channels_last.native import divide, scratch_bytes
from regweave.convolution.plans.plan import ConvPlan, Registers
from regweave.kernels.channels_last import DenseTile, DepthTile
from regweave.machines.compute import ComputeMachine
from regweave.operators import Convolution

#: Of the arithmetic, what tiles reach.
_REACHED = 0.85


def last_plan(c: Convolution, machine: ComputeMachine, choice: LastChoice, threads: int) -> ConvPlan:
    """What runs `c` as was chosen, on so many threads."""
    tile, available = choice.tile, len(choice.machine.register_class("vector").registers)
    if isinstance(tile, DepthTile):
        outputs, lanes, held = (tile.columns, tile.rows, 1), "channels", tile.kernel[0] * tile.kernel[1]
        weights = held if tile.holds_weights(choice.machine) else 0
        registers = Registers(tile.rows * tile.columns, 1, weights, 0, available)
        used = c.channels / (-(-c.channels // choice.machine.lanes) * choice.machine.lanes)
    else:
        outputs, lanes = _outputs(choice, tile), "filters"
        vectors = max(tile.vectors)
        repeated = choice.machine.mask_class == "mask"  # by a product, from memory
        element = int(tile.holds_element(vectors, choice.machine) or not repeated)
        registers = Registers(tile.pixels * vectors, element, vectors, 0, available)
        used = c.group_filters * tile.split / (sum(choice.tiles) * choice.machine.lanes)
    plan = ConvPlan(
        c,
        "f32",
        machine,
        choice.form,
        outputs,
        (1, 1),
        choice.band_rows,
        registers,
        outputs[1],
        0.0,
        "",
        own_workspace=divide(c, choice, threads).parts * scratch_bytes(c, choice),
        order="nhwc",
        lanes=lanes,
    )
    t = tile.transform
    work = 1.0 if t is None else t.products / (t.outputs * t.taps)
    arithmetic = plan.flops * work / used / (machine.gflops * 1e6 * _REACHED)
    memory = plan.bytes / (machine.gb_per_s * 1e6)
    return replace(
        plan,
        predicted_ms=max(arithmetic, memory),
        limit="arithmetic" if arithmetic >= memory else "memory",
        notes=_notes(c, choice, used, machine),
    )


def _outputs(choice: LastChoice, tile: DenseTile) -> tuple[int, int, int]:
    """(pixels along the row, rows, filters of a lane). Spans that a row has no room for are of other rows."""
    each = max(tile.vectors)
    if tile.fused is not None:
        return len(tile.spans), tile.fused.outputs, each
    across = min(len(tile.spans), -(-choice.window_columns // tile.length))
    down = -(-len(tile.spans) // across)
    rows = 1 if tile.transform is None else tile.transform.outputs
    return min(choice.window_columns, across * tile.length), down * rows, each


def _notes(c: Convolution, choice: LastChoice, used: float, machine: ComputeMachine) -> tuple[str, ...]:
    tile, t, notes = choice.tile, choice.tile.transform, []
    if t is not None:
        notes.append(f"{t.products} transformed rows give {t.outputs} rows of results: fewer products")
    elif tile.strip:
        notes.append("rows are copied with their padding, a band at a time")
    else:
        beyond = "; padding is stepped over" if isinstance(tile, DepthTile) and any(tile.padded) else ""
        notes.append(f"the image is read where it is{beyond}")
    if isinstance(tile, DenseTile) and tile.split > 1:
        notes.append(f"{tile.split} lanes share a filter, each with its elements of a pixel")
    if isinstance(tile, DenseTile) and tile.planar:
        notes.append("pixels of planes are repeated to lanes that are filters; results are turned on a stage")
    elif tile.staged:
        notes.append("products are made one after the other, on a stage in cache")
    if choice.machine.lanes != machine.lanes:
        notes.append(f"vectors of {choice.machine.lanes} lanes: the filters do not fill wider ones")
    if used < 1:
        notes.append(f"{used:.0%} of the lanes have a {'channel' if c.group_channels == 1 else 'filter'}")
    if tile.stream:
        notes.append("results pass the caches")
    return tuple(notes)
