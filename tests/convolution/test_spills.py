"""A plan's registers against a compiler's: clang for AMD's GPUs spills nothing, whatever the form."""

import re

import pytest

from regweave.convolution import plan_conv
from regweave.devices import hip

reason = hip.unsupported_reason()
pytestmark = pytest.mark.skipif(reason is not None, reason=str(reason))


@pytest.mark.parametrize("form", ["none", "polyphase", "unrolled"])
@pytest.mark.parametrize(
    ("shape", "weights", "stride"),
    [((1, 3, 1080, 1920), (16, 3, 3, 3), 1), ((1, 3, 224, 224), (64, 3, 7, 7), 2)],
)
def test_nothing_is_spilled(shape, weights, stride, form):
    plan = plan_conv(shape, weights, stride, "same_upper", machine="gfx906", form=form)
    text = hip.compile_text(plan.emit("hip"), "gfx906")
    held = {key: [int(n) for n in re.findall(rf"\.{key}:\s+(\d+)", text)] for key in
            ("vgpr_count", "vgpr_spill_count", "private_segment_fixed_size")}  # fmt: skip
    assert len(held["vgpr_count"]) == len(plan.programs())
    assert max(held["vgpr_count"]) <= plan.registers.available
    assert not any(held["vgpr_spill_count"] + held["private_segment_fixed_size"])
