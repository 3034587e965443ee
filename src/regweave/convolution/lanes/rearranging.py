"""The lane-level kernel that rearranges a strip of image rows for a convolution plan.

    x axis    places of a rearranged row, a few neighbours for each thread, a vector in the end
    y axis    rearranged rows: image row, then plane
    z axis    channels of all images

Places beyond the image hold zeros, so that the convolution reads whole storage rows and needs no checks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regweave.convolution.lanes.steps import Steps
from regweave.programs import Memory, Program, ProgramBuilder, Value

if TYPE_CHECKING:
    from regweave.convolution.plans.plan import ConvPlan


def words_per_thread(plan: ConvPlan) -> int:
    """Neighbours that a thread moves."""
    return 1 if plan.machine.kind == "vectors" else plan.machine.width


def rearrange_program(plan: ConvPlan) -> Program:
    """The kernel: memories `image`, `strip` (the first output row) and `x`, the rearranged rows."""
    c, e = plan.convolution, plan.element
    down, along = c.vertical, c.horizontal
    vectors, each = plan.machine.kind == "vectors", words_per_thread(plan)
    lanes = plan.group[0] if vectors else plan.machine.lanes
    b = ProgramBuilder(
        "rearrange",
        lanes,
        memories=[
            Memory("image", "global", c.batch * c.channels * down.size * along.size * e),
            Memory("strip", "global", 4),
            Memory("x", "global", plan.workspace_bytes),
        ],
    )

    steps = Steps(b)
    number, add, times, less, choose = steps.number, steps.add, steps.times, steps.less, steps.choose
    zero = number(0)
    start = times(b.step("block", (), (), "x"), lanes * each)
    place = add(start, times(b.step("thread"), each))
    row = b.step("block", (), (), "y")
    line, plane = steps.divided(row, plan.planes)
    shift = times(plane, along.dilation)
    if plan.form == "polyphase":
        shift = steps.divided(shift, along.stride)[1]
    shift = add(shift, -along.before)
    (first,) = b.load("strip", zero)
    image_row = add(add(times(first, down.stride), line), -down.before)
    has_row = less(image_row, down.size)
    channel = b.step("block", (), (), "z")
    image = add(times(channel, down.size), choose(has_row, image_row, zero))
    image = times(image, along.size * e)
    rows = plan.strip_lines * plan.planes
    target = add(times(add(times(channel, rows), row), plan.pitch * e), times(place, e))

    def store(words: list[Value]) -> None:
        if e == 2 and len(words) > 1:
            pairs = zip(words[::2], words[1::2], strict=True)
            words = [b.step("or", (low, b.step("shift_left", (high, number(16))))) for low, high in pairs]
        b.store("x", target, words, e * each)

    def checked() -> None:
        words = []
        for at in range(each):
            source = add(times(add(place, at), along.stride), shift)
            has_place = less(source, along.size)
            address = add(image, times(choose(has_place, source, zero), e))
            (word,) = b.load("image", address, e)
            words.append(choose(has_row, choose(has_place, word, zero), zero))
        store(words)

    inner = along.size - ((lanes - 1) * along.stride + 1) + 1
    if not vectors or along.stride > 1 or inner < 1:
        if plan.pitch % (lanes * each) == 0:
            checked()
            return b.finish()
        with b.when(less(place, plan.pitch)):
            checked()
        return b.finish()
    # whole vectors of the image, where a row has them
    group_first = add(start, shift)
    flag = choose(less(group_first, inner), choose(has_row, number(1), zero), zero)
    with b.when(b.step("test", (flag,), (1,))):
        (word,) = b.load("image", add(image, times(add(place, shift), e)), e)
        store([word])
    with b.when(b.step("test", (b.step("xor", (flag, number(1))),), (1,))):
        checked()
    return b.finish()
