"""Tiles, panels, blocks and buffers: the arithmetic in front of the kernels, and what comes out of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regweave.errors import UnsupportedError
from regweave.kernels import chain_kernel, chain_plan, packing_steps
from regweave.kernels.common.geometry import Geometry, Panel, geometry_of
from regweave.machines.x86 import AVX2, AVX512
from regweave.operators import Chain, ChannelAdd, Gelu, Relu, Silu, TensorAdd

EPILOGUES = ((), (ChannelAdd(), Relu()), (ChannelAdd(), Gelu()), (TensorAdd(), Silu()))


def test_scalar_tiles() -> None:
    g = geometry_of("avx512")
    assert g.scalar_tiles(17) == (6, 6, 4, 1)
    assert g.scalar_tiles(0) == ()
    assert all(sum(g.scalar_tiles(n)) == n for n in range(50))


def test_panels() -> None:
    assert geometry_of("avx512").panels(64 + 33) == (Panel(0, 64, 4), Panel(64, 33, 3))
    assert geometry_of("avx2").panels(17) == (Panel(0, 16, 2), Panel(16, 1, 1))


def test_tails_that_leave_a_rest_are_a_bug() -> None:
    with pytest.raises(AssertionError):
        Geometry(lanes=16, vectors=4, scalars=6, tails=(2, 1))


def test_no_kernels_for_other_machines() -> None:
    with pytest.raises(UnsupportedError, match="sm_80"):
        geometry_of("sm_80")


def test_too_many_extra_tensors(make_chain) -> None:
    greedy = make_chain((4, 4), (TensorAdd(),) * 5).stages[0]
    signature = Chain((*make_chain((3, 4)).stages, greedy)).signature
    with pytest.raises(UnsupportedError, match="5 extra tensors in one epilogue") as error:
        chain_plan(signature, AVX512)
    assert error.value.where == "stage 1"


@pytest.mark.parametrize("machine", [AVX512, AVX2], ids=lambda machine: machine.name)
@pytest.mark.parametrize("order", ["rows", "pixels"])
def test_buffers_hold_what_is_written(make_chain, machine, order: str) -> None:
    """Each buffer holds every intermediate that is put there, and ends before the next one."""
    chain = make_chain((30, 1024, 17, 500, 64), (), order)
    plan = chain_plan(chain.signature, machine)
    g = plan.geometry
    ends = (plan.buffers[1], plan.scratch_bytes)
    for seam, (width, pitch) in enumerate(zip(chain.widths[1:-1], plan.pitches, strict=True)):
        rows, row_bytes = (plan.block, 4 * width) if order == "rows" else (width, g.panel_bytes)
        assert pitch >= row_bytes
        assert pitch % g.vector_bytes == 0
        assert order == "pixels" or pitch % 4096
        assert plan.buffers[seam % 2] + rows * pitch <= ends[seam % 2]
    assert plan.scratch_bytes % 64 == 0
    assert plan.block % g.scalars == 0 or order == "pixels"


def test_packed_bytes(make_chain) -> None:
    """N = 70 is a full panel and a narrow one of one vector; each has K rows and one for the bias."""
    chain = make_chain((10, 70), (ChannelAdd(),))
    (stage,) = packing_steps(chain, chain_plan(chain.signature, AVX512))
    assert stage.size == 4 * (64 + 16) * (10 + 1)
    assert [step.width for step in stage.steps] == [64, 64, 16, 16]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    widths=st.lists(st.integers(1, 140), min_size=2, max_size=5),
    order=st.sampled_from(["rows", "pixels", "blocked"]),
    epilogue=st.sampled_from(EPILOGUES),
    count=st.integers(0, 90),
    batch=st.integers(0, 3),
    parts=st.integers(1, 4),
    at=st.sampled_from(["start", "end"]),
)
def test_any_chain(all_kernels, make_chain, inputs, widths, order, epilogue, count, batch, parts, at) -> None:
    for kernels in all_kernels:
        chain = make_chain(widths, epilogue, order, kernels.machine.lanes if order == "blocked" else 0)
        x, extras = inputs(chain, count) if order == "rows" else inputs(chain, count, batch)
        got = kernels.chain(chain, x, extras, parts=parts, at=at)
        np.testing.assert_allclose(got, chain.reference(x, extras), rtol=5e-5, atol=5e-5)


def test_stages_share_routines(make_chain) -> None:
    """Two more stages of the same epilogue cost a few dozen operations, not another product loop."""
    short = chain_kernel(make_chain((64, 64, 64), (ChannelAdd(), Relu())).signature, AVX512)
    long = chain_kernel(make_chain((64, 64, 64, 128, 64), (ChannelAdd(), Relu())).signature, AVX512)
    assert long.operations < short.operations + 80


def test_registers_are_used_but_not_exceeded(make_chain) -> None:
    listing = chain_kernel(make_chain((64, 64), (ChannelAdd(), Relu())).signature, AVX512)
    assert 24 < listing.pressure.most["vector"] <= 32
