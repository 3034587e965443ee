"""Convolutions in OpenCL C as people write them, to stand beside ours on the same device.

`NAIVE` is the textbook's: a work-item for each output, loops over channels and taps, and for each tap the
question whether it lies within the image. `PADDED` asks nothing, for somebody else has copied the image into
zeros beforehand; it is the most that a plain kernel can be. `COLUMNS` and `PRODUCT` are im2col and a product
of matrices: a work-item keeps `FILTERS` x `COUNT` sums in vectors, so that each word of the columns serves
all these filters and each weight the whole vector. Sizes are arguments (`SIZES`) or constants, whichever is
faster; those of `PRODUCT`, which decide about registers, are constants. `ELEMENTS` says how image and result
are stored; weights, columns and sums are f32.
"""

from __future__ import annotations

#: The sizes that `SIZES` stands for, in their order.
SIZES = (
    *("channels", "height", "width", "filters", "rows", "columns", "kernel_rows", "kernel_columns"),
    *("down", "along", "top", "left", "spread_down", "spread_along", "groups"),
)

#: Above a kernel: the stored element, and how one is read and written.
ELEMENTS = {
    "f32": """
#define ELEMENT float
#define GET(p, i) (p)[i]
#define PUT(p, i, value) (p)[i] = (value)
#define PUT16(p, i, value) vstore16(value, i, p)
""",
    "f16": """
#define ELEMENT half
#define GET(p, i) vload_half(i, p)
#define PUT(p, i, value) vstore_half_rte(value, i, p)
#define PUT16(p, i, value) vstore_half16_rte(value, i, p)
""",
}

NAIVE = """
kernel void naive(global const ELEMENT *x, global const float *w, global ELEMENT *y SIZES) {
    const int column = get_global_id(0), row = get_global_id(1), plane = get_global_id(2);
    const int filter = plane % filters, image = plane / filters;
    const int deep = channels / groups, first = image * channels + filter / (filters / groups) * deep;
    float sum = 0.0f;
    for (int c = 0; c < deep; ++c)
        for (int i = 0; i < kernel_rows; ++i)
            for (int j = 0; j < kernel_columns; ++j) {
                const int a = row * down + i * spread_down - top;
                const int b = column * along + j * spread_along - left;
                if (a >= 0 && a < height && b >= 0 && b < width)
                    sum += GET(x, ((first + c) * height + a) * width + b)
                         * w[((filter * deep + c) * kernel_rows + i) * kernel_columns + j];
            }
    PUT(y, (plane * rows + row) * columns + column, sum);
}
"""

PADDED = """
kernel void padded(global const ELEMENT *x, global const float *w, global ELEMENT *y SIZES) {
    const int column = get_global_id(0), row = get_global_id(1), plane = get_global_id(2);
    const int filter = plane % filters, image = plane / filters;
    const int deep = channels / groups, first = image * channels + filter / (filters / groups) * deep;
    float sum = 0.0f;
    for (int c = 0; c < deep; ++c)
        for (int i = 0; i < kernel_rows; ++i)
            for (int j = 0; j < kernel_columns; ++j)
                sum += GET(x, ((first + c) * height + row * down + i * spread_down) * width
                              + column * along + j * spread_along)
                     * w[((filter * deep + c) * kernel_rows + i) * kernel_columns + j];
    PUT(y, (plane * rows + row) * columns + column, sum);
}
"""

COLUMNS = """
kernel void columns_of(global const ELEMENT *x, global float *held, int first SIZES) {
    const int column = get_global_id(0), row = get_global_id(1), tap = get_global_id(2);
    const int j = tap % kernel_columns, i = tap / kernel_columns % kernel_rows;
    const int channel = tap / kernel_columns / kernel_rows;
    const int a = (first + row) * down + i * spread_down - top, b = column * along + j * spread_along - left;
    const bool inside = a >= 0 && a < height && b >= 0 && b < width;
    held[((size_t)tap * get_global_size(1) + row) * columns + column] =
        inside ? GET(x, (channel * height + a) * width + b) : 0.0f;
}
"""

PRODUCT = """
kernel void product(
    global const float *w, global const float *held, global ELEMENT *y, int first, int count) {
    const int n = min((int)get_global_id(0) * COUNT, count - COUNT);
    const int block = get_global_id(1), group = get_global_id(2);
    const int filter = min(block * FILTERS, GROUP_FILTERS - FILTERS);
    held += (size_t)group * DEPTH * count + n;
    w += (group * BLOCKS + block) * DEPTH * FILTERS;
    float16 one[FILTERS], other[FILTERS];
    for (int f = 0; f < FILTERS; ++f)
        one[f] = other[f] = 0.0f;
    for (int k = 0; k < DEPTH; ++k) {
        const float16 a = vload16(0, held + (size_t)k * count), b = vload16(1, held + (size_t)k * count);
        for (int f = 0; f < FILTERS; ++f) {
            one[f] = fma(a, (float16)(w[k * FILTERS + f]), one[f]);
            other[f] = fma(b, (float16)(w[k * FILTERS + f]), other[f]);
        }
    }
    for (int f = 0; f < FILTERS; ++f) {
        global ELEMENT *to = y + (size_t)(group * GROUP_FILTERS + filter + f) * PLANE + first + n;
        PUT16(to, 0, one[f]);
        PUT16(to, 1, other[f]);
    }
}
"""
"""For a strip of columns, [channels * taps, count], that begins at `first` of each plane of the result."""

COUNT = 32
"""Results of a plane that a work-item of `PRODUCT` computes: two vectors."""
