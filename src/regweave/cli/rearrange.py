"""`regweave rearrange SRC DST`: how a tile gets from one register layout to another inside a warp.

    $ regweave rearrange mma.m16n8k8.tf32:C mma.m16n8k8.tf32:A --strategy direct
    $ regweave rearrange mma.m16n8k8.tf32:C mma.m16n8k8.tf32:A --json | jq .fold

A layout is a name, a pasted Triton attribute or CuTe layout, or a file with one (see `names`).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import Parameter

from regweave.cli.names import LayoutName, MachineName, StrategyName, TargetName, read_layout
from regweave.cli.output import print_document, talk_console
from regweave.errors import InputError
from regweave.files import write_file

if TYPE_CHECKING:
    from regweave.rearrangement import Conditions


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Around:
    """What surrounds the seam, as flags.

    Parameters
    ----------
    other_operand_fixed:
        The next product's other operand cannot be reordered along k.
    order_promised:
        The order of summation over k must stay.
    work_between:
        Element-wise work stands between the two products.
    block:
        k may only be permuted inside blocks of this many.
    producer_free:
        The product before can compute its columns in another order.
    swap_allowed:
        Either product may be computed transposed.
    next_operand:
        Where the next product's other operand is loaded from when the kernel runs, global or shared memory,
        and along which of k and n neighbours lie side by side: global:k, shared:n, ...; without this it is
        weights that are laid out beforehand.
    result_free:
        The next product may compute its n in another order (with --next-operand).
    """

    other_operand_fixed: bool = False
    order_promised: bool = False
    work_between: bool = False
    block: int | None = None
    producer_free: bool = False
    swap_allowed: bool = False
    next_operand: str | None = None
    result_free: bool = False

    def conditions(self) -> Conditions:
        """As `regweave.rearrange` takes them."""
        from regweave.rearrangement import Conditions, NextOperand

        coming = None
        if self.next_operand is not None:
            place, _, along = self.next_operand.partition(":")
            coming = NextOperand(place, along or "k", result_free=self.result_free)
        elif self.result_free:
            raise InputError(
                "--result-free says how the next operand is loaded, and none is",
                where="the command line",
                expected="--next-operand beside it",
                fix="add --next-operand global:k, or leave out --result-free",
            )
        return Conditions(
            other_operand_fixed=self.other_operand_fixed,
            order_promised=self.order_promised,
            block=self.block,
            work_between=self.work_between,
            producer_free=self.producer_free,
            swap_allowed=self.swap_allowed,
            next_operand=coming,
        )


def rearrange_command(
    source: LayoutName,
    destination: LayoutName,
    /,
    *,
    machine: MachineName | None = None,
    strategy: StrategyName = "auto",
    tile: str | None = None,
    emit: TargetName | None = None,
    out: Path | None = None,
    svg: Path | None = None,
    around: Around | None = None,
    json: bool = False,
) -> None:
    """Show how data moves between the registers of a warp from one layout to another.

    Parameters
    ----------
    source:
        Where the data is: an operand of a matrix instruction (mma.m16n8k8.tf32:C), another layout of the
        catalogue, a pasted Triton attribute or CuTe layout, or a file with one; @TYPE and ^T may follow.
    destination:
        Where it is needed, said in the same way.
    machine:
        The machine, for example sm_90a or gfx942, or a TOML file of your own; by default the first that has
        both layouts.
    strategy:
        auto for the cheapest; identity, fold, swap, exchange, shared or refuse; or a form: producer, consumer
        (of swap); direct, lean, steps, picks (of exchange); whole-warp, grouped, single-lane (of shared).
    tile:
        ROWSxCOLUMNS to repeat the fragments to, or of pasted layouts that do not say their sizes; by default
        the smallest tile that both fill.
    emit:
        Print only the code for cuda, hip, opencl or x86.
    out:
        Write a header, a self-test and, for a fold, the permutation of the weights into this folder.
    svg:
        Draw source, rounds and destination into this file.
    json:
        Print the plan as one JSON document on stdout.
    """
    from regweave.rearrangement import rearrange

    conditions = (around or Around()).conditions()
    plan = rearrange(
        read_layout(source), read_layout(destination), machine, strategy, tile=tile, conditions=conditions
    )
    if out is not None:
        for path in plan.export(out):
            talk_console().print(f"wrote {path}", markup=False)
    if svg is not None:
        write_file(svg, plan.to_svg() + "\n")
        talk_console().print(f"drawn to {svg}", markup=False)
    if json:
        print_document(plan.to_document(emit))
    elif emit is not None:
        sys.stdout.write(plan.emit(emit))
    elif out is None and svg is None:
        sys.stdout.write(plan.draw())
