"""Narrowing and byte permutes against independent statements of the same facts."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regweave.programs import OPCODES
from regweave.programs.narrowing import NARROWINGS
from regweave.programs.numbers import SMALL_FLOATS, decode, encode, exact_range

TYPES = {
    "pack_e4m3": (ml_dtypes.float8_e4m3fn, 448.0),
    "pack_e5m2": (ml_dtypes.float8_e5m2, 57344.0),
    "pack_e4m3fnuz": (ml_dtypes.float8_e4m3fnuz, 240.0),
    "pack_e5m2fnuz": (ml_dtypes.float8_e5m2fnuz, 57344.0),
    "pack_e3m2": (ml_dtypes.float6_e3m2fn, 28.0),
    "pack_e2m3": (ml_dtypes.float6_e2m3fn, 7.5),
    "pack_e2m1": (ml_dtypes.float4_e2m1fn, 6.0),
}
# the pattern that a NaN becomes: the largest number where the type has none
NAN = {"fnuz": 0x80, "e3m2": 0x1F, "e2m3": 0x1F, "e2m1": 0x7}
INTEGERS = {"pack_s16": 16, "pack_u16": 16, "pack_s8": 8, "pack_u8": 8, "pack_s4": 4, "pack_u4": 4}


def pack(opcode, low, high, above):
    operands = (low, high, above)[: len(OPCODES[opcode].operands)]
    return OPCODES[opcode].meaning(operands, ())


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
    nan = next((pattern for end, pattern in NAN.items() if opcode.endswith(end)), 0x7F)
    wanted = np.where(np.isnan(values), nan, wanted).astype(np.uint32)
    zero = np.zeros_like(words)
    assert np.array_equal(pack(opcode, words, zero, zero), wanted)
    assert np.array_equal(pack(opcode, zero, words, zero), wanted << NARROWINGS[opcode].bits)


def test_half_bytes_stand_in_bits_2_to_5_of_their_bytes():
    words = interesting_floats()
    zero = np.zeros_like(words)
    wanted = pack("pack_e2m1", words, zero, zero) << 2
    assert np.array_equal(pack("pack_e2m1b8", words, zero, zero), wanted)
    assert np.array_equal(decode(wanted, "e2m1b8"), decode(wanted >> 2, "e2m1"))


@pytest.mark.parametrize("opcode", INTEGERS)
def test_integers_are_kept_within_bounds(opcode):
    bits = INTEGERS[opcode]
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if "_s" in opcode else (0, (1 << bits) - 1)
    near = [end + step for end in (0, least, most) for step in (-1, 0, 1)]
    values = np.array([*near, 2**31 - 1, -(2**31)], dtype=np.int64)
    words = values.astype(np.int32).view(np.uint32)
    wanted = np.array([min(max(value, least), most) % (1 << bits) for value in values.tolist()])
    zero = np.zeros_like(words)
    assert np.array_equal(pack(opcode, words, zero, zero), wanted)
    assert np.array_equal(pack(opcode, zero, words, zero), wanted << bits)


@given(st.integers(0, 2**32 - 1))
def test_what_lies_above_are_the_low_bits_of_the_third(above):
    zero = np.zeros(1, dtype=np.uint32)
    for opcode, kind in NARROWINGS.items():
        if kind.merges:
            assert pack(opcode, zero, zero, np.uint32([above]))[0] == (above << 2 * kind.bits) % 2**32


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_halves_of_two_words_are_joined(one, other):
    words = np.uint32([one]), np.uint32([other])
    assert OPCODES["pack_low"].meaning(words, ())[0] == one % 2**16 + (other % 2**16 << 16)
    assert OPCODES["pack_high"].meaning(words, ())[0] == (one >> 16) + (other >> 16 << 16)


@pytest.mark.parametrize("dtype", ["s4", "u4", "s8", "u16", "f16", "bf16", "f16_lo", *SMALL_FLOATS])
def test_whole_numbers_of_the_range_are_exact(dtype):
    numbers = np.arange(exact_range(dtype))
    assert np.array_equal(decode(encode(numbers, dtype), dtype), numbers)
    beyond = np.arange(exact_range(dtype) * 2 + 2)
    assert not np.array_equal(decode(encode(beyond, dtype), dtype), beyond)


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
    patterns = 1 << NARROWINGS[opcode].bits if "e2m1" in opcode else 64 if NAN.get(opcode[5:]) else 256
    wanted = np.arange(patterns, dtype=np.uint8).view(TYPES[opcode][0]).astype(np.float64)
    found = decode(np.arange(patterns, dtype=np.uint32), opcode.removeprefix("pack_"))
    assert np.array_equal(found, wanted, equal_nan=True)
