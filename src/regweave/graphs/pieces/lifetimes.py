"""One memory for tensors that live for a while: those whose lives do not meet may share bytes.

    a  steps 0..1   100 bytes     at 0
    b  steps 1..2    60 bytes     at 128     (a still lives in step 1)
    c  steps 2..3    90 bytes     at 0

The largest come first, each at the lowest place that is free for its whole life.
"""

from __future__ import annotations

from collections.abc import Mapping


def packed(
    lives: Mapping[str, tuple[int, int]], sizes: Mapping[str, int], line: int
) -> tuple[dict[str, int], int]:
    """Byte offsets, multiples of `line`, for everything in `lives` (first and last step), and the bytes in
    all."""
    offsets: dict[str, int] = {}
    whole = {name: -(-sizes[name] // line) * line for name in lives}
    for name in sorted(whole, key=lambda name: -whole[name]):
        first, last = lives[name]
        others = sorted(
            (offsets[other], offsets[other] + whole[other])
            for other in offsets
            if lives[other][0] <= last and first <= lives[other][1]
        )
        at = 0
        for start, end in others:
            if at + whole[name] <= start:
                break
            at = max(at, end)
        offsets[name] = at
    return offsets, max((offsets[name] + whole[name] for name in whole), default=0)
