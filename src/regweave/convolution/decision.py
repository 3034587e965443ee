"""Which kernel a convolution gets for arrays as they lie in memory: of planes, or of channels last.

    c = convolution_of((1, 256, 56, 56), (64, 256, 1, 1))
    steps = [dense_strides(shape, "nhwc") for shape in (c.image_shape, c.out_shape)]
    decide(c, AVX512, *steps)    # all 3136 pixels in one row; LastChoice: 14 pixels x 2 vectors of filters

`conv2d` runs what is decided here and `plan_conv` tells of it, so a plan cannot say anything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from regweave.cascades.running import STREAM_BYTES
from regweave.convolution.channels_last.banded import BandChoice, PlanesAsked, can_band, choose_bands
from regweave.convolution.channels_last.choice import LastChoice, choose_last, choose_planar
from regweave.convolution.planes.choice import choose
from regweave.convolution.planes.chosen import Choice
from regweave.convolution.planes.strips import LINE, untransformed
from regweave.machines.x86 import VectorMachine, lines_clash
from regweave.operators import Axis, Convolution, Elementwise
from regweave.values import frozen

ORDERS = ("nchw", "nhwc")
#: Channels whose rows are read by turns, at most.
_CLOSE = 8


@frozen
class Decision:
    """The convolution that is run, bytes from one image, channel, row and element to the next of its image
    and its result, and how it is run."""

    convolution: Convolution
    x_strides: tuple[int, ...]
    y_strides: tuple[int, ...]
    choice: Choice | LastChoice | BandChoice


def decide(
    c: Convolution,
    machine: VectorMachine,
    x_strides: tuple[int, ...],
    y_strides: tuple[int, ...],
    *,
    form: str | None = None,
    stream: bool = False,
    late: bool = False,
    epilogue: tuple[Elementwise, ...] = (),
    threads: int = 1,
    separable: bool = False,
    planes: bool = False,
    alike: bool = False,
) -> Decision:
    """What runs `c` on arrays of these strides; `form` insists on one.

    `stream`: results pass the caches; `late`, `separable` as in `choice.choose`; `planes`: those kernels,
    even where a plane is one pixel, and so the channels lie side by side; `alike`: each channel has the same
    kernel. Errors: InputError for a form that
    is not for `c`.
    """
    c, x_strides, y_strides = _in_one_row(c, x_strides, y_strides)
    if alike and not planes and c.channels < machine.lanes:  # more fill vectors as they are
        c, x_strides, y_strides = _in_one_plane(c, x_strides, y_strides)
    settings = {"epilogue": epilogue, "threads": threads, "form": form}
    if not planes and _side_by_side(c, x_strides, y_strides):
        dense, joined = x_strides[3] == 4 * c.channels, y_strides[3] == 4 * c.filters
        banded, last = dense and joined and can_band(c, machine), None
        if form in (None, untransformed(c)):
            last = choose_last(
                c, machine, stream=stream, dense=dense, joined=joined, banded=banded, **settings
            )
        if last is not None:
            return Decision(c, x_strides, y_strides, last)
        if banded:
            asked = PlanesAsked(machine, form, epilogue, separable)
            return Decision(c, x_strides, y_strides, choose_bands(c, asked, stream=stream))
    if not planes and x_strides[3] == y_strides[3] == 4:
        planar = choose_planar(c, machine, epilogue=epilogue, form=form)
        if planar is not None:
            return Decision(c, x_strides, y_strides, planar)
    choice = choose(
        c,
        machine,
        neighbours=x_strides[3] == 4,
        dense=y_strides[3] == 4,
        stream=stream and y_strides[3] == 4,
        late=late,
        separable=separable,
        clash=any(lines_clash(x_strides[1] * apart) for apart in range(1, min(c.group_channels, _CLOSE))),
        **settings,
    )
    return Decision(c, x_strides, y_strides, choice)


def streams(
    machine: VectorMachine, y_strides: Sequence[int], size: int, columns: int, address: int = 0
) -> bool:
    """Whether a result of `size` bytes passes the caches: a large one that is laid out in whole vectors, of
    elements or of pixels of several filters that follow one another in rows of `columns`."""
    step = max(machine.vector_bytes, LINE)
    images, filters, rows, elements = y_strides
    joined = filters == 4 and rows == columns * elements
    others = (address, images, rows) if joined else (address, *y_strides)
    aligned = 4 in y_strides and not any(n % step for n in others if n != 4)
    return aligned and size >= STREAM_BYTES


def dense_strides(shape: Sequence[int], order: str = "nchw") -> tuple[int, ...]:
    """Bytes from one image, channel, row and element to the next of a densely packed float32 array
    [batch, channels, height, width], or, of order nhwc, [batch, height, width, channels]."""
    if order == "nchw":
        return tuple(4 * prod(shape[axis + 1 :]) for axis in range(4))
    _, channels, height, width = shape
    # elements of a row that has one lie side by side, as NumPy leaves it open
    return 4 * channels * height * width, 4, 4 * channels * width, 4 if width == 1 else 4 * channels


def _side_by_side(c: Convolution, x_strides: tuple[int, ...], y_strides: tuple[int, ...]) -> bool:
    """Whether channels, and filters, lie side by side in memory, and the elements of a row do not."""
    one = c.vertical.size == c.horizontal.size == 1  # pixel: both orders are the same
    rows = x_strides[3] == y_strides[3] == 4 and not one
    return not rows and (x_strides[1] == 4 or c.channels == 1) and (y_strides[1] == 4 or c.filters == 1)


def _in_one_row(
    c: Convolution, x_strides: tuple[int, ...], y_strides: tuple[int, ...]
) -> tuple[Convolution, tuple[int, ...], tuple[int, ...]]:
    """The same convolution and strides, as one row where places are independent and rows follow one another.

    Of rows of 28 results the second vector is three quarters full; 28 of them are 49 whole vectors.
    """
    independent = all(axis == Axis(axis.size, 1) for axis in c.axes)
    height, width = c.vertical.size, c.horizontal.size
    if not independent or any(s[2] != width * s[3] for s in (x_strides, y_strides)):
        return c, x_strides, y_strides
    row = replace(c, vertical=Axis(1, 1), horizontal=Axis(height * width, 1))
    x, y = ((*s[:2], height * width * s[3], s[3]) for s in (x_strides, y_strides))
    return row, x, y


def _in_one_plane(
    c: Convolution, x_strides: tuple[int, ...], y_strides: tuple[int, ...]
) -> tuple[Convolution, tuple[int, ...], tuple[int, ...]]:
    """The same convolution of all channels by one kernel, as one plane whose taps are a pixel apart, where
    the channels of neighbouring pixels follow one another: a photograph that is blurred."""
    axis, pixel = c.horizontal, 4 * c.channels
    joined = (x_strides[1], x_strides[3], y_strides[1], y_strides[3]) == (4, pixel, 4, pixel)
    if not joined or axis.stride > 1 or c.channels != c.groups or c.filters != c.groups or c.channels == 1:
        return c, x_strides, y_strides
    size, before, after = (c.channels * n for n in (axis.size, axis.before, axis.after))
    one = replace(axis, size=size, before=before, after=after, dilation=axis.dilation * c.channels)
    plane = replace(c, channels=1, filters=1, groups=1, horizontal=one)
    return plane, (x_strides[0], 0, x_strides[2], 4), (y_strides[0], 0, y_strides[2], 4)
