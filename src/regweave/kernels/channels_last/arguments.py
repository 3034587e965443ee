"""What a kernel for channels last is called with: one block of 64-bit fields, and tables that it points to.

    void kernel(const LastArguments *args, size_t part)     part = 0 .. parts - 1, in any order, concurrently

Work is cut into units, batch x shares x bands x windows of them: some output rows of some columns, of a share
of the filters. All bands are equally high and all windows equally wide, the last ones begin earlier and do
some results again, so every unit walks the same table of tiles.

    x, y                    addresses of the image's first element and of the result's
    packed                  the packed weights
    bands, windows          BandEntry, WindowEntry
    spans                   the pixels of a tile: SpanEntry, so many for each tile
    filters                 FilterEntry: what is done with each tile of pixels
    runs                    of each run of neighbouring elements that a pixel reads: bytes from the end of the
                            run before to its start (from the pixel's start for the first)
    run_count, run_length   runs of a filter; steps of each: elements, or as many as lanes share a filter
    run_tail                elements of a run behind its steps
    piece_runs              runs that are summed in one chain (in one piece of the sum)
    share_filters           filter entries of a share (not more)
    x_image, x_row, x_pixel bytes from image to image, row to row, pixel to pixel
    x_step                  bytes from what an output pixel reads to what its neighbour in a span does
    x_element               bytes from an element of a pixel to the next one, where these are planes
    y_channel               bytes from plane to plane of the result
    y_image, y_row, y_pixel     of the result; y_pixel from a span's pixel to the next
    height, width           of the image, where strips are filled
    lines                   image rows that a band reads
    window_pixels           image pixels of a row that a window reads
    pixel_bytes             bytes of a pixel in a strip, all channels of it
    dense                   1: an image row's pixels follow one another in memory
    strip_row               bytes of a row of a strip
    vectors, last_vector    of channels in lanes: how many; bytes from the first channel to the last vector
    columns                 output pixels of a row of a window
    stage_offset            of products that are staged: bytes from the strip to them; bytes from a product of
    stage_plane, stage_pixel    all pixels to the next one, from pixel to pixel
    group_bytes             bytes from the image rows of a group of transformed rows to those of the next
    zero_bytes              bytes of a line of zeros that a part's memory begins with
    flags                   of transformed rows: a vector per part, NaN where a result is not finite
    scratch, scratch_bytes  memory for strips: 64-byte aligned, so many bytes for each part
"""

from __future__ import annotations

import ctypes

_ADDRESSES = ("x", "y", "packed", "bands", "windows", "spans", "filters", "runs", "scratch", "flags")
_SIZES = (
    "run_count",
    "run_length",
    "run_tail",
    "piece_runs",
    "filter_count",
    "shares",
    "share_filters",
    "band_count",
    "window_count",
    "x_image",
    "x_row",
    "x_pixel",
    "x_step",
    "x_element",
    "y_channel",
    "y_image",
    "y_row",
    "y_pixel",
    "height",
    "width",
    "lines",
    "window_pixels",
    "pixel_bytes",
    "dense",
    "strip_row",
    "columns",
    "stage_offset",
    "stage_plane",
    "stage_pixel",
    "group_bytes",
    "zero_bytes",
    "vectors",
    "last_vector",
    "batch",
    "parts",
    "scratch_bytes",
)


class LastArguments(ctypes.Structure):
    """The argument block; see the module's text."""

    _fields_ = tuple((name, ctypes.c_int64) for name in (*_ADDRESSES, *_SIZES))


class BandEntry(ctypes.Structure):
    """A band of output rows: its first image row (padding counts), bytes to where it reads and writes, and a
    bit for each image row from the first on that exists.

    Of transformed rows only the last band is lower than the others: `height` output rows, in `groups` groups,
    the results of `tiles` tiles.
    """

    _fields_ = tuple(
        (name, ctypes.c_int64) for name in ("line", "x", "y", "rows", "height", "groups", "tiles")
    )


class WindowEntry(ctypes.Structure):
    """Columns of a band: the first image pixel (padding counts), bytes to where it reads and writes."""

    _fields_ = tuple((name, ctypes.c_int64) for name in ("pixel", "x", "y"))


class SpanEntry(ctypes.Structure):
    """Output pixels that are `x_step` and `y_pixel` bytes apart: bytes from the band's start in its window to
    where they read and write, a bit for each image pixel from the first on that exists, and the output row of
    the band."""

    _fields_ = tuple((name, ctypes.c_int64) for name in ("x", "y", "columns", "row"))


class FilterEntry(ctypes.Structure):
    """A tile of filters: how many vectors, bytes to its weights, its channels in x, its filters in y, and
    the address of the mask of its last vector; where lanes share a filter, of the masks of a vector's pixels.
    Of products that are staged there is an entry for each; y is then where they are staged, `result` the
    bytes to the filters in y, `done` 1 for the last product."""

    _fields_ = tuple(
        (name, ctypes.c_int64) for name in ("vectors", "weights", "x", "y", "mask", "result", "done")
    )
