"""What instructions compute, against Python's exact numbers, one value at a time."""

import math
import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regweave.machines.amd.assembly.meanings import all_meanings
from regweave.machines.amd.assembly.meanings.memory import all_accesses
from regweave.machines.fused import fused, fused_scaled

MEANINGS = all_meanings()
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
u32 = st.one_of(st.integers(0, 2**32 - 1), st.integers(0, 40), st.sampled_from([2**31, 2**32 - 1, 2**31 - 1]))
u64 = st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 40), st.sampled_from([2**63, 2**64 - 1]))
DTYPES = {"u": np.uint32, "i": np.int32, "U": np.uint64, "I": np.int64, "w": np.uint16, "s": np.int16}


def signed(a, bits=32):
    return a - (a >> (bits - 1) << bits)


def apply(name, kinds, *values, limited=False):
    """A meaning on single values, given as bit patterns."""
    arrays = []
    for kind, value in zip(kinds, values, strict=True):
        if kind == "b":
            arrays.append(np.array([bool(value)]))
            continue
        dtype = np.dtype(DTYPES[kind])
        arrays.append(np.array([value % 2 ** (8 * dtype.itemsize)], f"u{dtype.itemsize}").view(dtype))
    entry = MEANINGS[name]
    found = (entry.limited if limited else entry.function)(*arrays)
    results = found if isinstance(found, tuple) else (found,)
    return tuple(int(np.asarray(x).reshape(-1)[0]) for x in results)


def differences(a, b, width):
    mask = 2**width - 1
    return sum(abs((a >> place & mask) - (b >> place & mask)) for place in range(0, 32, width))


#: name, kinds of operands, and the value in Python: unsigned results modulo 2^32 (2^64 where said)
CASES = {
    "v_bfe_u32": ("uuu", lambda a, n, w: a >> (n & 31) & (1 << (w & 31)) - 1),
    "v_bfi_b32": ("uuu", lambda m, a, b: sum((a if m >> i & 1 else b) & 1 << i for i in range(32))),
    "v_alignbit_b32": ("uuu", lambda a, b, n: (a << 32 | b) >> (n & 31)),
    "v_alignbyte_b32": ("uuu", lambda a, b, n: (a << 32 | b) >> 8 * (n & 3)),
    "v_mad_u32_u24": ("uuu", lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c),
    "v_mul_hi_u32_u24": ("uu", lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF) >> 32),
    "v_mad_i32_i24": ("iii", lambda a, b, c: signed(a % 2**24, 24) * signed(b % 2**24, 24) + c),
    "v_mul_hi_i32": ("ii", lambda a, b: a * b >> 32),
    "v_mul_hi_u32": ("uu", lambda a, b: a * b >> 32),
    "v_lshl_add_u32": ("uuu", lambda a, n, c: (a << (n & 31)) + c),
    "v_add_lshl_u32": ("uuu", lambda a, b, n: (a + b) << (n & 31)),
    "v_lshl_or_b32": ("uuu", lambda a, n, c: a << (n & 31) & 2**32 - 1 | c),
    "v_xad_u32": ("uuu", lambda a, b, c: (a ^ b) + c),
    "v_bfrev_b32": ("u", lambda a: int(f"{a:032b}"[::-1], 2)),
    "v_ffbl_b32": ("u", lambda a: (a & -a).bit_length() - 1),
    "v_ffbh_u32": ("u", lambda a: 32 - a.bit_length() if a else -1),
    "v_ffbh_i32": ("i", lambda a: (31 - (a ^ a >> 31).bit_length() + 1) if a not in (0, -1) else -1),
    "v_bcnt_u32_b32": ("uu", lambda a, b: a.bit_count() + b),
    "v_bfm_b32": ("uu", lambda w, n: ((1 << (w & 31)) - 1) << (n & 31)),
    "v_sad_u8": ("uuu", lambda a, b, c: differences(a, b, 8) + c),
    "v_sad_u16": ("uuu", lambda a, b, c: differences(a, b, 16) + c),
    "v_med3_i32": ("iii", lambda a, b, c: sorted((a, b, c))[1]),
    "v_med3_u32": ("uuu", lambda a, b, c: sorted((a, b, c))[1]),
    "v_ashrrev_i32": ("ii", lambda n, a: a >> (n & 31)),
    "v_mbcnt_lo_u32_b32": ("uu", lambda a, b: b),  # lane 0: nothing stands below it
    "s_bfe_u32": ("uu", lambda a, p: a >> (p & 31) & (1 << min(p >> 16 & 127, 32)) - 1),
    "s_bfm_b32": ("uu", lambda w, n: ((1 << (w & 31)) - 1) << (n & 31)),
    "s_pack_lh_b32_b16": ("uu", lambda a, b: a & 65535 | b & 0xFFFF0000),
    "s_ff0_i32_b32": ("u", lambda a: (~a & a + 1).bit_length() - 1 if a != 2**32 - 1 else -1),
    "s_sext_i32_i8": ("u", lambda a: signed(a & 255, 8)),
    "s_mul_hi_i32": ("ii", lambda a, b: a * b >> 32),
    "s_bcnt0_i32_b32": ("u", lambda a: 32 - a.bit_count()),
    "s_absdiff_i32": ("ii", lambda a, b: abs(a - b)),
}  # fmt: skip
#: The same for scalar instructions whose SCC says something of its own: (result, scc).
FLAGS = {
    "s_add_u32": ("uu", lambda a, b: (a + b, a + b > 2**32 - 1)),
    "s_sub_u32": ("uu", lambda a, b: (a - b, a < b)),
    "s_add_i32": ("ii", lambda a, b: (a + b, not -(2**31) <= a + b < 2**31)),
    "s_sub_i32": ("ii", lambda a, b: (a - b, not -(2**31) <= a - b < 2**31)),
    "s_addc_u32": ("uub", lambda a, b, c: (a + b + c, a + b + c > 2**32 - 1)),
    "s_subb_u32": ("uub", lambda a, b, c: (a - b - c, a - b - c < 0)),
    "s_min_i32": ("ii", lambda a, b: (min(a, b), a < b)),
    "s_max_u32": ("uu", lambda a, b: (max(a, b), a > b)),
    "s_lshl3_add_u32": ("uu", lambda a, b: (8 * a + b, 8 * a + b > 2**32 - 1)),
    "s_andn2_b32": ("uu", lambda a, b: (a & ~b, a & ~b != 0)),
    "v_add_co_u32": ("uu", lambda a, b: (a + b, a + b > 2**32 - 1)),
    "v_subrev_co_u32": ("uu", lambda a, b: (b - a, b < a)),
    "v_subb_co_u32": ("uub", lambda a, b, c: (a - b - c, a < b + c)),
    "v_addc_co_u32": ("uub", lambda a, b, c: (a + b + c, a + b + c > 2**32 - 1)),
}


def read(kinds, values):
    return [signed(v) if kind == "i" else v for kind, v in zip(kinds, values, strict=True)]


@settings(max_examples=150, deadline=None)
@given(values=st.tuples(u32, u32, u32), carry=st.booleans())
def test_whole_numbers(values, carry):
    for name, (kinds, value) in (CASES | FLAGS).items():
        own = [*values[: len(kinds) - 1], carry] if "b" in kinds else values[: len(kinds)]
        found = apply(name, kinds, *own)
        wanted = value(*read(kinds, own))
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        assert found[0] % 2**32 == wanted[0] % 2**32, (name, own)
        if name in FLAGS:
            assert bool(found[1]) == bool(wanted[1]), (name, own)


@settings(max_examples=150, deadline=None)
@given(a=u64, b=u64, c=u64, n=u32)
def test_64_bits(a, b, c, n):
    x, y = a % 2**32, b % 2**32
    total = x * y + c
    assert apply("v_mad_u64_u32", "uuU", x, y, c) == (total % 2**64, total >> 64)
    product = signed(x) * signed(y) + signed(c, 64)
    found, over = apply("v_mad_i64_i32", "iiI", x, y, c)
    assert found % 2**64 == product % 2**64
    assert bool(over) == (not -(2**63) <= product < 2**63)
    assert apply("v_lshlrev_b64", "uU", n, a)[0] == (a << (n & 63)) % 2**64
    assert apply("v_ashrrev_i64", "uI", n, a)[0] == signed(a, 64) >> (n & 63)
    assert apply("v_lshl_add_u64", "UuU", a, n & 3, b)[0] == ((a << (n & 3)) + b) % 2**64
    assert apply("s_bcnt1_i32_b64", "U", a) == (a.bit_count(), a != 0)
    width = n >> 16 & 127
    kept = signed(a, 64) >> (n & 63)
    wanted = kept if width > 63 else signed(kept % 2**width, width) if width else 0
    assert apply("s_bfe_i64", "Iu", a, n)[0] == wanted


@settings(max_examples=200, deadline=None)
@given(high=u32, low=u32, chosen=st.lists(st.integers(0, 15), min_size=4, max_size=4))
def test_bytes_are_chosen(high, low, chosen):
    octets = [*low.to_bytes(4, "little"), *high.to_bytes(4, "little")]
    signs = [255 * (octets[2 * k + 1] >> 7) for k in range(4)]
    table = [*octets, *signs, 0, 255, 255, 255]
    selector = int.from_bytes(bytes(chosen), "little")
    wanted = int.from_bytes(bytes(table[c] for c in chosen), "little")
    assert apply("v_perm_b32", "uuu", high, low, selector) == (wanted,)


@settings(max_examples=200, deadline=None)
@given(a=st.integers(0, 65535), b=st.integers(0, 65535), c=st.integers(0, 65535))
def test_limits(a, b, c):
    for name, kinds, exact in (
        ("v_add_u16", "ww", a + b),
        ("v_sub_u16", "ww", a - b),
        ("v_mad_u16", "www", a * b + c),
    ):
        assert apply(name, kinds, *(a, b, c)[: len(kinds)]) == (exact % 65536,)
        assert apply(name, kinds, *(a, b, c)[: len(kinds)], limited=True) == (min(max(exact, 0), 65535),)
    exact = signed(a, 16) * signed(b, 16) + signed(c, 16)
    assert apply("v_mad_i16", "sss", a, b, c, limited=True) == (min(max(exact, -32768), 32767),)


floats = st.floats(width=32, allow_nan=False, allow_infinity=False)
doubles = st.floats(allow_nan=False, allow_infinity=False)


def rounded(value, dtype):
    """An exact number as the nearest float32 or float64, by Python's own rounding."""
    try:
        near = value.numerator / value.denominator
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    if dtype is np.float64:
        return near
    wide = np.float32(near)
    if not math.isfinite(wide):
        # between the largest number and what would be next, half-way rounds up
        limit = Fraction(2) ** 128 - Fraction(2) ** 103
        size = math.inf if abs(value) >= limit else float(np.finfo(np.float32).max)
        return size if value > 0 else -size
    choices = [np.nextafter(wide, np.float32(-np.inf)), wide, np.nextafter(wide, np.float32(np.inf))]
    finite = [x for x in choices if np.isfinite(x)]
    nearest = min(abs(Fraction(float(x)) - value) for x in finite)
    ties = [x for x in finite if abs(Fraction(float(x)) - value) == nearest]
    even = [x for x in ties if not np.float32(x).view(np.uint32) & 1]
    return float((ties if len(ties) == 1 else even)[0])


@settings(max_examples=300, deadline=None)
@given(a=floats, b=floats, c=floats, x=doubles, y=doubles, z=doubles)
def test_one_rounding(a, b, c, x, y, z):
    for dtype, (p, q, r) in ((np.float32, (a, b, c)), (np.float64, (x, y, z))):
        exact = Fraction(p) * Fraction(q) + Fraction(r)
        found = fused(*(np.array([v], dtype) for v in (p, q, r)))[0]
        assert float(found) == rounded(exact, dtype)
        power = -64 if dtype is np.float32 else -128
        arrays = [np.array([v], dtype) for v in (p, q, r)]
        scaled = fused_scaled(*arrays, np.array([power]))[0]
        if math.isfinite(found):
            assert float(scaled) == rounded(exact * Fraction(2) ** power, dtype)


@settings(max_examples=300, deadline=None)
@given(n=floats, d=floats, x=doubles, y=doubles)
def test_the_steps_of_a_division_give_the_quotient(n, d, x, y):
    """As compilers write it: scale, refine, undo, repair."""
    for kind, dtype, top, bottom in (("f32", np.float32, n, d), ("f64", np.float64, x, y)):
        n_, d_ = np.array([top], dtype), np.array([bottom], dtype)
        scale, fmas, fix = (MEANINGS[f"v_div_{word}_{kind}"].function for word in ("scale", "fmas", "fixup"))
        one = np.ones(1, dtype)
        with np.errstate(all="ignore"):
            scaled_d, _ = scale(d_, d_, n_)
            scaled_n, undo = scale(n_, d_, n_)
            r = MEANINGS[f"v_rcp_{kind}"].function(scaled_d)
            for _ in range(2):
                r = fused(fused(-scaled_d, r, one), r, r)
            q = scaled_n * r
            q = fused(fused(-scaled_d, q, scaled_n), r, q)
            rest = fused(-scaled_d, q, scaled_n)
            found = fix(fmas(rest, r, q, undo), d_, n_)
            wanted = n_ / d_
        assert found == wanted or (np.isnan(found) and np.isnan(wanted)), (top, bottom)


@pytest.mark.parametrize("kind", ["f32", "f64", "f16"])
def test_kinds_of_floats(kind):
    dtype = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[kind]
    info = np.finfo(dtype)
    word = {2: np.uint16, 4: np.uint32, 8: np.uint64}[np.dtype(dtype).itemsize]
    quiet = np.array([np.nan], dtype)
    signalling = (np.array([np.inf], dtype).view(word) | word(1)).view(dtype)
    values = [signalling, quiet, *(np.array([v], dtype) for v in (
        -np.inf, -1, -info.tiny / 2, -0.0, 0.0, info.tiny / 2, 1, np.inf))]  # fmt: skip
    test = MEANINGS[f"v_cmp_class_{kind}"].function
    for own, value in enumerate(values):
        assert [bool(test(value, np.array([1 << bit], np.uint32))[0]) for bit in range(10)] == [
            bit == own for bit in range(10)
        ]


@settings(max_examples=200, deadline=None)
@given(a=floats)
def test_rounding_toward_zero(a):
    (word,) = apply_floats("v_cvt_pkrtz_f16_f32", a, 0.0)
    (half,) = struct.unpack("<e", struct.pack("<H", int(word) & 0xFFFF))
    assert abs(half) <= abs(a)
    following = np.nextafter(np.float16(half), np.float16(math.copysign(np.inf, a)))
    assert abs(float(following)) > abs(a)


def apply_floats(name, *values):
    return MEANINGS[name].function(*(np.array([v], np.float32) for v in values))


@pytest.mark.parametrize(
    ("name", "values", "wanted"),
    [
        ("v_cvt_u32_f32", (-3.5,), 0),
        ("v_cvt_u32_f32", (2.0**40,), 2**32 - 1),
        ("v_cvt_i32_f32", (math.nan,), 0),
        ("v_cvt_i32_f32", (-math.inf,), -(2**31)),
        ("v_cvt_rpi_i32_f32", (-2.5,), -2),
        ("v_cvt_flr_i32_f32", (-2.5,), -3),
        ("v_min_f32", (0.0, -0.0), -0.0),
        ("v_max_f32", (math.nan, 1.0), 1.0),
        ("v_med3_f32", (3.0, 1.0, 2.0), 2.0),
        ("v_med3_f32", (3.0, math.nan, 2.0), 2.0),
        ("v_mul_legacy_f32", (0.0, math.inf), 0.0),
        ("v_fract_f32", (-1e-9,), float(np.nextafter(np.float32(1), np.float32(0)))),
        ("v_frexp_mant_f32", (12.0,), 0.75),
        ("v_frexp_exp_i32_f32", (12.0,), 4),
        ("v_exp_f32", (3.0,), 8.0),
        ("v_log_f32", (8.0,), 3.0),
        ("v_sin_f32", (0.25,), 1.0),
        ("v_cos_f32", (300.0,), 1.0),
        ("v_rsq_f32", (4.0,), 0.5),
        ("v_mad_f32", (1e-40, 1.0, 0.0), 0.0),
        ("v_fma_f32", (1e-40, 1.0, 0.0), float(np.float32(1e-40))),
    ],
)
def test_single_values(name, values, wanted):
    with np.errstate(all="ignore"):
        found = apply_floats(name, *values)[0]
    assert found == wanted
    assert math.copysign(1, found) == math.copysign(1, wanted)


def test_atomic_operations():
    accesses = all_accesses()
    old, most = np.array([3, 7, 9], np.uint32), np.array([7, 7, 7], np.uint32)
    assert list(accesses["ds_inc_u32"].operation(old, most)) == [4, 0, 0]
    assert list(accesses["ds_dec_u32"].operation(np.array([3, 0, 9], np.uint32), most)) == [2, 7, 7]
    new, wanted = np.array([1, 1, 1], np.uint32), np.array([3, 8, 9], np.uint32)
    # LDS has what to compare with first, memory the new value
    assert list(accesses["ds_cmpst_b32"].operation(old, wanted, new)) == [1, 7, 1]
    assert list(accesses["global_atomic_cmpswap"].operation(old, new, wanted)) == [1, 7, 1]
    halves = np.array([[1.5, -2.0]], np.float16).view(np.uint32)[0]
    found = accesses["global_atomic_pk_add_f16"].operation(halves, halves).view(np.float16)
    assert list(found) == [3.0, -4.0]
    pair = np.array([0x3FC0_BF80], np.uint32)  # 1.5 and -1 as bf16
    assert accesses["global_atomic_pk_add_bf16"].operation(pair, pair)[0] == 0x4040_C000


def test_dot_products():
    a, b = np.int32([[-128], [127], [3], [-1]]), np.int32([[-128], [127], [5], [7]])
    plain, limited = (getattr(MEANINGS["v_dot4_i32_i8"], word) for word in ("function", "limited"))
    assert plain(a, b, np.int32([1]))[0] == 128 * 128 + 127 * 127 + 15 - 7 + 1
    assert plain(a, b, np.int32([2**31 - 1]))[0] < 0
    assert limited(a, b, np.int32([2**31 - 1]))[0] == 2**31 - 1
    halves = np.float16([[3.0], [0.1]]), np.float16([[2.0], [0.3]])
    exact = Fraction(6) + Fraction(float(halves[0][1, 0])) * Fraction(float(halves[1][1, 0])) + 1
    assert MEANINGS["v_dot2_f32_f16"].function(*halves, np.float32([1]))[0] == np.float32(float(exact))
