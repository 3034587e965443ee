"""Splitting: a variable that is used for several unrelated values becomes one variable per value.

A generator may write one `t` a hundred times. Its values have nothing to do with each other, but as one
variable they must all sit in one register. A *web* is what truly must: writes and reads connected by the flow
of the value. This pass gives each web a variable of its own (of the same name). It runs only if allocation
gets stuck without it, since the usual program needs it as little as its author did.

    t = a * b; store t; t = c * d; store t     two webs, which may get two registers
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from regweave.assembly.flow import Flow
from regweave.assembly.program import Program
from regweave.assembly.variables import Memory, Variable, members


def split(program: Program, flow: Flow) -> Program | None:
    """The program with one variable per web; None if every variable is one web already.

    Pinned variables and arguments stay whole, and so do those that local routines touch.
    """
    fixed = _fixed(program, flow)
    pieces = _Pieces()
    at_entry: dict[tuple[int, int], int] = {}
    for number, block in enumerate(flow.blocks):
        for v in members(block.live_in & ~fixed):
            at_entry[number, v] = pieces.new(v)
    reads: list[dict[int, int]] = []
    writes: list[dict[int, int]] = []
    for number, block in enumerate(flow.blocks):
        current = {v: at_entry[number, v] for v in members(block.live_in & ~fixed)}
        for i in range(block.start, block.stop):
            used, born = program.uses[i] & ~fixed, program.defines[i] & ~fixed
            for v in members(used):
                if v not in current:  # nothing reaches this code, so nothing is live at its start
                    current[v] = pieces.new(v)
            reads.append({v: current[v] for v in members(used)})
            for v in members(born & ~used):
                current[v] = pieces.new(v)
            writes.append({v: current[v] for v in members(born)})
        for successor in block.successors:
            for v in members(flow.blocks[successor].live_in & ~fixed):
                if v in current:
                    pieces.join(current[v], at_entry[successor, v])
    webs = {pieces.find(piece) for piece in range(len(pieces.owner))}
    if len(webs) == len({pieces.owner[web] for web in webs}):
        return None
    return _rewrite(program, pieces, reads, writes)


def _fixed(program: Program, flow: Flow) -> int:
    """Variables that stay whole."""
    fixed = 0
    for variable in (*program.arguments, *program.variables):
        if variable.pin is not None or variable in program.arguments:
            fixed |= variable.bit
    for entry in flow.routines:
        seen, stack = {entry}, [entry]
        while stack:
            block = flow.blocks[stack.pop()]
            fixed |= block.reads | block.writes
            fresh = [successor for successor in block.successors if successor not in seen]
            seen.update(fresh)
            stack += fresh
    return fixed


class _Pieces:
    """Union-find over the stretches of variables between a write (or a block's start) and what follows."""

    def __init__(self) -> None:
        self.parent: list[int] = []
        self.owner: list[int] = []

    def new(self, v: int) -> int:
        self.parent.append(len(self.parent))
        self.owner.append(v)
        return len(self.parent) - 1

    def find(self, piece: int) -> int:
        while self.parent[piece] != piece:
            self.parent[piece] = piece = self.parent[self.parent[piece]]
        return piece

    def join(self, a: int, b: int) -> None:
        self.parent[self.find(a)] = self.find(b)


def _rewrite(
    program: Program, pieces: _Pieces, reads: list[dict[int, int]], writes: list[dict[int, int]]
) -> Program:
    """The program on fresh variables, one per web."""
    variables: list[Variable] = []
    whole: dict[int, Variable] = {}
    of_web: dict[int, Variable] = {}

    def copy(original: Variable) -> Variable:
        fresh = original.copy(len(variables))
        variables.append(fresh)
        return fresh

    def fresh(v: int, places: dict[int, int]) -> Variable:
        original = program.variables[v]
        if v not in places:
            if v not in whole:
                whole[v] = copy(original)
            return whole[v]
        web = pieces.find(places[v])
        if web not in of_web:
            of_web[web] = copy(original)
        return of_web[web]

    arguments = tuple(fresh(argument.id, {}) for argument in program.arguments)
    operands, uses, defines, copies = [], [], [], []
    extra: dict[int, int] = {}
    for i, form in enumerate(program.forms):
        row = []
        for number, operand in enumerate(program.operands[i]):
            if isinstance(operand, Variable):
                row.append(fresh(operand.id, writes[i] if number in form.writes else reads[i]))
            elif isinstance(operand, Memory) and operand.bit:
                base = operand.base
                row.append(
                    Memory(
                        operand.kind,
                        fresh(base.id, reads[i]) if isinstance(base, Variable) else base,
                        operand.offset,
                        None if operand.index is None else fresh(operand.index.id, reads[i]),
                        operand.scale,
                    )
                )
            else:
                row.append(operand)
        operands.append(row)
        uses.append(_mask(fresh(v, reads[i]) for v in members(program.uses[i])))
        defines.append(_mask(fresh(v, writes[i]) for v in members(program.defines[i])))
        for a, b in form.conflicts:
            extra[row[a].id] = extra.get(row[a].id, 0) | row[b].bit
        if form.copy is not None:
            copies.append((row[form.copy[0]], row[form.copy[1]]))
    return replace(
        program,
        variables=variables,
        arguments=arguments,
        operands=operands,
        uses=uses,
        defines=defines,
        extra=extra,
        copies=copies,
    )


def _mask(variables: Iterable[Variable]) -> int:
    mask = 0
    for variable in variables:
        mask |= variable.bit
    return mask
