"""What a convolution kernel is called with: one block of 64-bit fields, and the tables that it points to.

    void kernel(const ConvArguments *args, size_t part)     part = 0 .. parts - 1, in any order, concurrently

Work is cut into units, batch x groups x bands x strips of them; a part takes an equal share. A unit is
`band_rows` output rows of a strip of columns, of all filters of a group.

    x, y                    addresses of the image's first element and of the result's
    packed                  the packed weights (see packing), `packed_group` bytes per group
    taps, strip_taps        per tap the bytes from where a block starts to what the tap reads: in the image,
                            in a strip
    tap_masks               per tap the bytes from a block's masks to those of the tap's loads
    tap_count               taps of a filter
    tiles, tile_count       channel tiles: TileEntry
    shares, share_tiles     shares of the tiles, each a unit of its own; tiles of a share (not more)
    strips, strip_count     strips of columns: StripEntry
    x_image .. x_row        bytes from image to image, group to group, channel to channel, row to row
    x_step                  bytes from one element that a plane of a strip takes to the next
    y_image .. y_row, y_element     the same of the result
    channels                of a group
    height, top             rows of the image; padding above it
    out_rows, band_rows, bands      output rows, those of a band (not more), bands; the last one ends with
                                    the image
    row_stride              image rows from output row to output row
    tile_step               rows of what is read from a tile to the next one below
    row_groups              of transformed rows: groups in a band
    stage_offset            of transformed rows: bytes from a part's strip to its stage, a channel's rows
    flags                   of transformed rows: a vector per part, NaN where a result is not finite
    lines                   image rows that a band reads
    strip_row               bytes of a row of a strip, all its planes
    planes                  planes of a row
    batch, groups, parts    units are batch x shares x groups x bands x strips
    scratch, scratch_bytes  memory for strips: 64-byte aligned, so many bytes for each part; contents
                            irrelevant

Every field of the tables is 64 bits wide as well.
"""

from __future__ import annotations

import ctypes

_ADDRESSES = ("x", "y", "packed", "taps", "strip_taps", "tap_masks", "tiles", "strips", "scratch", "flags")
_SIZES = (
    "packed_group",
    "tap_count",
    "tile_count",
    "shares",
    "share_tiles",
    "strip_count",
    "x_image",
    "x_group",
    "x_channel",
    "x_row",
    "x_step",
    "y_image",
    "y_group",
    "y_channel",
    "y_row",
    "y_element",
    "channels",
    "height",
    "top",
    "out_rows",
    "band_rows",
    "bands",
    "row_stride",
    "lines",
    "tile_step",
    "row_groups",
    "stage_offset",
    "strip_row",
    "planes",
    "batch",
    "groups",
    "parts",
    "scratch_bytes",
)


class ConvArguments(ctypes.Structure):
    """The argument block; see the module's text."""

    _fields_ = tuple((name, ctypes.c_int64) for name in (*_ADDRESSES, *_SIZES))


class TileEntry(ctypes.Structure):
    """A channel tile: its `outputs`, where its weights start (bytes), where its first channel is in y
    (bytes), and where in x what it reads begins (bytes): tiles that fill no strips may be those of several
    groups, which then count as one.
    """

    _fields_ = tuple((name, ctypes.c_int64) for name in ("outputs", "weights", "y", "x"))


class StripEntry(ctypes.Structure):
    """A strip: address and number of its BlockEntries, address of its PlaneEntries, bytes from an image row's
    first element to what the strip's first output is counted from.

    For strips that are filled in place: `source` bytes from an image row's first element to where the strip's
    begins, padding counted; then so many vectors, `before` with masks, `inside` without, `behind` with;
    `masks` is the address of the masks; `plane` the bytes of a plane of a row. Of folded maps there are
    `before` vectors, and `source` is the address of the bytes from the first fold's first image row to each
    piece of a vector, in the order in which they are loaded.
    """

    _fields_ = tuple(
        (name, ctypes.c_int64)
        for name in (
            "blocks",
            "block_count",
            "planes",
            "x",
            "source",
            "before",
            "inside",
            "behind",
            "masks",
            "plane",
        )
    )


class BlockEntry(ctypes.Structure):
    """A block of a strip: `kind` (see ConvTile.kind), where it reads (bytes from the
    strip's start), where it writes (bytes from the row's start), address of its masks, and valid outputs.

    Of folded maps `places` is the address of the bytes from a vector's place to that of each of its pieces,
    and the masks are those of the pieces of all vectors, for each row of a fold.
    """

    _fields_ = tuple((name, ctypes.c_int64) for name in ("kind", "x", "y", "masks", "columns", "places"))


class PlaneEntry(ctypes.Structure):
    """A plane of a strip's rows: `size` elements, of which `first` .. `last` - 1 are taken from the image,
    x_step apart, the others zero. Element `first` lies `x` bytes from the image row's first element."""

    _fields_ = tuple((name, ctypes.c_int64) for name in ("x", "first", "last", "size"))
