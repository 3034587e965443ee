"""The emitted functions compiled by nvrtc and read back from SASS: no local memory, no exchange too many.

Triton 3.9 converts the tf32 accumulators of a 16 x 32 warp tile to the A operand with 16 SHFL and 32 SEL, 64
instructions in all, counted like here: the kernel with the conversion minus the same kernel without.
"""

import numpy as np
import pytest

from regweave import rearrange
from regweave.layouts import Layout

TARGETS = ("sm_80", "sm_90a", "sm_100a", "sm_120")
TRITON_EXCHANGES, TRITON_SELECTS, TRITON_TOTAL = 16, 32, 64
C_TYPES = {"f32": "float", "b32": "unsigned"}


def kernel(plan, body):
    """A kernel that loads the source's words, runs `body` on them and stores the destination's words."""
    program = plan.chosen.program
    source, destination = program.source, program.destination
    return f"""{plan.emit("cuda")}
extern "C" __global__ void kernel(const {C_TYPES[source.type]} *x, {C_TYPES[destination.type]} *y) {{
    {C_TYPES[source.type]} c[{source.words}];
    {C_TYPES[destination.type]} a[{destination.words}];
    #pragma unroll
    for (int i = 0; i < {source.words}; ++i) c[i] = x[32 * i + threadIdx.x];
    {body}
    #pragma unroll
    for (int i = 0; i < {destination.words}; ++i) y[32 * i + threadIdx.x] = a[i];
}}"""


def with_conversion(plan):
    return kernel(plan, f"{plan.chosen.program.name}(c, a);")


def without_conversion(plan):
    words = range(plan.chosen.program.destination.words)
    return kernel(plan, " ".join(f"a[{i}] = __float_as_uint(c[{i}]);" for i in words))


@pytest.mark.parametrize(("form", "target"), [*(("direct", target) for target in TARGETS), ("lean", "sm_80")])
def test_the_tf32_exchange_beats_triton(form, target, compile_kernel, tmp_path):
    plan = rearrange("mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A", machine=target, strategy=form, tile="16x32")
    sass = compile_kernel(with_conversion(plan), target, tmp_path)
    bare = compile_kernel(without_conversion(plan), target, tmp_path)
    assert sass.count["STL"] == sass.count["LDL"] == sass.count["STS"] == sass.count["LDS"] == 0
    assert sass.count["SHFL"] == plan.cost.exchanges <= TRITON_EXCHANGES
    selects = sass.count["SEL"] + sass.count["FSEL"] - bare.count["SEL"] - bare.count["FSEL"]
    assert selects == plan.cost.selects <= TRITON_SELECTS
    # the plan counts index arithmetic as if nothing were fused; address arithmetic may shift by one or two
    assert len(sass) - len(bare) <= plan.cost.instructions + 2 < TRITON_TOTAL


@pytest.mark.parametrize(
    ("kind", "target"), [*(("tf32", target) for target in TARGETS), ("f16", "sm_80"), ("bf16", "sm_120")]
)
def test_folds_and_identities_exchange_nothing(kind, target, compile_kernel, tmp_path):
    name = "mma.m16n8k8.tf32" if kind == "tf32" else f"mma.m16n8k16.{kind}"
    plan = rearrange(f"{name}:C", f"{name}:A", machine=target, tile="16x32")
    sass = compile_kernel(with_conversion(plan), target, tmp_path)
    assert {"SHFL", "SEL", "FSEL", "PRMT", "STL", "LDL", "STS", "LDS"}.isdisjoint(sass.count)
    assert sass.count["F2FP"] == plan.cost.converts == (0 if kind == "tf32" else 8)


@pytest.mark.parametrize(("lanes", "words"), [(32, 4), (12, 3), (8, 8)])
def test_any_bijection_stays_in_registers(lanes, words, compile_kernel, tmp_path):
    rng = np.random.default_rng(0)
    size = lanes * words
    source = Layout("s", (lanes, words), "b32", np.arange(size).reshape(lanes, words))
    destination = Layout("d", (lanes, words), "b32", rng.permutation(size).reshape(lanes, words))
    plan = rearrange(source, destination, strategy="direct")
    sass = compile_kernel(with_conversion(plan), "sm_80", tmp_path)
    assert sass.count["SHFL"] == plan.cost.exchanges == words
    assert {"STL", "LDL", "STS", "LDS"}.isdisjoint(sass.count)


def test_sixteen_bit_packing_compiles_for_the_oldest_machine(compile_kernel, tmp_path):
    plan = rearrange("mma.m16n8k8.f16:C", "mma.m16n8k8.f16:A", machine="sm_75")
    sass = compile_kernel(with_conversion(plan), "sm_75", tmp_path)
    assert sass.count["F2F"] == 4


def test_index_arithmetic_leaves_the_loop(compile_kernel, tmp_path):
    plan = rearrange("mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A", strategy="direct")
    name = plan.chosen.program.name
    body = f"""
    #pragma unroll 1
    for (int round = 0; round < 100; ++round) {{
        {name}(c, a);
        for (int i = 0; i < 4; ++i) c[i] += __uint_as_float(a[i]);
    }}"""
    sass = compile_kernel(kernel(plan, body), "sm_80", tmp_path)
    names = [instruction for instruction, _ in sass.instructions]
    assert sass.count["SHFL"] == 4
    first, last = names.index("SHFL"), len(names) - names[::-1].index("SHFL")
    assert "S2R" not in names[first:last]
    assert sass.count["S2R"] == 2  # the thread for the addresses, the lane for the exchange
