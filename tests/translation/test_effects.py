"""What a translated line must leave alone: memory under a mask, general registers, flags, other threads."""

import ctypes
import mmap
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from test_instructions import FEATURES, pytestmark, run, text_of  # noqa: F401
from translator import is_wide, translate

from regweave import AssemblyError
from regweave.devices import cpu
from regweave.machines.x86 import AVX512


@pytest.mark.parametrize(
    ("load", "store", "size"),
    [
        ("vmovups zmm0{k1}{z}, zmmword ptr [rcx]", "vmovups zmmword ptr [rcx]{k1}, zmm0", 4),
        ("vmovdqu64 zmm0{k1}{z}, zmmword ptr [rcx]", "vmovdqu64 zmmword ptr [rcx]{k1}, zmm0", 8),
        ("vmovdqu16 zmm0{k1}{z}, zmmword ptr [rcx]", "vmovdqu16 zmmword ptr [rcx]{k1}, zmm0", 2),
        ("vmovdqu8 zmm0{k1}{z}, zmmword ptr [rcx]", "vmovdqu8 zmmword ptr [rcx]{k1}, zmm0", 1),
        ("vpaddd zmm0{k1}{z}, zmm1, zmmword ptr [rcx]", "vmovups zmmword ptr [rcx]{k1}, zmm0", 4),
    ],
)
def test_lanes_left_out_touch_no_memory(load, store, size):
    """The vector begins a few elements before a page that nobody may touch."""
    pages = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    memory = (ctypes.c_ubyte * len(pages)).from_buffer(pages)
    base = ctypes.addressof(memory)
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(base + mmap.PAGESIZE), mmap.PAGESIZE, 0) == 0
    vectors, inside = np.zeros((4, 64), np.uint8), 40 // size
    place = base + mmap.PAGESIZE - inside * size
    ctypes.memmove(place, bytes(range(1, 1 + inside * size)), inside * size)
    masks = np.array([(1 << inside) - 1 & ~2, 0], np.uint64)
    found, _ = run(translate(text_of(load, "vmovdqa64 zmm2, zmm0", store)), vectors, masks, (place,))
    want = np.zeros(64, np.uint8)
    want[: inside * size] = np.arange(1, 1 + inside * size)
    want[size : 2 * size] = 0
    np.testing.assert_array_equal(found, want)
    assert ctypes.string_at(place + size, size) == bytes(range(1 + size, 1 + 2 * size))


@pytest.mark.parametrize(
    "line",
    [
        "vcmpps k2, zmm1, zmm2, 17",
        "vmovdqu8 zmm0{k1}{z}, zmmword ptr [rdi+64]",
        "vmovdqu16 zmmword ptr [rdi]{k1}, zmm1",
        "vpermt2w zmm0, zmm1, zmm2",
        "kmovw k2, word ptr [rsi]",
        "korw k2, k1, k1",
        "vscalefps zmm3, zmm1, zmm2",
    ],
)
def test_registers_and_flags_stay(line):
    """All flags that a branch asks for, set and clear, and the two registers that scalar code borrows."""
    for flags in (0, 0x8D5):
        keep = [
            "mov rax, 123456789",
            "mov rcx, 987654321",
            f"push {flags}",
            "popfq",
            line,
            "pushfq",
            "pop r8",
        ]
        keep += ["mov qword ptr [rdi], rax", "mov qword ptr [rdi+8], rcx", "mov qword ptr [rdi+16], r8"]
        keep.append("vmovdqu64 zmm0, zmmword ptr [rdi]")
        vectors, masks = np.ones((4, 64), np.uint8), np.array([0x5A5A, 3], np.uint64)
        words = run(translate(text_of(*keep)), vectors, masks)[0].view(np.int64)
        assert (words[0], words[1], words[2] & 0x8D5) == (123456789, 987654321, flags)


def test_threads_have_registers_of_their_own():
    lines = ["mov rcx, 20000", "again:", "vpaddd zmm0, zmm0, zmm1", "dec rcx", "jnz again"]
    library = cpu.load_text(translate(text_of(*lines)), ("f",))
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(library.address("f"))

    def work(step):
        vectors, masks, out = np.zeros((4, 16), np.uint32), np.zeros(2, np.uint64), np.zeros(18, np.uint32)
        vectors[1] = step
        function(vectors.ctypes.data, masks.ctypes.data, out.ctypes.data)
        return out[:16]

    with ThreadPoolExecutor(4) as pool:
        for step, found in enumerate(pool.map(work, range(32))):
            np.testing.assert_array_equal(found, 20000 * step)


def test_addresses_are_checked_as_the_processor_does():
    """A store past the caches to a multiple of 32 that is none of 64 ends the process."""
    program = (
        "import sys, numpy as np; sys.path.insert(0, sys.argv[1])\n"
        "from translator import translate; from regweave.devices import cpu; import ctypes\n"
        "text = '.intel_syntax noprefix\\n.globl f\\nf: vmovntps zmmword ptr [rdi], zmm0\\nret\\n'\n"
        "library = cpu.load_text(translate(text), ('f',))\n"
        "f = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(library.address('f'))\n"
        "out = cpu.aligned_empty((32,)); f(out.ctypes.data); print('once', flush=True)\n"
        "f(out.ctypes.data + 32); print('twice')\n"
    )
    folder = str(Path(__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", program, folder], capture_output=True, text=True, check=False
    )
    assert done.stdout == "once\n", done.stderr
    assert done.returncode < 0


@pytest.mark.parametrize(
    "line",
    [
        "vfpclassps k1, zmm0, 3",
        "vaddps zmm0, zmm1, zmm2, {rn-sae}",
        "vaddps zmm0{k1}, zmm1, ymm2",
        "vpermpd zmm0, zmm1, zmm2",
        "vpsrlw zmm0, zmm1, xmm2",
        "vaddps zmm0, zmm1, qword ptr [rdi]{1to8}",
        "movups xmm0, xmmword ptr [rdi]",
        "vreduceps zmm0, zmm1, 0x19",
        "vmovss xmm0, xmm1, xmm2",
        "kortestw k1, k1",
    ],
)
def test_what_is_not_known_is_an_error(line):
    with pytest.raises(AssemblyError, match="is not translated"):
        translate(text_of(line))


def test_other_processes_know_nothing_of_it():
    """A user's program is told what the processor has."""
    program = "from regweave.machines.x86 import AVX512, supports; print(supports(AVX512))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(set(AVX512.features) <= FEATURES)


def test_narrow_texts_are_left_alone():
    assert not is_wide("vaddps ymm15, ymm1, ymmword ptr [rdi]")
    assert is_wide("vaddps ymm16, ymm1, ymm2")
    assert is_wide("kmovw k1, eax")
