"""Two rows of results at a time: the sums of both, edges, odd rows, late stores, what is not finite."""

import numpy as np
import pytest

import regweave
from regweave.convolution.planes.choice import choose
from regweave.convolution.planes.chosen import scratch_bytes
from regweave.convolution.planes.native import NativeConvolution
from regweave.convolution.planes.strips import strip_limit
from regweave.convolution.planes.tables import pack_weights
from regweave.kernels.convolution import Pairs, paired_bytes, pairs
from regweave.kernels.convolution.pairsteps import (
    BIASED,
    RESULTS,
    held_products,
    kept_registers,
    ordered,
    sums_under_way,
    vector_steps,
)
from regweave.kernels.convolution.rowpairs import A, B, C, D, column_groups
from regweave.machines.x86 import AVX2, AVX512
from regweave.operators import convolution_of

RANDOM = np.random.default_rng(12)
wide = pytest.mark.skipif(
    regweave.Conv2d(np.ones((1, 1, 2, 2), np.float32)).machine is not AVX512, reason="needs AVX-512"
)


def data(shape, weights_shape):
    x = RANDOM.standard_normal(shape, dtype=np.float32)
    return x, RANDOM.standard_normal(weights_shape, dtype=np.float32)


@pytest.mark.parametrize(("taps", "products"), [(2, 3), (3, 4), (4, 6), (5, 7), (6, 8), (7, 10), (9, 12)])
def test_two_results_from_four_sums(taps, products):
    of = pairs(taps)
    assert (of, of.products, of.image_rows) == (Pairs(taps), products, taps + 1)
    d, g = RANDOM.standard_normal(taps + 1), RANDOM.standard_normal(taps)
    weights = of.filter @ g
    sums = np.zeros(4)
    for term, weight in zip(of.terms, weights, strict=True):
        first, sign, second = term.rows
        sums[term.sum] += (d[first] + sign * d[second]) * weight
    expected = [d[:-1] @ g, d[1:] @ g]
    np.testing.assert_allclose([sums[A] + sums[B] + sums[C], sums[B] - sums[C] + sums[D]], expected)


@pytest.mark.parametrize("columns", range(1, 12))
def test_every_column_has_a_group(columns):
    groups = column_groups(columns)
    assert [column for group in groups for column in group] == list(range(columns))
    assert all(len(group) <= len(groups[0]) <= 3 for group in groups)


def test_registers_that_products_leave_hold_weights():
    assert held_products(5, 5, 32) == (0, 3, 7, 10, 14, 17, 21, 24, 28, 31)
    assert held_products(7, 7, 24) == ()
    assert held_products(2, 2, 32) == tuple(range(6))
    assert (sums_under_way(5, 5, 32), sums_under_way(4, 4, 32)) == (12, 8)
    plan = regweave.plan_conv((1, 1, 512, 512), (1, 1, 5, 5), padding=2, machine="cpu")
    if plan.notes and "two rows of results at a time" in plan.notes[0]:
        assert (plan.registers.accumulators, plan.registers.rows, plan.registers.weights) == (12, 6, 10)


def run_steps(steps, image, weights, before, bias):
    """Both rows of a vector, the vectors kept for the next, and how many others there are at most."""
    there, most = dict(before), 0
    last = {name: at for at, step in enumerate(steps) for name in (step.result, *step.sources)}
    for at, step in enumerate(steps):
        sources = [there[name] for name in step.sources]
        match step.kind:
            case "load":
                value = image(step.number, step.group)
            case "begin" | "multiply":
                begun = bias if step.result == BIASED else 0
                value = (there[step.result] if step.kind == "multiply" else begun) + sources[0] * weights[
                    step.number
                ]
            case "slide":
                value = np.append(sources[1][-1:], sources[0][:-1])
            case kind:
                value = {"add": np.add, "subtract": np.subtract, "copy": np.copy}[kind](*sources)
        there[step.result] = value
        most = max(most, sum(not name.startswith("before") and last[name] > at for name in there))
    return [there[name] for name in RESULTS], {name: there[name] for name in before}, most


@pytest.mark.parametrize("columns", range(4, 10))
@pytest.mark.parametrize("rows", range(4, 8))
def test_steps_in_their_order_make_both_rows(rows, columns):
    groups, (steps, room) = column_groups(columns), ordered(rows, columns, 32)
    assert sorted(map(repr, steps)) == sorted(map(repr, vector_steps(rows, columns)))
    assert room + kept_registers(columns) + len(held_products(rows, columns, 32)) == 32
    d, g = RANDOM.standard_normal((rows + 1, 80)), RANDOM.standard_normal((rows, columns))
    weights = [None, *(pairs(rows).filter @ g).T.ravel()]
    before = {f"before{step}_{row}": np.zeros(16) for step in range(1, len(groups[0])) for row in range(2)}
    found = []
    for at in range(0, 64, 16):
        image = lambda row, group, at=at: d[row, at + groups[group][-1] :][:16]  # noqa: E731
        results, before, most = run_steps(steps, image, weights, before, 0.5)
        assert most == room
        found.append(results)
    expected = [
        [(d[row : row + rows, x : x + columns] * g).sum() + 0.5 for x in range(16, 64)] for row in range(2)
    ]
    np.testing.assert_allclose(np.concatenate(found[1:], axis=1), expected)


CASES = [
    ((64, 256), (5, 5), 2, 1),
    ((33, 161), (5, 5), 2, 1),
    ((45, 499), (4, 4), (1, 2, 2, 0), 2),
    ((50, 381), (5, 4), 0, 1),
    ((37, 300), (6, 5), 2, 1),
    ((60, 90), (7, 7), 3, 2),
    ((70, 9000), (5, 5), 2, 1),
    ((31, 77), (7, 9), (4, 5, 6, 3), 1),
    ((20, 160), (5, 6), 9, 1),
]


@wide
@pytest.mark.parametrize(("size", "kernel", "padding", "groups"), CASES)
def test_results_are_as_near_to_float64_as_the_plain_sums(size, kernel, padding, groups):
    x, w = data((2, groups, *size), (groups, 1, *kernel))
    b = RANDOM.standard_normal(groups, dtype=np.float32)
    c = convolution_of(x.shape, w.shape, padding=padding, groups=groups)
    assert choose(c, AVX512).tile.paired
    expected = np.maximum(c.reference(x, w) + b[:, None, None], 0)
    settings = {"padding": padding, "groups": groups, "activation": "relu"}
    y = [regweave.conv2d(x, w, b, threads=threads, **settings) for threads in (1, 2, 3)]
    plain = regweave.conv2d(x, w, b, form="none", **settings)
    assert abs(y[0] - expected).max() <= 1.5 * abs(plain - expected).max()
    assert np.array_equal(y[0], y[1])
    assert np.array_equal(y[0], y[2])


@wide
@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38])
@pytest.mark.parametrize("place", [(30, 20), (31, 64), (0, 0), (63, 169)])
def test_what_is_not_finite_stays_where_it_is_read(value, place):
    x, w = data((1, 1, 64, 170), (1, 1, 5, 5))
    x[0, 0][place], w = value, 8 * w
    assert choose(convolution_of(x.shape, w.shape, padding=2), AVX512).tile.paired
    with np.errstate(over="ignore", invalid="ignore"):
        y = regweave.conv2d(x, w, padding=2)
    plain = regweave.conv2d(x, w, padding=2, form="none")
    assert not np.isfinite(plain).all()
    assert np.array_equal(y, plain, equal_nan=True)


@wide
def test_what_stands_beside_the_image_is_not_read():
    memory = np.full((60, 200), np.nan, np.float32)
    x, w = data((1, 1, 41, 170), (1, 1, 5, 5))
    memory[10:51, 15:185] = x[0, 0]
    y = np.full((60, 200), 7, np.float32)
    regweave.conv2d(memory[None, None, 10:51, 15:185], w, padding=2, out=y[None, None, 10:51, 15:185])
    assert np.array_equal(y[10:51, 15:185], regweave.conv2d(x, w, padding=2)[0, 0])
    y[10:51, 15:185] = 7
    assert (y == 7).all()


@wide
@pytest.mark.parametrize("columns", [176, 192, 400])
@pytest.mark.parametrize("late", [False, True])
def test_results_that_pass_the_caches(columns, late):
    x, w = data((1, 1, 51, columns), (1, 1, 5, 5))
    c = convolution_of(x.shape, w.shape, padding=2)
    choice = choose(c, AVX512, stream=True, late=late)
    assert (choice.tile.paired, choice.tile.lagging) == (True, late)
    result = regweave.conv2d(x, w, padding=2)
    result[...] = 7
    native = NativeConvolution(c, choice, AVX512, x.strides, result.strides, 1)
    assert native.run(x.ctypes.data, result.ctypes.data, pack_weights(c, choice, w, None))
    np.testing.assert_allclose(result, c.reference(x, w), atol=2e-5)


def test_where_rows_are_paired():
    shape, weights = (1, 1, 512, 512), (1, 1, 5, 5)

    def paired(shape, weights, machine=AVX512, form=None, late=False, **settings):
        c = convolution_of(shape, weights, **settings)
        return choose(c, machine, form=form, stream=late, late=late).tile.paired

    assert paired(shape, weights)
    assert paired((1, 8, 64, 192), (8, 1, 5, 5), groups=8)
    assert not paired(shape, weights, AVX2)
    assert not paired(shape, weights, form="none")
    assert not paired(shape, (1, 1, 3, 3))
    assert not paired(shape, (2, 1, 5, 5))
    assert not paired((1, 2, 512, 512), (1, 2, 5, 5))
    assert not paired(shape, weights, strides=2)
    assert not paired(shape, weights, dilations=2)
    assert not paired((1, 1, 512, 128), weights, padding=2)
    assert not paired((1, 1, 4, 512), weights, padding=2)
    assert paired(shape, (1, 1, 7, 7))
    assert not paired(shape, (1, 1, 7, 7), late=True)


@pytest.mark.parametrize("size", [(1024, 1024), (128, 8192), (60, 100_000), (10_000, 176)])
def test_memory_of_four_threads_is_a_fiftieth_of_the_image(size):
    c = convolution_of((1, 1, *size), (1, 1, 5, 5), padding=2)
    choice = choose(c, AVX512, threads=4)
    assert choice.tile.paired
    assert 4 * scratch_bytes(c, AVX512, choice) <= strip_limit(c)
    row = 4 * 16 * (-(-choice.strip_columns // 16) + 1)
    assert scratch_bytes(c, AVX512, choice) >= paired_bytes(row) == 3 * row
