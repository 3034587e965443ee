"""The picks' tables against what the table entries mean, and so (test_semantics) what the processor does."""

import numpy as np
import pytest

from regweave.errors import InputError
from regweave.machines.picks import FixedPick, Picks
from regweave.machines.x86 import AVX2, AVX512
from regweave.machines.x86.picks import AVX2_PICKS, AVX512_PICKS, AVX512_VBMI_PICKS


@pytest.mark.parametrize(("machine", "picks"), [(AVX2, AVX2_PICKS), (AVX512, AVX512_PICKS)])
def test_every_fixed_pick_is_what_its_entry_means(machine, picks):
    lanes = np.arange(2 * machine.lanes, dtype=np.uint32)
    a, b = lanes[: machine.lanes], lanes[machine.lanes :]
    for pick in picks.fixed:
        meaning = machine.table[pick.entry].meaning
        vectors = (a,) if pick.entry == "permute_pairs" else (a, b)
        numbers = () if pick.immediate is None else (pick.immediate,)
        assert meaning(*vectors, *numbers).tolist() == list(pick.table), pick


def test_what_one_instruction_can_do():
    assert AVX2_PICKS.find((0, 8, 1, 9, 4, 12, 5, -1)).entry == "unpack_low"
    assert AVX2_PICKS.find((7, 8, 1, 9, 4, 12, 5, 0)) is None
    assert not AVX2_PICKS.possible((7, 8, 1, 9, 4, 12, 5, 0))
    assert AVX2_PICKS.possible((7, 0, 1, 1, 4, 4, 5, 0), one=True)
    assert AVX2_PICKS.find((0, 8, 1, 1, 12, 4, 5, 5), one=True).entry == "unpack_low"
    assert AVX512_PICKS.possible((31, 0, 5, 7, 20, *range(11)))
    assert AVX512_PICKS.possible(tuple(range(31, -1, -1)))
    assert not AVX512_PICKS.possible(tuple(range(64)))
    assert AVX512_VBMI_PICKS.possible(tuple(range(64)))


def test_tables_validate_themselves():
    with pytest.raises(InputError, match="swap picks"):
        Picks(4, (FixedPick("swap", None, (0, 1, 2)),), any_one=False)
    with pytest.raises(InputError, match="swap picks"):
        Picks(4, (FixedPick("swap", None, (0, 1, 2, 8)),), any_one=False)
