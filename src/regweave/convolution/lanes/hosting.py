"""A C program around the OpenCL kernels of a convolution plan, for whoever wants to call them from their own.

    cc -O2 conv.c -lOpenCL && ./a.out                   on a phone: the vendor's libOpenCL.so
    Mali-G76: 2000 results compared, largest error 3.1e-07; 8.21 ms

It holds all that a caller needs and nothing else: the kernels' text, memory and its sizes, packing of
weights, launches in their order. What it computes is compared with loops over the taps, at corners, edges and
anywhere. It is C11 for OpenCL 1.2, without anything of ours (`host.c`, where words between @ are filled in).
"""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import TYPE_CHECKING

from regweave.convolution.lanes.emitting import bare_text, grids, local_sizes
from regweave.convolution.lanes.packing import filter_blocks, filter_pitch

if TYPE_CHECKING:
    from regweave.convolution.plans.plan import ConvPlan

#: How memories of kernels are called in the program.
_BUFFERS = {"image": "IMAGE", "x": "ROWS", "w": "WEIGHTS", "strip": "STRIP", "y": "RESULT"}

_CONVERSIONS = {
    "f32": """\
static Element stored(float value) { return value; }
static double number(Element value) { return value; }""",
    "f16": """\
// Halves: numbers that are one exactly, and back.
static Element stored(float value) {
    int exponent;
    const float part = frexpf(fabsf(value), &exponent);  // 0.5 <= part < 1
    const int bits = value == 0 ? 0 : ((exponent + 14) << 10) + (int)(part * 2048 - 1024);
    return (Element)(bits | (value < 0) << 15);
}
static double number(Element value) {
    const int exponent = value >> 10 & 31, part = value & 1023;
    const double size = exponent == 31 ? part ? NAN : INFINITY
                        : exponent     ? ldexp(1024 + part, exponent - 25)
                                       : ldexp(part, -24);
    return value >> 15 ? -size : size;
}""",
}
_ELEMENTS = {"f32": ("float", "1e-5"), "f16": ("uint16_t", "2e-3")}


def host_text(plan: ConvPlan) -> str:
    """The program. UnsupportedError for a machine whose kernels are assembly."""
    element, tolerance = _ELEMENTS[plan.dtype]
    lines = bare_text(plan, "opencl").splitlines()
    vectors = plan.machine.kind == "vectors"
    filled = {
        "title": f"{plan.convolution}, {plan.dtype}, {plan.machine.title}",
        "tile": f"rows: {plan.form}; outputs per thread: {' x '.join(map(str, plan.outputs_per_thread))}",
        "sizes": "\n".join(f"    {name} = {value}," for name, value in _sizes(plan).items()),
        "element": element,
        "text": "\n".join(f"    {json.dumps(line + chr(10))}," for line in lines),
        "launches": "\n".join(_launches(plan)),
        "conversion": _CONVERSIONS[plan.dtype],
        "device": "CPU" if vectors else "GPU",
        "options": "-cl-std=CL3.0" if vectors else "",
        "tolerance": tolerance,
    }
    program = files("regweave.convolution.lanes").joinpath("host.c").read_text("utf-8")
    return re.sub("@([a-z]+)@", lambda found: filled[found[1]], program)


def _sizes(plan: ConvPlan) -> dict[str, int]:
    c = plan.convolution
    down, along = c.vertical, c.horizontal
    return {
        "BATCH": c.batch,
        "CHANNELS": c.channels,
        "HEIGHT": down.size,
        "WIDTH": along.size,
        "FILTERS": c.filters,
        "ROWS": down.outputs,
        "COLUMNS": along.outputs,
        "GROUPS": c.groups,
        "KERNEL_ROWS": down.kernel,
        "KERNEL_COLUMNS": along.kernel,
        "STRIDE_DOWN": down.stride,
        "STRIDE_ALONG": along.stride,
        "DILATION_DOWN": down.dilation,
        "DILATION_ALONG": along.dilation,
        "TOP": down.before,
        "LEFT": along.before,
        "BLOCKS": filter_blocks(plan),
        "EACH": plan.outputs_per_thread[2],
        "PITCH": filter_pitch(plan),
        "WORKSPACE": plan.workspace_bytes,
    }


def _launches(plan: ConvPlan) -> list[str]:
    """Kernels of all strips, one line of the table each."""
    programs, lines = plan.programs(), []
    for first in plan.strip_starts:
        for program, grid, local in zip(programs, grids(plan), local_sizes(plan), strict=True):
            names = [_BUFFERS[memory.name] for memory in program.memories]
            if plan.form == "none":
                names = ["IMAGE" if name == "ROWS" else name for name in names]
            names = ["ROWS_HELD" if name == "ROWS" else name for name in names]
            threads = 1 if plan.machine.kind == "vectors" else local[0]
            sizes = [grid[0] * threads, *grid[1:]]
            lines.append(
                f'    {{"{program.name}", {len(names)}, {{{", ".join(names)}}}, '
                f"{{{', '.join(map(str, sizes))}}}, {{{', '.join(map(str, local))}}}, {first}}},"
            )
    return lines
