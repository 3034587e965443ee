"""Whatever is pasted: a layout, or an error with words; and any layout survives being written and read."""

import json
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regweave import RegweaveError
from regweave.layouts import Layout
from regweave.machines.catalogue import find_layout
from regweave.machines.notations import read_notation

A = find_layout("mma.m16n8k16.f16:A")
MMA = "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 1], instrShape = [16, 8]}>"
TEXTS = [
    f"#mma = {MMA}\ntensor<32x16xf16, #ttg.dot_op<{{opIdx = 0, parent = #mma, kWidth = 2}}>>",
    "#ttg.amd_wmma<{version = 1, isTranspose = false, ctaLayout = {register = [[0, 1]], warp = [[1, 0]]}}>",
    A.to_triton(),
    A.to_cute(),
    "Layout<Shape<Shape<_4,_8>,Shape<_2,_2>>, Stride<Stride<_32,_1>,Stride<_16,_8>>>",
    A.to_csv(),
    A.to_markdown(),
    json.dumps(A.to_document()),
]
SIGNS = '0123456789[]{}<>(),:=#|-._@ \nabcxyz"\\\u0661\ufeff\x00'


@pytest.mark.parametrize("seed", range(8))
def test_damaged_texts_are_layouts_or_errors_with_words(seed):
    choose = random.Random(seed)
    errors = 0
    for _ in range(300):
        signs = list(choose.choice(TEXTS))
        for _ in range(choose.choice([1, 1, 2, 4])):
            at = choose.randrange(len(signs))
            change = choose.choice(["cut", "insert", "replace", "repeat"])
            if change == "cut":
                del signs[at : at + choose.choice([1, 1, 8])]
            elif change == "repeat":
                signs[at:at] = signs[at : at + choose.randrange(12)]
            else:
                signs[at : at + (change == "replace")] = [choose.choice(SIGNS)]
        try:
            read_notation("".join(signs), choose.choice([None, (16, 8), (16, 16), (3, 5)]))
        except RegweaveError as error:
            errors += len(str(error)) > 10
    assert errors > 30


SIZES = st.integers(1, 7)


@given(SIZES, SIZES, SIZES, st.sampled_from(["f32", "f16", "s8", "s4", "f64"]), st.randoms())
def test_tables_of_any_layout_read_back(lanes, items, rows, dtype, choose):
    """Also of layouts that hold elements several times, and of registers that are partly filled."""
    elements = [choose.randrange(lanes * items) for _ in range(lanes * items)]
    kept = sorted({*elements})
    table = np.array([kept.index(element) for element in elements]).reshape(lanes, items)
    rows = next(size for size in range(rows, 0, -1) if len(kept) % size == 0)
    layout = Layout("any", (rows, len(kept) // rows), dtype, table)
    assert read_notation(json.dumps(layout.to_document())) == layout
    for text in (layout.to_csv(), layout.to_markdown()):
        assert (read_notation(text).table == table).all()


@given(st.integers(0, 5), st.integers(0, 4), st.randoms())
def test_linear_layouts_survive_triton(lane_bits, item_bits, choose):
    """Swizzled ones too: bits of the basis are mixed by random xors."""
    bits = lane_bits + item_bits
    vectors = [1 << bit for bit in range(bits)]
    for _ in range(bits):
        a, b = choose.randrange(bits), choose.randrange(bits)
        if a != b:
            vectors[a] ^= vectors[b]
    columns = 1 << choose.randrange(bits + 1)
    pairs = [divmod(vector, columns) for vector in vectors]
    layout = Layout.linear("any", ((1 << bits) // columns, columns), "b32", lane=pairs[:lane_bits],
                           item=pairs[lane_bits:])  # fmt: skip
    assert read_notation(layout.to_triton()) == layout
