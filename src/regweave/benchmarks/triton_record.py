"""What Triton 3.9.0 does for each of the conversions that are compared: a record, checked when it is made.

    >>> RECORDS["f16 C -> A, 8 contiguous k"].total      # through shared memory; 35 with shuffles
    11

Counted in SASS (sm_80) and in GCN text (gfx942) of kernels compiled offline: the kernel with the conversion
minus the same kernel without. It is kept as data, so that everybody can compare; where Triton is installed
it is counted again (`triton_peer`), and a test compares.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass

from regweave.errors import InputError


@dataclass(frozen=True)
class Counts:
    """Instructions of one way to convert: between lanes, selects, byte permutes, and all of them."""

    exchanges: int
    selects: int
    byte_permutes: int
    total: int

    @property
    def choices(self) -> int:
        """Selects and byte permutes."""
        return self.selects + self.byte_permutes


@dataclass(frozen=True)
class TritonRecord:
    """`shuffled` is what Triton does with shuffles, by itself or forced to.

    `other_total` is the total of what it does by itself where that goes through shared memory. InputError for
    anything but whole numbers of at least 0, or an other way that is not cheaper: Triton would not take it. A
    total may be less than its parts, for the kernel without the conversion has instructions of its own.
    """

    shuffled: Counts
    other_total: int | None = None

    def __post_init__(self) -> None:
        counts = astuple(self.shuffled)
        if not all(type(count) is int and count >= 0 for count in counts):
            raise InputError(f"Triton's counts are {counts}", where="Triton's record",
                             expected="whole numbers of at least 0")  # fmt: skip
        other = self.other_total
        if other is not None and not (type(other) is int and 0 <= other < self.shuffled.total):
            raise InputError(f"another way of {other!r} instructions", where="Triton's record",
                             expected=f"fewer than the {self.shuffled.total} with shuffles")  # fmt: skip

    @property
    def total(self) -> int:
        """The better of both totals."""
        return self.shuffled.total if self.other_total is None else self.other_total


def _record(
    exchanges: int, selects: int, permutes: int, total: int, other: int | None = None
) -> TritonRecord:
    return TritonRecord(Counts(exchanges, selects, permutes, total), other)


#: By the name of the conversion; None where nobody measured.
RECORDS: dict[str, TritonRecord | None] = {
    "tf32 C -> A": _record(16, 32, 0, 64),
    "f16 C -> A": _record(0, 0, 0, 0),
    "bf16 C -> A": _record(0, 0, 0, 0),
    "s8 C -> A": _record(4, 6, 8, 25),
    "f64 C -> A": _record(16, 32, 0, 60),
    "s4 C -> A": None,
    "f16 C -> A, 4 contiguous k": _record(8, 16, 0, 33),
    "f16 C -> A, 8 contiguous k": _record(6, 32, 0, 35, 11),
    "f16 C -> B": _record(8, 4, 24, 62),
    "s8 C -> B": _record(4, 8, 36, 79, 77),
    "f32 C -> rows": _record(16, 64, 0, 91, 38),
    "f16 32x32x8 D^T -> A": _record(0, 0, 0, 0),
    "f16 16x16x16 D^T -> A": _record(0, 0, 0, 0),
    "s8 16x16x32 D^T -> A": _record(2, 4, 0, 19),
    "s8 32x32x16 D^T -> A": _record(2, 6, 0, 13),
    "f32 32x32x2 D^T -> A": _record(8, 24, 0, 60),
    "f32 16x16x4 D^T -> A": _record(3, 16, 0, 37, 29),
    "f16 16x16x16 D -> A": _record(4, 12, 12, 58, 38),
}
