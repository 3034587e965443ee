"""Products of pixels of planes that are a few pixels: lanes are filters, results are turned at the end."""

import numpy as np
import pytest

from regweave import plan_conv
from regweave.convolution import Conv2d
from regweave.convolution.channels_last import LastConvolution
from regweave.convolution.channels_last.choice import choose_planar
from regweave.convolution.channels_last.native import scratch_bytes
from regweave.kernels.channels_last import last_kernel
from regweave.machines.x86 import AVX2, AVX512, supports
from regweave.operators import convolution_of

MACHINES = [machine for machine in (AVX512, AVX2) if supports(machine)]
ISAS = [machine.name for machine in MACHINES]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("activation", [None, "relu", "silu"])
@pytest.mark.parametrize(
    ("batch", "channels", "filters", "size"),
    [(1, 64, 16, (7, 7)), (2, 300, 112, (5, 9)), (1, 513, 32, (17, 1))],
)
def test_against_float64(isa, activation, batch, channels, filters, size):
    """Also of channels and to filters between others, in memory that is full of NaN."""
    random = np.random.default_rng(channels)
    x = np.full((batch, channels + 3, *size), np.nan, np.float32)
    x[:, 2:-1] = random.standard_normal((batch, channels, *size))
    w = random.standard_normal((filters, channels, 1, 1), dtype=np.float32)
    bias = random.standard_normal(filters, dtype=np.float32)
    out = np.full((batch, filters + 2, *size), 7, np.float32)
    for threads in (1, 3):
        layer = Conv2d(w, bias, activation=activation, isa=isa, threads=threads)
        layer(x[:, 2:-1], out=out[:, 1:-1])
        assert isinstance(layer._last[2], LastConvolution)
        assert layer._last[2].choice.tile.planar
        expected = layer.convolution(x[:, 2:-1].shape).reference(x[:, 2:-1], w) + bias[:, None, None]
        if activation is not None:
            expected = np.maximum(expected, 0) if activation == "relu" else expected / (1 + np.exp(-expected))
        assert abs(out[:, 1:-1] - expected).max() < 2e-6 * abs(expected).max()
        assert (out[:, [0, -1]] == 7).all()


@pytest.mark.parametrize("isa", ISAS)
def test_threads_do_not_change_bits(isa):
    random = np.random.default_rng(0)
    x = random.standard_normal((1, 960, 7, 7), dtype=np.float32)
    w = random.standard_normal((320, 960, 1, 1), dtype=np.float32)
    one = Conv2d(w, isa=isa, threads=1)(x)
    assert all(np.array_equal(Conv2d(w, isa=isa, threads=n)(x), one) for n in (2, 5))


@pytest.mark.parametrize("machine", MACHINES, ids=ISAS)
def test_lanes_that_would_be_full_are_pixels(machine):
    def chosen(channels, filters, pixels, form=None):
        c = convolution_of((1, channels, 1, pixels), (filters, channels, 1, 1))
        return choose_planar(c, machine, epilogue=(), form=form)

    assert chosen(512, 512, 49) is not None
    assert chosen(512, 512, 49, "none") is None
    assert chosen(512, 512, 48) is None
    assert chosen(512, 500, 49) is None
    assert chosen(8, 512, 49) is None
    assert chosen(512, 512, 5) is None
    assert chosen(512, 512, 6401) is None


@pytest.mark.parametrize("machine", MACHINES, ids=ISAS)
def test_a_plan_is_what_is_done(machine):
    plan = plan_conv((1, 512, 7, 7), (256, 512, 1, 1), machine=machine.name)
    layer = Conv2d(np.ones((256, 512, 1, 1), np.float32), isa=machine.name, threads=2)
    layer(np.ones((1, 512, 7, 7), np.float32))
    ran = layer._last[2]
    assert (plan.order, plan.lanes, plan.form) == ("nchw", "filters", "none")
    assert plan.workspace_bytes == ran.parts * scratch_bytes(plan.convolution, ran.choice)
    assert plan.registers.used == last_kernel(ran.choice.tile, machine).pressure.most["vector"]
    assert any("turned" in note for note in plan.notes)
    assert "neighbouring filters" in plan.explain()
