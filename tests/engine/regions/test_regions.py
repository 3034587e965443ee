"""Regions of convolutions inside onnxruntime: any size, batch and number of threads, the same results."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import pytest
from engine_models import Images

import regweave
from regweave.devices.cpu import chosen_machine
from regweave.devices.onnxruntime import DOMAIN, MOST_IMAGES, unsupported_reason
from regweave.devices.onnxruntime.sized import Pool
from regweave.engine.building.building import build
from regweave.engine.building.optimiser import Workshop, block_size
from regweave.engine.natives.natives import Natives
from regweave.engine.regions import interleaved
from regweave.engine.verifying.truth import Truth
from regweave.errors import DeviceError, InputError, UnsupportedError
from regweave.graphs import find_candidates, find_convolutions, find_pieces, find_regions, read_model
from regweave.graphs.pieces.members import JOIN, Member, Region, Spot, placed, spots
from regweave.operators import Repeat

pytestmark = pytest.mark.skipif(
    chosen_machine() is None or unsupported_reason() is not None, reason="no native kernels on this machine"
)
SAME = {"kernel_shape": [2, 2], "strides": [1, 1], "auto_pad": "SAME_UPPER"}
NEAREST = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}


@pytest.fixture(params=[1 << 62, 0], ids=["whole", "banded"], autouse=True)
def room(request, monkeypatch):
    """Images between members as a whole, and in bands of four rows, however small they are."""
    monkeypatch.setattr("regweave.engine.regions.banded.BAND_BYTES", request.param)


def stem(channels: int = 3) -> onnx.ModelProto:
    """A first convolution, a pool and two convolutions behind it, joined, and a last one."""
    m = Images(channels=channels, size=("height", "width"))
    a = m.node("Relu", [m.conv("x", "first", channels, 12, 3)], "a")
    pooled = m.node("MaxPool", [a], "pooled", **SAME)
    named = m.node("Identity", [pooled], "named")
    b = m.conv(m.node("Relu", [m.conv(a, "down", 12, 6, 3)], "b"), "c", 6, 10, 3)
    m.conv(m.node("Concat", [named, b], "joined", axis=1), "y", 22, 9, 3)
    return m.model(["y"])


def pyramid() -> onnx.ModelProto:
    """Images of several sizes enlarged and joined; one comes as it is, one is joined twice."""
    m = Images(channels=4, size=("height", "width"))
    small = m.node("AveragePool", ["x"], "small", kernel_shape=[2, 2], strides=[2, 2])
    tiny = m.node("AveragePool", [small], "tiny", kernel_shape=[2, 2], strides=[2, 2])
    parts = [m.node("Sigmoid", ["x"], "plain")]
    for name, factor in ((small, 2), (tiny, 4)):
        scales = m.constant(f"{name}.scales", np.array([1, 1, factor, factor], np.float32))
        parts.append(m.node("Resize", [name, "", scales], f"{name}.large", **NEAREST))
    m.conv(m.node("Concat", [*parts, parts[1], parts[0]], "joined", axis=-3), "y", 20, 8, 3)
    return m.model(["y"])


def nested() -> onnx.ModelProto:
    """A joined image that is joined again, and read beside that."""
    m = Images(channels=5, size=("height", "width"))
    a, b = m.conv("x", "a", 5, 6, 3), m.conv("x", "b", 5, 7, 3)
    inner = m.node("Concat", [a, b], "inner", axis=1)
    c = m.conv(inner, "c", 13, 4, 3)
    m.conv(m.node("Concat", [c, inner, "x"], "outer", axis=1), "y", 22, 6, 3)
    return m.model(["y"])


def mixer(*outputs: str, channels: int = 6) -> onnx.ModelProto:
    """A gate, a chain with a residual, convolutions around it, and a product that is enlarged."""
    m = Images(channels=channels, size=("height", "width"))
    gate = m.conv(m.node("GlobalAveragePool", ["x"], "mean"), "gate", channels, channels, 1)
    gated = m.node("Mul", [m.conv("x", "depthwise", channels, channels, 3), gate], "gated")
    wide = m.node("Relu", [m.conv(gated, "wide", channels, 20, 1)], "active")
    mixed = m.node("Add", [gated, m.conv(wide, "narrow", 20, channels, 1)], "mixed")
    after = m.conv(mixed, "after", channels, channels, 3)
    scales = m.constant("scales", np.array([1, 1, 2, 2], np.float32))
    large = m.node("Resize", [m.conv(after, "few", channels, 5), "", scales], "large", **NEAREST)
    m.conv(large, "y", 5, 7, 3)
    return m.model(["y", *outputs])


def spread() -> onnx.ModelProto:
    """A convolution and a product whose channels become squares of pixels."""
    m = Images(channels=5, size=("height", "width"))
    deep = m.conv(m.conv("x", "a", 5, 7, 3), "deep", 7, 12, 3)
    m.node("DepthToSpace", [deep], "y", blocksize=2, mode="CRD")
    return m.model(["y"])


def random_region(seed: int) -> tuple[onnx.ModelProto, int]:
    """Branches of random members that keep the size, joined; a last convolution of any kind."""
    random = np.random.default_rng(seed)
    channels = int(random.integers(1, 6))
    m = Images(channels=channels, size=("height", "width"), seed=seed)
    tensors = {"x": channels}
    for index in range(int(random.integers(2, 6))):
        source, y = str(random.choice(list(tensors))), f"t{index}"
        width = tensors[source]
        tensors[y] = width
        if random.integers(4) == 0 and source != "x":
            sizes = random.integers(1, 4, 2)
            pads = {
                "kernel_shape": sizes.tolist(),
                "auto_pad": str(random.choice(["SAME_UPPER", "SAME_LOWER"])),
            }
            m.node("MaxPool", [source], y, strides=[1, 1], **pads)
        else:
            tensors[y] = int(random.integers(1, 14))
            _random_conv(m, random, source, y, width, tensors[y], size_stays=True)
    joined = [*tensors][1:] + [str(random.choice(list(tensors)))] * int(random.integers(2))
    if len(joined) == 1:
        joined *= 2
    m.node("Concat", joined, "joined", axis=1)
    _random_conv(m, random, "joined", "y", sum(tensors[name] for name in joined), 7, size_stays=False)
    return m.model(["y"]), channels


def _random_conv(m: Images, random, source: str, y: str, width: int, filters: int, size_stays: bool) -> None:
    kernel, dilation = (int(n) for n in random.integers(1, 5, 2))
    kernel = max(kernel, 2)
    reach = (kernel - 1) * dilation
    settings = {"dilations": [dilation, 1], "strides": [1, 1], "kernel_shape": [kernel, 3]}
    before = int(random.integers(0, reach + 1)) if size_stays else int(random.integers(0, kernel))
    settings["pads"] = [before, 1, reach - before if size_stays else int(random.integers(0, kernel)), 1]
    if not size_stays:
        settings["strides"] = random.integers(1, 4, 2).tolist()
    weights = random.standard_normal((filters, width, kernel, 3)).astype(np.float32) / np.sqrt(width * kernel)
    m.node("Conv", [source, m.constant(f"{y}.w", weights.astype(np.float32))], y, **settings)


def regions_of(proto: onnx.ModelProto, **dims: int):
    model = read_model(proto, {"batch": 1, **dims})
    return model, find_regions(model, find_convolutions(model), (), MOST_IMAGES)


def all_in_one(height: int, width: int):
    """The mixer as a model, and the one region that products and element-wise work make of it too."""
    model = read_model(mixer(), {"batch": 1, "height": height, "width": width})
    chains = [piece for piece in find_candidates(model) if piece.refusal is None]
    chosen = (*chains, *find_convolutions(model, chains))
    [piece] = find_regions(model, (*chosen, *find_pieces(model, chosen)), (), MOST_IMAGES, large=0)
    return model, piece


def opened(proto: onnx.ModelProto, threads: int = 1, count: int = 1, **dims: int):
    model, pieces = regions_of(proto, **(dims or {"height": 16, "width": 24}))
    assert len(pieces) == count
    natives = Natives(chosen_machine(), threads, block_size())
    with Workshop() as shop:
        built = build(model, pieces, natives, shop)
        assert sum(node.domain == DOMAIN for node in built.proto.graph.node) == count
        assert not any(node.op_type == "Concat" for node in built.proto.graph.node)
        return built.open(shop, threads)


def image(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("seed", range(6))
def test_random_regions(seed, run):
    """Kernels, strides, dilations and pads of every kind, pooled, enlarged, joined and read again."""
    proto, channels = random_region(seed)
    session = opened(proto, 1 + seed % 2, height=32, width=20)
    for batch, height, width in ((1, 32, 20), (2, 56, 9), (1, 23, 40)):
        x = image(batch, channels, height, width)
        [expected], [found] = run(proto, {"x": x}), session.run(None, {"x": x})
        scale = max(1, np.abs(expected).max(initial=0))
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-5 * scale, err_msg=str(seed))


@pytest.mark.slow
@pytest.mark.parametrize("start", range(100, 400, 20))
def test_many_random_regions(start, run):
    for seed in range(start, start + 20):
        test_random_regions(seed, run)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("make", [stem, pyramid, nested, spread], ids=lambda make: make.__name__)
def test_the_results_are_onnxruntime_s_at_any_size(make, threads, run):
    proto = make()
    session = opened(proto, threads)
    channels = proto.graph.input[0].type.tensor_type.shape.dim[1].dim_value
    for batch, height, width in ((1, 16, 24), (3, 8, 40), (2, 4, 4), (1, 100, 68), (1, 16, 24), (0, 8, 8)):
        x = image(batch, channels, height, width)
        [expected], [found] = run(proto, {"x": x}), session.run(None, {"x": x})
        assert found.shape == expected.shape
        np.testing.assert_allclose(
            found, expected, rtol=1e-4, atol=2e-5 * max(1, np.abs(expected).max(initial=0))
        )


@pytest.mark.parametrize("threads", [1, 2])
def test_products_gates_and_residuals_in_a_region(threads, run):
    model, piece = all_in_one(16, 24)
    kinds = {member.work.kind for member in piece.region.members if not isinstance(member.work, Repeat)}
    assert kinds == {"convolution", "elementwise", "chain", "single"}
    assert piece.region.inputs == ("x", "gate")
    natives = Natives(chosen_machine(), threads, block_size())
    with Workshop() as shop:
        session = build(model, [piece], natives, shop).open(shop, threads)
    for shape in ((1, 6, 16, 24), (3, 6, 8, 40), (1, 6, 37, 5), (0, 6, 4, 4)):
        x = image(*shape)
        [expected], [found] = run(mixer(), {"x": x}), session.run(None, {"x": x})
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_the_truth_of_some_rows_is_that_of_all(run):
    """In float64, row by row from what these rows need, against the whole model."""
    _, piece = all_in_one(12, 9)
    _, [apart] = regions_of(spread(), height=6, width=5)
    image_of_apart = image(2, 5, 6, 5)
    truth = Truth(apart.region, {"x": image_of_apart})
    found = np.concatenate([truth.rows("y", line, line + 1) for line in range(12)], axis=2)
    [expected] = run(spread(), {"x": image_of_apart})
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    x = image(2, 6, 12, 9)
    [expected, gate] = run(mixer("gate"), {"x": x})
    truth = Truth(piece.region, {"x": x, "gate": gate})
    rows = [truth.rows("y", line, line + 1) for line in range(24)]
    assert rows[0].dtype == np.float64
    np.testing.assert_allclose(np.concatenate(rows, axis=2), expected, rtol=1e-4, atol=1e-4)


def test_images_between_that_do_not_meet_are_an_error():
    _, piece = all_in_one(8, 8)
    with pytest.raises(InputError, match="cannot be combined"):
        piece.region.shapes([(1, 6, 8, 8), (2, 6, 1, 1)])


def test_small_images_stay_where_they_are():
    """Over images that fit the cache, products keep to onnxruntime's layout."""
    model = read_model(mixer(), {"batch": 1, "height": 16, "width": 24})
    pieces = (*find_convolutions(model), *find_pieces(model, find_convolutions(model)))
    found = find_regions(model, pieces, (), MOST_IMAGES)
    assert found
    inside = [member.work for piece in found for member in piece.region.members[:-1]]
    assert all(isinstance(work, Repeat) or work.kind == "convolution" for work in inside)


def test_what_is_hardly_worth_it_does_not_make_the_result_larger():
    m = Images(channels=4, size=(12, 12))
    first = m.conv(m.conv("x", "a", 4, 12, 3), "b", 12, 6, 3)
    few, many = m.conv(first, "few", 6, 3, 3), m.conv("few", "many", 3, 40, 3)
    model = read_model(m.model(["many"]), {"batch": 1})
    pieces = {piece.output: piece for piece in find_convolutions(model)}

    def ends(*spare: str) -> str:
        wanted = [piece for name, piece in pieces.items() if name not in spare]
        [found] = find_regions(model, wanted, [pieces[name] for name in spare], MOST_IMAGES, large=0)
        return found.region.output

    assert ends(few) == many  # it is wanted
    assert ends(many) == few
    assert ends(few, many) == few


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("kernel", "strides", "pads"),
    [((2, 2), (2, 2), (0, 0, 0, 0)), ((3, 3), (2, 2), (1, 1, 1, 1)), ((1, 4), (1, 4), (0, 0, 0, 0))],
)
def test_pools_make_images_smaller_between_convolutions_and_at_the_end(kernel, strides, pads, threads, run):
    m = Images(channels=4, size=("height", "width"))
    tensor, channels = "x", 4
    for index, filters in enumerate((6, 9)):
        a = m.node("Relu", [m.conv(tensor, f"c{index}", channels, filters, 3)], f"a{index}")
        settings = {"kernel_shape": kernel, "strides": strides, "pads": pads}
        tensor, channels = m.node("MaxPool", [a], f"p{index}", **settings), filters
    proto = m.model([tensor])
    _, [piece] = regions_of(proto, height=16, width=24)
    assert [member.output for member in piece.region.members] == ["a0", "p0", "a1", "p1"]
    session = opened(proto, threads)
    for shape in ((1, 4, 20, 36), (2, 4, 33, 70), (1, 4, 12, 17), (0, 4, 20, 36)):
        x = image(*shape)
        [expected], [found] = run(proto, {"x": x}), session.run(None, {"x": x})
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("pads", [(2, 1, 2, 1), (1, 1, 1, 1), (0, 0, 3, 2)])
def test_rows_that_lie_apart_are_taken_apart_in_regions_too(pads, run, monkeypatch):
    m = Images(channels=4, size=("height", "width"))
    a = m.node("Relu", [m.conv("x", "first", 4, 8, 3, dilations=[2, 1], pads=pads)], "a")
    m.conv(a, "y", 8, 6, 3, dilations=[3, 2], pads=pads)
    proto = m.model(["y"])
    asked = []
    parts = interleaved.convolutions

    def convolutions(*given):
        found = parts(*given)
        asked.append(len(found))
        return found

    monkeypatch.setattr("regweave.engine.regions.plan.convolutions", convolutions)
    session = opened(proto, height=40, width=24)
    for shape in ((1, 4, 40, 24), (2, 4, 33, 30), (1, 4, 13, 17)):
        x = image(*shape)
        [expected], [found] = run(proto, {"x": x}), session.run(None, {"x": x})
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
        x[0, 1, 6, 7] = np.nan
        [expected], [found] = run(proto, {"x": x}), session.run(None, {"x": x})
        np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    assert max(asked) > 1


def test_threads_do_not_change_a_bit():
    x = image(2, 3, 32, 48)
    one, two = (opened(stem(), threads).run(None, {"x": x})[0] for threads in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_infinities_stay_in_their_windows(run):
    """A step whose kernel cannot hold them is done again in another way, and the steps behind it go on."""
    proto = stem()
    session = opened(proto)
    x = image(1, 3, 32, 24)
    x[0, 1, 5, 7] = np.inf
    [expected], [found] = run(proto, {"x": x}), session.run(None, {"x": x})
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))
    there = np.isfinite(expected)
    np.testing.assert_allclose(found[there], expected[there], rtol=1e-4, atol=1e-4)


def test_images_that_do_not_meet_are_an_error():
    with pytest.raises(DeviceError, match="cannot be joined"):
        opened(pyramid()).run(None, {"x": image(1, 4, 16, 23)})


def test_what_is_read_elsewhere_or_leaves_stays_outside():
    m = Images(channels=4, size=("height", "width"))
    a, b = m.conv("x", "a", 4, 6, 3), m.conv("x", "b", 4, 6, 3)
    m.node("Sigmoid", [b], "side")
    m.conv(m.node("Concat", [a, b], "joined", axis=1), "y", 12, 8, 3)
    _, [piece] = regions_of(m.model(["y", "side"]), height=8, width=8)
    assert piece.region.inputs == ("x", "b")
    assert [member.output for member in piece.region.members] == ["a", "joined", "y"]
    _, pieces = regions_of(m.model(["y", "side", "joined"]), height=8, width=8)
    assert pieces == ()


@pytest.mark.parametrize(
    ("op", "settings"),
    [
        ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
        ("MaxPool", {"kernel_shape": [3, 3], "strides": [3, 3]}),
        ("MaxPool", {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [1, 1, 1, 1], "dilations": [2, 2]}),
        ("MaxPool", {"kernel_shape": [3, 3], "ceil_mode": 1, "pads": [1, 1, 1, 1]}),
        ("Concat", {"axis": 2}),
        ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    ],
)
def test_other_work_between_is_not_part_of_a_region(op, settings):
    m = Images(channels=4, size=(12, 12))
    a = m.conv("x", "a", 4, 6, 3)
    m.conv(m.node(op, [a, a] if op == "Concat" else [a], "b", **settings), "y", 6, 6, 3)
    proto = m.model(["y"])
    model = read_model(proto, {"batch": 1})
    assert find_regions(model, find_convolutions(model), (), MOST_IMAGES) == ()


def test_members_without_a_kernel_are_said_so():
    m = Images(channels=4, size=(12, 12))
    scales = m.constant("scales", np.array([1, 1, 3, 3], np.float32))
    large = m.node("Resize", ["x", "", scales], "large", **NEAREST)
    m.conv(m.node("Concat", [large, large], "joined", axis=1), "y", 8, 6, 3)
    _, [piece] = regions_of(m.model(["y"]))
    with pytest.raises(UnsupportedError, match="no kernel for"):
        Natives(chosen_machine(), 1, block_size()).build(piece, "Region")


def test_too_many_inputs_are_no_region():
    m = Images(channels=2, size=(8, 8))
    parts = [m.node("Sigmoid" if i % 2 else "Tanh", ["x"], f"p{i}") for i in range(MOST_IMAGES + 1)]
    m.conv(m.node("Concat", parts, "joined", axis=1), "y", 2 * len(parts), 4, 3)
    assert regions_of(m.model(["y"]))[1] == ()


def test_joined_images_lie_side_by_side():
    _, [piece] = regions_of(stem(), height=16, width=24)
    region = piece.region
    shapes = region.shapes([(2, 3, 16, 24)])
    where, copies = spots(region, shapes)
    assert copies == {}
    assert where["named"].root == where["c"].root == "joined"
    assert (where["named"].offset, where["c"].offset) == (0, 4 * 12 * 16 * 24)
    assert where["c"].pitch == 4 * 22 * 16 * 24


def test_memory_is_used_again_where_lives_do_not_meet():
    """Along a line of steps two images are alive at a time; one that is read late keeps its bytes."""

    def layout(late: bool) -> tuple[dict[str, int], int]:
        line = [Member((f"n{i}",), (f"t{i}",), f"t{i + 1}", Repeat()) for i in range(6)]
        if late:
            line[5] = Member(("n5",), ("t5", "t1"), "t6", JOIN)
        region = Region(tuple(line), ("t0",), "t6", (2,))
        shapes = region.shapes([(1, 2, 4, 8)])
        where = {name: Spot(name, 0, 256) for name in shapes if name != "t0"}
        return placed(region, dict.fromkeys(shapes, 256), where, 64)

    offsets, size = layout(late=False)
    assert size == 2 * 256
    assert all(offsets[f"t{i}"] != offsets[f"t{i + 1}"] for i in range(1, 5))
    assert "t6" not in offsets
    offsets, size = layout(late=True)
    assert size == 3 * 256
    assert [name for name in offsets if offsets[name] == offsets["t1"]] == ["t1"]


def test_fusing_a_model_with_a_region_keeps_its_results(run):
    proto = stem()
    fused = regweave.fuse(proto, dims={"batch": 1, "height": 64, "width": 96})
    x = image(1, 3, 64, 96)
    np.testing.assert_allclose(fused.run({"x": x})["y"], run(proto, {"x": x})[0], rtol=1e-4, atol=1e-4)
    whole, native = fused.report.whole, fused.report.native
    assert whole is not None
    assert whole.speedup > 0
    assert native is not None
    assert native.of_nodes == len(proto.graph.node)
    assert native.pieces == len(fused.report.fused)
    assert (native.operators > 0) == (native.pieces > 0)
    assert all(count > 0 for count in native.left.values())
    assert native.nodes == len({name for piece in fused.report.fused for name in piece.nodes})
    assert 0 <= native.time <= 1
    assert fused.report.to_dict()["native"]["regions"] == native.regions


def test_many_sizes_share_memory_and_calls_at_once_do_not(run):
    """Sizes of one session take turns in memory; a call that finds it taken gets some of its own."""
    proto = stem()
    session = opened(proto)
    inputs = [image(1, 3, 8 + 4 * index, 16) for index in range(12)]
    expected = [run(proto, {"x": x})[0] for x in inputs]

    def repeatedly(start: int) -> None:
        for turn in range(30):
            index = (start + turn) % len(inputs)
            found = session.run(None, {"x": inputs[index]})[0]
            np.testing.assert_allclose(found, expected[index], rtol=1e-4, atol=1e-4)

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(repeatedly, start) for start in range(4)]:
            done.result()


def test_slots_of_a_pool_serve_what_fits():
    pool = Pool()
    first = pool.slot(1000)
    assert pool.slot(10) is first
    second = pool.slot(1001)
    assert second is not first
    assert pool.slot(1500) is second
    assert pool.slot(1000) is first
    assert first.memory % 64 == second.memory % 64 == 0
