"""What a convolution plan takes on its device, predicted.

    time = products / (rate * efficiency * useful share), memory, rearrangement, launches

*GPUs.* A thread's multiply-adds, slowed by the loads beside them (a row's word serves `filters x rows that
meet in it` of them, a weight all outputs of a thread), by threads too few for the device, and by registers
that halve the resident threads. Memory's time hides behind arithmetic, or the other way round.

*Processors.* A tap of a tile takes its multiply-adds and a little more for each load, or as long as a sum
takes until it can be added to. A tile reads and writes many rows side by side: of more than a dozen or two a
processor does not fetch the next lines in time, and where rows are a multiple of a power of two apart a cache
loses them. The constants were fitted to all tiles of six convolutions and samples of nine others, 1 x 1 to
7 x 7 with strides, dilations and groups, timed on one processor with AVX-512; those of the core
(`machines.compute.machine.VectorCore`) once more to all tiles of six convolutions on one with AVX2.

Memory counts image, weights and result once, rearranged rows there and back where they leave the cache.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from regweave.convolution.forms import plane_of

if TYPE_CHECKING:
    from regweave.convolution.plans.plan import ConvPlan

#: What halves the resident threads of a GPU costs so much; what checks a border, per load.
_HALF_OCCUPANCY, _GPU_BORDER = 1.15, 4.0
#: Processors. Cycles of a vector load beside multiply-adds; of one that no tap shares a line with; of two of
#: which every other element is kept, and more for each that stands beside it; of a load for each lane; what a
#: load takes more at the border.
_LOAD, _UNROLLED_LOAD, _APART, _FURTHER, _GATHERED, _BORDER = 0.7, 1.8, 5.0, 1.0, 10.0, 4.0
#: Cycles of a kernel row's and a channel's loop, of a tile, of a result.
_LOOP, _TILE, _RESULT = 1.0, 4.0, 2.2
#: A result takes more where planes of more filters than these are a multiple of a page long.
_FAR_RESULT, _STORE_WAYS = 6.0, 8
#: A cache keeps so many lines that begin at the same place of a page; cycles to get one back.
_WAYS, _PAGE, _EVICTED = 8, 4096, 1.7
#: Of rows of channels that follow one another so many count.
_MOST_DEEP = 4
#: The share of memory's time that does not hide behind arithmetic; nanoseconds of a rearranged element that
#: is moved alone, and in vectors, by one of two cores.
_UNHIDDEN, _MOVED_ALONE, _MOVED = 0.2, 0.9, 0.5


def predicted(plan: ConvPlan) -> tuple[float, str]:
    """(milliseconds, what bounds them: `arithmetic` or `memory`)."""
    m = plan.machine
    vectors = m.kind == "vectors"
    speed = (_vector_efficiency(plan) if vectors else _gpu_efficiency(plan)) * useful_share(plan)
    arithmetic = plan.flops / (m.gflops * 1e6 * speed)
    memory = plan.bytes / (m.gb_per_s * 1e6)
    launches = plan.strips * (1 if plan.form == "none" else 2) * m.launch_us / 1000
    both = arithmetic + _UNHIDDEN * memory if vectors else max(arithmetic, memory)
    return both + _rearranging(plan) + launches, "arithmetic" if arithmetic >= memory else "memory"


def _gpu_efficiency(plan: ConvPlan) -> float:
    c, m = plan.convolution, plan.machine
    ox, oy, oc = plan.outputs_per_thread
    down, taps = c.vertical, c.vertical.kernel * c.horizontal.kernel
    # one channel of one thread; weights of one tap serve all rows that meet there
    products = ox * oy * oc * taps
    lines = len({y * down.stride + k * down.dilation for y in range(oy) for k in range(down.kernel)})
    loads = lines * _row_loads(plan) + taps * oc / (8 if m.uniform else 4)
    efficiency = products / (products + m.load_cost * loads + 8)
    threads = plan.threads[0] * plan.threads[1] * c.batch * c.groups * -(-c.group_filters // oc)
    efficiency *= min(1.0, threads / m.threads)
    if plan.registers.needed > m.full_registers:
        efficiency /= _HALF_OCCUPANCY
    return efficiency / (1 + border_share(plan) * _GPU_BORDER)


def _vector_efficiency(plan: ConvPlan) -> float:
    c, core, e = plan.convolution, plan.machine.core, plan.element
    ox, oy, oc = plan.outputs_per_thread
    down, taps, deep = c.vertical, c.vertical.kernel * c.horizontal.kernel, c.group_channels
    products = ox * oy * oc
    held = len({y * down.stride + k * down.dilation for y in range(oy) for k in range(down.kernel)})
    # of a tap: rows of the image are shared where all taps are written out
    loads = ox * (held / down.kernel if plan.taps_at_once else oy)
    load = _UNROLLED_LOAD if plan.form == "unrolled" else _LOAD
    if plan.form == "none" and c.horizontal.stride > 1:
        load = _APART + _FURTHER * (ox - 1) if c.horizontal.stride == 2 else _GATHERED
    pitch = (c.horizontal.size if plan.form == "none" else plan.pitch) * e
    load += border_share(plan) * _BORDER
    # a weight serves the rows of a tile, too, where a compiler has it in a register at all
    tap = max(products + load * loads + core.weight_cost * oc, core.in_flight)
    channel = taps * tap + _LOOP * (1 if plan.taps_at_once else 1 + down.kernel)
    plane = down.outputs * c.horizontal.outputs * e
    result = _FAR_RESULT if plane % _PAGE == 0 and oc > _STORE_WAYS else _RESULT
    cycles = deep * channel + _TILE + result * products
    # rows that a tile reads and writes; how many a cache can hold, two lines each where vectors cross them
    rows, room = deep * held + oy * oc, _WAYS * (_PAGE // math.gcd(pitch, _PAGE)) / 2
    cycles += _EVICTED * max(0, rows - room)
    streams = min(deep, _MOST_DEEP) * held + oy * oc
    cycles += core.late * ox * max(0, streams - core.streams)
    # a weight that several rows meet stays in a register, where it is no operand
    taken = plan.registers.needed + (oc if core.weight_cost and oy > 1 else 0)
    cycles *= 1 + core.crowded * max(0, taken - core.uncrowded)
    return deep * products * taps / cycles


def _row_loads(plan: ConvPlan) -> float:
    """Loads of a GPU's thread for one image row: words, or vectors where they lie side by side."""
    axis, ox = plan.convolution.horizontal, plan.outputs_per_thread[0]
    if plan.form == "unrolled":
        return axis.kernel * max(1.0, ox * plan.element / 16)
    step = axis.stride if plan.form == "none" else 1
    places = {
        (plane, place + x * step)
        for plane, place in (plane_of(axis, plan.form, tap) for tap in range(axis.kernel))
        for x in range(ox)
    }
    return float(len(places))


def useful_share(plan: ConvPlan) -> float:
    """Share of the outputs computed that are wanted."""
    c = plan.convolution
    _, oy, oc = plan.outputs_per_thread
    share = 1.0
    for wanted, unit in (
        (c.horizontal.outputs, plan.columns),
        (c.vertical.outputs, oy),
        (c.group_filters, oc),
    ):
        share *= wanted / (-(-wanted // unit) * unit)
    return share


def border_share(plan: ConvPlan) -> float:
    """Share of the tiles that look at each element, where the image is read as it is."""
    c = plan.convolution
    if plan.form != "none" or not any(c.pads):
        return 0.0
    inner = 1.0
    units = ((c.horizontal, plan.columns), (c.vertical, plan.outputs_per_thread[1]))
    for axis, unit in units:
        blocks = -(-axis.outputs // unit)
        edge = min(blocks, -(-axis.interior.start // unit) + -(-(axis.outputs - axis.interior.stop) // unit))
        inner *= 1 - edge / blocks
    return 1 - inner


def _rearranging(plan: ConvPlan) -> float:
    """Milliseconds to rearrange all strips."""
    c, m = plan.convolution, plan.machine
    if plan.form == "none":
        return 0.0
    axis = c.horizontal
    elements = c.batch * c.channels * plan.strips * plan.strip_lines * plan.planes * plan.pitch
    if m.kind == "vectors":
        each = _MOVED_ALONE if axis.stride > 1 else _MOVED
        return elements * each / 2 / 1e6
    return 2 * elements * plan.element / (m.gb_per_s * 1e6)
