"""Exported plans: what is written compiles, runs, finds faults, and leaves nothing half done."""

import json
import re
import runpy
import subprocess

import numpy as np
import pytest

import regweave
from regweave import InputError, UnsupportedError
from regweave.devices import cuda, hip, opencl
from regweave.interop import export_plan
from regweave.interop.probes import plan_probes
from regweave.layouts import Layout
from regweave.rearrangement import Conditions, NextOperand

PAIRS = {
    "tf32 fold": ("mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A", "sm_80", "fold"),
    "tf32 direct": ("mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A", "sm_80", "direct"),
    "f16 identity": ("mma.m16n8k16.f16:C", "mma.m16n8k16.f16:A", "sm_80", "identity"),
    "bf16 to B": ("mma.m16n8k16.bf16:C", "mma.m16n8k16.bf16:B", "sm_80", "exchange"),
    "s8": ("mma.m16n8k32.s8:C", "mma.m16n8k32.s8:A", "sm_80", "exchange"),
    "e4m3": ("mma.m16n8k32.e4m3:C", "mma.m16n8k32.e4m3:A", "sm_89", "exchange"),
    "f64": ("mma.m8n8k4.f64:C", "mma.m8n8k4.f64:A", "sm_80", "exchange"),
    "wave64": ("v_mfma_f32_32x32x8_f16:D", "v_mfma_f32_32x32x8_f16:A", "gfx942", "exchange"),
    "swap": ("mma.m16n8k16.f16:C", "mma.m16n8k16.f16:B", "sm_80", "swap"),
    "shared": ("mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A", "sm_80", "shared"),
    "wave64 swap": ("v_mfma_f32_32x32x8_f16:D^T", "v_mfma_f32_32x32x8_f16:A", "gfx942", "identity"),
}


def planned(name):
    return regweave.rearrange(*PAIRS[name])


def one(paths, ending):
    (path,) = [path for path in paths if path.name.endswith(ending)]
    return path


@pytest.mark.parametrize("name", PAIRS)
def test_the_simulation_agrees(name, run_c, tmp_path):
    paths = planned(name).export(tmp_path)
    code, text = run_c(tmp_path, one(paths, "_selftest.c"))
    assert code == 0, text
    assert re.fullmatch(r"all \d+ probes agree\n", text)


@pytest.mark.parametrize(
    ("found", "put"),
    [(r"% 4u\]", "% 2u]"), (r" \? (\w+\[t\]) : (\w+\[t\])", r" ? \2 : \1"), (r"y\[32 \+ t\]", "y[0 + t]")],
)
def test_the_simulation_finds_faults(found, put, run_c, tmp_path):
    path = one(planned("tf32 direct").export(tmp_path), "_selftest.c")
    text, count = re.subn(found, put, path.read_text(), count=1)
    assert count == 1
    path.write_text(text)
    code, said = run_c(tmp_path, path)
    assert code == 1
    assert "wanted" in said


def test_the_files(tmp_path):
    plan = planned("tf32 fold")
    paths = export_plan(plan, tmp_path / "new" / "folder")
    names = [path.name.removeprefix(plan.chosen.program.name) for path in paths]
    assert names == [
        ".h",
        "_weights.h",
        "_weights.py",
        "_selftest.c",
        "_selftest.cu",
        "_selftest.cl",
        ".json",
    ]
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == sorted(
        p.name for p in paths
    )
    assert json.loads(one(paths, ".json").read_text())["fold"] == [0, 2, 4, 6, 1, 3, 5, 7]
    assert not any("weights" in path.name for path in planned("tf32 direct").export(tmp_path))


def test_permuted_weights_give_the_same_product(run_c, tmp_path):
    """The NumPy and the C function, on a product whose k is summed in the fold's order."""
    plan = planned("tf32 fold")
    paths = plan.export(tmp_path)
    permute = runpy.run_path(str(one(paths, "_weights.py")))["permute_weights"]
    random = np.random.default_rng(0)
    x, w = random.integers(-9, 9, (5, 24)), random.integers(-9, 9, (24, 3)).astype(np.int32)
    order = np.concatenate([np.asarray(plan.fold) + tile for tile in range(0, 24, 8)])
    assert (x[:, order] @ permute(w) == x @ w).all()
    assert (permute(w.T, axis=1) == permute(w).T).all()
    with pytest.raises(ValueError, match="12 positions, expected a multiple of 8"):
        permute(w[:12])
    function = f"{plan.chosen.program.name}_permute_weights"
    given = [int(number) for number in w.ravel()]
    source = tmp_path / "weights.c"
    source.write_text(f"""#include <stdio.h>
#include "{one(paths, "_weights.h").name}"
int main(void) {{
    static const int given[] = {{{", ".join(map(str, given))}}};
    static int permuted[{w.size}];
    int code = {function}(given, permuted, 1, 24, {3 * w.itemsize});
    for (int i = 0; i < {w.size}; ++i) printf("%d ", permuted[i]);
    return code != 0 || {function}(given, permuted, 1, 12, 12) != -1;
}}
""")
    code, text = run_c(tmp_path, source)
    assert code == 0
    assert (np.array(text.split(), dtype=int).reshape(w.shape) == permute(w)).all()


def test_a_left_fold_permutes_the_product_before(run_c, tmp_path):
    conditions = Conditions(producer_free=True, other_operand_fixed=True)
    plan = regweave.rearrange("mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A", conditions=conditions)
    assert (plan.strategy, plan.form, plan.fold) == ("fold", "left", None)
    paths = plan.export(tmp_path)
    permute = runpy.run_path(str(one(paths, "_weights.py")))["permute_weights"]
    weights = np.arange(16).reshape(2, 8)
    assert permute(weights).tolist() == weights[:, list(plan.producer_order)].tolist()
    assert run_c(tmp_path, one(paths, "_selftest.c"))[0] == 0


def test_a_fold_on_both_sides_permutes_both_products(run_c, tmp_path):
    conditions = Conditions(producer_free=True, next_operand=NextOperand())
    plan = regweave.rearrange("mma.m16n8k32.s8:C", "mma.m16n8k32.s8:A", "sm_80", conditions=conditions)
    assert plan.chosen.name == "fold (both)"
    paths = plan.export(tmp_path)
    before, after = (one(paths, ending) for ending in ("_before_weights.py", "_both_weights.py"))
    first, second = np.random.default_rng(1).integers(-9, 9, (2, 32, 32))
    # columns of the first and rows of the second come in orders that the relation of the seam undoes
    columns = runpy.run_path(str(before))["permute_weights"](first)
    rows = runpy.run_path(str(after))["permute_weights"](second)
    assert (columns[:, list(plan.chosen.fold.permutation)] @ rows == first @ second).all()


def inlined(paths, ending):
    """A self-test with its header in place; of the header only what OpenCL reads, for an OpenCL kernel."""
    (header,) = [p for p in paths if p.suffix == ".h" and not p.name.endswith("_weights.h")]
    text = header.read_text()
    if ending.endswith(".cl"):
        text = text.split("#if defined(__OPENCL_VERSION__)")[1].split("#elif defined(__HIP__)")[0]
    return one(paths, ending).read_text().replace(f'#include "{header.name}"', text)


@pytest.mark.parametrize("name", ["tf32 direct", "tf32 fold", "s8", "bf16 to B"])
def test_the_header_and_the_kernel_compile_for_nvidia(name, tmp_path):
    reason = cuda.unsupported_reason()
    if reason is not None:
        pytest.skip(reason)
    plan = planned(name)
    (listing,) = cuda.inspect(inlined(plan.export(tmp_path), "_selftest.cu"), "sm_80", "selftest")
    assert listing.count("exchange") == plan.cost.exchanges


@pytest.mark.parametrize("name", ["wave64", "wave64 swap"])
def test_the_header_and_the_kernel_compile_for_amd(name, tmp_path):
    reason = hip.unsupported_reason()
    if reason is not None:
        pytest.skip(reason)
    text = inlined(planned(name).export(tmp_path), "_selftest.cu")
    kernel = (
        "#define __HIP__ 1\n"
        + text.replace("#include <hip/hip_runtime.h>", "").split("#ifndef __CUDACC_RTC__")[0]
    )
    assert "selftest" in hip.compile_text(kernel, "gfx942")


@pytest.mark.parametrize("name", PAIRS)
def test_the_opencl_kernel_runs(name, tmp_path):
    reason = opencl.unsupported_reason()
    if reason is not None:
        pytest.skip(reason)
    plan = planned(name)
    program = plan.chosen.program
    probes = plan_probes(plan, program)
    kernel = opencl.build(inlined(plan.export(tmp_path), "_selftest.cl")).kernel("selftest")
    for given, wanted, cares in zip(probes.given, probes.wanted, probes.cares, strict=True):
        _, found = kernel.run(given, np.zeros_like(wanted), groups=1, items=program.lanes * program.warps)
        assert not ((found ^ wanted) & cares).any()


def test_two_headers_live_side_by_side(tmp_path):
    reason = cuda.unsupported_reason()
    if reason is not None:
        pytest.skip(reason)
    plans = [planned("s8"), planned("e4m3"), planned("bf16 to B"), planned("s8")]
    texts = [one(plan.export(tmp_path / str(at)), ".h").read_text() for at, plan in enumerate(plans)]
    assert cuda.compile_text("\n".join(texts), "sm_89")


def test_headers_refuse_other_compilers(run_c, tmp_path):
    path = one(planned("tf32 direct").export(tmp_path), ".h")
    source = tmp_path / "x.c"
    source.write_text(f'#include "{path.name}"\nint main(void) {{ return 0; }}\n')
    with pytest.raises(subprocess.CalledProcessError):
        run_c(tmp_path, source)


@pytest.mark.parametrize("machine", ["avx512", "avx2"])
def test_vector_registers(machine, run_c, tmp_path):
    plan = regweave.rearrange(f"{machine}.rows:8", f"{machine}.columns:8", machine)
    paths = plan.export(tmp_path)
    assert [path.suffix for path in paths] == [".s", ".c", ".json"]
    assert paths[0].read_text() == plan.emit("x86")
    assert "lanes of the warp" not in paths[0].read_text()
    assert run_c(tmp_path, paths[1])[0] == 0


def test_names_do_no_harm(run_c, tmp_path):
    """Names of layouts are people's own; they stand in comments only, and end no line with a backslash."""
    names = '"""; import os #*/ \\', "\u2192 {0} %s \\"
    sides = [regweave.layout(f"mma.m16n8k8.tf32:{operand}") for operand in "CA"]
    named = [Layout(n, s.shape, s.dtype, s.table, s.axes) for n, s in zip(names, sides, strict=True)]
    for strategy in ("exchange", "fold"):
        paths = regweave.rearrange(*named, "sm_80", strategy).export(tmp_path)
        assert run_c(tmp_path, one(paths, "_selftest.c"))[0] == 0
        assert all(path.name.isascii() and path.parent == tmp_path for path in paths)
    assert runpy.run_path(str(one(paths, "_weights.py")))["ORDER"].tolist() == [0, 2, 4, 6, 1, 3, 5, 7]


def test_what_cannot_be_exported(tmp_path):
    with pytest.raises(UnsupportedError, match="there is nothing to export"):
        regweave.rearrange("mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A", strategy="refuse").export(tmp_path)
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(InputError, match="cannot write there"):
        planned("tf32 fold").export(file)
    assert file.read_text() == ""
    with pytest.raises(InputError, match="names no place"):
        planned("tf32 fold").export("a\0b")


def test_the_header_has_one_function_per_language(tmp_path):
    plan = planned("tf32 direct")
    text = one(plan.export(tmp_path), ".h").read_text()
    assert text.count(f"void {plan.chosen.program.name}(") == 3
    assert "#include" not in text
    languages = ["__OPENCL_VERSION__", "__HIP__", "__CUDACC__"]
    assert [text.index(name) for name in languages] == sorted(text.index(name) for name in languages)
    assert text.count("#if") == text.count("#endif")


def test_steps_that_a_language_lacks(tmp_path):
    """HIP C++ has no word for movmatrix: the header says so where hipcc would read it."""
    text = one(planned("bf16 to B").export(tmp_path), ".h").read_text()
    assert "movmatrix" in text
    assert (
        "cannot be written here: HIP C++ has no word for transpose"
        in text.split("__HIP__")[1].split("#elif")[0]
    )
