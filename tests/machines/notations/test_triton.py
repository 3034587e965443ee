"""Triton's attributes against Triton's own answers, and against texts that are none.

`triton_answers.jsonl` holds what Triton 3.9 computed for each attribute on each tile; where Triton is
installed, it is asked again, in a process of its own.
"""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from regweave import InputError, UnsupportedError
from regweave.machines.catalogue import find_layout
from regweave.machines.notations import is_notation, read_notation

ANSWERS = [
    json.loads(line)
    for line in (Path(__file__).parent / "triton_answers.jsonl").read_text("utf-8").splitlines()
]
MMA = "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [1, 1], instrShape = [16, 8]}>"
MFMA = "#ttg.amd_mfma<{version = 3, warpsPerCTA = [1, 1], instrShape = [32, 32, 8], isTransposed = true}>"
WMMA = "#ttg.amd_wmma<{version = 2, isTranspose = false, ctaLayout = {register = [[0, 1]]}}>"
BLOCKED = (
    "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [1, 1], order = [1, 0]}>"
)


def operand(index, parent, width):
    return f"#ttg.dot_op<{{opIdx = {index}, parent = {parent}, kWidth = {width}}}>"


def linear(register, lane):
    return f"#ttg.linear<{{register = {register}, lane = {lane}, warp = [], block = []}}>"


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer["attribute"][5:60])
def test_every_attribute_is_what_triton_says(answer):
    layout = read_notation(answer["attribute"], tuple(answer["shape"]))
    assert layout.shape == tuple(answer["shape"])
    assert [list(vector) for vector in layout.basis.item] == answer["register"]
    assert [list(vector) for vector in layout.basis.lane] == answer["lane"] + answer["warp"]
    kinds = {answer["attribute"].partition("<")[0] for answer in ANSWERS}
    assert len(kinds) == 5


ORACLE = """
import json, sys, tempfile, os
from triton._C import libtriton
from triton._C.libtriton import ir, gluon_ir
context = ir.context()
ir.load_dialects(context)
libtriton.nvidia.load_dialects(context)
libtriton.amd.load_dialects(context)
for line in sys.stdin:
    asked = json.loads(line)
    lanes, warps = 2 ** len(asked["lane"]), 2 ** len(asked["warp"])
    target = "cuda:90" if lanes == 32 else "hip:gfx942"
    kind = "x".join(map(str, asked["shape"])) + "xf32, " + asked["attribute"]
    with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
        file.write(f'module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = {warps} : i32, '
                   f'"ttg.threads-per-warp" = {lanes} : i32, ttg.target = "{target}"}} '
                   f'{{ tt.func public @f(%a: tensor<{kind}>) {{ tt.return }} }}')
        file.flush()
        module = ir.parse_mlir_module(file.name, context)
    builder = gluon_ir.GluonOpBuilder(context)
    layout = builder.get_gluon_layout_from_tensor(module.get_function("f").args(0))
    found = builder.to_linear_layout(layout._to_ir(builder), asked["shape"])
    print(json.dumps([found.reg_bases, found.lane_bases, found.warp_bases]), flush=True)
os._exit(0)
"""


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
def test_triton_still_says_so():
    asked = ANSWERS[::3]
    run = subprocess.run([sys.executable, "-c", ORACLE], input="\n".join(map(json.dumps, asked)),
                         capture_output=True, text=True, check=True)  # fmt: skip
    told = [json.loads(line) for line in run.stdout.splitlines()]
    assert told == [[answer["register"], answer["lane"], answer["warp"]] for answer in asked]


@pytest.mark.parametrize(
    ("attribute", "name", "tile"),
    [
        (MMA, "mma.m16n8k8.tf32:C", (16, 8)),
        (f"#ttg.dot_op<{{opIdx = 0, parent = {MMA}, kWidth = 2}}>", "mma.m16n8k16.f16:A", (16, 16)),
        (f"#ttg.dot_op<{{opIdx = 1, parent = {MMA}, kWidth = 2}}>", "mma.m16n8k16.f16:B", (16, 8)),
        (f"#ttg.dot_op<{{opIdx = 0, parent = {MMA}, kWidth = 1}}>", "mma.m16n8k8.tf32:A", (16, 8)),
    ],
)
def test_attributes_are_the_fragments_of_the_catalogue(attribute, name, tile):
    """Two independent statements of the same facts, down to the order of the registers and the axes."""
    pasted, named = read_notation(attribute, tile), find_layout(name)
    assert (pasted.table == named.table).all()
    assert pasted.axes == named.axes


def test_a_whole_text_with_aliases_and_a_tensor_type():
    text = f"""#mma = {MMA}
        // the operand of the second product
        tensor<32x64xf16, #ttg.dot_op<{{opIdx = 0, parent = #mma, kWidth = 2}}>>"""
    layout = read_notation(text)
    assert (layout.shape, layout.dtype, layout.axes) == ((32, 64), "f16", ("m", "k"))
    assert layout.items == 64
    assert read_notation(f"#a = {MMA}\n#b = #ttg.dot_op<{{opIdx = 1, parent = #a, kWidth = 4}}>").shape == (
        32,
        8,
    )
    assert read_notation(MMA.replace("#ttg", "#triton_gpu"), (16, 8)).shape == (16, 8)
    assert read_notation(MMA).shape == (16, 8)  # without a tile: the smallest that it fills


@pytest.mark.parametrize("name", ["mma.m16n8k8.tf32:C", "mma.m16n8k16.f16:B"])
def test_what_is_written_reads_back(name):
    layout = find_layout(name).repeat(2, 2)
    assert read_notation(layout.to_triton()) == layout.retype("b32")
    two_warps = read_notation(BLOCKED.replace("warpsPerCTA = [1, 1]", "warpsPerCTA = [4, 1]"))
    assert two_warps.lanes == 128
    assert "warp = [[8, 0], [16, 0]]" in two_warps.to_triton()
    assert "warp = [[8, 0], [16, 0]]" not in two_warps.to_triton(128)
    assert read_notation(two_warps.to_triton()) == two_warps


@pytest.mark.parametrize(
    ("text", "tile", "words"),
    [
        (
            "#ttg.nvidia_mma<{versionMajr = 2}>",
            None,
            "has no 'versionMajr'.*line 1, column 1.*nearest: versionM",
        ),
        (
            "#ttg.nvidia_mma<{versionMajor = 2, versionMajor = 2}>",
            None,
            "versionMajor is given twice.*column 36",
        ),
        ("#ttg.nvidia_mma<{versionMajor = 2", None, "the end, line 1.*expected ','"),
        ("#ttg.nvidia_mma<{versionMajor = two}>", None, "'two}>'.*a number, true, false"),
        ("#ttg.nvidia_mma<{versionMajor = true, warpsPerCTA = [1, 1]}>", None, "is True.*a whole number"),
        ("#ttg.nvidia_mma{}", None, "expected '<'"),
        (MMA + " x", None, "expected the end of the text"),
        (MMA.replace("[1, 1]", "[3, 1]"), None, "warpsPerCTA.*expected 2 powers of two"),
        (MMA.replace("[1, 1]", "[1]"), None, "warpsPerCTA.*expected 2 powers of two"),
        (MMA, (12, 8), "powers of two"),
        (f"tensor<16x8xf32, {MMA}>", (16, 16), "a tensor of 16x8.*expected 16x16"),
        ("#mma\n", None, "#mma is not defined"),
        ("#abc = " + MMA + "\ntensor<16x8xf32, #abd>", None, "#abd is not defined.*nearest: abc"),
        ("#a = " + MMA + "\n#a = " + MMA, None, "#a is defined twice.*line 2, column 1"),
        ("#llvm.x<{}>", None, "of another dialect"),
        (operand(2, MMA, 2), None, "opIdx is 2.*0 for A or 1 for B"),
        (operand(0, MMA, 3), None, "kWidth is 3.*power of two"),
        (operand(0, "3", 2), None, "parent of #ttg.dot_op is 3.*an attribute"),
        (MFMA.replace("32, 32, 8", "32, 16, 8"), None, "instrShape.*32x32, 16x16"),
        (linear("[[0, 1]]", "[[1]]"), None, r"lane.*\[row, column\]"),
        (linear("[[0, 1]]", "[]").replace(", block = []", ""), None, "lacks block"),
        (linear("[[0, 2]]", "[]"), None, "no slot holds"),
        (linear("[[0, 1]]", "[]"), (4, 4), "1 x 2 tile.*4 x 4"),
        (WMMA.replace("[[0, 1]]", "[0, 1]"), None, r"register of ctaLayout holds 0.*\[row, column\]"),
        (WMMA.replace("[[0, 1]]", "[[true, 1]]"), None, r"ctaLayout holds \(True, 1\)"),
        (WMMA.replace("register", "block"), None, "ctaLayout has block"),
        ("\n" + "[" * 5000, None, "is no layout"),
        ("#ttg.x<{a = " + "[" * 5000, None, "nested too deep"),
        ("#ttg.x<{a = 99999999999999999999}>", None, "a number"),
    ],
)
def test_texts_that_are_no_layout(text, tile, words):
    with pytest.raises(InputError, match=f"(?s){words}"):
        read_notation(text, tile)


WGMMA = MMA.replace("Major = 2", "Major = 3").replace("[16, 8]", "[16, 8, 16]")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("#ttg.swizzled_shared<{vec = 8}>", "lays out memory, not registers"),
        ("#ttg.slice<{dim = 0, parent = #ttg.x<{}>}>", "#ttg.slice is not read.*#ttg.linear"),
        (BLOCKED[:-2] + ", CGALayout = [[1, 0]]}>", "over several blocks"),
        (BLOCKED.replace("order = [1, 0]", "order = [2, 1, 0]"), "order of #ttg.blocked"),
        (MMA.replace("versionMajor = 2", "versionMajor = 1"), "versionMajor.*is 1"),
        (operand(1, WGMMA, 2), "shared memory"),
        (operand(0, BLOCKED, 2), "an operand of #ttg.blocked"),
        (f"tensor<16x8x2xf32, {MMA}>", "3 dimensions"),
        (f"tensor<16x8xf33, {MMA}>", "tensors of f33.*nearest: f32"),
        (linear("[]", "[]").replace("block = []", "block = [[0, 1]]"), "several blocks"),
    ],
)
def test_valid_attributes_that_are_not_read(text, words):
    with pytest.raises(UnsupportedError, match=f"(?s){words}"):
        read_notation(text)


def test_names_are_no_notations():
    assert not is_notation("mma.m16n8k8.tf32:C")
    assert not is_notation("v_mfma_f32_32x32x8_f16:D@f16^T")
    assert all(map(is_notation, (MMA, "  (4,8):(1,4)", "lane,register,part,row,column\n", "{}", "| lane |")))
