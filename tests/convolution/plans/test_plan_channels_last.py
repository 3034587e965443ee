"""Plans of images whose channels lie side by side say what the kernels do that run."""

from xml.etree import ElementTree

import numpy as np
import pytest

from regweave import InputError, UnsupportedError, plan_conv
from regweave.cli import main
from regweave.convolution import Conv2d
from regweave.convolution.channels_last import LastConvolution
from regweave.convolution.channels_last.native import scratch_bytes
from regweave.kernels.channels_last import DepthTile, last_kernel
from regweave.machines.x86 import AVX2, AVX512, supports
from regweave.operators import convolution_of
from regweave.views import convolution_svg, convolution_text

MACHINES = [machine for machine in (AVX512, AVX2) if supports(machine)]
NAMES = [machine.name for machine in MACHINES]
CASES = {
    "1x1": ((1, 256, 56, 56), (64, 256, 1, 1), {}),
    "1x1 of few pixels": ((1, 1024, 7, 7), (512, 1024, 1, 1), {}),
    "1x1 at stride 2": ((1, 40, 33, 34), (72, 40, 1, 1), {"stride": 2}),
    "3x3 staged": ((1, 64, 56, 56), (64, 64, 3, 3), {"padding": 1}),
    "3x3 of few channels": ((1, 3, 200, 310), (16, 3, 3, 3), {"padding": 1}),
    "1x1 to three": ((1, 64, 40, 50), (3, 64, 1, 1), {}),
    "3x3 with dilation": ((2, 24, 30, 41), (33, 24, 3, 3), {"padding": 2, "dilation": 2}),
    "eight filters": ((1, 8, 60, 70), (8, 8, 3, 3), {"padding": 1}),
    "depthwise": ((1, 128, 28, 28), (128, 1, 3, 3), {"padding": 1, "groups": 128}),
    "depthwise 7x7": ((1, 40, 28, 28), (40, 1, 7, 7), {"padding": 3, "groups": 40}),
    "one pixel": ((1, 64, 1, 1), (100, 64, 1, 1), {}),
}


def layer_that_ran(shape, weights, settings, isa):
    """The native code of a call on an image of [batch, channels, height, width] whose channels lie last."""
    w = np.random.default_rng(0).standard_normal(weights, dtype=np.float32)
    layer = Conv2d(w, order="nhwc", isa=isa, threads=2, **settings)
    batch, channels, *size = shape
    layer(np.ones((batch, *size, channels), np.float32))
    return layer._last[2]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", CASES)
def test_a_plan_is_what_the_kernels_do(case, name):
    shape, weights, settings = CASES[case]
    plan = plan_conv(shape, weights, machine=name, order="nhwc", **settings)
    ran = layer_that_ran(shape, weights, settings, name)
    choice, tile = ran.choice, ran.choice.tile
    c = convolution_of(
        shape,
        weights,
        strides=settings.get("stride", 1),
        padding=settings.get("padding", 0),
        dilations=settings.get("dilation", 1),
        groups=settings.get("groups", 1),
    )
    assert isinstance(ran, LastConvolution)
    assert (plan.form, plan.order) == (choice.form, "nhwc")
    assert plan.workspace_bytes == ran.parts * scratch_bytes(c, choice)
    assert plan.flops == 2 * c.products
    assert plan.bytes == 4 * (np.prod(c.image_shape) + np.prod(c.out_shape) + np.prod(weights))
    along, down, filters = plan.outputs_per_thread
    if isinstance(tile, DepthTile):
        assert (along, down, filters, plan.lanes) == (tile.columns, tile.rows, 1, "channels")
    else:
        assert (filters, plan.lanes) == (max(choice.tiles), "filters")
        made = 1 if tile.transform is None else tile.transform.outputs
        whole = tile.pixels if tile.fused is None else len(tile.spans) * made
        assert along * down >= (whole if tile.fused else whole * made // 2)
        assert along <= choice.window_columns
    assert plan.threads[0] == -(-plan.convolution.horizontal.outputs // along)
    assert plan.threads[1] == -(-plan.convolution.vertical.outputs // down)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", CASES)
def test_registers_are_those_of_the_kernel(case, name):
    """The most that are in use at once in the text that is assembled."""
    shape, weights, settings = CASES[case]
    plan = plan_conv(shape, weights, machine=name, order="nhwc", **settings)
    choice = layer_that_ran(shape, weights, settings, name).choice
    assert last_kernel(choice.tile, choice.machine).pressure.most["vector"] == plan.registers.used
    assert plan.registers.available == len(choice.machine.register_class("vector").registers)


@pytest.mark.parametrize("machine", NAMES)
def test_planes_that_are_made_of_pixels_are_told(machine):
    """Of six channels, which are too few to be lanes and too many to be taken apart by vectors."""
    shape, weights, settings = (1, 6, 64, 96), (6, 1, 3, 3), {"padding": 1, "groups": 6, "dilation": 2}
    plan = plan_conv(shape, weights, machine=machine, order="nhwc", **settings)
    ran = layer_that_ran(shape, weights, settings, machine)
    assert not isinstance(ran, LastConvolution)
    assert (plan.order, plan.lanes, plan.form) == ("nhwc", "pixels", ran.choice.form)
    assert any("element by element" in note for note in plan.notes)
    planes = plan_conv(shape, weights, machine=machine, **settings)
    assert planes.predicted_ms < plan.predicted_ms
    assert not any("planes are made" in note for note in planes.notes)


@pytest.mark.parametrize("order", ["nchw", "nhwc"])
def test_pixels_that_are_independent_are_one_row(order):
    plan = plan_conv((1, 64, 28, 28), (32, 64, 1, 1), order=order)
    assert plan.convolution.horizontal.outputs == 28 * 28
    assert plan.notes[0] == "all 784 pixels are one row"


def test_other_ways_are_weighed():
    plan = plan_conv((1, 64, 56, 56), (64, 64, 3, 3), 1, 1, machine="avx512", order="nhwc")
    assert plan.form == "transformed"
    others = {other.form: other for other in plan.alternatives}
    assert others["none"].outputs_per_thread == (14, 1, 2)
    assert "all products" in others["none"].reason
    assert "planes are made of pixels" in others["unrolled"].reason
    forced = plan_conv((1, 64, 56, 56), (64, 64, 3, 3), 1, 1, machine="avx512", order="nhwc", form="unrolled")
    assert (forced.lanes, forced.form) == ("pixels", "unrolled")


@pytest.mark.parametrize("case", CASES)
def test_plans_are_told_and_drawn(case):
    shape, weights, settings = CASES[case]
    plan = plan_conv(shape, weights, order="nhwc", **settings)
    text, picture = convolution_text(plan), convolution_svg(plan)
    assert "channels last" in text
    assert f"neighbouring {plan.lanes}" in text
    assert f"neighbouring lanes are {plan.lanes}" in picture
    ElementTree.fromstring(picture)


def test_orders_that_are_not_there():
    with pytest.raises(InputError, match="nearest: nhwc"):
        plan_conv((1, 3, 9, 9), (4, 3, 3, 3), order="nhcw")
    with pytest.raises(UnsupportedError, match="planes of channels"):
        plan_conv((1, 3, 9, 9), (4, 3, 3, 3), order="nhwc", machine="bifrost-g76")


def test_the_verb_has_the_order(capfd):
    assert main(["conv", "--shape", "1x64x8x8", "--kernel", "32x64x1x1", "--order", "nhwc", "--json"]) == 0
    out = capfd.readouterr().out
    assert '"order": "nhwc"' in out
    assert '"lanes": "filters"' in out
