"""Convolution kernels through OpenCL: any parameters, every form and tile, f32 and f16, borders with NaNs."""

import random
from types import SimpleNamespace

import numpy as np
import pytest

from regweave import InputError
from regweave.convolution import OpenCLConvolution, opencl_machine, plan_conv
from regweave.convolution.lanes import running
from regweave.convolution.lanes.emitting import group_size
from regweave.convolution.lanes.running import machine_of
from regweave.convolution.plans import plan as plan_module
from regweave.convolution.plans.tiles import candidates
from regweave.devices.opencl import Runtime, open_runtime
from regweave.errors import RegweaveError
from regweave.machines.compute import find_compute_machine
from regweave.operators import convolution_of

TOLERANCE = {"f32": 1e-4, "f16": 3e-2}


@pytest.fixture(scope="module", autouse=True)
def runtime():
    try:
        return open_runtime()
    except RegweaveError as error:
        pytest.skip(str(error))


def random_convolution(choose):
    while True:
        groups = choose.choice([1, 1, 2, 3])
        channels, filters = groups * choose.randint(1, 3), groups * choose.randint(1, 6)
        kernel = choose.randint(1, 5), choose.randint(1, 5)
        image = choose.randint(1, 2), channels, choose.randint(1, 20), choose.randint(1, 60)
        try:
            return convolution_of(
                image,
                (filters, channels // groups, *kernel),
                strides=(choose.randint(1, 3), choose.randint(1, 3)),
                padding=[choose.randint(0, 4) for _ in range(4)],
                dilations=(choose.randint(1, 3), choose.randint(1, 3)),
                groups=groups,
            )
        except InputError:
            continue  # a kernel larger than its image


def arrays(c, dtype, seed):
    numbers = np.random.default_rng(seed)
    kind = np.float32 if dtype == "f32" else np.float16
    x = numbers.standard_normal(c.image_shape).astype(kind).astype(np.float32)
    w = numbers.standard_normal(c.weights_shape).astype(np.float32)
    return x, w, numbers.standard_normal(c.filters).astype(np.float32)


def check(seed):
    choose = random.Random(seed)
    c, dtype = random_convolution(choose), choose.choice(["f32", "f32", "f16"])
    machine = choose.choice(
        ["opencl-avx512", "opencl-avx2"] * 2 + ["bifrost-g76", "gfx906", "sm_80", "valhall"]
    )
    plan = choose.choice(list(candidates(c, dtype, find_compute_machine(machine))))
    x, w, bias = arrays(c, dtype, seed)
    y = OpenCLConvolution(plan, w, bias)(x)
    np.testing.assert_allclose(
        y.astype(np.float64), c.reference(x, w, bias), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype],
        err_msg=f"{c} {plan.form} {plan.outputs_per_thread}",
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(24))
def test_any_parameters(seed):
    check(seed)


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(first, marks=pytest.mark.slow if first < 300 else pytest.mark.exhaustive)
        for first in range(0, 1000, 50)
    ],
)
def test_a_thousand_of_them(first):
    for seed in range(1000 + first, 1050 + first):
        check(seed)


@pytest.mark.parametrize("form", ["none", "polyphase", "unrolled"])
def test_a_nan_reaches_only_what_reads_it(form):
    plan = plan_conv((1, 2, 30, 40), (3, 2, 3, 3), 1, 1, machine="opencl-cpu", form=form)
    x, w, bias = arrays(plan.convolution, "f32", 0)
    x[0, 1, 0, 0], x[0, 0, 29, 39] = np.nan, np.inf
    finite = np.isfinite(OpenCLConvolution(plan, w, bias)(x))
    expected = np.ones((30, 40), bool)
    expected[:2, :2] = expected[28:, 38:] = False
    assert (finite == expected).all()


@pytest.mark.parametrize(
    ("name", "vendor", "capability", "machine"),
    [
        ("gfx90a:sramecc+:xnack-", "Advanced Micro Devices, Inc.", None, "gfx90a"),
        ("Mali-G76 r0p0", "ARM", None, "bifrost-g76"),
        ("Mali-G610 r0p0", "ARM", None, "valhall"),
        ("QUALCOMM Adreno(TM) 740", "QUALCOMM", None, "adreno-630"),
        ("NVIDIA A100-SXM4-40GB", "NVIDIA Corporation", (8, 0), "sm_80"),
        ("NVIDIA GeForce RTX 3090", "NVIDIA Corporation", (8, 7), "sm_86"),
        ("NVIDIA GeForce GTX 1080", "NVIDIA Corporation", (6, 1), "sm_80"),
        ("Intel(R) UHD Graphics", "Intel(R) Corporation", None, "bifrost-g76"),
    ],
)
def test_a_gpu_is_planned_for_as_what_it_is(name, vendor, capability, machine):
    major, minor = capability or (None, None)
    device = SimpleNamespace(
        name=name, vendor=vendor, compute_capability_major_nv=major, compute_capability_minor_nv=minor
    )
    assert machine_of(device) == machine


def test_a_gpu_is_used_where_there_is_one(runtime, monkeypatch):
    gpu = Runtime(runtime.device, runtime.context, runtime.queue)  # the processor, pretending
    monkeypatch.setattr(running, "open_gpu", lambda: gpu)
    shapes = (1, 2, 8, 8), (3, 2, 3, 3)
    x, w, bias = arrays(plan_conv(*shapes).convolution, "f32", 0)
    layer = OpenCLConvolution(plan_conv(*shapes, machine="sm_80"), w, bias)
    assert layer.runtime is gpu
    np.testing.assert_allclose(layer(x), layer.plan.convolution.reference(x, w, bias), atol=1e-4)
    assert OpenCLConvolution(plan_conv(*shapes, machine="opencl-cpu"), w).runtime is runtime
    monkeypatch.setattr(running, "machine_of", lambda device: "sm_80")
    assert opencl_machine() == "sm_80"
    monkeypatch.setattr(running, "open_gpu", lambda: None)
    assert opencl_machine() == "opencl-cpu"  # this processor, whatever its vectors
    names = {"avx512": "opencl-avx512", "avx2": "opencl-avx2"}
    assert find_compute_machine("opencl-cpu").name == names[find_compute_machine("cpu").name]


@pytest.mark.parametrize(
    ("grid", "nanoseconds", "group"),
    [
        ((128, 820, 1), 100, (128, 1, 1)),  # a row
        ((43, 1000, 2), 100, (43, 2, 1)),  # whose length is prime: two take 9 microseconds
        ((512, 10, 1), 100, (512, 1, 1)),
        ((4, 400, 1), 100, (4, 40, 1)),  # several rows
        ((4, 400, 1), 5000, (4, 1, 1)),  # of long work
        ((4, 7, 144), 30, (4, 7, 18)),  # and channels
        ((4, 7, 144), 1, (4, 7, 18)),  # eight groups are left for two processors
        ((257, 40, 3), 100, (257, 1, 1)),
        ((1031, 40, 1), 100, (1, 40, 1)),
        ((256, 1, 1), 1000, (32, 1, 1)),  # a signal
        ((1, 7, 1), 1, (1, 1, 1)),
    ],
)
def test_groups_of_vectors_are_parts_of_the_grid(grid, nanoseconds, group):
    assert group_size(grid, nanoseconds, 2) == group
    assert [size % part for size, part in zip(grid, group, strict=True)] == [0, 0, 0]


@pytest.mark.parametrize(("machine", "lanes"), [("opencl-avx512", 16), ("opencl-avx2", 8)])
def test_halves_are_widened_and_narrowed_as_vectors(machine, lanes):
    text = plan_conv((1, 2, 30, 41), (3, 2, 3, 3), 1, 1, dtype="f16", machine=machine, form="none").emit()
    kernel = text[text.index("kernel void convolve") :]
    assert f"vload_half{lanes}" in kernel
    assert f"vstore_half{lanes}_rte" in kernel
    # lane by lane, in whole numbers, they took compilers seconds
    assert "regweave_widen_f16" not in kernel
    assert "regweave_pack_f16" not in kernel


@pytest.mark.parametrize(("machine", "lanes"), [("opencl-avx512", 16), ("opencl-avx2", 8)])
@pytest.mark.parametrize(("dtype", "load"), [("f32", "vload"), ("f16", "vload_half")])
@pytest.mark.parametrize("width", [70, 201])
def test_every_other_element_is_two_vectors(dtype, load, width, machine, lanes):
    plan = plan_conv((1, 2, 9, width), (3, 2, 3, 5), 2, dtype=dtype, machine=machine, form="none")
    assert f"shuffle2({load}{lanes}(" in plan.emit()
    x, w, bias = arrays(plan.convolution, dtype, 0)
    y = OpenCLConvolution(plan, w, bias)(x)
    np.testing.assert_allclose(
        y, plan.convolution.reference(x, w, bias), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype]
    )


def test_large_results_pass_the_caches_where_they_are_whole_lines(monkeypatch):
    def text(height, width, filters=1, dtype="f32"):
        shapes = (1, 1, height, width), (filters, 1, 3, 3)
        tile = (2, 4, filters)
        return plan_conv(
            *shapes, 1, 1, dtype=dtype, machine="opencl-avx512", form="none", outputs_per_thread=tile
        ).emit()

    word = "nontemporal"
    assert word in text(1024, 2048)
    assert word not in text(1024, 2040)  # lines that are no multiple of a vector
    assert word not in text(1020, 2048)  # less than 8 MB
    assert word not in text(1024, 2048, filters=2)  # lines of two planes in turns
    assert word not in text(1024, 4096, dtype="f16")  # a vector of halves is half a line
    monkeypatch.setattr(plan_module, "STREAMED", 0)
    plan = plan_conv(
        (2, 1, 19, 80), (1, 1, 3, 3), 1, 1, machine="opencl-avx512", outputs_per_thread=(2, 4, 1)
    )
    assert word in plan.emit()
    x, w, bias = arrays(plan.convolution, "f32", 0)
    y = OpenCLConvolution(plan, w, bias)(x)
    np.testing.assert_allclose(y, plan.convolution.reference(x, w, bias), atol=1e-4)


def test_two_plans_share_image_and_result():
    shapes = (1, 2, 9, 40), (3, 2, 3, 3)
    plans = [plan_conv(*shapes, machine="opencl-cpu", form=form) for form in ("none", "unrolled")]
    x, w, bias = arrays(plans[0].convolution, "f32", 0)
    one = OpenCLConvolution(plans[0], w)
    other = OpenCLConvolution(plans[1], w, bias, beside=one)
    other.load(x)
    one.start()
    y = other.result()
    np.testing.assert_allclose(y, plans[0].convolution.reference(x, w), atol=1e-4)
    other.start()
    np.testing.assert_allclose(one.result(), y + bias[:, None, None], atol=1e-4)
    with pytest.raises(InputError, match=r"f16 .*beside.*the same convolution"):
        OpenCLConvolution(plan_conv(*shapes, dtype="f16", machine="opencl-cpu"), w, beside=one)


def test_wrong_shapes_are_errors():
    plan = plan_conv((1, 2, 8, 8), (3, 2, 3, 3), machine="opencl-cpu")
    x, w, bias = arrays(plan.convolution, "f32", 0)
    with pytest.raises(InputError, match=r"\[3, 2, 3, 3\]"):
        OpenCLConvolution(plan, w[:2], bias)
    with pytest.raises(InputError, match=r"\[1, 2, 8, 8\]"):
        OpenCLConvolution(plan, w, bias)(x[:, :1])
