"""The emitted functions compiled by nvrtc and read back from SASS: no local memory, no exchange too many.

Triton 3.9 converts the tf32 accumulators of a 16 x 32 warp tile to the A operand with 16 SHFL and 32 SEL, 64
instructions in all, counted like here: the kernel with the conversion minus the same kernel without.
"""

import numpy as np
import pytest

from regweave import rearrange
from regweave.emitters import emit_trial
from regweave.layouts import Layout

TRITON_EXCHANGES, TRITON_SELECTS, TRITON_TOTAL = 16, 32, 64


def stays_in_registers(listing):
    return not any(listing.count(kind) for kind in ("local", "shared_store", "shared_load", "barrier"))


@pytest.mark.parametrize(("form", "target"), [("direct", "sm_80"), ("lean", "sm_80"), ("direct", "sm_120")])
def test_the_tf32_exchange_beats_triton(form, target, inspect_cuda):
    plan = rearrange("mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A", machine=target, strategy=form, tile="16x32")
    code = emit_trial(plan.chosen.program, "cuda")
    code += emit_trial(plan.chosen.program, "cuda", name="bare", converted=False)
    listing, bare = inspect_cuda(code, target, "trial", "bare")
    assert stays_in_registers(listing)
    assert listing.count("exchange") == plan.cost.exchanges <= TRITON_EXCHANGES
    assert listing.count("select") - bare.count("select") == plan.cost.selects <= TRITON_SELECTS
    # the plan counts index arithmetic as if nothing were fused; address arithmetic may shift by one or two
    assert len(listing) - len(bare) <= plan.cost.instructions + 2 < TRITON_TOTAL


@pytest.mark.parametrize(("kind", "target"), [("tf32", "sm_90a"), ("f16", "sm_80"), ("bf16", "sm_120")])
def test_folds_and_identities_exchange_nothing(kind, target, inspect_cuda):
    name = "mma.m16n8k8.tf32" if kind == "tf32" else f"mma.m16n8k16.{kind}"
    plan = rearrange(f"{name}:C", f"{name}:A", machine=target, tile="16x32")
    listing = inspect_cuda(emit_trial(plan.chosen.program, "cuda"), target)
    assert stays_in_registers(listing)
    assert listing.count("exchange") == listing.count("select") == listing.count("byte_permute") == 0
    assert listing.count("convert") == plan.cost.converts == (0 if kind == "tf32" else 8)


@pytest.mark.parametrize(("lanes", "words"), [(32, 4), (12, 3), (8, 8)])
def test_any_bijection_stays_in_registers(lanes, words, inspect_cuda):
    rng = np.random.default_rng(0)
    size = lanes * words
    source = Layout("s", (lanes, words), "b32", np.arange(size).reshape(lanes, words))
    destination = Layout("d", (lanes, words), "b32", rng.permutation(size).reshape(lanes, words))
    plan = rearrange(source, destination, strategy="direct")
    listing = inspect_cuda(emit_trial(plan.chosen.program, "cuda"), "sm_80")
    assert listing.count("exchange") == plan.cost.exchanges == words
    assert stays_in_registers(listing)


def test_sixteen_bit_packing_compiles_for_the_oldest_machine(inspect_cuda):
    plan = rearrange("mma.m16n8k8.f16:C", "mma.m16n8k8.f16:A", machine="sm_75")
    assert inspect_cuda(emit_trial(plan.chosen.program, "cuda"), "sm_75").count("convert") == 4


def test_index_arithmetic_leaves_the_loop(inspect_cuda):
    plan = rearrange("mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A", strategy="direct")
    code = f"""{plan.emit("cuda")}
extern "C" __global__ void kernel(const float *x, unsigned *y) {{
    float c[4];
    unsigned a[4];
    for (int i = 0; i < 4; ++i) c[i] = x[32 * i + threadIdx.x];
    #pragma unroll 1
    for (int round = 0; round < 100; ++round) {{
        {plan.chosen.program.name}(c, a);
        for (int i = 0; i < 4; ++i) c[i] += __uint_as_float(a[i]);
    }}
    for (int i = 0; i < 4; ++i) y[32 * i + threadIdx.x] = a[i];
}}"""
    listing = inspect_cuda(code, "sm_80", "kernel")
    assert listing.count("exchange") == 4
    first = listing.kinds.index("exchange")
    last = len(listing) - listing.kinds[::-1].index("exchange")
    assert "S2R" not in listing.mnemonics[first:last]
    assert listing.mnemonics.count("S2R") == 2  # the thread for the addresses, the lane for the exchange
