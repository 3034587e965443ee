"""Which values are the same in all lanes: lanes that part on such a value do not part at all.

block x, constant 5, a loop's index          the same in all lanes
lane, thread, a word of the source           not
add, less, ... of what is the same           the same; so is what one address that is the same holds
what a loop carries on                       taken not to be
"""

from __future__ import annotations

from functools import cached_property

from regweave.programs.opcodes import OPCODES
from regweave.programs.program import Item, Loop, Program, Step, Value


def alike_in_all_lanes(program: Program, value: Value) -> bool:
    """Whether all lanes of a warp are known to hold the same `value`."""
    return _Alike(program).holds(value)


class _Alike:
    def __init__(self, program: Program) -> None:
        self.program = program
        self._known: dict[int, bool] = {}

    @cached_property
    def _makers(self) -> dict[int, Step | Loop]:
        """What defines a value: its step, or the loop whose index it is."""
        makers: dict[int, Step | Loop] = {}
        waiting: list[Item] = list(self.program.steps)
        while waiting:
            item = waiting.pop()
            if isinstance(item, Step):
                makers.update((value.number, item) for value in item.results)
                continue
            if isinstance(item, Loop):
                makers[item.index.number] = item
            waiting += item.body
        return makers

    def holds(self, value: Value) -> bool:
        if value.number not in self._known:
            maker = self._makers.get(value.number)
            self._known[value.number] = isinstance(maker, Loop) or (
                isinstance(maker, Step)
                and maker.opcode not in ("lane", "thread", "word")
                and not OPCODES[maker.opcode].collective
                and all(map(self.holds, maker.operands))
            )
        return self._known[value.number]
