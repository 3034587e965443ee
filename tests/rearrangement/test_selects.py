"""Networks of selects: right on every lane, with shared choices made once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regweave.machines.nvidia import SM_80
from regweave.programs import Array, ProgramBuilder, run_program
from regweave.rearrangement.networks.selects import choose


def apply(network, inputs, outputs):
    builder = ProgramBuilder("choose", 32, Array("s", "b32", inputs), Array("d", "b32", outputs))
    values = network.lower(builder, [builder.word(number) for number in range(inputs)])
    program = builder.finish(values)
    words = np.arange(32 * inputs, dtype=np.uint32).reshape(32, inputs)
    return words, run_program(program, words)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_any_choice_is_made(data):
    inputs = data.draw(st.integers(1, 6))
    wanted = st.lists(st.one_of(st.none(), st.integers(0, inputs - 1)), min_size=32, max_size=32)
    choices = data.draw(st.lists(wanted, min_size=1, max_size=4))
    words, found = apply(choose(choices, inputs, SM_80.costs), inputs, len(choices))
    for output, choice in enumerate(choices):
        for lane, number in enumerate(choice):
            assert number is None or found[lane, output] == words[lane, number]


@pytest.mark.parametrize(
    ("choices", "inputs", "selects"),
    [
        ([[lane >> 1 & 1 for lane in range(32)], [1 - (lane >> 1 & 1) for lane in range(32)]], 2, 2),
        ([[(lane + k) % 4 for lane in range(32)] for k in range(4)], 4, 8),
        ([[lane % 4 ^ k for lane in range(32)] for k in range(4)], 4, 8),
        ([[0] * 32], 3, 0),
        ([[None] * 32], 1, 0),
        ([[lane * 7 % 32 % 3 for lane in range(32)]], 3, 2),
    ],
)
def test_no_more_selects_than_needed(choices, inputs, selects):
    assert len(choose(choices, inputs, SM_80.costs).nodes) == selects


def test_nothing_to_choose():
    network = choose([], 2, SM_80.costs)
    assert (network.nodes, network.outputs, network.cost(SM_80.costs)) == ((), (), 0)
