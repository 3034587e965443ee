"""Plans print, compare, and become JSON."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from regweave.cascades import compile_chain
from regweave.machines.x86 import AVX512, supports
from regweave.operators import Chain

Make = Callable[..., Chain]


def test_a_plan_prints(make_chain: Make) -> None:
    if not supports(AVX512):
        pytest.skip("the text is that of AVX-512")
    plan = compile_chain(make_chain((64, 64, 64)), threads=2, isa="avx512").plan
    lines = str(plan).splitlines()
    assert lines[0] == "rows 64 -> 64 channel_add relu -> 64 channel_add relu; avx512, at most 2 threads"
    assert lines[1].startswith("tile 6 x 64 in registers, blocks of ")
    assert lines[2].startswith("seam 1, 64 wide: shared, ")
    assert plan.listing is not None
    assert "acc" in str(plan.listing.register_map)


@pytest.mark.parametrize(("order", "strategy"), [("rows", "shared"), ("pixels", "identity")])
def test_seams(make_chain: Make, isa: str, order: str, strategy: str) -> None:
    plan = compile_chain(make_chain((8, 16, 24, 4), order=order), isa=isa).plan
    assert [seam.width for seam in plan.seams] == [16, 24]
    expected = "shared" if isa == "portable" else strategy
    assert {seam.strategy for seam in plan.seams} == {expected}
    assert all(seam.reason for seam in plan.seams)


def test_a_plan_is_a_value(make_chain: Make, isa: str) -> None:
    chain = make_chain((8, 16, 4))
    plan = compile_chain(chain, threads=1, isa=isa).plan
    assert plan == compile_chain(chain, threads=1, isa=isa).plan
    assert plan != compile_chain(make_chain((8, 16, 5)), threads=1, isa=isa).plan
    # the portable device has one thread
    assert (plan == compile_chain(chain, threads=2, isa=isa).plan) == (isa == "portable")


def test_json(make_chain: Make, isa: str) -> None:
    plan = compile_chain(make_chain((8, 16, 4)), isa=isa).plan
    values = json.loads(json.dumps(plan.to_dict(rows=100)))
    assert values["device"] == isa
    assert values["widths"] == [8, 16, 4]
    assert values["epilogues"][0] == ["channel_add", "relu"]
    assert values["predicted"]["bytes_unfused"] - values["predicted"]["bytes_fused"] == 2 * 4 * 100 * 16
    assert "predicted" not in plan.to_dict()


def test_estimate(make_chain: Make, isa: str) -> None:
    plan = compile_chain(make_chain((64, 64, 64)), isa=isa).plan
    assert plan.estimate(200_000).pays
    assert plan.traffic(10).saved == 2 * 4 * 10 * 64
