"""The library written without a linker: the system's own loader takes it, and its slots lead where we say."""

import ctypes
import os
import sys

import pytest

from regweave.devices.onnxruntime.shared_object import PAGE, shared_object, slot_name

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or os.uname().machine != "x86_64", reason="an x86-64 Linux library"
)


def test_each_function_jumps_to_the_address_in_its_slot(tmp_path):
    path = tmp_path / "lib.so"
    path.write_bytes(shared_object(("first", "second"), "libtest.so"))
    library = ctypes.CDLL(str(path))
    for name, factor in (("first", 2), ("second", 3)):
        target = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda x, factor=factor: factor * x)
        slot = ctypes.c_void_p.in_dll(library, slot_name(name))
        assert slot.value is None
        slot.value = ctypes.cast(target, ctypes.c_void_p).value
        assert library[name](7) == 7 * factor


def test_code_is_not_writable_and_data_not_executable():
    image = shared_object(("only",), "libtest.so")
    flags = [int.from_bytes(image[64 + 56 * i + 4 : 64 + 56 * i + 8], "little") for i in range(4)]
    assert not any(flag & 1 and flag & 2 for flag in flags)
    assert len(image) < 2 * PAGE


def test_more_functions_than_a_page_holds_is_our_bug():
    with pytest.raises(AssertionError):
        shared_object([f"function_number_{i}" for i in range(200)], "libtest.so")
