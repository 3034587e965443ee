"""The emitted text, read and run line by line, does what the program does."""

import re
from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from step_programs import one_step

from regweave import rearrange
from regweave.emitters import emit
from regweave.errors import VerificationError
from regweave.layouts import Layout
from regweave.programs import Array, Program, ProgramBuilder, run_program

CASES = [
    ("mma.m16n8k8.tf32", "16x8", "direct"),
    ("mma.m16n8k8.tf32", "32x32", "lean"),
    ("mma.m16n8k8.tf32", "16x16", "fold"),
    ("mma.m16n8k16.f16", "16x16", "identity"),
    ("mma.m16n8k16.bf16", "16x32", "direct"),
]


@pytest.mark.parametrize(("instruction", "tile", "strategy"), CASES)
def test_the_text_moves_every_element(instruction, tile, strategy, run_text):
    plan = rearrange(f"{instruction}:C", f"{instruction}:A", strategy=strategy, tile=tile)
    numbers = np.arange(32 * plan.source.items, dtype=np.float32).reshape(32, -1) % 256
    words = numbers.view(np.uint32)
    assert np.array_equal(run_text(plan.emit("cuda"), words), run_program(plan.chosen.program, words))


def test_every_pair_of_half_bytes_comes_apart():
    """Two codes of four bits, side by side as they were converted, end in bits 2 to 5 of a byte each."""
    text = emit(one_step("pack_e2m1b8", 32, ()), "cuda")
    (spread,) = re.findall(r"= __byte_perm\((.*), s2, 0x5410u\);", text)
    spread = re.sub(r"\b(0x[0-9a-f]+|\d+)u\b", r"\1", spread.replace("v5_pair", "pair"))
    for low, high in product(range(16), repeat=2):
        assert eval(spread, {}, {"pair": high << 4 | low}) & 0xFFFF == high << 10 | low << 2, (low, high)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_the_text_of_any_bijection(run_text, data):
    lanes, words = data.draw(st.sampled_from([(32, 2), (6, 3), (8, 4), (5, 5), (16, 1)]))
    size = lanes * words
    order = np.reshape(data.draw(st.permutations(range(size))), (lanes, words))
    source = Layout("s", (lanes, words), "b32", np.arange(size).reshape(lanes, words))
    plan = rearrange(source, Layout("d", (lanes, words), "b32", order), strategy="exchange")
    held = np.full((32, words), 0xDEADBEEF, dtype=np.uint32)
    held[:lanes] = source.table
    assert np.array_equal(run_text(plan.emit("cuda"), held)[:lanes], order)


def test_arrays_are_indexed_by_numbers_only():
    code = rearrange("mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A", tile="16x32", strategy="direct").emit("cuda")
    body = code.split("{\n", 1)[1]
    for array in ("source", "destination"):
        assert body.count(f"{array}[") == 16
        assert all(f"{array}[{index}]" in body for index in range(16))


def test_the_signature_is_documented(golden):
    golden(
        "tf32_direct.cu",
        rearrange("mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A", strategy="direct").emit("cuda"),
    )
    golden(
        "tf32_fold.cu", rearrange("mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A", strategy="fold").emit("cuda")
    )
    golden("f16_identity.cu", rearrange("mma.m16n8k16.f16:C", "mma.m16n8k16.f16:A").emit("cuda"))


def test_what_comes_back_as_floats():
    builder = ProgramBuilder("copy", 32, Array("source", "f32", 1), Array("destination", "f32", 1))
    code = emit(builder.finish([builder.word(0)]), "cuda")
    assert code.startswith("__device__ __forceinline__ void copy(\n    const float (&source)[1], float")
    plan = rearrange(Layout("s", (2, 1), "f32", [[0], [1]]), Layout("d", (2, 1), "f32", [[1], [0]]))
    assert "destination[0] = __uint_as_float(" in plan.emit()


def test_only_verified_programs_are_written():
    array = Array("source", "b32", 1)
    with pytest.raises(VerificationError):
        emit(Program("empty", 32, array, array, (), ()), "cuda")
