"""Tile shapes of a machine, and how widths are cut into tiles.

A kernel holds a tile of results in registers: `scalars` rows of it are fed by one repeated element each,
its `vectors` columns by one vector register each. Worked example, AVX-512: 6 scalars x 4 vectors of 16
lanes are 24 registers of results, 4 hold vectors, 2 hold repeated elements, 2 are free for the work behind
the product.

                 vectors are        scalars are
    rows         packed weights     activations of one row each       x [M, K]
    pixels       activations        packed weights of one channel     x [K, P]

Widths that are no multiple of the tile end in a *narrow* panel of fewer vectors and, for scalars, in the
smaller tiles of `tails`: 17 scalars are 6 + 6 + 4 + 1. Why 6 x 4 and not 12 x 2 or 14 x 2: per step it
loads 10 times for 24 products, so the load ports have slack on every machine, and it needs the fewest bytes
of panel per product.
"""

from __future__ import annotations

from functools import cached_property

from regweave.errors import UnsupportedError
from regweave.values import frozen


@frozen
class Panel:
    """Columns `start` .. `start + columns - 1`, held in `vectors` vectors (the last one maybe in part)."""

    start: int
    columns: int
    vectors: int


@frozen
class Geometry:
    """The tile of one machine. `cache_bytes` is the part of a core's own cache that a block of work may
    fill."""

    lanes: int
    vectors: int
    scalars: int
    tails: tuple[int, ...]
    cache_bytes: int = 640 * 1024

    def __post_init__(self) -> None:
        sizes = (self.scalars, *self.tails)
        assert sizes[-1] == 1, "the smallest tail is one"
        assert all(a <= 2 * b for a, b in zip(sizes, self.tails, strict=False)), (
            "each tail is used at most once"
        )

    @cached_property
    def columns(self) -> int:
        """Columns of a full panel."""
        return self.lanes * self.vectors

    @property
    def vector_bytes(self) -> int:
        """Bytes of one vector register."""
        return 4 * self.lanes

    @property
    def panel_bytes(self) -> int:
        """Bytes of one row of a full panel."""
        return 4 * self.columns

    @property
    def line_panels(self) -> bool:
        """Whether a row of a full panel is one line of 64 bytes."""
        return self.panel_bytes == 64

    def scalar_tiles(self, count: int) -> tuple[int, ...]:
        """`count` cut into tiles, largest first: 17 -> (6, 6, 4, 1)."""
        tiles = [self.scalars] * (count // self.scalars)
        rest = count % self.scalars
        for size in self.tails:
            if rest >= size:
                tiles.append(size)
                rest -= size
        return tuple(tiles)

    def panels(self, columns: int) -> tuple[Panel, ...]:
        """`columns` cut into full panels and at most one narrow one."""
        cut = []
        for start in range(0, columns, self.columns):
            width = min(self.columns, columns - start)
            cut.append(Panel(start, width, -(-width // self.lanes)))
        return tuple(cut)


_GEOMETRIES = {
    "avx512": Geometry(lanes=16, vectors=4, scalars=6, tails=(4, 2, 1)),
    "avx2": Geometry(lanes=8, vectors=2, scalars=6, tails=(4, 2, 1)),
}


def geometry_of(machine_name: str) -> Geometry:
    """The geometry of a machine, by its name; UnsupportedError where there are no kernels for it."""
    try:
        return _GEOMETRIES[machine_name]
    except KeyError:
        raise UnsupportedError(
            f"there are no matrix kernels for machine {machine_name!r}", expected=" or ".join(_GEOMETRIES)
        ) from None
