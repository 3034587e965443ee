"""Kernels run for real, and what is wrong with a text is said without ending the process."""

import gc

import numpy as np
import pytest

from regweave.devices import opencl
from regweave.errors import DeviceError, InputError

SWAP = """
__attribute__((intel_reqd_sub_group_size({lanes})))
kernel void swap(global uint *x, global uint *sizes) {{
    const size_t place = get_global_id(0);
    x[place] = sub_group_shuffle(x[place], get_sub_group_local_id() ^ 5u);
    sizes[place] = get_sub_group_size();
}}
"""


@pytest.mark.parametrize("lanes", [4, 8, 16, 32, 64])
def test_sub_groups_have_the_size_asked_for(device, lanes):
    x = np.arange(3 * 64, dtype=np.uint32)
    kernel = opencl.build(SWAP.format(lanes=lanes)).kernel("swap")
    swapped, sizes = kernel.run(x, np.zeros_like(x), groups=3, items=64)
    if lanes >= 8:
        assert np.array_equal(swapped, x ^ 5)
    assert set(sizes) == {lanes}
    assert np.array_equal(x, np.arange(3 * 64))  # the caller's array stays as it was


def test_local_memory_and_barriers(device):
    text = """
    __attribute__((intel_reqd_sub_group_size(32)))
    kernel void reverse(global uint *x) {
        local uint words[128];
        words[get_local_id(0)] = x[get_global_id(0)];
        barrier(CLK_LOCAL_MEM_FENCE);
        x[get_global_id(0)] = words[127 - get_local_id(0)];
    }"""
    (reversed_,) = (
        opencl.build(text).kernel("reverse").run(np.arange(256, dtype=np.int32), groups=2, items=128)
    )
    assert np.array_equal(reversed_, [*range(127, -1, -1), *range(255, 127, -1)])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kernel void k(", "expected parameter declarator"),
        ("kernel void k(global uint *x) { x[0] = missing(1u); }", "missing"),
        ("uint declared(uint x); kernel void k(global uint *x) { x[0] = declared(1u); }", "refuses"),
        ("__attribute__((intel_reqd_sub_group_size(17))) kernel void k(global uint *x) {}", "one of 4, 8"),
        ("kernel void k(global uint *x) { uint r; __asm__(\"nop\"); x[0] = r; }", "inline assembly"),
    ],
)  # fmt: skip
def test_a_faulty_text_is_an_error_with_the_reason(device, text, said):
    for _ in range(3):
        with pytest.raises(DeviceError, match=said):
            opencl.build(text)
    gc.collect()  # what a failed build leaves behind must not end the process either


def test_remarks_on_a_good_text_are_no_warnings(device, recwarn):
    opencl.build("kernel void k(global uint *x) { uint unused = 1; int odd = -1; x[0] = odd < unused; }")
    assert not recwarn.list


def test_an_unknown_kernel_is_named(device):
    with pytest.raises(InputError, match="no kernel 'other'"):
        opencl.build("kernel void k(global uint *x) {}").kernel("other")


def test_a_wrong_number_of_arguments_and_a_wrong_size(device):
    library = opencl.build(
        "__attribute__((reqd_work_group_size(32, 1, 1))) kernel void k(global uint *x, global uint *y) {}"
    )
    words = np.zeros(64, dtype=np.uint32)
    with pytest.raises(DeviceError, match="cannot be run"):
        library.kernel("k").run(words, groups=1, items=32)
    with pytest.raises(DeviceError, match="cannot be run"):
        library.kernel("k").run(words, words, words, groups=1, items=32)
    with pytest.raises(DeviceError, match="cannot be run"):
        library.kernel("k").run(words, words, groups=1, items=64)
