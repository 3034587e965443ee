"""A warp printed as vectors: neighbours are one load, every other one two, others one for each lane."""

import numpy as np
import pytest

from regweave import UnsupportedError
from regweave.devices import opencl
from regweave.emitters.opencl_vectors import VectorPrinter
from regweave.programs import Memory, ProgramBuilder, run_program

LANES = 8


def scaled(stride):
    """y[i] = 2 x[stride i] + x[0] for the elements with i < 13, lane by lane, two blocks."""
    memories = [Memory("x", "global", 4 * 16 * stride), Memory("y", "global", 64)]
    b = ProgramBuilder("scaled", LANES, memories=memories)
    start = b.step("multiply", (b.step("block", (), (), "x"), b.constant(LANES)))
    place = b.step("add", (start, b.step("lane")))
    (word,) = b.load("x", b.step("multiply", (place, b.constant(4 * stride))))
    (first,) = b.load("x", b.constant(0))
    two = b.step("number", (b.constant(0x40000000),))
    value = b.step("multiply_add_f32", (b.step("number", (word,)), two, b.step("number", (first,))))
    with b.when(b.step("less", (place, b.constant(13)))):
        b.store("y", b.step("shift_left", (place, b.constant(2))), [b.step("bits", (value,))], 4)
    return b.finish()


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_the_text_means_what_the_program_means(stride):
    program = scaled(stride)
    text = VectorPrinter(program).text()
    assert ("vload8(" in text) == (stride < 3)
    assert ("shuffle2(" in text) == (stride == 2)
    x = np.arange(16 * stride, dtype=np.float32) + 1
    wanted = np.zeros(16, np.float32)
    run_program(program, memories={"x": x.view(np.uint8), "y": wanted.view(np.uint8)}, blocks=2)
    np.testing.assert_array_equal(wanted[:13], 2 * x[::stride][:13] + 1)
    assert not wanted[13:].any()
    if opencl.unsupported_reason() is not None:
        pytest.skip(opencl.unsupported_reason())
    found = opencl.build(text).kernel("scaled").run(x, np.zeros(16, np.float32), groups=2, items=1)
    np.testing.assert_array_equal(found[1], wanted)


def moved_over():
    """y[i] = x[i + block], the last lanes from the beginning: a shuffle where the block's number is not 0."""
    memories = [Memory("x", "global", 32), Memory("y", "global", 64)]
    b = ProgramBuilder("moved", LANES, memories=memories)
    lane, block = b.step("lane"), b.step("block", (), (), "x")
    (word,) = b.load("x", b.step("multiply", (lane, b.constant(4))))
    place = b.step(
        "multiply", (b.step("add", (b.step("multiply", (block, b.constant(LANES))), lane)), b.constant(4))
    )
    with b.when(b.step("test", (block,), (1,))):
        b.store("y", place, [b.step("shuffle", (word, b.step("add", (lane, block))), (LANES,))], 4)
    return b.finish()


def test_words_move_between_lanes_where_none_has_parted():
    text = VectorPrinter(moved_over()).text()
    x, wanted = np.arange(LANES, dtype=np.float32) + 1, np.zeros(16, np.float32)
    run_program(moved_over(), memories={"x": x.view(np.uint8), "y": wanted.view(np.uint8)}, blocks=2)
    np.testing.assert_array_equal(wanted, [*[0] * 8, *np.roll(x, -1)])
    if opencl.unsupported_reason() is not None:
        pytest.skip(opencl.unsupported_reason())
    found = opencl.build(text).kernel("moved").run(x, np.zeros(16, np.float32), groups=2, items=1)
    np.testing.assert_array_equal(found[1], wanted)


def test_what_lanes_do_together_has_no_such_form():
    b = ProgramBuilder("swapped", LANES, memories=[Memory("y", "global", 32)])
    lane = b.step("lane")
    other = b.step("shuffle", (lane, b.step("xor", (lane, b.constant(1)))), (4,))
    b.store("y", b.step("multiply", (lane, b.constant(4))), [other], 4)
    with pytest.raises(UnsupportedError, match="shuffle has no form in vectors"):
        VectorPrinter(b.finish()).text()
    with pytest.raises(UnsupportedError, match="1 warps of 32 lanes"):
        VectorPrinter(ProgramBuilder("wide", 32).finish())
