"""`#ttg.amd_mfma`, `#ttg.amd_wmma` and their operands.

The accumulator of an `mfma` has four neighbouring rows in four registers and its columns in the lanes;
lanes that are left go on with further rows, and so do further registers. `isTransposed` exchanges rows and
columns, which is how the products of a cascade are computed. Its operands have their rows (or columns) in
the lanes, `kWidth` neighbouring k in registers, and further k in the lanes that are left. `wmma` of the
first version holds every operand twice.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from regweave.errors import InputError, UnsupportedError
from regweave.machines.notations.attributes import Attribute, is_vector
from regweave.machines.notations.spread import Pair, Spread

_ROWS_FIRST, _COLUMNS_FIRST = (0, 1), (1, 0)
_CLUSTER = ("CGALayout", "CTAsPerCGA", "CTASplitNum", "CTAOrder")
_MFMA_KEYS = (
    "version",
    "warpsPerCTA",
    "instrShape",
    "isTransposed",
    "tilesPerWarp",
    "elementBitWidth",
    *_CLUSTER,
)
_WMMA_KEYS = ("version", "isTranspose", "ctaLayout", "instrShape", *_CLUSTER)
_WAVE, _WMMA_TILE = 64, 16


def amd_mfma(attribute: Attribute, shape: tuple[int, int] | None) -> tuple[Spread, tuple[int, int]]:
    """The accumulator of an mfma."""
    rows, columns = _mfma_sizes(attribute)
    transposed = attribute.get("isTransposed", bool)
    down, across = (1, 0) if transposed else (0, 1)
    along_lanes = (rows, columns)[across]
    spread = Spread()
    if attribute.get("elementBitWidth", int, 32) == 64:
        # the rows of a 64-bit accumulator are dealt out to the lanes first
        spread = spread.along("lane", across, along_lanes).along("lane", down, _WAVE // along_lanes)
        spread = spread.along("register", down, (rows, columns)[down] * along_lanes // _WAVE)
    else:
        spread = spread.along("register", down, 4).along("lane", across, along_lanes)
        spread = spread.along("lane", down, _WAVE // along_lanes)
        spread = spread.along("register", down, max(1, (rows, columns)[down] // spread.sizes[down]))
    tiles, warps = _mfma_copies(attribute)
    spread = spread.along("register", 1, tiles[1]).along("warp", 1, warps[1])
    if shape is not None:  # all columns come before the next tile of rows
        spread = spread.along("register", 1, max(1, shape[1] // spread.sizes[1]))
    return spread.along("register", 0, tiles[0]).along("warp", 0, warps[0]), _COLUMNS_FIRST


def mfma_operand(
    parent: Attribute, index: int, width: int, shape: tuple[int, int] | None
) -> tuple[Spread, tuple[int, int]]:
    """A (index 0) or B (index 1) of an mfma with `width` neighbouring k in each lane."""
    sizes = _mfma_sizes(parent)
    k = 1 - index
    spread = Spread().along("register", k, width).along("lane", index, sizes[index])
    spread = spread.along("lane", k, _WAVE // sizes[index])
    if 4 in sizes:  # sixteen blocks of k, whether the lanes hold them or one lane all
        spread = spread.along("register", k, 16 * sizes[index] // _WAVE)
    if shape is not None:  # all of k comes before the next tile of rows
        spread = spread.along("register", k, max(1, shape[k] // spread.sizes[k]))
    tiles, warps = _mfma_copies(parent)
    spread = spread.along("register", index, tiles[index]).over("warp", warps, _COLUMNS_FIRST, fixed=k)
    return spread, (k, index)


def amd_wmma(attribute: Attribute, shape: tuple[int, int] | None) -> tuple[Spread, tuple[int, int]]:
    """The accumulator of a wmma."""
    version = _wmma_version(attribute)
    down, across = (1, 0) if attribute.get("isTranspose", bool) else (0, 1)
    spread = Spread().along("lane", across, _WMMA_TILE)
    if version == 1:
        spread = spread.along("lane", down, 2).along("register", down, 8)
    else:
        spread = spread.along("register", down, 8).along("lane", down, 2)
    return _placed(attribute, spread, None), _COLUMNS_FIRST


def wmma_operand(
    parent: Attribute, index: int, width: int, shape: tuple[int, int] | None
) -> tuple[Spread, tuple[int, int]]:
    """A (index 0) or B (index 1) of a wmma; `width` neighbouring k in each lane."""
    version = _wmma_version(parent)
    k = 1 - index
    if version == 1:
        if width not in (8, 16):
            raise InputError(f"kWidth is {width}", where=parent.place, expected="8 or 16 for version 1")
        spread = Spread().along("register", k, width).along("lane", index, _WMMA_TILE).still("lane", 2)
    else:
        spread = Spread().along("register", k, width).along("lane", index, _WMMA_TILE).along("lane", k, 2)
    spread = spread.along("register", k, max(1, _WMMA_TILE // (2 * width)))
    return _placed(parent, spread, k), (k, index)


def _mfma_sizes(attribute: Attribute) -> Pair:
    attribute.check_keys(*_MFMA_KEYS)
    if attribute.get("version", int) not in (1, 2, 3, 4):
        raise UnsupportedError(
            f"version of #ttg.amd_mfma is {attribute.values['version']}",
            where=attribute.place,
            expected="1 to 4",
        )
    sizes = attribute.get("instrShape", tuple)
    transposed = attribute.get("isTransposed", bool)
    wide = attribute.get("elementBitWidth", int, 32)
    known = ((32, 32), (16, 16), (4, 64)) if not transposed else ((32, 32), (16, 16), (4, 64), (64, 4))
    if wide not in (32, 64) or (wide == 64 and sizes[:2] != (16, 16)):
        raise InputError(
            f"elementBitWidth of #ttg.amd_mfma is {wide}",
            where=attribute.place,
            expected="32, or 64 at 16 x 16",
        )
    if len(sizes) not in (2, 3) or sizes[:2] not in known:
        raise InputError(
            f"instrShape of #ttg.amd_mfma is {list(sizes)}",
            where=attribute.place,
            expected="[m, n, k] with m x n being 32x32, 16x16, 4x64, or 64x4 transposed",
        )
    return sizes[0], sizes[1]


def _mfma_copies(attribute: Attribute) -> tuple[tuple[int, ...], tuple[int, ...]]:
    tiles = attribute.sizes("tilesPerWarp", 2) if "tilesPerWarp" in attribute.values else (1, 1)
    return tiles, attribute.sizes("warpsPerCTA", 2)


def _wmma_version(attribute: Attribute) -> int:
    attribute.check_keys(*_WMMA_KEYS)
    version = attribute.get("version", int)
    if version not in (1, 2):
        raise UnsupportedError(
            f"version of #ttg.amd_wmma is {version}", where=attribute.place, expected="1 (gfx11) or 2 (gfx12)"
        )
    if attribute.get("instrShape", tuple, (16, 16, 16))[:2] != (_WMMA_TILE, _WMMA_TILE):
        raise InputError("instrShape of #ttg.amd_wmma", where=attribute.place, expected="[16, 16, 16]")
    return version


def _placed(attribute: Attribute, spread: Spread, fixed: int | None) -> Spread:
    """The tile copied as ctaLayout says, in tiles; along the axis `fixed` all copies are one operand."""
    copies: Any = attribute.get("ctaLayout", dict)
    if not set(copies) <= {"register", "warp"}:
        raise InputError(
            f"ctaLayout has {', '.join(copies)}",
            where=attribute.place,
            expected="{register = [...], warp = [...]}",
        )
    sizes = [1, 1]
    added: dict[str, list[Pair]] = {"register": [], "warp": []}
    for kind, vectors in copies.items():
        for vector in vectors if isinstance(vectors, tuple) else (vectors,):
            if not is_vector(vector):
                raise InputError(
                    f"{kind} of ctaLayout holds {vector!r}", where=attribute.place, expected="[row, column]"
                )
            pair = tuple(0 if axis == fixed else vector[axis] * spread.sizes[axis] for axis in (0, 1))
            sizes = [max(size, 1 << v.bit_length()) if axis != fixed else size for axis, (size, v) in
                     enumerate(zip(sizes, vector, strict=True))]  # fmt: skip
            if kind == "warp" or any(pair):
                added[kind].append((pair[0], pair[1]))
    return replace(
        spread,
        sizes=(spread.sizes[0] * sizes[0], spread.sizes[1] * sizes[1]),
        register=(*spread.register, *added["register"]),
        warp=(*spread.warp, *added["warp"]),
    )
