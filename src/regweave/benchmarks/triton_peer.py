"""Triton's conversions between layouts, compiled offline and counted like ours.

The kernel is TTGIR text: words of the source layout out of opaque assembly, one `ttg.convert_layout`, words
of the destination layout into opaque assembly. `force_warp_shuffle` makes Triton use shuffles where it would
rather go through shared memory.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import compile as compile_kernel

from regweave.benchmarks.instruction_counts import counts_between
from regweave.benchmarks.triton_record import Counts
from regweave.devices import cuda, hip
from regweave.devices.compiled_code import CompiledCode
from regweave.errors import UnsupportedError
from regweave.layouts import Layout
from regweave.machines.gpu import WarpMachine

VERSION = triton.__version__
_TYPES = {"f64": "f64", "f32": "f32", "tf32": "f32", "f16": "f16", "bf16": "bf16", "s8": "i8", "u8": "i8"}
# where the source's words come from and the destination's go to: places of each thread, scalars on AMD's GPUs
_THREADS = """\
    %zero_{name} = arith.constant dense<0> : {numbers}
    %thread_{name} = tt.elementwise_inline_asm "mov.u32 $0, %tid.x;" {{constraints = "=r,r",
      packed_element = 1 : i32, pure = true}} %zero_{name} : {numbers} -> {numbers}
    %first_{name} = tt.splat %{name} : {pointer} -> {places}
    %{name}s = tt.addptr %first_{name}, %thread_{name} : {places}, {numbers}"""
_SCALARS = "    %{name}s = tt.splat %{name} : {pointer} -> {places}"
_MODULE = """\
#source = {source}
#destination = {destination}
module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32,
                   ttg.target = "{target}", "ttg.threads-per-warp" = {lanes} : i32}} {{
  tt.func public @kernel(%x: {pointer}, %y: {pointer}) attributes {{noinline = false}} {{
{places}
    %held = tt.elementwise_inline_asm "{take}" {{constraints = "{taking}", packed_element = {packed} : i32,
      pure = false}} %xs : {held_places} -> {held}
    {convert}
    %done = tt.elementwise_inline_asm "{give}" {{constraints = "{giving}", packed_element = {packed} : i32,
      pure = false}} {result}, %ys : {wanted}, {wanted_places} -> {wanted}
    tt.return
  }}
}}
"""


def triton_counts(source: Layout, destination: Layout, machine: WarpMachine, *, forced: bool) -> Counts:
    """What Triton makes of a conversion; `forced` to shuffles, or as it likes.

    UnsupportedError if Triton has no such elements or refuses.
    """
    amd = machine.family == "amd"
    if amd and source.element_type.bits == 8:
        source, destination = _in_words(source), _in_words(destination)
    whole, bare = (
        _compiled(_text(source, destination, machine, forced=forced, converted=converted), machine)
        for converted in (True, False)
    )
    return counts_between(whole, bare)


def _compiled(text: str, machine: WarpMachine) -> CompiledCode:
    if machine.family == "amd":
        target = GPUTarget("hip", machine.name, machine.lanes)
    else:
        target = GPUTarget("cuda", int(machine.name.removeprefix("sm_").rstrip("a")), machine.lanes)
    with tempfile.TemporaryDirectory() as folder, knobs.cache.scope(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        knobs.cache.dir = folder
        path = Path(folder, "kernel.ttgir")
        path.write_text(text, encoding="utf-8")
        try:
            kernel: Any = compile_kernel(
                str(path), target=target, options={"num_warps": 1, "enable_fp_fusion": False}
            )
        except Exception as error:  # what Triton raises is of many types
            raise UnsupportedError(f"Triton {VERSION} refuses the conversion: {error}") from error
        if machine.family == "amd":
            return hip.read_gcn(kernel.asm["amdgcn"], "kernel")
        return cuda.read_sass(cuda.disassemble(kernel.asm["cubin"]), "kernel")


def _text(source: Layout, destination: Layout, machine: WarpMachine, *, forced: bool, converted: bool) -> str:
    kind = _TYPES.get(source.dtype) or ("i32" if source.dtype == "b32" else None)
    if kind is None:
        raise UnsupportedError(f"Triton has no {source.dtype} elements")
    amd = machine.family == "amd"
    pointer = "i32" if amd else "!tt.ptr<i8>"
    shape = "x".join(map(str, source.shape))
    packed = source.element_type.per_register
    start = "#source" if converted else "#destination"

    def tensor(element: str, layout: str) -> str:
        return f"tensor<{shape}x{element}, {layout}>"

    if amd:
        take, give, register, place = "; takes $0", "; gives $1", "v", "s"
    else:
        register, width = ("d", "f64") if kind == "f64" else ("r", "b32")
        take = f"ld.volatile.global.{width} $0, [$1];"
        give = f"st.volatile.global.{width} [$2], $1; mov.{width} $0, $1;"
        place = "l"
    places = ",".join([place] * packed)
    convert = (
        f"%wanted = ttg.convert_layout %held {'{force_warp_shuffle} ' if forced else ''}: "
        f"{tensor(kind, '#source')} -> {tensor(kind, '#destination')}"
    )
    place_lines = [
        (_SCALARS if amd else _THREADS).format(
            name=name, pointer=pointer, places=tensor(pointer, where), numbers=tensor("i32", where)
        )
        for name, where in (("x", start), ("y", "#destination"))
    ]
    return _MODULE.format(
        places="\n".join(place_lines),
        source=source.to_triton(),
        destination=destination.to_triton(),
        target=f"{'hip' if amd else 'cuda'}:{machine.name.removeprefix('sm_')}",
        lanes=machine.lanes,
        pointer=pointer,
        held_places=tensor(pointer, start),
        wanted_places=tensor(pointer, "#destination"),
        held=tensor(kind, start),
        wanted=tensor(kind, "#destination"),
        take=take,
        give=give,
        taking=f"={register},{places}",
        giving=f"={register},{register},{places}",
        packed=packed,
        convert=convert if converted else "",
        result="%wanted" if converted else "%held",
    )


def _in_words(layout: Layout) -> Layout:
    """A layout of whole registers: AMD's assembly operands cannot be vectors of bytes."""
    size = layout.element_type.per_register
    parts = layout.table.reshape(layout.lanes, -1, size)
    if not np.array_equal(parts, parts[..., :1] // size * size + np.arange(size)):
        raise UnsupportedError(f"{layout.name} has registers of elements that are no neighbours in a row")
    rows, columns = layout.shape
    return Layout(layout.name, (rows, columns // size), "b32", parts[..., 0] // size)
