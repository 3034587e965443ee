"""Register maps of kernels as HTML, SVG and text."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from regweave.assembly.amd import FinishedKernel
from regweave.assembly.amd.text import parse_kernel
from regweave.machines.amd.assembly import GFX90A, GFX906
from regweave.views.kernel_document import kernel_document
from regweave.views.kernel_map import kernel_svg, kernel_text_map
from regweave.views.kernel_page import kernel_page
from regweave.views.kernel_spans import kernel_spans, sparkline
from regweave.views.kernel_text import kernel_report

TEXT = """kernel k
argument x pointer
vector at, quad x4
scalar base x2, i
s_load_dwordx2 base, kernarg, argument(x)
v_lshlrev_b32 at, 4, thread_x
s_movk_i32 i, 4
loop:
global_load_dwordx4 quad, at, base
v_fma_f32 quad.0, quad.1, quad.2, quad.3
global_store_dword at, quad.0, base
s_sub_u32 i, i, 1
s_cmp_lg_u32 i, 0
s_cbranch_scc1 loop
"""


@pytest.fixture(scope="module")
def kernel() -> FinishedKernel:
    return parse_kernel(TEXT, GFX906).finish()


def page(kernel: FinishedKernel) -> str:
    return kernel_page(kernel, kernel_document(kernel, counts=None, object_bytes=None))


def test_spans_are_the_live_stretches(kernel):
    spans = {span.name: span for span in kernel_spans(kernel)}
    quad = spans["quad"]
    assert (quad.register_class, quad.registers, quad.first, quad.count) == ("vector", "v[1:4]", 1, 4)
    assert quad.stretches == ((3, 5),)
    assert spans["i"].stretches == ((2, 8),)
    assert "scc" not in spans


def test_one_name_has_one_colour():
    text = "kernel k\nvector t, x, y\nv_mov_b32 t, 1\nv_mov_b32 x, t\nv_mov_b32 t, 2\nv_add_u32 y, t, x\n"
    spans = kernel_spans(parse_kernel(text, GFX906).finish())
    colours = {(span.name, span.colour) for span in spans}
    assert len(colours) == len({name for name, _ in colours}) == 3


def test_the_page_needs_nothing_else_and_tells_names_and_lines(kernel):
    text = page(kernel)
    assert not re.search(r"https?://|src=|@import|<link", text)
    assert 'data-n="quad" data-r="v[1:4]" data-a="3" data-z="5"' in text
    assert "quad: v[1:4], lines 3 to 5" in text
    assert text.count("<li") == len(kernel.operations)
    assert "&larr; s_waitcnt vmcnt(0)" in text
    assert "multiply-adds in the inner loop of 7 instructions" in text
    assert 'id="map-scalar"' in text
    assert 'id="map-accumulation"' not in text


def test_lines_cannot_become_markup():
    odd = parse_kernel(TEXT, GFX906).finish()
    object.__setattr__(odd.program, "lines", tuple(f"<b>{line}" for line in odd.program.lines))
    assert "<b>v_fma" not in page(odd)
    assert "&lt;b&gt;v_fma" in page(odd)


def test_drawings_are_well_formed(kernel):
    root = ElementTree.fromstring(kernel_svg(kernel))
    titles = [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}title")]
    (hint,) = (title for title in titles if title.startswith("quad"))
    assert "v_fma" not in hint
    assert hint.endswith("global_load_dwordx4 quad, at, base\n... global_store_dword at, quad.0, base")


def test_the_map_as_text(kernel):
    lines = kernel_text_map(kernel).splitlines()
    legend = dict(reversed(line.split("  ")) for line in lines if re.match(r"\S  \w+$", line))
    row = next(line for line in lines if "v_fma_f32" in line)
    assert row.split("|")[1] == legend["at"] + 4 * legend["quad"]
    assert lines[lines.index("loop:") + 1].split()[1] == "global_load_dwordx4"


def test_accumulators_have_a_panel_of_their_own():
    text = "kernel k\naccumulation acc x4\nvector p x2\nv_mov_b32 p.0, 0\nv_mov_b32 p.1, 0\n"
    text += "v_mfma_f32_16x16x16f16 acc, p, p, 0"
    made = page(parse_kernel(text, GFX90A).finish())
    assert 'id="map-accumulation"' in made
    assert 'data-r="a[0:3]"' in made


def test_a_full_file_and_two_thousand_lines():
    names = [f"x{i}" for i in range(255)]
    lines = [f"v_mov_b32 {name}, 0" for name in names]
    lines += [f"v_add_f32 {names[i % 255]}, {names[i % 255]}, {names[i * 7 % 255]}" for i in range(1500)]
    lines += [f"ds_write_b32 {names[0]}, {name}" for name in names]
    kernel = parse_kernel("kernel k\nvector " + ", ".join(names) + "\n" + "\n".join(lines), GFX906).finish()
    assert kernel.used["vector"] == 255
    made = page(kernel)
    assert made.count("<rect x=") == 255
    assert len(made) < 1_000_000
    assert len(kernel_text_map(kernel).splitlines()) > 2000


def test_the_profile_in_one_line():
    assert sparkline([0, 1, 4, 8]) == " ▁▄█"
    assert sparkline(range(256), 64)[-1] == "█"
    assert len(sparkline(range(1000), 64)) <= 64
    assert sparkline([]) == ""


def test_the_report_tells_pressure_mix_and_clocks(kernel):
    report = kernel_report(kernel, kernel_document(kernel, counts=None, object_bytes=None))
    assert re.search(r"vector +\|[ ▁-█]+\| 5 at most", report)
    assert f"issue       {kernel.issue_clocks()} clocks" in report
    assert "2 vector" in report
