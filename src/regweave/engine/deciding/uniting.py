"""The model that won, in as few native operators as take no longer: tried with more and with fewer stand-ins.

    winner       Region0 Conv Region1 GlobalAveragePool Region2      apart, as it was measured
    candidates   Joined0                                             with stand-ins for all that has one
                 Joined0 Conv Joined1                                without those of convolutions

Two sessions of one and the same model differ by nearly a hundredth, so what is slower by less is not slower;
the shortest times and the ratios must both say so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from regweave.devices.onnxruntime import NativeSession
from regweave.engine.building.building import Build
from regweave.engine.measuring.racing import race
from regweave.engine.verifying.verification import compare_outputs
from regweave.errors import VerificationError

NOISE = 1.01
"""How much faster the operators apart must be to stay so."""


def unite(
    apart: Build,
    session: NativeSession,
    join: Callable[[Build, bool], Build],
    start: Callable[[Build], NativeSession],
    feeds: Mapping[str, Any],
    threads: int,
    seconds: float,
) -> tuple[Build, NativeSession]:
    """`apart`, which runs in `session`, joined as far as it takes no longer.

    `join` joins it, with stand-ins for convolutions or without; `start` makes a session. A race takes so many
    `seconds`.
    """
    right = session.run(None, feeds)
    raced: list[str] = []
    for products in (True, False):
        whole = join(apart, products)
        nodes = [node.op_type for node in whole.proto.graph.node]
        if len(whole.operators) >= len(apart.operators) or nodes == raced:
            continue
        raced = nodes
        opened = start(whole)
        if not _agrees(opened.run(None, feeds), right):
            continue
        result = race(
            {"whole": lambda: opened.run(None, feeds), "apart": lambda: session.run(None, feeds)},  # noqa: B023
            threads=threads,
            seconds=seconds,
            enough=lambda race: race.is_clear("whole", "apart", NOISE),
        )
        if result.is_faster("whole", "apart", NOISE) is False:
            return whole, opened
    return apart, session


def _agrees(found: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> bool:
    try:
        compare_outputs(found, right)
    except VerificationError:
        return False
    return True
