"""Translated instructions against NumPy, on random bytes; where there is AVX-512, against it as well.

Each case is a line or a few that make zmm0 of zmm1, zmm2, zmm3 and k1. The machines' own tables are run
against their meanings elsewhere (tests/machines/x86): here is what they do not have.
"""

import ctypes

import numpy as np
import pytest
from translator import translate
from translator.entering import can_enter

from regweave.devices import cpu
from regweave.machines.x86 import AVX2
from regweave.machines.x86.features import processor_features

FEATURES = processor_features()
NATIVE = {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vbmi"} <= FEATURES
pytestmark = pytest.mark.skipif(
    not set(AVX2.features) <= FEATURES or not can_enter(), reason="translated code needs AVX2"
)


def text_of(*lines):
    """A function (vectors, masks, out): zmm0 to zmm3 and k1, k2 in, zmm0 and k3 out."""
    loads = [f"vmovdqu64 zmm{n}, zmmword ptr [rdi+{64 * n}]" for n in range(4)]
    loads += [f"kmovq k{n + 1}, qword ptr [rsi+{8 * n}]" for n in range(2)]
    stores = ["vmovdqu64 zmmword ptr [rdx], zmm0", "kmovq qword ptr [rdx+64], k3"]
    head = [".intel_syntax noprefix", ".text", ".globl f", "f:", "kxorq k3, k3, k3"]
    return "\n".join([*head, *loads, *lines, *stores, "ret"]) + "\n"


def run(text, vectors, masks, kept=()):
    library = cpu.load_text(text, ("f",))
    out = np.zeros(72, np.uint8)
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (3 + len(kept)))(library.address("f"))
    function(vectors.ctypes.data, masks.ctypes.data, out.ctypes.data, *kept)
    return out[:64], int(out[64:].view(np.uint64)[0])


def lanes(mask, count):
    return (mask >> np.arange(count, dtype=np.uint64) & np.uint64(1)).astype(bool)


def halves(operation, kind):
    return lambda a, b, old, k: operation(a.view(kind), b.view(kind))


def under(operation, kind, zeroing=False):
    def meaning(a, b, old, k):
        found = operation(a.view(kind), b.view(kind))
        return np.where(lanes(k, found.size), found, 0 if zeroing else old.view(kind)).astype(kind)

    return meaning


def packed(a, b, old, k):
    """Unsigned saturation of words to bytes, in every 128 bits."""
    both = np.stack([a.view(np.int16).reshape(4, 8), b.view(np.int16).reshape(4, 8)], 1)
    return both.clip(0, 255).astype(np.uint8)


def saturated(short):
    top = np.iinfo(short).max

    def meaning(a, b, old, k):
        found = np.minimum(a.view(np.uint32), top).astype(short)
        return np.concatenate([found.view(np.uint8), np.zeros(64 - found.nbytes, np.uint8)])

    return meaning


def picked(kind):
    """Lanes of zmm0's old value, then of b, by the index a."""

    def meaning(a, b, old, k):
        tables = np.concatenate([old.view(kind), b.view(kind)])
        return tables[a.view(kind) % tables.size]

    return meaning


U8, U16, U32, U64, I16 = np.uint8, np.uint16, np.uint32, np.uint64, np.int16
CASES = {
    "vpaddb zmm0, zmm1, zmm2": halves(np.add, U8),
    "vpsubw zmm0{k1}, zmm1, zmm2": under(np.subtract, U16),
    "vpaddb zmm0{k1}{z}, zmm1, zmm2": under(np.add, U8, True),
    "vpaddq zmm0{k1}, zmm1, zmm2": under(np.add, U64),
    "vpaddd zmm0{k1}{z}, zmm1, dword ptr [rdi+128]{1to16}": under(lambda a, b: a + b[0], U32, True),
    "vpaddd zmm0{k1}, zmm1, zmmword ptr [rdi+128]": under(np.add, U32),
    "vpaddw zmm0{k1}, zmm1, zmmword ptr [rdi+128]": under(np.add, U16),
    "vpminsd zmm0, zmm1, zmm2": halves(np.minimum, np.int32),
    "vpmullw zmm0, zmm1, zmm2": halves(np.multiply, U16),
    "vpandnd zmm0, zmm1, zmm2": halves(lambda a, b: ~a & b, U32),
    "vpackuswb zmm0, zmm1, zmm2": packed,
    "vpsraw zmm0, zmm1, 3": halves(lambda a, b: a >> 3, I16),
    "vpslld zmm0, zmmword ptr [rdi+64], 5": halves(lambda a, b: a << U32(5), U32),
    "vpabsw zmm0, zmm1": halves(lambda a, b: np.abs(a), I16),
    "vmovdqu8 zmm0{k1}, zmmword ptr [rdi+64]": under(lambda a, b: a, U8),
    "vmovdqu16 zmm0{k1}{z}, zmm1": under(lambda a, b: a, U16, True),
    "vmovdqa64 zmm0{k1}, zmm1": under(lambda a, b: a, U64),
    "vpblendmw zmm0{k1}, zmm1, zmm2": lambda a, b, old, k: np.where(lanes(k, 32), b.view(U16), a.view(U16)),
    "vpblendmb zmm0{k1}, zmm1, zmm2": lambda a, b, old, k: np.where(lanes(k, 64), b, a),
    "vpmovzxbw zmm0{k1}{z}, ymmword ptr [rdi+64]": under(lambda a, b: a.view(U8)[:32].astype(U16), U16, True),
    "vpmovsxbd zmm0, xmm1": lambda a, b, old, k: a[:16].view(np.int8).astype(np.int32),
    "vpmovzxwd ymm0, xmmword ptr [rdi+64]": lambda a, b, old, k: np.append(
        a[:16].view(U16).astype(U32), np.zeros(8, U32)
    ),
    "vpmovusdb xmm0, zmm1": saturated(U8),
    "vpmovusdw ymm0, zmm1": saturated(U16),
    "vpmovdb xmm0, zmm1": lambda a, b, old, k: np.append(a[::4], np.zeros(48, U8)),
    "vpermt2b zmm0, zmm1, zmm2": picked(U8),
    "vpermt2w zmm0, zmm1, zmm2": picked(U16),
    "vpermt2d zmm0, zmm1, zmm2": picked(U32),
    "vpermi2ps zmm0, zmm1, zmm2": lambda a, b, old, k: np.append(a.view(U32), b.view(U32))[
        old.view(U32) % 32
    ],
    "vpermi2w zmm0, zmm1, zmm2": lambda a, b, old, k: np.append(a.view(U16), b.view(U16))[old.view(U16) % 64],
    "vpermw zmm0, zmm1, zmm2": lambda a, b, old, k: b.view(U16)[a.view(U16) % 32],
    "vpermd zmm0{k1}{z}, zmm1, zmm2": lambda a, b, old, k: np.where(
        lanes(k, 16), b.view(U32)[a.view(U32) % 16], U32(0)
    ),
    "vshuff64x2 zmm0, zmm1, zmm2, 0x1b": lambda a, b, old, k: np.append(
        a.reshape(4, 16)[[3, 2]], b.reshape(4, 16)[[1, 0]]
    ),
    "valignq zmm0, zmm1, zmm2, 3": lambda a, b, old, k: np.append(b.view(U64), a.view(U64))[3:11],
    "vinserti32x4 zmm0, zmm1, xmm2, 3": lambda a, b, old, k: np.append(a[:48], b[:16]),
    "vinsertf64x4 zmm0, zmm1, ymmword ptr [rdi+128], 1": lambda a, b, old, k: np.append(a[:32], b[:32]),
    "vextracti32x4 xmm0, zmm1, 2": lambda a, b, old, k: np.append(a[32:48], np.zeros(48, U8)),
    "vbroadcastf64x4 zmm0, ymmword ptr [rdi+64]": lambda a, b, old, k: np.tile(a[:32], 2),
    "vbroadcasti32x4 zmm0, xmmword ptr [rdi+64]": lambda a, b, old, k: np.tile(a[:16], 4),
    "vpbroadcastw zmm0, xmm1": lambda a, b, old, k: np.tile(a[:2], 32),
    "vbroadcastss zmm0{k1}, dword ptr [rdi+64]": under(lambda a, b: np.tile(a[:1], 16), U32),
    "vmovq xmm0, qword ptr [rdi+64]": lambda a, b, old, k: np.append(a[:8], np.zeros(56, U8)),
    "vzeroupper": lambda a, b, old, k: np.append(old[:16], np.zeros(48, U8)),
    "vaddps ymm0, ymm1, ymm2": lambda a, b, old, k: np.append(
        a[:32].view(np.float32) + b[:32].view(np.float32), np.zeros(8, np.float32)
    ),
}

#: Lines that make k3 of zmm1, zmm2, k1 and k2: the mask as a number.
MASKS = {
    "kandd k3, k1, k2": lambda a, b, k, j: k & j & 0xFFFFFFFF,
    "kandnw k3, k1, k2": lambda a, b, k, j: ~k & j & 0xFFFF,
    "kxnorb k3, k1, k2": lambda a, b, k, j: ~(k ^ j) & 0xFF,
    "korq k3, k1, k2": lambda a, b, k, j: k | j,
    "knotw k3, k1": lambda a, b, k, j: ~k & 0xFFFF,
    "kshiftlw k3, k1, 3": lambda a, b, k, j: k << 3 & 0xFFFF,
    "kshiftrd k3, k1, 7": lambda a, b, k, j: (k & 0xFFFFFFFF) >> 7,
    "kmovb k3, k1": lambda a, b, k, j: k & 0xFF,
    "kmovw k3, word ptr [rsi]": lambda a, b, k, j: k & 0xFFFF,
    "kmovd eax, k1\nkmovd k3, eax": lambda a, b, k, j: k & 0xFFFFFFFF,
    "vpcmpeqb k3, zmm1, zmm2": lambda a, b, k, j: number(a == b),
    "vpcmpgtw k3{k1}, zmm1, zmm2": lambda a, b, k, j: number(a.view(I16) > b.view(I16)) & k & (1 << 32) - 1,
    "vptestmw k3, zmm1, zmm2": lambda a, b, k, j: number(a.view(U16) & b.view(U16) != 0),
    "vptestnmb k3, zmm1, zmm2": lambda a, b, k, j: number(a & b == 0),
    "vcmpps k3{k1}, zmm1, zmm2, 17": lambda a, b, k, j: (
        number(a.view(np.float32) < b.view(np.float32)) & k & 0xFFFF
    ),
}


def number(found):
    return sum(1 << n for n, bit in enumerate(found) if bit)


def inputs(seed):
    """Vectors in which both equal and different lanes occur, and masks."""
    random = np.random.default_rng(seed)
    vectors = random.integers(0, 256, (4, 64)).astype(np.uint8)
    same = random.random(64) < 0.3
    vectors[2, same] = vectors[1, same]
    if seed % 2:
        vectors[1, ::2] &= vectors[3, ::2] & 7
    return vectors, random.integers(0, 2**64, 2, np.uint64)


@pytest.mark.parametrize("line", CASES)
def test_vectors(line):
    for seed in range(8):
        vectors, masks = inputs(seed)
        text = text_of(*line.split("\n"))
        found, _ = run(translate(text), vectors, masks)
        old, a, b, _ = (row.copy() for row in vectors)
        with np.errstate(all="ignore"):
            want = np.ascontiguousarray(CASES[line](a, b, old, masks[0]))
        if want.dtype == np.float32:  # which NaN it is, is nobody's promise here
            np.testing.assert_array_equal(found.view(np.float32), want)
            continue
        np.testing.assert_array_equal(found, want.view(np.uint8).ravel(), err_msg=f"{line}, seed {seed}")
        if NATIVE:
            np.testing.assert_array_equal(found, run(text, vectors, masks)[0])


@pytest.mark.parametrize("line", MASKS)
def test_masks(line):
    for seed in range(8):
        vectors, masks = inputs(seed)
        text = text_of(*line.split("\n"))
        k, j = (int(mask) for mask in masks)
        found = run(translate(text), vectors, masks)[1]
        assert found == MASKS[line](vectors[1], vectors[2], k, j) & 2**64 - 1, (line, seed)
        if NATIVE:
            assert found == run(text, vectors, masks)[1]
