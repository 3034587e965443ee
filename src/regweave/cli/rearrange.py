"""`regweave rearrange SRC DST`: how a tile gets from one register layout to another inside a warp.

    $ regweave rearrange mma.m16n8k8.tf32:C mma.m16n8k8.tf32:A --strategy direct
    $ regweave rearrange mma.m16n8k8.tf32:C mma.m16n8k8.tf32:A --json | jq .fold

A layout is the name of a fragment, or a file that ends in .json and holds a layout's document.
"""

from __future__ import annotations

import json as json_format
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regweave.cli.output import print_document
from regweave.errors import InputError

if TYPE_CHECKING:
    from regweave.layouts import Layout


def rearrange_command(
    source: str,
    destination: str,
    /,
    *,
    machine: str = "sm_80",
    strategy: str = "auto",
    tile: str | None = None,
    other_operand_fixed: bool = False,
    order_promised: bool = False,
    work_between: bool = False,
    block: int | None = None,
    json: bool = False,
) -> None:
    """Show how data moves between the registers of a warp from one layout to another.

    Parameters
    ----------
    source:
        Where the data is: operand A, B, C or D of mma.m16n8k8.tf32, mma.m16n8k8.f16, mma.m16n8k16.f16 or
        mma.m16n8k16.bf16, written mma.m16n8k8.tf32:C; or a layout's .json file.
    destination:
        Where it is needed, named in the same way.
    machine:
        The GPU, for example sm_80 or sm_90a.
    strategy:
        auto for the cheapest, or identity, fold, exchange, direct, lean, refuse.
    tile:
        ROWSxCOLUMNS to repeat the fragments to; by default the smallest tile that both fill.
    other_operand_fixed:
        The next product's other operand cannot be reordered along k.
    order_promised:
        The order of summation over k must stay.
    work_between:
        Element-wise work stands between the two products.
    block:
        k may only be permuted inside blocks of this many.
    json:
        Print the plan as one JSON document on stdout.
    """
    from regweave.rearrangement import Conditions, rearrange

    conditions = Conditions(
        other_operand_fixed=other_operand_fixed,
        order_promised=order_promised,
        block=block,
        work_between=work_between,
    )
    plan = rearrange(
        read_layout(source), read_layout(destination), machine, strategy, tile=tile, conditions=conditions
    )
    if json:
        print_document(plan.to_document())
    else:
        sys.stdout.write(plan.draw())


def read_layout(name: str) -> str | Layout:
    """`name` itself, or the layout in the file if it names a .json file; InputError if that holds none."""
    if not name.endswith(".json"):
        return name
    from regweave.layouts import from_document

    try:
        document = json_format.loads(Path(name).read_text(encoding="utf-8"), object_pairs_hook=_mapping)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not a JSON document: {error}", where=name) from error
    if not isinstance(document, dict):
        raise InputError("the document is not a mapping", where=name, expected="a layout's document")
    return from_document(document)


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object whose keys are all different; ValueError otherwise."""
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise ValueError("an object has one key twice")
    return mapping
