"""`#ttg.nvidia_mma` and its operands: the accumulators of `mma.sync` (version 2) and `wgmma` (version 3).

Every such tile is built alike along an inner and an outer axis: `width` registers and 4 lanes along the
inner one, 8 lanes along the outer one, then registers that repeat this 8 rows further and behind. For
accumulators the inner axis is n and the width 2; for operands it is k, and the width is what the text calls
kWidth. Warps divide the result; those that share rows of A or columns of B hold the same operand.
"""

from __future__ import annotations

from regweave.errors import UnsupportedError
from regweave.machines.notations.attributes import Attribute
from regweave.machines.notations.spread import Spread

_ROWS_FIRST, _COLUMNS_FIRST = (0, 1), (1, 0)
_KEYS = ("versionMajor", "versionMinor", "warpsPerCTA", "instrShape")
_CLUSTER = ("CGALayout", "CTAsPerCGA", "CTASplitNum", "CTAOrder")


def nvidia_mma(attribute: Attribute, shape: tuple[int, int] | None) -> tuple[Spread, tuple[int, int]]:
    """The accumulator."""
    version = _version(attribute)
    sizes = attribute.sizes("instrShape", 2 if version == 2 else 3, powers=False)
    rows, columns = sizes[0], sizes[1]
    if rows != 16 or columns % 8 or columns & (columns - 1):
        raise UnsupportedError(
            f"instrShape of #ttg.nvidia_mma is {list(sizes)}",
            where=attribute.place,
            expected="[16, 8] for mma.sync; [16, n, k] for wgmma, n being 8, 16, 32, 64, 128 or 256",
        )
    tile = _tile(rows, columns, 2, inner=1)
    return tile.over("warp", attribute.sizes("warpsPerCTA", 2), _warp_order(version)), _COLUMNS_FIRST


def mma_operand(
    parent: Attribute, index: int, width: int, shape: tuple[int, int] | None
) -> tuple[Spread, tuple[int, int]]:
    """A (index 0) or B (index 1) with `width` neighbouring k in each lane."""
    version = _version(parent)
    if version == 3 and index == 1:
        raise UnsupportedError(
            "operand B of wgmma lies in shared memory, not in registers",
            where=parent.place,
            expected="opIdx = 0",
        )
    k = 1 - index
    tile = _tile(16 if index == 0 else 8, 8 * width, width, inner=k)
    warps = parent.sizes("warpsPerCTA", 2)
    order = _COLUMNS_FIRST if index == 0 else _ROWS_FIRST
    return tile.over("warp", warps, _warp_order(version), fixed=k), order


def _tile(outer_size: int, inner_size: int, width: int, *, inner: int) -> Spread:
    outer = 1 - inner
    spread = Spread().along("register", inner, width).along("lane", inner, 4).along("lane", outer, 8)
    return spread.along("register", outer, outer_size // 8).along(
        "register", inner, inner_size // (4 * width)
    )


def _warp_order(version: int) -> tuple[int, int]:
    return _COLUMNS_FIRST if version == 2 else _ROWS_FIRST


def _version(attribute: Attribute) -> int:
    attribute.check_keys(*_KEYS, *_CLUSTER)
    version = attribute.get("versionMajor", int)
    attribute.get("versionMinor", int, 0)
    if version not in (2, 3):
        raise UnsupportedError(
            f"versionMajor of #ttg.nvidia_mma is {version}",
            where=attribute.place,
            expected="2 (mma.sync) or 3 (wgmma)",
        )
    attribute.sizes("warpsPerCTA", 2)
    return version
