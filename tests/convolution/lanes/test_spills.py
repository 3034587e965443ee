"""A plan's registers against a compiler's: clang for AMD's GPUs takes no more, and spills nothing."""

import re

import pytest

from regweave.benchmarks import CONVOLUTIONS
from regweave.convolution import plan_conv
from regweave.devices import hip

reason = hip.unsupported_reason()
pytestmark = pytest.mark.skipif(reason is not None, reason=str(reason))


def check(plan):
    text = hip.compile_text(plan.emit("hip"), plan.machine.name)
    held = {key: [int(n) for n in re.findall(rf"\.{key}:\s+(\d+)", text)] for key in
            ("vgpr_count", "vgpr_spill_count", "private_segment_fixed_size")}  # fmt: skip
    assert len(held["vgpr_count"]) == len(plan.programs())
    assert plan.registers.needed <= plan.registers.used <= plan.registers.available
    assert max(held["vgpr_count"]) <= plan.registers.used
    assert not any(held["vgpr_spill_count"] + held["private_segment_fixed_size"])


def plan_for(case, machine, form=None):
    c = case.convolution
    return plan_conv(
        c.image_shape, c.weights_shape, [axis.stride for axis in c.axes], c.pads, machine=machine, form=form
    )


@pytest.mark.parametrize("case", CONVOLUTIONS[:6], ids=lambda case: case.name)
def test_the_plans_of_six_convolutions_hold_what_they_say(case):
    check(plan_for(case, "gfx906"))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["none", "polyphase", "unrolled"])
@pytest.mark.parametrize("machine", ["gfx906", "gfx90a", "gfx942", "gfx1100"])
@pytest.mark.parametrize("case", CONVOLUTIONS[:6], ids=lambda case: case.name)
def test_so_do_those_of_every_form_and_machine(case, machine, form):
    check(plan_for(case, machine, form))


@pytest.mark.parametrize("form", ["none", "polyphase", "unrolled"])
@pytest.mark.parametrize(("case", "machine"), [(CONVOLUTIONS[0], "gfx90a"), (CONVOLUTIONS[2], "gfx1100")])
def test_nothing_is_spilled_whatever_the_form(case, machine, form):
    check(plan_for(case, machine, form))


@pytest.mark.parametrize("machine", ["gfx90a", "gfx942"])
@pytest.mark.parametrize("kernel", [(2, 1), (3, 1), (1, 1)])
def test_loops_that_load_little_are_unrolled(kernel, machine):
    check(plan_conv((1, 32, 64, 112), (32, 32, *kernel), 1, (kernel[0] // 2, 0), machine=machine))


@pytest.mark.parametrize("machine", ["gfx90a", "gfx1100"])
def test_strides_hold_two_addresses_for_each_row(machine):
    check(plan_conv((1, 3, 224, 224), (32, 3, 3, 3), 2, 1, machine=machine))
