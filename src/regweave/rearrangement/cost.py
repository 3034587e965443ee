"""What a plan costs, counted in its program and weighed by the machine.

    >>> cost_of(program, moves=0)
    Cost(exchanges=4, selects=8, byte_permutes=0, moves=0, converts=0, logic=6, tests=2)

`logic` and `tests` only depend on the lane's number: in a loop they are done once, before it.
"""

from __future__ import annotations

from dataclasses import dataclass

from regweave.machines.gpu import StepCosts
from regweave.programs import OPCODES, Program, Value
from regweave.programs.signatures import words_of

_RESOURCES = {
    "exchanges": "shuffle",
    "selects": "select",
    "byte_permutes": "permute",
    "moves": "move",
    "converts": "convert",
    "logic": "logic",
    "tests": "test",
    "shared_stores": "shared_store",
    "shared_loads": "shared_load",
    "barriers": "barrier",
}


@dataclass(frozen=True)
class Cost:
    """Instructions of each kind, for one lane (and so for the warp).

    Loads and stores of shared memory move up to 16 bytes at once, and take issue slots for each of the
    `shared_words` words of 4 bytes that they move. `load_change` is how many more instructions the load of
    the next product's other operand takes than with k in its true order; below 0 where it takes fewer.
    """

    exchanges: int = 0
    selects: int = 0
    byte_permutes: int = 0
    moves: int = 0
    converts: int = 0
    logic: int = 0
    tests: int = 0
    shared_stores: int = 0
    shared_loads: int = 0
    barriers: int = 0
    shared_words: int = 0
    load_change: int = 0

    @property
    def instructions(self) -> int:
        """All instructions."""
        return sum(getattr(self, name) for name in _RESOURCES) + self.load_change

    @property
    def hoistable(self) -> int:
        """Those that a loop needs only once."""
        return self.logic + self.tests

    def slots(self, costs: StepCosts) -> int:
        """Issue slots on a machine."""
        slots = self.load_change
        for name, resource in _RESOURCES.items():
            slots += getattr(self, name) * getattr(costs, resource)
        wide = self.shared_words - self.shared_stores - self.shared_loads
        return slots + wide * costs.shared_load

    def __str__(self) -> str:
        named = [(getattr(self, name), name.replace("_", " ")) for name in _RESOURCES]
        words = [
            f"{count} {name.removesuffix('s') if count == 1 else name}" for count, name in named if count
        ]
        if self.load_change:
            more = "more" if self.load_change > 0 else "fewer"
            words.append(f"{abs(self.load_change)} {more} in the next operand's load")
        return ", ".join(words) or "nothing"


NO_COST = Cost()


def cost_of(program: Program, moves: int = 0) -> Cost:
    """The cost of a program plus `moves` register copies that the operand's tuples force."""
    count = program.count()
    counts = {name: count[resource] for name, resource in _RESOURCES.items()}
    constants, words = set[Value](), 0
    for step, _ in program.walk() if count["shared_store"] or counts["logic"] else ():
        if step.opcode == "rotate_right":
            constants.add(step.operands[0])
        elif OPCODES[step.opcode].symbol == "shared":
            words += words_of(step)
    counts["moves"] += moves + len(constants)  # a packed look-up constant lies in a register of its own
    return Cost(**counts, shared_words=words)
