"""Images of few channels that lie side by side: bands are taken apart into planes and put together again."""

import ctypes

import numpy as np
import pytest

from regweave import plan_conv
from regweave.convolution import Conv2d
from regweave.convolution.channels_last import relayed
from regweave.convolution.channels_last.banded import BandChoice, band_bytes, bands, can_band
from regweave.convolution.channels_last.relayed import BandedConvolution, band_parts
from regweave.convolution.decision import decide, dense_strides
from regweave.devices import cpu
from regweave.kernels.relay import RelayPart, RelayStep, relay_kernel
from regweave.machines.x86 import AVX2, AVX512, supports
from regweave.operators import convolution_of

MACHINES = [machine for machine in (AVX512, AVX2) if supports(machine)]
ISAS = [machine.name for machine in MACHINES]


def random_case(random):
    """(image [batch, height, width, channels], weights, bias, settings) of up to four channels."""
    groups = int(random.choice([1, 1, 2, 3, 4]))
    channels, filters = (groups, groups) if groups > 1 else map(int, random.integers(1, 5, 2))
    kernel = tuple(map(int, random.choice([1, 2, 3, 3, 5, 7], 2)))
    settings = {
        "stride": tuple(map(int, random.choice([1, 1, 2, 3], 2))),
        "dilation": tuple(map(int, random.choice([1, 1, 2], 2))),
        "padding": tuple(map(int, random.integers(0, 4, 4))),
        "groups": groups,
    }
    height, width = int(random.integers(14, 60)), int(random.integers(64, 200))
    x = random.standard_normal((int(random.choice([1, 2])), height, width, channels), dtype=np.float32)
    w = random.standard_normal((filters, channels // groups, *kernel), dtype=np.float32)
    return x, w, random.standard_normal(filters, dtype=np.float32), settings


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("batch", [1, 2])
def test_more_threads_than_bands(batch, isa):
    """As few bands as there is much to do in each: every part of the work has one."""
    random = np.random.default_rng(4)
    w = random.standard_normal((4, 4, 9, 9), dtype=np.float32)
    x = random.standard_normal((batch, 60, 217, 4), dtype=np.float32)
    c = convolution_of((batch, 4, 60, 217), w.shape)
    expected = np.moveaxis(c.reference(np.moveaxis(x, -1, 1), w), 1, -1)
    step = [dense_strides(shape, "nhwc") for shape in (c.image_shape, c.out_shape)]
    machine = next(machine for machine in MACHINES if machine.name == isa)
    for threads in (2, 3, 7):
        choice = decide(c, machine, *step, threads=threads).choice
        assert isinstance(choice, BandChoice)
        count = batch * len(list(bands(c, choice.band_rows)))
        assert count <= threads
        assert band_parts(c, choice, threads) <= count
        y = Conv2d(w, order="nhwc", isa=isa, threads=threads)(x)
        assert abs(y - expected).max() < 2e-6 * abs(expected).max() + 2e-5


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("seed", range(12))
def test_random_convolutions_of_views(isa, seed):
    random = np.random.default_rng(seed)
    x, w, bias, settings = random_case(random)
    layer = Conv2d(w, bias, order="nhwc", isa=isa, threads=int(random.choice([1, 3])), **settings)
    c = layer.convolution(x.shape)
    expected = np.moveaxis(c.reference(np.moveaxis(x, -1, 1), w) + bias[:, None, None], 1, -1)
    limit = 2e-6 * max(1, abs(expected).max())
    assert abs(layer(x) - expected).max() < limit
    # rows of a larger image full of NaN, upside down, to rows between others
    around = np.full((x.shape[0], x.shape[1] + 2, x.shape[2] + 3, x.shape[3]), np.nan, np.float32)
    around[:, 1:-1, 1:-2] = x[:, ::-1]
    batch, filters, height, width = c.out_shape
    out = np.full((batch, height, width + 3, filters), 7, np.float32)
    layer(around[:, 1:-1, 1:-2][:, ::-1], out=out[:, :, 1:-2])
    assert abs(out[:, :, 1:-2] - expected).max() < limit
    assert (out[:, :, :1] == 7).all()
    assert (out[:, :, -2:] == 7).all()


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("channels", [2, 3, 4, 7, 24])
@pytest.mark.parametrize("stride", [1, 2])
def test_channels_that_share_a_kernel_are_one_plane(isa, channels, stride):
    random = np.random.default_rng(channels)
    x = random.standard_normal((2, 21, 37, channels), dtype=np.float32)
    for kernel, dilation in (((3, 3), 1), ((5, 5), 1), ((1, 4), 2), ((7, 9), 1)):
        w = np.repeat(random.standard_normal((1, 1, *kernel), dtype=np.float32), channels, axis=0)
        settings = {"padding": (1, 2, 3, 4), "dilation": dilation, "stride": (stride, 1), "groups": channels}
        layer = Conv2d(
            w, np.full(channels, 0.5, np.float32), order="nhwc", isa=isa, activation="relu", **settings
        )
        expected = layer.convolution(x.shape).reference(np.moveaxis(x, -1, 1), w) + 0.5
        expected = np.moveaxis(np.maximum(expected, 0), 1, -1)
        assert abs(layer(x) - expected).max() < 2e-6 * abs(expected).max()
        around = np.full((2, 21, 37 + 3, channels), np.nan, np.float32)
        around[:, :, 1:-2] = x
        assert abs(layer(around[:, :, 1:-2]) - expected).max() < 2e-6 * abs(expected).max()


@pytest.mark.parametrize("isa", ISAS)
def test_an_infinity_stays_with_its_channel(isa):
    x = np.random.default_rng(0).standard_normal((1, 40, 60, 3), dtype=np.float32)
    layer = Conv2d(np.ones((3, 1, 5, 5), np.float32), padding=2, groups=3, order="nhwc", isa=isa)
    finite = layer(x)
    x[0, 10, 10, 1] = np.inf
    met = np.zeros((40, 60, 3), bool)
    met[8:13, 8:13, 1] = True
    y = layer(x)
    assert np.isinf(y[0, met]).all()
    assert abs(y[0, ~met] - finite[0, ~met]).max() < 1e-4


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(("channels", "filters"), [(1, 3), (3, 1), (3, 3)])
def test_bands_of_nothing_but_padding(isa, channels, filters, monkeypatch):
    monkeypatch.setattr("regweave.convolution.channels_last.banded._BAND_BYTES", 4096)
    random = np.random.default_rng(0)
    x = random.standard_normal((2, 5, 40, channels), dtype=np.float32)
    w = random.standard_normal((filters, channels, 3, 3), dtype=np.float32)
    layer = Conv2d(w, order="nhwc", isa=isa, padding=(9, 1, 11, 1), form="none")
    expected = layer.convolution(x.shape).reference(np.moveaxis(x, -1, 1), w)
    y = layer(x)
    assert abs(np.moveaxis(y, -1, 1) - expected).max() < 2e-6 * abs(expected).max()
    used = layer._last[2]
    if isinstance(used, BandedConvolution):
        assert not all(lines for _, _, lines in bands(used.c, used.choice.band_rows))
    assert isinstance(used, BandedConvolution) or (channels, filters) == (1, 3)


@pytest.mark.parametrize("isa", ISAS)
def test_threads_do_not_change_bits(isa, monkeypatch):
    monkeypatch.setattr(relayed, "job_parts", lambda flops, threads, most: most if threads > 1 else 1)
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(size, dtype=np.float32) for size in ((1, 301, 400, 4), (4, 4, 3, 3)))
    layers = [Conv2d(w, padding=1, order="nhwc", threads=n, isa=isa) for n in (1, 2, 5)]
    results = [layer(x) for layer in layers]
    assert all(np.array_equal(results[0], other) for other in results[1:])
    assert layers[2]._last[2].parts > 2


@pytest.mark.parametrize("isa", ISAS)
def test_what_is_not_finite_stays_with_its_pixels(isa):
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(size, dtype=np.float32) for size in ((1, 40, 60, 4), (4, 4, 3, 3)))
    layer = Conv2d(w, padding=1, order="nhwc", isa=isa)
    finite = layer(x)
    x[0, 10, 10, 3] = np.inf
    met = np.zeros((40, 60), bool)
    met[9:12, 9:12] = True
    y = layer(x)
    assert np.isinf(y[0, met]).all()
    assert abs(y[0, ~met] - finite[0, ~met]).max() < 1e-4


@pytest.mark.parametrize("isa", ISAS)
def test_large_results_pass_the_caches(isa):
    random = np.random.default_rng(0)
    x, w = (
        random.standard_normal((1, 600, 1280, 3), dtype=np.float32),
        random.standard_normal((3, 1, 3, 3), dtype=np.float32),
    )
    layer = Conv2d(w, padding=1, groups=3, order="nhwc", isa=isa)
    y = layer(x)
    assert layer._last[2].choice.stream
    planes = Conv2d(w, padding=1, groups=3, isa=isa)(np.moveaxis(x, -1, 1))
    assert abs(np.moveaxis(planes, 1, -1) - y).max() < 1e-4


@pytest.mark.parametrize("shape", [(1, 3, 540, 960), (1, 3, 1200, 1000), (1, 4, 64, 100)])
@pytest.mark.parametrize("machine", ISAS)
def test_a_plan_is_what_is_done(machine, shape):
    plan = plan_conv(shape, (shape[1], 1, 3, 3), 1, 1, groups=shape[1], machine=machine, order="nhwc")
    layer = Conv2d(
        np.random.default_rng(0).standard_normal((shape[1], 1, 3, 3), dtype=np.float32),
        padding=1,
        groups=shape[1],
        order="nhwc",
        isa=machine,
        threads=2,
    )
    layer(np.ones((1, *shape[2:], shape[1]), np.float32))
    ran = layer._last[2]
    assert plan.workspace_bytes == ran.parts * band_bytes(plan.convolution, ran.choice)
    assert plan.workspace_bytes <= 0.02 * 4 * np.prod(shape) or np.prod(shape[2:]) < 1e6
    assert (plan.strip_rows, plan.form) == (ran.choice.band_rows, ran.choice.form)
    assert any("by vectors" in note for note in plan.notes)
    assert f"{plan.strip_rows} rows" in " ".join(plan.notes)


def test_what_can_be_taken_apart():
    def image(channels, filters, width):
        return convolution_of((1, channels, 9, width), (filters, channels, 3, 3))

    assert can_band(image(3, 3, 40), AVX512)
    assert not can_band(image(3, 3, 17), AVX512)
    assert not can_band(image(5, 3, 40), AVX512)
    assert not can_band(image(3, 5, 40), AVX512)


@pytest.mark.parametrize("machine", MACHINES, ids=ISAS)
def test_a_relay_calls_its_steps_in_order(machine):
    listing = relay_kernel(machine)
    assert listing.name == "rw_relay"
    called = []
    spy = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(lambda a, part: called.append((a, part)))
    address = ctypes.cast(spy, ctypes.c_void_p).value
    steps = (RelayStep * 3)(*(RelayStep(address, 10 + n, n) for n in range(3)))
    parts = (RelayPart * 2)(RelayPart(0, 0), RelayPart(ctypes.addressof(steps), 3))
    function = cpu.load_made(lambda: listing, "relay", machine)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)(function.address)(ctypes.addressof(parts), 1)
    assert called == [(10, 0), (11, 1), (12, 2)]
