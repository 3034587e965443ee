"""conv2d against its value in float64: any sizes, strides, pads, dilations, groups, orders and memory
layouts.
"""

import copy
import ctypes
import itertools
import mmap
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import regweave
from regweave.convolution import Conv2d, conv2d
from regweave.convolution.planes.choice import choose
from regweave.errors import InputError
from regweave.kernels.convolution import conv_kernel
from regweave.machines.x86 import AVX2, AVX512, supports
from regweave.operators import activation, convolution_of

ISAS = [machine.name for machine in (AVX512, AVX2) if supports(machine)]
ALL = [*ISAS, "portable"]
RNG = np.random.default_rng(7)


def image_of(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def close(result, c, x, w, b=None, word=None):
    """Whether a result is as near to float64 as a sum of so many float32 products can be."""
    expected = c.reference(x, w, b)
    bound = c.reference(np.abs(x), np.abs(w), None if b is None else np.abs(b)) * 3e-6 + 1e-6
    if bound.ndim == 4:  # rows that are transformed together round as the largest of them
        bound = bound.max(axis=2, keepdims=True)
    op = activation(word)
    if op is not None:
        expected = op.reference(expected)
    assert result.shape == c.out_shape
    worst = np.abs(result - expected) - bound
    assert not (worst > 0).any(), f"{c}: {np.abs(result - expected).max()}"


def checked(shape, weights, *, isa, word=None, order="nchw", threads=1, form=None, bias=True, **settings_):
    x, w = image_of(shape), image_of(weights, 1)
    b = image_of(weights[:1], 2) if bias else None
    renamed = {"stride": "strides", "dilation": "dilations"}
    c = convolution_of(shape, weights, **{renamed.get(k, k): v for k, v in settings_.items()})
    given_ = np.ascontiguousarray(np.moveaxis(x, 1, -1)) if order == "nhwc" else x
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = conv2d(
            given_, w, b, activation=word, order=order, threads=threads, form=form, isa=isa, **settings_
        )
    close(np.moveaxis(y, -1, 1) if order == "nhwc" else y, c, x, w, b, word)


#: What broke other libraries: shape, weights, settings.
HARD = [
    ((1, 3, 9, 17), (4, 3, 2, 2), {"padding": (0, 0, 1, 1)}),
    ((1, 2, 12, 33), (5, 2, 4, 4), {"padding": (1, 1, 2, 2)}),
    ((1, 4, 9, 20), (4, 4, 1, 7), {"padding": (0, 3)}),
    ((1, 4, 20, 9), (4, 4, 7, 1), {"padding": (3, 0)}),
    ((1, 4, 7, 31), (3, 4, 1, 3), {"padding": (0, 0, 0, 2)}),
    ((1, 2, 22, 27), (3, 2, 3, 3), {"padding": "same_upper", "dilation": 2}),
    ((1, 2, 22, 27), (3, 2, 3, 3), {"padding": "same_lower", "dilation": (3, 2)}),
    ((1, 6, 15, 18), (6, 1, 3, 3), {"groups": 6, "dilation": 2, "padding": 2}),
    ((2, 3, 15, 18), (9, 1, 3, 3), {"groups": 3, "padding": 1}),
    ((1, 2, 6, 6), (3, 2, 5, 5), {"padding": 5}),
    ((1, 2, 30, 40), (3, 2, 2, 2), {"stride": (5, 3)}),
    ((1, 2, 1, 40), (1, 2, 1, 5), {}),
    ((1, 1, 1, 1), (1, 1, 1, 1), {}),
    ((1, 3, 5, 2), (2, 3, 3, 3), {"padding": 1}),
    ((1, 1, 3, 217), (1, 1, 3, 3), {"padding": 1}),
    ((1, 2, 4, 4095), (3, 2, 3, 3), {"padding": 1}),
    ((1, 1, 40, 50), (1, 1, 31, 27), {"padding": 13}),
    ((1, 1, 9, 40), (1, 1, 3, 3), {"padding": (1, 20, 1, 20)}),
    ((2, 5, 60), (4, 5, 9), {"padding": (8, 3), "stride": 2}),
    ((1, 70, 8, 9), (33, 70, 3, 3), {"padding": 1}),
    ((1, 4, 13, 13), (40, 4, 3, 3), {"stride": 2, "padding": 1, "dilation": 2}),
]


@pytest.mark.parametrize("isa", ALL)
@pytest.mark.parametrize(("shape", "weights", "given_"), HARD, ids=lambda v: "")
def test_hard_cases(shape, weights, given_, isa):
    checked(shape, weights, isa=isa, **given_)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("form", ["unrolled", "polyphase", "none"])
def test_forms(form, isa):
    for stride, dilation in itertools.product((1, 2, 3), (1, 2)):
        if form == "none" and stride > 1:
            continue
        checked(
            (1, 10, 17, 75), (5, 10, 3, 4), isa=isa, form=form, stride=stride, dilation=dilation, padding=2
        )
        checked((1, 2, 17, 75), (1, 2, 3, 4), isa=isa, form=form, stride=stride, dilation=dilation, padding=2)


@st.composite
def cases(draw):
    number = lambda low, high: draw(st.integers(low, high))  # noqa: E731
    kernel, stride = (number(1, 5), number(1, 6)), (number(1, 3), number(1, 3))
    dilation, padding = (number(1, 2), number(1, 3)), tuple(number(0, 5) for _ in range(4))
    groups = draw(st.sampled_from((1, 1, 1, 2, 3)))
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    height, width = number(1, 24), draw(st.sampled_from((1, 2, 3, 15, 16, 17, 31, 33, 63, 70, 100)))
    shape = (
        number(1, 2),
        groups * number(1, 10),
        max(height, spans[0] - padding[0] - padding[2]),
        max(width, spans[1] - padding[1] - padding[3]),
    )
    weights = (groups * number(1, 9), shape[1] // groups, *kernel)
    return shape, weights, {"stride": stride, "dilation": dilation, "padding": padding, "groups": groups}


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases(), st.sampled_from(ISAS or ["portable"]), st.sampled_from(("nchw", "nhwc")), st.integers(1, 2))
def test_any_parameters(case, isa, order, threads):
    shape, weights, given_ = case
    checked(shape, weights, isa=isa, order=order, threads=threads, **given_)


@pytest.mark.slow
@settings(max_examples=2500, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases(), st.sampled_from(ALL), st.sampled_from(("nchw", "nhwc")), st.integers(1, 2))
def test_thousands_of_parameters(case, isa, order, threads):
    shape, weights, given_ = case
    checked(shape, weights, isa=isa, order=order, threads=threads, **given_)


@pytest.mark.parametrize("isa", ALL)
@pytest.mark.parametrize(
    "word", ["relu", "gelu", "silu", "hard_swish", "leaky_relu:0.1", "clip:-1,1", "tanh"]
)
def test_activations(word, isa):
    checked((1, 3, 9, 50), (6, 3, 3, 3), isa=isa, word=word, padding=1)
    checked((1, 1, 9, 50), (1, 1, 3, 3), isa=isa, word=word, padding=1)


@pytest.mark.parametrize("isa", ALL)
def test_nothing_beside_the_image_is_read_into_it(isa):
    """What lies around a view is NaN and Inf; rows of the view end in the middle of vectors."""
    for channels, filters in ((2, 5), (1, 1), (12, 5)):
        memory = np.full((1, channels, 30, 70), np.nan, np.float32)
        memory[..., ::2] = np.inf
        view = memory[:, :, 5:25, 7:61]
        view[...] = image_of(view.shape)
        w = image_of((filters, channels, 3, 5), 1)
        c = convolution_of(view.shape, w.shape, padding=(2, 3, 1, 0))
        close(conv2d(view, w, padding=(2, 3, 1, 0), isa=isa), c, view, w)


@pytest.mark.parametrize("isa", ALL)
def test_nan_and_infinity_in_the_image_stay_where_they_are(isa):
    for channels, filters in ((2, 5), (1, 1), (12, 5)):
        x, w = image_of((1, channels, 20, 40)), image_of((filters, channels, 3, 3), 1)
        x[0, 0, 10, 0], x[0, 0, 0, 39], x[0, 0, 19, 20] = np.nan, np.inf, -np.inf
        y = conv2d(x, w, padding=1, isa=isa)
        expected = convolution_of(x.shape, w.shape, padding=1).reference(x, w)
        assert (np.isfinite(y) == np.isfinite(expected)).all()
        assert (np.isnan(y) == np.isnan(expected)).all()


@pytest.mark.parametrize("isa", ALL)
@pytest.mark.parametrize(("channels", "filters"), [(2, 5), (1, 1), (12, 17)])
def test_any_memory(channels, filters, isa):
    """Mirrored, transposed, strided, broadcast and misaligned images; results into views of every kind."""
    w, b = image_of((filters, channels, 3, 3), 1), image_of((filters,), 2)
    base = image_of((2, channels, 40, 60))
    raw = np.zeros(base.nbytes + 1, np.uint8)
    odd = raw[1:].view(np.float32).reshape(base.shape)
    odd[...] = base
    images = [
        base[:, :, ::-1, ::-1],
        base[::-1, ::-1, ::2, ::3],
        base.transpose(0, 1, 3, 2),
        np.broadcast_to(base[:1, :, :, :1], base.shape),
        odd,
    ]
    for x in images:
        c = convolution_of(x.shape, w.shape, padding=1)
        n, k, height, width = c.out_shape
        outs = [
            np.zeros((n, k, height, width + 3), np.float32)[..., 1:-2],
            np.zeros((n, k, width, height), np.float32).transpose(0, 1, 3, 2),
            np.zeros((n, 2 * k, height, width), np.float32)[:, ::2],
            np.zeros((n, k, height, width), np.float32)[:, ::-1, ::-1, ::-1],
        ]
        for out in outs:
            assert conv2d(x, w, b, padding=1, out=out, isa=isa) is out
            close(out, c, x, w, b)


@pytest.mark.parametrize("isa", ISAS)
def test_memory_around_a_result_is_left_alone(isa):
    for channels, filters, stride in ((2, 5, 1), (1, 1, 1), (12, 5, 2)):
        x, w = image_of((1, channels, 21, 37)), image_of((filters, channels, 3, 3), 1)
        c = convolution_of(x.shape, w.shape, padding=1, strides=stride)
        memory = np.full((filters, c.out_shape[2] + 2, c.out_shape[3] + 40), 77, np.float32)
        out = memory[None, :, 1:-1, 20:-20]
        conv2d(x, w, padding=1, stride=stride, out=out, isa=isa)
        close(out, c, x, w)
        out[...] = 77
        assert (memory == 77).all()


def fenced(shape, at_end):
    """An array that begins, or ends, where memory that must not be touched does."""
    page = mmap.PAGESIZE
    size = 4 * int(np.prod(shape))
    room = -(-size // page) * page
    memory = mmap.mmap(-1, room + 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for fence in (start, start + page + room):
        assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(fence), page, 0) == 0
    offset = page + (room - size if at_end else 0)
    return np.frombuffer(memory, np.float32, int(np.prod(shape)), offset).reshape(shape)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_nothing_outside_image_and_result_is_touched(stride, isa):
    for channels, filters, width in ((1, 1, 33), (3, 9, 65), (12, 5, 70), (2, 1, 16)):
        w = image_of((filters, channels, 3, 3), 1)
        for at_end, padding in itertools.product((False, True), (0, 1)):
            x = fenced((1, channels, 11, width), at_end)
            x[...] = image_of(x.shape)
            c = convolution_of(x.shape, w.shape, strides=stride, padding=padding)
            out = fenced(c.out_shape, at_end)
            conv2d(x, w, stride=stride, padding=padding, out=out, isa=isa)
            close(out, c, x, w)


def test_result_over_its_own_image():
    x, w = image_of((1, 3, 20, 20)), image_of((3, 3, 3, 3), 1)
    expected = conv2d(x, w, padding=1)
    assert conv2d(x, w, padding=1, out=x) is x
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("isa", ISAS)
def test_large_images_by_streaming_stores_and_strips(isa):
    checked((1, 1, 1100, 2048), (1, 1, 5, 5), isa=isa, padding=2, threads=2)
    checked((1, 1, 1060, 2048), (2, 1, 5, 5), isa=isa, padding=(2, 1), word="relu")
    checked((1, 20, 600, 1024), (4, 20, 3, 3), isa=isa, padding=1, threads=2)
    checked((1, 3, 700, 1024), (3, 3, 3, 3), isa=isa, padding=1, threads=2)


def test_rows_below_are_asked_for_where_large_images_are_read_in_place():
    c, machine = convolution_of((1, 3, 700, 1024), (3, 3, 3, 3), padding=1), AVX512
    tiles = [choose(c, machine, stream=stream).tile for stream in (True, False)]
    assert [tile.direct for tile in tiles] == [True, True]
    assert ["prefetcht1" in conv_kernel(tile, machine).text for tile in tiles] == [True, False]


def test_threads_do_not_change_the_bits():
    x, w = image_of((2, 16, 50, 70)), image_of((24, 16, 3, 3), 1)
    one = conv2d(x, w, padding=1, threads=1)
    np.testing.assert_array_equal(one, conv2d(x, w, padding=1, threads=3))


@pytest.mark.parametrize("isa", ALL)
@pytest.mark.parametrize("order", ["nchw", "nhwc"])
def test_five_by_five_at_35(order, isa):
    checked((1, 48, 35, 35), (64, 48, 5, 5), isa=isa, order=order, padding=2)


def patches(layer, x, w, y, places):
    """Whether results at these places are those of windows taken out by themselves, in float64."""
    kernel, pads = w.shape[2:], layer.convolution(x.shape).pads[:2]
    for row, column in places:
        window = np.zeros((x.shape[1], *kernel))
        first = row - pads[0], column - pads[1]
        rows, columns = (
            range(max(0, at), min(size, at + k))
            for at, size, k in zip(first, x.shape[2:], kernel, strict=True)
        )
        inside = x[0, :, rows.start : rows.stop, columns.start : columns.stop]
        top, left = rows.start - first[0], columns.start - first[1]
        window[:, top : top + len(rows), left : left + len(columns)] = inside
        exact = (w.astype(np.float64) * window).sum(axis=(1, 2, 3))
        bound = (np.abs(w) * np.abs(window)).sum(axis=(1, 2, 3)) * 3e-6 + 1e-6
        assert (np.abs(y[0, :, row, column] - exact) <= bound).all(), (row, column)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "weights"),
    [
        ((1, 1, 8192, 8192), (1, 1, 5, 5)),
        ((1, 1, 8192, 8192), (4, 1, 3, 3)),
        ((1, 3, 4096, 8192), (8, 3, 3, 3)),
        ((1, 1, 4222, 4222), (1, 1, 127, 127)),
    ],
)
def test_huge_images_and_kernels_take_little_memory(shape, weights):
    x, w = image_of(shape), image_of(weights, 1) / np.float32(weights[-1])
    layer = Conv2d(w, padding="same_upper", threads=2)
    y = layer(x)
    random, corner = np.random.default_rng(0), (shape[2] - 1, shape[3] - 1)
    places = [(0, 0), corner, *zip(*(random.integers(0, size, 60) for size in shape[2:]), strict=True)]
    patches(layer, x, w, y, places)
    for native, _ in layer._code.kept.values():
        assert native.parts * native.template(np.zeros(1)).scratch_bytes <= 0.02 * x.nbytes


@pytest.mark.parametrize("isa", ISAS)
def test_single_taps_of_images_whose_rows_follow_one_another_and_of_others(isa):
    """Rows that follow one another are taken as one; threads share it, and the bits stay."""
    base, w, b = image_of((2, 40, 14, 16)), image_of((7, 40, 1, 1), 1), image_of((7,), 2)
    for x in (base, base[..., :13], base[:, :, ::-1], base.transpose(0, 1, 3, 2), base[:, :, :1]):
        c = convolution_of(x.shape, w.shape)
        results = [Conv2d(w, b, threads=n, isa=isa)(x) for n in (1, 2, 5)]
        close(results[0], c, x, w, b)
        for result in results[1:]:
            np.testing.assert_array_equal(results[0], result)
        out = np.zeros((2, 7, c.out_shape[2], 20), np.float32)[..., 1 : 1 + c.out_shape[3]]
        np.testing.assert_array_equal(conv2d(x, w, b, out=out, isa=isa), results[0])


def test_a_layer_serves_many_shapes():
    w = image_of((6, 3, 3, 3), 1)
    layer = Conv2d(w, padding=1, threads=1)
    for size in range(5, 30):
        x = image_of((1, 3, size, 2 * size), size)
        close(layer(x), layer.convolution(x.shape), x, w)
    assert layer(np.zeros((0, 3, 8, 8), np.float32)).shape == (0, 6, 8, 8)


def test_repeated_calls_look_at_what_they_are_given():
    """The second call of a layer is a short one where nothing but the numbers changed."""
    w, shape = image_of((1, 1, 3, 3), 1), (1, 1, 1500, 1504)  # 9 MB, past the caches
    layer = Conv2d(w, padding=1, threads=1)
    c = layer.convolution(shape)
    images = [image_of(shape, seed) for seed in range(3)]
    results = [layer(x) for x in images]
    for x, y in zip(images, results, strict=True):
        close(y, c, x, w)
    aligned = results[0]
    raw = np.empty(aligned.size + 1, np.float32)
    elsewhere = raw[1:].reshape(aligned.shape)  # contiguous, but not where lines begin
    assert layer(images[1], out=aligned) is aligned
    assert layer(images[2], out=elsewhere) is elsewhere
    np.testing.assert_array_equal(elsewhere, results[2])
    x = images[1].copy()
    layer(x, out=x)
    np.testing.assert_array_equal(x, results[1])
    aligned.flags.writeable = False
    with pytest.raises(InputError, match="read-only"):
        layer(images[0], out=aligned)
    with pytest.raises(InputError):
        layer(images[0].astype(np.float64), out=elsewhere)
    w[...] = 0  # the weights were packed when the layer was made
    np.testing.assert_array_equal(layer(images[2]), results[2])


def test_one_layer_in_many_threads():
    w = image_of((8, 6, 3, 3), 1)
    layer = Conv2d(w, padding=1, threads=2)
    images = [image_of((1, 6, 40 + seed % 3, 70), seed) for seed in range(24)]
    expected = [layer(x) for x in images]
    with ThreadPoolExecutor(6) as pool:
        for result, wanted in zip(pool.map(layer, images), expected, strict=True):
            np.testing.assert_array_equal(result, wanted)


def test_torch_tensors():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x, w = torch.randn(1, 3, 12, 20), torch.randn(5, 3, 3, 3)
    y = regweave.conv2d(x.to(memory_format=torch.channels_last), w, padding=1)
    assert isinstance(y, torch.Tensor)
    assert torch.allclose(y, torch.nn.functional.conv2d(x, w, padding=1), atol=1e-4)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"order": "nchx"}, "nchw"),
        ({"form": "polyphas"}, "polyphase"),
        ({"groups": 2}, "group"),
        ({"padding": "sam_upper"}, "same_upper"),
        ({"activation": "rel"}, "relu"),
        ({"bias": np.zeros(3, np.float32)}, "[4]"),
        ({"out": np.zeros((1, 4, 9, 9), np.float32)}, "[1, 4, 8, 8]"),
        ({"dilation": 9}, "span"),
        ({"threads": 0}, "threads"),
    ],
)
def test_errors(arguments, words):
    x, w = image_of((1, 3, 10, 10)), image_of((4, 3, 3, 3), 1)
    with pytest.raises(InputError) as raised:
        conv2d(x, w, **arguments)
    assert words in str(raised.value)


@pytest.mark.parametrize("isa", ISAS)
def test_a_form_that_a_kernel_cannot_have_is_an_error(isa):
    with pytest.raises(InputError, match="stride 2"):
        conv2d(image_of((1, 3, 10, 10)), image_of((4, 3, 3, 3)), form="none", stride=2, isa=isa)


def test_wrong_dimensions():
    for shape in ((3, 10, 10), (10,), (1, 1, 3, 10, 10)):
        with pytest.raises(InputError):
            conv2d(np.zeros(shape, np.float32), np.zeros((4, 3, 3, 3), np.float32))
    with pytest.raises(InputError):
        Conv2d(np.zeros((3, 3), np.float32))
    with pytest.raises(InputError):
        conv2d(np.zeros((1, 3, 8, 8), np.float64), np.zeros((4, 3, 3, 3), np.float32))


@pytest.mark.parametrize("order", ["nchw", "nhwc"])
@pytest.mark.parametrize("isa", [None, "portable"])
@pytest.mark.filterwarnings("ignore:regweave runs on its portable device")
def test_copies_and_pickles_are_layers_of_their_own(order, isa):
    random = np.random.default_rng(1)
    x = random.standard_normal((2, 7, 19, 3) if order == "nhwc" else (2, 3, 7, 19), np.float32)
    weights, bias = random.standard_normal((5, 3, 3, 2), np.float32), np.arange(5, dtype=np.float32)
    settings = {"stride": (1, 2), "padding": (1, 0, 2, 1), "dilation": (2, 1), "threads": 1, "isa": isa}
    layer = regweave.Conv2d(weights, bias, activation="leaky_relu:0.1", order=order, **settings)
    expected = layer(x)
    copies = [copy.copy(layer), copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))]
    said = repr(layer)
    assert "5x3x3x2, strides (1, 2), padding (1, 0, 2, 1)" in said
    assert said.endswith("; portable>") == (layer.machine is None)
    assert layer.machine is None or isa is None
    del layer
    for other in copies:
        assert repr(other) == said
        np.testing.assert_array_equal(other(x), expected)
