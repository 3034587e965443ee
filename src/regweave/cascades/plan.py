"""What was decided for a cascade, as a value that prints.

    >>> print(compiled.plan)
    rows 64 -> 64 channel_add relu -> 64 channel_add relu          avx512, up to 2 threads
    tile 6 x 64 in registers, blocks of 96 rows, 24.3 KiB of scratch and 33.0 KiB of packed weights
    seam 1, 64 wide: shared     ...

Lanes and registers on a CPU: a lane is an element position of a vector register. In order "pixels" the
lanes are pixels in every stage, so one stage's results are the next one's operands as they lie: the
*identity*. In the other orders the lanes of a result are columns, while the next product wants each element
repeated in all lanes; the exchange goes through the core's own cache (*shared*): vectors are stored,
elements are loaded with repetition, which costs no instruction beyond the load that the product needs
anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from regweave.kernels import ChainPlan
from regweave.operators import Signature
from regweave.values import frozen

if TYPE_CHECKING:
    from regweave.assembly import Listing
    from regweave.cascades.costs import Estimate, Traffic
    from regweave.devices.cpu import Function

_KIB = 1024


@frozen
class Seam:
    """The place behind stage `index`: how its result gets to where the next product reads it."""

    index: int
    width: int
    strategy: str
    where: str
    reason: str

    def __str__(self) -> str:
        return f"seam {self.index + 1}, {self.width} wide: {self.strategy}, {self.where}; {self.reason}"


@frozen
class CascadePlan:
    """The plan of a compiled cascade.

    `device` is "avx512", "avx2" or "portable". `tile` is (rows, columns) of results held in registers, for
    order "pixels" (channels, pixels); `block` how many rows (pixels) go through all stages at once. Sizes are
    bytes, `scratch_bytes` per part. `kernel` is the loaded code, None if portable.
    """

    device: str
    threads: int
    signature: Signature
    tile: tuple[int, int]
    block: int
    scratch_bytes: int
    packed_bytes: int
    seams: tuple[Seam, ...]
    kernel: Function | None = field(default=None, repr=False, compare=False)

    @property
    def listing(self) -> Listing | None:
        """The kernel's assembly with its register map, None if portable."""
        return None if self.kernel is None else self.kernel.listing

    @property
    def widths(self) -> tuple[int, ...]:
        """(K0, N0, N1, ...)."""
        return self.signature.widths

    @property
    def order(self) -> str:
        """Order of the activations: "rows", "pixels" or "blocked"."""
        return self.signature.order

    def traffic(self, rows: int) -> Traffic:
        """Bytes moved on `rows` rows (pixels), unfused and fused."""
        from regweave.cascades.costs import traffic

        return traffic(self.widths, rows)

    def estimate(self, rows: int) -> Estimate:
        """Predicted times on `rows` rows (pixels), unfused and fused, and which wins and why."""
        from regweave.cascades.costs import estimate

        return estimate(self.widths, rows, block=self.block, threads=self.threads)

    def to_dict(self, rows: int | None = None) -> dict[str, Any]:
        """Plain values for JSON, with the traffic if a number of rows is given."""
        values: dict[str, Any] = {
            "device": self.device,
            "threads": self.threads,
            "order": self.order,
            "widths": list(self.widths),
            "epilogues": [[str(op) for op in ops] for ops in self.signature.epilogues],
            "tile": list(self.tile),
            "block": self.block,
            "scratch_bytes": self.scratch_bytes,
            "packed_bytes": self.packed_bytes,
            "seams": [vars(seam) for seam in self.seams],
        }
        if rows is not None:
            moved = self.traffic(rows)
            values["predicted"] = {"bytes_unfused": moved.unfused, "bytes_fused": moved.fused}
        return values

    def __str__(self) -> str:
        unit = "rows" if self.order == "rows" else "pixels"
        lines = [f"{self.signature}; {self.device}, at most {self.threads} threads"]
        if self.kernel is not None:
            lines.append(
                f"tile {self.tile[0]} x {self.tile[1]} in registers, blocks of {self.block} {unit}, "
                f"{self.scratch_bytes / _KIB:.1f} KiB of scratch per part, "
                f"{self.packed_bytes / _KIB:.1f} KiB of packed weights"
            )
        return "\n".join([*lines, *map(str, self.seams)])


def seams(signature: Signature, plan: ChainPlan | None) -> tuple[Seam, ...]:
    """How each seam of a chain is crossed by the kernel of `plan`, None for the portable device."""
    return tuple(
        _seam(index, width, signature.order, plan) for index, width in enumerate(signature.widths[1:-1])
    )


def _seam(index: int, width: int, order: str, plan: ChainPlan | None) -> Seam:
    if plan is None:
        return Seam(
            index, width, "shared", "in memory", "the portable device keeps a block of rows in an array"
        )
    where = f"{_extent(width, order, plan)} in the core's own cache"
    if order == "pixels":
        return Seam(index, width, "identity", where, "lanes are pixels on both sides")
    reason = "lanes are columns; the next product repeats each element in all lanes as it loads it"
    return Seam(index, width, "shared", where, reason)


def _extent(width: int, order: str, plan: ChainPlan) -> str:
    sizes: Sequence[int] = (width, plan.block) if order == "pixels" else (plan.block, width)
    return f"{sizes[0]} x {sizes[1]} floats ({4 * width * plan.block / _KIB:.1f} KiB)"
