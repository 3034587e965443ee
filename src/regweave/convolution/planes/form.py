"""How a convolution reads rows: where they are, rearranged, or transformed.

    image read where it is      stride 1 along the row and few channels, or stride 2 and one channel of a
                                group (form none): no copy, masked edges
    transformed rows            kernels of 2 to 5 rows at stride 1: about half the products (see transforms)
    strips of rearranged rows   everything else: a band of rows of all channels goes to a strip in cache
                                first, with its padding; larger strides by phases (polyphase) or one plane
                                per kernel column (unrolled)

Rows of many channels often start at addresses that compete for the same lines of a cache; in a strip they do
not.
"""

from __future__ import annotations

from regweave.cascades.running import STREAM_BYTES
from regweave.convolution.forms import plane_shifts
from regweave.convolution.planes.strips import TRANSFORMED, row_form, strip_budget, strip_bytes, untransformed
from regweave.errors import InputError, unknown_name
from regweave.machines.x86 import VectorMachine
from regweave.operators import Convolution

FORMS = ("none", "polyphase", "unrolled", "transformed")
#: Channels up to which the image is read where it is: a set of the first-level cache holds 8 lines, and the
#: rows of many channels often start at addresses that compete for the same sets.
_DIRECT_CHANNELS = 8
#: Filters from which on it pays to transform the rows that they share.
_WORTH_TRANSFORMING = 4
#: Kernel columns of all channels from which on it pays to take a transform's products one after the other,
#: where all products of few filters find room.
FEW_TAPS = 16
#: Of fewer kernel columns: rows and columns at least.
_LEAST_SIDE = 3
#: Output rows from which on it pays to transform rows for stride 2; the share of lanes that must be results.
_ROWS_APART, _FULL = 8, 0.8


def form_of(c: Convolution, form: str | None, machine: VectorMachine) -> str:
    """The form asked for, or the one that pays.

    InputError for a form that there is not, or that is not for `c`.
    """
    if form is None:
        rows = 4 if c.vertical.stride == 1 else _ROWS_APART
        pays = c.group_filters >= _WORTH_TRANSFORMING and c.vertical.outputs >= rows
        if machine.mask_class == "vector":
            pays = pays and _pays_with_few_registers(c, machine)
        else:
            # of one or two channels memory is the limit, and rows of results that are written one by one help
            pays = pays and (c.group_channels > 2 or c.horizontal.stride > 1)
        return "transformed" if transforms(c) and pays else untransformed(c)
    if form not in FORMS:
        raise unknown_name("form", form, FORMS, where="form")
    if form == "transformed" and not transforms(c):
        raise InputError(
            f"form transformed for a kernel of {c.vertical.kernel} rows at stride {c.vertical.stride}, "
            f"dilation {c.vertical.dilation}, {c.vertical.outputs} results in a column",
            where="form",
            expected="2 to 5 rows at stride 1, or 3, 5 or 7 at stride 2; dilation 1, and 2 results or more "
            "along the columns",
            fix="leave the choice open",
        )
    if form == "none" and c.horizontal.stride != 1 and not two_apart(c):
        raise no_form_none(c)
    return form


def _pays_with_few_registers(c: Convolution, machine: VectorMachine) -> bool:
    """Whether transformed rows pay where all products of two filters find registers only, and half of what is
    loaded would be used once: if products are taken one after the other, and, of stride 2, whose small maps
    are not folded then, if vectors are full.

    Measured: 3 x 3 of 3 to 64 channels at 224 x 224 takes 1.8 instead of 2.2 ms, of 4 to 8 at 1080 x 1920
    13.4 instead of 17.5; of 2 channels at 1000 x 1000, or of 1, no less; of one column or two rows more.
    """
    along, down, lanes = c.horizontal, c.vertical, machine.lanes
    if c.group_channels * along.kernel >= FEW_TAPS:
        return along.stride == 1 or along.outputs >= _FULL * lanes * -(-along.outputs // lanes)
    if along.stride * down.stride > 1 or min(along.kernel, down.kernel) < _LEAST_SIDE:
        return False
    results = 4 * c.batch * c.filters * down.outputs * along.outputs
    return c.group_channels > 2 or (c.group_channels == 2 and results < STREAM_BYTES)


def no_form_none(c: Convolution) -> InputError:
    """What to say where form none was asked for and is not for `c`."""
    return InputError(
        f"form none at stride {c.horizontal.stride}",
        where="form",
        expected="stride 1 along the row: vectors are read straight from it; or stride 2, one channel of a "
        "group, elements side by side and a small kernel",
        fix="take polyphase or unrolled, or leave the choice open",
    )


def two_apart(c: Convolution) -> bool:
    """Whether every other element is read from the image itself: of one channel that is done once only."""
    return c.horizontal.stride == 2 and c.group_channels == 1


def combines(c: Convolution) -> bool:
    """Whether `choose` may take a form that combines rows, which carries what is not finite to others."""
    alone = c.group_filters == c.group_channels == 1
    return transforms(c) or (alone and c.vertical.stride == c.horizontal.stride == 1)


def transforms(c: Convolution) -> bool:
    """Whether rows can be transformed for `c`: neighbours, or every other one, and not too many."""
    axis = c.vertical
    return axis.kernel in TRANSFORMED.get(axis.stride, {}) and axis.dilation == 1 and axis.outputs > 1


def planes_in_place(c: Convolution, form: str) -> tuple[int, ...]:
    """The planes that strips have if they are filled from the image's own rows by vectors; none if not."""
    planes, step = plane_shifts(c.horizontal, row_form(c, form)), c.horizontal.stride
    if step > 2 or max(planes) >= step:
        return ()
    return planes


def read_in_place(c: Convolution, machine: VectorMachine) -> bool:
    """Whether the image is read where it is: few channels, or a strip for one vector would be too large."""
    return c.group_channels <= _DIRECT_CHANNELS or (
        strip_bytes(c, machine, "none", machine.lanes, 1) > strip_budget(c)
    )


def rows_missing(c: Convolution) -> bool:
    """Whether some output row reads beyond the image's first or last one."""
    axis = c.vertical
    return axis.before > 0 or (axis.outputs - 1) * axis.stride + axis.span > axis.size
