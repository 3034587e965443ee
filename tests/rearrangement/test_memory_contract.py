"""The comments that say what callers owe to functions with shared memory."""

import pytest

from regweave.programs import Array, Memory, ProgramBuilder
from regweave.rearrangement.shared.contract import memory_comments


def program(scope, warps=1, space="shared"):
    builder = ProgramBuilder(
        "p", 32, Array("s", "b32", 1), Array("d", "b32", 1), [Memory("tile", space, 48)], warps=warps
    )
    if scope:
        builder.barrier(scope)
    return builder.finish([builder.word(0)])


@pytest.mark.parametrize(
    ("scope", "warps", "words"),
    [
        (
            "warp",
            1,
            ["for this warp alone", "All 32 lanes of the warp must call it together", "lanes of the warp"],
        ),
        ("block", 4, ["for this block alone", "a block of 128 threads", "all lanes of the block"]),
        ("warp", 4, ["for these warps alone", "a block of 128 threads", "all lanes of the warp"]),
        (None, 1, ["no lane waits for another"]),
    ],
)
def test_what_the_caller_owes(scope, warps, words):
    text = " ".join(memory_comments(program(scope, warps)))
    assert text.startswith("tile: 48 bytes of shared memory from a multiple of 16 on")
    assert all(word in text for word in words)


def test_no_shared_memory_no_comment():
    assert memory_comments(None) == ()
    assert memory_comments(program("warp", space="global")) == ()
