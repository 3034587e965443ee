"""CuTe's notation: strides, modes, tiles counted down the columns; CUTLASS's mma fragments."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regweave import InputError, UnsupportedError
from regweave.layouts import Layout
from regweave.machines.catalogue import find_layout
from regweave.machines.notations import read_notation

# the thread-value layouts by which CUTLASS describes the same fragments; operand B is counted n first
TRAITS = {
    "mma.m16n8k8.tf32:C": ("((4,8),(2,2)):((32,1),(16,8))", False),
    "mma.m16n8k8.tf32:A": ("((_4,_8),(_2,_2)):((_16,_1),(_8,_64))", False),
    "mma.m16n8k8.tf32:B": ("((_4,_8),_2):((_8,_1),_32)", True),
    "mma.m16n8k16.f16:A": (
        "Layout<Shape <Shape < _4,_8>,Shape < _2,_2,  _2>>,\n Stride<Stride<_32,_1>,Stride<_16,_8,_128>>>",
        False,
    ),
    "mma.m16n8k16.f16:B": ("((4,8),(2,2)):((16,1),(8,64))", True),
}  # fmt: skip


@pytest.mark.parametrize("name", TRAITS)
def test_the_fragments_of_the_catalogue_are_those_of_cutlass(name):
    text, swapped = TRAITS[name]
    layout = find_layout(name)
    rows, columns = layout.shape
    read = read_notation(text, (columns, rows) if swapped else (rows, columns))
    assert ((read.transpose() if swapped else read).table == layout.table).all()


@pytest.mark.parametrize("name", TRAITS)
def test_what_is_written_reads_back(name):
    layout = find_layout(name).repeat(2, 1)
    assert read_notation(layout.to_cute(), layout.shape) == layout.retype("b32")


def test_the_written_text_is_short():
    assert find_layout("mma.m16n8k8.tf32:C").to_cute() == "((4,8),(2,2)):((32,1),(16,8))"
    assert Layout("one", (1, 1), "b32", [[0]]).to_cute() == "(1,1):(0,0)"
    assert Layout("held twice", (1, 2), "b32", [[0, 1], [0, 1]]).to_cute() == "(2,2):(0,1)"


@given(st.lists(st.sampled_from([2, 3, 4, 5, 7]), min_size=1, max_size=4), st.integers(0, 4), st.randoms())
def test_layouts_of_any_sizes_survive(sizes, lanes, random):
    """Strides of a permuted mixed-radix number, the first `lanes` modes being threads."""
    strides, step = {}, 1
    for at in random.sample(range(len(sizes)), len(sizes)):
        strides[at] = step
        step *= sizes[at]
    offsets = [np.zeros(1, int), np.zeros(1, int)]
    for at, size in enumerate(sizes):
        side = 0 if at < lanes else 1
        offsets[side] = (np.arange(size)[:, None] * strides[at] + offsets[side]).ravel()
    numbers = offsets[0][:, None] + offsets[1]
    rows = sizes[0]
    columns = step // rows
    layout = Layout("x", (rows, columns), "b32", numbers % rows * columns + numbers // rows)
    assert read_notation(layout.to_cute(), layout.shape) == layout


@pytest.mark.parametrize(
    ("text", "tile", "words"),
    [
        ("(4,8):(1,4)", None, "does not say how large its tile is.*--tile"),
        ("(4,8):(1,4)", (4, 4), "thread 0 value 4 is element 16.*less than 16"),
        ("(4,8):(1,4", (4, 8), "the end.*expected ','"),
        ("(4,8):(1,(4,2))", (4, 8), "built differently"),
        ("(4,8):(1,4,2)", (4, 8), "built differently"),
        ("(4,8)", (4, 8), "expected ':'"),
        ("(4,8,2):(1,4,2)", (4, 8), "3 modes.*threads and values"),
        ("(4,0):(1,4)", (4, 8), "size 0"),
        ("(4,):(1,)", (4, 8), "a whole number"),
        ("():()", (4, 8), "an empty mode"),
        ("(4,8):(1@0,4@1)", (4, 8), r"'1@0.*a whole number"),
        ("(4,-8):(1,4)", (4, 8), "'-8"),
        ("(4,x):(1,4)", (4, 8), "line 1, column 4: 'x"),
        ("(4,8):(1,999999999999999999)", (4, 8), "a stride of"),
        ("(9999999,9999999):(1,1)", (4, 8), "a layout of"),
        ("(" * 99 + "4", (4, 8), "nested too deep"),
        ("(4,4):(1,4)", (4, 8), "no slot holds element"),
        ("Layout<Shape<_4,_8>>", (4, 8), "expected ','"),
    ],
)
def test_texts_that_are_no_layout(text, tile, words):
    with pytest.raises(InputError, match=f"(?s){words}"):
        read_notation(text, tile)


def test_swizzles_are_not_read():
    with pytest.raises(UnsupportedError, match=r"swizzled.*Triton linear layout"):
        read_notation("Sw<3,3,3> o smem_ptr o (8,64):(64,1)", (8, 64))


def test_what_cannot_be_written_says_why():
    swizzled = Layout.linear("swizzled", (2, 2), "b32", lane=[(1, 1)], item=[(0, 1)])
    with pytest.raises(UnsupportedError, match="lane 1 item 1 is not where"):
        swizzled.to_cute()
    assert read_notation(swizzled.to_triton()) == swizzled
    shifted = Layout("shifted", (1, 2), "b32", [[1, 0]])
    with pytest.raises(UnsupportedError, match=r"lane 0 item 0 holds element \(0, 1\)"):
        shifted.to_cute()
    with pytest.raises(UnsupportedError, match=r"lane 0 item 0 holds \(0, 1\)"):
        shifted.to_triton()
    with pytest.raises(UnsupportedError, match="the items are not evenly apart"):
        Layout("uneven", (1, 4), "b32", [[0, 2, 3, 1]]).to_cute()
    with pytest.raises(UnsupportedError, match="5 items are no power of two"):
        Layout("five", (1, 5), "b32", [[0, 1, 2, 3, 4]]).to_triton()
    with pytest.raises(UnsupportedError, match="do not add up"):
        Layout("odd", (1, 4), "b32", [[0, 1, 2, 3], [2, 1, 0, 3]]).to_triton()
    with pytest.raises(InputError, match="power of two"):
        swizzled.to_triton(3)
