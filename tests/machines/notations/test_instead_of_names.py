"""Wherever a name is accepted, a pasted layout is: with suffixes, on a given tile or the other side's."""

import json

import pytest

from regweave import InputError, layout, rearrange
from regweave.machines.catalogue import find_layout
from regweave.machines.notations import read_document, read_notation

MMA = "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [1, 1], instrShape = [16, 8]}>"
OPERAND = f"#ttg.dot_op<{{opIdx = 0, parent = {MMA}, kWidth = 1}}>"
CUTE = "((4,8),(2,2)):((32,1),(16,8))"
C, A = "mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A"


def test_pasted_sides_plan_like_names():
    named = rearrange(C, A, tile="16x32")
    pasted = rearrange(f"{MMA}@f32", f"{OPERAND}@tf32", tile="16x32")
    assert (pasted.strategy, pasted.fold) == (named.strategy, named.fold) == ("fold", named.fold)
    assert pasted.source.table.tolist() == named.source.table.tolist()
    half = rearrange(f"tensor<16x16xf32, {MMA}>", f"tensor<16x16xf16, {OPERAND.replace('h = 1', 'h = 2')}>")
    assert half.strategy == "identity"


def test_a_text_without_tile_takes_that_of_the_other_side():
    assert rearrange(f"{CUTE}@f32", A).fold == rearrange(C, A).fold
    assert rearrange(C, f"{OPERAND}@tf32", strategy="exchange").cost.exchanges == 4
    assert rearrange(layout(C), CUTE).strategy == "identity"


def test_suffixes_and_tiles():
    assert layout(f"{CUTE}@f32", tile="16x8") == find_layout(C)
    assert layout(f"{CUTE}^T", tile=(8, 16)) == find_layout(C).transpose().retype("b32")
    assert layout(C, tile="16x32") == find_layout(C).repeat(1, 4)
    assert layout(C + "^T", tile="8x32").shape == (8, 32)


@pytest.mark.parametrize(
    ("source", "tile", "words"),
    [(CUTE, None, "how large its tile is"), (CUTE, "4x4", "less than 16"), (C, "16x12", "does not fill")],
)
def test_tiles_that_do_not_fit(source, tile, words):
    with pytest.raises(InputError, match=words):
        layout(source, tile=tile)


def test_documents_are_read_strictly():
    text = json.dumps(find_layout(C).to_document())
    assert read_document(text) == read_notation(text) == find_layout(C)
    for wrong, words in (("{", "not a JSON document"), ("[]", "not a mapping"), (text[:-1], "not a JSON")):
        with pytest.raises(InputError, match=f"{words}.*at here"):
            read_document(wrong, "here")
    with pytest.raises(InputError, match="an object has one key twice"):
        read_document('{"name": "a", "name": "b"}')
