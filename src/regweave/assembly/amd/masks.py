"""Which lanes are on: EXEC as a stack of masks, each a part of the one below it.

    v_mov_b32 x, 0                      (all)
    s_and_saveexec_b64 saved, mask      narrows: `saved` holds the mask that was
    v_mov_b32 x, 1                      (all, 1): the other lanes keep their 0, so this x needs the former one
    v_mov_b32 t, 2                      (all, 1): t is read here only, in these lanes: it needs nothing
    v_add_u32 x, x, t
    s_mov_b64 exec, saved               (all) again

All lanes are on when a kernel starts; of a workgroup that is no multiple of a wave some are. An operation
that can only switch lanes off puts its mask on the stack; `s_mov_b64 exec, saved`, `s_or_b64 exec, exec,
saved` and `s_mov_b64 exec, -1` return to a mask that is on it. Whatever else EXEC becomes is a mask of its
own. Where ways meet with different stacks, the current mask is one of its own too, within what both have in
common.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from regweave.assembly.amd.kernel_program import KernelProgram, Touch
from regweave.assembly.flow import Flow
from regweave.assembly.variables import Variable
from regweave.values import frozen

#: A mask: where it came from, and which operation or block that is.
Mask = tuple[str, int]
Stack = tuple[Mask, ...]
Pair = tuple[tuple[int, int], ...]
Holders = Mapping[Pair, Mask]
Known = tuple[Stack, Holders]
ALL: Mask = ("all", 0)
_START: Mask = ("start", 0)
_EXEC = ("exec_lo", "exec_hi")
#: So often a block's stack may change before it only gets shorter.
_PATIENCE = 8


@frozen(eq=False)
class Masks:
    """The stack before and behind each operation, and at the head of each block; empty where no way leads."""

    before: Sequence[Stack]
    after: Sequence[Stack]
    heads: Mapping[int, Stack]

    def full(self, i: int) -> bool:
        """Whether all lanes are certainly on where operation i runs."""
        return self.before[i] == (ALL,)


def follow_masks(program: KernelProgram, flow: Flow) -> Masks:
    """The masks of a program, along all ways."""
    count = len(program.forms)
    start: Stack = (ALL,) if program.whole_waves else (ALL, _START)
    kinds = {variable.id: _kind(variable) for variable in program.variables}
    scalars = [any(t.role and kinds[t.variable] for t in touches) for touches in program.touches]
    if not any(t.role and kinds[t.variable] == "exec" for touches in program.touches for t in touches):
        return Masks([start] * count, [start] * count, dict.fromkeys(range(len(flow.blocks)), start))
    before: list[Stack] = [()] * count
    after: list[Stack] = [()] * count
    ways: dict[int, dict[int, Known]] = {0: {-1: (start, {})}} if flow.blocks else {}
    heads: dict[int, Known] = {}
    visits: Counter[int] = Counter()
    todo = list(ways)
    while todo:
        number = todo.pop()
        block = flow.blocks[number]
        visits[number] += 1
        known = heads.get(number) if visits[number] > _PATIENCE else None
        found = _head(number, ways[number].values(), heads.get(number), known)
        if found == heads.get(number):
            continue
        stack, holders = heads[number] = found
        for i in range(block.start, block.stop):
            before[i] = stack
            if scalars[i]:
                stack, holders = _step(program, i, stack, holders, kinds)
            after[i] = stack
        for successor in block.successors:
            ways.setdefault(successor, {})[number] = (stack, holders)
            todo.append(successor)
    return Masks(before, after, {number: stack for number, (stack, _) in heads.items()})


def common(stack: Stack, head: Stack, block: int) -> int:
    """How many masks the stack on a way to a block has in common with the one at the block's head."""
    most = min(len(stack), len(head) - (head[-1] == ("join", block)))
    return next((k for k in range(most) if stack[k] != head[k]), most)


def _head(block: int, ways: Collection[Known], former: Known | None, known: Known | None) -> Known:
    """What is known at the head of a block where all ways meet, and `known`. A way that ends with the mask
    which was `former`ly there leads around a loop that leaves it as it is: it follows from the others."""
    others = [way for way in ways if former is None or way[0][-1] != ("join", block) or way[0] != former[0]]
    for stack, holders in others or ways:
        known = _meet(block, known, stack, holders)
    for way in ways:
        known = known and (
            known[0],
            {pair: mask for pair, mask in known[1].items() if way[1].get(pair) == mask},
        )
    assert known is not None, "no way leads to a block that is visited"
    return known


def _meet(block: int, known: Known | None, stack: Stack, holders: Holders) -> Known:
    """What is known at the head of a block where a further way leads to it."""
    own: Mask = ("join", block)
    if known is not None:
        head, others = known
        shared = common(stack, head, block)
        if head[-1] == own or not shared == len(head) == len(stack):
            head = (*head[:shared], own)
        stack, holders = head, {pair: mask for pair, mask in others.items() if holders.get(pair) == mask}
    return stack, {pair: mask for pair, mask in holders.items() if mask in stack and mask != own}


def _step(
    program: KernelProgram, i: int, stack: Stack, holders: Holders, kinds: Mapping[int, str]
) -> tuple[Stack, Holders]:
    """Run one operation that writes scalar registers."""
    touches, name = program.touches[i], program.shapes[i].instruction.name
    result = _pair(touches, kinds, written=True)
    kept = {pair: mask for pair, mask in holders.items() if not set(pair) & set(result)}
    if not any(touch.role and kinds[touch.variable] == "exec" for touch in touches):
        if name == "s_mov_b64" and any(kinds[touch.variable] == "exec" for touch in touches):
            kept[result] = stack[-1]
        return stack, kept
    operands = program.lines[i].partition(" ")[2].replace(" ", "").split(",")[1:]
    saved = holders.get(_pair(touches, kinds, written=False))
    below = stack[: stack.index(saved) + 1] if saved in stack else None
    own: Mask = ("op", i)
    found: Stack = (ALL, own)
    if name == "s_mov_b64" and operands == ["-1"]:
        found = (ALL,)
    elif below is not None and (name == "s_mov_b64" or (name == "s_or_b64" and "exec" in operands)):
        found = below
    elif (
        name == "s_and_saveexec_b64"
        or name.startswith("v_cmpx")
        or (name == "s_and_b64" and "exec" in operands)
        or (name == "s_andn2_b64" and operands[0] == "exec")
    ):
        found = (*stack, own)
    elif below is not None and name in ("s_andn2_b64", "s_xor_b64") and "exec" in operands:
        found = (*below, own)
    if name.endswith("_saveexec_b64"):
        kept[result] = stack[-1]
    return found, {pair: mask for pair, mask in kept.items() if mask in found and mask != own}


def _kind(variable: Variable) -> str:
    """Of a scalar register "exec", "scc" or "scalar"; of others nothing."""
    if variable.register_class.name not in ("scalar", "special"):
        return ""
    return "exec" if variable.name in _EXEC else "scc" if variable.name == "scc" else "scalar"


def _pair(touches: Sequence[Touch], kinds: Mapping[int, str], *, written: bool) -> Pair:
    """The scalar registers that are written, or only read."""
    return tuple(
        (touch.variable, k)
        for touch in touches
        if kinds[touch.variable] == "scalar" and (bool(touch.role) if written else touch.role == "")
        for k in range(touch.first, touch.stop)
    )
