"""Every instruction of a table written out, with each class of register that its operands may have."""

from __future__ import annotations

from regweave.machines.amd.assembly import GcnMachine
from regweave.machines.amd.assembly.table import GcnInstruction, Slot

_WORDS = {
    "s_waitcnt": "vmcnt(0)",
    "s_sendmsg": "sendmsg(MSG_INTERRUPT)",
    "s_set_gpr_idx_on": "gpr_idx(SRC0,DST)",
    "s_set_gpr_idx_mode": "gpr_idx(SRC1)",
}
_FEW = {"s_nop": "3", "s_sleep": "3", "s_setprio": "3"}
_ENDINGS = {"ds_read2": " offset0:1 offset1:3", "ds_write2": " offset0:1 offset1:3", "ds_": " offset:8"}


def register(letter: str, count: int, number: int) -> str:
    if letter == "s" and count > 1:
        number = -(-number // 4) * 4
    elif count > 1:
        number = -(-number // 2) * 2
    return f"{letter}{number}" if count == 1 else f"{letter}[{number}:{number + count - 1}]"


def sample(entry: GcnInstruction, slots: tuple[Slot, ...], other: int | None, modifier: str = "") -> str:
    """The instruction with each operand's first letter; operand `other` has its last one."""
    words = []
    for at, slot in enumerate(slots):
        letter = slot.letters[-1] if at == other else slot.letters[0]
        if entry.unit == "matrix" and at in (0, 3) and letter != "i":
            letter = "va"[other == 0]  # the result and C change their class together
        if letter == "o":
            words.append("off")
        elif letter == "l":
            words.append("target")
        elif letter == "x":
            words.append(_WORDS.get(entry.name, "hwreg(HW_REG_MODE)"))
        elif letter == "i":
            words.append(_FEW.get(entry.name, "2"))
        else:
            words.append(register(letter, slot.count, 8 + 16 * at if letter != "s" else 8 + 4 * at))
    ending = next((text for head, text in _ENDINGS.items() if entry.name.startswith(head)), "")
    if entry.name.startswith("buffer_") and len(slots) > 2:
        ending = "" if "off" in words else " idxen offen" if slots[-3].count == 2 else " offen"
    if entry.name == "ds_swizzle_b32":
        ending = " offset:swizzle(QUAD_PERM,1,0,3,2)"
    if entry.name == "buffer_inv":
        ending = " sc1"
    return f"{entry.mnemonic} {', '.join(words)}{ending} {modifier}".strip()


#: Moves between lanes within a vector instruction.
_DPP = (
    "v_mov_b32_dpp v8, v9 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf",
    "v_add_f32_dpp v8, v9, v10 row_ror:4 row_mask:0x3 bank_mask:0xf",
    "v_max_i32_dpp v8, v9, v10 row_half_mirror row_mask:0xf bank_mask:0xf bound_ctrl:0",
)


def samples(machine: GcnMachine) -> list[str]:
    found = {}
    for entry in machine.instructions.values():
        ways = [("", slots) for slots in entry.signatures]
        for modifier, slots in (*ways, *((way.word, way.slots) for way in entry.worded)):
            choices = [None, *(at for at, slot in enumerate(slots) if len(slot.letters) > 1)]
            for other in choices:
                found[sample(entry, slots, other, modifier)] = None
    return [*found, *_DPP]
