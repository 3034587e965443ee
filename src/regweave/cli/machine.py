"""`regweave machine [NAME]`: the machines that plans are made for, and what is known of each.

$ regweave machine
$ regweave machine sm_90a wgmma.m64n64
$ regweave machine gfx942 v_mfma_f32_32x32x8_f16
$ regweave machine gfx942 --json | jq .costs
"""

from __future__ import annotations

from functools import partial

from regweave.cli.names import MachineName
from regweave.cli.output import print_answer, print_document


def machine_command(
    name: MachineName | None = None, containing: str | None = None, /, *, json: bool = False
) -> None:
    """List the machines, or show one: lanes, registers, exchanges, costs, matrix instructions.

    Parameters
    ----------
    name:
        A machine, for example sm_90a, gfx942 or avx512, or a TOML file that describes one; all without it.
    containing:
        Show each instruction and layout whose name holds this text, or all about the instruction whose whole
        name it is; without it, those that differ in their sizes alone share a line.
    json:
        Print one JSON document on stdout.
    """
    from regweave.machines.catalogue import find_machine
    from regweave.views.catalogue import machine_document, machine_table, machines_document, machines_table

    if name is None:
        document, table = machines_document(), machines_table
    else:
        document, table = (
            machine_document(find_machine(name), containing),
            partial(machine_table, whole=bool(containing)),
        )
    if json:
        print_document(document)
    else:
        print_answer(table(document))
