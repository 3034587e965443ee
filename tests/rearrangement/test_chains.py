"""Chains of products on a machine: instructions, orientations, seams."""

import itertools

import pytest

import regweave
from regweave import InputError, UnsupportedError
from regweave.machines.catalogue import find_machine
from regweave.rearrangement import (
    ChainLayouts,
    ChainProduct,
    ChainSeam,
    Conditions,
    Plan,
    chain_layouts,
    rearrange,
)

TF32, F16 = "mma.m16n8k8.tf32", "mma.m16n8k16.f16"


@pytest.mark.parametrize(
    ("products", "machine", "strategies", "transposed"),
    [
        ([TF32, TF32, TF32], "sm_80", ["fold", "fold"], [False] * 3),
        ([F16, F16, TF32], "sm_80", ["identity", "fold"], [False] * 3),
        (["f16", "bf16"], "sm_80", ["identity"], [False, False]),
        (["f16", "f16"], "gfx942", ["swap"], [True, False]),
        (["f16", "f16", "f16"], "gfx90a", ["swap", "swap"], None),
        (["f64", "f64"], "gfx90a", ["swap"], [True, False]),
        (["s8", "s8"], "sm_80", ["fold"], [False, False]),
        (["fp8", "fp8"], "sm_89", ["fold"], [False, False]),
        (["fp8", "fp8"], "sm_90a", ["fold"], [False, False]),
        (["f64", "f64"], "sm_80", ["fold"], [False, False]),
    ],
)
def test_the_strategies_of_chains(products, machine, strategies, transposed):
    chain = chain_layouts(products, machine)
    assert isinstance(chain, ChainLayouts)
    assert [seam.strategy for seam in chain.seams] == strategies
    turned = [product.transposed for product in chain.products]
    assert transposed is None or turned == transposed
    assert ("swap" in strategies) == any(turned)


def test_chains_and_plans_are_named_in_one_line():
    assert repr(chain_layouts([F16, TF32], "sm_80")) == f"<ChainLayouts on sm_80: {F16}, {TF32}; seams fold>"
    plan = rearrange(f"{TF32}:C", f"{TF32}:A", "sm_80")
    assert repr(plan) == f"<Plan {TF32}:C -> {TF32}:A on sm_80: fold, 4 moves>"


@pytest.mark.parametrize(("dtype", "machine"), [("f16", "gfx942"), ("tf32", "sm_80"), ("f16", "gfx1200")])
def test_the_cheapest_way_is_found(dtype, machine):
    """Against all orientations of all products, each seam planned by itself."""
    chain = chain_layouts([dtype] * 3, machine)
    name = chain.products[0].instruction.name
    costs = {}
    for before, after in itertools.product((False, True), repeat=2):
        plan = rearrange(
            f"{name}:D" + ("^T" if before != after else ""), f"{name}:{'B' if after else 'A'}", machine,
            conditions=Conditions(work_between=True),
        )  # fmt: skip
        costs[before, after] = plan.cost.instructions / plan.destination.elements
    ways = itertools.product((False, True), repeat=3)
    least = min(sum(costs[pair] for pair in itertools.pairwise(way)) for way in ways)
    mine = sum(seam.plan.cost.instructions / seam.plan.destination.elements for seam in chain.seams)
    assert mine == pytest.approx(least)


def test_a_notebook_shows_every_seam():
    chain = chain_layouts(["tf32", "tf32", "tf32"], "sm_80")
    shown = chain._repr_html_()
    pieces = [seam.plan.to_svg() for seam in chain.seams]
    assert [shown.count(piece) for piece in pieces] == [2, 2]  # both seams are alike
    assert shown.count("<pre>") == 5


def test_a_notebook_says_what_is_too_large_to_draw(monkeypatch):
    def refuse(plan):
        raise UnsupportedError("9999 registers < all that a page shows")

    monkeypatch.setattr(Plan, "to_svg", refuse)
    shown = chain_layouts(["f16", "f16"], "sm_80")._repr_html_()
    assert "<p>9999 registers &lt; all that a page shows</p>" in shown


def test_layouts_fit_together():
    chain = chain_layouts(["f16"] * 3, "gfx942")
    for seam, (before, after) in zip(chain.seams, itertools.pairwise(chain.products), strict=True):
        assert isinstance(seam, ChainSeam)
        assert isinstance(before, ChainProduct)
        source, destination = seam.plan.source, seam.plan.destination
        turned = before.transposed != after.transposed
        assert source.name.startswith(before.result.name + ("^T" if turned else ""))
        assert destination.name.startswith(after.previous.name)
        assert "k" in destination.axes
        assert seam.plan.chosen.applies
    first, second = chain.products[:2]
    assert (first.previous.axes, first.weights.axes) == (("k", "n"), ("m", "k"))
    assert (second.previous.axes, second.weights.axes) in [(("m", "k"), ("k", "n")), (("k", "n"), ("m", "k"))]


def test_operands_in_shared_memory():
    chain = chain_layouts(["wgmma.m64n64k16.f16"] * 2, "sm_90a")
    assert chain.products[0].weights is None
    assert [product.transposed for product in chain.products] == [False, False]
    assert "shared memory" in str(chain)


def test_forced_strategies():
    chain = chain_layouts([TF32] * 2, "sm_80", strategy="exchange")
    assert chain.seams[0].strategy == "exchange"
    assert chain.seams[0].plan.cost.exchanges == 4
    assert chain_layouts(["f16"] * 2, "gfx942", strategy="swap").seams[0].strategy == "swap"
    with pytest.raises(UnsupportedError, match="'swap' does not apply"):
        chain_layouts([TF32] * 2, "sm_80", strategy="swap")
    with pytest.raises(InputError, match="unknown strategy 'swop'"):
        chain_layouts([TF32] * 2, "sm_80", strategy="swop")


def test_conditions_are_those_of_every_seam():
    chain = chain_layouts([TF32] * 3, "sm_80", conditions=Conditions(order_promised=True))
    assert "fold" not in {seam.strategy for seam in chain.seams}


def test_without_a_machine_the_first_that_executes_all():
    assert regweave.chain_layouts([F16, F16]).machine.name == "sm_80"
    assert regweave.chain_layouts(["v_mfma_f32_32x32x8_f16"] * 2).machine.name == "gfx908"
    assert regweave.chain_layouts(["fp8", "fp8"]).machine.name == "sm_89"


def test_what_is_told(golden):
    chain = chain_layouts(["f16", "f16", "tf32"], find_machine("sm_80"))
    golden("chain_sm_80.txt", chain.explain() + "\n")
    golden("chain_gfx942.txt", chain_layouts(["f16"] * 2, "gfx942").explain() + "\n")
    document = chain.to_document()
    assert document["products"][2]["previous"] == "mma.m16n8k8.tf32:A"
    assert [seam["strategy"] for seam in document["seams"]] == ["identity", "fold"]
    assert document["seams"][1]["fold"][:8] == [0, 2, 4, 6, 1, 3, 5, 7]


@pytest.mark.parametrize(
    ("products", "machine", "error", "words"),
    [
        (["f16"], "sm_80", InputError, "has no seam"),
        ("f16", "sm_80", InputError, "has no seam"),
        (["tf23", "tf32"], "sm_80", InputError, "no instruction for 'tf23'.*nearest: tf32"),
        (["mma.m16n8k9.f16"] * 2, "sm_80", InputError, "unknown instruction.*nearest: mma.m16n8k8.f16"),
        (["fp8", "fp8"], "sm_100a", UnsupportedError, "multiplies no fp8 on the registers of a warp"),
        (["mma.m16n8k32.e4m3"] * 2, "sm_90a", UnsupportedError, "emulated"),
        (["mma.m16n8k32.e4m3"] * 2, "sm_80", UnsupportedError, "sm_80 has no"),
        (["f16", "s8"], "sm_80", UnsupportedError, "f32 elements cannot become s8"),
        (["f16", "f16"], "sm_81", InputError, "unknown machine"),
        (["f16", "f16"], 5, InputError, "5 is no machine"),
        ([F16, "v_mfma_f32_32x32x8_f16"], None, UnsupportedError, "sm_80 has no v_mfma"),
        ([None, "f16"], "sm_80", InputError, "None is no product"),
    ],
)
def test_chains_that_cannot_be(products, machine, error, words):
    with pytest.raises(error, match=words):
        chain_layouts(products, machine)
