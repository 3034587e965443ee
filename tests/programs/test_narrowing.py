"""Narrowing and byte permutes against independent statements of the same facts."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regweave.programs import OPCODES
from regweave.programs.numbers import decode

TYPES = {
    "pack_e4m3": (ml_dtypes.float8_e4m3fn, 448.0),
    "pack_e5m2": (ml_dtypes.float8_e5m2, 57344.0),
    "pack_e4m3fnuz": (ml_dtypes.float8_e4m3fnuz, 240.0),
    "pack_e5m2fnuz": (ml_dtypes.float8_e5m2fnuz, 57344.0),
}


def pack(opcode, low, high, above):
    return OPCODES[opcode].meaning((low, high, above), ())


def interesting_floats():
    """Every bf16, its neighbours on both sides, and the ties between them."""
    bits = np.arange(1 << 16, dtype=np.uint64) << 16
    near = np.concatenate([bits, bits + 1, bits - 1, bits + 0x8000])
    return (near & 0xFFFFFFFF).astype(np.uint32)


@pytest.mark.parametrize("opcode", sorted(TYPES))
def test_floats_are_rounded_to_even_and_kept_finite(opcode):
    kind, largest = TYPES[opcode]
    words = interesting_floats()
    values = words.view(np.float32)
    with np.errstate(all="ignore"):
        wanted = np.clip(values, -largest, largest).astype(kind).view(np.uint8)
    wanted = np.where(np.isnan(values), 0x80 if "fnuz" in opcode else 0x7F, wanted)
    zero = np.zeros_like(words)
    assert np.array_equal(pack(opcode, words, zero, zero), wanted)
    assert np.array_equal(pack(opcode, zero, words, zero), wanted.astype(np.uint32) << 8)


@pytest.mark.parametrize(("opcode", "bounds"), [("pack_s8", (-128, 127)), ("pack_u8", (0, 255))])
def test_integers_are_kept_within_bounds(opcode, bounds):
    values = np.array([0, 1, -1, 127, 128, -128, -129, 255, 256, 2**31 - 1, -(2**31)], dtype=np.int64)
    words = values.astype(np.int32).view(np.uint32)
    wanted = np.array([min(max(value, bounds[0]), bounds[1]) & 0xFF for value in values.tolist()])
    zero = np.zeros_like(words)
    assert np.array_equal(pack(opcode, words, zero, zero), wanted)
    assert np.array_equal(pack(opcode, zero, words, zero), wanted << 8)


@given(st.integers(0, 2**32 - 1))
def test_what_lies_above_is_the_low_half_of_the_third(above):
    zero = np.zeros(1, dtype=np.uint32)
    for opcode in ("pack_s8", "pack_u8", *TYPES):
        assert pack(opcode, zero, zero, np.uint32([above]))[0] == above % 2**16 << 16


@given(
    st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.lists(st.integers(0, 7), min_size=4, max_size=4)
)
def test_byte_permutes_pick_from_eight_bytes(low, high, picks):
    eight = low.to_bytes(4, "little") + high.to_bytes(4, "little")
    selector = sum(pick << 4 * place for place, pick in enumerate(picks))
    found = OPCODES["byte_permute"].meaning(tuple(np.uint32([word]) for word in (low, high, selector)), ())
    assert int(found[0]).to_bytes(4, "little") == bytes(eight[pick] for pick in picks)


@pytest.mark.parametrize("opcode", sorted(TYPES))
def test_every_pattern_is_the_number_that_it_is_elsewhere(opcode):
    wanted = np.arange(256, dtype=np.uint8).view(TYPES[opcode][0]).astype(np.float64)
    found = decode(np.arange(256, dtype=np.uint32), opcode.removeprefix("pack_"))
    assert np.array_equal(found, wanted, equal_nan=True)
