"""What a chain moves, fused and not, and what that costs: the reason to fuse, in numbers.

A product [M, K] x [K, N] reads M K + K N floats and writes M N. In a chain the M N of every seam is written
once and read once; fused it stays in the core's own cache. So per seam 2 M N floats fall away, which pays
where they would have gone beyond that cache:

    16384 x 64-64-64-64   each seam 4.2 MB: unfused 25.2 MB, fused 8.4 MB             pays
    128 x 384-1536-384    a seam of 0.8 MB stays in a second-level cache of 1 MB anyway,
                          and a block of rows would have to fetch 4.7 MB of weights   does not

`estimate` puts times to it. A stage takes the time of its arithmetic plus that of its traffic at the level
where its operands live; a fused chain the time of all arithmetic, its ends' traffic, and its weights once
per block of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from regweave.errors import InputError

_FLOAT = 4
#: The part of a cache that a working set may fill before it counts as lying beyond.
_FILLED = 0.85
#: The least predicted speed-up that counts as one.
WORTH = 1.01


@dataclass(frozen=True)
class Traffic:
    """Bytes that a chain moves beyond the registers and the core's own cache."""

    unfused: int
    fused: int

    @property
    def saved(self) -> int:
        """What fusing saves: 2 M N floats per seam."""
        return self.unfused - self.fused


def traffic(widths: Sequence[int], rows: int, *, extra_widths: Sequence[int] = ()) -> Traffic:
    """The bytes of a chain of these widths on `rows` rows (pixels); extra inputs are read once either way.

    Errors: InputError for fewer than two widths, widths below 1, rows below 0.
    """
    _check(widths, rows)
    ends = rows * (widths[0] + widths[-1] + sum(extra_widths))
    weights = sum(k * n for k, n in pairwise(widths))
    seams = 2 * rows * sum(widths[1:-1])
    return Traffic(_FLOAT * (ends + weights + seams), _FLOAT * (ends + weights))


def _check(widths: Sequence[int], rows: int) -> None:
    if len(widths) < 2 or min(widths) < 1 or rows < 0:
        raise InputError(
            f"widths {list(widths)}, {rows} rows",
            where="widths, rows",
            expected="[K0, N0, ...] from 1, rows from 0",
        )


@dataclass(frozen=True)
class Costs:
    """What one core does: float operations a second, and bytes a second from each level beyond its own cache.

    `own_bytes` is the core's own cache (level 2), `shared_bytes` the last level.
    """

    flops: float
    own_bytes: int
    shared_bytes: int
    own_rate: float
    shared_rate: float
    memory_rate: float
    call_seconds: float = 3e-6

    def seconds(self, data: float, working_set: float) -> float:
        """Time to move `data` bytes of a working set of that size."""
        if working_set <= _FILLED * self.own_bytes:
            return data / self.own_rate
        return data / (self.shared_rate if working_set <= _FILLED * self.shared_bytes else self.memory_rate)


@dataclass(frozen=True)
class Estimate:
    """Predicted seconds of a chain unfused and fused, its traffic, and which wins and why in a sentence."""

    unfused: float
    fused: float
    traffic: Traffic
    reason: str

    @property
    def speedup(self) -> float:
        """Unfused over fused time."""
        return self.unfused / self.fused

    @property
    def pays(self) -> bool:
        """Whether fusing is predicted to be faster by more than the prediction may be wrong."""
        return self.speedup >= WORTH


def estimate(
    widths: Sequence[int], rows: int, *, block: int, threads: int = 1, costs: Costs | None = None
) -> Estimate:
    """Compare a chain's stages run one after the other with all of them run per block of `block` rows.

    Errors: as of `traffic`.
    """
    _check(widths, rows)
    costs = costs or host_costs()
    share = max(1, min(threads, -(-rows // max(block, 1))))
    products = tuple(pairwise(widths))
    weights = _FLOAT * sum(k * n for k, n in products)
    arithmetic = 2.0 * rows * sum(k * n for k, n in products) / share / costs.flops
    unfused = arithmetic + costs.call_seconds * (len(products) - 1)
    for k, n in products:
        ends = _FLOAT * rows * (k + n) / share
        unfused += costs.seconds(ends, ends + _FLOAT * k * n) + costs.seconds(_FLOAT * k * n, weights)
    ends = _FLOAT * rows * (widths[0] + widths[-1]) / share
    blocks = max(1.0, -(-rows // max(block, 1)) / share)
    kept = _FLOAT * min(block, rows) * max(k + n for k, n in products)
    fused = arithmetic + costs.seconds(ends, ends + weights)
    fused += blocks * costs.seconds(weights, weights + kept)
    moved = traffic(widths, rows)
    return Estimate(unfused, fused, moved, _reason(unfused, fused, moved, weights, costs))


def _reason(unfused: float, fused: float, moved: Traffic, weights: int, costs: Costs) -> str:
    predicted = f"predicted {unfused / fused:.2f}x"
    if unfused / fused >= WORTH:
        return f"{_megabytes(moved.saved)} of intermediates stay in the core's cache: {predicted}"
    if fused > unfused and weights > costs.own_bytes:
        return f"{_megabytes(weights)} of weights would be fetched again for every block of rows: {predicted}"
    return f"{_megabytes(moved.saved)} saved beside {_megabytes(moved.fused)} moved anyway: {predicted}"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.3g} MB" if size >= 1e5 else f"{size / 1e3:.3g} kB"


@cache
def host_costs() -> Costs:
    """Costs of this machine: its cache sizes, with rates as measured on a server core of 2023.

    Only ratios between the rates matter, and decisions near the break-even should be measured.
    """
    from regweave.machines.x86 import AVX512, detect

    wide = detect() is AVX512
    own, shared = cache_bytes()
    return Costs(
        flops=110e9 if wide else 70e9,
        own_bytes=own,
        shared_bytes=shared,
        own_rate=150e9,
        shared_rate=60e9,
        memory_rate=30e9,
    )


def cache_bytes(folder: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> tuple[int, int]:
    """Sizes of the second-level and the last-level cache; 1 and 32 MiB where the system does not tell."""
    sizes: dict[int, int] = {}
    for index in sorted(folder.glob("index*")):
        try:
            level = int((index / "level").read_text())
            kind = (index / "type").read_text().strip()
            text = (index / "size").read_text().strip()
        except (OSError, ValueError):
            continue
        if kind != "Instruction" and text.endswith("K"):
            sizes[level] = int(text[:-1]) << 10
    own = sizes.get(2, 1 << 20)
    return own, max(sizes.get(max(sizes, default=0), 0), 2 * own) if sizes else 32 << 20
