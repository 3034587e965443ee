"""What a convolution plan takes on its device, predicted.

    time = products / (rate * efficiency * useful share), memory, rearrangement, launches

*GPUs.* A thread's multiply-adds, slowed by the loads beside them (a row's word serves `filters x rows that
meet in it` of them, a weight all outputs of a thread), by threads too few for the device, and by registers
that halve the resident threads. Memory's time hides behind arithmetic, or the other way round.

*Processors.* A tap of a tile takes as long as its multiply-adds, or as its loads: a vector that begins
anywhere crosses two cache lines, one beside it another two, and weights come two at a time. The constants
were fitted to tiles of six convolutions, 3 x 3 to 7 x 7, timed on one processor; half of memory's time was
seen not to hide.

Memory counts image, weights and result once, rearranged rows there and back where they leave the cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regweave.convolution.forms import plane_of

if TYPE_CHECKING:
    from regweave.convolution.plan import ConvPlan

#: What halves the resident threads of a GPU costs so much; what checks a border, per load.
_HALF_OCCUPANCY, _GPU_BORDER = 1.15, 4.0
#: Processors. Cycles of a vector load: of rows that taps share, of others, of neighbours along the row.
_SHARED_LOAD, _LOAD, _NEIGHBOUR_LOAD = 2.0, 3.0, 8.0
#: Cycles of a weight; of a load for each lane; of a vector at the border.
_WEIGHT, _GATHERED, _BORDER = 0.5, 24.0, 16.0
#: Cycles of a tile, and of a result: more where planes of more filters than these share a set of the cache.
_TILE, _RESULT, _FAR_RESULT, _STORE_WAYS = 12.0, 2.0, 6.0, 8
#: Cycles until a sum can be added to again, and of a channel's loop; the share of loads that always shows.
_LATENCY, _LOOP, _SEEN = 8.0, 4.0, 0.12
#: What each register beyond so many costs where a compiler allocates them.
_CROWDED, _UNCROWDED = 0.03, 19
#: Lines of a cache set's ways: rows a multiple of so many bytes apart share a set. What each more costs.
_WAYS, _SET_BYTES, _CONFLICT = 12, 4096, 0.02
#: The share of memory's time that does not hide behind arithmetic.
_UNHIDDEN = 0.5


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
    c, e = plan.convolution, plan.element
    ox, oy, oc = plan.outputs_per_thread
    down, taps, deep = c.vertical, c.vertical.kernel * c.horizontal.kernel, c.group_channels
    products = ox * oy * oc
    lines = oy * down.kernel
    load = _NEIGHBOUR_LOAD if ox > 1 else _LOAD
    if plan.taps_at_once and oc == 1:  # rows of the image are shared
        lines = len({y * down.stride + k * down.dilation for y in range(oy) for k in range(down.kernel)})
        load = _SHARED_LOAD
    if plan.form == "none" and c.horizontal.stride > 1:
        load = _GATHERED
    loads = lines * c.horizontal.kernel * ox * load
    loads += taps * oc * _WEIGHT * (oy if oc == 1 else 1)
    loops = 1 if plan.taps_at_once else down.kernel
    channel = max(products * taps, loads, _LATENCY * taps) + _SEEN * loads + _LOOP * loops
    plane = down.outputs * c.horizontal.outputs * e
    result = _FAR_RESULT if plane % _SET_BYTES == 0 and oc > _STORE_WAYS else _RESULT
    cycles = deep * channel + _TILE + result * products
    cycles *= 1 + _CROWDED * max(0, plan.registers.needed - _UNCROWDED)
    pitch = (c.horizontal.size if plan.form == "none" else plan.pitch) * e
    if pitch % _SET_BYTES == 0:
        held = len({y * down.stride + k * down.dilation for y in range(oy) for k in range(down.kernel)})
        cycles *= 1 + _CONFLICT * max(0, held + oy - _WAYS)
    cycles *= 1 + border_share(plan) * _BORDER / oc
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
        each = 1.5 if axis.stride > 1 else 0.15  # nanoseconds, one by one or in vectors, on two cores
        return elements * each / 2 / 1e6
    return 2 * elements * plan.element / (m.gb_per_s * 1e6)
