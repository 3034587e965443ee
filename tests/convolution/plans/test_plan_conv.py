"""Plans: registers hold, threads follow from storage rows, the best of all that fit is taken."""

import json
import random
import re
from collections import Counter
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import regweave
from regweave import InputError, UnsupportedError
from regweave.cli import main
from regweave.convolution import ConvPlan, plan_conv
from regweave.convolution.parts import even_parts, part_sizes
from regweave.convolution.plans.tiles import candidates
from regweave.machines.compute import (
    MACHINES,
    ComputeMachine,
    compute_machine_names,
    find_compute_machine,
)
from regweave.views import convolution_svg, convolution_text

KEYS = {"machine", "form", "expansion", "threads", "outputs_per_thread", "registers", "bytes", "flops",
        "workspace_bytes", "predicted_ms", "alternatives"}  # fmt: skip
CASE = ((1, 3, 1080, 1920), (16, 3, 3, 3), 1, 1)
GPUS = [name for name, machine in MACHINES.items() if machine.kind == "gpu"]


@pytest.mark.parametrize("name", compute_machine_names())
@pytest.mark.parametrize("kernel", [(16, 3, 3, 3), (16, 3, 7, 7), (16, 3, 1, 7)])
@pytest.mark.parametrize("stride", [1, 2])
def test_a_plan_fits_the_registers_and_the_share_of_memory(name, kernel, stride):
    plan = plan_conv((1, 3, 1080, 1920), kernel, stride, "same_upper", machine=name)
    assert isinstance(plan, ConvPlan)
    assert 0 < plan.registers.used <= plan.registers.available
    assert plan.workspace_bytes <= 0.02 * 4 * 3 * 1080 * 1920
    assert plan.flops == 2 * plan.convolution.products
    assert plan.predicted_ms > 0


@pytest.mark.parametrize(("machine", "results"), [("avx512", 24), ("avx2", 12)])
def test_products_that_are_taken_one_after_the_other_hold_one_row_of_results(machine, results):
    registers = plan_conv((1, 3, 1080, 1920), (16, 3, 7, 7), 2, machine=machine, form="transformed").registers
    assert registers.accumulators == results
    assert 0 < registers.rows <= 3
    assert registers.weights == 1


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_strips_of_processors_take_a_fiftieth_of_an_image_of_a_megapixel(data):
    channels, filters = (
        data.draw(st.sampled_from([1, 2, 3, 8, 64])),
        data.draw(st.sampled_from([1, 3, 16, 64])),
    )
    height = data.draw(st.sampled_from([1, 8, 64, 1000, 2000, 4096]))
    width = 1_000_000 // height + data.draw(st.integers(1, 99))
    kernel = [data.draw(st.integers(1, min(31, size))) for size in (height, width)]
    stride, padding = data.draw(st.integers(1, 3)), data.draw(st.sampled_from([0, "same_upper"]))
    plan = plan_conv(
        (1, channels, height, width), (filters, channels, *kernel), stride, padding, machine="cpu"
    )
    assert plan.workspace_bytes <= 0.02 * 4 * channels * height * width
    assert not any("strips of all rows" in note for note in plan.notes)


def test_a_plan_says_where_strips_take_more():
    """A window of 253 rows, and a strip holds all of them."""
    plan = plan_conv((1, 4, 512, 2149), (1, 4, 127, 127), 1, 63, 2, machine="cpu")
    assert plan.workspace_bytes > 0.02 * 4 * 4 * 512 * 2149
    assert any("strips of all rows" in note for note in plan.notes)


@pytest.mark.parametrize("name", GPUS)
def test_a_group_reads_whole_storage_rows_and_a_column_covers_the_height(name):
    plan = plan_conv(*CASE, machine=name)
    machine, (across, down, _) = find_compute_machine(name), plan.outputs_per_thread
    assert plan.group[0] == min(machine.group, machine.storage_row // (across * 4))
    assert plan.threads[1] == -(-1080 // down)
    assert plan.overlap == 2


def test_the_plan_is_the_cheapest_of_all_that_fit():
    plan = plan_conv(*CASE, machine="bifrost-g76")
    every = list(candidates(plan.convolution, "f32", plan.machine))
    least = min(other.predicted_ms for other in every)
    assert plan.predicted_ms <= 1.02 * least
    # what a prediction cannot tell apart is decided by the rows that a thread keeps
    assert plan.outputs_per_thread[1] == max(
        other.outputs_per_thread[1]
        for other in every
        if other.form == plan.form
        and other.predicted_ms <= 1.02 * least
        and other.registers.needed <= max(32, plan.registers.needed)
    )
    assert {"polyphase", "unrolled"} <= {other.form for other in plan.alternatives}
    assert all("times as long" in other.reason for other in plan.alternatives)


@pytest.mark.parametrize("form", ["none", "polyphase", "unrolled"])
@pytest.mark.parametrize("machine", ["cpu", "opencl-cpu", "valhall"])
def test_a_form_can_be_insisted_on(form, machine):
    assert plan_conv(*CASE, machine=machine, form=form).form == form


@pytest.mark.parametrize("machine", ["opencl-cpu", "bifrost-g76", "sm_80"])
def test_outputs_of_a_thread_can_be_insisted_on(machine):
    plan = plan_conv(*CASE, machine=machine, outputs_per_thread=(1, 1, 4))
    assert plan.outputs_per_thread == (1, 1, 4)
    assert plan.most_rows > 1
    assert f"{plan.most_rows} outputs along the column would fit the registers" in plan.notes


def test_the_processors_plan_is_what_conv2d_does():
    assert plan_conv(*CASE, machine="avx512").form == "transformed"
    assert plan_conv(*CASE, machine="avx2").form == "transformed"
    assert plan_conv((1, 1, 900, 120), (32, 1, 3, 3), 1, 1, machine="avx2").form == "none"
    assert plan_conv((1, 3, 224, 224), (64, 3, 7, 7), 2, 3, machine="avx512").form == "transformed"
    assert plan_conv((1, 3, 224, 224), (64, 3, 7, 7), 2, 3, machine="avx2").form == "transformed"
    assert plan_conv((1, 3, 224, 224), (64, 3, 7, 7), 3, 3).form == "polyphase"
    assert plan_conv((1, 1, 4096, 4096), (1, 1, 5, 5), 1, 2).form == "none"
    assert regweave.plan_conv is plan_conv


def random_request(choose):
    """Sizes from nothing to huge; most of them make no sense."""
    odd = [0, 1, 1, 1, 2, 3, 4, 5, 7, 8, 16, 31, 64, 300, 4095, 10**6, 1 << 31, -1]
    few = [1, 1, 1, 2, 3, 5, 0]
    channels, groups = choose.choice(odd[1:10]), choose.choice([1, 1, 1, 2, 4])
    shape = [choose.choice(few), channels * groups, choose.choice(odd), choose.choice(odd)]
    weights = [groups * choose.choice(odd[1:12]), channels, choose.choice(few), choose.choice(few)]
    padding = choose.choice(
        [0, 1, 2, "same_upper", "same_lower", "valid", [0, 1, 2, 3], [5, 5], "same", 1 << 40]
    )
    return {
        "shape": shape,
        "weights_shape": weights,
        "stride": choose.choice([1, 1, 2, [1, 2], [3, 1], 17, 10**5, 10**20, 0]),
        "padding": padding,
        "dilation": choose.choice([1, 1, 2, [1, 3], 1000, 10**9]),
        "groups": groups,
        "dtype": choose.choice(["f32", "f16"]),
        "machine": choose.choice([*compute_machine_names()]),
        "form": choose.choice([None, None, None, "none", "polyphase", "unrolled"]),
    }


def check_requests(seeds):
    planned = 0
    for seed in seeds:
        request = random_request(random.Random(seed))
        try:
            plan = plan_conv(**request)
        except (InputError, UnsupportedError):
            continue
        planned += 1
        document = json.loads(json.dumps(plan.to_document(), allow_nan=False))
        assert document.keys() >= KEYS, request
        assert 0 < plan.registers.rows < plan.registers.needed, request
        assert plan.registers.needed <= plan.registers.used <= plan.registers.available, request
        assert 0 < plan.predicted_ms < float("inf")
        assert convolution_text(plan)
        if plan.machine.kind != "assembly":
            assert "convolve(" in plan.emit("opencl")
    return planned


def test_odd_requests_are_planned_or_refused():
    assert check_requests(range(150)) > 10


@pytest.mark.slow
def test_thousands_of_odd_requests():
    assert check_requests(range(1000, 4000)) > 300


def test_bad_requests_name_what_is_near():
    with pytest.raises(InputError, match=r"nearest: .*bifrost-g76"):
        plan_conv(*CASE, machine="bifrst-g76")
    with pytest.raises(InputError, match="nearest: polyphase"):
        plan_conv(*CASE, machine="opencl-cpu", form="polyfase")
    with pytest.raises(InputError, match="no output"):
        plan_conv((1, 3, 2, 2), (4, 3, 3, 3))
    for given_ in ({"dtype": "f16"}, {"outputs_per_thread": (1, 2, 3)}):
        with pytest.raises(UnsupportedError):
            plan_conv(*CASE, machine="cpu", **given_)
    with pytest.raises(UnsupportedError, match="no lane-level kernels"):
        plan_conv(*CASE, machine="cpu").emit()


def test_parts_are_even_and_counted():
    for count in range(1, 40):
        for most in range(1, 12):
            parts = even_parts(count, most)
            assert sum(parts) == count
            assert max(parts) <= most
            assert dict(part_sizes(count, most)) == Counter(parts)


def test_the_plan_of_an_image_without_end_is_there_at_once():
    plan = plan_conv((1, 3, 10**8, 10**8), (8, 3, 3, 3))
    assert plan.threads[1] == -(-(10**8 - 2) // plan.outputs_per_thread[1])


def test_a_machine_that_cannot_be_is_refused():
    good = find_compute_machine("bifrost-g76")
    fields = {name: getattr(good, name) for name in ComputeMachine.__dataclass_fields__}
    for change in (
        {"registers": 0},
        {"storage_row": 48},
        {"group": 3},
        {"full_registers": 65},
        {"gflops": 0},
    ):
        with pytest.raises(InputError):
            ComputeMachine(**{**fields, **change})


def test_the_verb_prints_a_document_with_the_promised_keys(capfd):
    words = ["conv", "--shape", "1x3x1080x1920", "--kernel", "16x3x3x3", "--machine", "bifrost-g76"]
    assert main([*words, "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document.keys() >= KEYS
    assert {"used", "available"} <= document["registers"].keys()


def test_what_a_kernel_needs_is_told_beside_it():
    plan = plan_conv((2, 3, 1200, 1400), (9, 3, 3, 3), 2, 1, machine="valhall", form="polyphase")
    document = plan.to_document()
    assert [launch["kernel"] for launch in document["launches"]] == ["rearrange", "convolve"]
    packed = plan.pack_weights(np.zeros((9, 3, 3, 3), np.float32))
    text = plan.emit()
    for launch in document["launches"]:
        groups = " x ".join(map(str, launch["blocks"]))
        across, down, deep = launch["blocks"]
        each = launch["threads_per_block"]
        sizes = f"global size {across * each} x {down} x {deep}, local size {each} x 1 x 1"
        starts = ", ".join(map(str, plan.strip_starts[:3]))
        strips = f"for each of {plan.strips} strips of {plan.strip_rows} rows, with {starts}, ... in strip"
        assert f"launch: {groups} work-groups of {each}: {sizes}, {strips}" in text
        assert f"launch: {groups} work-groups of {each}, {strips}" in plan.emit("hip")
    assert f"w: weights, {' x '.join(map(str, packed.shape))} of f32" in text
    assert "image: the image, 2 x 3 x 1200 x 1400 of f32, dense: rows of 5600 bytes" in text
    assert f"strip: one u32: the strip's first output row, at most {600 - plan.strip_rows}" in text
    assert f"y: the result, {' x '.join(map(str, plan.convolution.out_shape))} of f32" in text
    lines = 2 * 3, plan.strip_lines, 2, plan.pitch
    assert f"x: rearranged rows, {' x '.join(map(str, lines))} of f32" in text
    assert plan_conv((1, 3, 9, 9), (2, 3, 3, 3)).to_document()["launches"] == []
    with pytest.raises(InputError, match=r"weights.*\[9, 3, 3, 3\]"):
        plan.pack_weights(np.zeros((9, 3, 3), np.float32))


def test_weights_are_packed_tap_by_tap():
    plan = plan_conv(
        (1, 2, 30, 40), (5, 2, 1, 2), machine="valhall", outputs_per_thread=(1, 1, 3), form="none"
    )
    weights = np.arange(20, dtype=np.float32).reshape(5, 2, 1, 2)
    packed = plan.pack_weights(weights, np.array([100, 101, 102, 103, 104], np.float32))
    assert packed.shape == (2, 5, 4)
    assert packed[0].tolist() == [[100, 101, 102, 0], *([t, 4 + t, 8 + t, 0] for t in range(4))]
    assert packed[1].tolist() == [[102, 103, 104, 0], *([8 + t, 12 + t, 16 + t, 0] for t in range(4))]


def test_images_of_too_many_bytes_are_told_from_tiles_of_too_many_registers():
    with pytest.raises(
        UnsupportedError, match=r"an image of 120\.0 GB.*less than 4\.29 GB.*a band of its rows"
    ):
        plan_conv((1, 3, 100_000, 100_000), (8, 3, 3, 3), machine="sm_80")
    with pytest.raises(UnsupportedError, match="a result of 6"):
        plan_conv((1, 1, 10_000, 10_000), (16, 1, 1, 1), machine="opencl-cpu")
    with pytest.raises(UnsupportedError, match="with 64 registers"):
        plan_conv((1, 8, 64, 64), (8, 8, 3, 3), machine="valhall", outputs_per_thread=(8, 8, 8))


@pytest.mark.parametrize("name", ["cpu", "opencl-avx512", "opencl-avx2", "valhall", "sm_80"])
def test_any_plan_is_told_and_drawn(name):
    plan = plan_conv((1, 3, 37, 41), (8, 3, 5, 5), 2, 2, machine=name)
    text, picture = convolution_text(plan), convolution_svg(plan)
    assert f"{plan.registers.used} of {plan.registers.available}" in text
    assert "Threads above one another share 3 image rows" in text
    assert picture.endswith("</svg>")
    assert (plan.explain(), plan.to_svg(), plan._repr_svg_()) == (text, picture, picture)
    ElementTree.fromstring(picture)
    assert f"registers of a thread: {plan.registers.used} of {plan.registers.available}" in picture
    assert f"one group: {plan.group[0]} x {plan.group[1]} " in picture
    # thread 0 reads rows -2 .. 4 for each output row; its neighbour reads three of its last ones
    each = plan.outputs_per_thread[1]
    assert picture.count("<title>thread 0 of the column reads") == 2 * each + 3
    assert picture.count("<title>thread 0 of the column reads padding") == 2


@pytest.mark.parametrize(
    ("form", "names"),
    [
        ("none", ["tap 0", "tap 4"]),
        ("polyphase", ["phase 0", "phase 1", "tap 2 from cell 1", "1.12 times the image"]),
        ("unrolled", ["tap 4", "2.56 times the image"]),
    ],
)
def test_a_row_is_drawn_as_the_form_has_it(form, names):
    plan = plan_conv((1, 3, 37, 41), (8, 3, 5, 5), 2, 2, machine="sm_80", form=form)
    picture = convolution_svg(plan)
    assert [name for name in names if name not in picture] == []
    # places -2, 0, 2 ... of tap 0, or of phase 0: the first is padding
    row = picture[picture.index(">" + names[0] + "<") :]
    numbers = re.findall(r">(\d+)</text>", row)[:3]
    assert numbers == ["0", "2", "4"] if form != "unrolled" else numbers == ["2", "4", "6"]


def test_tall_tiles_are_drawn_whole():
    plan = plan_conv((1, 3, 1080, 1920), (16, 3, 7, 7), 2, machine="gfx906", form="polyphase")
    assert plan.outputs_per_thread[1] >= 8
    picture = convolution_svg(plan)
    # threads of the group are no narrower than words, though the group is many times as high as wide
    thread = re.search(r"<title>thread 1: [^<]*</title><rect [^>]*width=\"([\d.]+)\" height", picture)
    assert thread
    assert float(thread[1]) > 10
    # the first three threads of a column, and what they share, down to the last row
    for number in range(3):
        last = plan.convolution.vertical.place((number + 1) * plan.outputs_per_thread[1] - 1, 6)
        assert f"<title>thread {number} of the column reads row {last}</title>" in picture
    assert all(f"{note}." in picture for note in plan.notes)
    assert plan.notes


def test_figures_have_fitting_units():
    small = convolution_text(plan_conv((1, 1, 3, 3), (1, 1, 3, 3), machine="opencl-cpu"))
    assert "for 18 operations" in small
    assert "30 us" in small
    large = convolution_text(plan_conv((1, 3, 1080, 1920), (16, 3, 3, 3), machine="bifrost-g76"))
    assert re.search(r"for 1\.7\d+ billion operations", large)
    assert " ms, bound by" in large


def test_the_verb_draws_and_emits(capfd, tmp_path):
    words = [
        "conv",
        "--shape",
        "1x3x40x60",
        "--kernel",
        "8x3x3x3",
        "--padding",
        "1",
        "--machine",
        "opencl-cpu",
    ]
    assert main([*words, "--svg", str(tmp_path / "plan.svg")]) == 0
    out = capfd.readouterr().out
    assert "Threads above one another share 2 image rows" in out
    assert (tmp_path / "plan.svg").read_text().startswith("<svg ")
    assert main([*words, "--emit", "opencl"]) == 0
    assert "kernel void" in capfd.readouterr().out
    assert main([*words, "--outputs", "1x3x2", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["outputs_per_thread"] == [1, 3, 2]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--shape", "1x3xabc", "--kernel", "8x3x3x3"], "no list of sizes"),
        (["--shape", "1x3x8x8", "--kernel", "8x4x3x3"], "4 channels"),
        (["--shape", "1x3x8x8", "--kernel", "8x3x3x3", "--stride", "1x2x3"], "3 numbers"),
        (["--shape", "1x3x8x8", "--kernel", "8x3x3x3", "--padding", "same_uper"], "same_upper"),
        (["--shape", "1x3x8x8", "--kernel", "8x3x3x3", "--emit", "opncl", "--machine", "sm_80"], "opencl"),
        (["--shape", "1x3x8x8", "--kernel", "8x3x3x3", "--emit", "opencl", "--json"], "one of them"),
    ],
)
def test_bad_words_are_errors_that_say_what_is_wrong(words, said, capfd):
    assert main(["conv", *words]) == 2
    assert said in capfd.readouterr().err


def test_products_of_channels_that_wait_for_memory_get_few_lines():
    def tile(height, width):
        return plan_conv((1, 16, height, width), (16, 16, 1, 1), machine="opencl-avx512").outputs_per_thread

    assert tile(500, 612) == tile(480, 640) == (1, 1, 8)
    # nothing but arithmetic tells these apart
    plan = plan_conv((1, 64, 160, 160), (64, 64, 1, 1), machine="opencl-avx512")
    assert plan.outputs_per_thread == (2, 1, 8)
    assert all(other.predicted_ms >= plan.predicted_ms / 1.006 for other in plan.alternatives)


@pytest.mark.parametrize(
    ("outputs", "said"),
    [
        ((3, 1, 1), "3 outputs along the row of a thread.*one of 1, 2, 4, 8 for valhall"),
        ((1, 17, 1), "17 outputs along the column of a thread.*one of 1 to 16"),
        ((1, 1, 7), "7 filters of a thread.*one of 1, 2, 3, 4, 5, 6, 8, 12, 16"),
        ((1, 1, 99), "20 filters of a thread"),
    ],
)
def test_numbers_of_outputs_that_no_kernel_has_are_named(outputs, said):
    with pytest.raises(InputError, match="(?s)" + said):
        plan_conv((1, 3, 40, 40), (20, 3, 3, 3), machine="valhall", outputs_per_thread=outputs)
