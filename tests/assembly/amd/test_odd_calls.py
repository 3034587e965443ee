"""Calls of the builder with what they cannot use: one clear error each."""

from __future__ import annotations

import numpy as np
import pytest

from regweave.assembly.amd import Kernel, Part
from regweave.assembly.variables import Variable
from regweave.errors import RegweaveError
from regweave.machines.amd.assembly import GFX906


def kernel(**options) -> Kernel:
    return Kernel(GFX906, name="k", **options)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda k, v: Kernel("gfx906", name="k"), r"machine 'gfx906'; expected GFX906.*find_target"),
        (lambda k, v: Kernel(GFX906, name=5), "5 cannot be a kernel's name"),
        (lambda k, v: kernel(workgroup=64), "a workgroup of 64; expected three whole numbers"),
        (lambda k, v: kernel(workgroup=(64, 1)), "three whole numbers"),
        (lambda k, v: kernel(workgroup=(1.5, 1, 1)), "three whole numbers"),
        (lambda k, v: kernel(lds_bytes=1.5), "1.5 bytes of LDS"),
        (lambda k, v: kernel(lds_bytes=None), "None bytes of LDS"),
        (lambda k, v: kernel(occupancy=1.5), "occupancy 1.5"),
        (lambda k, v: kernel(occupancy=-1), "occupancy -1 of gfx906"),
        (lambda k, v: kernel(occupancy=0), "occupancy 0 of gfx906"),
        (lambda k, v: kernel(occupancy=-1, workgroup=(1024, 1, 1)), "occupancy -1 of gfx906"),
        (lambda k, v: k.vector("x", count=1.5), "'x' of 1.5 registers"),
        (lambda k, v: k.vector("x", count=True), "'x' of True registers"),
        (lambda k, v: k.variable("x", "vector", align=None), "aligned to None"),
        (lambda k, v: k.vector("x", pin=5), "pinned to 5"),
        (lambda k, v: k.vector(""), "'' cannot be a variable's name"),
        (lambda k, v: k.vector(None), "None cannot be a variable's name"),
        (lambda k, v: k.argument(5), "argument 5"),
        (lambda k, v: k.label(None), "None cannot be a label"),
        (lambda k, v: k.emit("v_mov_b32", v, "v" + "9" * 5000), "more than 400 digits"),
        (lambda k, v: k.emit_template("v_mov_b32 %0, 0", v, constraints="0:v" + "9" * 5000), "400 digits"),
        (lambda k, v: k.emit(None), "None with '' is no instruction"),
        (lambda k, v: k.emit("v_mov_b32", v, 1, modifiers=None), "with None is no instruction"),
        (lambda k, v: k.emit_template(None), "None is no template"),
        (lambda k, v: k.emit("v_mov_b32", Part(v, "0"), 1), "is no part"),
        (lambda k, v: k.emit("v_mov_b32", Part(v, 0), None), "None cannot be an operand"),
        (lambda k, v: k.emit("v_mov_b32", Part(v, 0), 1 << 32), "cannot hold the number 4294967296"),
        (lambda k, v: k.emit("v_mov_b32", Part(v, 0), -(1 << 31) - 1), "cannot hold the number -2147483649"),
        (lambda k, v: k.emit("v_mul_f32", Part(v, 0), 1e39, Part(v, 0)), "cannot hold the number 1e.39"),
        (lambda k, v: k.emit_line("v_mul_f32 v0, 1.5e400, v0"), "cannot hold the number 1.5e400"),
        (lambda k, v: k.emit_line("v_add_f64 v[0:1], 1.5e400, v[0:1]"), "cannot hold the number 1.5e400"),
        (lambda k, v: k.emit_template("v_mov_b32 %0.0, 0", v, constraints="0:v8"), "'v4' is v4 and .*v8"),
        (lambda k, v: k.emit_template("v_mov_b32 %0.0, 0", v, constraints="0:s4"), "'v4' is v4 and .*s4"),
        (lambda k, v: k.emit_template("v_mov_b32 %0.0, 0", v, constraints="1:v4"), "'1:v4' is about an oper"),
    ],
)
def test_an_error_says_what_is_wrong(call, words):
    k = kernel()
    v = k.vector("quad", count=4)
    with pytest.raises(RegweaveError, match=words.replace("'v4'", "'quad'")):
        call(k, v)


def test_what_is_allowed():
    k = kernel(workgroup=[64, 1, 1], occupancy=np.int64(4), lds_bytes=np.int32(64))
    v = k.vector("v_", count=np.int64(2))
    for number in (0xFFFFFFFF, -(1 << 31), 3.4e38, np.float32(1.5), np.int16(3)):
        k.emit("v_mov_b32", Part(v, np.int64(0)), float(number) if isinstance(number, np.float32) else number)
    k.emit_template("v_mov_b32 %0.1, 0", v, constraints="0:v2")
    k.emit_template("v_mov_b32 %0.1, 0\nv_mov_b32 %0.0, 1", Variable("new"), constraints="0:v2")
    assert k.finish().occupancy >= 4
