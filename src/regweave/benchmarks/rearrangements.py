"""Instructions of rearrangements, ours beside Triton's, on the tiles that both were counted on.

    >>> compare_rearrangements(ROWS[:1])["rows"][0]["auto"]
    {'strategy': 'exchange (lean)', 'exchanges': 16, 'selects': 32, 'byte_permutes': 0, 'total': 57}

Folding and swapping move the work elsewhere, so they are switched off here. Two ways are compiled for each
row. The *exchange* must not exchange more than one hop needs, nor take more selects and byte permutes than
Triton's shuffles; among forms of an exchange one that keeps to the former is taken. The *auto* plan must not
take more instructions than the better of Triton's ways.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from regweave.benchmarks.instruction_counts import count_instructions
from regweave.benchmarks.rearrangement_rows import ROWS, Row
from regweave.benchmarks.triton_record import Counts
from regweave.devices import cuda, hip
from regweave.errors import DeviceError, RegweaveError
from regweave.layouts import Layout
from regweave.machines.catalogue import find_machine
from regweave.machines.gpu import WarpMachine
from regweave.rearrangement import Conditions, Plan, layout, rearrange
from regweave.rearrangement.candidates import Candidate

_ALONE = Conditions(order_promised=True, other_operand_fixed=True)
_PEER = "regweave.benchmarks.triton_peer"


def compare_rearrangements(
    rows: Sequence[Row] = ROWS, *, say: Callable[[str], None] = lambda message: None
) -> dict[str, Any]:
    """Compile every row and return the document that `regweave bench rearrange --json` prints.

    Each row has `missed`, what of the above it does not reach; `measured` are Triton's figures as counted
    now, if it is installed. Rows of a vendor whose compiler is missing are left out, and `missing` says so.
    Raises DeviceError if that leaves none.
    """
    reasons = {"nvidia": cuda.unsupported_reason(), "amd": hip.unsupported_reason()}
    compiled = [row for row in rows if reasons[find_machine(row.machine).family] is None]
    missing = {f"machines of {family}": reason for family, reason in reasons.items() if reason is not None}
    if rows and not compiled:
        raise DeviceError("; ".join(missing.values()), where="bench rearrange")
    try:
        triton = importlib.import_module(_PEER)
    except ImportError as error:
        triton, missing["triton"] = None, f"{error}; pip install 'regweave[bench]'"
    document = [_row_document(row, triton, say) for row in compiled]
    return {
        "rows": document,
        "reached": not any(row["missed"] for row in document),
        "triton": None if triton is None else triton.VERSION,
        "missing": missing,
    }


def _row_document(row: Row, triton: Any, say: Callable[[str], None]) -> dict[str, Any]:
    say(row.name)
    plan = _plan(row)
    ways = {"exchange": _exchange(row, plan), "auto": plan.chosen}
    ours = {name: _compiled(way, plan.machine) for name, way in ways.items()}
    measured = None if triton is None else _measured(plan, triton)
    return {
        "name": row.name,
        "machine": row.machine,
        "source": plan.source.name,
        "destination": plan.destination.name,
        "tile": row.tile,
        "lower_bound": row.lower_bound,
        **{name: {"strategy": way.name, **asdict(ours[name])} for name, way in ways.items()},
        "kept": {"shuffled": asdict(kept.shuffled), "total": kept.total}
        if (kept := row.record)
        else {"shuffled": None, "total": None},
        "measured": measured,
        "missed": _missed(row, ours["exchange"], ours["auto"]),
    }


def _plan(row: Row) -> Plan:
    machine = find_machine(row.machine)
    source, destination = (
        side if isinstance(side, Layout) else layout(side, row.machine, tile=row.tile)
        for side in (row.source, row.destination)
    )
    return rearrange(source, destination, machine=machine, conditions=_ALONE)


def _exchange(row: Row, plan: Plan) -> Candidate:
    """The exchange with the fewest instructions, of those that keep to the bounds if there are such."""

    def rank(way: Candidate) -> tuple[bool, bool, int]:
        cost = way.cost
        beyond = row.lower_bound is not None and cost.exchanges > row.lower_bound
        choices = cost.selects + cost.byte_permutes
        many = row.record is not None and choices > row.record.shuffled.choices
        return beyond, many, cost.instructions

    return min((way for way in plan.candidates if way.strategy == "exchange" and way.applies), key=rank)


def _compiled(way: Candidate, machine: WarpMachine) -> Counts:
    assert way.program is not None, way.reason
    return count_instructions(way.program, machine)


def _measured(plan: Plan, triton: Any) -> dict[str, Any]:
    """Triton's counts of both ways, or in its words why there are none."""
    found: dict[str, Any] = {}
    for name, forced in (("default", False), ("shuffled", True)):
        try:
            counts = triton.triton_counts(plan.source, plan.destination, plan.machine, forced=forced)
            found[name] = asdict(counts)
        except RegweaveError as error:
            found[name] = str(error)
    return found


def _missed(row: Row, exchange: Counts, auto: Counts) -> list[str]:
    """What a row should reach and does not, in words."""
    missed = []
    if row.lower_bound is not None and exchange.exchanges > row.lower_bound:
        missed.append(f"{exchange.exchanges} exchanges, not {row.lower_bound}")
    record = row.record
    if record is not None and exchange.choices > record.shuffled.choices:
        missed.append(f"{exchange.choices} selects and byte permutes, not {record.shuffled.choices}")
    if record is not None and auto.total > record.total:
        missed.append(f"{auto.total} instructions, not {record.total}")
    if row.transposes and exchange.choices:
        missed.append(f"{exchange.choices} selects and byte permutes beside the transposes")
    return missed
